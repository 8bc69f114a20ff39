"""The exchange: every call of a sweep passes here, once per address.

It looks a request up among the draws that are stored or in flight, and only otherwise reserves its upper bound on the
sweep's account, dispatches it, retries it within bounds, and has every attempt on disk before anybody acts on it.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import orjson

from ttc_eval import prices
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.forcing import Segment
from ttc_eval.ledger import Account, Ledger, LimitReached, OverReservation, used_amounts
from ttc_eval.models.base import Connection, ModelInfo
from ttc_eval.records import NOTHING_USED, UNKNOWN_USAGE, Amounts, CallStop, Request, Response, Role, Timings, Usage, UsageSource
from ttc_eval.store.journal import Journal, JournalFailed

# Room for what a server puts before the messages: its template, its default system prompt.
_HIDDEN_PROMPT_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a failed request is sent again.

    Waits double from `first_wait_s` up to `longest_wait_s`, with full jitter; what the server asks for counts, up to
    `longest_wait_s` as well.
    """

    max_attempts: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise UserError(f"retry.max_attempts={self.max_attempts}: give 1 or more")
        if not (0 <= self.first_wait_s < math.inf and 0 <= self.longest_wait_s < math.inf):
            raise UserError("retry.first_wait_s and retry.longest_wait_s: give seconds, 0 or more")

    def wait(self, failures: int, retry_after: float | None) -> float:
        """Seconds to wait after the `failures`-th failure in a row."""
        if retry_after is not None:
            return min(retry_after, self.longest_wait_s)
        return random.uniform(0.5, 1.0) * min(self.first_wait_s * 2.0 ** (failures - 1), self.longest_wait_s)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One dispatched call: its row in `calls`, and the response when there was one."""

    row: Mapping[str, Any]
    response: Response | None

    @property
    def usage(self) -> Usage:
        """What it used, as far as known."""
        return usage_of(self.row)


@dataclass(slots=True)
class Entry:
    """All attempts so far at one address. It is settled when the last one succeeded."""

    attempts: list[Attempt] = field(default_factory=list)

    @property
    def response(self) -> Response | None:
        """The response of the attempt that succeeded; None so far."""
        return self.attempts[-1].response if self.attempts else None


@dataclass(slots=True)
class Tally:
    """What the exchange has done, for the progress display."""

    in_flight: int = 0
    calls: int = 0
    reused: int = 0
    errors: int = 0
    output_tokens: int = 0
    usd: Decimal = Decimal(0)


class SweepLimitReached(Exception):
    """The sweep's own limit is used up: nothing more is dispatched, and what is unfinished stays so."""


def call_bound(info: ModelInfo, request: Request, *, priced: bool) -> Amounts:
    """The upper bound of what one attempt at `request` can use, input counted as one token a byte at most. USD is 0 without a price."""
    # A tokenizer with byte fallback never makes more tokens than there are bytes; templates add a few per turn.
    size = sum(len(message.content.encode("utf-8", "replace")) + 32 for message in request.messages)
    # What a tool loop sends back, seals and signatures included, and the tools themselves are input as well.
    size += sum(len(orjson.dumps(block)) for message in request.messages for block in message.blocks)
    size += sum(len(orjson.dumps(tool)) for tool in request.tools)
    input_tokens = size + len(request.prefix.encode("utf-8", "replace")) + _HIDDEN_PROMPT_TOKENS
    output_tokens = request.max_output_tokens + info.thinking.budget_slack
    usd = prices.upper_bound(info.price, input_tokens, output_tokens, time.time()) if priced else None
    verifies = int(request.role is Role.VERIFY)
    return Amounts(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd or Decimal(0), verifier_calls=verifies)


