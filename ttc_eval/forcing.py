"""Budget forcing by continuing a prefix: which request comes next in a draw, and what the draw then is.

A model that does not take a thinking budget but continues a given assistant turn gets its budget enforced here (s1,
arXiv 2501.19393): it thinks within `budget` tokens, the thinking is closed, and the answer is forced. One draw is then
several requests, each a call of its own, and together they use no more than the budget plus the room for the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ttc_eval.models.base import ForcedThinking
from ttc_eval.records import CallStop, Request, Response
from ttc_eval.thinking import AtLimit

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Segment:
    """One request of a draw. `thinks`: whether its output is all thinking or all answer; None when the model decides."""

    request: Request
    thinks: bool | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A segment and the response that it brought."""

    segment: Segment
    response: Response


@dataclass(frozen=True, slots=True)
class DrawText:
    """What a whole draw says. `stop` is why it ended; a draw that was cut is not `complete` and never votes.

    The log-probabilities are those of all its tokens, thinking first; None where a part has none.
    """

    text: str
    thinking: str | None
    stop: CallStop
    complete: bool
    token_logprobs: tuple[float, ...] | None = None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None


def next_segment(draw: Request, forced: ForcedThinking, parts: Sequence[Part]) -> Segment | None:
    """The request that follows `parts` in this draw; None when the draw has ended.

    Args:
        draw: the request for the whole draw, with a thinking budget; its `max_output_tokens` bounds all segments.
    """
    budget = draw.thinking.budget or 0
    thoughts = [part for part in parts if part.segment.thinks]
    if len(thoughts) < len(parts):
        return None
    used = sum(_output(part) for part in thoughts)
    last = thoughts[-1].response if thoughts else None
    left = min(budget - used, draw.max_output_tokens - used - 1)
    if last is None and left > 0:
        return _thinking(draw, forced, "", left, 0)
    if last is not None and last.stop in (CallStop.MAX_TOKENS, CallStop.CONTEXT_FULL) and draw.thinking.at_limit is AtLimit.FAIL:
        return None
    ended_early = last is not None and last.complete
    if ended_early and draw.thinking.at_limit is AtLimit.EXTEND and len(thoughts) <= draw.thinking.max_extensions and left > 0:
        return _thinking(draw, forced, _thought(thoughts, forced) + forced.wait, left, len(parts))
    prefix = forced.skip if budget == 0 else f"{forced.open}{_thought(thoughts, forced).rstrip()}{forced.close}"
    return Segment(
        replace(
            draw,
            prefix=prefix,
            max_output_tokens=min(draw.answer_tokens, draw.max_output_tokens - used),
            sampling=replace(draw.sampling, stop=forced.answer_stop),
            segment=len(parts),
        ),
        thinks=False,
    )


def assemble(parts: Sequence[Part], forced: ForcedThinking) -> DrawText:
    """The whole draw. A draw that ended inside its thinking answered nothing: `budget_exceeded`."""
    thoughts = [part for part in parts if part.segment.thinks]
    thinking = _thought(thoughts, forced) if thoughts else None
    last = parts[-1]
    if last.segment.thinks:
        return DrawText("", thinking, CallStop.BUDGET_EXCEEDED, False)
    logprobs = _joined([part.response.token_logprobs for part in parts])
    return DrawText(
        last.response.text,
        thinking,
        last.response.stop,
        last.response.complete,
        logprobs,
        _joined([part.response.top_logprobs for part in parts]),
    )


def whole(response: Response) -> DrawText:
    """A draw that is one request."""
    return DrawText(response.text, response.thinking, response.stop, response.complete, response.token_logprobs, response.top_logprobs)


def _joined(parts: Sequence[tuple[_T, ...] | None]) -> tuple[_T, ...] | None:
    return None if any(part is None for part in parts) else tuple(one for part in parts if part is not None for one in part)


def _thinking(draw: Request, forced: ForcedThinking, thought: str, tokens: int, place: int) -> Segment:
    sampling = replace(draw.sampling, stop=forced.close_markers)
    return Segment(
        replace(draw, prefix=forced.open + thought, max_output_tokens=tokens, sampling=sampling, segment=place),
        thinks=True,
    )


def _thought(thoughts: Sequence[Part], forced: ForcedThinking) -> str:
    return forced.wait.join(part.response.text for part in thoughts)


def _output(part: Part) -> int:
    # Unknown usage may have used up its whole cap.
    output = part.response.usage.output_tokens
    return part.segment.request.max_output_tokens if output is None else output
