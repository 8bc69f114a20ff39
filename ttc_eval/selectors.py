"""Selectors: the pure rules that turn candidates and scores into one answer, or into none (unresolved).

Only candidates with `votes` count: one that was cut, is partial or has no answer costs, and is never selected. What is selected does not
depend on the order in which candidates are given, only on their positions: "first" is the one with the lowest.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ttc_eval.records import Candidate, Score

# Sums of weights that differ by less than this share are equal: 0.1 + 0.2 and 0.3 tie.
_ROUNDING = 1e-9


class Ties(StrEnum):
    """What becomes of a vote that several classes lead.

    `unresolved`: nothing is selected. `first`: the class that was seen first. `random`: one of them by a seed, each with the same chance.
    """

    UNRESOLVED = "unresolved"
    FIRST = "first"
    RANDOM = "random"


class ScoreTies(StrEnum):
    """Which of several candidates with the best score is selected.

    `first`: the earliest draw. `larger_class`: the one whose class has the most votes, scored or not; then the earliest.
    """

    FIRST = "first"
    LARGER_CLASS = "larger_class"


class Weighting(StrEnum):
    """What a class of answers weighs.

    `count`: its votes. `sum`, `mean`: of its candidates' weights. `softmax`: the sum of their shares in a softmax over all candidates of
    the question (CISC, arXiv 2502.06233).
    """

    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"
    SOFTMAX = "softmax"


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


def is_locked(standing: Lead, attempts_left: int, min_votes: int) -> bool:
    """Whether the leader has its votes and can be neither overtaken nor tied by `attempts_left` more votes."""
    return standing.votes >= min_votes and standing.votes > standing.runner_up + attempts_left


def plurality(candidates: Sequence[Candidate], min_votes: int = 1, ties: Ties = Ties.UNRESOLVED, seed: int = 0) -> Candidate | None:
    """The first candidate of the class with the most votes; None when that is tied and unresolved, or has fewer than `min_votes`.

    `seed` decides ties at random. Source: the bounded self-consistency controller, see docs/strategies.md (unique leading answer and a
    minimum number of votes).
    """
    votes = tally(candidates)
    if max(votes.values(), default=0) < min_votes:
        return None
    return _leader(candidates, votes, ties, seed)


def weighted_vote(
    candidates: Sequence[Candidate],
    weights: Mapping[int, float],
    weighting: Weighting = Weighting.SUM,
    *,
    temperature: float = 1.0,
    ties: Ties = Ties.UNRESOLVED,
    seed: int = 0,
) -> Candidate | None:
    """The first candidate of the class that weighs the most; None when that is tied and unresolved, or nobody has a weight.

    Args:
        weights: by position of the candidate; one without a weight, or with one that is not finite, does not vote.
        temperature: of the softmax, above 0; the lower, the more the largest weight decides.

    Totals that are equal but for rounding are tied. Raises ValueError for a temperature that is not above 0, and for a negative weight,
    which only `softmax` and `mean` can make sense of.
    """
    voters = [one for one in candidates if one.votes and math.isfinite(weights.get(one.position, math.nan))]
    if not voters:
        return None
    given = {one.position: weights[one.position] for one in voters}
    if not temperature > 0:
        raise ValueError(f"temperature={temperature}: it must be above 0")
    if weighting is Weighting.SUM and min(given.values()) < 0:
        raise ValueError("a sum of weights needs weights of 0 or more")
    if weighting is Weighting.COUNT:
        given = dict.fromkeys(given, 1.0)
    if weighting is Weighting.SOFTMAX:
        largest = max(given.values())
        given = {position: math.exp((weight - largest) / temperature) for position, weight in given.items()}
    members: dict[str, list[float]] = defaultdict(list)
    for one in voters:
        members[one.answer_class or ""].append(given[one.position])
    # fsum rounds once, so that a total does not depend on the order of the draws.
    totals = {name: math.fsum(weights) / (len(weights) if weighting is Weighting.MEAN else 1) for name, weights in members.items()}
    return _leader(voters, totals, ties, seed)


def best_score(candidates: Sequence[Candidate], scores: Sequence[Score], ties: ScoreTies = ScoreTies.FIRST) -> Candidate | None:
    """The voting candidate with the highest valid score; None when none has one. An invalid score never wins."""
    values = valid_scores(scores)
    scored = [candidate for candidate in candidates if candidate.votes and candidate.position in values]
    sizes = tally(candidates) if ties is ScoreTies.LARGER_CLASS else Counter[str]()
    return max(scored, key=lambda one: (values[one.position], sizes[one.answer_class or ""], -one.position), default=None)


def first_accepted(candidates: Sequence[Candidate], scores: Sequence[Score], threshold: float) -> Candidate | None:
    """The first voting candidate whose score is valid and `threshold` or more; None when there is none."""
    return min(passing(candidates, scores, threshold), key=lambda one: one.position, default=None)


def filtered_vote(
    candidates: Sequence[Candidate], scores: Sequence[Score], min_score: float, ties: Ties = Ties.UNRESOLVED, seed: int = 0
) -> Candidate | None:
    """The plurality among the candidates that a verifier lets pass; None when it is tied and unresolved, or none passes."""
    return plurality(passing(candidates, scores, min_score), 1, ties, seed)


def passing(candidates: Sequence[Candidate], scores: Sequence[Score], min_score: float) -> list[Candidate]:
    """The voting candidates whose score is valid and `min_score` or more."""
    values = valid_scores(scores)
    return [candidate for candidate in candidates if candidate.votes and values.get(candidate.position, -math.inf) >= min_score]


def valid_scores(scores: Iterable[Score]) -> dict[int, float]:
    """The scores that are numbers, by position of their candidate."""
    return {score.position: score.value for score in scores if score.value is not None and math.isfinite(score.value)}


def most_confident(values: Mapping[int, float], share: float) -> dict[int, float]:
    """The entries at or above the percentile that leaves the top `share` (above 0, at most 1): one at least, all that tie with the last.

    Source: DeepConf, arXiv 2508.15260, whose public code takes the linear percentile.
    """
    ranked = sorted(values.values(), reverse=True)
    if not ranked:
        return {}
    kept = len(ranked) - math.ceil((len(ranked) - 1) * (1 - share) - _ROUNDING)
    return {position: value for position, value in values.items() if value >= ranked[kept - 1]}


def agreement(candidates: Iterable[Candidate], asked: int) -> float:
    """The share of `asked` draws that gave the leading answer, in [0, 1]; what is missing, cut or without an answer agrees with none."""
    return lead(tally(candidates)).votes / asked


def first_valid(candidates: Sequence[Candidate]) -> Candidate | None:
    """The first complete candidate that has an answer."""
    return min((candidate for candidate in candidates if candidate.votes), key=lambda one: one.position, default=None)


def _leader(candidates: Sequence[Candidate], totals: Mapping[str, float], ties: Ties, seed: int) -> Candidate | None:
    """The first candidate of the class with the largest total, or by the rule for ties."""
    if not totals:
        return None
    top = max(totals.values())
    least = top - _ROUNDING * abs(top)
    first: dict[str, Candidate] = {}
    for one in sorted((one for one in candidates if one.votes), key=lambda one: one.position):
        name = one.answer_class or ""
        if totals.get(name, -math.inf) >= least:
            first.setdefault(name, one)
    leaders = list(first.values())
    if len(leaders) == 1 or ties is Ties.FIRST:
        return leaders[0]
    return leaders[int(random.Random(str(seed)).random() * len(leaders))] if ties is Ties.RANDOM else None
