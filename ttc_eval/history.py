"""The history of a conversation with a model that thinks: what it said goes back verbatim and in order, or nothing is sent.

Why: a thinking block is signed, and a tool loop only works when the model sees the reasoning that led to its call. Code that picks text
and tool calls out of a turn drops the thinking; code that stores it through a formatter breaks the signature. Both fail one request later,
with an error that names a block nobody handled. So a `History` keeps each assistant turn as it was received, and `check` compares what is
about to be sent with it.

Three things are left out of a turn, and each is on record in `dropped`: a thinking block without a signature (`no_signature`; it was cut),
thinking blocks when the conversation moves to another model (`signature_bound_to_model`), and empty text (`empty_text`), which the
Messages API does not take. Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking, as of 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ttc_eval.errors import UserError
from ttc_eval.records import JSON, Message, Request, Response

SEALED = ("thinking", "redacted_thinking")  # the blocks that carry a seal of the model that wrote them


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave for one call of it. `tool_use_id` is the call's id; `failed` tells the model that `content` is an error."""

    tool_use_id: str
    content: str
    failed: bool = False

    def block(self) -> JSON:
        """The result as a content block of the Messages API."""
        block = {"type": "tool_result", "tool_use_id": self.tool_use_id, "content": self.content}
        return block | {"is_error": True} if self.failed else block


