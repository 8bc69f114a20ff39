"""The life of the server: bind, open the line to the model, serve until a signal, let requests end, leave."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.models.base import Model
from ttc_eval.protocol.server.service import Service, is_loopback

_CUT_S = 5  # how long a request that was cut may take to end, before its task is cancelled


def serve(model: Model, service: Service, host: str, port: int, announce: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code, 0 after SIGTERM and 130 after SIGINT.

    Args:
        announce: called with the server's URL once it answers.

    Raises `UserError` when the extra `serve` is missing, the address cannot be bound, or it can be reached from other
    machines and there is no token.
    """
    if not is_loopback(host) and service.token is None:
        raise UserError(
            f"--host {host}: other machines could reach this server, so it needs a token; put one in a variable or a file and give "
            "--token-env NAME or --token-file PATH"
        )
    _check_installed()
    with _bound(host, port) as listening, asyncio.Runner() as runner:
        return runner.run(_run(model, service, listening, announce))


def _check_installed() -> None:
    try:
        import starlette
        import uvicorn  # noqa: F401
    except ImportError:
        raise UserError("serve needs starlette and uvicorn; run: pip install 'ttc_eval[serve]'") from None
    del starlette


@contextlib.contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    if not 0 <= port < 65536:
        raise UserError(f"--port {port}: give a port from 1 to 65535, or 0 for any free one")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(f"--host {host} --port {port}: it is no address of this machine: {error}") from None
    with listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError as error:
            raise UserError(f"--host {host} --port {port}: it cannot be bound: {error}; take another port, or 0 for any") from None
        listening.setblocking(False)
        yield listening


def _url(listening: socket.socket) -> str:
    name, port = listening.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


async def _run(model: Model, service: Service, listening: socket.socket, announce: Callable[[str], None]) -> int:
    signals: list[int] = []
    told = asyncio.Event()

    def stop(number: int) -> None:
        if signals:  # whoever sends a second does not want to wait
            sys.stdout.flush()
            os._exit(128 + number)
        signals.append(number)
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    opening = asyncio.create_task(_serve(model, service, listening, announce, told))
    await _first(opening, told.wait())
    await opening
    return 130 if signals[:1] == [signal.SIGINT] else 0


async def _serve(model: Model, service: Service, listening: socket.socket, announce: Callable[[str], None], told: asyncio.Event) -> None:
    import uvicorn

    from ttc_eval.protocol.server.app import application
    from ttc_eval.protocol.server.stream import Desk

    ready = asyncio.Event()

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are ours, since their order and the exit code are

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready.set()

    async with model.connect() as connection:
        desk = Desk(service, connection)
        config = uvicorn.Config(
            application(desk),
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            # A bound on connections as such; those beyond the places get an answer that says so.
            limit_concurrency=service.bounds.concurrency + 256,
            timeout_graceful_shutdown=int(service.bounds.grace_s) + _CUT_S,
        )
        server = Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        await _first(serving, ready.wait())
        if ready.is_set() and not told.is_set():
            announce(_url(listening))
        await _first(serving, told.wait())
        desk.draining = True
        server.should_exit = True
        asyncio.get_running_loop().call_later(service.bounds.grace_s, desk.cut.set)
        await serving


async def _first(task: asyncio.Task[None], event: Coroutine[Any, Any, object]) -> None:
    """Wait until the task has ended or the event has come."""
    waiting = asyncio.create_task(event)
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def log_to_stderr(quiet: bool) -> None:
    """Send the server's own log, and warnings of the HTTP library, to standard error: a line a request, never a header or a body."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    own = logging.getLogger("ttc_eval.serve")
    own.setLevel(logging.WARNING if quiet else logging.INFO)
    own.addHandler(handler)
    own.propagate = False
