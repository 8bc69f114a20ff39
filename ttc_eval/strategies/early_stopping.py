"""Early-stopping self-consistency (ESC): stop at the first window of draws that all agree (Li et al., arXiv 2401.10480)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Solution, StopReason
from ttc_eval.selectors import Ties, first_valid, plurality
from ttc_eval.session import Session
from ttc_eval.stopping import window_agrees
from ttc_eval.strategies.base import Most
from ttc_eval.strategies.judged import check_counts


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Draws windows of `window` draws until one of them gives one answer throughout, which is selected; else votes among all.

    Attributes:
        max_attempts: draws at most.
        window: how many draws in a row have to agree. One without an answer, or cut, agrees with none.
        sliding: windows end at every draw; by default they follow each other without overlap, as published.
        ties: what becomes of classes that lead together when the attempts are used up.
        parallel: draws in flight at once. The solution does not depend on it; draws beyond the stop are overshoot.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "early_stopping"
    asks_verifier: ClassVar[bool] = False
    max_attempts: int = 40
    window: int = 5
    sliding: bool = False
    ties: Ties = Ties.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(max_attempts=self.max_attempts, parallel=self.parallel, max_output_tokens=self.max_output_tokens)
        if not 2 <= self.window <= self.max_attempts:
            raise UserError(f"strategy.window={self.window}: give 2 to max_attempts={self.max_attempts}")

    @property
    def label(self) -> str:
        """`early_stopping:5@40` for windows of five among at most forty attempts."""
        return f"{self.name}:{self.window}@{self.max_attempts}"

    @property
    def most(self) -> Most:
        """All attempts."""
        return Most(self.max_attempts)

    async def solve(self, session: Session) -> Solution:
        """Draw until a window agrees: `accepted`, a statistical stop, whose answer need not be the plurality of all draws.

        Otherwise the plurality, by `attempt_limit` or by the limit in its name.
        """
        candidates: list[Candidate] = []
        async with session.draws(self.max_attempts, parallel=self.parallel, max_output_tokens=self.max_output_tokens) as draws:
            async for candidate in draws:
                candidates.append(candidate)
                classes = [one.answer_class if one.votes else None for one in candidates]
                if window_agrees(classes, self.window, sliding=self.sliding):
                    return session.solution(first_valid(candidates[-self.window :]), StopReason.ACCEPTED)
        chosen = plurality(candidates, 1, self.ties, session.chance)
        return session.solution(chosen, draws.ended_by or StopReason.ATTEMPT_LIMIT)
