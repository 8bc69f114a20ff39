"""The events of an Anthropic Messages stream, gathered into a response. Pure.

Content blocks are put together as the server would have sent them whole: verbatim and in the order of their index, signatures and
redacted data included, since a tool loop has to send them back unchanged. A block or an event of a type that is not known here is kept or
passed over, never taken for text.

Usage (docs/design.md 3.2). `input_tokens` leaves out what was read from and written to the cache, so both are added back; `output_tokens`
holds thinking. The counts of `message_start` and of every `message_delta` are running totals: the last one of each counts, none are added
up, and one that a later event leaves out (the split of cache writes by lifetime) stays. Thinking tokens are taken from
`output_tokens_details.thinking_tokens` and are unknown where that is not given; they are never estimated from the text, which may be a
summary or be left out. The tokens of a compaction stand in `iterations` only and are added; those of an advisor are another model's, at
another price, and are not.

A response needs a `stop_reason` and `message_stop`. A stream that ends without them was cut, however cleanly it closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ttc_eval.errors import CallFailed
from ttc_eval.records import JSON, CallStop, Response, Timings, Usage, UsageSource
from ttc_eval.wire.counts import is_count
from ttc_eval.wire.failures import RETRYABLE, clean, describe, kind_of
from ttc_eval.wire.sse import Event

CUT_INPUT = "partial_json"  # holds the text of a tool's input that is not whole JSON

_STOPS = {
    "end_turn": CallStop.END,
    "stop_sequence": CallStop.STOP_SEQUENCE,
    "max_tokens": CallStop.MAX_TOKENS,
    "tool_use": CallStop.TOOL_USE,
    "refusal": CallStop.REFUSAL,
    "model_context_window_exceeded": CallStop.CONTEXT_FULL,
    # The turn is not over, and nothing is wrong with it: it is sent back as it stands.
    "pause_turn": CallStop.OTHER,
    "compaction": CallStop.OTHER,
}
_GROWS = {"text_delta": "text", "thinking_delta": "thinking"}  # a delta that makes the field of that name, of a block of that name, longer
_KNOWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"})


def usage(raw: object) -> Usage:
    """Tokens by a usage object, or by the last running totals of a stream. Counts that contradict each other make all of it unknown."""
    if not isinstance(raw, Mapping):
        return Usage()
    unknown = Usage(raw=raw)
    details, iterations = raw.get("output_tokens_details"), raw.get("iterations")
    reasoning = details.get("thinking_tokens") if isinstance(details, Mapping) else None
    parts = [raw]
    if isinstance(iterations, list):
        parts += [part for part in iterations if isinstance(part, Mapping) and part.get("type") == "compaction"]
    counts = [[part.get(name) for name in _COUNTS] for part in parts]
    if not all(count is None or is_count(count) for count in (reasoning, *(count for part in counts for count in part))):
        return unknown
    fresh, output, read, written = (_total(column) for column in zip(*counts, strict=True))
    if fresh is None or output is None or None in (count for part in counts for count in part[:2]) or (reasoning or 0) > output:
        return unknown
    return Usage(fresh + (read or 0) + (written or 0), output, read, written, reasoning, UsageSource.PROVIDER, raw)


class MessagesStream:
    """Gathers the events of one stream into a response.

    Attributes:
        started: whether the model has begun to answer: a first token of thinking, text or a tool's input, or its end. Thinking that is
            not shown brings no token, so it counts as waiting.
        done: whether `message_stop` has come; what comes after it does not count.
    """

    __slots__ = ("_blocks", "_counted", "_id", "_refused_for", "_secrets", "_stop", "_usage", "done", "started")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.started = False
        self.done = False
        self._secrets = secrets
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._counted = False  # whether output has been counted after it began; the count of message_start is of its first token
        self._stop: str | None = None
        self._refused_for: str | None = None
        self._id: str | None = None

    def feed(self, event: Event) -> None:
        """Take in one event. Raises `CallFailed`, with what had arrived, for an error event or one that is not of this format."""
        if self.done or event.event == "ping":
            return
        try:
            data = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            raise self._invalid(f"an event that is not JSON: {event.data[:4096].decode('utf-8', 'replace')}") from None
        if not isinstance(data, dict):
            raise self._invalid("an event that is not an object")
        match data.get("type", event.event):
            case "content_block_delta":
                self._delta(data)
            case "content_block_start":
                self._start_block(data)
            case "content_block_stop":
                self._block(data).open = False
            case "message_start":
                self._start(data)
            case "message_delta":
                self._end(data)
            case "message_stop":
                self.done = True
            case "error":
                message, words = describe(data)
                raise self.failure(kind_of(200, words), f"error inside the stream: {message}")
            case _:
                if event.event == "error" or data.get("error"):  # servers that only follow this format
                    message, words = describe(data)
                    raise self.failure(kind_of(200, words), f"error inside the stream: {message}")

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The response, once the stream has ended. Raises `CallFailed` when it ended early.

        Its `thinking` is None when there was no thinking, and empty when there was and none of it is disclosed (omitted or redacted).
        Its `stop_raw` is the provider's word, with the category of a refusal after a slash where one is given.
        """
        if self._stop is None or not self.done:
            missing = "message_stop" if self._stop else "a stop_reason"
            raise self.failure("incomplete", f"the stream ended without {missing}")
        thought = any(block.kind in ("thinking", "redacted_thinking") for block in self._blocks.values())
        return Response(
            text=self._all("text"),
            stop=_STOPS.get(self._stop, CallStop.OTHER),
            usage=self._known_usage(),
            timings=timings,
            thinking=self._all("thinking") if thought else None,
            stop_raw=self._stop if self._refused_for is None else f"{self._stop}/{self._refused_for}",
            response_id=self._id,
            blocks=tuple(block.whole() for _, block in sorted(self._blocks.items())),
            sent=sent,
        )

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed` that carries what had arrived. Its usage is known only when the model had already finished."""
        known = self._known_usage()
        return CallFailed(
            kind,
            clean(message, self._secrets),
            retryable=kind in RETRYABLE if retryable is None else retryable,
            usage=known if self._stop is not None and known.known else None,
            partial_text=self._all("text"),
            thinking_text=self._all("thinking"),
            http_status=200,
        )

    def _invalid(self, message: str) -> CallFailed:
        return self.failure("invalid_response", message)

    def _known_usage(self) -> Usage:
        return usage(self._usage) if self._counted else Usage(raw=self._usage or None)

    def _all(self, kind: str) -> str:
        return "".join(piece for _, block in sorted(self._blocks.items()) if block.kind == kind for piece in block.pieces)

    def _start(self, data: dict[str, Any]) -> None:
        message = data.get("message")
        if not isinstance(message, dict) or self._usage or self._id or self._blocks:
            raise self._invalid("message_start without a message, or after the message began")
        self._id = message["id"] if isinstance(message.get("id"), str) else None
        self._count(message.get("usage"))

    def _end(self, data: dict[str, Any]) -> None:
        delta = data.get("delta")
        if isinstance(delta, dict) and delta.get("stop_reason") is not None:
            self.started = True
            self._stop = str(delta["stop_reason"])
            details = delta.get("stop_details")
            category = details.get("category") if isinstance(details, dict) else None
            self._refused_for = category if isinstance(category, str) else None
        self._counted |= self._count(data.get("usage"))

    def _count(self, counts: object) -> bool:
        if not isinstance(counts, dict):
            return False
        self._usage |= {name: value for name, value in counts.items() if value is not None}
        return counts.get("output_tokens") is not None

    def _start_block(self, data: dict[str, Any]) -> None:
        index, block = data.get("index"), data.get("content_block")
        if not is_count(index) or index in self._blocks:
            raise self._invalid(f"content_block_start at index {index!r}, which is taken or no index")
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise self._invalid("content_block_start without a block")
        if not all(isinstance(block.get(name) or "", str) for name in ("text", "thinking") if name == block["type"]):
            raise self._invalid(f"a {block['type']} block whose text is not text")
        self._blocks[index] = opened = _Block(block)
        self.started |= bool(opened.pieces or opened.kind.endswith("tool_use"))

    def _block(self, data: dict[str, Any]) -> _Block:
        index = data.get("index")
        block = self._blocks.get(index) if is_count(index) else None
        if block is None or not block.open:
            raise self._invalid(f"content for block {index!r}, which is not open")
        return block

    def _delta(self, data: dict[str, Any]) -> None:
        block, delta = self._block(data), data.get("delta")
        if not isinstance(delta, dict):
            raise self._invalid("content_block_delta without a delta")
        kind = delta.get("type")
        name = _GROWS.get(kind) if isinstance(kind, str) else None
        if name is not None:
            piece = delta.get(name)
            if block.kind != name or not isinstance(piece, str):
                raise self._invalid(f"a {kind} that is not text, or for a {block.kind} block")
            if piece:
                self.started = True
                block.pieces.append(piece)
        elif kind == "input_json_delta":
            piece = delta.get("partial_json")
            if block.kind in _GROWS.values() or not isinstance(piece, str):
                raise self._invalid(f"an {kind} that is not text, or for a {block.kind} block")
            block.input.append(piece)
        elif kind == "signature_delta" and block.kind == "thinking" and isinstance(delta.get("signature"), str):
            block.start["signature"] = delta["signature"]
        elif kind == "citations_delta" and block.kind == "text" and delta.get("citation") is not None:
            block.start["citations"] = [*(block.start.get("citations") or ()), delta["citation"]]
        elif block.kind not in _KNOWN_BLOCKS:
            block.merge(delta)


class _Block:
    """One content block as it arrives. `pieces` are of its text or thinking, `input` of a tool's input as JSON."""

    __slots__ = ("input", "kind", "open", "pieces", "start")

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.kind: str = start["type"]
        self.open = True
        self.input: list[str] = []
        first = start.get(self.kind) if self.kind in _GROWS.values() else None
        self.pieces: list[str] = [first] if first else []

    def merge(self, delta: dict[str, Any]) -> None:
        """Take in a delta of an unknown block: text grows, lists are extended, anything else is set."""
        for name, value in delta.items():
            held = self.start.get(name)
            if name == "type" or value is None:
                continue
            joined = (isinstance(held, str) and isinstance(value, str)) or (isinstance(held, list) and isinstance(value, list))
            self.start[name] = held + value if joined else value

    def whole(self) -> dict[str, Any]:
        """The block as the server would send it whole. Input that is no JSON object, because it was cut, stays as text beside it."""
        block = dict(self.start)
        if self.kind in _GROWS.values():
            block[self.kind] = "".join(self.pieces)
        text = "".join(self.input)
        if text.strip():
            try:
                value = orjson.loads(text)
            except orjson.JSONDecodeError:
                value = None
            block["input" if isinstance(value, dict) else CUT_INPUT] = value if isinstance(value, dict) else text
        return block


_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
