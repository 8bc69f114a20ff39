"""The engine: one thread that generates for all requests at once. A request joins when it arrives and leaves when it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ttc_eval.lab.batch import Batch, Generated, Job
from ttc_eval.lab.weights import Weights


@dataclass(frozen=True, slots=True)
class Timed:
    """What a job brought, and when its first token and its end came, in seconds since it was asked for."""

    generated: Generated
    first_token_s: float
    latency_s: float


@dataclass(slots=True, eq=False)
class _Ticket:
    job: Job
    future: asyncio.Future[Timed]
    asked: float
    first_token: float | None = None
    cancelled: bool = False


class Engine:
    """Generation for asynchronous callers, up to `max_batch` draws side by side; more wait in the order of their arrival.

    What a draw is never depends on what runs beside it. Use it as a context manager: leaving it ends the thread, and
    fails what is unfinished with `RuntimeError`.
    """

    def __init__(self, weights: Weights, max_batch: int) -> None:
        self._batch = Batch(weights, max_batch)
        self._rows: list[_Ticket] = []
        self._waiting: deque[_Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="lab-engine", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the thread after its current step. It is no error to close twice."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    async def generate(self, job: Job) -> Timed:
        """Make one draw. Cancelling the caller frees its row.

        Raises ValueError when the job leaves no room in the context, RuntimeError when the engine is closed, and whatever a
        step of the engine raised.
        """
        ticket = _Ticket(job, asyncio.get_running_loop().create_future(), time.perf_counter())
        with self._changed:
            if self._closed:
                raise RuntimeError("the lab model's engine is closed")
            self._waiting.append(ticket)
            self._changed.notify()
        try:
            return await ticket.future
        finally:
            ticket.cancelled = True

    def _work(self) -> None:
        while self._await_work():
            try:
                self._step()
            except Exception as error:
                # A defect of a step: all rows share it, and those that come next must not.
                failed, self._rows = self._rows, []
                self._batch = self._batch.emptied()
                _deliver((ticket, error) for ticket in failed)
        closed = RuntimeError("the lab model's engine was closed")
        _deliver((ticket, closed) for ticket in (*self._rows, *self._waiting))

    def _await_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._rows or self._waiting)
            return not self._closed

    def _step(self) -> None:
        for row in range(len(self._rows) - 1, -1, -1):
            if self._rows[row].cancelled:
                self._leave(row)
        self._admit()
        if not self._rows:
            return
        ended = self._batch.step()
        now = time.perf_counter()
        for ticket in self._rows:
            if ticket.first_token is None:
                ticket.first_token = now
        done: list[tuple[_Ticket, Timed | Exception]] = []
        for row in sorted(ended, reverse=True):
            ticket = self._rows[row]
            first = now if ticket.first_token is None else ticket.first_token
            done.append((ticket, Timed(ended[row], first - ticket.asked, now - ticket.asked)))
            self._leave(row)
        _deliver(done)

    def _admit(self) -> None:
        while self._waiting and len(self._rows) < self._batch.max_rows:
            ticket = self._waiting.popleft()
            if ticket.cancelled:
                continue
            try:
                self._batch.join(ticket.job)
            except Exception as error:
                _deliver([(ticket, error)])
            else:
                self._rows.append(ticket)

    def _leave(self, row: int) -> None:
        self._batch.leave(row)
        self._rows[row] = self._rows[-1]
        self._rows.pop()


def _deliver(results: Iterable[tuple[_Ticket, Timed | Exception]]) -> None:
    """Hand results to the loops that wait for them, one call a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Ticket, Timed | Exception]]] = {}
    for ticket, result in results:
        by_loop.setdefault(ticket.future.get_loop(), []).append((ticket, result))
    for loop, own in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, own)
        except RuntimeError:
            # The loop was closed: nobody waits any more.
            continue


def _settle(results: list[tuple[_Ticket, Timed | Exception]]) -> None:
    for ticket, result in results:
        if ticket.future.done():
            continue
        if isinstance(result, Exception):
            ticket.future.set_exception(result)
        else:
            ticket.future.set_result(result)
