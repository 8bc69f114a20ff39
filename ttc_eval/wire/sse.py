"""Server-Sent Events, incrementally: bytes in, events out, no I/O.

Follows "Interpreting an event stream" of the HTML standard (html.spec.whatwg.org/multipage/server-sent-events.html).
Lines end in LF, CR or CR LF, and any split of the bytes into chunks gives the same events. One departure: event data stays bytes, so
that the JSON parser, not this one, judges whether it is valid UTF-8; a replacement character would be invented text.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One dispatched event. `data` holds its data lines joined with LF; `id` is the last event id that was seen."""

    event: str
    data: bytes
    id: str = ""

    @property
    def text(self) -> str:
        """The data as the standard decodes it: UTF-8, invalid bytes replaced."""
        return self.data.decode("utf-8", "replace")


class EventTooLarge(ValueError):
    """An event, or a line that does not end, is larger than the bound."""


class SSEParser:
    """Turns chunks of one stream into events.

    Attributes:
        retry_ms: the reconnection time that the stream asked for, in milliseconds; None when it did not.
    """

    __slots__ = ("_after_cr", "_data", "_event", "_first", "_id", "_limit", "_size", "_tail", "retry_ms")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.retry_ms: int | None = None
        self._limit = max_event_bytes
        self._tail: list[bytes] = []  # pieces of a line that has not ended yet
        self._size = 0  # bytes held in the tail and in the data of the open event
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._first = True
        self._after_cr = False

    @property
    def pending(self) -> bool:
        """Whether bytes of an unfinished line or event are held: a stream that ends now ends uncleanly."""
        return bool(self._tail or self._data or self._event)

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes, in order. Raises `EventTooLarge` past the bound on one event."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):  # second half of a CR LF that was split between chunks
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        tail = lines.pop()
        events: list[Event] = []
        if lines:
            if self._tail:
                self._tail.append(lines[0])
                lines[0] = b"".join(self._tail)
                self._tail.clear()
                self._size = sum(map(len, self._data))
            self._lines(lines, events)
        if tail:
            self._tail.append(tail)
            self._grow(len(tail))
        return events

    def close(self) -> bool:
        """End of the stream: an unfinished event is dropped, as the standard says. True when nothing had to be dropped."""
        clean = not self.pending
        self._tail.clear()
        self._data.clear()
        self._event = ""
        return clean

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise EventTooLarge(f"an event of more than {self._limit} bytes")

    def _lines(self, lines: list[bytes], events: list[Event]) -> None:
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_BOM)
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append(Event(self._event, data[0] if len(data) == 1 else b"\n".join(data), self._id))
                    data.clear()
                    self._size = 0
                self._event = ""
            elif line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                data.append(value)
                self._grow(len(value))
            elif not line.startswith(b":"):
                self._field(line)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":  # a line of the bare word
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry_ms = int(value[:18])
