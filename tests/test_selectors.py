"""Selectors are pure: the same candidates give the same answer, and only complete, valid ones vote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.records import Candidate
from ttc_eval.selectors import first_valid, is_locked, lead, plurality, tally


def candidates(answers: list[str | None], cut: frozenset[int] = frozenset()) -> list[Candidate]:
    return [Candidate(place, place, answer or "", answer, answer, place not in cut) for place, answer in enumerate(answers)]


def test_a_tie_is_unresolved() -> None:
    assert plurality(candidates(["42", "41"]), min_votes=1) is None


def test_the_minimum_of_votes_binds() -> None:
    assert plurality(candidates(["42", "42", "41"]), min_votes=3) is None
    winner = plurality(candidates(["41", "42", "42"]), min_votes=2)
    assert winner is not None
    assert winner.position == 1


def test_missing_and_cut_answers_do_not_vote() -> None:
    some = candidates([None, None, "7", "8", "8"], cut=frozenset({3, 4}))
    assert tally(some) == {"7": 1}
    winner = plurality(some)
    assert winner is not None
    assert winner.answer == "7"


def test_nothing_valid_selects_nothing() -> None:
    assert plurality([]) is None
    assert first_valid(candidates([None], cut=frozenset({0}))) is None


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=9), st.integers(0, 4), st.integers(1, 3))
def test_a_locked_lead_cannot_be_lost_whatever_follows(answers: list[str | None], left: int, min_votes: int) -> None:
    standing = lead(tally(candidates(answers)))
    futures: list[list[str | None]] = [[]]
    for _ in range(left):
        futures = [[*future, vote] for future in futures for vote in ("a", "b", "c", "d", None)]
    winners = {w.answer if (w := plurality(candidates(answers + future), min_votes)) else None for future in futures}
    if is_locked(standing, left, min_votes):
        assert winners == {standing.answer_class}
    elif standing.votes >= min_votes:
        assert winners != {standing.answer_class} or not standing.unique
