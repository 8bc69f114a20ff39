"""A cascade: the cheap answer where its signal is safe, the second stage everywhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.sequential import Sweeps, Table, check_books, check_parallel, check_repeatable, rows, solved
from ttc_eval.cli import main
from ttc_eval.ledger import Limits
from ttc_eval.models.scripted import Reply
from ttc_eval.strategies import Cascade
from ttc_eval.strategies.cascade import Final, Signal

CUT = Reply("4", complete=False)
CHEAP = ("model=simulated", "model.name=cheap", "model.accuracy={default: {0: 0.4, 64: 0.5}}", "dataset.limit=20", "strategy=cascade")
DEAR = ("model@larger_model=simulated", "larger_model.name=dear", "larger_model.accuracy={default: {0: 0.9}}", "larger_model.seed=1")


@pytest.fixture
def sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeps:
    return Sweeps(tmp_path, capsys)


def plurality(replies: list[str | Reply]) -> tuple[str | None, int]:
    """The unique leading answer and its votes, by counting."""
    answers = [reply for reply in replies if isinstance(reply, str) and reply.isdigit()]
    counts = sorted(((answers.count(answer), answer) for answer in set(answers)), reverse=True)
    if not counts:
        return None, 0
    return (None if len(counts) > 1 and counts[0][0] == counts[1][0] else counts[0][1]), counts[0][0]


answers = st.sampled_from(["40", "41", "42", "none of them", CUT])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(answers, min_size=4, max_size=4),
    st.lists(answers, min_size=3, max_size=3),
    st.builds(
        Cascade,
        draws=st.integers(2, 4),
        threshold=st.sampled_from([0.0, 0.5, 0.75, 1.0]),
        then_draws=st.integers(1, 3),
        final=st.sampled_from(Final),
        parallel=st.integers(1, 3),
    ),
)
def test_agreement_decides_and_the_stated_plurality_is_selected(
    cheap: list[str | Reply], dear: list[str | Reply], options: Cascade
) -> None:
    first, second = cheap[: options.draws], dear[: options.then_draws]
    answer, votes = plurality(first)
    safe = answer is not None and votes / options.draws >= options.threshold
    solution, session = solved(options, cheap, larger=dear)
    if not safe:
        answer, _ = plurality([*first, *second] if options.final is Final.BOTH else second)
    assert (solution.answer, solution.stop_reason) == (answer, "accepted" if safe else "attempt_limit")
    assert session.spending.charged.calls == len(first) + (0 if safe else len(second))
    assert dict(solution.signals) == {"agreement": votes / options.draws}


@pytest.mark.parametrize(
    ("values", "answer", "stop", "signal"),
    [
        ({"41": 0.8, "42": 0.9}, "42", "accepted", 0.9),
        ({"41": 0.8}, "41", "accepted", 0.8),
        ({"41": 0.1, "42": 0.2}, "77", "attempt_limit", 0.2),
        ({}, "77", "attempt_limit", None),
    ],
)
def test_a_verifiers_doubt_decides(values: dict[str, float | None], answer: str, stop: str, signal: float | None) -> None:
    options = Cascade(draws=2, signal=Signal.VERIFIER, threshold=0.8)
    solution, session = solved(options, ["41", "42"], larger=["77"], verifier=Table(values))
    assert (solution.answer, solution.stop_reason, dict(solution.signals)) == (answer, stop, {"verifier": signal})
    assert session.spending.charged.verifier_calls == 2


@pytest.mark.parametrize(
    ("limits", "final", "answer", "stop", "calls"),
    [
        (Limits(calls=1), Final.EXPENSIVE, None, "call_budget", 1),
        (Limits(calls=2), Final.EXPENSIVE, None, "call_budget", 2),
        (Limits(calls=3), Final.EXPENSIVE, None, "call_budget", 3),
        (Limits(calls=3), Final.BOTH, "41", "call_budget", 3),
        (Limits(calls=4), Final.EXPENSIVE, "77", "call_budget", 4),
        (Limits(output_tokens=4), Final.EXPENSIVE, "77", "output_budget", 4),
    ],
)
def test_it_stops_at_a_limit_by_its_name(limits: Limits, final: Final, answer: str | None, stop: str, calls: int) -> None:
    options = Cascade(draws=3, threshold=1.0, then_draws=2, final=final)
    solution, session = solved(options, ["41", "41", "42"], larger=["77", "77"], limits=limits)
    assert (solution.answer, solution.stop_reason, session.spending.charged.calls) == (answer, stop, calls)


def test_it_goes_over_to_the_larger_model_where_draws_disagree(sweeps: Sweeps) -> None:
    study = check_repeatable(sweeps, (*CHEAP, *DEAR))
    assert rows(study, "SELECT DISTINCT model, larger_model FROM cells") == [("cheap", "dear")]
    asked = """SELECT s.problem_id, s.stop_reason, (s.signals->>'$.agreement')::DOUBLE, count(*) FILTER (k.model = 'cheap'),
        count(*) FILTER (k.model = 'dear') FROM solutions s JOIN uses u USING (cell_id, problem_id)
        JOIN calls k USING (call_id) GROUP BY s.cell_id, s.problem_id, s.stop_reason, s.signals"""
    for _, stop, agreed, cheap, dear in rows(study, asked):
        assert (cheap, dear) == (4, 0 if stop == "accepted" else 1)
        assert (agreed >= 0.75) == (stop == "accepted")
    assert {row[1] for row in rows(study, asked)} == {"accepted", "attempt_limit"}
    [(solution, signals), *_] = rows(study, "SELECT cell_id || ':' || problem_id, signals FROM solutions")
    assert main(["show", str(study.path), solution]) == 0
    assert f"decided by: {signals}" in sweeps.capsys.readouterr().out


def test_a_larger_model_may_think_in_a_way_that_the_first_does_not_take(sweeps: Sweeps) -> None:
    # The first model takes no budget at all, the larger one is asked for no other thinking.
    scripted = (
        "model=scripted",
        'model.replies=["1","2"]',
        "strategy.draws=2",
        "dataset.limit=3",
        "strategy=cascade",
        "strategy.then_budget=64",
    )
    study = sweeps.run(*scripted, *DEAR)
    assert rows(study, "SELECT model, requested_budget, count(*) FROM calls GROUP BY ALL ORDER BY ALL") == [
        ("dear", 64, 3),
        ("scripted", None, 6),
    ]
    check_books(study)


def test_without_a_larger_model_the_same_one_thinks_more(sweeps: Sweeps) -> None:
    lab = ("model=lab", "dataset=lab", "dataset.limit=12", "answer_tokens=8", "sampling.temperature=1.0", "thinking=budget")
    study = sweeps.run("-m", *lab, "thinking.budget=16", "strategy=cascade", "strategy.then_budget=96")
    sweeps.run(*lab, "thinking.budget=96", "strategy=single")
    used = rows(study, "SELECT requested_budget, draw, count(*) FROM calls WHERE requested_budget = 96 GROUP BY ALL")
    assert used == [(96, 0, 12)], "the second stage and single share their draws"
    budgets = rows(study, "SELECT requested_budget, count(*) FROM calls WHERE requested_budget = 16 GROUP BY ALL")
    assert budgets == [(16, 48)]
    assert all(0 <= json.loads(row[0])["agreement"] <= 1 for row in rows(study, "SELECT signals FROM solutions WHERE signals IS NOT NULL"))


def test_parallel_calls_decide_as_serial_ones_do(sweeps: Sweeps) -> None:
    verified = (
        "strategy.signal=verifier",
        "verifier=outcome",
        "strategy.then_draws=2",
        "model.faults.truncated=0.1",
        "limits.problem.calls=9",
    )
    check_parallel(sweeps, (*CHEAP, *DEAR, *verified))


def test_a_plan_bounds_both_stages(sweeps: Sweeps, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*CHEAP, *DEAR, f"results_dir={sweeps.folder}", "study=planned", "strategy.then_draws=3"]
    assert main(["plan", *arguments]) == 0
    assert "140" in capsys.readouterr().out, "twenty problems, four cheap draws and three expensive ones"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "there is nothing to go over to"),
        (("model@larger_model=simulated",), "there is nothing to go over to"),
        (("thinking=budget", "thinking.budget=64", "strategy.then_budget=64"), "there is nothing to go over to"),
        (("thinking=budget", "thinking.budget=64", "strategy.then_budget=32"), "it is below thinking.budget=64"),
        (("strategy.then_effort=high",), "it may ask for effort high"),
        (("model@larger_model=smollm2", "strategy.then_budget=512"), "takes 511 tokens at most"),
        (("strategy.then_budget=64", "strategy.then_effort=high"), "give one of them"),
        (("strategy.then_budget=64", "strategy.signal=verifier"), "needs a verifier"),
        (("strategy.then_budget=64", "strategy.draws=1"), "give 2 or more"),
        (("strategy.then_budget=64", "strategy.threshold=2"), "from 0 to 1"),
    ],
)
def test_what_cannot_work_is_refused_before_any_call(sweeps: Sweeps, options: tuple[str, ...], said: str) -> None:
    assert said in sweeps.refused("model=simulated", "strategy=cascade", *options)
