"""The draws of one question's pool, in draw order, some of them fetched ahead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from ttc_eval.asking import DrawConfig
from ttc_eval.exchange import Exchange
from ttc_eval.fetching import Fetched, Fetching
from ttc_eval.ledger import LimitReached
from ttc_eval.records import Candidate, StopReason


class Draws:
    """Candidates in draw order, some of them fetched ahead. See `Session.draws`.

    Attributes:
        ended_by: the limit that ended the iteration early; None when all draws were consumed or the strategy stopped.
    """

    def __init__(
        self,
        fetching: Fetching,
        consume: Callable[[Fetched, int], Awaitable[Candidate]],
        config: DrawConfig,
        exchange: Exchange,
        count: int,
        parallel: int,
        max_output_tokens: int | None,
        start: int,
    ) -> None:
        """`consume` makes a candidate of what was fetched with so many in flight; the rest is as in `Session.draws`."""
        self._fetching = fetching
        self._consume = consume
        self._config = config
        self._exchange = exchange
        self._count = count
        self._parallel = 1 if fetching.spending.limits_time else max(1, parallel)
        self._cap = max_output_tokens
        self._next = self._start = start
        self._ahead: dict[int, asyncio.Task[Fetched]] = {}
        self.ended_by: StopReason | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        tasks = [self._ahead[index] for index in sorted(self._ahead)]
        self._ahead.clear()
        if not tasks:
            return
        if error is not None and not isinstance(error, Exception):
            for task in tasks:
                task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Fetched):
                self._fetching.spending.discard(result.charges)

    def __aiter__(self) -> AsyncIterator[Candidate]:
        return self

    async def __anext__(self) -> Candidate:
        if self._next >= self._count or self.ended_by is not None:
            raise StopAsyncIteration
        if self._next == self._start:
            self._fetching.spending.clock.barrier(self._parallel)
        draw = await self._obtained(self._next)
        self._next += 1
        try:
            return await self._consume(draw, self._parallel)
        except LimitReached as limit:
            self.ended_by = limit.stop_reason
            raise StopAsyncIteration from None

    def _obtained(self, index: int) -> Awaitable[Fetched]:
        obtain = self._fetching.draw
        if self._parallel == 1:
            return obtain(self._config, self._exchange, index, self._cap)
        for ahead in range(index, min(index + self._parallel, self._count)):
            if ahead in self._ahead:
                continue
            if ahead > index and not self._fetching.fits_ahead(self._config, self._exchange, ahead - index, self._cap):
                break
            self._ahead[ahead] = asyncio.create_task(obtain(self._config, self._exchange, ahead, self._cap))
        return self._ahead.pop(index)
