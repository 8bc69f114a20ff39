"""The session: the one door through which a strategy spends compute on one question.

A strategy asks for draws and gets candidates; the ledger, the store, retries and the reuse of stored draws sit behind.
What is charged here is what the strategy would have cost alone, whether a draw was stored or fresh (docs/design.md 3.3, 3.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import TracebackType
from typing import Any, Self

from ttc_eval import forcing
from ttc_eval.answers import AnswerClasses, extract
from ttc_eval.clock import Clock
from ttc_eval.exchange import Attempt, Exchange
from ttc_eval.forcing import DrawText, Part, Segment
from ttc_eval.ledger import Account, Ledger, LimitReached, OverReservation, Reservation, Scope, add, used_amounts
from ttc_eval.models.base import ModelInfo
from ttc_eval.records import Amounts, Candidate, ContractKind, Message, Question, Request, Role, Sampling, Score, Solution, StopReason
from ttc_eval.thinking import Thinking, ThinkingMode
from ttc_eval.verifiers import Reading, Verifier

__all__ = ["DrawConfig", "DrawFailed", "Draws", "LimitReached", "Session"]


@dataclass(frozen=True, slots=True)
class DrawConfig:
    """The request configuration that all draws of a cell share, up to the question and the index.

    `answer_tokens` is the room for the visible answer; `pool` names the configuration and its seed; `verifier` scores. `pools` names the
    same configuration under each other thinking that the strategy may ask for.
    """

    thinking: Thinking
    sampling: Sampling
    answer_tokens: int
    seed: int
    pool: str
    verifier: Verifier | None = None
    pools: Mapping[Thinking, str] = field(default_factory=dict, hash=False)

    def under(self, thinking: Thinking | None) -> DrawConfig:
        """This configuration with another thinking, which is another pool. Raises `KeyError` for one that was not prepared."""
        if thinking is None or thinking == self.thinking:
            return self
        return replace(self, thinking=thinking, pool=self.pools[thinking])


def draw_request(config: DrawConfig, info: ModelInfo, messages: tuple[Message, ...], index: int, cap: int) -> Request:
    """The request of draw `index` about `messages`, with `cap` tokens for all of its output."""
    return Request(
        model=info.model or info.name,
        endpoint=info.endpoint,
        messages=messages,
        thinking=config.thinking,
        sampling=config.sampling,
        answer_tokens=min(config.answer_tokens, cap),
        max_output_tokens=cap,
        seed=config.seed,
        draw=index,
    )


def score_request(
    verifier: Verifier, info: ModelInfo, question: Question, text: str, thinking: str | None, *, seed: int, cap: int | None = None
) -> Request:
    """The request that asks the model of `info` for a score of `text`; `cap` lowers the room for the reply where a limit leaves less."""
    return Request(
        model=info.model or info.name,
        endpoint=info.endpoint,
        messages=verifier.messages(question, text, thinking),
        thinking=Thinking(),
        sampling=Sampling(temperature=verifier.temperature),
        answer_tokens=verifier.answer_tokens,
        max_output_tokens=verifier.answer_tokens if cap is None else cap,
        role=Role.VERIFY,
        seed=seed,
    )


class DrawFailed(Exception):
    """A draw came to nothing after all its retries. The strategy ends with stop reason `error`; `kind` says what failed."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class _Charge:
    attempt: Attempt
    amounts: Amounts
    overshoot: bool = False


@dataclass(slots=True)
class _Draw:
    """What one draw brought: its text, or the reason why there is none. It was charged either way."""

    index: int
    charges: list[_Charge]
    text: DrawText | None = None
    failure: Exception | None = None

    @property
    def seconds(self) -> float:
        return float(sum(charge.attempt.row["latency_s"] for charge in self.charges))


