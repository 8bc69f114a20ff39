"""What a reply says of its limit before the refusal comes: dispatch pauses, nothing is frozen, and an accepted probe ends a pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from email.utils import formatdate, parsedate_to_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.test_http import model, request, talk
from tests.servers.openai_chat import LIMITED, ChatServer, Reply
from ttc_eval.models.http import HttpConnection
from ttc_eval.models.rate import Outcome, Window
from ttc_eval.wire.failures import used_up_for

NOW = parsedate_to_datetime("Mon, 30 Nov 2026 12:00:00 GMT").timestamp()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 20))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "1s"}, None),
        ({"x-ratelimit-reset-requests": "1s"}, None),
        ({"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1m30s"}, 90.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "250ms"}, 0.25),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int((NOW + 5) * 1000))}, 5.0),
        ({"anthropic-ratelimit-output-tokens-remaining": "0", "anthropic-ratelimit-output-tokens-reset": "2026-11-30T12:00:07Z"}, 7.0),
        ({"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2026-11-30T11:59:00Z"}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, None),
    ],
)
def test_a_used_up_limit_is_read_where_a_reply_says_so(headers: dict[str, str], seconds: float | None) -> None:
    assert used_up_for(headers, NOW) == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


@given(st.text(max_size=12), st.text(max_size=20))
def test_any_header_gives_a_positive_wait_or_none(remaining: str, reset: str) -> None:
    wait = used_up_for({"x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": reset}, NOW)
    assert wait is None or wait > 0


def test_a_used_up_limit_holds_new_dispatches_back_and_does_not_narrow_the_window() -> None:
    async def main() -> None:
        window = Window(8, first_probe_s=30.0)
        first = await window.enter()
        window.accepted(first, 0.1)
        waiting = asyncio.create_task(window.enter())
        await settle()
        assert not waiting.done()
        assert (window.size, 0 < window.pause_s <= 0.1) == (8.0, True)
        window.leave(first, Outcome.SUCCESS)
        await settle()
        assert not waiting.done(), "its end tells nothing of the limit"
        await waiting
        assert window.pause_s == 0

    run(main())


def test_a_reset_far_away_freezes_nothing() -> None:
    async def main() -> None:
        window = Window(8, first_probe_s=0.02)
        window.accepted(await window.enter(), 86400.0)
        assert window.pause_s <= 60.0
        probe = await window.enter()
        others = [asyncio.create_task(window.enter()) for _ in range(3)]
        await settle()
        assert not any(task.done() for task in others)
        window.accepted(probe)
        await asyncio.gather(*others)

    run(main())


def test_a_probe_that_is_told_the_same_lets_another_go_later() -> None:
    async def main() -> None:
        window = Window(8, first_probe_s=0.02)
        window.accepted(await window.enter(), 86400.0)
        for _ in range(3):
            window.accepted(await window.enter(), 86400.0)
        assert window.pause_s > 10
        window.close()

    run(main())


def test_an_accepted_probe_ends_a_pause_before_its_stream_has_ended() -> None:
    async def main() -> None:
        window = Window(4, first_probe_s=0.02)
        window.leave(await window.enter(), Outcome.REFUSED, 3600.0)
        probe = await window.enter()
        other = asyncio.create_task(window.enter())
        await settle()
        assert not other.done()
        window.accepted(probe)
        await other
        assert window.in_flight == 2

    run(main())


@given(st.lists(st.tuples(st.sampled_from(["go", "accept", "hint", "ok", "refuse", "fail"]), st.integers(0, 7)), max_size=60))
def test_no_order_of_events_loses_a_place_or_freezes_the_window(events: list[tuple[str, int]]) -> None:
    async def main() -> None:
        window = Window(4, max_pause_s=0.01, first_probe_s=0.002)
        open_: list[int] = []
        for event, which in events:
            if event == "go":
                if window.in_flight < 4 and window.pause_s == 0 and window.in_flight < int(window.size):
                    open_.append(await window.enter())
            elif open_:
                round_ = open_[which % len(open_)]
                if event in ("accept", "hint"):
                    window.accepted(round_, 1.0 if event == "hint" else None)
                    continue
                open_.remove(round_)
                window.leave(round_, {"ok": Outcome.SUCCESS, "refuse": Outcome.REFUSED, "fail": Outcome.NEUTRAL}[event], None)
            assert window.in_flight == len(open_)
            assert 1.0 <= window.size <= 4.0
        for round_ in open_:
            window.leave(round_, Outcome.NEUTRAL)
        for _ in range(3):
            window.leave(await window.enter(), Outcome.SUCCESS)
        assert window.in_flight == 0
        window.close()

    run(main())


def test_a_sweep_of_requests_slows_down_before_it_is_refused() -> None:
    """A server with three requests a window, which says what remains: without the hint most of these would be refused."""
    period, allowed = 0.15, 3
    spent: dict[int, int] = {}

    def answer(body: dict[str, Any], number: int) -> Reply:
        window = int(time.monotonic() / period)
        spent[window] = spent.get(window, 0) + 1
        left = max(0, allowed - spent[window])
        reset = f"{2 + int(1000 * ((window + 1) * period - time.monotonic()))}ms"
        headers = {"x-ratelimit-remaining-requests": str(left), "x-ratelimit-reset-requests": reset}
        if spent[window] > allowed:
            return replace(LIMITED, headers=headers, latency_s=0.0)
        return Reply(text="ok", headers=headers)

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        for draw in range(9):
            assert (await connection.respond(request(draw))).text == "ok"

    server = ChatServer(answer)
    talk(server, use, max_concurrency=3)
    assert server.count == 9, "none was refused"


def test_retry_after_as_a_date_is_kept_to() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        from ttc_eval.errors import CallFailed

        with pytest.raises(CallFailed) as failed:
            await connection.respond(request())
        assert failed.value.retry_after is not None
        assert 0 < failed.value.retry_after <= 30
        assert connection.window.pause_s > 0

    date = formatdate(time.time() + 30, usegmt=True)
    talk(ChatServer(script=[replace(LIMITED, headers={"retry-after": date})]), use)
    assert model("http://localhost/v1")
