"""Escalation: a larger budget when one was used up, every attempt charged, and the same outcome whether serial or resumed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.ttc_v2 import MAX_BUDGET, Reply, TTCServer, refused, serving
from ttc_eval.errors import UserError
from ttc_eval.protocol.schemas import WAIT
from ttc_eval.strategies import Escalate
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

ESCALATE = ("thinking=budget", "thinking.at_limit=fail", "strategy=escalate")
SIMULATED = (*ESCALATE, "model=simulated", "thinking.budget=16", "dataset.limit=12")
SOLUTION = "problem_id, answer, stop_reason, attempts, valid, charged_calls, charged_output_tokens, latency_s"


@pytest.fixture
def sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Study, str]]:
    def run(*arguments: str, study: str = "t") -> tuple[int, Study, str]:
        code = main([f"results_dir={tmp_path}", f"study={study}", *arguments])
        said = capsys.readouterr().err
        return code, open_study(tmp_path / f"{study}.duckdb") if code != 2 else Study(tmp_path), said

    return run


Sweep = Callable[..., tuple[int, Study, str]]


def rows(study: Study, query: str) -> list[tuple[Any, ...]]:
    return list(study.sql(query).itertuples(index=False, name=None))


# The ladder.


def start(budget: int, **changes: Any) -> Thinking:
    return Thinking(ThinkingMode.BUDGET, budget, **{"at_limit": AtLimit.FAIL, **changes})


@given(st.integers(1, 10_000), st.floats(1.01, 10), st.none() | st.integers(10_000, 10**6), st.integers(1, 8))
def test_a_ladder_climbs_to_its_bounds(first: int, factor: float, most: int | None, attempts: int) -> None:
    budgets = [rung.budget or 0 for rung in Escalate(factor, most, attempts).thinkings(start(first))]
    assert budgets[0] == first
    assert all(low < high <= low * factor + 1 for low, high in pairwise(budgets))
    assert len(budgets) == attempts or budgets[-1] == (most or 2**31 - 1)
    assert most is None or max(budgets) <= most


def test_the_last_step_is_cut_to_the_largest_budget() -> None:
    assert [rung.budget for rung in Escalate(2, 200, 9).thinkings(start(64))] == [64, 128, 200]
    assert Escalate(2, 200, 9).label == "escalate@9≤200"


@pytest.mark.parametrize(
    ("thinking", "said"),
    [
        (Thinking(), "starts from a budget that can run out"),
        (start(0), "starts from a budget that can run out"),
        (start(16, at_limit=AtLimit.ANSWER), "thinking.at_limit=fail"),
        (start(999), "max_budget=512: it is below thinking.budget=999"),
    ],
)
def test_a_cell_whose_budget_cannot_run_out_is_refused(thinking: Thinking, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Escalate(max_budget=512).thinkings(thinking)


@pytest.mark.parametrize("options", [{"factor": 1.0}, {"factor": float("inf")}, {"max_attempts": 0}, {"max_budget": 0}])
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="strategy"):
        Escalate(**options)


# On the simulated model.


def test_every_attempt_is_charged_and_the_first_that_ends_is_accepted(sweep: Sweep) -> None:
    code, study, _ = sweep(*SIMULATED)
    assert code == 0
    calls = study.sql("SELECT * FROM calls")
    solutions = study.solutions()
    assert set(calls.requested_budget) == {16, 32, 64, 128} or set(calls.requested_budget) == {16, 32, 64}
    assert set(solutions.stop_reason) == {"accepted"}
    assert solutions.charged_output_tokens.sum() == calls.output_tokens.sum()
    assert solutions.attempts.sum() == solutions.charged_calls.sum() == len(calls)
    exhausted = calls[calls.stop_reason == "budget_exceeded"]
    assert (exhausted.reasoning_tokens == exhausted.requested_budget).all()
    assert (exhausted.answer_text.fillna("") == "").all()
    assert calls.pool.nunique() == calls.requested_budget.nunique(), "a pool is one configuration"


@pytest.mark.parametrize(
    ("options", "stop", "attempts"),
    [
        (("strategy.max_attempts=3",), "attempt_limit", 3),
        (("strategy.max_budget=40",), "exhausted", 3),
        (("limits.problem.calls=2",), "call_budget", 2),
        (("limits.problem.output_tokens=50",), "output_budget", 2),
        (("limits.problem.input_tokens=1000",), "input_budget", 0),
        (("limits.problem.wall_seconds=0.5",), "time_budget", 1),
    ],
)
def test_it_stops_at_any_limit_in_its_name(sweep: Sweep, options: tuple[str, ...], stop: str, attempts: int) -> None:
    _, study, _ = sweep(*SIMULATED, "model.thinking_tokens=100000", "dataset.limit=2", *options)
    assert rows(study, "SELECT DISTINCT stop_reason, attempts, selected FROM solutions") == [(stop, attempts, False)]


def test_a_larger_budget_does_not_mend_what_was_cut_for_another_reason(sweep: Sweep) -> None:
    _, study, _ = sweep(*SIMULATED, "model.thinking_tokens=4", "model.faults.truncated=1", "dataset.limit=2")
    assert rows(study, "SELECT DISTINCT stop_reason, attempts FROM solutions") == [("exhausted", 1)]


def test_a_resumed_run_comes_to_what_a_serial_one_does(sweep: Sweep) -> None:
    query = f"SELECT {SOLUTION} FROM solutions ORDER BY problem_id"
    counts = "SELECT count(*), count(DISTINCT key) FROM calls"
    code, serial, _ = sweep(*SIMULATED, "model.max_concurrency=1", study="serial")
    assert code == 0
    for calls in (1, 9):
        study = f"stopped-after-{calls}"
        assert sweep(*SIMULATED, f"limits.sweep.calls={calls}", study=study)[0] == 1
        code, resumed, _ = sweep(*SIMULATED, study=study)
        assert code == 0
        assert rows(resumed, query) == rows(serial, query)
        assert rows(resumed, counts) == rows(serial, counts), "nothing is paid for twice"


def test_it_shares_its_draws_with_single_at_each_budget(sweep: Sweep) -> None:
    sweep(*SIMULATED)
    singles = (
        "-m",
        "thinking=budget",
        "thinking.at_limit=fail",
        "strategy=single",
        "model=simulated",
        "dataset.limit=12",
        "thinking.budget=16,32",
    )
    _, study, _ = sweep(*singles)
    budget_16 = "SELECT count(*) FROM calls WHERE requested_budget = 16"
    assert rows(study, budget_16) == [(12,)], "all of them had been drawn"
    assert rows(study, "SELECT count(*) FROM calls WHERE requested_budget = 32") == [(12,)], "each problem once, whoever asked first"
    assert rows(study, "SELECT count(DISTINCT pool) FROM calls WHERE requested_budget = 32") == [(1,)]


def test_a_ladder_above_what_the_model_takes_is_refused_before_the_first_call(sweep: Sweep) -> None:
    code, _, said = sweep(*ESCALATE, "model=smollm2", "thinking.budget=256", "dataset.limit=1")
    assert code == 2
    assert "it may ask for budget 512" in said
    assert "takes 511 tokens at most" in said


# On a TTC-v2 server.


def ttc(server: TTCServer, *options: str) -> tuple[str, ...]:
    fixed = ("model=ttc_v2", f"model.base_url={server.url}", "model.model=m", "dataset.limit=2", "thinking.budget=16", "answer_tokens=8")
    return (*ESCALATE, *fixed, *options)


@pytest.mark.parametrize("dialect", ["messages", "chat"])
@pytest.mark.parametrize("wait", [False, True], ids=["primary", "fallback"])
def test_both_forms_of_exhaustion_on_both_surfaces(sweep: Sweep, dialect: str, wait: bool) -> None:
    def answer(body: dict[str, Any], n: int) -> Reply:
        budget = body["thinking"]["budget_tokens"]
        if budget >= 64:
            return Reply(("hm " * 50,), "Answer: 42")
        thought, stop = (f"{'hm ' * budget}{WAIT}", "stop_sequence") if wait else ("hm " * budget, "budget_exceeded")
        return Reply((thought,), stop=stop)

    with serving(answer) as server:
        code, study, _ = sweep(*ttc(server, f"model.dialect={dialect}"))
    assert code == 0
    assert rows(study, "SELECT DISTINCT stop_reason, attempts, answer FROM solutions") == [("accepted", 3, "42")]
    assert sorted(body["thinking"]["budget_tokens"] for body in server.bodies) == [16, 16, 32, 32, 64, 64]
    assert {body["max_tokens"] for body in server.bodies} == {8}
    assert rows(study, "SELECT count(*) FROM calls WHERE thinking_text LIKE '%[WAIT]'") == [(4 if wait else 0,)]


def test_a_budget_that_the_server_refuses_ends_the_ladder_with_what_it_said(sweep: Sweep) -> None:
    def answer(body: dict[str, Any], n: int) -> Reply:
        budget = body["thinking"]["budget_tokens"]
        return refused(budget) if budget > MAX_BUDGET else Reply(("hm",), stop="budget_exceeded")

    with serving(answer) as server:
        code, study, _ = sweep(*ttc(server, "thinking.budget=2048"))
        first, refused_at_once, _ = sweep(*ttc(server, "thinking.budget=8192"), study="u")
    assert code == 0
    (stop, attempts, note), *rest = rows(study, "SELECT DISTINCT stop_reason, attempts, error FROM solutions")
    assert (stop, attempts, rest) == ("exhausted", 2, [])
    assert "8192 is above the maximum of 4096" in note
    assert first == 1
    assert rows(refused_at_once, "SELECT DISTINCT status FROM cells") == [("failed",)]
    assert rows(refused_at_once, "SELECT DISTINCT error_kind, output_tokens FROM calls") == [("budget_refused", 0)]


@pytest.mark.parametrize(("used", "code"), [(16 + 16, 0), (16 + 17, 1)], ids=["within the slack", "beyond it"])
def test_thinking_beyond_the_budget_and_its_slack_is_reported(sweep: Sweep, used: int, code: int) -> None:
    # A short answer would leave room for it in the sum of both caps.
    with serving(lambda body, n: Reply(("hm",), "Answer: 1", usage={"thinking_tokens": used})) as server:
        found, study, _ = sweep(*ttc(server, "answer_tokens=500"))
    assert found == code
    if code:
        (kind, error, tokens), *_ = rows(study, "SELECT error_kind, error, reasoning_tokens FROM calls")
        assert (kind, tokens) == ("over_reservation", used)
        assert f"{used} thinking tokens used, 16 + 16 reserved" in error
        assert rows(study, "SELECT DISTINCT status FROM cells") == [("failed",)]


# On a model whose budget is forced by continuing a prefix.


def test_a_budget_forced_here_runs_out_too(sweep: Sweep) -> None:
    pytest.importorskip("xllamacpp")
    options = ("model=smollm2", "dataset.limit=2", "thinking.budget=2", "answer_tokens=8", "strategy.factor=16", "strategy.max_attempts=2")
    code, study, _ = sweep(*ESCALATE, *options)
    assert code == 0
    assert rows(study, "SELECT DISTINCT attempts FROM solutions") == [(2,)]
    first = rows(study, "SELECT segment, output_tokens, stop_reason, answer_text FROM calls WHERE requested_budget = 2")
    assert [(segment, tokens, stop) for segment, tokens, stop, _ in first] == [(0, 2, "max_tokens")] * 2
    assert rows(study, "SELECT max(segment) FROM calls WHERE requested_budget = 32")[0][0] >= 0
