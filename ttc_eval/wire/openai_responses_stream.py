"""The events of a Responses stream, gathered into a response. Pure.

Output items are kept verbatim, as `response.output_item.done` gave them and in the order of their index, encrypted reasoning included,
since a tool loop has to send them back unchanged. Text and thinking are those of the finished items; of an item that did not finish they
are what its deltas brought. An event or an item of a type that is not known here is passed over or kept, never taken for text.

Thinking is a summary, or the reasoning itself where a server discloses it; it is empty when there was some and none was shown.

Usage (docs/design.md 3.2) stands on the response that ends the stream. Its `input_tokens` include the cached part and its
`output_tokens` include reasoning, so both are taken as they stand and are held against `total_tokens`.

A response needs `response.completed` or `response.incomplete`. A stream that ends without them was cut, however cleanly it closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ttc_eval.errors import CallFailed
from ttc_eval.records import JSON, CallStop, Response, Timings, Usage
from ttc_eval.wire.counts import checked, is_count
from ttc_eval.wire.failures import RETRYABLE, clean, describe, kind_of
from ttc_eval.wire.logprobs import TokenLogprobs
from ttc_eval.wire.sse import Event

_ENDS = {f"response.{status}": status for status in ("completed", "incomplete", "failed", "cancelled")}
_INCOMPLETE = {"max_output_tokens": CallStop.MAX_TOKENS, "content_filter": CallStop.REFUSAL}
# A delta that makes one part of an item longer, and the name of its number within the item.
_GROWS = {
    "response.output_text.delta": ("text", "content_index"),
    "response.refusal.delta": ("refusal", "content_index"),
    "response.reasoning_text.delta": ("reasoning", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index"),
}
_PART_TEXT = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}


def usage(raw: object) -> Usage:
    """Tokens by a usage object of the Responses API. Counts that contradict each other make all of it unknown."""
    if not isinstance(raw, Mapping):
        return Usage()
    read, out = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    inputs, outputs = (details if isinstance(details, Mapping) else {} for details in (read, out))
    return checked(
        raw,
        raw.get("input_tokens"),
        raw.get("output_tokens"),
        cached=inputs.get("cached_tokens"),
        written=inputs.get("cache_write_tokens"),
        reasoning=outputs.get("reasoning_tokens"),
        total=raw.get("total_tokens"),
    )


class ResponsesStream:
    """Gathers the events of one stream into a response.

    Attributes:
        started: whether the model has begun to answer: a first token of thinking, text or a tool's input, or its end. Reasoning that is
            not shown brings no token, so it counts as waiting.
        done: whether the event that ends the response has come; what comes after it does not count.
    """

    __slots__ = ("_final", "_id", "_items", "_logprobs", "_pieces", "_secrets", "_status", "done", "started")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.started = False
        self.done = False
        self._secrets = secrets
        self._items: dict[int, dict[str, Any]] = {}  # by output index, whole
        self._pieces: dict[tuple[int, str, int], list[str]] = {}  # by output index, kind and part
        self._logprobs = TokenLogprobs()
        self._status: str | None = None
        self._final: dict[str, Any] = {}
        self._id: str | None = None

    def feed(self, event: Event) -> None:
        """Take in one event. Raises `CallFailed`, with what had arrived, for an error event or one that is not of this format."""
        if self.done:
            return
        try:
            data = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            if event.data.strip() in (b"[DONE]", b""):  # gateways add it; it does not end a response that has no end of its own
                return
            raise self._invalid(f"an event that is not JSON: {event.data[:4096].decode('utf-8', 'replace')}") from None
        if not isinstance(data, dict):
            raise self._invalid("an event that is not an object")
        kind = data.get("type") or event.event
        if kind == "error" or data.get("error"):
            message, words = describe(data)
            raise self.failure(kind_of(200, words), f"error inside the stream: {message}")
        if not isinstance(kind, str):
            raise self._invalid("an event whose type is not text")
        if kind in _GROWS:
            self._delta(kind, data)
        elif kind == "response.function_call_arguments.delta":
            self.started = True
        elif kind == "response.output_item.done":
            self._done_item(data)
        elif kind in _ENDS:
            self._end(kind, data)
        elif kind == "response.created":
            response = data.get("response")
            self._id = _text_or_none(response.get("id")) if isinstance(response, dict) else None

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The response, once the stream has ended. Raises `CallFailed` when it ended early or the server gave up.

        Its `stop_raw` is the provider's status, with the reason of an incomplete response after a slash.
        """
        if not self.done:
            raise self.failure("incomplete", "the stream ended without response.completed or response.incomplete")
        if self._status == "failed":
            message, words = describe({"error": self._final.get("error") or "the response failed, and no error was given"})
            raise self.failure(kind_of(200, words), f"the response failed: {message}")
        if self._status not in ("completed", "incomplete"):
            raise self.failure("incomplete", f"the response ended with status {self._status!r}")
        details = self._final.get("incomplete_details")
        reason = _text_or_none(details.get("reason")) if isinstance(details, dict) else None
        return Response(
            text=self._text(),
            stop=self._stop(reason),
            usage=usage(self._final.get("usage")),
            timings=timings,
            thinking=self._thinking(),
            stop_raw=self._status if reason is None else f"{self._status}/{reason}",
            response_id=self._id,
            token_logprobs=self._logprobs.sampled,
            top_logprobs=self._logprobs.top,
            blocks=tuple(self._items[index] for index in sorted(self._items)),
            sent=sent,
        )

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed` that carries what had arrived. Its usage is known only when the provider told it at the end."""
        known = usage(self._final.get("usage"))
        return CallFailed(
            kind,
            clean(message, self._secrets),
            retryable=kind in RETRYABLE if retryable is None else retryable,
            usage=known if known.known else None,
            partial_text=self._text(),
            thinking_text=self._thinking() or "",
            http_status=200,
        )

    def _invalid(self, message: str) -> CallFailed:
        return self.failure("invalid_response", message)

    def _stop(self, reason: str | None) -> CallStop:
        if self._status == "incomplete":
            return _INCOMPLETE.get(reason or "", CallStop.OTHER)
        if any(kind == "refusal" for _, kind, _ in self._pieces):
            return CallStop.REFUSAL
        if any(str(item.get("type")).endswith("_call") and "call_id" in item for item in self._items.values()):
            return CallStop.TOOL_USE
        return CallStop.END

    def _text(self) -> str:
        return self._joined("text", "")

    def _thinking(self) -> str | None:
        shown = self._joined("reasoning", "\n\n") or self._joined("summary", "\n\n")
        return shown if shown or any(item.get("type") == "reasoning" for item in self._items.values()) else None

    def _joined(self, kind: str, between: str) -> str:
        parts = sorted((key, pieces) for key, pieces in self._pieces.items() if key[1] == kind)
        return between.join("".join(pieces) for _, pieces in parts)

    def _delta(self, event: str, data: dict[str, Any]) -> None:
        kind, number = _GROWS[event]
        index, part, delta = data.get("output_index", 0), data.get(number, 0), data.get("delta")
        if not is_count(index) or not is_count(part) or not isinstance(delta, str):
            raise self._invalid(f"a {event} that is not text, or of no item")
        if index in self._items:
            raise self._invalid(f"a {event} for item {index}, which has ended")
        if delta:
            self.started = True
            self._pieces.setdefault((index, kind, part), []).append(delta)
        self._logprobs.add_openai(data.get("logprobs"))

    def _done_item(self, data: dict[str, Any]) -> None:
        index, item = data.get("output_index", len(self._items)), data.get("item")
        if not is_count(index) or index in self._items or not isinstance(item, dict):
            raise self._invalid(f"response.output_item.done without an item, or at index {index!r}, which is taken or no index")
        self._take(index, item)

    def _take(self, index: int, item: dict[str, Any]) -> None:
        """Keep a whole item. Its parts replace what its deltas brought: they are the same text, without what a gateway may have lost."""
        self._items[index] = item
        parts = {
            **_parts(item.get("content"), ("output_text", "refusal", "reasoning_text")),
            **_parts(item.get("summary"), ("summary_text",)),
        }
        names = {"output_text": "text", "refusal": "refusal", "reasoning_text": "reasoning", "summary_text": "summary"}
        for (kind, part), text in parts.items():
            self.started |= bool(text)
            self._pieces[index, names[kind], part] = [text]

    def _end(self, event: str, data: dict[str, Any]) -> None:
        response = data.get("response")
        if not isinstance(response, dict):
            raise self._invalid(f"{event} without a response")
        self._status = _text_or_none(response.get("status")) or _ENDS[event]
        self._final = response
        self._id = _text_or_none(response.get("id")) or self._id
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            if index not in self._items and isinstance(item, dict):  # one that no event of its own had brought
                self._take(index, item)
        self.started = self.done = True


def _parts(parts: object, kinds: tuple[str, ...]) -> dict[tuple[str, int], str]:
    """The texts of an item's parts, by their kind and number."""
    found: dict[tuple[str, int], str] = {}
    for number, part in enumerate(parts if isinstance(parts, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in kinds:
            text = part.get(_PART_TEXT[kind])
            if isinstance(text, str) and text:
                found[kind, number] = text
    return found


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