class Session:
    """Spends on behalf of one strategy, for one question, in one cell."""

    def __init__(
        self,
        *,
        question: Question,
        config: DrawConfig,
        exchange: Exchange,
        ledger: Ledger,
        problem: Account,
        cell: Account,
        classes: AnswerClasses,
        verifier: Exchange | None = None,
    ) -> None:
        """`verifier` is where scores are asked for; None asks the model that answers."""
        self.question = question
        self._config = config
        self._exchange = exchange
        self._verifier = verifier or exchange
        self._ledger = ledger
        self._accounts = (problem, cell)
        self._classes = classes
        self._clock = Clock()
        self._charges: list[_Charge] = []
        self._candidates: list[Candidate] = []
        self._scores: list[Score] = []

    @property
    def thinking(self) -> Thinking:
        """How the cell thinks."""
        return self._config.thinking

    def draws(self, count: int, *, parallel: int = 1, max_output_tokens: int | None = None, thinking: Thinking | None = None) -> Draws:
        """The first `count` draws of this question's pool, as candidates in draw order, for `async with` and `async for`.

        Args:
            parallel: how many draws may be in flight; the candidates and what is charged do not depend on it.
            max_output_tokens: cap of each draw's output, reasoning included; by default the thinking budget plus the
                room for the answer. A limit that leaves less lowers the cap of the draw that meets it.
            thinking: draw under another thinking than the cell's, from the pool that belongs to it. A strategy declares those that it
                may ask for, see `strategies.base.ChangesThinking`.

        The iteration ends early when a limit is used up; `ended_by` then says which. Raises `DrawFailed` in the
        iteration when a draw came to nothing.
        """
        return Draws(self, self._config.under(thinking), count, parallel, max_output_tokens)

    async def score(self, candidate: Candidate) -> Score:
        """The cell's verifier's score of a candidate, reserved and charged like any other call.

        Raises `LimitReached` when a limit leaves no room for it, `DrawFailed` when the call came to nothing.
        """
        verifier, charges = self._config.verifier, list[_Charge]()
        if verifier is None:
            raise RuntimeError("this cell has no verifier")
        cap = self._request(self._config, 0, verifier.answer_tokens).max_output_tokens
        asked = (self.question, candidate.text, candidate.thinking)
        request = score_request(verifier, self._verifier.info, *asked, seed=self._config.seed, cap=cap)
        try:
            reply = (await self._spend(Segment(request), charges, self._config.pool, self._verifier)).response
        finally:
            self._charges.extend(charges)
            late = self._pass_time(sum(charge.attempt.row["latency_s"] for charge in charges), 1)
        if late is not None:
            raise LimitReached(late, "wall_seconds")
        reading = verifier.read(reply.text) if reply.complete else Reading(None, problem="truncated")
        score = Score(
            position=candidate.position,
            verifier=verifier.name,
            kind=verifier.kind,
            value=reading.score,
            rationale=reading.rationale or reading.problem,
            steps=reading.steps,
            call_id=charges[-1].attempt.row["call_id"],
        )
        self._scores.append(score)
        return score

    def solution(self, selected: Candidate | None, stop_reason: StopReason, note: str | None = None) -> Solution:
        """The solution of this run: the selected candidate, or unresolved when that is None.

        `note` is stored where an error would be: something that a reader of the solution must know.
        """
        answer = None if selected is None else selected.answer
        if selected is not None and self.question.contract.kind is ContractKind.INTEGER:
            # An integer has one canonical spelling, and the bounded controller of docs/strategies.md returns that: 42 for "+042".
            answer = selected.answer_class
        return Solution(
            stop_reason=stop_reason,
            attempts=len(self._candidates),
            valid=sum(candidate.votes for candidate in self._candidates),
            candidates=tuple(self._candidates),
            answer=answer,
            answer_class=None if selected is None else selected.answer_class,
            scores=tuple(self._scores),
            error=note,
        )

    def failed(self, error: str) -> Solution:
        """The solution of a run that an error ended: nothing is selected, what was spent stays."""
        return replace(self.solution(None, StopReason.ERROR), error=error)

    @property
    def charged(self) -> Amounts:
        """What the strategy has been charged so far."""
        total = Amounts()
        for charge in self._charges:
            total = add(total, charge.amounts)
        return replace(total, wall_seconds=self._clock.critical)

    @property
    def priced(self) -> bool:
        """Whether all that was asked has a price. Without one, what is charged in USD is unknown, not 0."""
        scored = any(charge.attempt.row["role"] == Role.VERIFY for charge in self._charges)
        return self._exchange.priced and (self._verifier.priced or not scored)

    @property
    def work_seconds(self) -> float:
        """Seconds of all charged calls, one after another."""
        return self._clock.work

    def use_rows(self) -> list[dict[str, Any]]:
        """What each call was charged, as rows of `uses` without their cell and problem."""
        return [
            {
                "call_id": charge.attempt.row["call_id"],
                "position": position,
                "overshoot": charge.overshoot,
                "charged_calls": charge.amounts.calls,
                "charged_input_tokens": charge.amounts.input_tokens,
                "charged_output_tokens": charge.amounts.output_tokens,
                "charged_usd": None if charge.attempt.row["price_version"] is None else charge.amounts.usd,
            }
            for position, charge in enumerate(self._charges)
        ]

    # What follows is for `Draws`, the session's other half.

    def _request(self, config: DrawConfig, index: int, max_output_tokens: int | None) -> Request:
        """The request of a whole draw, its cap lowered to the room that the limits leave. Raises `LimitReached`."""
        budget = config.thinking.budget or 0
        cap = budget + config.answer_tokens if max_output_tokens is None else max_output_tokens
        for account in self._accounts:
            room = account.room("wall_seconds")
            if room is not None and room <= 0:
                raise LimitReached(account.scope, "wall_seconds")
        # The problem's own limit lowers the cap, as in the bounded controller. The cell's does not: other problems hold
        # parts of it, and a cap that depended on them would make another draw of the same index.
        room = self._accounts[0].room("output_tokens")
        if room is not None and room <= budget:
            raise LimitReached(self._accounts[0].scope, "output_tokens")
        cap = cap if room is None else min(cap, int(room))
        return draw_request(config, self._exchange.info, self.question.messages, index, cap)

    async def _obtain(self, config: DrawConfig, index: int, max_output_tokens: int | None) -> _Draw:
        """Draw `index`, fetched and charged, or why it could not be."""
        draw = _Draw(index, [])
        try:
            draw.text = await self._fetch_draw(self._request(config, index, max_output_tokens), draw.charges, config.pool)
        except (LimitReached, DrawFailed, OverReservation) as failure:
            draw.failure = failure
        return draw

    async def _fetch_draw(self, request: Request, charges: list[_Charge], pool: str) -> DrawText:
        forced = self._exchange.info.forced
        if forced is None or request.thinking.mode is not ThinkingMode.BUDGET:
            response = (await self._spend(Segment(request), charges, pool, self._exchange)).response
            return DrawText(response.text, response.thinking, response.stop, response.complete)
        parts: list[Part] = []
        while (segment := forcing.next_segment(request, forced, parts)) is not None:
            parts.append(await self._spend(segment, charges, pool, self._exchange))
        return forcing.assemble(parts, forced)

    async def _spend(self, segment: Segment, charges: list[_Charge], pool: str, exchange: Exchange) -> Part:
        """One segment: reserve, fetch, settle every attempt. Appends to `charges` what was charged."""
        bound = exchange.bound(segment.request)
        reservations = [await self._ledger.acquire(self._accounts, bound)]

        def admit() -> None:
            reservations.append(self._ledger.reserve(self._accounts, bound))

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

    def _settle(self, reservation: Reservation, attempt: Attempt) -> _Charge:
        usd = attempt.row["cost_usd"]
        used = used_amounts(attempt.usage, reservation.amounts, None if usd is None else Decimal(str(usd)), 0.0)
        try:
            return _Charge(attempt, self._ledger.settle(reservation, used))
        except OverReservation:
            return _Charge(attempt, reservation.amounts)

    async def _consume(self, draw: _Draw, parallel: int) -> Candidate:
        """Take a draw into the run: its time passes, and its text becomes a candidate. Raises what made it fail."""
        self._charges.extend(draw.charges)
        late = self._pass_time(draw.seconds, parallel)
        if late is not None:
            # It was paid for, and it came too late to count; a stored draw is judged by the latency that was recorded.
            raise LimitReached(late, "wall_seconds")
        if draw.text is None:
            assert draw.failure is not None
            raise draw.failure
        extracted = extract(draw.text.text, self.question.contract, complete=draw.text.complete)
        answer_class = None if extracted.answer is None else await self._classes.aclassify(extracted.answer)
        candidate = Candidate(
            position=len(self._candidates),
            draw=draw.index,
            text=draw.text.text,
            answer=extracted.answer,
            answer_class=answer_class,
            complete=draw.text.complete,
            call_ids=tuple(charge.attempt.row["call_id"] for charge in draw.charges),
            stop=draw.text.stop,
            thinking=draw.text.thinking,
        )
        self._candidates.append(candidate)
        return candidate

    def _discard(self, draw: _Draw) -> None:
        """A draw beyond the stopping point: billed, and not charged to the strategy."""
        for charge in draw.charges:
            self._ledger.refund(self._accounts, charge.amounts)
            self._charges.append(_Charge(charge.attempt, Amounts(), overshoot=True))

    def _pass_time(self, seconds: float, parallel: int) -> Scope | None:
        """Let a draw's time pass; returns the scope whose time limit it overran, if any."""
        before, late = self._clock.critical, None
        self._clock.run(seconds, parallel)
        passed = self._clock.critical - before
        for account in self._accounts:
            room = account.room("wall_seconds")
            if room is None:
                continue
            if passed > room:
                late = account.scope
            self._ledger.charge((account,), Amounts(wall_seconds=min(passed, max(0.0, float(room)))))
        return late

    def _fits_ahead(self, config: DrawConfig, draws_ahead: int, max_output_tokens: int | None) -> bool:
        """Whether a draw can be dispatched early without changing the cap or the fate of those before it."""
        try:
            bound = self._exchange.bound(self._request(config, 0, max_output_tokens))
        except LimitReached:
            return False
        segments = 1 if self._exchange.info.forced is None else 2 + config.thinking.max_extensions
        segments *= self._exchange.max_attempts
        whole = Amounts(segments, bound.input_tokens * segments, bound.output_tokens * self._exchange.max_attempts, bound.usd * segments)
        everything = whole
        for _ in range(draws_ahead):
            everything = add(everything, whole)
        timed = any(account.room("wall_seconds") is not None for account in self._accounts)
        return not timed and all(account.lacking(everything) is None for account in self._accounts)


