"""A Chat Completions server on loopback, for tests and benchmarks: what it answers, how slowly and how wrongly is up to the caller.

It is a bare asyncio protocol, not a web framework, for two reasons: a benchmark's client shares the processor with it, and faults
(a cut chunk, a reset before the first byte) need the raw connection.

In a test::

    async with ChatServer(lambda body, n: Reply(text="4")) as server:
        ...  # server.url, server.bodies, server.count

In a terminal: `python -m tests.servers.openai_chat --port 0 --latency 0.05` prints its URL and serves until its input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson

Fault = Literal[
    "",
    "reset",  # the connection is reset before a byte of the reply
    "hang",  # no reply at all
    "cut",  # the connection is cut after half of the events
    "close",  # the stream closes cleanly after half of the events
    "stall",  # nothing comes after half of the events
    "error_event",  # an error object after half of the events
    "no_done",  # everything but the terminator
    "no_finish",  # everything but the finish_reason
    "garbage",  # an event that is not JSON after half of the events
    "keep_open",  # everything, but the reply never ends
    "late",  # more content after the terminator
]


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. `usage` None leaves it out; an empty one is counted from the texts, a word a token. `last`: further fields of the choice
    that finishes."""

    text: str = "ok"
    thinking: str = ""
    chunks: int = 3
    latency_s: float | None = None
    gap_s: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: bytes = b""
    finish: str = "stop"
    usage: Mapping[str, Any] | None = field(default_factory=dict, hash=False)
    fault: Fault = ""
    last: Mapping[str, Any] = field(default_factory=dict, hash=False)
    content_type: str = "text/event-stream"


OVERLOADED = Reply(status=503, body=b'{"error":{"message":"try later","type":"overloaded_error"}}')
LIMITED = Reply(status=429, headers={"retry-after": "2"}, body=b'{"error":{"message":"too fast","code":"rate_limit_exceeded"}}')
BROKEN = Reply(status=500, body=b"<html>oops</html>")

Answer = Callable[[dict[str, Any], int], Reply | str]


class ChatServer:
    """The server, as an async context manager.

    Args:
        answer: body and number of the request (from 0) to its reply; None answers `Reply()`.
        script: replies that go first, in order.
        latency_s: time before every reply that has none of its own.
        record: whether to keep the bodies, headers and paths of all requests.

    Attributes:
        url: the base URL, with /v1.
        count: requests so far; connections: connections so far; in_flight and max_in_flight: requests not yet answered.
    """

    def __init__(
        self, answer: Answer | None = None, *, script: Sequence[Reply] = (), latency_s: float = 0.0, record: bool = True, port: int = 0
    ) -> None:
        self.answer = answer
        self.script = list(script)
        self.latency_s = latency_s
        self.record = record
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.count = self.connections = self.in_flight = self.max_in_flight = self.aborted = 0
        self.url = ""
        self._port = port
        self._lines: set[_Line] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> ChatServer:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Line(self), "127.0.0.1", self._port, backlog=4096)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for line in list(self._lines):
            line.drop()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop

    def reply_to(self, head: bytes, body: bytes) -> Reply:
        """The reply to one request, which is counted and, when asked, recorded."""
        number, self.count = self.count, self.count + 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        parsed: dict[str, Any] = {}
        if self.record or self.answer is not None:
            parsed = orjson.loads(body)
        if self.record:
            self.bodies.append(parsed)
            first, *lines = head.decode("latin-1").split("\r\n")
            self.paths.append(first.split(" ")[1])
            self.headers.append({name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)})
        if self.script:
            return self.script.pop(0)
        if self.answer is None:
            return _PLAIN
        reply = self.answer(parsed, number)
        return reply if isinstance(reply, Reply) else Reply(text=reply)


