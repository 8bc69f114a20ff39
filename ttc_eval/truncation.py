"""A response that its cap cut: where it was cut, and what to do about it.

Thinking and answer share one cap, so what thinking used is missing from the answer (`ttc_eval.thinking.answer_ceiling`). The remedy is a
higher cap. A smaller budget would make room as well, at the price of the quality that thinking was turned on for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttc_eval.records import CallStop, Response
from ttc_eval.thinking import answer_ceiling


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a response was cut by its cap.

    Attributes:
        where: `thinking`: all of the cap went to thinking, and nothing was said; `answer`: the visible answer stops in the middle.
        cap: all output that was allowed, in tokens.
        thinking_used: tokens of it that went to thinking; None when they were not reported.
        over_budget: whether more thinking was used than the budget that was asked for; None when either is unknown.
        advice: what to tell the user, in one line.
    """

    where: Literal["thinking", "answer"]
    cap: int
    thinking_used: int | None
    over_budget: bool | None
    advice: str


def cut_of(response: Response, cap: int, budget: int | None = None) -> Cut | None:
    """How `response` was cut by `cap`, the most output tokens that it was allowed; None when it was not.

    `budget` is the thinking budget that was asked for, in tokens. A response without text counts as cut in its thinking only when there
    was thinking: text of it, a block of it that is not disclosed, or tokens reported for it.
    """
    if response.stop not in (CallStop.MAX_TOKENS, CallStop.CONTEXT_FULL):
        return None
    used = response.usage.reasoning_tokens
    thought = response.thinking is not None or bool(used)
    where: Literal["thinking", "answer"] = "thinking" if thought and not response.text.strip() else "answer"
    over = None if used is None or budget is None else used > budget
    return Cut(where, cap, used, over, advice(cap, used if thought else 0, full=response.stop is CallStop.CONTEXT_FULL))


def advice(cap: int, thinking_used: int | None, *, full: bool = False) -> str:
    """What to tell a user whose answer was cut at `cap` tokens after thinking used `thinking_used` of them (None: not reported).

    `full`: the model's context window was full, which no cap helps.
    """
    if full:
        return "cut: the model's context window is full; a shorter prompt or history makes room, a higher cap does not"
    raise_it = "raise the cap with answer_tokens (max_tokens is the budget and answer_tokens)"
    if thinking_used == 0:
        return f"cut at its cap of {cap} tokens; {raise_it}"
    if thinking_used is None or thinking_used > cap:
        split = "which thinking and answer share"
    else:
        split = f"of which thinking used {thinking_used} and left {answer_ceiling(cap, thinking_used)} for the answer"
    return f"cut at its cap of {cap} tokens, {split}; {raise_it}; do not lower the budget"
