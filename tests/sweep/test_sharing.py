"""Draws are addressed: strategies share them, later sweeps reuse them, and charged differs from billed."""

from __future__ import annotations

from tests.sweep.conftest import Sweep

BASE = ["model=simulated", "dataset=quickstart", "dataset.limit=10", "strategy=self_consistency", "strategy.early_stop=false"]


def calls(sweep_outcome: object) -> int:
    return int(sweep_outcome.one("SELECT count(*) AS n FROM calls")["n"])  # type: ignore[attr-defined]


def test_eight_after_four_makes_four_new_calls_a_problem(sweep: Sweep) -> None:
    assert calls(sweep(*BASE, "strategy.max_attempts=4")) == 40
    after = sweep(*BASE, "strategy.max_attempts=8")
    assert calls(after) == 80
    metrics = after.study.sql("SELECT charged_calls, billed_calls FROM cell_metrics").to_dict("list")
    assert metrics == {"charged_calls": [40, 80], "billed_calls": [40, 40]}


def test_cells_of_one_sweep_share_draws_in_flight(sweep: Sweep) -> None:
    outcome = sweep("-m", *BASE, "strategy.max_attempts=1,2,4,8", "model.time_scale=0.1")
    assert calls(outcome) == 80
    assert outcome.one("SELECT sum(billed_calls) AS n FROM cell_metrics")["n"] == 80
    assert outcome.one("SELECT sum(charged_calls) AS n FROM cell_metrics")["n"] == 150


def test_two_seeds_are_two_pools(sweep: Sweep) -> None:
    outcome = sweep("-m", *BASE, "strategy.max_attempts=4", "seed=0,1")
    assert calls(outcome) == 80


def test_another_budget_is_another_pool_and_another_strategy_is_not(sweep: Sweep) -> None:
    outcome = sweep("-m", *BASE[:3], "thinking=budget", "thinking.budget=16,32", "strategy=single,self_consistency_4")
    pools = outcome.study.sql("SELECT count(DISTINCT pool) AS pools, count(DISTINCT key) AS keys, count(*) AS calls FROM calls").to_dict(
        "records"
    )[0]
    assert pools["pools"] == 2
    assert pools["keys"] == pools["calls"]


def test_the_same_command_again_pays_nothing_and_shows_the_same(sweep: Sweep) -> None:
    first = sweep(*BASE, "strategy.max_attempts=4")
    before = first.study.cells()
    again = sweep(*BASE, "strategy.max_attempts=4")
    assert "0 calls dispatched" in again.out
    assert again.study.cells().equals(before)
    assert again.one("SELECT count(DISTINCT sweep_id) AS n FROM sweeps")["n"] == 2


def test_the_books_agree(sweep: Sweep) -> None:
    faults = [
        "model.faults.rate_limited=0.1",
        "model.faults.server_error=0.1",
        "model.faults.cut_stream=0.1",
        "model.faults.unknown_usage=0.1",
    ]
    quick = ["retry.first_wait_s=0.001", "retry.max_attempts=8", "model.price.own={input: 1, output: 2}"]
    outcome = sweep("-m", *BASE, "strategy.max_attempts=2,4", *faults, *quick)
    assert outcome.code == 0, outcome.out
    charged = outcome.study.sql(
        """SELECT s.cell_id, any_value(c.calls) AS calls, any_value(c.output_tokens) AS output_tokens, any_value(c.usd) AS usd,
                  sum(s.charged_calls) AS s_calls, sum(s.charged_output_tokens) AS s_output_tokens, sum(s.charged_usd) AS s_usd
           FROM solutions s JOIN (SELECT cell_id, sum(charged_calls) AS calls, sum(charged_output_tokens) AS output_tokens,
                                         sum(charged_usd) AS usd
                                  FROM call_costs GROUP BY cell_id) c USING (cell_id) GROUP BY s.cell_id"""
    )
    assert len(charged) == 2
    assert (charged["calls"] == charged["s_calls"]).all()
    assert (charged["output_tokens"] == charged["s_output_tokens"]).all()
    assert ((charged["usd"] - charged["s_usd"]).abs() < 1e-9).all()
    billed = outcome.one("SELECT sum(billed_calls) AS billed, (SELECT count(*) FROM calls) AS calls FROM call_costs")
    assert billed["billed"] == billed["calls"]
    kinds = set(outcome.study.sql("SELECT DISTINCT error_kind FROM calls WHERE error_kind IS NOT NULL")["error_kind"])
    assert kinds == {"rate_limited", "overloaded", "incomplete"}
    assert (
        outcome.one(
            "SELECT count(*) AS n FROM calls WHERE usage_source = 'unknown' AND (output_tokens IS NOT NULL OR cost_usd IS NOT NULL)"
        )["n"]
        == 0
    )


def test_a_sweep_limit_stops_dispatch_and_the_rest_can_be_done_later(sweep: Sweep) -> None:
    limited = sweep(*BASE, "strategy.max_attempts=4", "limits.sweep.calls=17")
    assert limited.code == 1
    assert "limits.sweep.calls" in limited.out
    assert calls(limited) == 17
    assert limited.one("SELECT status FROM sweeps")["status"] == "stopped"
    resumed = sweep(*BASE, "strategy.max_attempts=4", "limits.sweep.calls=17")
    assert calls(resumed) == 17, "a resumed sweep goes on with what it had spent"
    whole = sweep(*BASE, "strategy.max_attempts=4")
    assert whole.code == 0
    assert calls(whole) == 40


def test_a_cell_limit_binds_what_is_charged(sweep: Sweep) -> None:
    sweep(*BASE, "strategy.max_attempts=4")
    outcome = sweep(*BASE, "strategy.max_attempts=4", "limits.cell.calls=11")
    row = outcome.one("SELECT charged_calls, billed_calls FROM cell_metrics ORDER BY charged_calls LIMIT 1")
    assert row == {"charged_calls": 11, "billed_calls": 0}
    assert outcome.one("SELECT count(*) AS n FROM solutions WHERE stop_reason = 'call_budget'")["n"] >= 7


def test_a_problem_that_fails_is_stored_and_tried_again_by_the_next_sweep(sweep: Sweep) -> None:
    failing = [*BASE, "strategy.max_attempts=4", "model.faults.server_error=0.4", "retry.max_attempts=1"]
    outcome = sweep(*failing)
    assert outcome.code == 1
    errors = outcome.one("SELECT count(*) AS n FROM solutions WHERE stop_reason = 'error'")["n"]
    assert 0 < errors <= 10
    for _ in range(12):
        outcome = sweep(*failing)
    assert outcome.code == 0
    assert outcome.one("SELECT count(*) AS n FROM solutions WHERE stop_reason = 'error'")["n"] == 0
    assert outcome.one("SELECT count(*) AS n FROM solutions")["n"] == 10


def test_a_cell_that_fails_does_not_take_the_others_down(sweep: Sweep) -> None:
    outcome = sweep(
        "-m",
        "model=scripted",
        "model.replies=[42,42,42]",
        "model.output_tokens=20",
        "dataset=one_question",
        "answer_tokens=10,30",
        "strategy=single",
    )
    assert outcome.code == 1
    statuses = outcome.study.sql("SELECT status, error FROM cells ORDER BY ordinal").to_dict("records")
    assert [row["status"] for row in statuses] == ["failed", "finished"]
    assert "usage outside the reserved cap" in statuses[0]["error"]
    assert "cell failed" in outcome.out
