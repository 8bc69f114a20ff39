"""A reply as it came over the wire, and a strict reading of it. No I/O.

Deliberately not the client's parser: what a client may overlook, this shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Surface = Literal["messages", "chat"]
WAIT = "[WAIT]"


@dataclass(frozen=True)
class Reply:
    """One exchange.

    Attributes:
        probe: what it was sent for; sent: the body.
        status: 0 when there was no reply; content_type without its parameters.
        body: what came, up to a bound; problem: how the transport failed, None when it did not.
    """

    probe: str
    surface: Surface
    sent: dict[str, Any]
    status: int
    content_type: str
    body: bytes = field(repr=False)
    problem: str | None = None

    @property
    def streamed(self) -> bool:
        """Whether it is an event stream that was read to its end."""
        return self.status == 200 and self.content_type == "text/event-stream" and self.problem is None

    @cached_property
    def events(self) -> tuple[bytes, ...]:
        """The data of each event. Comments and events without data are none."""
        lines = self.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events, data = list[bytes](), list[bytes]()
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line and data:
                events.append(b"\n".join(data))
                data = []
        return tuple(events)

    @cached_property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """The events that are JSON objects."""
        return tuple(found for found in map(_object, self.events) if found is not None)

    @cached_property
    def foreign(self) -> tuple[bytes, ...]:
        """The events that are not, except the terminator at the end of a chat stream."""
        events = self.events
        if self.surface == "chat" and events and events[-1] == b"[DONE]":
            events = events[:-1]
        return tuple(event for event in events if _object(event) is None)

    @cached_property
    def final(self) -> dict[str, Any] | None:
        """The final message: the last object that says it is one, or has its stop reason and usage."""
        return next((one for one in reversed(self.objects) if _is_final(one)), None)

    @property
    def usage(self) -> dict[str, Any]:
        """The usage of the final message; empty when there is none."""
        usage = (self.final or {}).get("usage")
        return usage if isinstance(usage, dict) else {}

    def count(self, name: str) -> int | None:
        """A token count of the usage; None when it is not an integer."""
        value = self.usage.get(name)
        return value if type(value) is int else None

    @property
    def stop_reason(self) -> object:
        """The final message's stop reason."""
        return (self.final or {}).get("stop_reason")

    @property
    def budget(self) -> int | None:
        """The thinking budget that was sent."""
        thinking = self.sent.get("thinking")
        return thinking.get("budget_tokens") if isinstance(thinking, dict) else None

    @cached_property
    def deltas(self) -> tuple[tuple[str, str], ...]:
        """Kind and text of each delta, in order; openings of content blocks count as empty deltas."""
        read = _message_deltas if self.surface == "messages" else _chat_deltas
        return tuple(delta for one in self.objects for delta in read(one))

    @cached_property
    def blocks(self) -> tuple[tuple[str, str], ...] | None:
        """Type and text of the final message's blocks; None when it has no list of objects."""
        content = (self.final or {}).get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            return None
        return tuple((str(block.get("type")), str(block.get("text", ""))) for block in content)

    def text_of(self, kind: str) -> str:
        """All text of one kind: of the deltas, or of the final message when it holds more."""
        streamed = "".join(text for found, text in self.deltas if found == kind)
        assembled = "".join(text for found, text in self.blocks or () if found == kind)
        return max(streamed, assembled, key=len)

    def has_text_block(self) -> bool:
        """Whether there is text, or a text block in the final message."""
        return bool(self.text_of("text")) or any(kind == "text" for kind, _ in self.blocks or ())

    def last_thinking(self) -> str:
        """The last thinking block."""
        blocks = [text for kind, text in self.blocks or () if kind == "thinking"]
        return blocks[-1] if blocks else self.text_of("thinking")


def _object(event: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(event)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_final(one: dict[str, Any]) -> bool:
    return one.get("type") == "message_stop" or ("stop_reason" in one and "usage" in one)


def _message_deltas(one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if one.get("type") == "content_block_start" and isinstance(one.get("content_block"), dict):
        block = one["content_block"]
        yield str(block.get("type")), str(block.get("text", ""))
    if one.get("type") == "content_block_delta" and isinstance(one.get("delta"), dict):
        delta = one["delta"]
        yield str(delta.get("type")).removesuffix("_delta"), str(delta.get("text", ""))


def _chat_deltas(one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    choices = one.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(delta, dict) and isinstance(delta.get("content"), str):
            yield str(delta.get("content_type", "text")), delta["content"]