@dataclass(frozen=True, slots=True)
class Dropped:
    """A block that is not sent back: the place of its turn among the messages, its index in the turn as received, and why."""

    position: int
    index: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class History:
    """A conversation, with what was received on record.

    Attributes:
        model: the model that the next request goes to; the seals in the history are its own.
        messages: the turns to send.
        received: places in `messages` of the turns that a model wrote.
        dropped: blocks that were received and are not in `messages`.
    """

    model: str
    messages: tuple[Message, ...]
    received: tuple[int, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def calls(self) -> tuple[JSON, ...]:
        """The tool calls of the last turn, which wait for their results."""
        last = self.messages[-1] if self.messages else None
        return tuple(block for block in last.blocks if block.get("type") == "tool_use") if last and last.role == "assistant" else ()

    def answered(self, response: Response) -> History:
        """The history with a model's turn at its end, verbatim. Raises `UserError` when nothing of the turn can be sent back."""
        position = len(self.messages)
        reasons = [_unfit(block) for block in response.blocks]
        kept = tuple(block for block, reason in zip(response.blocks, reasons, strict=True) if reason is None)
        if not kept and not response.text:
            raise UserError(
                f"messages[{position}]: nothing of this turn can be sent back; it ended ({response.stop.value}) before its answer"
            )
        dropped = [Dropped(position, index, _kind(response.blocks[index]), reason) for index, reason in enumerate(reasons) if reason]
        turn = Message("assistant", response.text, kept)
        return replace(self, messages=(*self.messages, turn), received=(*self.received, position), dropped=(*self.dropped, *dropped))

    def with_results(self, results: Sequence[ToolResult], text: str = "") -> History:
        """The history with the tools' results at its end, in the order of the calls, and what the user adds to them.

        Raises `UserError` that names a call without a result, or a result without a call.
        """
        position, by_call = len(self.messages) - 1, {result.tool_use_id: result for result in results}
        names = {str(call.get("id")): call for call in self.calls}
        for identity, call in names.items():
            if identity not in by_call:
                raise UserError(
                    f"{_name(position, self.messages[position].blocks.index(call), call)} has no result; each call of a tool needs one"
                )
        for identity in by_call:
            if identity not in names:
                raise UserError(f"tool_result for {identity!r}: the turn before calls no such tool; it calls: {', '.join(names) or 'none'}")
        blocks = [by_call[identity].block() for identity in names]
        if text:
            blocks.append({"type": "text", "text": text})
        spoken = "\n".join([*(by_call[identity].content for identity in names), *([text] if text else [])])
        return replace(self, messages=(*self.messages, Message("user", spoken, tuple(blocks))))

    def asked(self, text: str) -> History:
        """The history with a further turn of the user at its end. Raises `UserError` while tool calls wait for their results."""
        if self.calls:
            raise UserError(f"{len(self.calls)} tool call(s) wait for their results; give them first")
        return replace(self, messages=(*self.messages, Message("user", text)))

    def for_model(self, model: str) -> History:
        """The history for another model: without the seals, which are bound to the one that wrote them.

        Raises `UserError` inside a tool loop, where the thinking that led to a call may not be left out.
        """
        if model == self.model:
            return self
        loop = next((place for place in reversed(range(len(self.messages))) if not _is_of_a_loop(self.messages[place])), -1) + 1
        dropped, messages = [], list(self.messages)
        for position in self.received:
            turn = messages[position]
            sealed = [index for index, block in enumerate(turn.blocks) if _kind(block) in SEALED]
            if sealed and position >= loop:
                where = _name(position, sealed[0], turn.blocks[sealed[0]])
                raise UserError(f"{where} belongs to a tool loop of model {self.model!r}; finish the loop before {model!r} takes over")
            before = {entry.index for entry in self.dropped if entry.position == position}
            as_received = [index for index in range(len(turn.blocks) + len(before)) if index not in before]
            dropped += [Dropped(position, as_received[index], _kind(turn.blocks[index]), "signature_bound_to_model") for index in sealed]
            messages[position] = replace(turn, blocks=tuple(block for block in turn.blocks if _kind(block) not in SEALED))
        return replace(self, model=model, messages=tuple(messages), dropped=(*self.dropped, *dropped))

    def next_request(self, like: Request, messages: Sequence[Message] | None = None) -> Request:
        """`like` with this history, as the next segment of its draw.

        Args:
            messages: what to send where it is not the history itself; it is checked.

        Raises `UserError` as `check` does, or when `like` is for another model than this history.
        """
        if like.model != self.model:
            raise UserError(f"this history is model {self.model!r}'s; use for_model({like.model!r}), which leaves its seals out")
        chosen = self.messages if messages is None else tuple(messages)
        self.check(chosen)
        return replace(like, messages=chosen, segment=len(self.received))

    def check(self, messages: Sequence[Message]) -> None:
        """Raise `UserError` when `messages` changes what a model wrote: a block dropped, edited, moved or added. It names the block."""
        for position in self.received:
            turn = messages[position] if position < len(messages) else None
            if turn is None or turn.role != "assistant":
                raise UserError(f"messages[{position}]: the assistant's turn was dropped; send back what it wrote, verbatim and in order")
            wanted = self.messages[position]
            if turn.blocks != wanted.blocks:
                raise UserError(f"{_difference(position, wanted.blocks, turn.blocks)}; send the turn back verbatim and in order")
            if not wanted.blocks and turn.content != wanted.content:
                raise UserError(f"messages[{position}]: the assistant's text was edited; send the turn back verbatim")


def history_of(request: Request) -> History:
    """The history that starts with a request's own messages."""
    return History(request.model, request.messages)


def _difference(position: int, wanted: Sequence[JSON], found: Sequence[JSON]) -> str:
    """What was done to the first block that is not in its place."""
    for index, block in enumerate(wanted):
        if index < len(found) and found[index] == block:
            continue
        name = _name(position, index, block)
        if block in found:
            # Where one before it is missing, that one is the cause.
            return f"{name} was moved to place {list(found).index(block)}"
        same = next((other for other in found if _kind(other) == _kind(block) and other not in wanted), None)
        if same is None:
            return f"{name} was dropped"
        fields = sorted(key for key in {*block, *same} if block.get(key) != same.get(key))
        return f"{name} was edited ({', '.join(fields)})"
    extra = found[len(wanted)]
    return f"{_name(position, len(wanted), extra)} was added"


def _unfit(block: JSON) -> str | None:
    if _kind(block) == "thinking" and not block.get("signature"):
        return "no_signature"
    return "empty_text" if _kind(block) == "text" and not block.get("text") else None


def _is_of_a_loop(message: Message) -> bool:
    """Whether a turn belongs to a tool loop: it calls tools, or gives their results."""
    return any(_kind(block) in ("tool_use", "tool_result") for block in message.blocks)


def _kind(block: JSON) -> str:
    return str(block.get("type"))


def _name(position: int, index: int, block: JSON) -> str:
    return f"messages[{position}]: block {index} ({_kind(block)})"
