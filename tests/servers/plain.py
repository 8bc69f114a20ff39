"""A bare HTTP server on loopback that answers each request with what a function gives for it: the frame of the dialects' servers.

The function has the raw connection's power: any bytes, in any pieces, ended cleanly, cut, or not ended at all.
"""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

# How the reply ends: whole, cut inside a chunk, never, or with no reply at all.
End = Literal["", "cut", "stall", "reset", "hang"]


@dataclass(frozen=True)
class Sent:
    """What goes over the wire for one request: a status, headers, and the pieces of a body."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    end: End = ""


class PlainServer(ABC):
    """The server, as an async context manager; a subclass says in `reply` what each request gets.

    Attributes:
        root: the URL without a path.
        bodies, headers, paths: of all requests; count: requests so far.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.count = 0
        self.root = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any], number: int) -> Sent:
        """What the request of that number gets."""

    async def __aenter__(self) -> Any:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.root = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = json.loads(await _body(reader, headers) or b"{}")
        path = first.split(" ")[1]
        number, self.count = self.count, self.count + 1
        self.bodies.append(body)
        self.headers.append(headers)
        self.paths.append(path)
        sent = self.reply(path, headers, body, number)
        if sent.end == "hang":
            await asyncio.Event().wait()
        if sent.end == "reset":
            writer.transport.abort()
            return False
        extra = "".join(f"{name}: {value}\r\n" for name, value in sent.headers.items())
        head = f"HTTP/1.1 {sent.status} X\r\nContent-Type: {sent.content_type}\r\n{extra}Transfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        for piece in sent.pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        if sent.end == "stall":
            await asyncio.Event().wait()
        if sent.end == "cut":
            writer.write(b"40\r\ndata: {")
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", ""):
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def pieces_of(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


@contextmanager
def in_thread(server: PlainServer) -> Iterator[None]:
    """The server in a thread with an event loop of its own, for what runs a loop in this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(function: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(function(), loop).result(10)

    call(server.__aenter__)
    try:
        yield
    finally:
        call(lambda: server.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
