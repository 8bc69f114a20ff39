"""Selectors are pure: the same candidates give the same answer in any order, and only complete, valid ones vote."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.answers import AnswerClasses, same_answer
from ttc_eval.records import AnswerContract, Candidate, ContractKind, Score, ScoreKind
from ttc_eval.selectors import (
    ScoreTies,
    Ties,
    Weighting,
    agreement,
    best_score,
    filtered_vote,
    first_accepted,
    first_valid,
    is_locked,
    lead,
    most_confident,
    passing,
    plurality,
    tally,
    valid_scores,
    weighted_vote,
)

Answers = list[str | None]
ANSWERS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=8)
# Eighths add up without rounding, so that the oracle and the selector see the same ties.
VALUES = st.none() | st.integers(0, 8).map(lambda eighths: eighths / 8) | st.just(math.nan)
CUT = st.sets(st.integers(0, 7))


def candidates(answers: Answers, cut: frozenset[int] | set[int] = frozenset()) -> list[Candidate]:
    return [Candidate(place, place, answer or "", answer, answer, place not in cut) for place, answer in enumerate(answers)]


def scores(values: list[float | None]) -> list[Score]:
    return [Score(place, "v", ScoreKind.OUTCOME, value) for place, value in enumerate(values)]


def chosen(candidate: Candidate | None) -> int | None:
    return None if candidate is None else candidate.position


# Plurality.


def test_a_tie_is_unresolved() -> None:
    assert plurality(candidates(["42", "41"]), min_votes=1) is None


def test_the_minimum_of_votes_binds() -> None:
    assert plurality(candidates(["42", "42", "41"]), min_votes=3) is None
    assert chosen(plurality(candidates(["41", "42", "42"]), min_votes=2)) == 1


def test_missing_and_cut_answers_do_not_vote() -> None:
    some = candidates([None, None, "7", "8", "8"], cut=frozenset({3, 4}))
    assert tally(some) == {"7": 1}
    winner = plurality(some)
    assert winner is not None
    assert winner.answer == "7"


def test_a_node_of_a_search_does_not_vote() -> None:
    node = Candidate(0, 0, "7", "7", "7", complete=True, partial=True)
    for found in (plurality([node]), first_valid([node]), best_score([node], scores([1.0])), weighted_vote([node], {0: 1.0})):
        assert found is None


def test_nothing_valid_selects_nothing() -> None:
    assert plurality([]) is None
    assert plurality([], ties=Ties.RANDOM) is None
    assert weighted_vote([], {}) is None
    assert best_score([], []) is None
    assert first_accepted([], [], 0.0) is None
    assert first_valid(candidates([None], cut=frozenset({0}))) is None


def test_ties_go_to_the_class_seen_first_or_to_one_by_the_seed() -> None:
    tied = candidates(["b", "a", "a", "b", "c"])
    assert chosen(plurality(tied, ties=Ties.FIRST)) == 0
    found = Counter(chosen(plurality(tied, ties=Ties.RANDOM, seed=seed)) for seed in range(2000))
    assert set(found) == {0, 1}, "the first draws of the classes that lead"
    assert abs(found[0] - 1000) < 150, "each with the same chance"
    assert plurality(tied, min_votes=3, ties=Ties.RANDOM) is None


@given(ANSWERS, CUT, st.integers(1, 4), st.sampled_from(Ties), st.integers(0, 5))
def test_plurality_is_what_counting_says(answers: Answers, cut: set[int], least: int, ties: Ties, seed: int) -> None:
    votes = Counter(answer for place, answer in enumerate(answers) if answer is not None and place not in cut)
    top = max(votes.values(), default=0)
    leaders = [name for name, count in votes.items() if count == top and top >= least]
    found = plurality(candidates(answers, cut), least, ties, seed)
    if not leaders or (len(leaders) > 1 and ties is Ties.UNRESOLVED):
        assert found is None
        return
    assert found is not None
    assert found.answer in leaders
    first = {name: min(place for place, answer in enumerate(answers) if answer == name and place not in cut) for name in leaders}
    assert found.position == first[str(found.answer)]
    if ties is Ties.FIRST:
        assert found.position == min(first.values())


@given(ANSWERS, CUT, st.lists(VALUES, min_size=8, max_size=8), st.randoms(use_true_random=False))
def test_no_selector_depends_on_the_order_of_its_candidates(answers: Answers, cut: set[int], values: list[float | None], rng: Any) -> None:
    some, given_scores = candidates(answers, cut), scores(values)
    other, other_scores = list(some), list(given_scores)
    rng.shuffle(other)
    rng.shuffle(other_scores)
    weights = valid_scores(given_scores)
    for ties in Ties:
        assert plurality(some, 1, ties, 7) == plurality(other, 1, ties, 7)
        assert filtered_vote(some, given_scores, 0.5, ties, 7) == filtered_vote(other, other_scores, 0.5, ties, 7)
        for weighting in Weighting:
            found = [weighted_vote(one, weights, weighting, temperature=0.3, ties=ties, seed=7) for one in (some, other)]
            assert found[0] == found[1]
    for rule in ScoreTies:
        assert best_score(some, given_scores, rule) == best_score(other, other_scores, rule)
    assert first_accepted(some, given_scores, 0.5) == first_accepted(other, other_scores, 0.5)
    assert first_valid(some) == first_valid(other)


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=9), st.integers(0, 4), st.integers(1, 3))
def test_a_locked_lead_cannot_be_lost_whatever_follows(answers: Answers, left: int, min_votes: int) -> None:
    standing = lead(tally(candidates(answers)))
    futures: list[Answers] = [[]]
    for _ in range(left):
        futures = [[*future, vote] for future in futures for vote in ("a", "b", "c", "d", None)]
    winners = {w.answer if (w := plurality(candidates(answers + future), min_votes)) else None for future in futures}
    if is_locked(standing, left, min_votes):
        assert winners == {standing.answer_class}
    elif standing.votes >= min_votes:
        assert winners != {standing.answer_class} or not standing.unique


def test_agreement_is_the_share_of_the_draws_that_were_asked_for() -> None:
    assert agreement(candidates(["a", "a", None, "b"]), 4) == 0.5
    assert agreement([], 3) == 0.0


# Weighted vote.


@given(ANSWERS, CUT, st.lists(VALUES, min_size=8, max_size=8), st.sampled_from([Weighting.SUM, Weighting.MEAN, Weighting.COUNT]))
def test_a_weighted_vote_is_what_exact_arithmetic_says(
    answers: Answers, cut: set[int], values: list[float | None], weighting: Weighting
) -> None:
    totals: dict[str, list[Fraction]] = {}
    for place, answer in enumerate(answers):
        value = values[place]
        if answer is not None and place not in cut and value is not None and not math.isnan(value):
            totals.setdefault(answer, []).append(Fraction(value))
    rule = {
        Weighting.SUM: lambda these: sum(these),
        Weighting.MEAN: lambda these: sum(these) / len(these),
        Weighting.COUNT: len,
    }[weighting]
    weighed = {name: rule(these) for name, these in totals.items()}
    leaders = [name for name, total in weighed.items() if total == max(weighed.values())]
    found = weighted_vote(candidates(answers, cut), {place: v for place, v in enumerate(values) if v is not None}, weighting)
    assert (None if found is None else found.answer) == (leaders[0] if len(leaders) == 1 else None)


@given(ANSWERS, st.lists(st.floats(0, 1), min_size=8, max_size=8), st.floats(0.05, 5))
def test_softmax_shares_are_those_of_the_formula(answers: Answers, values: list[float], temperature: float) -> None:
    shares = [math.exp(value / temperature) for value in values]
    totals: dict[str, float] = {}
    for place, answer in enumerate(answers):
        if answer is not None:
            totals[answer] = totals.get(answer, 0.0) + shares[place]
    ranked = sorted(totals, key=lambda name: -totals[name])
    found = weighted_vote(candidates(answers), dict(enumerate(values)), Weighting.SOFTMAX, temperature=temperature)
    if len(ranked) > 1 and totals[ranked[1]] > totals[ranked[0]] * (1 - 1e-6):
        return  # too near a tie for this oracle
    assert (None if found is None else found.answer) == (ranked[0] if ranked else None)


def test_a_cold_softmax_takes_the_surest_and_a_hot_one_the_most_frequent() -> None:
    some, weights = candidates(["a", "a", "a", "b"]), {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.9}
    assert chosen(weighted_vote(some, weights, Weighting.SOFTMAX, temperature=0.01)) == 3
    assert chosen(weighted_vote(some, weights, Weighting.SOFTMAX, temperature=100)) == 0


def test_weights_that_differ_by_rounding_alone_are_tied() -> None:
    some = candidates(["a", "a", "b"])
    weights = {0: 0.1, 1: 0.2, 2: 0.3}
    assert weighted_vote(some, weights) is None
    assert chosen(weighted_vote(some, weights, ties=Ties.FIRST)) == 0


def test_weights_without_sense_are_refused() -> None:
    some = candidates(["a", "b"])
    with pytest.raises(ValueError, match="0 or more"):
        weighted_vote(some, {0: -1.0, 1: 1.0})
    assert chosen(weighted_vote(some, {0: -2.0, 1: -1.0}, Weighting.MEAN)) == 1
    with pytest.raises(ValueError, match="temperature"):
        weighted_vote(some, {0: 1.0}, Weighting.SOFTMAX, temperature=0)


# Scores.


@given(ANSWERS, CUT, st.lists(VALUES, min_size=8, max_size=8), st.sampled_from(ScoreTies), st.floats(0, 1))
def test_the_best_and_the_first_accepted_are_what_a_search_says(
    answers: Answers, cut: set[int], values: list[float | None], ties: ScoreTies, threshold: float
) -> None:
    some = candidates(answers, cut)
    valid = [one for one in some if one.votes and (v := values[one.position]) is not None and not math.isnan(v)]
    best = [one for one in valid if values[one.position] == max(values[two.position] or 0 for two in valid)]
    size = tally(some)
    if ties is ScoreTies.LARGER_CLASS:
        best = [one for one in best if size[str(one.answer_class)] == max(size[str(two.answer_class)] for two in best)]
    assert best_score(some, scores(values), ties) == (best[0] if best else None)
    accepted = [one for one in valid if (values[one.position] or 0) >= threshold]
    assert first_accepted(some, scores(values), threshold) == (accepted[0] if accepted else None)
    assert passing(some, scores(values), threshold) == accepted
    assert filtered_vote(some, scores(values), threshold) == plurality(accepted)


def test_a_score_counts_for_its_own_candidate_wherever_it_stands() -> None:
    some = candidates(["a", "b"])
    assert chosen(best_score(some, [Score(1, "v", ScoreKind.OUTCOME, 0.9), Score(0, "v", ScoreKind.OUTCOME, 0.1)])) == 1


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 5).map(float), max_size=20), st.sampled_from([0.1, 0.25, 0.5, 0.9, 1.0]))
def test_the_most_confident_are_those_at_or_above_the_linear_percentile(values: dict[int, float], share: float) -> None:
    import numpy as np

    found = most_confident(values, share)
    if values:
        edge = np.percentile(list(values.values()), (1 - share) * 100)
        assert found == {place: value for place, value in values.items() if value >= edge - 1e-9}
    assert bool(found) is bool(values)


# The recorded cases.


def cases(shared: Path, kind: str) -> list[dict[str, Any]]:
    lines = (shared / "cases" / "cases.jsonl").read_text().splitlines()
    return [case for case in map(json.loads, lines) if case["kind"] == kind]


def test_the_recorded_votes_by_the_selector(shared: Path) -> None:
    seen = 0
    for case in cases(shared, "majority_vote"):
        asked, expected = case["input"], case["expected"]
        if "answers" not in asked:
            continue
        seen += 1
        contract = AnswerContract(kind=ContractKind(asked.get("answer_type", "math")))
        classes = AnswerClasses(contract)
        named = [None if answer is None else classes.classify(answer) for answer in asked["answers"]]
        some = [
            Candidate(place, place, str(text), text, name, True)
            for place, (text, name) in enumerate(zip(asked["answers"], named, strict=True))
        ]
        found = plurality(some)
        assert found is not None, case["id"]
        votes = tally(some)
        facts = {
            "selected_index": found.position,
            "votes": votes[str(found.answer_class)],
            "winner_votes": votes[str(found.answer_class)],
            "valid_votes": votes.total(),
            "n": len(some),
            "winner_group": [one.answer for one in some if one.answer_class == found.answer_class],
            "correct": same_answer(str(found.answer), asked["gold"], contract),
        }
        assert {key: facts[key] for key in expected if key in facts} == {key: value for key, value in expected.items() if key in facts}
    assert seen >= 4


def test_two_draws_with_first_seen_ties_are_one_draw(shared: Path) -> None:
    (case,) = (one for one in cases(shared, "majority_vote") if "file" in one["input"])
    n, right, first = case["input"]["n"], 0, 0
    for seed in range(3):
        study = json.loads((shared / case["input"]["file"].replace("{0,1,2}", str(seed))).read_text())
        for record in study["records"]:
            # Which answer a trace gives does not matter here: wrong ones differ from right ones, and that decides.
            traces = record["traces"][:n]
            found = plurality(
                candidates([str(trace["correct"]) for trace in traces]), ties=Ties(case["input"]["tie_break"].partition("_")[0])
            )
            assert found is not None
            right += traces[found.position]["correct"]
            first += traces[0]["correct"]
    assert (right, first) == (case["expected"]["correct"], case["expected"]["pass1_correct"])


def test_the_recorded_scores_by_the_selector(shared: Path) -> None:
    with_scores = [case for case in cases(shared, "verifier_output") if "scores" in case["input"]]
    assert with_scores
    for case in with_scores:
        values = [None if value is None else float(value) for value in case["input"]["scores"]]
        found = best_score(candidates(case["input"].get("answers", [str(place) for place in range(len(values))])), scores(values))
        assert chosen(found) == case["expected"].get("selected_index"), case["id"]
        invalid = [place for place in range(len(values)) if place not in valid_scores(scores(values))]
        assert invalid == case["expected"].get("invalid", invalid)
