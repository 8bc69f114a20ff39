"""A sweep against a real OpenAI-compatible server on loopback, with its faults: every attempt is a row, and nothing is free."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.openai_chat import BROKEN, LIMITED, OVERLOADED, ChatServer, Reply
from tests.sweep.conftest import Sweep


@contextmanager
def serving(**settings: Any) -> Iterator[ChatServer]:
    """The server in a thread with an event loop of its own, since the sweep runs one in this thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ChatServer(**settings)

    def call(function: Callable[[], Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(function(), loop).result(10)

    call(server.__aenter__)
    try:
        yield server
    finally:
        call(lambda: server.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def arguments(server: ChatServer) -> list[str]:
    return ["model=openai_compatible", f"model.base_url={server.url}", "model.model=m", "dataset=one_question", "retry.first_wait_s=0.001"]


def test_faults_are_retried_and_each_attempt_is_stored_and_charged(sweep: Sweep) -> None:
    script = [LIMITED, OVERLOADED, BROKEN, Reply(text="42")]
    with serving(answer=lambda *_: Reply(text="42"), script=script) as server:
        outcome = sweep(*arguments(server), "strategy=single")
        assert outcome.code == 0, outcome.out
        assert server.count == 4
    calls = outcome.study.sql("SELECT attempt, status, error_kind, output_tokens FROM calls ORDER BY attempt")
    assert calls["attempt"].tolist() == [1, 2, 3, 4]
    assert calls["status"].tolist() == ["error", "error", "error", "ok"]
    solution = outcome.one("SELECT * FROM solutions")
    assert (solution["charged_calls"], solution["selected"], solution["answer"]) == (4, True, "42")
    unknown = calls["output_tokens"].isna().sum()
    assert unknown >= 1
    assert solution["charged_output_tokens"] >= 256 * unknown, "unknown usage keeps its reservation"


def test_a_limit_on_calls_refuses_the_retry(sweep: Sweep) -> None:
    with serving(answer=lambda *_: Reply(text="42"), script=[OVERLOADED] * 10) as server:
        outcome = sweep(*arguments(server), "strategy=single", "limits.problem.calls=2")
        assert server.count == 2
    assert outcome.one("SELECT * FROM solutions")["stop_reason"] == "call_budget"


def test_a_wrong_key_ends_the_cell_and_is_not_shown(sweep: Sweep, monkeypatch: Any) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123456789")
    with serving(answer=lambda *_: Reply(text="42"), script=[Reply(status=401, text="bad key sk-planted-0123456789")] * 5) as server:
        outcome = sweep(*arguments(server), "model.api_key_env=PLANTED_KEY", "strategy=self_consistency_4")
    assert outcome.code == 1
    assert "authentication" in outcome.out
    stored = outcome.path.read_bytes() + b"".join(file.read_bytes() for file in outcome.path.with_suffix(".journal").iterdir())
    assert b"sk-planted" not in stored + outcome.out.encode() + outcome.err.encode()


def test_a_missing_key_is_named_before_anything_is_sent(sweep: Sweep) -> None:
    with serving(answer=lambda *_: Reply(text="42")) as server:
        outcome = sweep(*arguments(server), "model.api_key_env=NO_SUCH_VARIABLE_HERE")
        assert server.count == 0
    assert outcome.code == 2
    assert "NO_SUCH_VARIABLE_HERE" in outcome.err
