"""Thinking: how much a model may reason before it answers, and which forms a model accepts.

The user states a form of thinking and `answer_tokens`, the room for the visible answer. What is sent to a
provider follows from both and from the model's `ThinkingSupport`, so that one sweep means the same everywhere
(docs/design.md 3.1). A form or a budget that a model does not accept is refused before anything is sent, never clamped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from ttc_eval.errors import UserError

_MOST_TOKENS = 2**31 - 1


class ThinkingMode(StrEnum):
    """The forms of thinking."""

    OFF = "off"
    BUDGET = "budget"
    EFFORT = "effort"
    ADAPTIVE = "adaptive"


class AtLimit(StrEnum):
    """What happens when thinking and its budget do not end together.

    `fail`: a budget used up ends the response, with no answer (TTC-v2). `answer`: a budget used up closes the
    thinking and the answer is forced (s1, arXiv 2501.19393). `extend`: thinking that ends before its budget is
    continued with "Wait", at most `max_extensions` times, and the answer is forced when the budget is used up (s1).
    """

    FAIL = "fail"
    ANSWER = "answer"
    EXTEND = "extend"


@dataclass(frozen=True, slots=True)
class Thinking:
    """What the user asks for: `off`, `budget(tokens)`, `effort(level)` or `adaptive(effort?)`.

    `budget` is in tokens and belongs to mode `budget`; `effort` is a level that the provider names.
    """

    mode: ThinkingMode = ThinkingMode.OFF
    budget: int | None = None
    effort: str | None = None
    at_limit: AtLimit = AtLimit.ANSWER
    max_extensions: int = 1

    def __post_init__(self) -> None:
        if (self.mode is ThinkingMode.BUDGET) != (self.budget is not None):
            raise UserError(f"thinking.budget: mode {self.mode.value!r} with budget {self.budget}; a budget goes with mode 'budget' only")
        if self.budget is not None and not 0 <= self.budget <= _MOST_TOKENS:
            raise UserError(f"thinking.budget: {self.budget} is no number of tokens; give 0 or more")
        if self.mode is ThinkingMode.EFFORT and not self.effort:
            raise UserError("thinking.effort: mode 'effort' needs a level, for example thinking.effort=medium")
        if self.effort is not None and self.mode not in (ThinkingMode.EFFORT, ThinkingMode.ADAPTIVE):
            raise UserError(f"thinking.effort: mode {self.mode.value!r} takes no effort")
        if self.max_extensions < 0:
            raise UserError(f"thinking.max_extensions: {self.max_extensions} is negative")

    @property
    def label(self) -> str:
        """A short name for tables and figures: `off`, `budget 64`, `effort high`, `adaptive`."""
        detail = self.budget if self.mode is ThinkingMode.BUDGET else self.effort
        return self.mode.value if detail is None else f"{self.mode.value} {detail}"


@dataclass(frozen=True, slots=True)
class ThinkingSupport:
    """What one model accepts; data from `configs/model/*.yaml`.

    Attributes:
        accepts: the modes that the model takes.
        efforts: the levels of effort that it takes.
        min_budget: the smallest budget, in tokens; max_budget the largest, None when there is no stated one.
        budget_inside_max_tokens: whether reasoning and answer share the provider's cap.
        forced_by_prefix: the budget is enforced here, by continuing a prefix, not by the provider.
        reports_reasoning_tokens: whether usage tells reasoning tokens.
        budget_slack: tokens by which the provider may overrun a budget (TTC-v2: "slightly"); reserved, not hidden.
        off_form: how `off` is written where an API has several ways: `disabled`, `between_tools` (thinking between tool calls stays), or
            `omitted` (the field is left out, for a model that does not think unless it is told to).
        display: what the provider is asked to show of the thinking, in its own word; None leaves its default.
        continues: whether the model continues a given assistant text, where its API has a way to say so.
        extends: whether the model itself goes on with thinking that ends before its budget, as `at_limit` = `extend` says.
    """

    accepts: tuple[ThinkingMode, ...] = (ThinkingMode.OFF,)
    efforts: tuple[str, ...] = ()
    min_budget: int = 1
    max_budget: int | None = None
    budget_inside_max_tokens: bool = True
    forced_by_prefix: bool = False
    reports_reasoning_tokens: bool = False
    budget_slack: int = 0
    off_form: Literal["disabled", "between_tools", "omitted"] = "disabled"
    display: str | None = None
    continues: bool = True
    extends: bool = False

    def check(self, thinking: Thinking, model: str) -> None:
        """Raise `UserError` when `model` does not take this form of thinking, naming the forms that it takes."""
        if thinking.mode not in self.accepts:
            forms = ", ".join(self._form(mode) for mode in self.accepts)
            raise UserError(f"thinking={thinking.mode.value}: model {model!r} does not take it; it takes: {forms}")
        if thinking.mode is ThinkingMode.BUDGET and thinking.budget is not None:
            if thinking.budget < self.min_budget:
                raise UserError(f"thinking.budget={thinking.budget}: model {model!r} takes {self.min_budget} tokens or more")
            if self.max_budget is not None and thinking.budget > self.max_budget:
                raise UserError(f"thinking.budget={thinking.budget}: model {model!r} takes {self.max_budget} tokens at most")
        if thinking.effort is not None and thinking.effort not in self.efforts:
            raise UserError(f"thinking.effort={thinking.effort}: model {model!r} takes: {', '.join(self.efforts) or 'no effort'}")

    def _form(self, mode: ThinkingMode) -> str:
        if mode is ThinkingMode.BUDGET:
            return f"budget (from {self.min_budget} tokens)"
        return f"effort ({', '.join(self.efforts)})" if mode is ThinkingMode.EFFORT and self.efforts else mode.value


def answer_ceiling(max_tokens: int, thinking_used: int) -> int:
    """Tokens left for the visible answer when thinking and answer share one cap: `max_tokens - thinking_used`.

    Raises ValueError when more was used than the cap holds or a count is negative.
    """
    if not 0 <= thinking_used <= max_tokens:
        raise ValueError(f"thinking_used={thinking_used} is not between 0 and max_tokens={max_tokens}")
    return max_tokens - thinking_used


def shown(text: str | None, tokens: int | None) -> str:
    """Thinking as a reader may be shown it: its text, `none`, or `not disclosed` with its tokens, which are billed all the same.

    Args:
        text: as in `Response.thinking`: None without thinking, empty when there was some that the provider does not show.
        tokens: reasoning tokens as reported; None when they were not.
    """
    if text:
        return text
    if text is None and not tokens:
        return "none"
    return "not disclosed" if tokens is None else f"not disclosed ({tokens} tokens)"
