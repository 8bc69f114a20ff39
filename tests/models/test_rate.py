"""The window of requests in flight: it halves once per round of refusals, recovers, and is never frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ttc_eval.models.rate import Outcome, Window


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 20))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_without_refusals_the_limit_is_the_only_bound() -> None:
    async def main() -> None:
        window = Window(3)
        rounds = [await window.enter() for _ in range(3)]
        late = asyncio.create_task(window.enter())
        await settle()
        assert not late.done()
        window.leave(rounds[0], Outcome.SUCCESS)
        await late
        assert (window.in_flight, window.size) == (3, 3.0)

    run(main())


def test_refusals_of_one_round_halve_the_window_once() -> None:
    async def main() -> None:
        window = Window(64)
        rounds = [await window.enter() for _ in range(64)]
        for round_ in rounds:
            window.leave(round_, Outcome.REFUSED, 0.0)
        assert (window.size, window.in_flight) == (32.0, 0)

    run(main())


def test_the_window_recovers_to_the_limit_and_no_further() -> None:
    async def main() -> None:
        window = Window(64)
        for _ in range(10):
            window._pause_until = 0.0
            window.leave(await window.enter(), Outcome.REFUSED, 0.0)
        assert window.size == 1.0
        successes = 0
        while window.size < 64:
            window.leave(await window.enter(), Outcome.SUCCESS)
            successes += 1
        assert successes < 64 * 32
        window.leave(await window.enter(), Outcome.SUCCESS)
        assert window.size == 64.0

    run(main())


def test_a_success_from_before_the_decrease_does_not_widen_the_window() -> None:
    async def main() -> None:
        window = Window(8)
        first, second = await window.enter(), await window.enter()
        window.leave(first, Outcome.REFUSED, 5.0)
        window.leave(second, Outcome.SUCCESS)
        assert window.size == 4.0
        assert window.pause_s > 0

    run(main())


def test_a_pause_holds_new_dispatches_back_and_a_successful_probe_ends_it() -> None:
    async def main() -> None:
        window = Window(4, first_probe_s=0.05)
        window.leave(await window.enter(), Outcome.REFUSED, 3600.0)
        assert window.pause_s <= 60.0
        waiting = [asyncio.create_task(window.enter()) for _ in range(3)]
        await settle()
        assert not any(task.done() for task in waiting)
        probe = await waiting[0]
        await settle()
        assert window.in_flight == 1
        window.leave(probe, Outcome.SUCCESS)
        await asyncio.gather(*waiting[1:])
        assert window.pause_s == 0

    run(main())


def test_a_refused_probe_waits_longer_than_the_one_before() -> None:
    async def main() -> None:
        window = Window(4, first_probe_s=0.05)
        loop = asyncio.get_running_loop()
        window.leave(await window.enter(), Outcome.REFUSED, 3600.0)
        start = loop.time()
        window.leave(await window.enter(), Outcome.REFUSED, 3600.0)
        first, start = loop.time() - start, loop.time()
        window.leave(await window.enter(), Outcome.REFUSED, 3600.0)
        assert loop.time() - start > 1.5 * first

    run(main())


def test_a_short_pause_ends_by_itself() -> None:
    async def main() -> None:
        window = Window(4, first_probe_s=30.0)
        rounds = [await window.enter() for _ in range(4)]
        for round_ in rounds:
            window.leave(round_, Outcome.REFUSED, 0.05)
        await asyncio.gather(window.enter(), window.enter())
        assert window.in_flight == 2

    run(main())


def test_cancelling_a_waiter_loses_no_place() -> None:
    async def main() -> None:
        window = Window(1)
        held = await window.enter()
        gone, next_ = asyncio.create_task(window.enter()), asyncio.create_task(window.enter())
        await settle()
        gone.cancel()
        await settle()
        window.leave(held, Outcome.SUCCESS)
        held = await next_
        # Cancelled in the moment in which its place was given to it.
        gone, next_ = asyncio.create_task(window.enter()), asyncio.create_task(window.enter())
        await settle()
        window.leave(held, Outcome.SUCCESS)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await next_
        assert window.in_flight == 1

    run(main())


def test_a_probe_that_is_cancelled_lets_another_go() -> None:
    async def main() -> None:
        window = Window(4, first_probe_s=0.02)
        window.leave(await window.enter(), Outcome.REFUSED, 3600.0)
        probe = await window.enter()
        other = asyncio.create_task(window.enter())
        await settle()
        window.leave(probe, Outcome.NEUTRAL)
        await other
        window.close()

    run(main())
