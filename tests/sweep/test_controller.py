"""The bounded self-consistency controller of docs/strategies.md, from the command line: same replies, same result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sweep.conftest import Sweep

BASE = ["model=scripted", "strategy=self_consistency", "dataset=one_question"]
FIELDS = ("answer", "selected", "attempts", "valid", "charged_output_tokens", "stop_reason")


def solve(sweep: Sweep, replies: list[Any], *overrides: str, tokens: int = 12, code: int = 0) -> dict[str, Any]:
    listed = json.dumps(replies).replace('"text":', "text:").replace('"complete":', "complete:").replace('"usage_known":', "usage_known:")
    listed = listed.replace('"output_tokens":', "output_tokens:").replace('"error":', "error:")
    outcome = sweep(*BASE, f"model.replies={listed}", f"model.output_tokens={tokens}", *overrides)
    assert outcome.code == code, outcome.err + outcome.out
    return outcome.one("SELECT * FROM solutions")


def controller(attempts: int = 5, votes: int = 3, per_call: int = 32, total: int = 160) -> list[str]:
    return [
        f"strategy.max_attempts={attempts}",
        f"strategy.min_votes={votes}",
        f"strategy.max_output_tokens={per_call}",
        f"limits.problem.output_tokens={total}",
    ]


def test_the_published_example_gives_its_published_result(sweep: Sweep) -> None:
    row = solve(sweep, ["42", "41", "42", "42", "41"], *controller())
    assert {name: row[name] for name in FIELDS} == {
        "answer": "42",
        "selected": True,
        "attempts": 4,
        "valid": 4,
        "charged_output_tokens": 48,
        "stop_reason": "locked_plurality",
    }


def test_a_tie_ends_unresolved(sweep: Sweep) -> None:
    row = solve(sweep, ["42", "41"], *controller(attempts=2, votes=1))
    assert (row["selected"], row["answer"], row["stop_reason"], row["attempts"]) == (False, None, "attempt_limit", 2)


def test_malformed_and_incomplete_replies_cost_and_do_not_vote(sweep: Sweep) -> None:
    replies = ["42", "forty-two", {"text": "42", "complete": False}, "42 meters", "9223372036854775808"]
    row = solve(sweep, replies, *controller(votes=1))
    assert (row["attempts"], row["valid"], row["charged_output_tokens"]) == (5, 1, 60)
    assert (row["answer"], row["stop_reason"]) == ("42", "attempt_limit")


def test_spellings_of_one_integer_are_one_answer(sweep: Sweep) -> None:
    row = solve(sweep, ["+042", " 42 ", "42"], *controller(attempts=3, votes=3))
    assert (row["selected"], row["valid"], row["answer"], row["stop_reason"]) == (True, 3, "42", "locked_plurality")


def test_unknown_usage_keeps_the_cap(sweep: Sweep) -> None:
    row = solve(sweep, ["42", {"text": "42", "usage_known": False}, "42"], *controller(attempts=3, votes=3))
    assert row["charged_output_tokens"] == 12 + 32 + 12


def test_usage_outside_the_reserved_cap_is_an_error_and_ends_the_cell(sweep: Sweep) -> None:
    row = solve(sweep, ["42", "42", "42"], *controller(), tokens=33, code=1)
    assert (row["selected"], row["stop_reason"], row["charged_output_tokens"]) == (False, "error", 32)
    assert "usage outside the reserved cap: 33 output_tokens used, 32" in row["error"]


def test_an_api_error_ends_the_run_with_no_selected_answer(sweep: Sweep) -> None:
    row = solve(sweep, ["42", "42", {"error": "boom"}, "42", "42"], *controller(), code=1)
    assert (row["selected"], row["answer"], row["stop_reason"], row["attempts"]) == (False, None, "error", 2)
    # The failed call's usage is unknown: its cap stays charged.
    assert row["charged_output_tokens"] == 12 + 12 + 32


def test_an_error_that_tells_its_usage_refunds_the_rest(sweep: Sweep) -> None:
    row = solve(sweep, ["42", {"error": "boom", "output_tokens": 5}], *controller(), code=1)
    assert row["charged_output_tokens"] == 12 + 5


def test_a_used_up_budget_may_leave_a_unique_plurality_and_says_which_budget(sweep: Sweep) -> None:
    row = solve(sweep, ["41", "42", "42", "42", "41"], *controller(attempts=6, total=48))
    assert (row["stop_reason"], row["selected"], row["answer"], row["attempts"], row["charged_output_tokens"]) == (
        "output_budget",
        True,
        "42",
        4,
        48,
    )


@pytest.mark.parametrize(
    ("limit", "stop"),
    [
        ("calls=2", "call_budget"),
        ("input_tokens=1104", "input_budget"),
        ("usd=0.00002", "cost_budget"),
        ("wall_seconds=2.5", "time_budget"),
    ],
)
def test_every_budget_ends_the_run_in_its_own_name(sweep: Sweep, limit: str, stop: str) -> None:
    priced = ["model.price.own={input: 0.01, output: 0.5}", "model.latency_s=1.0"]
    row = solve(sweep, ["1", "2", "3", "4", "5"], *controller(votes=1), f"limits.problem.{limit}", *priced)
    assert row["stop_reason"] == stop
    assert row["attempts"] < 5


@pytest.mark.parametrize("parallel", [2, 3, 5])
@pytest.mark.parametrize("total", [48, 60, 160])
def test_parallel_draws_reach_the_same_decision(sweep: Sweep, parallel: int, total: int) -> None:
    replies = ["42", "41", "42", "42", "41"]
    serial = solve(sweep, replies, *controller(total=total))
    outcome = sweep(
        *BASE,
        f"model.replies={json.dumps(replies)}",
        "model.output_tokens=12",
        *controller(total=total),
        f"strategy.parallel={parallel}",
        study="p",
    )
    together = outcome.one("SELECT * FROM solutions")
    assert [together[name] for name in FIELDS] == [serial[name] for name in FIELDS]
    assert together["charged_calls"] == serial["charged_calls"] == 4
    beyond = outcome.one(
        "SELECT count(*) FILTER (overshoot) AS n, sum(charged_output_tokens) AS charged,"
        " sum(billed_output_tokens) AS billed FROM call_costs"
    )
    assert beyond["charged"] == 48
    assert beyond["billed"] == 48 + 12 * beyond["n"]