class Draws:
    """Candidates in draw order, some of them fetched ahead. See `Session.draws`.

    Attributes:
        ended_by: the limit that ended the iteration early; None when all draws were consumed or the strategy stopped.
    """

    def __init__(self, session: Session, config: DrawConfig, count: int, parallel: int, max_output_tokens: int | None) -> None:
        self._session = session
        self._config = config
        self._count = count
        self._parallel = max(1, parallel)
        self._cap = max_output_tokens
        self._next = 0
        self._ahead: dict[int, asyncio.Task[_Draw]] = {}
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
            if isinstance(result, _Draw):
                self._session._discard(result)

    def __aiter__(self) -> AsyncIterator[Candidate]:
        return self

    async def __anext__(self) -> Candidate:
        if self._next >= self._count or self.ended_by is not None:
            raise StopAsyncIteration
        draw = await self._obtained(self._next)
        self._next += 1
        try:
            return await self._session._consume(draw, self._parallel)
        except LimitReached as limit:
            self.ended_by = limit.stop_reason
            raise StopAsyncIteration from None

    def _obtained(self, index: int) -> Awaitable[_Draw]:
        obtain: Callable[[DrawConfig, int, int | None], Any] = self._session._obtain
        if self._parallel == 1:
            return obtain(self._config, index, self._cap)  # type: ignore[no-any-return]
        for ahead in range(index, min(index + self._parallel, self._count)):
            if ahead in self._ahead:
                continue
            if ahead > index and not self._session._fits_ahead(self._config, ahead - index, self._cap):
                break
            self._ahead[ahead] = asyncio.create_task(obtain(self._config, ahead, self._cap))
        return self._ahead.pop(index)
