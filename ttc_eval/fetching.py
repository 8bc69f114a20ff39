"""Requests on behalf of one question: capped by what the limits leave, fetched and charged, one by one or side by side.

The session words what it wants and takes what comes; here is decided how much a request may say, whether several fit into the limits
together, and in which order what they brought is taken. What is charged does not depend on how many were in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ttc_eval import forcing
from ttc_eval.asking import Ask, DrawConfig, Reply, ask_request, draw_request, score_request
from ttc_eval.exchange import Exchange
from ttc_eval.forcing import DrawText, Part, Segment
from ttc_eval.ledger import LimitReached, OverReservation
from ttc_eval.records import Amounts, Candidate, Question, Request, StopReason
from ttc_eval.spending import Charge, DrawFailed, Spending
from ttc_eval.thinking import Thinking, ThinkingMode
from ttc_eval.verifiers import LocalVerifier, Verifier

_T = TypeVar("_T")


@dataclass(slots=True)
class Fetched:
    """What one request or draw brought: its text, or the reason why there is none. It was charged either way."""

    index: int
    charges: list[Charge]
    text: DrawText | None = None
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class Taken(Generic[_T]):
    """What several requests brought, in the order in which they were asked for. Fewer than that when a limit ended them: `ended_by`."""

    found: tuple[_T, ...]
    ended_by: StopReason | None = None


class Fetching:
    """Fetches for one question in one cell, from the cell's model, its larger one and its judge."""

    def __init__(
        self, question: Question, config: DrawConfig, exchange: Exchange, judge: Exchange, larger: Exchange | None, spending: Spending
    ) -> None:
        """Args:
        exchange: the cell's model; judge: where scores are asked for; larger: the cell's larger model, if any.
        """
        self.question = question
        self.spending = spending
        self.judge = judge
        self.exchange = exchange
        self.larger = larger
        self._config = config

    def config_of(self, thinking: Thinking | None, larger: bool) -> DrawConfig:
        """How the cell draws, from which model and under which thinking. Raises `RuntimeError` where there is no larger model."""
        config = self._config.larger if larger else self._config
        if config is None:
            raise RuntimeError("this cell has no larger model")
        return config.under(thinking)

    def exchange_of(self, larger: bool) -> Exchange:
        """Where that model is asked. Raises `RuntimeError` where there is none."""
        exchange = self.larger if larger else self.exchange
        if exchange is None:
            raise RuntimeError("this cell has no larger model")
        return exchange

    def cap(self, config: DrawConfig, max_output_tokens: int | None, *, thinks: bool = True) -> int:
        """Tokens for all output of a request, lowered to the room that the limits leave. Raises `LimitReached`."""
        budget = (config.thinking.budget or 0) if thinks else 0
        cap = budget + config.answer_tokens if max_output_tokens is None else max_output_tokens
        self.spending.check_time()
        # The problem's own limit lowers the cap, as in the bounded controller. The cell's does not: other problems hold
        # parts of it, and a cap that depended on them would make another draw of the same index.
        problem = self.spending.accounts[0]
        room = problem.room("output_tokens")
        if room is not None and room <= budget:
            raise LimitReached(problem.scope, "output_tokens")
        return cap if room is None else min(cap, int(room))

    async def draw(self, config: DrawConfig, exchange: Exchange, index: int, max_output_tokens: int | None) -> Fetched:
        """Draw `index`, fetched and charged, or why it could not be."""
        try:
            request = draw_request(config, exchange.info, self.question.messages, index, self.cap(config, max_output_tokens))
        except LimitReached as limit:
            return Fetched(index, [], failure=limit)
        return await self.fetch(request, exchange, config.pool, index)

    def fits_ahead(self, config: DrawConfig, exchange: Exchange, draws_ahead: int, max_output_tokens: int | None) -> bool:
        """Whether a draw can be dispatched early without changing the cap or the fate of those before it."""
        try:
            request = draw_request(config, exchange.info, self.question.messages, 0, self.cap(config, max_output_tokens))
        except LimitReached:
            return False
        return self.spending.fits(several([self.whole_bound(request, exchange)] * (draws_ahead + 1)))

    async def reply(self, ask: Ask) -> Fetched:
        """What a request in the strategy's own words brings, its node of a search taken with it."""
        config, exchange = self._ask_config(ask), self.exchange_of(ask.larger)
        try:
            cap = self.cap(config, ask.max_output_tokens, thinks=ask.max_output_tokens is None)
            if ask.depth is not None:
                self.spending.node(ask.depth)
        except LimitReached as limit:
            return Fetched(ask.draw, [], failure=limit)
        fetched = await self.fetch(ask_request(ask, config, exchange.info, cap), exchange, config.pool, ask.draw)
        if ask.depth is not None and not fetched.charges:
            self.spending.give_back(Amounts(search_nodes=1))
        return fetched

    async def score(self, candidate: Candidate) -> Fetched:
        """What the judge replies about a candidate."""
        judge = self._config.verifier
        try:
            self.spending.check_time()
            tokens = 0 if judge is None or isinstance(judge, LocalVerifier) else judge.answer_tokens
            request = self.judge_capped(lambda cap: self.judge_request(candidate, cap), tokens)
        except LimitReached as limit:
            return Fetched(0, [], failure=limit)
        return await self.fetch(request, self.judge)

    def judge_request(self, candidate: Candidate, cap: int | None = None) -> Request:
        """The request for a score of a candidate. Raises `RuntimeError` where the cell's verifier scores none by asking."""
        verifier = self._config.verifier
        if verifier is None:
            raise RuntimeError("this cell has no verifier")
        if isinstance(verifier, LocalVerifier) or not hasattr(verifier, "messages"):
            raise RuntimeError(f"verifier {verifier.name} scores no single candidate")
        asked: Verifier = verifier  # type: ignore[assignment]
        text = None if candidate.partial and not candidate.text else candidate.text
        draw = candidate.draw if getattr(asked, "by_draw", False) else 0
        return score_request(asked, self.judge.info, self.question, text, candidate.thinking, seed=self._config.seed, cap=cap, draw=draw)

    def judge_capped(self, make: Callable[[int | None], Request], answer_tokens: int) -> Request:
        """A judge's request whose cap is lowered to the room that the problem's limit leaves. Raises `LimitReached` when it leaves none."""
        problem = self.spending.accounts[0]
        room = problem.room("output_tokens")
        if room is not None and room <= 0:
            raise LimitReached(problem.scope, "output_tokens")
        return make(answer_tokens if room is None else min(answer_tokens, int(room)))

    async def fetch(self, request: Request, exchange: Exchange, pool: str | None = None, index: int = 0) -> Fetched:
        """Send a request, in its segments where a budget is forced; what goes wrong is part of what it brought."""
        fetched = Fetched(index, [])
        forced = exchange.info.forced
        pool = self._config.pool if pool is None else pool
        try:
            if forced is None or request.thinking.mode is not ThinkingMode.BUDGET or request.prefix:
                part = await self.spending.segment(Segment(request), pool, exchange, fetched.charges)
                fetched.text = forcing.whole(part.response)
                return fetched
            parts: list[Part] = []
            while (segment := forcing.next_segment(request, forced, parts)) is not None:
                parts.append(await self.spending.segment(segment, pool, exchange, fetched.charges))
            fetched.text = forcing.assemble(parts, forced)
        except (LimitReached, DrawFailed, OverReservation) as failure:
            fetched.failure = failure
        return fetched

    def taken(self, fetched: Fetched, parallel: int) -> tuple[DrawText, Sequence[Charge]]:
        """Take what was fetched into the run: its time passes. Raises what made it fail."""
        self.spending.take(fetched.charges, parallel)
        if fetched.text is None:
            assert fetched.failure is not None
            raise fetched.failure
        return fetched.text, fetched.charges

    def _ask_config(self, ask: Ask) -> DrawConfig:
        config = self.config_of(ask.thinking, ask.larger)
        return config if ask.thinks else replace(config, thinking=Thinking())

    def bound(self, ask: Ask) -> Amounts:
        """The most that a request in the strategy's own words can use."""
        config, exchange = self._ask_config(ask), self.exchange_of(ask.larger)
        budget = config.thinking.budget or 0
        cap = budget + config.answer_tokens if ask.max_output_tokens is None else ask.max_output_tokens
        return replace(self.whole_bound(ask_request(ask, config, exchange.info, cap), exchange), search_nodes=int(ask.depth is not None))

    def whole_bound(self, request: Request, exchange: Exchange) -> Amounts:
        """The most that a request can use with all its segments and retries. They share the cap of the output."""
        bound, forced = exchange.bound(request), exchange.info.forced is not None and not request.prefix
        segments = (2 + request.thinking.max_extensions if forced else 1) * exchange.max_attempts
        return Amounts(
            bound.calls * segments,
            bound.input_tokens * segments,
            bound.output_tokens * exchange.max_attempts,
            bound.usd * segments,
            verifier_calls=bound.verifier_calls * segments,
        )

    async def side_by_side(
        self,
        jobs: Sequence[Callable[[], Awaitable[Fetched]]],
        bounds: Sequence[Amounts],
        take: Callable[[Fetched, int], Awaitable[_T]],
        parallel: int,
    ) -> Taken[_T]:
        """Run `jobs` side by side if their bounds fit together, and otherwise one by one; take what they bring in their order."""
        if parallel < 2 or len(jobs) < 2 or not self.spending.fits(several(bounds)):

            async def one(job: Callable[[], Awaitable[Fetched]]) -> _T:
                return await take(await job(), 1)

            return await self.one_by_one([lambda job=job: one(job) for job in jobs])  # type: ignore[misc]
        gate = asyncio.Semaphore(parallel)

        async def gated(job: Callable[[], Awaitable[Fetched]]) -> Fetched:
            async with gate:
                return await job()

        self.spending.clock.barrier(parallel)
        tasks = [asyncio.create_task(gated(job)) for job in jobs]
        try:
            fetched = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        found: list[_T] = []
        first: Exception | None = None
        for one_fetched in fetched:
            try:
                taken = await take(one_fetched, parallel)
            except (LimitReached, DrawFailed, OverReservation) as failure:
                first = first or failure
            else:
                found += [taken] if first is None else []
        self.spending.clock.barrier(1)
        if isinstance(first, LimitReached):
            return Taken(tuple(found), first.stop_reason)
        if first is not None:
            raise first
        return Taken(tuple(found))

    async def one_by_one(self, jobs: Sequence[Callable[[], Awaitable[_T]]]) -> Taken[_T]:
        """Run `jobs` in their order, until a limit ends them."""
        found: list[_T] = []
        for job in jobs:
            try:
                found.append(await job())
            except LimitReached as limit:
                return Taken(tuple(found), limit.stop_reason)
        return Taken(tuple(found))


def reply_of(index: int, text: DrawText, charges: Sequence[Charge]) -> Reply:
    """What a text with its charges says, as a strategy gets it. Its tokens are None where one call's usage is unknown."""
    ids = tuple(charge.call_id for charge in charges)
    counts = [charge.attempt.usage.output_tokens for charge in charges if charge.attempt.response is not None]
    tokens = None if None in counts else sum(count or 0 for count in counts)
    return Reply(text.text, text.thinking, text.stop, text.complete, ids, index, text.token_logprobs, text.top_logprobs, tokens)


def several(bounds: Sequence[Amounts]) -> Amounts:
    """The sum of bounds."""
    calls = sum(bound.calls for bound in bounds)
    usd = sum((bound.usd for bound in bounds), start=Amounts().usd)
    return Amounts(
        calls,
        sum(bound.input_tokens for bound in bounds),
        sum(bound.output_tokens for bound in bounds),
        usd,
        verifier_calls=sum(bound.verifier_calls for bound in bounds),
        search_nodes=sum(bound.search_nodes for bound in bounds),
    )
