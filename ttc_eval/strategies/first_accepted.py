"""First accepted: draw and score until a verifier accepts a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Score, Solution, StopReason
from ttc_eval.selectors import best_score, plurality
from ttc_eval.session import LimitReached, Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import check_counts, check_scores


class OnNone(StrEnum):
    """What is selected when no candidate was accepted; the solution says that it was used."""

    UNRESOLVED = "unresolved"
    BEST_SCORE = "best_score"
    PLURALITY = "plurality"


@dataclass(frozen=True, slots=True)
class FirstAccepted:
    """Takes the first draw whose score is `threshold` or more. An invalid score accepts nothing.

    Attributes:
        max_attempts: draws at most.
        threshold: the score that is enough.
        on_none: the declared rule for a run in which no draw was accepted.
        parallel: draws in flight at once, where the limits leave room for all of them and their scores. They are scored one by one and
            in their order, so the solution does not depend on it; draws beyond the stop are overshoot.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "first_accepted"
    needs_verifier: ClassVar[bool] = True
    max_attempts: int = 8
    threshold: float = 0.5
    on_none: OnNone = OnNone.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(max_attempts=self.max_attempts, parallel=self.parallel, max_output_tokens=self.max_output_tokens)
        if not 0 <= self.threshold <= 1:
            raise UserError(f"strategy.threshold={self.threshold}: give 0 to 1, the scale of scores")

    @property
    def label(self) -> str:
        """`first_accepted≥0.5@8` for eight attempts."""
        return f"{self.name}≥{self.threshold:g}@{self.max_attempts}"

    @property
    def most(self) -> Most:
        """All attempts, each scored."""
        return Most(self.max_attempts, self.max_attempts)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` for a verifier that scores no single candidate."""
        check_scores(self.name, setting)

    async def solve(self, session: Session) -> Solution:
        """Draw and score in turn. Stops by `accepted`; by `attempt_limit`, or the limit in its name, when no draw was accepted."""
        candidates: list[Candidate] = []
        scores: list[Score] = []
        together = self.parallel > 1 and session.fits(self.max_attempts, scored=True, max_output_tokens=self.max_output_tokens)
        stop: StopReason | None = None
        parallel = self.parallel if together else 1
        async with session.draws(self.max_attempts, parallel=parallel, max_output_tokens=self.max_output_tokens) as draws:
            async for candidate in draws:
                candidates.append(candidate)
                if not candidate.votes:
                    continue
                try:
                    score = await session.score(candidate)
                except LimitReached as limit:
                    stop = limit.stop_reason
                    break
                if score.value is not None and score.value >= self.threshold:
                    return session.solution(candidate, StopReason.ACCEPTED)
                scores.append(score)
        rules = {OnNone.BEST_SCORE: lambda: best_score(candidates, scores), OnNone.PLURALITY: lambda: plurality(candidates)}
        chosen = rules.get(self.on_none, lambda: None)()
        note = None if self.on_none is OnNone.UNRESOLVED else f"no draw was accepted; {self.on_none.value} used"
        return session.solution(chosen, stop or draws.ended_by or StopReason.ATTEMPT_LIMIT, note=note)
