"""What one run of a strategy spends on one question: reserved before a call, settled after it, in the order in which it was asked.

What is charged is what the strategy would have cost alone, whether a call was stored or fresh (docs/design.md 3.3, 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ttc_eval.clock import Clock
from ttc_eval.exchange import Attempt, Exchange
from ttc_eval.forcing import Part, Segment
from ttc_eval.ledger import Account, Ledger, LimitReached, OverReservation, Reservation, add, subtract, used_amounts
from ttc_eval.records import Amounts


class DrawFailed(Exception):
    """A request came to nothing after all its retries. The strategy ends with stop reason `error`; `kind` says what failed."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class Charge:
    """One attempt, and what the strategy is charged for it."""

    attempt: Attempt
    amounts: Amounts
    overshoot: bool = False

    @property
    def call_id(self) -> str:
        """The call's id in the store."""
        return str(self.attempt.row["call_id"])

    def counts(self, resource: str) -> bool:
        """Whether its `input_tokens` or `output_tokens` are known, or bounded by a reservation. Imported samples may lack both."""
        return getattr(self.attempt.usage, resource) is not None or self.attempt.row.get(f"reserved_{resource}") is not None


class Spending:
    """The accounts, the charges and the clock of one run. Everything that costs passes here."""

    def __init__(self, ledger: Ledger, problem: Account, cell: Account) -> None:
        self.accounts = (problem, cell)
        self.charges: list[Charge] = []
        self.clock = Clock()
        self._ledger = ledger
        self._local = Amounts()
        self._timed = True

    async def segment(self, segment: Segment, pool: str, exchange: Exchange, charges: list[Charge]) -> Part:
        """One request: reserve, fetch, settle every attempt. Appends to `charges` what was charged, also when it raises.

        Raises `LimitReached` when a limit leaves no room, `OverReservation` when more was used than was reserved, and `DrawFailed`.
        """
        bound = exchange.bound(segment.request)
        reservations = [await self._ledger.acquire(self.accounts, bound)]

        def admit() -> None:
            reservations.append(self._ledger.reserve(self.accounts, bound))

        attempts: Sequence[Attempt] = ()
        try:
            attempts = await exchange.fetch(segment, pool, admit)
            while len(reservations) < len(attempts):
                admit()
        except LimitReached:
            attempts = exchange.attempts(segment.request)[: len(reservations)]
            raise
        finally:
            for reservation in reservations[len(attempts) :]:
                self._ledger.release(reservation)
            charges.extend(self._settle(reservation, attempt) for reservation, attempt in zip(reservations, attempts, strict=False))
        last = attempts[-1]
        if last.row.get("error_kind") == "over_reservation":
            raise OverReservation(last.row["error"])
        if last.response is None:
            raise DrawFailed(last.row["error_kind"], last.row["error"])
        return Part(segment, last.response)

    def _settle(self, reservation: Reservation, attempt: Attempt) -> Charge:
        usd = attempt.row["cost_usd"]
        used = used_amounts(attempt.usage, reservation.amounts, None if usd is None else Decimal(str(usd)), 0.0)
        try:
            return Charge(attempt, self._ledger.settle(reservation, used))
        except OverReservation:
            return Charge(attempt, reservation.amounts)

    def node(self, depth: int) -> None:
        """Charge one node of a search, `depth` steps from its start. Raises `LimitReached` for a limit on nodes or on depth."""
        for account in self.accounts:
            if account.limits.search_depth is not None and depth > account.limits.search_depth:
                raise LimitReached(account.scope, "search_depth")
        self.here(Amounts(search_nodes=1))

    def here(self, amounts: Amounts) -> None:
        """Charge what needs no call: a check that runs here, a node of a search. Raises `LimitReached`."""
        self._ledger.settle(self._ledger.reserve(self.accounts, amounts), amounts)
        self._local = add(self._local, amounts)

    def give_back(self, amounts: Amounts) -> None:
        """Take back what was charged by `here` for something that then was not asked for."""
        self._ledger.refund(self.accounts, amounts)
        self._local = subtract(self._local, amounts)

    def take(self, charges: Sequence[Charge], parallel: int = 1) -> None:
        """Take what was asked for into the run, and let its time pass.

        Raises `LimitReached` when that overran a time limit: it was paid for, and it came too late to count. A stored call is judged by
        the latency that was recorded.
        """
        self.charges.extend(charges)
        self._timed = self._timed and all(charge.attempt.row["latency_s"] is not None for charge in charges)
        self.pass_time(sum(charge.attempt.row["latency_s"] or 0.0 for charge in charges), parallel)

    def pass_time(self, seconds: float, parallel: int = 1) -> None:
        """Let `seconds` of work pass, `parallel` at a time. Raises `LimitReached` when that overran a time limit."""
        before = self.clock.critical
        self.clock.run(seconds, parallel)
        passed, late = self.clock.critical - before, None
        for account in self.accounts:
            room = account.room("wall_seconds")
            if room is None:
                continue
            if passed > room:
                late = account.scope
            self._ledger.charge((account,), Amounts(wall_seconds=min(passed, max(0.0, float(room)))))
        if late is not None:
            raise LimitReached(late, "wall_seconds")

    def discard(self, charges: Sequence[Charge]) -> None:
        """Calls beyond the stopping point: billed, and not charged to the strategy."""
        for charge in charges:
            self._ledger.refund(self.accounts, charge.amounts)
            self.charges.append(Charge(charge.attempt, Amounts(), overshoot=True))

    def check_time(self) -> None:
        """Raise `LimitReached` when a time limit is used up."""
        for account in self.accounts:
            room = account.room("wall_seconds")
            if room is not None and room <= 0:
                raise LimitReached(account.scope, "wall_seconds")

    def fits(self, amounts: Amounts) -> bool:
        """Whether so much can be dispatched side by side without changing the fate of any part of it. Under a time limit nothing can."""
        return not self.limits_time and all(account.lacking(amounts) is None for account in self.accounts)

    @property
    def limits_time(self) -> bool:
        """Whether there is a time limit. Under one all calls are made in turn, or how far a run gets would depend on `parallel`."""
        return any(account.limits.wall_seconds is not None for account in self.accounts)

    @property
    def charged(self) -> Amounts:
        """What has been charged so far."""
        total = self._local
        for charge in self.charges:
            total = add(total, charge.amounts)
        return replace(total, wall_seconds=self.clock.critical)

    def counts(self, resource: str) -> bool:
        """Whether the `input_tokens` or `output_tokens` of everything charged are known or bounded. Otherwise their sum is unknown."""
        return all(charge.counts(resource) for charge in self.charges if not charge.overshoot)

    @property
    def timed(self) -> bool:
        """Whether the latency of everything charged was recorded."""
        return self._timed

    @property
    def priced(self) -> bool:
        """Whether every charge has a price. Without one, what is charged in USD is unknown, not 0."""
        return all(charge.attempt.row["price_version"] is not None for charge in self.charges)

    def use_rows(self) -> list[dict[str, Any]]:
        """What each call was charged, as rows of `uses` without their cell and problem."""
        return [
            {
                "call_id": charge.call_id,
                "position": position,
                "overshoot": charge.overshoot,
                "charged_calls": charge.amounts.calls,
                "charged_input_tokens": charge.amounts.input_tokens if charge.counts("input_tokens") else None,
                "charged_output_tokens": charge.amounts.output_tokens if charge.counts("output_tokens") else None,
                "charged_usd": None if charge.attempt.row["price_version"] is None else charge.amounts.usd,
            }
            for position, charge in enumerate(self.charges)
        ]
