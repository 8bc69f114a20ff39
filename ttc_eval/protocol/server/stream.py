"""One request's stream: the model works in a task of its own, whose end, a client that leaves, time and shutdown all meet here."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import traceback
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Connection
from ttc_eval.protocol.server.events import HEARTBEAT, Surface
from ttc_eval.protocol.server.generate import End, Piece, answer
from ttc_eval.protocol.server.intake import Call
from ttc_eval.protocol.server.refusals import DEFECT, SHUTTING_DOWN, Refusal, Refused, busy, invalid, of_failure, out_of_time
from ttc_eval.protocol.server.service import Service

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("ttc_eval.serve")

# A failure within this time is told by the status of the reply; later ones are events, since the reply has begun.
_FIRST_S = 1.0
_STREAM_HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


class Desk:
    """What the requests of one server share: the model's line, the places, and whether the server is stopping.

    Attributes:
        in_flight: requests being answered.
        draining: no further request is answered; cut: those in flight must end now.
    """

    def __init__(self, service: Service, connection: Connection) -> None:
        self.service = service
        self.connection = connection
        self.in_flight = 0
        self.draining = False
        self.cut = asyncio.Event()

    def turned_away(self) -> Refusal | None:
        """Why a request that comes now is not answered; None when it is."""
        if self.draining:
            return SHUTTING_DOWN
        return busy(self.in_flight) if self.in_flight >= self.service.bounds.concurrency else None


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to one valid request, an ASGI response.

    Attributes:
        surface: makes the writer of events for a response id, a model name and a time in Unix seconds.
        deadline: when the request must be finished, on the loop's clock.
        path: of the request, for the log.
    """

    desk: Desk
    call: Call
    surface: Callable[[str, str, int], Surface]
    deadline: float
    path: str

    async def __call__(self, _scope: Any, receive: Receive, send: Send) -> None:
        refusal = self.desk.turned_away()
        if refusal is not None:
            await send_json(send, refusal.status, refusal.body(), refusal.headers)
            return
        self.desk.in_flight += 1
        try:
            await self._serve(receive, send)
        finally:
            self.desk.in_flight -= 1

    async def _serve(self, receive: Receive, send: Send) -> None:
        response_id, began = f"ttc_{uuid.uuid4().hex}", time.perf_counter()
        events = self.surface(response_id, self.desk.service.info.name, int(time.time()))
        outcome = "client gone"
        try:
            async with aclosing(self._parts(receive)) as parts:
                first = await anext(parts)
                if isinstance(first, Refusal):
                    outcome = first.code
                    await send_json(send, first.status, first.body(), first.headers)
                    return
                await send({"type": "http.response.start", "status": 200, "headers": list(_STREAM_HEADERS)})
                await _write(send, events.start())
                outcome = await self._relay(first, parts, events, send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except StopAsyncIteration:
            return
        finally:
            log.info("POST %s %s %s %.2f s", self.path, response_id, outcome, time.perf_counter() - began)

    async def _relay(
        self, first: Piece | End | None, parts: AsyncIterator[Piece | End | Refusal | None], events: Surface, send: Send
    ) -> str:
        """Write all parts; returns what ended the stream, for the log."""
        part: Piece | End | Refusal | None = first
        while True:
            if part is None:
                await _write(send, (HEARTBEAT,))
            elif isinstance(part, Piece):
                await _write(send, events.piece(part))
            elif isinstance(part, End):
                await _write(send, events.end(part))
                counts = part.counts
                return f"{part.stop_reason} input={counts.input} thinking={counts.thinking} output={counts.output}"
            else:
                await _write(send, events.error(part))
                return part.code
            part = await anext(parts)

    async def _parts(self, receive: Receive) -> AsyncGenerator[Piece | End | Refusal | None, None]:
        """The parts of the answer as they come, None for a time of silence, a refusal in the end's place.

        It ends without either when the client is gone. Leaving it, however, ends the model's call.
        """
        queue: asyncio.Queue[Piece | End | Refusal] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        model = asyncio.create_task(self._work(queue))
        gone = asyncio.create_task(_left(receive))
        cut = asyncio.create_task(self.desk.cut.wait())
        pending = asyncio.create_task(queue.get())
        silence = _FIRST_S
        try:
            while True:
                left = self.deadline - loop.time()
                await asyncio.wait({pending, gone, cut}, timeout=min(silence, left), return_when=asyncio.FIRST_COMPLETED)
                silence = self.desk.service.bounds.heartbeat_s
                if pending.done():
                    yield pending.result()
                    pending = asyncio.create_task(queue.get())
                elif gone.done():
                    return
                elif cut.done():
                    yield SHUTTING_DOWN
                elif loop.time() >= self.deadline:
                    yield out_of_time(self.desk.service.bounds.request_s)
                else:
                    yield None
        finally:
            tasks = (model, gone, cut, pending)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, queue: asyncio.Queue[Piece | End | Refusal]) -> None:
        """Let the model answer. Every way in which that can end is put into the queue."""
        desk, call = self.desk, self.call
        seed = secrets.randbits(62) if call.seed is None else call.seed
        try:
            async with aclosing(answer(desk.connection, desk.service, call, seed)) as parts:
                async for part in parts:
                    queue.put_nowait(part)
        except Refused as refused:
            queue.put_nowait(refused.refusal)
        except CallFailed as failure:
            queue.put_nowait(of_failure(failure))
        except UserError as error:
            queue.put_nowait(invalid("thinking", str(error), "thinking_not_supported").refusal)
        except Exception as error:
            # The text of the error may quote the request, so the log shows where and what, not the text.
            log.error("internal error: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
            queue.put_nowait(DEFECT)


async def send_json(send: Send, status: int, body: Any, headers: Any = None) -> None:
    """A whole reply of JSON."""
    named = [(str(name).lower().encode(), str(value).encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json"), *named]})
    await send({"type": "http.response.body", "body": orjson.dumps(body), "more_body": False})


async def _write(send: Send, events: Iterable[bytes]) -> None:
    await send({"type": "http.response.body", "body": b"".join(events), "more_body": True})


async def _left(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
