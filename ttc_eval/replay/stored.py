"""Stored calls as an exchange: every request is looked up, and one that is not stored is refused. Nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ttc_eval.exchange import Attempt, Entry, Exchange, RetryPolicy, Tally, response_of
from ttc_eval.forcing import Segment
from ttc_eval.ledger import Account, Ledger, Limits, Scope
from ttc_eval.models.base import ModelInfo
from ttc_eval.models.imported import Nobody
from ttc_eval.records import Amounts, Request
from ttc_eval.store import Journal


class NotStored(Exception):
    """A strategy asked for a request that was never made. `drawn`: how many draws there are from 0 on under its configuration."""

    def __init__(self, request: Request, drawn: int) -> None:
        super().__init__(f"{request.role.value} {request.draw} is not stored")
        self.request = request
        self.drawn = drawn


class StoredCalls:
    """The calls of a study by the address of their request, as a live sweep would find them."""

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        """`rows` are those of `calls`, in the order of their attempts."""
        self._entries: dict[str, Entry] = {}
        self.add(rows)

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take in more calls."""
        for row in rows:
            # As in a live sweep: one that was cancelled is not counted, and of two that were paid for the first counts.
            if row["status"] == "cancelled":
                continue
            entry = self._entries.setdefault(row["key"], Entry())
            if entry.response is None:
                entry.attempts.append(Attempt(row, response_of(row)))

    def only(self, rows: Iterable[dict[str, Any]]) -> None:
        """Hold these calls instead of those so far."""
        self._entries.clear()
        self.add(rows)

    def at(self, request: Request) -> tuple[Attempt, ...]:
        """The attempts that a strategy is charged for: those of the sweep in which the request succeeded, or was last tried."""
        entry = self._entries.get(request.key)
        if entry is None or not entry.attempts:
            return ()
        sweep_id = entry.attempts[-1].row["sweep_id"]
        return tuple(attempt for attempt in entry.attempts if attempt.row["sweep_id"] == sweep_id)

    def drawn(self, request: Request) -> int:
        """How many draws from 0 on are stored under the configuration of a request."""
        count = 0
        while self.at(replace(request, draw=count)):
            count += 1
        return count


class StoredExchange(Exchange):
    """Answers from stored calls only. What a strategy is charged is what it would have been charged live."""

    def __init__(self, info: ModelInfo, calls: StoredCalls, retry: RetryPolicy) -> None:
        """`retry` is that of the cell: it bounds what is held for a request, and so what fits into a limit."""
        super().__init__(
            info=info,
            connection=Nobody(info.name),
            journal=Journal(Path()),
            ledger=Ledger(),
            wallet=Account(Scope.SWEEP, Limits()),
            sweep_id="",
            retry=retry,
            tally=Tally(),
        )
        self._calls = calls

    def bound(self, request: Request) -> Amounts:
        """What is reserved for a request: as in a live sweep, and never less than what a stored response is known to have used."""
        bound = super().bound(request)
        for attempt in self._calls.at(request):
            if attempt.response is not None:
                usage, usd = attempt.usage, Decimal(str(attempt.row["cost_usd"] or 0))
                size, out = max(bound.input_tokens, usage.input_tokens or 0), max(bound.output_tokens, usage.output_tokens or 0)
                bound = replace(bound, input_tokens=size, output_tokens=out, usd=max(bound.usd, usd))
        return bound

    async def fetch(self, segment: Segment, pool: str, admit: Callable[[], None]) -> tuple[Attempt, ...]:  # noqa: ARG002
        """The stored attempts at the address of a segment's request. Raises `NotStored`."""
        found = self._calls.at(segment.request)
        if not found:
            raise NotStored(segment.request, self._calls.drawn(segment.request))
        return found

    def attempts(self, request: Request) -> tuple[Attempt, ...]:
        """The stored attempts at a request's address."""
        return self._calls.at(request)