class Exchange:
    """Fetches responses for requests. One exchange serves one model of one sweep."""

    def __init__(
        self,
        *,
        info: ModelInfo,
        connection: Connection,
        journal: Journal,
        ledger: Ledger,
        wallet: Account,
        sweep_id: str,
        retry: RetryPolicy,
        tally: Tally,
        deadline: float | None = None,
    ) -> None:
        self.info = info
        self._connection = connection
        self._journal = journal
        self._ledger = ledger
        self._wallet = wallet
        self._sweep_id = sweep_id
        self._retry = retry
        self._tally = tally
        self._deadline = deadline
        self._gate = asyncio.Semaphore(info.max_concurrency)
        self._entries: dict[str, Entry] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.max_attempts = retry.max_attempts
        self._price_version = prices.book_version() if prices.has_price(info.price) else None

    @property
    def priced(self) -> bool:
        """Whether calls have a price."""
        return self._price_version is not None

    def remember(self, rows: list[dict[str, Any]]) -> None:
        """Take in stored `calls` rows, in the order of their attempts; they are not dispatched again."""
        for row in rows:
            # A call that was cancelled with its sweep was billed, but no strategy asked for its end.
            if row["status"] == "cancelled":
                continue
            entry = self._entries.setdefault(row["key"], Entry())
            # Two sweeps at once may both have paid for a draw; it is the one that came first.
            if entry.response is None:
                entry.attempts.append(Attempt(row, response_of(row)))

    def bound(self, request: Request) -> Amounts:
        """The upper bound of what one attempt at `request` can use, see `call_bound`."""
        return call_bound(self.info, request, priced=self.priced)

    async def fetch(self, segment: Segment, pool: str, admit: Callable[[], None]) -> tuple[Attempt, ...]:
        """The attempts at the address of a segment's request, dispatching it when nothing usable is stored.

        Args:
            admit: called for every attempt but the first, before it is dispatched or when it is found; it reserves on
                the caller's own accounts and raises `LimitReached` to refuse. The first is the caller's own reservation.

        Raises `LimitReached` when a retry was refused, or `SweepLimitReached`.
        """
        key = segment.request.key
        while True:
            entry = self._entries.setdefault(key, Entry())
            if entry.response is not None:
                self._tally.reused += 1
                return self._charged(entry)
            running = self._tasks.get(key)
            if running is not None:
                await asyncio.wait([running])
                if _to_be_tried_again(running) and entry.response is None:
                    continue
                self._tally.reused += 1
                return self._charged(entry)
            task = asyncio.create_task(self._dispatch(segment, pool, key, entry, admit))
            self._tasks[key] = task
            task.add_done_callback(lambda _, key=key: self._tasks.pop(key, None))  # type: ignore[misc]
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait([task])
                raise
            return self._charged(entry)

    def attempts(self, request: Request) -> tuple[Attempt, ...]:
        """The attempts so far at a request's address that a strategy is charged for."""
        entry = self._entries.get(request.key)
        return () if entry is None else self._charged(entry)

    def _charged(self, entry: Entry) -> tuple[Attempt, ...]:
        """The attempts of the sweep in which the draw succeeded, or else of this one.

        An earlier sweep that gave up was billed, and a strategy run alone would not have paid for it.
        """
        if not entry.attempts:
            return ()
        sweep_id = self._sweep_id if entry.response is None else entry.attempts[-1].row["sweep_id"]
        return tuple(attempt for attempt in entry.attempts if attempt.row["sweep_id"] == sweep_id)

    async def _dispatch(self, segment: Segment, pool: str, key: str, entry: Entry, admit: Callable[[], None]) -> None:
        tried = [attempt.row for attempt in entry.attempts if attempt.row["sweep_id"] == self._sweep_id]
        if any(not row["retryable"] for row in tried):
            return
        # Attempts that another caller, or this sweep before it was stopped, has made count against this caller too.
        for _ in tried:
            admit()
        for failures in range(len(tried), self._retry.max_attempts):
            if failures > len(tried):
                admit()
            failure = await self._attempt(segment, pool, key, entry)
            if failure is None or not failure.retryable or failures + 1 >= self._retry.max_attempts:
                return
            await asyncio.sleep(self._retry.wait(failures + 1, failure.retry_after))

    async def _attempt(self, segment: Segment, pool: str, key: str, entry: Entry) -> CallFailed | None:
        request = segment.request
        async with self._gate:
            bound = self.bound(request)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                raise SweepLimitReached("limits.sweep.wall_seconds is used up")
            try:
                reservation = await self._ledger.acquire([self._wallet], bound)
            except LimitReached as limit:
                raise SweepLimitReached(str(limit)) from None
            call_id, started = uuid.uuid4().hex, time.time()
            reserved = {
                "reserved_input_tokens": bound.input_tokens,
                "reserved_output_tokens": bound.output_tokens,
                "reserved_usd": bound.usd if self._price_version else None,
            }
            dispatched = {"call_id": call_id, "key": key, "sweep_id": self._sweep_id, "started_at": started, **reserved}
            try:
                self._journal.note({"dispatches": [dispatched]})
            except JournalFailed:
                # Nothing was sent, and others may be waiting for what is held here.
                self._ledger.release(reservation)
                raise
            self._tally.in_flight += 1
            response, failure, status, clock = None, None, "ok", time.perf_counter()
            try:
                response = await self._connection.respond(request, attempt=len(entry.attempts) + 1)
            except CallFailed as error:
                failure, status = error, "error"
            except UserError as error:
                # Refused before it was sent: it used nothing, and sending it again would not help.
                failure, status = CallFailed("not_sendable", str(error), retryable=False, usage=NOTHING_USED), "error"
            except asyncio.CancelledError:
                failure, status = CallFailed("cancelled", "cancelled before it ended", retryable=False), "cancelled"
            except Exception as error:
                # A defect of a model must not leave a reservation open behind it, on which others would wait for ever.
                failure, status = CallFailed("defect", f"{type(error).__name__}: {error}", retryable=False), "error"
            finally:
                self._tally.in_flight -= 1
            timings = response.timings if response else Timings(started, None, time.perf_counter() - clock)
            usage = response.usage if response else (failure.usage if failure and failure.usage else UNKNOWN_USAGE)
            usd = prices.cost(self.info.price, usage, timings.started_at) if self._price_version else None
            row = {
                "call_id": call_id,
                "key": key,
                "pool": pool,
                "sweep_id": self._sweep_id,
                "model": self.info.name,
                "attempt": len(entry.attempts) + 1,
                "status": status,
                "cost_usd": usd,
                "price_version": self._price_version,
                "simulated": self.info.simulated,
                **reserved,
                **_request_columns(request),
                **_outcome_columns(response, failure, segment.thinks),
                **_usage_columns(usage, segment.thinks),
                "retryable": None if failure is None else failure.retryable,
                "started_at": timings.started_at,
                "first_token_s": timings.first_token_s,
                "latency_s": timings.latency_s,
            }
            over = self._settle(reservation, bound, usage, usd) or _over_budget(self.info, request, usage)
            if over is not None:
                row |= {"status": "error", "error_kind": "over_reservation", "error": str(over), "retryable": False}
            self._tally.calls += 1
            self._tally.errors += row["status"] == "error"
            self._tally.output_tokens += usage.output_tokens or 0
            self._tally.usd += usd or Decimal(0)
            if status == "cancelled":
                # The loop is closing this task: the line must be queued, and the journal's end waits for it.
                self._journal.note({"calls": [row]})
                raise asyncio.CancelledError
            await self._journal.append({"calls": [row]})
            entry.attempts.append(Attempt(row, response if over is None else None))
            return failure

    def _settle(self, reservation: Any, bound: Amounts, usage: Usage, usd: Decimal | None) -> OverReservation | None:
        try:
            self._ledger.settle(reservation, used_amounts(usage, bound, usd, 0.0))
        except OverReservation as over:
            return over
        return None


