"""Best of N: the candidate with the highest verifier score."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Score, Solution, StopReason
from ttc_eval.selectors import best_score, plurality
from ttc_eval.session import LimitReached, Session
from ttc_eval.strategies.base import Most


class NoScore(StrEnum):
    """What is selected when no candidate has a valid score."""

    UNRESOLVED = "unresolved"
    PLURALITY = "plurality"


@dataclass(frozen=True, slots=True)
class BestOfN:
    """Scores every complete draw that has an answer, and selects the best; ties go to the earlier draw.

    Attributes:
        n: how many draws.
        on_no_score: the declared rule for a run in which no score is valid; the solution says that it was used.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "best_of_n"
    needs_verifier: ClassVar[bool] = True
    n: int = 4
    on_no_score: NoScore = NoScore.UNRESOLVED
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise UserError(f"strategy.n={self.n}: give 1 or more")

    @property
    def label(self) -> str:
        """`best_of_n@8` for eight draws."""
        return f"{self.name}@{self.n}"

    @property
    def most(self) -> Most:
        """All draws, each scored."""
        return Most(self.n, self.n)

    async def solve(self, session: Session) -> Solution:
        """Draw and score in turn, until the draws or a limit are used up."""
        candidates: list[Candidate] = []
        scores: list[Score] = []
        ended_by: StopReason | None = None
        async with session.draws(self.n, max_output_tokens=self.max_output_tokens) as draws:
            async for candidate in draws:
                candidates.append(candidate)
                if not candidate.votes:
                    continue
                try:
                    scores.append(await session.score(candidate))
                except LimitReached as limit:
                    ended_by = limit.stop_reason
                    break
        stop = ended_by or draws.ended_by or StopReason.ATTEMPT_LIMIT
        if scores and all(score.value is None for score in scores):
            fallback = plurality(candidates) if self.on_no_score is NoScore.PLURALITY else None
            return session.solution(fallback, stop, note=f"no valid score; {self.on_no_score.value} used")
        return session.solution(best_score(candidates, scores), stop)
