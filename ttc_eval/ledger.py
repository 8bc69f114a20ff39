"""The ledger: limits, reservations and their reconciliation (docs/design.md 3.3).

Before a call is dispatched its upper bound is reserved on every account that encloses it (sweep, cell, problem), on
all or on none. Afterwards the reservation is *settled* with what was used (the whole of it where that is unknown), or
*released* when nothing was dispatched. What an account holds and has spent never exceeds its limits, in whatever
order these happen and on however many threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum

from ttc_eval.records import Amounts, StopReason, Usage


class Scope(StrEnum):
    """What an account belongs to."""

    SWEEP = "sweep"
    CELL = "cell"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of one account; None is no bound. `search_depth` is a maximum, the others are sums."""

    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: Decimal | None = None
    wall_seconds: float | None = None
    verifier_calls: int | None = None
    search_nodes: int | None = None
    search_depth: int | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None and not value >= 0:
                raise ValueError(f"{entry.name}: {value} is not 0 or more")


_RESOURCES = tuple(entry.name for entry in fields(Amounts))

# Only a sweep near a limit ever waits, so a short poll is cheaper than signalling every settlement.
_WAIT_S = 0.005

_STOPS = {
    "calls": StopReason.CALL_BUDGET,
    "verifier_calls": StopReason.CALL_BUDGET,
    "input_tokens": StopReason.INPUT_BUDGET,
    "output_tokens": StopReason.OUTPUT_BUDGET,
    "usd": StopReason.COST_BUDGET,
    "wall_seconds": StopReason.TIME_BUDGET,
    "search_nodes": StopReason.NODE_LIMIT,
    "search_depth": StopReason.DEPTH_LIMIT,
}


class LimitReached(Exception):
    """A reservation does not fit. `scope` and `resource` name the limit, `stop_reason` is what a strategy reports."""

    def __init__(self, scope: Scope, resource: str) -> None:
        super().__init__(f"limits.{scope.value}.{resource} is used up")
        self.scope = scope
        self.resource = resource
        self.stop_reason = _STOPS[resource]


class OverReservation(Exception):
    """A call used more than was reserved for it. The reservation stays spent in full, and the cell must stop."""


def add(left: Amounts, right: Amounts) -> Amounts:
    """The sum, resource by resource."""
    # Written out: every call passes here several times, and a loop over field names takes five times as long.
    return Amounts(
        left.calls + right.calls,
        left.input_tokens + right.input_tokens,
        left.output_tokens + right.output_tokens,
        left.usd + right.usd,
        left.wall_seconds + right.wall_seconds,
        left.verifier_calls + right.verifier_calls,
        left.search_nodes + right.search_nodes,
    )


def subtract(left: Amounts, right: Amounts) -> Amounts:
    """The difference, resource by resource."""
    return Amounts(
        left.calls - right.calls,
        left.input_tokens - right.input_tokens,
        left.output_tokens - right.output_tokens,
        left.usd - right.usd,
        left.wall_seconds - right.wall_seconds,
        left.verifier_calls - right.verifier_calls,
        left.search_nodes - right.search_nodes,
    )


