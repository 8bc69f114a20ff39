"""The ledger never lets what is held and spent exceed a limit, whatever happens in whatever order."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import fields
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.ledger import Account, Ledger, LimitReached, Limits, OverReservation, Scope, used_amounts
from ttc_eval.records import UNKNOWN_USAGE, Amounts, StopReason, Usage

SUMMED = [entry.name for entry in fields(Amounts) if entry.name != "wall_seconds"]


def amounts(most: int) -> st.SearchStrategy[Amounts]:
    whole = st.integers(0, most)
    return st.builds(
        Amounts, calls=whole, input_tokens=whole, output_tokens=whole, usd=whole.map(Decimal), verifier_calls=whole, search_nodes=whole
    )


limits = st.builds(
    Limits,
    calls=st.none() | st.integers(0, 30),
    input_tokens=st.none() | st.integers(0, 30),
    output_tokens=st.none() | st.integers(0, 30),
    usd=st.none() | st.integers(0, 30).map(Decimal),
)


def within(account: Account) -> bool:
    for name in SUMMED:
        limit, total = getattr(account.limits, name), getattr(account.held, name) + getattr(account.spent, name)
        if total < 0 or (limit is not None and total > limit):
            return False
    return True


@given(st.lists(limits, min_size=3, max_size=3), st.data())
def test_no_interleaving_overspends_a_limit(three: list[Limits], data: st.DataObject) -> None:
    ledger = Ledger()
    accounts = [Account(scope, limit) for scope, limit in zip(Scope, three, strict=True)]
    open_reservations = []
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["reserve", "settle", "over", "unknown", "release"]))
        if action == "reserve" or not open_reservations:
            wanted = data.draw(amounts(12))
            before = [(account.held, account.spent) for account in accounts]
            try:
                open_reservations.append(ledger.reserve(accounts, wanted))
            except LimitReached:
                assert [(account.held, account.spent) for account in accounts] == before
        else:
            reservation = open_reservations.pop(data.draw(st.integers(0, len(open_reservations) - 1)))
            if action == "settle":
                used = Amounts(**{name: data.draw(st.integers(0, int(getattr(reservation.amounts, name)))) for name in SUMMED})
                assert ledger.settle(reservation, used) == used
            elif action == "over":
                with pytest.raises(OverReservation):
                    ledger.settle(reservation, Amounts(output_tokens=reservation.amounts.output_tokens + 1))
            elif action == "unknown":
                unknown = used_amounts(UNKNOWN_USAGE, reservation.amounts, None, 0.0)
                assert ledger.settle(reservation, unknown) == reservation.amounts
            else:
                ledger.release(reservation)
        assert all(within(account) for account in accounts)
    held = [sum(getattr(one.amounts, name) for one in open_reservations) for name in SUMMED]
    assert all([getattr(account.held, name) for name in SUMMED] == held for account in accounts)


def test_threads_share_one_limit() -> None:
    ledger, account = Ledger(), Account(Scope.SWEEP, Limits(calls=500))
    taken = []

    def work() -> None:
        for _ in range(200):
            try:
                taken.append(ledger.settle(ledger.reserve([account], Amounts(calls=1)), Amounts(calls=1)))
            except LimitReached:
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == account.spent.calls == 500


def test_a_reservation_is_all_or_none_and_names_the_limit() -> None:
    ledger = Ledger()
    wide, narrow = Account(Scope.SWEEP, Limits()), Account(Scope.PROBLEM, Limits(output_tokens=10))
    with pytest.raises(LimitReached, match=r"limits\.problem\.output_tokens") as caught:
        ledger.reserve([wide, narrow], Amounts(calls=1, output_tokens=11))
    assert caught.value.stop_reason is StopReason.OUTPUT_BUDGET
    assert wide.held == Amounts()


def test_unknown_usage_keeps_the_whole_reservation() -> None:
    reserved = Amounts(calls=1, input_tokens=100, output_tokens=32, usd=Decimal("0.5"))
    assert used_amounts(UNKNOWN_USAGE, reserved, None, 0.0) == reserved
    assert used_amounts(Usage(output_tokens=12), reserved, Decimal("0.1"), 0.0) == Amounts(1, 100, 12, Decimal("0.1"))


def test_closing_a_reservation_twice_is_a_defect() -> None:
    ledger, account = Ledger(), Account(Scope.CELL, Limits())
    reservation = ledger.reserve([account], Amounts(calls=1))
    ledger.release(reservation)
    with pytest.raises(RuntimeError, match="closed twice"):
        ledger.settle(reservation, Amounts())


def test_a_caller_waits_for_what_is_only_held() -> None:
    async def scenario() -> None:
        ledger, account = Ledger(), Account(Scope.SWEEP, Limits(output_tokens=10))
        first = ledger.reserve([account], Amounts(output_tokens=10))
        waiting = asyncio.create_task(ledger.acquire([account], Amounts(output_tokens=6)))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        ledger.settle(first, Amounts(output_tokens=4))
        ledger.release(await waiting)
        with pytest.raises(LimitReached):
            await ledger.acquire([account], Amounts(output_tokens=7))

    asyncio.run(scenario())


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="output_tokens"):
        Limits(output_tokens=-1)
