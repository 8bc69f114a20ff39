"""Parallel strategies: what they select and why they stop, and that it is the same however many calls are in flight."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.in_process import run_all, without_calls
from tests.strategies.sequential import Sweeps, Table, check_books, one, rows, solved
from ttc_eval.confidence import Signal
from ttc_eval.errors import UserError
from ttc_eval.ledger import Limits
from ttc_eval.models.scripted import Reply
from ttc_eval.models.simulated import Faults, SimulatedModel
from ttc_eval.selectors import ScoreTies, Ties, Weighting
from ttc_eval.strategies import (
    AdaptiveConsistency,
    BestOfN,
    ConfidenceVote,
    EarlyStopping,
    FirstAccepted,
    SelfConsistency,
    Strategy,
    WeightedVote,
)
from ttc_eval.strategies.adaptive_consistency import Criterion
from ttc_eval.strategies.first_accepted import OnNone
from ttc_eval.strategies.judged import Otherwise

SIMULATED = ("model=simulated", "dataset=quickstart", "dataset.limit=4", "verifier=outcome", "sampling.logprobs=5", "answer_tokens=32")
NAMES = "self_consistency,adaptive_consistency,early_stopping,best_of_n,weighted_vote,filtered_vote,first_accepted,confidence_vote,single"
CUT = Reply("7", complete=False)


@pytest.fixture
def sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeps:
    return Sweeps(tmp_path, capsys)


def outcome(strategy: Strategy, replies: list[str | Reply], **more: Any) -> tuple[str, int, str | None]:
    solution, _ = solved(strategy, replies, **more)
    return solution.stop_reason.value, solution.attempts, solution.answer


# Adaptive-Consistency.


@pytest.mark.parametrize(
    ("replies", "options", "expected"),
    [
        (["7"] * 40, {}, ("accepted", 4, "7")),
        (["7", "8"] + ["7"] * 38, {}, ("accepted", 7, "7")),
        (["7"] * 40, {"threshold": 0.9}, ("accepted", 3, "7")),
        (["7"] * 40, {"min_attempts": 6}, ("accepted", 6, "7")),
        (["7"] * 40, {"criterion": Criterion.DIRICHLET}, ("accepted", 4, "7")),
        (["7", "7", "8"], {"max_attempts": 3}, ("locked_plurality", 2, "7")),
        (["7", "8"] * 3, {"max_attempts": 6}, ("attempt_limit", 6, None)),
        (["7", "8"] * 3, {"max_attempts": 6, "ties": Ties.FIRST}, ("attempt_limit", 6, "7")),
        (["7", "x", "y", "z"], {"max_attempts": 4}, ("attempt_limit", 4, "7")),
        (["7", CUT, "seven", "7", "7", "7", "7"] + ["8"] * 33, {}, ("accepted", 6, "7")),
    ],
)
def test_adaptive_consistency_stops_where_its_criterion_is_met(
    replies: list[str | Reply], options: dict[str, Any], expected: tuple[str, int, str | None]
) -> None:
    assert outcome(AdaptiveConsistency(**options), replies) == expected


def test_a_limit_stops_adaptive_consistency_in_its_name_with_the_plurality_so_far() -> None:
    assert outcome(AdaptiveConsistency(), ["7"] * 40, limits=Limits(calls=3)) == ("call_budget", 3, "7")


def test_dirichlet_asks_for_more_where_several_answers_stand_against_the_leader() -> None:
    replies: list[str | Reply] = ["1", "2", "3", "4", *["1"] * 36]
    _, beta, _ = outcome(AdaptiveConsistency(), replies)
    _, dirichlet, _ = outcome(AdaptiveConsistency(criterion=Criterion.DIRICHLET), replies)
    assert beta < dirichlet < 40


@given(st.lists(st.sampled_from(["1", "2", "3", "x"]), min_size=8, max_size=8), st.sampled_from(Criterion))
@settings(deadline=None, max_examples=30)
def test_it_never_draws_more_than_self_consistency_and_agrees_with_it_where_that_was_sure(
    replies: list[str | Reply], criterion: Criterion
) -> None:
    stop, attempts, answer = outcome(AdaptiveConsistency(8, criterion), replies)
    _, at_most, plurality = outcome(SelfConsistency(8), replies)
    assert attempts <= at_most
    assert stop == "accepted" or answer == plurality


# Early stopping.


@pytest.mark.parametrize(
    ("replies", "options", "expected"),
    [
        (["7"] * 12, {}, ("accepted", 3, "7")),
        (["8", "7", "7", "7", "7", "7"], {}, ("accepted", 6, "7")),
        (["8", "7", "7", "7"], {"sliding": True}, ("accepted", 4, "7")),
        (["8", "8", "7", "8", "7", "8", "7", "7", "7"], {"max_attempts": 9}, ("accepted", 9, "7")),
        (["7", "x", "7", "7", "8", "7"], {"max_attempts": 6}, ("attempt_limit", 6, "7")),
        (["7", CUT, "7", "7", "7", "7"], {"max_attempts": 6}, ("accepted", 6, "7")),
        (["7", "8", "7", "8"], {"max_attempts": 4}, ("attempt_limit", 4, None)),
        (["7", "8", "8", "7"], {"max_attempts": 4, "ties": Ties.FIRST}, ("attempt_limit", 4, "7")),
    ],
)
def test_early_stopping_stops_at_a_window_that_agrees(
    replies: list[str | Reply], options: dict[str, Any], expected: tuple[str, int, str | None]
) -> None:
    assert outcome(EarlyStopping(**{"window": 3, "max_attempts": 12} | options), replies) == expected


def test_a_limit_stops_early_stopping_in_its_name() -> None:
    assert outcome(EarlyStopping(), ["7"] * 40, limits=Limits(calls=2)) == ("call_budget", 2, "7")


# What verifier scores select.

DRAWS: list[str | Reply] = ["1", "2", "2", CUT, "x", "3", "3", "3"]


@pytest.mark.parametrize(
    ("strategy", "scores", "answer"),
    [
        (BestOfN(8), {"1": 0.2, "2": 0.9, "3": 0.9}, "2"),
        (BestOfN(8, ScoreTies.LARGER_CLASS), {"1": 0.2, "2": 0.9, "3": 0.9}, "3"),
        (BestOfN(8), {"1": None, "2": 0.1}, "2"),
        (BestOfN(8), {}, None),
        (BestOfN(8, on_no_score=Otherwise.PLURALITY), {}, "3"),
        (WeightedVote(8), {"1": 0.9, "2": 0.5, "3": 0.3}, "2"),
        (WeightedVote(8), {"1": 0.6, "2": 0.3, "3": 0.2}, None),
        (WeightedVote(8, ties=Ties.FIRST), {"1": 0.6, "2": 0.3, "3": 0.2}, "1"),
        (WeightedVote(8, Weighting.MEAN), {"1": 0.9, "2": 0.5, "3": 0.3}, "1"),
        (WeightedVote(8, Weighting.SOFTMAX, 0.05), {"1": 0.9, "2": 0.5, "3": 0.3}, "1"),
        (WeightedVote(8, Weighting.SOFTMAX, 10), {"1": 0.9, "2": 0.5, "3": 0.3}, "3"),
        (WeightedVote(8, min_score=0.4), {"1": 0.9, "2": 0.5, "3": 0.39}, "2"),
        (WeightedVote(8, Weighting.COUNT, min_score=0.5), {"1": 0.9, "2": 0.5, "3": 0.49}, "2"),
        (WeightedVote(8, min_score=0.95), {"1": 0.9, "2": 0.5, "3": 0.3}, None),
        (WeightedVote(8, min_score=0.95, on_none=Otherwise.PLURALITY), {"1": 0.9, "2": 0.5, "3": 0.3}, "3"),
        (WeightedVote(8), {"1": 0.0, "3": None}, "1"),
    ],
)
def test_what_scores_select(strategy: Strategy, scores: dict[str, float | None], answer: str | None) -> None:
    solution, session = solved(strategy, DRAWS, verifier=Table(scores))
    assert (solution.stop_reason, solution.attempts, solution.valid) == ("attempt_limit", 8, 6)
    assert solution.answer == answer
    assert session.spending.charged.verifier_calls == len(solution.scores) == 6, "what cannot vote is not scored"


@pytest.mark.parametrize(
    ("threshold", "on_none", "expected"),
    [
        (0.5, OnNone.UNRESOLVED, ("accepted", 2, "2")),
        (0.6, OnNone.UNRESOLVED, ("accepted", 6, "3")),
        (0.9, OnNone.UNRESOLVED, ("attempt_limit", 8, None)),
        (0.9, OnNone.BEST_SCORE, ("attempt_limit", 8, "3")),
        (0.9, OnNone.PLURALITY, ("attempt_limit", 8, "3")),
    ],
)
def test_the_first_that_is_good_enough_is_taken(threshold: float, on_none: OnNone, expected: tuple[str, int, str | None]) -> None:
    strategy = FirstAccepted(8, threshold, on_none)
    assert outcome(strategy, DRAWS, verifier=Table({"1": None, "2": 0.5, "3": 0.7})) == expected


@pytest.mark.parametrize(
    ("strategy", "note"),
    [
        (BestOfN(8), "no valid score; unresolved used"),
        (WeightedVote(8, on_none=Otherwise.PLURALITY), "no valid score; plurality used"),
        (WeightedVote(8, min_score=0.5), "no valid score; unresolved used"),
        (FirstAccepted(8, on_none=OnNone.PLURALITY), "no draw was accepted; plurality used"),
        (FirstAccepted(8), None),
        (ConfidenceVote(8, on_no_signal=Otherwise.PLURALITY), "no candidate has the signal mean_logprob; plurality used"),
    ],
)
def test_a_rule_for_nothing_to_go_by_says_that_it_was_used(strategy: Strategy, note: str | None) -> None:
    assert solved(strategy, DRAWS, verifier=Table({}))[0].error == note
    low, _ = solved(WeightedVote(8, min_score=0.5), DRAWS, verifier=Table({"1": 0.1}))
    assert low.error == "no score of 0.5 or more; unresolved used"


@pytest.mark.parametrize("strategy", [BestOfN(3), WeightedVote(3), FirstAccepted(3), ConfidenceVote(3), SelfConsistency(3)])
def test_without_any_answer_nothing_is_judged(strategy: Strategy) -> None:
    solution, session = solved(strategy, ["x", CUT, ""], verifier=Table({}))
    assert (solution.answer, solution.attempts, solution.valid) == (None, 3, 0)
    assert session.spending.charged.verifier_calls == 0


def test_under_a_limit_draws_are_scored_as_they_come() -> None:
    solution, _ = solved(BestOfN(8), ["1", "2", "3"] * 3, verifier=Table({"1": 0.1, "2": 0.2, "3": 0.3}), limits=Limits(verifier_calls=2))
    assert (solution.stop_reason, solution.attempts, solution.answer) == ("call_budget", 3, "2")


# Ties.


def test_a_tie_at_random_follows_from_the_question_and_the_pool_alone() -> None:
    model = SimulatedModel({"default": {0: 0.5}}, wrong_answers=1)
    strategies = [SelfConsistency(2, ties=Ties.RANDOM), AdaptiveConsistency(2, ties=Ties.RANDOM), SelfConsistency(2, ties=Ties.FIRST)]
    once, again = (run_all(strategies, model=model, count=60) for _ in range(2))
    answers = [run.solution.answer for run in once]
    assert answers == [run.solution.answer for run in again]
    assert None not in answers
    assert answers[:60] == answers[60:120]
    assert answers[:60] != answers[120:], "not always the one that was seen first"
    other = [run.solution.answer for run in run_all(strategies[:1], model=model, count=60, seed=1)]
    assert len(Counter(zip(answers[:60], other, strict=True))) > 60 / 2


# The same, whatever is in flight.


def every(parallel: int) -> list[Strategy]:
    return [
        SelfConsistency(6, parallel=parallel),
        AdaptiveConsistency(8, Criterion.DIRICHLET, threshold=0.8, parallel=parallel),
        EarlyStopping(8, window=2, parallel=parallel),
        BestOfN(5, parallel=parallel),
        WeightedVote(5, Weighting.SOFTMAX, temperature=0.2, ties=Ties.RANDOM, parallel=parallel),
        WeightedVote(5, Weighting.COUNT, min_score=0.5, on_none=Otherwise.PLURALITY, parallel=parallel),
        FirstAccepted(6, 0.6, OnNone.BEST_SCORE, parallel=parallel),
        ConfidenceVote(5, Signal.TAIL, keep=0.5, parallel=parallel),
        ConfidenceVote(4, Signal.STATED, Weighting.SOFTMAX, temperature=0.1, parallel=parallel),
    ]


LIMITS = {
    "calls": st.integers(0, 11),
    "verifier_calls": st.integers(0, 5),
    "output_tokens": st.integers(0, 200),
    "input_tokens": st.integers(1000, 12_000),
}
FAULTS = Faults(truncated=0.15, rate_limited=0.1, cut_stream=0.05, retry_after_s=0.0)


@settings(max_examples=60, deadline=None)
@given(parallel=st.integers(2, 9), seed=st.integers(0, 10**6), limited=st.sampled_from([None, *LIMITS]), data=st.data())
def test_parallel_and_serial_runs_come_to_the_same(parallel: int, seed: int, limited: str | None, data: st.DataObject) -> None:
    limits = Limits() if limited is None else Limits(**{limited: data.draw(LIMITS[limited])})
    model = SimulatedModel({"default": {0: 0.6}}, verifier_invalid=0.1, faults=FAULTS)
    serial, together = (run_all(every(count), model=model, count=1, seed=seed, limits=limits) for count in (1, parallel))
    for alone, other in zip(serial, together, strict=True):
        assert without_calls(other.solution) == without_calls(alone.solution)
        assert (other.charged, other.totals) == (alone.charged, alone.totals)
        assert alone.overshoot == 0


@given(
    st.sampled_from([("calls", "call_budget"), ("output_tokens", "output_budget"), ("verifier_calls", "call_budget")]), st.integers(0, 3)
)
@settings(max_examples=12, deadline=None)
def test_every_limit_ends_a_run_in_its_own_name(named: tuple[str, str], seed: int) -> None:
    limit, stop = named
    model = SimulatedModel({"default": {0: 0.5}}, wrong_answers=9)
    for run in run_all(every(1), model=model, count=2, seed=seed, limits=Limits(**{limit: 2})):
        scored = run.totals[2] > 0 or limit != "verifier_calls"
        assert (
            run.solution.stop_reason == stop or not scored or run.solution.stop_reason in ("accepted", "attempt_limit", "locked_plurality")
        )
        assert run.totals[{"calls": 0, "output_tokens": 1, "verifier_calls": 2}[limit]] <= 2


def test_draws_beyond_the_stop_are_overshoot() -> None:
    model = SimulatedModel({"default": {0: 0.7}})
    runs = run_all([strategy for strategy in every(6) if not isinstance(strategy, BestOfN)], model=model, count=4)
    assert any(run.overshoot for run in runs)
    accepted = [run for run in runs if run.solution.stop_reason == "accepted"]
    assert accepted
    assert all(run.totals[0] == len(run.charged) for run in runs), "what lies beyond is not charged"


# As a sweep.


def test_all_of_them_share_one_pool_and_a_second_run_bills_nothing(sweeps: Sweeps) -> None:
    arguments = ("-m", *SIMULATED, "dataset.limit=2", f"strategy={NAMES}")
    study = sweeps.run(*arguments)
    check_books(study)
    (calls, keys, pools), *_ = rows(study, "SELECT count(*), count(DISTINCT key), count(DISTINCT pool) FROM calls")
    assert (calls, pools) == (keys, 1)
    assert one(study, "SELECT sum(charged_calls) FROM cell_metrics") > 2 * calls
    sweeps.run(*arguments)
    again = sweeps.run(*arguments, "limits.problem.calls=1000000")
    assert one(again, "SELECT count(*) FROM calls") == calls, "other cells, the same draws"


def test_the_signals_of_deepconf_work_on_a_model_that_really_samples(sweeps: Sweeps) -> None:
    signals = "mean_logprob,lowest_group_logprob,tail_logprob,mean,lowest_group,bottom_groups,tail"
    lab = (
        "model=lab",
        "dataset=lab",
        "dataset.limit=12",
        "thinking=budget",
        "thinking.budget=64",
        "answer_tokens=8",
        "sampling.temperature=1",
    )
    votes = ("strategy=confidence_vote", f"strategy.signal={signals}", "strategy.window=8", "strategy.keep=0.5", "sampling.logprobs=5")
    study = sweeps.run("-m", *lab, *votes)
    assert rows(study, "SELECT count(*), min(coverage) > 0.8 FROM cell_metrics") == [(7, True)]
    stored = "SELECT DISTINCT json_array_length(token_logprobs) = json_array_length(top_logprobs) FROM calls"
    assert rows(study, stored) == [(True,)], "and read back as they were stored"


def test_a_stated_confidence_is_a_call_of_its_own_with_thinking_off(sweeps: Sweeps) -> None:
    options = ("strategy=confidence_vote", "strategy.signal=stated", "strategy.n=3", "thinking=budget", "thinking.budget=16")
    study = sweeps.run(*SIMULATED, *options)
    check_books(study)
    assert rows(study, "SELECT DISTINCT attempts, charged_calls, charged_verifier_calls FROM solutions") == [(3, 6, 3)]
    found = rows(study, "SELECT DISTINCT role, requested_budget, max_output_tokens FROM calls ORDER BY role")
    assert found == [("generate", 16, 48), ("verify", None, 16)]
    assert rows(study, "SELECT bool_and(answer_text::INT BETWEEN 0 AND 100) FROM calls WHERE role = 'verify'") == [(True,)]


def test_what_could_never_work_is_refused_before_a_draw(sweeps: Sweeps) -> None:
    votes = ("model=simulated", "dataset=quickstart", "strategy=confidence_vote")
    assert "add sampling.logprobs=0" in sweeps.refused(*votes)
    assert "add sampling.logprobs=20" in sweeps.refused(*votes, "strategy.signal=tail", "sampling.logprobs=1")
    for strategy in ("best_of_n", "weighted_vote", "filtered_vote", "first_accepted"):
        assert "it needs a verifier" in sweeps.refused(*votes[:2], f"strategy={strategy}")
        assert "compares candidates" in sweeps.refused(*votes[:2], f"strategy={strategy}", "verifier=pairwise")
    assert "give strategy.min_score" in sweeps.refused(*votes[:2], "strategy=weighted_vote", "strategy.weighting=count", "verifier=outcome")


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (SelfConsistency, {"min_votes": 0}),
        (AdaptiveConsistency, {"threshold": 1.0}),
        (AdaptiveConsistency, {"threshold": 0.5}),
        (AdaptiveConsistency, {"min_attempts": 41}),
        (AdaptiveConsistency, {"parallel": 0}),
        (EarlyStopping, {"window": 1}),
        (EarlyStopping, {"window": 41}),
        (BestOfN, {"n": 0}),
        (BestOfN, {"max_output_tokens": 0}),
        (WeightedVote, {"temperature": 0.0}),
        (WeightedVote, {"temperature": float("nan")}),
        (WeightedVote, {"min_score": 1.5}),
        (WeightedVote, {"weighting": Weighting.COUNT}),
        (FirstAccepted, {"threshold": -0.1}),
        (FirstAccepted, {"max_attempts": 0}),
        (ConfidenceVote, {"keep": 0.0}),
        (ConfidenceVote, {"window": 0}),
        (ConfidenceVote, {"stated_tokens": 0}),
    ],
)
def test_senseless_options_are_refused(strategy: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="strategy"):
        strategy(**options)
