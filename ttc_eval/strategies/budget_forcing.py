"""Budget forcing: thinking that ends early is made to go on with "Wait", and closed when its budget is used up (s1, arXiv 2501.19393)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Solution, StopReason
from ttc_eval.selectors import first_valid
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode


@dataclass(frozen=True, slots=True)
class BudgetForcing:
    """Takes one draw, which thinks until `thinking.budget` is used up or it has been told to go on often enough.

    The draw is the one that `single` takes with `thinking.at_limit=extend` and as many extensions; with none it is that of
    `thinking.at_limit=answer`. Each pays for it alone, and a sweep with both is billed once.

    Attributes:
        max_extensions: how often thinking that ends before its budget is continued with "Wait"; 0 only closes it at the budget.
    """

    name: ClassVar[str] = "budget_forcing"
    asks_verifier: ClassVar[bool] = False
    max_extensions: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.max_extensions <= 32:
            raise UserError(f"strategy.max_extensions={self.max_extensions}: give 0 to 32")

    @property
    def label(self) -> str:
        """`budget_forcing@2` for at most two extensions."""
        return f"{self.name}@{self.max_extensions}"

    @property
    def most(self) -> Most:
        """One draw."""
        return Most(1)

    def thinkings(self, first: Thinking) -> Sequence[Thinking]:
        """The cell's budget, forced. Raises `UserError` for a cell without one, or whose draws are to fail where theirs is used up."""
        if first.mode is not ThinkingMode.BUDGET or not first.budget:
            raise UserError("strategy=budget_forcing: there is no budget to force; give thinking=budget thinking.budget=N")
        if first.at_limit is AtLimit.FAIL:
            raise UserError("strategy=budget_forcing: it answers when the budget is used up; leave out thinking.at_limit=fail")
        if not self.max_extensions:
            return [replace(first, at_limit=AtLimit.ANSWER)]
        return [replace(first, at_limit=AtLimit.EXTEND, max_extensions=self.max_extensions)]

    def check(self, setting: Setting) -> None:
        """Raise `UserError` for a model whose thinking cannot be made to go on: what it calls a budget is only a bound."""
        if setting.model.forced is None and not setting.model.thinking.extends:
            raise UserError(
                f"strategy=budget_forcing: model {setting.model.name!r} cannot be made to think on; it takes a model that continues a "
                "prefix (model.forced, see docs/thinking.md) or that extends its thinking itself, for example model=lab"
            )

    async def solve(self, session: Session) -> Solution:
        """One draw; stops by `attempt_limit`, or by the limit that left no room for it."""
        async with session.draws(1, thinking=self.thinkings(session.thinking)[0]) as draws:
            candidates = [candidate async for candidate in draws]
        return session.solution(first_valid(candidates), draws.ended_by or StopReason.ATTEMPT_LIMIT)
