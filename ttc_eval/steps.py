"""Steps of reasoning: how the next one is asked for, and what a reply makes of the text so far. Pure, no I/O.

A *path* is the model's own turn as far as it has been written. It grows by one reply at a time: a step up to the boundary, or the answer.
A path writes no more than a draw of the same cell may: thinking within the budget, then the answer within its room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ttc_eval.asking import Ask, Reply
from ttc_eval.errors import UserError
from ttc_eval.models.base import StepFormat
from ttc_eval.records import CallStop, Message, Role
from ttc_eval.thinking import AtLimit, Thinking


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What the user states of the steps; None takes what is known of the model.

    Attributes:
        opening: what its turn begins with, for example `<think>`.
        boundary: what ends a step.
        closing: what ends the reasoning, before the answer; empty where the answer stands in the last steps.
    """

    opening: str | None = None
    boundary: str | None = None
    closing: str | None = None

    def __post_init__(self) -> None:
        if self.boundary == "":
            raise UserError("strategy.steps.boundary: it is empty; give the text that ends a step, or null")

    def over(self, own: StepFormat) -> StepFormat:
        """The model's own format with what is stated here in its place."""
        stated = {name: getattr(self, name) for name in ("opening", "boundary", "closing") if getattr(self, name) is not None}
        return replace(own, **stated)


class Phase(StrEnum):
    """Where a path stands.

    `open`: its next step can be asked for. `spent`: its thinking ended or used up its budget, and has to be closed. `answering`: it is
    closed, and the answer goes on. `ended`: by itself. `dead`: it was cut, or nothing was added to it; it cannot go on.
    """

    OPEN = "open"
    SPENT = "spent"
    ANSWERING = "answering"
    ENDED = "ended"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Path:
    """The model's turn so far. `written` are the tokens that the model has written of it."""

    turn: str
    written: int = 0
    phase: Phase = Phase.OPEN

    @property
    def goes_on(self) -> bool:
        """Whether a further reply can make it longer."""
        return self.phase in (Phase.OPEN, Phase.SPENT, Phase.ANSWERING)


@dataclass(frozen=True, slots=True)
class Steps:
    """How one cell's paths grow.

    Attributes:
        thinking_tokens: most that a path may think, or write where it has no closing; total_tokens: most that it may write at all.
        answer_tokens: room for the answer; step_tokens: cap of one step, None for what the path has left.
        closes: whether thinking that has used up its budget is closed and the answer asked for, or is dead.
    """

    format: StepFormat
    thinking_tokens: int
    total_tokens: int
    answer_tokens: int
    step_tokens: int | None
    closes: bool

    @classmethod
    def of(cls, form: StepFormat, thinking: Thinking, answer_tokens: int, step_tokens: int | None) -> Steps:
        """The steps of a cell that thinks so. Without a budget a path may write `answer_tokens` in all, as a draw may."""
        total = (thinking.budget or 0) + answer_tokens
        closes = thinking.at_limit is not AtLimit.FAIL
        return cls(form, thinking.budget or total, total, answer_tokens, step_tokens, closes)

    @property
    def start(self) -> Path:
        """The path before its first step."""
        return Path(self.format.opening)

    def ask(self, path: Path, messages: tuple[Message, ...], draw: int, depth: int) -> Ask:
        """The request that makes a path longer by a step or, when its thinking is over, by the answer."""
        left = self.total_tokens - path.written
        prefix, stop, cap = path.turn, self.format.answer_stop, min(self.answer_tokens, left)
        if path.phase is Phase.SPENT:
            prefix = path.turn.rstrip() + self.format.closing
        if path.phase is Phase.OPEN:
            stop = (self.format.boundary,)
            cap = self.thinking_tokens - path.written
            cap = cap if self.step_tokens is None else min(cap, self.step_tokens)
        return Ask(messages, Role.STEP, draw, prefix, stop, max_output_tokens=max(1, cap), depth=depth)

    def grown(self, path: Path, ask: Ask, reply: Reply) -> Path:
        """What the reply to `ask` makes of `path`.

        A step that ran into its cap before the boundary is dead, unless what it ran into is the end of the thinking budget: then the
        thinking is closed and the answer asked for, where `at_limit` says so. Unknown usage counts as the whole cap.
        """
        used = ask.max_output_tokens if reply.output_tokens is None else reply.output_tokens
        piece = self._piece(path, reply)
        found = Path(ask.prefix + piece, path.written + (used or 0))
        if path.phase is not Phase.OPEN:
            return replace(found, phase=Phase.ENDED if reply.complete else Phase.DEAD)
        # Where an end and a stop string look the same, a step that says something was stopped; an empty one is the end.
        unsure = reply.stop is CallStop.END and bool(piece) and not self.format.tells_stop
        at_boundary = reply.stop is CallStop.STOP_SEQUENCE or unsure
        return self._after_step(found, piece, reply.stop, at_boundary)

    def parts(self, path: Path) -> tuple[str, str | None]:
        """What stands before the closing, and after it; None where the path is not closed."""
        body, closing = path.turn[len(self.format.opening) :], self.format.closing
        if not closing or closing not in body:
            return body, None
        before, _, after = body.partition(closing)
        return before, after

    def _piece(self, path: Path, reply: Reply) -> str:
        """The reply as one text, as the model wrote it."""
        if not self.format.apart or path.phase is not Phase.OPEN:
            return reply.text
        return (reply.thinking or "") + (f"{self.format.closing}{reply.text}" if reply.text else "")

    def _after_step(self, found: Path, piece: str, stop: CallStop, at_boundary: bool) -> Path:
        form, cut = self.format, stop in (CallStop.MAX_TOKENS, CallStop.BUDGET_EXCEEDED)
        room = found.written < self.total_tokens
        if self.parts(found)[1] is not None:
            if at_boundary and form.boundary not in form.answer_stop:
                return replace(found, turn=found.turn + form.boundary, phase=Phase.ANSWERING if room else Phase.DEAD)
            if at_boundary or stop is CallStop.END:
                return replace(found, phase=Phase.ENDED)
            return replace(found, phase=Phase.ANSWERING if cut and room else Phase.DEAD)
        closable = bool(form.closing) and room
        used_up = Phase.SPENT if closable and self.closes else Phase.DEAD
        if at_boundary and piece.strip():
            more = found.written < self.thinking_tokens
            return replace(found, turn=found.turn + form.boundary, phase=Phase.OPEN if more else used_up)
        if stop is CallStop.END and not at_boundary:
            return replace(found, phase=Phase.ENDED if not form.closing else Phase.SPENT if closable else Phase.DEAD)
        return replace(found, phase=used_up if cut and found.written >= self.thinking_tokens else Phase.DEAD)