def _over_budget(info: ModelInfo, request: Request, usage: Usage) -> OverReservation | None:
    """Thinking beyond a budget that the model keeps apart from its cap, even where the answer left room for it in the sum."""
    budget, used, support = request.thinking.budget, usage.reasoning_tokens, info.thinking
    if support.budget_inside_max_tokens or budget is None or used is None or used <= budget + support.budget_slack:
        return None
    reserved = f"{budget} + {support.budget_slack} reserved"
    return OverReservation(f"usage outside the reserved cap: {used} thinking tokens used, {reserved}")


def _to_be_tried_again(task: asyncio.Task[None]) -> bool:
    """Whether another caller's dispatch ended for reasons of that caller alone: cancelled, or its own limits.

    Raises what ends the sweep for everybody.
    """
    if task.cancelled():
        return True
    error = task.exception()
    if error is not None and not isinstance(error, LimitReached):
        raise error
    return error is not None


def _request_columns(request: Request) -> dict[str, Any]:
    return {
        "role": request.role.value,
        "draw": request.draw,
        "segment": request.segment,
        "request": request.payload(),
        "requested_budget": request.thinking.budget,
        "max_output_tokens": request.max_output_tokens,
    }


def _outcome_columns(response: Response | None, failure: CallFailed | None, thinks: bool | None) -> dict[str, Any]:
    if response is None:
        assert failure is not None
        return {
            "error_kind": failure.kind,
            "error": str(failure)[:500],
            "http_status": failure.http_status,
            "answer_text": failure.partial_text or None,
            "thinking_text": failure.thinking_text or None,
            "complete": False,
        }
    return {
        "sent": response.sent,
        "answer_text": None if thinks else response.text,
        "thinking_text": response.text if thinks else response.thinking,
        "blocks": list(response.blocks) or None,
        "token_logprobs": None if response.token_logprobs is None else list(response.token_logprobs),
        "top_logprobs": None if response.top_logprobs is None else [list(top) for top in response.top_logprobs],
        "response_id": response.response_id,
        "stop_reason": response.stop.value,
        "stop_reason_raw": response.stop_raw,
        "complete": response.complete,
    }


