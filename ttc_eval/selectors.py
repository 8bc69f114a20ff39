"""Selectors: the pure rules that turn candidates into one answer, or into none (unresolved)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ttc_eval.records import Candidate, Score


@dataclass(frozen=True, slots=True)
class Lead:
    """The standing of a vote: the leading class (None before any vote), its votes, and those of the runner-up."""

    answer_class: str | None
    votes: int
    runner_up: int

    @property
    def unique(self) -> bool:
        """Whether the leader is not tied."""
        return self.votes > self.runner_up


def tally(candidates: Iterable[Candidate]) -> Counter[str]:
    """Votes per answer class. Candidates without an answer, or cut ones, do not vote."""
    return Counter(candidate.answer_class for candidate in candidates if candidate.votes and candidate.answer_class is not None)


def lead(votes: Counter[str]) -> Lead:
    """Who leads and by how much."""
    ranked = votes.most_common(2)
    if not ranked:
        return Lead(None, 0, 0)
    return Lead(ranked[0][0], ranked[0][1], ranked[1][1] if len(ranked) > 1 else 0)


def plurality(candidates: Sequence[Candidate], min_votes: int = 1) -> Candidate | None:
    """The first candidate of the unique plurality class; None when the lead is tied or below `min_votes`.

    Source: the bounded self-consistency controller, see docs/strategies.md (unique leading answer and a minimum number of votes).
    """
    standing = lead(tally(candidates))
    if not standing.unique or standing.votes < min_votes:
        return None
    return next(candidate for candidate in candidates if candidate.votes and candidate.answer_class == standing.answer_class)


def is_locked(standing: Lead, attempts_left: int, min_votes: int) -> bool:
    """Whether the leader has its votes and can be neither overtaken nor tied by `attempts_left` more votes."""
    return standing.votes >= min_votes and standing.votes > standing.runner_up + attempts_left


def best_score(candidates: Sequence[Candidate], scores: Sequence[Score]) -> Candidate | None:
    """The voting candidate with the highest valid score; ties go to the earlier one. None when none has a valid score."""
    values = {score.position: score.value for score in scores if score.value is not None and not math.isnan(score.value)}
    scored = [candidate for candidate in candidates if candidate.votes and candidate.position in values]
    return max(scored, key=lambda candidate: (values[candidate.position], -candidate.position), default=None)


def first_valid(candidates: Sequence[Candidate]) -> Candidate | None:
    """The first complete candidate that has an answer."""
    return next((candidate for candidate in candidates if candidate.votes), None)