class _Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self.transport: asyncio.Transport
        self.buffer = b""
        self.busy = False
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections += 1
        self.server._lines.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server._lines.discard(self)
        if self.busy:
            self.server.aborted += 1
            self.server.in_flight -= 1
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            self.task.cancel()

    def drop(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        if not self.busy:
            self._next()

    def _next(self) -> None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end]
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at < 0:
            start, length = 0, 0
            if b"transfer-encoding: chunked" in lower:  # bodies that a client streams; tests only
                last = self.buffer.find(b"0\r\n\r\n", end)
                if last < 0:
                    return
                body, rest = _unchunked(self.buffer[end + 4 : last]), self.buffer[last + 5 :]
            else:
                body, rest = b"{}", self.buffer[end + 4 :]
        else:
            length = int(lower[at + 15 : lower.find(b"\r\n", at) if b"\r\n" in lower[at:] else None])
            start = end + 4
            if len(self.buffer) < start + length:
                return
            body, rest = self.buffer[start : start + length], self.buffer[start + length :]
        self.buffer = rest
        self.busy = True
        reply = self.server.reply_to(head, body)
        latency = self.server.latency_s if reply.latency_s is None else reply.latency_s
        loop = asyncio.get_running_loop()
        if reply.fault or reply.gap_s:
            self.task = loop.create_task(self._play(reply, latency))
        elif latency:
            self.timer = loop.call_later(latency, self._send, whole(reply))
        else:
            self._send(whole(reply))

    def _send(self, data: bytes) -> None:
        self.transport.write(data)
        self._answered()

    def _answered(self) -> None:
        self.busy = False
        self.server.in_flight -= 1
        if self.buffer:
            self._next()

    async def _play(self, reply: Reply, latency: float) -> None:
        await asyncio.sleep(latency)
        fault, write = reply.fault, self.transport.write
        if fault == "reset":
            self.transport.abort()
            return
        if fault == "hang":
            await asyncio.Event().wait()
        write(_STREAM_HEAD % reply.content_type.encode())
        parts = events(reply)
        if fault == "no_done":
            parts = parts[:-1]
        if fault == "no_finish":
            parts = [part for part in parts if b'"finish_reason":"' not in part]
        if fault == "late":
            parts = [*parts, _event({"choices": [{"index": 0, "delta": {"content": "LATE"}}]})]
        if fault in ("cut", "close", "stall", "error_event", "garbage"):
            parts = parts[: (len(parts) + 1) // 2]
        for part in parts:
            write(b"%x\r\n%s\r\n" % (len(part), part))
            await asyncio.sleep(reply.gap_s)
        if fault == "cut":
            write(b"40\r\ndata: {")
            await asyncio.sleep(0.01)
            self.transport.abort()
            return
        if fault in ("stall", "keep_open"):
            await asyncio.Event().wait()
        last = {
            "error_event": _event({"error": {"message": "engine died", "type": "overloaded_error"}}),
            "garbage": b"data: {oops\n\n",
        }.get(fault, b"")
        if last:
            write(b"%x\r\n%s\r\n" % (len(last), last))
        write(b"0\r\n\r\n")
        self._answered()


def _unchunked(data: bytes) -> bytes:
    out = []
    while data:
        size, _, data = data.partition(b"\r\n")
        out.append(data[: int(size, 16)])
        data = data[int(size, 16) + 2 :]
    return b"".join(out)


_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
_PLAIN = Reply()


def whole(reply: Reply) -> bytes:
    """All bytes of a reply without a fault."""
    if reply.status != 200 or reply.body:
        headers = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        kind = "application/json" if reply.body.startswith(b"{") else "text/html"
        return (
            f"HTTP/1.1 {reply.status} X\r\nContent-Type: {kind}\r\n{headers}Content-Length: {len(reply.body)}\r\n\r\n".encode() + reply.body
        )
    if reply.headers:
        lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items()).encode()
        return _chunked(events(reply)).replace(b"\r\n", b"\r\n" + lines, 1)
    return _stream(reply) if not reply.usage else _chunked(events(reply))


@lru_cache(maxsize=4096)
def _stream(reply: Reply) -> bytes:
    # `usage` is not part of the hash, but of equality: only replies that count their own come here.
    return _chunked(events(reply))


def _chunked(parts: list[bytes]) -> bytes:
    body = b"".join(parts)
    return _STREAM_HEAD % b"text/event-stream" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def events(reply: Reply) -> list[bytes]:
    """The events of a reply: a role, thinking, text in `chunks` pieces, the finish, usage and the terminator."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.thinking, reply.chunks)]
    deltas += [{"content": piece} for piece in _pieces(reply.text, reply.chunks)]
    out = [_event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    out.append(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish, **reply.last}]}))
    if reply.usage is not None:
        reasoning, answer = len(reply.thinking.split()), len(reply.text.split())
        counted = {"prompt_tokens": 10, "completion_tokens": reasoning + answer, "total_tokens": 10 + reasoning + answer}
        if reasoning:
            counted["completion_tokens_details"] = {"reasoning_tokens": reasoning}  # type: ignore[assignment]
        out.append(_event({"choices": [], "usage": dict(reply.usage) or counted}))
    out.append(b"data: [DONE]\n\n")
    return out


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m"} | chunk) + b"\n\n"


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)]


async def _serve(port: int, reply: Reply, latency_s: float) -> None:
    async with ChatServer(lambda body, n: reply, latency_s=latency_s, record=False, port=port) as server:
        server.answer = None if reply == _PLAIN else server.answer
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(description="a local Chat Completions server for tests and benchmarks")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--chunks", type=int, default=3, help="content events per reply")
    parser.add_argument("--text", default="ok")
    args = parser.parse_args()
    asyncio.run(_serve(args.port, Reply(text=args.text, chunks=args.chunks), args.latency))


if __name__ == "__main__":
    main()