def _usage_columns(usage: Usage, thinks: bool | None) -> dict[str, Any]:
    # A request that only thinks, or only answers, tells its reasoning tokens by that.
    reasoning = usage.reasoning_tokens if thinks is None else (usage.output_tokens if thinks else 0)
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": reasoning,
        "usage_source": usage.source.value,
        "usage_raw": usage.raw,
    }


def usage_of(row: Mapping[str, Any]) -> Usage:
    """The usage that a `calls` row holds."""
    return Usage(
        input_tokens=row.get("input_tokens"),
        output_tokens=row.get("output_tokens"),
        cached_input_tokens=row.get("cached_input_tokens"),
        cache_write_tokens=row.get("cache_write_tokens"),
        reasoning_tokens=row.get("reasoning_tokens"),
        source=UsageSource(row["usage_source"]),
    )


def response_of(row: Mapping[str, Any]) -> Response | None:
    """The response that a `calls` row holds; None when the call did not succeed."""
    if row["status"] != "ok":
        return None
    logprobs, top, thinks = row.get("token_logprobs"), row.get("top_logprobs"), row["answer_text"] is None
    return Response(
        text=(row["thinking_text"] if thinks else row["answer_text"]) or "",
        thinking=None if thinks else row.get("thinking_text"),
        stop=CallStop(row["stop_reason"]),
        stop_raw=row.get("stop_reason_raw"),
        response_id=row.get("response_id"),
        usage=usage_of(row),
        token_logprobs=None if logprobs is None else tuple(logprobs),
        top_logprobs=None if top is None else tuple(tuple(one) for one in top),
        blocks=tuple(row.get("blocks") or ()),
        timings=Timings(row["started_at"], row.get("first_token_s"), row["latency_s"] or 0.0),
    )
