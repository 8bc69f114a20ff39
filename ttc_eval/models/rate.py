"""How many requests may be in flight to one endpoint, learned from its refusals.

Why: a provider's limit is not known beforehand and changes. Additive increase and multiplicative decrease find it without being
told, and an endpoint that never refuses pays one comparison a call.

A refusal halves the window, once for all the requests that were in flight together, and pauses new dispatches for as long as
the server asked, at most `max_pause_s`. During a pause one request at a time may go as a probe; when it succeeds, the pause is over.
So one absurd Retry-After (an hour, for one request's tokens) does not freeze a sweep.

A reply that was accepted and says that nothing remains of a limit pauses new dispatches in the same way before the refusal comes, and
does not narrow the window. A pause is over as soon as its probe is accepted: a reasoning stream may take minutes to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum


class Outcome(Enum):
    """What a request tells of the endpoint's limit."""

    SUCCESS = "success"
    REFUSED = "refused"
    NEUTRAL = "neutral"


class Window:
    """The window of one connection; it belongs to one event loop.

    Attributes:
        size: requests that may be in flight, between 1 and the limit; fractions are progress towards the next whole.
        in_flight: requests that are.
    """

    def __init__(self, limit: int, *, max_pause_s: float = 60.0, first_probe_s: float = 1.0) -> None:
        self.size = float(limit)
        self.in_flight = 0
        self._limit = limit
        self._step = max(1.0, limit / 32)  # growth per window of successes: from 1 back to the limit in 32 round trips at most
        self._max_pause_s = max_pause_s
        self._first_probe_s = first_probe_s
        self._round = 0  # counts the decreases; a request belongs to the round in which it was dispatched
        self._strikes = 0  # decreases since the last success
        self._pause_until = 0.0
        self._probe_at = 0.0
        self._probing = False
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pause_s(self) -> float:
        """Seconds for which new dispatches are still held back; 0 when they are not."""
        return max(0.0, self._pause_until - asyncio.get_running_loop().time()) if self._pause_until else 0.0

    async def enter(self) -> int:
        """Wait for a place, first come first served, and take it. Returns the round to hand to `leave`. Safe to cancel."""
        if not self._waiting and self._may_go():
            return self._go()
        place: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._wake()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave(place.result(), Outcome.NEUTRAL)  # the place was given in the same moment
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def leave(self, round_: int, outcome: Outcome, retry_after: float | None = None) -> None:
        """Give the place back and learn from the outcome; `retry_after` is what a refusal asked for, in seconds."""
        self.in_flight -= 1
        current = round_ == self._round
        probed = current and self._probing
        if current:
            self._probing = False
        if outcome is Outcome.REFUSED:
            self._refused(current, retry_after)
        elif outcome is Outcome.SUCCESS and current and (probed or self._strikes or self.size < self._limit):
            if probed:
                self._pause_until = 0.0
            self._strikes = 0
            self.size = min(float(self._limit), self.size + self._step / self.size)
        if self._waiting:
            self._wake()

    def accepted(self, round_: int, used_up_for: float | None = None) -> None:
        """The server took a request up; `used_up_for` is when its limit that is used up is reset, in seconds, if it says that one is."""
        current = round_ == self._round
        if used_up_for is not None:
            self._hold(current, used_up_for)
        elif current and self._probing:
            self._pause_until = 0.0
        if current:
            self._probing = False
        if self._waiting:
            self._wake()

    def _hold(self, current: bool, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        if current:
            self._probe_at = now + self._first_probe_s
        if now >= self._pause_until:
            self._round += 1  # what is in flight already tells nothing of the time after this
        self._pause_until = max(self._pause_until, now + min(seconds, self._max_pause_s))

    def _refused(self, current: bool, retry_after: float | None) -> None:
        now = asyncio.get_running_loop().time()
        if current:
            self.size = max(1.0, self.size / 2)
            self._round += 1
            self._strikes += 1
            self._probe_at = now + min(self._first_probe_s * 2 ** min(self._strikes - 1, 16), self._max_pause_s)
        pause = 0.1 * 2 ** min(self._strikes, 16) if retry_after is None else retry_after
        self._pause_until = max(self._pause_until, now + min(pause, self._max_pause_s))

    def _may_go(self) -> bool:
        if self._pause_until:
            now = asyncio.get_running_loop().time()
            if now < self._pause_until:
                return not self._probing and now >= self._probe_at
            self._pause_until = 0.0
        return self.in_flight < int(self.size)

    def _go(self) -> int:
        self.in_flight += 1
        self._probing = self._pause_until > 0
        return self._round

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._may_go():
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(self._go())
        if self._waiting and self._pause_until:
            when = self._pause_until if self._probing else min(self._probe_at, self._pause_until)
            # A loop's timers may fire one clock step early; a moment later is soon enough.
            self._timer = asyncio.get_running_loop().call_at(when + 0.001, self._wake)

    def close(self) -> None:
        """Cancel the timer. Nobody may be waiting any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
