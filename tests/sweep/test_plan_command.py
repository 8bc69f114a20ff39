"""The plan of a sweep against the sweep itself: what it says will be sent is sent, and what it bounds is not exceeded."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.openai_chat import BROKEN, OVERLOADED, Reply
from tests.sweep.conftest import Outcome, Sweep
from tests.sweep.test_providers import serving
from ttc_eval.cli import main
from ttc_eval.commands.plan import foreseen
from ttc_eval.shown import unknown
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.plan import Forecast, conversation_left_out
from ttc_eval.sweep.prepare import prepare

SIMULATED = ["model=simulated", "dataset=quickstart", "model.price.own={input: 1, output: 4}"]
Foresee = Callable[..., Forecast]


@pytest.fixture
def foresee(tmp_path: Path) -> Foresee:
    def look(*arguments: str, study: str = "t") -> Forecast:
        given = [f"results_dir={tmp_path}", f"study={study}", *arguments]
        return foreseen(prepare([plain(config) for config in compose(given)], given, to_run=False))

    return look


def billed(outcome: Outcome, before: float = 0.0) -> dict[str, Any]:
    """What the calls of a study since a moment were billed, unknown usage at its reservation."""
    return outcome.one(
        f"""SELECT count(*) AS calls, sum(coalesce(input_tokens, reserved_input_tokens)) AS input_tokens,
                   sum(coalesce(output_tokens, reserved_output_tokens)) AS output_tokens, sum(coalesce(cost_usd, reserved_usd)) AS usd
            FROM calls WHERE started_at > {before}"""
    )


def bounds(forecast: Forecast, spent: dict[str, Any], *, retried: bool = False) -> bool:
    limit = forecast.retried if retried else forecast.bound
    assert limit is not None
    names = ("calls", "input_tokens", "output_tokens", "usd")
    return all((0.0 if unknown(spent[name]) else float(spent[name])) <= float(getattr(limit, name)) + 1e-9 for name in names)


GRID = ["-m", *SIMULATED, "dataset.limit=15", "thinking=budget", "thinking.budget=0,32"]


@pytest.mark.parametrize(
    "arguments",
    [
        [*GRID, "strategy=single,self_consistency_4,self_consistency_8"],
        [*GRID, "strategy=best_of_n", "verifier=outcome"],
        [*GRID, "strategy=self_consistency", "strategy.early_stop=false", "strategy.max_attempts=3", "strategy.parallel=3"],
        [*GRID, "strategy=self_consistency_4", "limits.problem.calls=2"],
        [*GRID, "strategy=self_consistency_4", "limits.problem.output_tokens=300"],
        [*GRID, "strategy=self_consistency_4", "limits.cell.output_tokens=9000"],
        ["-m", *SIMULATED, "dataset.limit=8", "strategy=single", "seed=0,1,2"],
    ],
    ids=["shared", "verified", "parallel", "calls", "output", "cell", "seeds"],
)
def test_a_sweep_stays_within_its_plan_and_a_plan_of_it_again_is_empty(arguments: list[str], foresee: Foresee, sweep: Sweep) -> None:
    before = foresee(*arguments)
    outcome = sweep(*arguments)
    assert outcome.code == 0, outcome.out
    spent = billed(outcome)
    assert bounds(before, spent)
    assert spent["calls"] > 0
    after = foresee(*arguments)
    assert after.bound is not None
    assert (after.bound.calls, after.bound.output_tokens, [cell.problems for cell in after.cells]) == (0, 0, [0] * len(after.cells))


def test_the_count_of_calls_is_exact_where_nothing_stops_early(foresee: Foresee, sweep: Sweep) -> None:
    arguments = [
        "-m",
        *SIMULATED,
        "dataset.limit=10",
        "strategy=self_consistency",
        "strategy.early_stop=false",
        "strategy.max_attempts=2,5",
    ]
    before = foresee(*arguments)
    assert before.bound is not None
    assert [(cell.draws, cell.stored) for cell in before.cells] == [(20, 0), (30, 20)], "draws that cells share count once"
    outcome = sweep(*arguments)
    assert billed(outcome)["calls"] == before.bound.calls == 50


def test_draws_that_are_stored_are_left_out(foresee: Foresee, sweep: Sweep) -> None:
    base = [*SIMULATED, "dataset.limit=10", "strategy=self_consistency", "strategy.early_stop=false"]
    sweep(*base, "strategy.max_attempts=3")
    before = foresee(*base, "strategy.max_attempts=5")
    assert (before.cells[0].draws, before.cells[0].stored) == (20, 30)
    outcome = sweep(*base, "strategy.max_attempts=5")
    assert outcome.one("SELECT count(*) AS n FROM calls")["n"] == 50


def test_draws_of_a_budget_forced_in_segments_are_bounded_and_left_out(foresee: Foresee, sweep: Sweep) -> None:
    # The embedded model forces budgets by continuing a prefix: a draw is several requests.
    base = ["model=smollm2", "dataset=quickstart", "dataset.limit=2", "thinking=budget", "thinking.budget=8", "answer_tokens=4"]
    base += ["thinking.at_limit=extend", "sampling.temperature=1.0"]
    try:
        before = foresee(*base, "strategy=self_consistency", "strategy.max_attempts=2", "strategy.early_stop=false")
    except Exception as error:
        pytest.skip(f"no embedded model here: {error}")
    assert before.cells[0].segments == 3
    outcome = sweep(*base, "strategy=self_consistency", "strategy.max_attempts=2", "strategy.early_stop=false")
    assert outcome.code == 0, outcome.out
    assert bounds(before, billed(outcome))
    after = foresee(*base, "strategy=self_consistency", "strategy.max_attempts=3", "strategy.early_stop=false")
    assert (after.cells[0].draws, after.cells[0].stored) == (2, 4)


def test_retries_are_within_the_second_bound(foresee: Foresee, sweep: Sweep) -> None:
    with serving(answer=lambda *_: Reply(text="42", usage=None), script=[OVERLOADED, BROKEN, Reply(fault="cut"), BROKEN, BROKEN]) as server:
        base = ["model=openai_compatible", f"model.base_url={server.url}", "model.model=m", "model.price.own={input: 1, output: 4}"]
        arguments = [*base, "dataset=quickstart", "dataset.limit=3", "retry.first_wait_s=0.001", "model.max_concurrency=1"]
        before = foresee(*arguments)
        assert server.count == 0
        outcome = sweep(*arguments)
        assert server.count > 3
    assert bounds(before, billed(outcome), retried=True)
    assert not bounds(before, billed(outcome))


def test_what_the_plan_shows_is_what_is_posted(foresee: Foresee, sweep: Sweep) -> None:
    with serving(answer=lambda *_: Reply(text="42", thinking="hm")) as server:
        base = ["model=vllm", f"model.base_url={server.url}", "dataset=one_question", "thinking=budget", "thinking.budget=100"]
        cell = foresee(*base, "+model.extra_body={top_k: 20}").cells[0]
        assert sweep(*base, "+model.extra_body={top_k: 20}").code == 0
        assert cell.body == conversation_left_out(server.bodies[0])
        assert cell.body is not None
        assert (cell.body["thinking_token_budget"], cell.body["max_tokens"], cell.cap, cell.body["top_k"]) == (100, 356, 356, 20)


def test_what_a_config_says_of_chat_is_typed_and_sent(foresee: Foresee, sweep: Sweep) -> None:
    with serving(answer=lambda *_: Reply(text="<think>hm hm</think>42")) as server:
        base = ["model=vllm", f"model.base_url={server.url}", "dataset=one_question", "thinking=budget", "thinking.budget=64"]
        more = ["+model.forms={budget: {limit: '{budget}'}}", "model.think_tags={open: '<think>', close: '</think>', opened: false}"]
        cell = foresee(*base, *more).cells[0]
        assert cell.body is not None
        assert cell.body["limit"] == 64
        outcome = sweep(*base, *more)
        assert server.bodies[0]["limit"] == 64
    assert outcome.one("SELECT answer_text, thinking_text FROM calls") == {"answer_text": "42", "thinking_text": "hm hm"}
    assert outcome.one("SELECT selected, answer FROM solutions") == {"selected": True, "answer": "42"}


def test_the_limit_of_a_sweep_bounds_the_sum(foresee: Foresee) -> None:
    found = foresee(*SIMULATED, "limits.sweep.calls=7", "limits.sweep.usd=0.0001")
    assert found.bound is not None
    assert (found.bound.calls, str(found.bound.usd)) == (7, "0.0001")


def test_expected_is_unknown_until_there_are_draws_like_these(foresee: Foresee, sweep: Sweep) -> None:
    base = [*SIMULATED, "strategy=self_consistency_4"]
    assert foresee(*base).expected is None
    outcome = sweep(*base, "dataset.limit=40")
    spent = billed(outcome)
    found = foresee(*base, "seed=1", "dataset.limit=40")
    assert found.expected is not None
    assert found.bound is not None
    assert found.expected.output_tokens < found.bound.output_tokens
    assert found.expected.calls == pytest.approx(spent["calls"], rel=0.02), "the same strategy stops as early as before"
    assert found.expected.output_tokens == pytest.approx(spent["output_tokens"], rel=0.02)
    assert float(found.expected.usd) == pytest.approx(spent["usd"], rel=0.05)
    assert foresee(*base, "seed=1", "thinking=budget", "thinking.budget=16").expected is None, "another thinking is not like these"


def test_a_strategy_that_does_not_say_is_unknown_and_not_zero(foresee: Foresee, tmp_path: Path) -> None:
    (tmp_path / "mine" / "strategy").mkdir(parents=True)
    (tmp_path / "mine" / "strategy" / "silent.yaml").write_text("_target_: tests.sweep.broken.DefectiveStrategy\n")
    found = foresee("--config-dir", str(tmp_path / "mine"), *SIMULATED, "strategy=silent")
    assert (found.bound, found.expected, found.cells[0].draws) == (None, None, None)


def test_the_command_shows_the_cells_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def no(*to: object, **__: object) -> None:
        tried.append(to)
        raise OSError("a plan connects nowhere")

    monkeypatch.setattr(socket.socket, "connect", no)
    monkeypatch.setattr(socket, "getaddrinfo", no)
    folder = tmp_path / "new"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-something")
    assert main(["plan", "-m", "experiment=simulated", f"results_dir={folder}"]) == 0
    out = capsys.readouterr().out
    assert "self_consistency@8" in out
    assert "expected by stored draws: unknown" in out
    assert "nothing was sent" in out
    assert not folder.exists()
    assert main(["plan", "model=vllm", "thinking=budget", "thinking.budget=64", "dataset=quickstart", f"results_dir={folder}"]) == 0
    out = capsys.readouterr().out
    assert "thinking_token_budget: 64" in out
    assert "no price is known for qwen3-8b-vllm" in out
    assert tried == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["model=openai_compatible", "model.base_url=http://h/v1", "model.model=m", "model.api_key_env=NO_SUCH_KEY_HERE"],
            "NO_SUCH_KEY_HERE",
        ),
        (["model=vllm", "limits.sweep.usd=1"], "no price"),
        (["model=vllm", "thinking=effort"], "does not take it"),
        (["model=deepseek_v4_pro", "thinking=budget"], "it takes: off"),
        (["model=vllm", "strategy=best_of_n"], "verifier"),
        (["model=vllm", "strategy.max_output_tokens=0"], "max_output_tokens"),
        (["model=nope"], "no such model"),
        (["model=vllm", "+model.extra_body.chat_template_kwargs.enable_thinking=true"], "extra_body"),
        (["--like", "nowhere.duckdb", "model=simulated"], "nowhere.duckdb"),
    ],
)
def test_what_a_sweep_refuses_is_refused_by_its_plan(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "dataset=one_question", *arguments]) == 2
    assert said in capsys.readouterr().err
    if "--like" not in arguments:
        assert main(["sweep", "dataset=one_question", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_the_help_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(["plan", "--help"])
    assert "--like" in capsys.readouterr().out
