"""Escalation: think within a small budget first, and again within a larger one when it was used up (TTC-v2, docs/ttc-v2.md).

What the model finds hard gets more thinking, and nothing else does. Every attempt is charged, those that ran out as well. Attempt *i* is
draw 0 of the pool of its budget: the same draw that `single` takes there, and on a model whose seed does not depend on the budget the
same trace, uncut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import CallStop, Candidate, Solution, StopReason
from ttc_eval.session import DrawFailed, Session
from ttc_eval.strategies.base import Most
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

_REFUSED = "budget_refused"
_MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Escalate:
    """Retries a draw whose thinking budget was used up, with a budget `factor` times as large.

    It starts from the cell's `thinking.budget`, whose `thinking.at_limit` is `fail`.

    Attributes:
        factor: what a budget is multiplied by, above 1; the result is rounded up.
        max_budget: the largest budget that is tried, in tokens; the step that would pass it is cut to it. None: no bound of its own.
        max_attempts: attempts in all, the first included.
    """

    name: ClassVar[str] = "escalate"
    asks_verifier: ClassVar[bool] = False
    factor: float = 2.0
    max_budget: int | None = None
    max_attempts: int = 4

    def __post_init__(self) -> None:
        if not 1 < self.factor < math.inf:
            raise UserError(f"strategy.factor={self.factor}: give a number above 1, for example 2")
        if not 1 <= self.max_attempts <= 32:
            raise UserError(f"strategy.max_attempts={self.max_attempts}: give 1 to 32")
        if self.max_budget is not None and not 1 <= self.max_budget <= _MOST_TOKENS:
            raise UserError(f"strategy.max_budget={self.max_budget}: give 1 or more tokens, or null")

    @property
    def label(self) -> str:
        """`escalate@4` for at most four attempts; `escalate@4≤512` where the budget is bounded."""
        return f"{self.name}@{self.max_attempts}" + ("" if self.max_budget is None else f"≤{self.max_budget}")

    @property
    def most(self) -> Most:
        """One draw under each budget."""
        return Most(1)

    def thinkings(self, first: Thinking) -> Sequence[Thinking]:
        """The ladder of budgets from the cell's own. Raises `UserError` for a cell whose budget cannot be seen to run out."""
        if first.mode is not ThinkingMode.BUDGET or not first.budget or first.at_limit is not AtLimit.FAIL:
            raise UserError(
                "strategy=escalate: it starts from a budget that can run out; give thinking=budget thinking.budget=N thinking.at_limit=fail"
            )
        most = _MOST_TOKENS if self.max_budget is None else self.max_budget
        if first.budget > most:
            raise UserError(f"strategy.max_budget={self.max_budget}: it is below thinking.budget={first.budget}, where escalation starts")
        budgets = [first.budget]
        while len(budgets) < self.max_attempts and budgets[-1] < most:
            budgets.append(min(math.ceil(budgets[-1] * self.factor), most))
        return [replace(first, budget=budget) for budget in budgets]

    async def solve(self, session: Session) -> Solution:
        """Climb the ladder until a draw ends by itself.

        Stops by `accepted` with its answer; by `exhausted` when a draw ended without one for another reason than its budget, which more
        thinking would not mend, when `max_budget` was used up, or when the server refuses a larger budget (with a note); by
        `attempt_limit`; or by the limit of the ledger that left no room.
        """
        ladder = self.thinkings(session.thinking)
        for place, thinking in enumerate(ladder):
            try:
                async with session.draws(1, thinking=thinking) as draws:
                    taken: list[Candidate] = [one async for one in draws]
            except DrawFailed as failure:
                if failure.kind != _REFUSED or place == 0:
                    raise
                return session.solution(None, StopReason.EXHAUSTED, note=str(failure))
            if draws.ended_by is not None:
                return session.solution(None, draws.ended_by)
            candidate = taken[0]
            if candidate.stop is not CallStop.BUDGET_EXCEEDED:
                return session.solution(candidate, StopReason.ACCEPTED) if candidate.votes else session.solution(None, StopReason.EXHAUSTED)
        return session.solution(None, StopReason.ATTEMPT_LIMIT if len(ladder) == self.max_attempts else StopReason.EXHAUSTED)
