"""Responses that their cap cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ttc_eval.records import CallStop, Response, Timings, Usage, UsageSource
from ttc_eval.truncation import advice, cut_of


def response(text: str = "", stop: CallStop = CallStop.MAX_TOKENS, thinking: str | None = None, reasoning: int | None = None) -> Response:
    return Response(
        text, stop, Usage(10, 900, reasoning_tokens=reasoning, source=UsageSource.PROVIDER), Timings(0, None, 0), thinking=thinking
    )


def test_recorded_truncations(shared: Any) -> None:
    cases = [json.loads(line) for line in (shared / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    seen = set()
    for case in (case for case in cases if case["kind"] == "thinking_budget" and "finish_reason" in case["input"]):
        given, expected = case["input"], case["expected"]
        cut = cut_of(
            response(given["content"] or "", reasoning=given["reasoning_tokens"]), given["max_tokens"], given.get("requested_budget")
        )
        assert cut is not None
        assert cut.where == {"thinking_exhausted": "thinking", "truncated": "answer"}[expected["outcome"]], case["id"]
        if "budget_violated" in expected:
            assert cut.over_budget == expected["budget_violated"]
            assert cut.thinking_used == expected["x_axis_tokens"]
        seen.add(case["id"])
    assert seen == {"thinking_budget-06", "thinking_budget-08", "thinking_budget-10"}


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (response("The answer is", thinking="hm", reasoning=10_000), "answer"),
        (response("", thinking="", reasoning=None), "thinking"),
        (response(" \n", thinking="hm"), "thinking"),
        (response("", thinking=None, reasoning=None), "answer"),
    ],
)
def test_where_a_response_was_cut(given: Response, where: str) -> None:
    cut = cut_of(given, 16_000, 10_000)
    assert cut is not None
    assert cut.where == where
    assert "raise the cap" in cut.advice


@pytest.mark.parametrize("stop", [stop for stop in CallStop if stop not in (CallStop.MAX_TOKENS, CallStop.CONTEXT_FULL)])
def test_a_response_that_ended_otherwise_was_not_cut(stop: CallStop) -> None:
    assert cut_of(response("4", stop), 16_000) is None


@pytest.mark.parametrize(("used", "left"), [(10_000, 6_000), (4_000, 12_000), (500, 15_500)])
def test_the_advice_is_to_raise_the_cap_and_says_what_thinking_left(used: int, left: int) -> None:
    said = advice(16_000, used)
    assert f"thinking used {used} and left {left} for the answer" in said
    assert "raise the cap with answer_tokens" in said
    assert said.endswith("do not lower the budget")


def test_the_advice_without_thinking_and_with_a_full_context() -> None:
    assert "budget and answer_tokens" in advice(100, 0)
    assert "lower" not in advice(100, 0)
    assert "which thinking and answer share" in advice(100, None)
    assert "which thinking and answer share" in advice(100, 101)
    cut = cut_of(response("The", CallStop.CONTEXT_FULL), 100)
    assert cut is not None
    assert "context window" in cut.advice
