"""The second stage of a cascade or a route: the larger model where the cell has one, and another thinking where one is given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ttc_eval.errors import UserError
from ttc_eval.session import Draws, Session
from ttc_eval.strategies.base import Setting
from ttc_eval.thinking import Thinking, ThinkingMode

if TYPE_CHECKING:
    from ttc_eval.models.base import ModelInfo


def then_thinking(first: Thinking, budget: int | None, effort: str | None) -> Thinking:
    """The thinking of the second stage in a cell that thinks as `first`: the same, where neither a budget nor an effort is given."""
    if budget is not None:
        return replace(first, mode=ThinkingMode.BUDGET, budget=budget, effort=None)
    if effort is not None:
        return replace(first, mode=ThinkingMode.EFFORT, budget=None, effort=effort)
    return first


def check_options(then_draws: int, budget: int | None, effort: str | None) -> None:
    """Raise `UserError` for options that contradict each other or themselves."""
    if then_draws < 1:
        raise UserError(f"strategy.then_draws={then_draws}: give 1 or more")
    if budget is not None and budget < 0:
        raise UserError(f"strategy.then_budget={budget}: give 0 or more tokens, or null")
    if budget is not None and effort is not None:
        raise UserError(f"strategy.then_budget={budget} and strategy.then_effort={effort}: a stage thinks in one form; give one of them")


def check_second_stage(name: str, setting: Setting, then: Thinking) -> None:
    """Raise `UserError` when a cell would go over to what it does already, or to less."""
    larger, first = setting.larger, setting.thinking
    if then.mode is ThinkingMode.BUDGET and larger is None and (then.budget or 0) < (first.budget or 0):
        raise UserError(f"strategy.then_budget={then.budget}: it is below thinking.budget={first.budget}, where strategy={name} starts")
    if then == first and (larger is None or _asked(larger) == _asked(setting.model)):
        raise UserError(
            f"strategy={name}: there is nothing to go over to; add model@larger_model=NAME of another model, "
            "strategy.then_budget=N above thinking.budget, or strategy.then_effort=LEVEL"
        )


def _asked(info: ModelInfo) -> tuple[str, str]:
    return info.endpoint, info.model or info.name


def second_stage(session: Session, then: Thinking, count: int, parallel: int) -> Draws:
    """`count` draws of the second stage, for `async with` and `async for`."""
    if session.has_larger_model:
        return session.draws(count, parallel=parallel, larger=True)
    return session.draws(count, parallel=parallel, thinking=then)
