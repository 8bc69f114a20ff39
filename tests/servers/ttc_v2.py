"""A TTC-v2 server on loopback, for tests of the client: both surfaces, and every way to break the protocol that the client must notice.

It is no implementation of the protocol (that is `ttc-eval serve`): what it says is up to the test. In a test::

    async with TTCServer(lambda body, n: Reply(text="4")) as server:
        ...  # server.url, server.bodies, server.count
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

MAX_BUDGET = 4096


@dataclass(frozen=True)
class Reply:
    """One reply. `thinking` are its blocks; `usage` and `final` change what is counted and the final message.

    `key`: where a thinking delta has its text. `chunks`: on the chat surface, the end is told by chunks and no final message.
    `content`: whether the final message repeats the content.
    """

    thinking: tuple[str, ...] = ()
    text: str = ""
    stop: str = "end_turn"
    usage: Mapping[str, Any] = field(default_factory=dict)
    final: Mapping[str, Any] = field(default_factory=dict)
    key: str = "text"
    content: bool = True
    chunks: bool = False
    fault: str = ""
    status: int = 200
    body: bytes = b""


def refused(budget: int) -> Reply:
    """The protocol's own error, for a budget above the maximum."""
    message = f"thinking.budget_tokens={budget} is above the maximum of {MAX_BUDGET}"
    error = {"type": "invalid_request_error", "code": "budget_exceeded", "message": message, "param": "thinking.budget_tokens"}
    return Reply(status=400, body=orjson.dumps({"type": "error", "error": error}))


def final_message(reply: Reply, *, response_id: str = "resp-1") -> dict[str, Any]:
    """The final message of a reply: a word a token."""
    blocks = [{"type": "thinking", "text": text} for text in reply.thinking] + (
        [{"type": "text", "text": reply.text}] if reply.text else []
    )
    counts = {
        "input_tokens": 10,
        "output_tokens": len(reply.text.split()),
        "thinking_tokens": sum(len(one.split()) for one in reply.thinking),
    }
    usage = {**counts, "cache_creation_input_tokens": 0, **reply.usage}
    message: dict[str, Any] = {"id": response_id, "type": "message_stop", "model": "m", "stop_reason": reply.stop, "usage": usage}
    if reply.content:
        message["content"] = blocks
    return {name: value for name, value in {**message, **reply.final}.items() if value is not ...}


def events(reply: Reply, *, chat: bool = False, response_id: str = "resp-1") -> list[bytes]:
    """The events of a reply, on either surface, with its fault."""
    out = _chat(reply, response_id) if chat else _blocks(reply, response_id)
    final = final_message(reply, response_id=response_id)
    late = {"type": "content_block_delta", "index": 9, "delta": {"type": "thinking_delta", "text": "late"}}
    ends = [] if chat and reply.chunks else [_event("message_stop", final)]
    half = (len(out) + 1) // 2
    match reply.fault:
        case "late_thinking":
            return [*out, _event("content_block_delta", late), *ends]
        case "no_final" | "cut":
            return out[:half]
        case "garbage":
            return [*out[:half], b"data: {oops\n\n", *ends]
        case "error_event":
            return [*out[:half], _event("error", {"type": "error", "error": {"type": "overloaded_error", "message": "engine died"}})]
        case "late_text":
            return [*out, *ends, _event("content_block_delta", {**late, "delta": {"type": "text_delta", "text": "LATE"}})]
    return [*out, *ends, b"data: [DONE]\n\n"] if chat else [*out, *ends]


def _blocks(reply: Reply, response_id: str) -> list[bytes]:
    out = [
        _event("message_start", {"type": "message_start", "message": {"id": response_id, "model": "m"}}),
        _event("ping", {"type": "ping"}),
    ]
    blocks = [("thinking", text) for text in reply.thinking] + ([("text", reply.text)] if reply.text else [])
    for index, (kind, text) in enumerate(blocks):
        out.append(
            _event("content_block_start", {"type": "content_block_start", "index": index, "content_block": {"type": kind, "text": ""}})
        )
        for piece in _pieces(text):
            delta = {"type": f"{kind}_delta", (reply.key if kind == "thinking" else "text"): piece}
            out.append(_event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}))
        out.append(_event("content_block_stop", {"type": "content_block_stop", "index": index}))
    return out


def _chat(reply: Reply, response_id: str) -> list[bytes]:
    head = {"id": response_id, "object": "chat.completion.chunk", "model": "m"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for kind, texts in (("thinking", reply.thinking), ("text", (reply.text,))):
        deltas += [{"content": piece, "content_type": kind} for text in texts for piece in _pieces(text)]
    out = [_event("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    out.append(_event("", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.stop}]}))
    if reply.chunks:
        out.append(_event("", {**head, "choices": [], "usage": final_message(reply)["usage"]}))
    return out


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def _event(name: str, value: dict[str, Any]) -> bytes:
    return (b"event: " + name.encode() + b"\n" if name else b"") + b"data: " + orjson.dumps(value) + b"\n\n"


class TTCServer:
    """The server, as an async context manager. `answer` takes a body and the number of the request, from 0."""

    def __init__(self, answer: Callable[[dict[str, Any], int], Reply]) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""

    @property
    def count(self) -> int:
        """Requests so far."""
        return len(self.bodies)

    async def __aenter__(self) -> TTCServer:
        app = web.Application()
        app.router.add_post("/v1/{surface:.+}", self._respond)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.path)
        reply = self.answer(self.bodies[-1], self.count - 1)
        if reply.status != 200 or reply.body:
            return web.Response(status=reply.status, body=reply.body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events(reply, chat=request.path.endswith("completions"), response_id=f"resp-{self.count}"):
            await response.write(event)
        if reply.fault == "cut":
            await asyncio.sleep(0.01)
            assert request.transport is not None
            request.transport.abort()
        return response


@contextmanager
def serving(answer: Callable[[dict[str, Any], int], Reply]) -> Iterator[TTCServer]:
    """A server in a thread of its own, since a sweep brings its own event loop."""
    server, ready, loop = TTCServer(answer), threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
