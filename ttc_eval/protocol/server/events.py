"""The two streaming surfaces: pieces of an answer as server-sent events. No I/O.

`MESSAGES` speaks content-block events, `CHAT` chat chunks whose delta names its `content_type`. Both end with the final
`message_stop` of the protocol. Beside the protocol's own fields there are those without which the vendors' SDKs, which
the protocol names as its clients, could not read the stream: `thinking` in a thinking delta, `choices` in the last chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import orjson

from ttc_eval.protocol.server.generate import End, Piece
from ttc_eval.protocol.server.refusals import Refusal

DELTA_CHARS = 256
HEARTBEAT = b": waiting for the model\n\n"


class Surface(Protocol):
    """Writes one answer's events. Created for one answer, fed in order."""

    def start(self) -> Iterator[bytes]:
        """What comes before the first piece."""
        ...

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """A piece as deltas of at most `DELTA_CHARS` characters."""
        ...

    def end(self, end: End) -> Iterator[bytes]:
        """The end, with the final message."""
        ...

    def error(self, refusal: Refusal) -> Iterator[bytes]:
        """An error after the stream has begun; nothing follows it."""
        ...


class _Blocks:
    """Gathers pieces into the content blocks of the final message: pieces of one kind make one block."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, list[str]]] = []

    def add(self, piece: Piece) -> bool:
        """Take in a piece; whether it opens a block."""
        opens = not self._blocks or self._blocks[-1][0] != piece.kind
        if opens:
            self._blocks.append((piece.kind, []))
        self._blocks[-1][1].append(piece.text)
        return opens

    @property
    def last(self) -> int:
        """Index of the last block, -1 when there is none."""
        return len(self._blocks) - 1

    def content(self) -> list[dict[str, str]]:
        """The blocks so far."""
        return [{"type": kind, "text": "".join(texts)} for kind, texts in self._blocks]


class Messages:
    """Content-block events, as on `POST /v1/messages`."""

    def __init__(self, response_id: str, model: str, _created: int) -> None:
        self._id = response_id
        self._model = model
        self._blocks = _Blocks()

    def start(self) -> Iterator[bytes]:
        """The opening message. Its usage is empty: nothing is known yet, and unknown is not 0."""
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": {}}
        message = {"id": self._id, "type": "message", "role": "assistant", "model": self._model, **empty}
        yield _named({"type": "message_start", "message": message})

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """Deltas of the open block; a piece of another kind closes it and opens the next."""
        if self._blocks.add(piece):
            if self._blocks.last > 0:
                yield self._close(self._blocks.last - 1)
            yield _named(
                {"type": "content_block_start", "index": self._blocks.last, "content_block": self._typed(piece.kind, piece.kind, "")}
            )
        for text in _cut(piece.text):
            delta = self._typed(piece.kind, f"{piece.kind}_delta", text)
            yield _named({"type": "content_block_delta", "index": self._blocks.last, "delta": delta})

    def end(self, end: End) -> Iterator[bytes]:
        """Closes the open block; then what the SDKs read the stop reason from, and the final message."""
        if self._blocks.last >= 0:
            yield self._close(self._blocks.last)
        usage = end.counts.usage()
        yield _named({"type": "message_delta", "delta": {"stop_reason": end.stop_reason, "stop_sequence": None}, "usage": usage})
        yield _named(_final(self._id, self._model, end, self._blocks))

    def error(self, refusal: Refusal) -> Iterator[bytes]:
        """An event `error`."""
        yield _named(refusal.body())

    def _close(self, index: int) -> bytes:
        return _named({"type": "content_block_stop", "index": index})

    def _typed(self, kind: str, name: str, text: str) -> dict[str, str]:
        return {"type": name, "text": text, **({"thinking": text} if kind == "thinking" else {})}


class Chat:
    """Chat chunks, as on `POST /v1/chat/completions`."""

    def __init__(self, response_id: str, model: str, created: int) -> None:
        self._id = response_id
        self._model = model
        self._head = {"id": response_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._blocks = _Blocks()

    def start(self) -> Iterator[bytes]:
        """A chunk that names the role."""
        yield self._chunk({"role": "assistant"})

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """Chunks with `content` and its `content_type`."""
        self._blocks.add(piece)
        for text in _cut(piece.text):
            yield self._chunk({"content": text, "content_type": piece.kind})

    def end(self, end: End) -> Iterator[bytes]:
        """A chunk with the stop reason, the final message as a chunk without choices, and the terminator of chat streams."""
        yield self._chunk({}, end.stop_reason)
        yield _data({**self._head, "choices": [], **_final(self._id, self._model, end, self._blocks)})
        yield b"data: [DONE]\n\n"

    def error(self, refusal: Refusal) -> Iterator[bytes]:
        """The error object in the place of a chunk; no terminator follows."""
        yield _data(refusal.body())

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        return _data({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


SURFACES: dict[str, Callable[[str, str, int], Surface]] = {"/v1/messages": Messages, "/v1/chat/completions": Chat}


def _final(response_id: str, model: str, end: End, blocks: _Blocks) -> dict[str, Any]:
    return {
        "type": "message_stop",
        "id": response_id,
        "model": model,
        "stop_reason": end.stop_reason,
        "content": blocks.content(),
        "usage": end.counts.usage(),
    }


def _cut(text: str) -> Iterator[str]:
    for start in range(0, len(text), DELTA_CHARS):
        yield text[start : start + DELTA_CHARS]


def _named(event: dict[str, Any]) -> bytes:
    return b"event: " + str(event["type"]).encode() + b"\n" + _data(event)


def _data(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"
