"""One call: the baseline, and with a longer thinking budget the "longer trajectory"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.records import Solution, StopReason
from ttc_eval.selectors import first_valid
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most


@dataclass(frozen=True, slots=True)
class Single:
    """Takes the first draw's answer, when it is complete and has one.

    `max_output_tokens` caps the draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "single"
    asks_verifier: ClassVar[bool] = False
    max_output_tokens: int | None = None

    @property
    def label(self) -> str:
        """`single`."""
        return self.name

    @property
    def most(self) -> Most:
        """One draw."""
        return Most(1)

    async def solve(self, session: Session) -> Solution:
        """One draw; stops by `attempt_limit`, or by the limit that left no room for it."""
        async with session.draws(1, max_output_tokens=self.max_output_tokens) as draws:
            candidates = [candidate async for candidate in draws]
        return session.solution(first_valid(candidates), draws.ended_by or StopReason.ATTEMPT_LIMIT)