class Account:
    """What one sweep, cell or problem may spend, holds reserved and has spent. Changed by its `Ledger` only."""

    def __init__(self, scope: Scope, limits: Limits, spent: Amounts | None = None) -> None:
        self.scope = scope
        self.limits = limits
        self.held = Amounts()
        self.spent = spent or Amounts()
        self._limited = tuple(name for name in _RESOURCES if getattr(limits, name) is not None)

    def room(self, resource: str) -> int | float | Decimal | None:
        """What is neither held nor spent of one resource; None when it has no limit."""
        limit = getattr(self.limits, resource)
        return None if limit is None else limit - getattr(self.held, resource) - getattr(self.spent, resource)

    def lacking(self, amounts: Amounts) -> str | None:
        """The first resource for which `amounts` does not fit into the room; None when all fit."""
        for resource in self._limited:
            wanted = getattr(amounts, resource)
            if not wanted:
                continue
            room = self.room(resource)
            if room is not None and wanted > room:
                return resource
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Amounts held on some accounts. It is closed once: by `settle` or `release`."""

    accounts: tuple[Account, ...]
    amounts: Amounts


class Ledger:
    """Makes and closes reservations. One ledger serves all workers and threads; it is never copied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Reservation] = set()

    def reserve(self, accounts: Sequence[Account], amounts: Amounts) -> Reservation:
        """Hold `amounts` on every account, or on none and raise `LimitReached` for the first that lacks room."""
        with self._lock:
            for account in accounts:
                resource = account.lacking(amounts)
                if resource is not None:
                    raise LimitReached(account.scope, resource)
            for account in accounts:
                account.held = add(account.held, amounts)
            reservation = Reservation(tuple(accounts), amounts)
            self._open.add(reservation)
            return reservation

    async def acquire(self, accounts: Sequence[Account], amounts: Amounts) -> Reservation:
        """Like `reserve`, but waits while what is missing is only held by calls in flight that may give it back.

        The caller must hold nothing on these accounts that waits in turn.
        """
        while True:
            try:
                return self.reserve(accounts, amounts)
            except LimitReached as limit:
                if not any(self._may_come_back(account, limit.resource, amounts) for account in accounts if account.scope is limit.scope):
                    raise
            await asyncio.sleep(_WAIT_S)

    def _may_come_back(self, account: Account, resource: str, amounts: Amounts) -> bool:
        with self._lock:
            room, held = account.room(resource), getattr(account.held, resource)
            return held > 0 and room is not None and getattr(amounts, resource) <= room + held

    def settle(self, reservation: Reservation, used: Amounts) -> Amounts:
        """Charge what was used and refund the rest; returns what was charged.

        Raises `OverReservation` when more was used than was reserved or a quantity is negative; the whole
        reservation is then charged, so that no limit is exceeded in the books, and the caller must stop.
        """
        for resource in _RESOURCES:
            value, reserved = getattr(used, resource), getattr(reservation.amounts, resource)
            # Seconds are observed, not promised: a late answer has taken its time and is charged for it.
            if resource == "wall_seconds":
                continue
            if not 0 <= value <= reserved:
                self._close(reservation, reservation.amounts)
                raise OverReservation(f"usage outside the reserved cap: {value} {resource} used, {reserved} reserved")
        return self._close(reservation, used)

    def release(self, reservation: Reservation) -> None:
        """Give everything back: nothing was dispatched for this reservation."""
        self._close(reservation, Amounts())

    def refund(self, accounts: Sequence[Account], amounts: Amounts) -> None:
        """Take a charge back: the call turned out to lie beyond a strategy's stopping point."""
        with self._lock:
            for account in accounts:
                account.spent = subtract(account.spent, amounts)

    def charge(self, accounts: Sequence[Account], amounts: Amounts) -> None:
        """Spend without a reservation; for observed quantities only (elapsed seconds)."""
        with self._lock:
            for account in accounts:
                account.spent = add(account.spent, amounts)

    def _close(self, reservation: Reservation, charged: Amounts) -> Amounts:
        with self._lock:
            if reservation not in self._open:
                raise RuntimeError("a reservation was closed twice")
            self._open.remove(reservation)
            for account in reservation.accounts:
                account.held = subtract(account.held, reservation.amounts)
                account.spent = add(account.spent, charged)
            return charged


def used_amounts(usage: Usage, reserved: Amounts, usd: Decimal | None, wall_seconds: float) -> Amounts:
    """What a call is charged: known quantities as they are, unknown ones at their whole reservation.

    An unknown price leaves `usd` at what was reserved, which is 0 where no USD limit could be set.
    """
    return Amounts(
        calls=reserved.calls,
        input_tokens=reserved.input_tokens if usage.input_tokens is None else usage.input_tokens,
        output_tokens=reserved.output_tokens if usage.output_tokens is None else usage.output_tokens,
        usd=reserved.usd if usd is None else usd,
        wall_seconds=wall_seconds,
        verifier_calls=reserved.verifier_calls,
        search_nodes=reserved.search_nodes,
    )
