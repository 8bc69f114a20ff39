"""The journal: one process's append-only record of what it did, on disk before anything acts on it.

A line is a JSON object `{table: [rows]}`; all its rows are loaded together or not at all. A line that lacks its end was
torn by a crash and counts as never written. A journal is never written to by a second process, so that nothing is ever
appended to a torn line.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def encode(rows: Rows) -> bytes:
    """One journal line. NaN and infinity become null; text that is not valid Unicode is repaired."""
    try:
        return orjson.dumps(rows, default=_plain, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return orjson.dumps(_repaired(rows), default=_plain, option=orjson.OPT_APPEND_NEWLINE)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"a journal cannot hold a {type(value).__name__}")


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_repaired(key): _repaired(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_repaired(item) for item in value]
    return value


class JournalFailed(Exception):
    """The journal cannot be written, for example on a full disk. Nothing more may be paid for."""


class Journal:
    """Appends lines in order and groups their flushes: while one flush runs, the next lines gather behind it.

    Use as an async context manager inside the event loop that appends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._file: int | None = None
        self._failure: JournalFailed | None = None

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.jsonl"
        self._file = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.shield(self._drain())
        self._thread.shutdown(wait=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def note(self, rows: Rows) -> None:
        """Append a line without waiting for the disk; it goes with the next flush. Nothing may depend on it yet.

        Raises `JournalFailed` when an earlier line could not be written.
        """
        self._check()
        self._pending.append(encode(rows))
        self._start()

    async def append(self, rows: Rows) -> None:
        """Append a line and return when it is on disk. Raises `JournalFailed` when it cannot be written."""
        self._check()
        self._pending.append(encode(rows))
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(flushed)
        self._start()
        await flushed

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _start(self) -> None:
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        # One turn of the loop lets the lines of everything that is ready now share this flush.
        await asyncio.sleep(0)
        while self._pending:
            lines, self._pending = self._pending, []
            waiting, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(self._thread, self._write, b"".join(lines))
            except OSError as error:
                self._failure = JournalFailed(f"{self._folder}: the journal cannot be written: {error.strerror or error}")
                _resolve(waiting + self._waiting, self._failure)
                return
            _resolve(waiting, None)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fdatasync(self._file) if hasattr(os, "fdatasync") else os.fsync(self._file)

    async def _drain(self) -> None:
        while self._flusher is not None and not self._flusher.done():
            await asyncio.wait([self._flusher])
        if self._pending and self._failure is None:
            self._start()
            await self._drain()


def _resolve(futures: Sequence[asyncio.Future[None]], error: BaseException | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
