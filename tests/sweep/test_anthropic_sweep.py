"""A sweep with a shipped Claude config against a local Messages server: what was sent, used, paid and cut is in the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.servers.anthropic import OVERLOADED, MessagesServer, Reply, say, think
from tests.sweep.conftest import Sweep


@contextmanager
def serving(server: MessagesServer) -> Iterator[MessagesServer]:
    """The server in a thread with an event loop of its own, since the sweep runs one in this thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

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


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789")


def arguments(server: MessagesServer, model: str) -> list[str]:
    base = [f"model={model}", f"model.base_url={server.url}", "dataset=one_question", "sampling.temperature=null"]
    return [*base, "strategy=single", "retry.first_wait_s=0.001"]


def test_a_budget_is_sent_used_and_paid_for(sweep: Sweep) -> None:
    answer = Reply([think("six times seven"), say("42")])
    with serving(MessagesServer([OVERLOADED, answer])) as server:
        outcome = sweep(*arguments(server, "anthropic_haiku_4_5"), "thinking=budget", "thinking.budget=1024")
        assert outcome.code == 0, outcome.out
        body = server.bodies[-1]
    assert (body["max_tokens"], body["thinking"]) == (1280, {"type": "enabled", "budget_tokens": 1024})
    calls = outcome.study.sql("SELECT * FROM calls ORDER BY attempt")
    assert calls["error_kind"].tolist()[0] == "overloaded"
    last = calls.iloc[-1]
    assert (last["thinking_text"], last["reasoning_tokens"], last["output_tokens"]) == ("six times seven", 3, 4)
    assert float(last["cost_usd"]) == pytest.approx((last["input_tokens"] + 5 * 4) / 1e6)
    assert outcome.one("SELECT * FROM solutions")["answer"] == "42"
    stored = outcome.path.read_bytes() + outcome.out.encode() + outcome.err.encode()
    assert b"planted" not in stored


def test_an_error_inside_a_stream_is_a_row_of_its_own_and_its_text_is_not_graded(sweep: Sweep) -> None:
    broken = Reply([say("41 and on and on")], fault="error_event", error=("overloaded_error", "busy"))
    with serving(MessagesServer([broken, Reply([say("42")])])) as server:
        outcome = sweep(*arguments(server, "anthropic_haiku_4_5"), "thinking=off")
        assert server.count == 2
    calls = outcome.study.sql("SELECT status, error_kind, http_status, answer_text, usage_source FROM calls ORDER BY attempt")
    assert calls["status"].tolist() == ["error", "ok"]
    first = calls.iloc[0]
    assert (first["error_kind"], first["http_status"], first["usage_source"]) == ("overloaded", 200, "unknown")
    assert "41 and on".startswith(first["answer_text"][:9])
    assert outcome.one("SELECT * FROM solutions")["answer"] == "42"


def test_thinking_that_is_not_disclosed_is_an_empty_text_and_not_null(sweep: Sweep) -> None:
    with serving(MessagesServer([Reply([think("hidden from you"), say("42")], omit=True)])) as server:
        outcome = sweep(*arguments(server, "anthropic_opus_5_5"), "thinking=effort", "thinking.effort=low")
        assert outcome.code == 0, outcome.out
        assert server.bodies[0]["output_config"] == {"effort": "low"}
    row = outcome.one("SELECT thinking_text, reasoning_tokens FROM calls")
    assert (row["thinking_text"], row["reasoning_tokens"]) == ("", 3)


def test_an_answer_that_thinking_left_no_room_for_is_cut_and_does_not_vote(sweep: Sweep) -> None:
    reply = Reply([think(" ".join(["why"] * 1000)), say("so " * 400)])
    with serving(MessagesServer([reply])) as server:
        outcome = sweep(*arguments(server, "anthropic_haiku_4_5"), "thinking=budget", "thinking.budget=1024")
    assert outcome.one("SELECT stop_reason, complete FROM calls")["stop_reason"] == "max_tokens"
    assert outcome.one("SELECT outcome FROM problem_outcomes")["outcome"] == "truncated"
    assert "raise answer_tokens" in " ".join(outcome.out.split())


def test_a_form_that_the_model_does_not_take_sends_nothing(sweep: Sweep) -> None:
    with serving(MessagesServer()) as server:
        outcome = sweep(*arguments(server, "anthropic_opus_5"), "thinking=budget", "thinking.budget=2048")
        assert (outcome.code, server.count) == (2, 0)
    assert "it takes: off, effort (low, medium, high, xhigh, max), adaptive" in " ".join(outcome.err.split())
