"""A tournament: candidates are compared in pairs by a pairwise verifier, each pair in both orders, and the winner is selected.

Pairwise ranking of sampled candidates: Jiang et al., "LLM-Blender", arXiv 2306.02561 (all pairs); knockout with votes: Chen et al.,
"A Simple and Provable Scaling Law for the Test-Time Compute of Large Language Models", arXiv 2411.19477.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Comparison, Solution, StopReason
from ttc_eval.selectors import plurality, tally
from ttc_eval.session import LimitReached, Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import Otherwise, check_counts
from ttc_eval.verifiers import PairwiseVerifier


class Rounds(StrEnum):
    """Who meets whom. `round_robin`: everybody everybody. `knockout`: the winners of a round meet in the next one."""

    ROUND_ROBIN = "round_robin"
    KNOCKOUT = "knockout"


class Entrants(StrEnum):
    """Who takes part: the first candidate of each distinct answer, or all candidates."""

    CLASSES = "classes"
    CANDIDATES = "candidates"


@dataclass(frozen=True, slots=True)
class Tournament:
    """Draws `n` times, then compares. Candidates with equal answers never meet. Everywhere, more votes come first, then the earlier draw.

    Attributes:
        n: how many draws.
        rounds: `round_robin` selects the entrant with the largest share of its valid comparisons won, a tie counting half; `knockout` pairs
            the first with the last of those left, and so on inwards, the one in the middle waiting; a tie or an invalid comparison is
            decided by votes, and so is what a limit leaves undecided.
        entrants: `classes` or `candidates`.
        on_no_comparison: the declared rule for a run whose answers differ and in which no comparison is valid.
        parallel: draws in flight at once; comparisons follow each other.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "tournament"
    needs_verifier: ClassVar[bool] = True
    n: int = 4
    rounds: Rounds = Rounds.ROUND_ROBIN
    entrants: Entrants = Entrants.CLASSES
    on_no_comparison: Otherwise = Otherwise.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(n=self.n, parallel=self.parallel, max_output_tokens=self.max_output_tokens)

    @property
    def label(self) -> str:
        """`tournament@8` for a round robin of the classes of eight draws; `tournament@8:knockout:candidates` otherwise."""
        rounds = "" if self.rounds is Rounds.ROUND_ROBIN else f":{self.rounds.value}"
        return f"{self.name}@{self.n}{rounds}{'' if self.entrants is Entrants.CLASSES else f':{self.entrants.value}'}"

    @property
    def most(self) -> Most:
        """All draws, and as many comparisons as there are when every answer differs."""
        return Most(self.n, comparisons=self.n - 1 if self.rounds is Rounds.KNOCKOUT else self.n * (self.n - 1) // 2)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` for a verifier that compares nothing."""
        if setting.verifier is not None and not isinstance(setting.verifier, PairwiseVerifier):
            raise UserError(f"strategy=tournament: verifier={setting.verifier.name} compares nothing; give verifier=pairwise")

    async def solve(self, session: Session) -> Solution:
        """Draw, then compare, until there is a winner or a limit is used up: `attempt_limit`, or the limit in its name."""
        async with session.draws(self.n, parallel=self.parallel, max_output_tokens=self.max_output_tokens) as draws:
            candidates = [candidate async for candidate in draws]
        seeds = seeded(candidates, self.entrants)
        field = _Field(session, seeds, [])
        ended_by = await (field.knockout() if self.rounds is Rounds.KNOCKOUT else field.round_robin())
        stop = draws.ended_by or ended_by or StopReason.ATTEMPT_LIMIT
        if len(tally(candidates)) > 1 and not any(comparison.valid for comparison in field.met):
            fallback = plurality(candidates) if self.on_no_comparison is Otherwise.PLURALITY else None
            return session.solution(fallback, stop, note=f"no valid comparison; {self.on_no_comparison.value} used")
        return session.solution(field.first(self.rounds), stop)


def seeded(candidates: Sequence[Candidate], entrants: Entrants) -> list[Candidate]:
    """Who takes part, in the order that decides ties: more votes for its answer, then earlier."""
    votes = tally(candidates)
    voters = [one for one in candidates if one.votes]
    if entrants is Entrants.CLASSES:
        voters = [one for place, one in enumerate(voters) if one.answer_class not in {other.answer_class for other in voters[:place]}]
    return sorted(voters, key=lambda one: (-votes[one.answer_class or ""], one.position))


def shares_won(comparisons: Sequence[Comparison]) -> dict[int, Fraction]:
    """The share of its valid comparisons that each candidate won, by position; a tie is half won. One without any has none."""
    points: dict[int, list[Fraction]] = defaultdict(list)
    for one in comparisons:
        if one.valid:
            for position in (one.first, one.second):
                points[position].append(Fraction(1, 2) if one.winner is None else Fraction(one.winner == position))
    return {position: sum(won, Fraction(0)) / len(won) for position, won in points.items()}


@dataclass(slots=True)
class _Field:
    """Those who are left, in the order of their seeds, and the comparisons so far."""

    session: Session
    left: list[Candidate]
    met: list[Comparison]

    async def round_robin(self) -> StopReason | None:
        """Compare every pair of different answers; the limit that ended it, if one did."""
        try:
            for one, other in combinations(self.left, 2):
                await self._better(one, other)
        except LimitReached as limit:
            return limit.stop_reason
        return None

    async def knockout(self) -> StopReason | None:
        """Play rounds until one is left; the limit that ended it, if one did."""
        try:
            while len(self.left) > 1:
                for one, other in zip(self.left[: len(self.left) // 2], self.left[::-1], strict=False):
                    loser = other if await self._better(one, other) is one else one
                    self.left = [entrant for entrant in self.left if entrant is not loser]
        except LimitReached as limit:
            return limit.stop_reason
        return None

    async def _better(self, one: Candidate, other: Candidate) -> Candidate:
        """The winner of two; `one`, the higher seed, when their answers are equal, or it is a tie, or the comparison is not valid."""
        if one.answer_class == other.answer_class:
            return one
        comparison = await self.session.compare(one, other)
        self.met.append(comparison)
        return other if comparison.valid and comparison.winner == other.position else one

    def first(self, rounds: Rounds) -> Candidate | None:
        """The winner among those left, by the rule of the rounds; the highest seed of several."""
        if rounds is Rounds.KNOCKOUT:
            return next(iter(self.left), None)
        shares = shares_won(self.met)
        return max(self.left, key=lambda one: shares.get(one.position, Fraction(-1)), default=None)
