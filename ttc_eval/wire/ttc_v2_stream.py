"""The stream of a TTC-v2 response: deltas on either surface, then the final message that they are checked against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from ttc_eval.errors import CallFailed
from ttc_eval.protocol.schemas import Violation, answer_text, final_message_violation, is_exhausted, thinking_text
from ttc_eval.records import JSON, UNKNOWN_USAGE, CallStop, Response, Timings, Usage
from ttc_eval.wire.failures import RETRYABLE, clean, describe, kind_of
from ttc_eval.wire.sse import Event

_STOPS = {"end_turn": CallStop.END, "max_tokens": CallStop.MAX_TOKENS, "stop_sequence": CallStop.STOP_SEQUENCE}
_KINDS = ("thinking", "text")
_DELTAS = {"thinking_delta": "thinking", "text_delta": "text"}
# Where the protocol's own example and its model disagree on the name, both are read.
_TEXT_OF = {"thinking": ("text", "thinking"), "text": ("text",)}


@dataclass(slots=True)
class _Block:
    kind: str
    index: object
    pieces: list[str] = field(default_factory=list)


class TTCStream:
    """Gathers the events of one stream into a response.

    Attributes:
        started: whether the model has begun to answer (a first token, or its end).
        done: whether the final message or the terminator has come; what comes after it does not count.
    """

    __slots__ = ("_blocks", "_final", "_finish", "_id", "_model", "_raw_usage", "_secrets", "_usage", "_usage_of", "done", "started")

    def __init__(self, usage_of: Callable[[object], Usage], secrets: Iterable[str] = ()) -> None:
        self.started = False
        self.done = False
        self._usage_of = usage_of
        self._secrets = secrets
        self._blocks: list[_Block] = []
        self._final: dict[str, Any] | None = None
        self._usage: Usage = UNKNOWN_USAGE
        # What a stream of chat chunks says in its last ones, in the place of a final message.
        self._finish: object = None
        self._raw_usage: object = None
        self._id: object = None
        self._model: object = None

    def feed(self, event: Event) -> None:
        """Take in one event. Raises `CallFailed`, with what had arrived, for an error event or one that breaks the protocol."""
        if self.done:
            return
        data = event.data.strip()
        if data in (b"[DONE]", b""):
            self.done = data != b""
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise self.failure("invalid_response", f"an event that is not JSON: {data[:4096].decode('utf-8', 'replace')}") from None
        if not isinstance(chunk, dict):
            raise self.failure("invalid_response", f"an event that is not an object: {data[:4096].decode('utf-8', 'replace')}")
        kind = chunk.get("type") or event.event
        if kind == "error" or chunk.get("error"):
            message, words = describe(chunk)
            raise self.failure(kind_of(200, words), f"error inside the stream: {message}")
        if kind == "message_stop":
            self._close(chunk)
        elif kind == "content_block_start":
            block = self._object(chunk, "content_block")
            self._open(self._known(block.get("type"), _KINDS, "content_block.type"), chunk.get("index"), self._text(block, "content_block"))
        elif kind == "content_block_delta":
            delta = self._object(chunk, "delta")
            name = self._known(delta.get("type"), tuple(_DELTAS), "delta.type")
            self._add(_DELTAS[name], chunk.get("index"), self._text(delta, "delta", _DELTAS[name]))
        elif "choices" in chunk:
            self._chat(chunk)

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The response, once the stream has ended. Raises `CallFailed` when it ended early or its final message is not valid."""
        if self._final is None:
            if self._finish is None:
                raise self.failure("incomplete", "the stream ended without its final message")
            if self._raw_usage is None:
                raise self._broken(Violation("usage", "must be given in the last chunk"))
            whole = {"id": self._id, "type": "message_stop", "model": self._model, "stop_reason": self._finish, "usage": self._raw_usage}
            self._close({name: value for name, value in whole.items() if value is not None})
        final = self._final
        assert final is not None
        content, stop = final["content"], final["stop_reason"]
        thoughts = sum(block["type"] == "thinking" for block in content)
        return Response(
            text=answer_text(content),
            stop=CallStop.BUDGET_EXCEEDED if is_exhausted(stop, content) else _STOPS[stop],
            usage=self._usage,
            timings=timings,
            thinking=thinking_text(content) or None,
            stop_raw=stop,
            response_id=final["id"],
            # Where one thinking block ends and the next begins shows in the blocks only.
            blocks=tuple(content) if thoughts > 1 else (),
            sent=sent,
        )

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed` that carries what had arrived. Its usage is known only when the final message told it."""
        return CallFailed(
            kind,
            clean(message, self._secrets),
            retryable=kind in RETRYABLE if retryable is None else retryable,
            usage=self._usage if self._usage.known else None,
            partial_text=answer_text(self._content()),
            thinking_text=thinking_text(self._content()),
            http_status=200,
        )

    def _close(self, message: dict[str, Any]) -> None:
        self.started = self.done = True
        came = self._content()
        self._usage = self._usage_of(message.get("usage"))
        broken = final_message_violation({**message, "content": message.get("content", came)})
        if broken is not None:
            raise self._broken(broken)
        content = message.get("content", came)
        for name, text_of in (("thinking", thinking_text), ("text", answer_text)):
            if text_of(content) != text_of(came):
                raise self._broken(Violation(f"content: its {name}", "must be what the deltas brought"))
        counts = message["usage"]
        if (thinking_text(content) and not counts["thinking_tokens"]) or (answer_text(content) and not counts["output_tokens"]):
            self._usage = Usage(raw=counts)
        self._final = {**message, "content": content}

    def _broken(self, broken: Violation) -> CallFailed:
        return self.failure("invalid_response", f"the response breaks TTC-v2: {broken}", retryable=False)

    def _content(self) -> list[dict[str, Any]]:
        return [{"type": block.kind, "text": "".join(block.pieces)} for block in self._blocks]

    def _chat(self, chunk: dict[str, Any]) -> None:
        self._id, self._model = self._id or chunk.get("id"), self._model or chunk.get("model")
        if chunk.get("usage") is not None:
            self._raw_usage = chunk["usage"]
        if not isinstance(chunk["choices"], list):
            raise self._broken(Violation("choices", "must be array"))
        for choice in chunk["choices"]:
            if not isinstance(choice, dict):
                raise self._broken(Violation("choices", "must hold objects"))
            if choice.get("index"):  # only one choice is ever asked for
                continue
            delta = choice.get("delta")
            if delta is not None and not isinstance(delta, dict):
                raise self._broken(Violation("delta", "must be object"))
            if delta and delta.get("content"):
                kind = self._known(delta.get("content_type", "text"), _KINDS, "delta.content_type")
                self._add(kind, None, self._text({"text": delta["content"]}, "delta.content"))
            if choice.get("finish_reason") is not None:
                self.started = True
                self._finish = choice["finish_reason"]

    def _open(self, kind: str, index: object, text: str) -> None:
        if kind == "thinking" and any(block.kind == "text" for block in self._blocks):
            raise self._broken(Violation("a thinking block", "must not follow a text block"))
        self._blocks.append(_Block(kind, index, [text] if text else []))
        self.started = self.started or bool(text)

    def _add(self, kind: str, index: object, text: str) -> None:
        if not text:
            return
        last = self._blocks[-1] if self._blocks else None
        if last is None or last.kind != kind or last.index != index:
            self._open(kind, index, text)
            return
        self.started = True
        last.pieces.append(text)

    def _object(self, chunk: dict[str, Any], name: str) -> dict[str, Any]:
        value = chunk.get(name)
        if not isinstance(value, dict):
            raise self._broken(Violation(name, "must be object"))
        return value

    def _known(self, value: object, names: tuple[str, ...], where: str) -> str:
        if not isinstance(value, str) or value not in names:
            raise self._broken(Violation(where, f"must be one of {list(names)}"))
        return value

    def _text(self, holder: Mapping[str, Any], where: str, kind: str = "") -> str:
        """The text of a delta; of a block that is opened, which may have none yet, when no `kind` is given."""
        found = [holder[name] for name in _TEXT_OF.get(kind, ("text", "thinking")) if holder.get(name) is not None]
        if not all(isinstance(text, str) for text in found):
            raise self._broken(Violation(f"{where}.text", "must be string"))
        if kind and not found:
            raise self._broken(Violation(f"{where}.text", "must be given"))
        if len(set(found)) > 1:
            raise self._broken(Violation(f"{where}.text and {where}.thinking", "must not differ"))
        return str(found[0]) if found else ""
