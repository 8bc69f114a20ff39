"""The session: the one door through which a strategy spends compute on one question.

A strategy asks for draws and gets candidates, words requests of its own and gets replies, and has candidates scored; the ledger, the store,
retries and the reuse of stored calls sit behind. What is charged here is what the strategy would have cost alone, whether a call was
stored or fresh (docs/design.md 3.3, 3.4).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ttc_eval import forcing
from ttc_eval.answers import AnswerClasses, extract
from ttc_eval.asking import Ask, DrawConfig, Reply, ask_request, draw_request, preference_request, score_request
from ttc_eval.exchange import Exchange
from ttc_eval.forcing import DrawText, Part, Segment
from ttc_eval.ledger import Account, Ledger, LimitReached, OverReservation
from ttc_eval.models.base import StepFormat
from ttc_eval.protocol.verifier_score import read_reply
from ttc_eval.records import (
    JSON,
    Amounts,
    Candidate,
    Comparison,
    ContractKind,
    Preferred,
    Question,
    Request,
    Score,
    ScoreKind,
    Solution,
    StopReason,
    digest,
)
from ttc_eval.spending import Charge, DrawFailed, Spending
from ttc_eval.thinking import Thinking, ThinkingMode
from ttc_eval.verifiers import LocalVerifier, PairwiseVerifier, Reading, Verifier

__all__ = ["Ask", "DrawConfig", "DrawFailed", "Draws", "LimitReached", "Reply", "Session", "Taken"]

_T = TypeVar("_T")

# No vocabulary in use averages as many bytes a token.
_BYTES_PER_TOKEN = 16


@dataclass(slots=True)
class _Fetched:
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
        larger: Exchange | None = None,
        recorded: Mapping[tuple[str, ...], tuple[str | None, str | None]] | None = None,
    ) -> None:
        """Args:
        verifier: where scores are asked for; None asks the model that answers. larger: the cell's larger model, if any.
        recorded: answers and their classes that are known already, by the calls that brought them; nothing is extracted there.
        """
        self.question = question
        self.spending = Spending(ledger, problem, cell)
        self._config = config
        self._exchange = exchange
        self._verifier = verifier or exchange
        self._larger = larger
        self._classes = classes
        self._recorded = recorded or {}
        self._candidates: list[Candidate] = []
        self._scores: list[Score] = []
        self._comparisons: list[Comparison] = []
        self._pruned: set[int] = set()
        self._signals: dict[str, float | None] = {}

    @property
    def has_verifier(self) -> bool:
        """Whether the cell has a verifier."""
        return self._config.verifier is not None

    @property
    def has_larger_model(self) -> bool:
        """Whether the cell has a larger model."""
        return self._larger is not None

    @property
    def thinking(self) -> Thinking:
        """How the cell thinks."""
        return self._config.thinking

    @property
    def answer_tokens(self) -> int:
        """Room for the visible answer, in tokens."""
        return self._config.answer_tokens

    @property
    def steps(self) -> StepFormat | None:
        """How the cell's model writes its reasoning in steps; None when it does not continue a given text."""
        return self._exchange.info.steps

    @property
    def chance(self) -> int:
        """A seed for ties that are broken at random: it follows from the question and the pool, so it is the same in every run."""
        return int(digest([self.question.problem_id, self._config.pool])[:16], 16)

    def fits(
        self,
        draws: int,
        *,
        scored: bool = False,
        asked: Callable[[Candidate], Ask] | None = None,
        max_output_tokens: int | None = None,
    ) -> bool:
        """Whether so many draws, each with its score or with a request about it, fit into all limits, whatever the draws will say.

        Where they do not, which candidates are judged depends on the order of the calls: they have to be made one by one.
        """
        try:
            cap = self._cap(self._config, max_output_tokens)
        except LimitReached:
            return False
        longest = Candidate(0, 0, "x" * (_BYTES_PER_TOKEN * cap), None, None, complete=True)
        bounds = [self._whole_bound(draw_request(self._config, self._exchange.info, self.question.messages, 0, cap), self._exchange)]
        if scored and isinstance(self._config.verifier, LocalVerifier):
            bounds.append(Amounts(verifier_calls=1))
        elif scored:
            bounds.append(self._whole_bound(self._score_request(longest), self._verifier))
        if asked is not None:
            bounds.append(self._bound(asked(longest)))
        return self.spending.fits(_several(bounds * draws))

    def draws(
        self,
        count: int,
        *,
        parallel: int = 1,
        max_output_tokens: int | None = None,
        thinking: Thinking | None = None,
        larger: bool = False,
        start: int = 0,
    ) -> Draws:
        """The first `count` draws of this question's pool, as candidates in draw order, for `async with` and `async for`.

        Args:
            start: leave out as many at the beginning, those that the strategy has taken before.
            parallel: how many draws may be in flight; the candidates and what is charged do not depend on it.
            max_output_tokens: cap of each draw's output, reasoning included; by default the thinking budget plus the
                room for the answer. A limit that leaves less lowers the cap of the draw that meets it.
            thinking: draw under another thinking than the cell's, from the pool that belongs to it. A strategy declares those that it
                may ask for, see `strategies.base.ChangesThinking`.
            larger: draw from the cell's larger model; by default under the thinking of its own.

        The iteration ends early when a limit is used up; `ended_by` then says which. Raises `DrawFailed` in the
        iteration when a draw came to nothing.
        """
        return Draws(self, self._config_of(thinking, larger), self._exchange_of(larger), count, parallel, max_output_tokens, start)

    async def ask(self, ask: Ask) -> Reply:
        """The reply to a request that the strategy words itself. It makes no candidate: see `candidate`.

        Raises `LimitReached` when a limit leaves no room for it, `DrawFailed` when it came to nothing.
        """
        return await self._reply(await self._obtain_reply(ask), 1)

    async def ask_all(self, asks: Sequence[Ask], *, parallel: int = 1) -> Taken[Reply]:
        """The replies to several requests, side by side where the limits leave room for all of them.

        What is charged and what comes back do not depend on `parallel`. Raises `DrawFailed` for the first, in their order, that came to
        nothing; the others are charged all the same.
        """
        bounds = [self._bound(ask) for ask in asks]
        return await self._side_by_side([lambda ask=ask: self._obtain_reply(ask) for ask in asks], bounds, self._reply, parallel)  # type: ignore[misc]

    async def score(self, candidate: Candidate, *, given: JSON | None = None) -> Score:
        """The cell's verifier's score of a candidate, reserved and charged like any other call.

        `given` is shown to a verifier that runs here beside what the question states, such as tests that a model wrote.

        Raises `LimitReached` when a limit leaves no room for it, `DrawFailed` when the call came to nothing.
        """
        verifier = self._config.verifier
        if isinstance(verifier, LocalVerifier):
            return await self._check(verifier, candidate, given)
        return await self._scored(candidate)(await self._obtain_score(candidate), 1)

    async def score_all(self, candidates: Sequence[Candidate], *, parallel: int = 1) -> Taken[Score]:
        """The scores of several candidates, side by side as in `ask_all`."""
        verifier = self._config.verifier
        if isinstance(verifier, LocalVerifier):
            return await self._one_by_one([lambda one=one: self._check(verifier, one) for one in candidates])  # type: ignore[misc]
        bounds = [self._whole_bound(self._score_request(one), self._verifier) for one in candidates]
        jobs = [lambda one=one: self._obtain_score(one) for one in candidates]
        kept = iter(candidates)
        return await self._side_by_side(jobs, bounds, lambda fetched, n: self._scored(next(kept))(fetched, n), parallel)

    async def compare(self, first: Candidate, second: Candidate) -> Comparison:
        """The cell's pairwise verifier's choice between two candidates, asked for in both orders.

        Raises `LimitReached` when a limit leaves no room for one of the two calls, `DrawFailed` when one came to nothing.
        """
        verifier = self._config.verifier
        if not isinstance(verifier, PairwiseVerifier):
            raise RuntimeError("this cell's verifier compares nothing")
        said: list[Preferred | None] = []
        call_ids: list[str] = []
        self.spending.check_time()
        for one, other in ((first, second), (second, first)):
            make = lambda cap, pair=(one.text, other.text): preference_request(  # noqa: E731
                verifier, self._verifier.info, self.question, *pair, seed=self._config.seed, cap=cap
            )
            text, charges = self._taken(await self._fetch(self._judge_capped(make, verifier.answer_tokens), self._verifier), 1)
            said.append(verifier.read_preference(text.text) if text.complete else None)
            call_ids.append(charges[-1].call_id)
        swapped = {Preferred.FIRST: Preferred.SECOND, Preferred.SECOND: Preferred.FIRST, Preferred.TIE: Preferred.TIE, None: None}
        found = Comparison(first.position, second.position, verifier.name, said[0], swapped[said[1]], tuple(call_ids))
        self._comparisons.append(found)
        return found

    def node(self, depth: int) -> None:
        """Take one node of a search, `depth` steps from its start, out of the limits. To be called before it is paid for.

        A node that one request makes is better taken with it: `Ask.depth`.

        Raises `LimitReached` when `search_nodes` is used up or `search_depth` is less than `depth`.
        """
        for account in self.spending.accounts:
            if account.limits.search_depth is not None and depth > account.limits.search_depth:
                raise LimitReached(account.scope, "search_depth")
        self.spending.here(Amounts(search_nodes=1))

    async def candidate(
        self,
        text: str,
        *,
        complete: bool,
        call_ids: Sequence[str] = (),
        thinking: str | None = None,
        draw: int = 0,
        parent: Candidate | None = None,
        depth: int = 0,
        partial: bool = False,
        content: str | None = None,
        reply: Reply | None = None,
    ) -> Candidate:
        """A candidate that the strategy has put together: a revision, a node of a search. Its answer is extracted as that of a draw.

        Args:
            complete: whether it ended by itself; one that did not never votes.
            partial: it is not meant to be an answer yet; nothing is extracted.
            content: what a node holds, where that is not what a call said.
            reply: what made it, for its calls, its draw and its log-probabilities.
        """
        calls = tuple(call_ids) if reply is None else reply.call_ids
        recorded = None if partial or content is not None or parent is not None else self._recorded.get(calls)
        answer, answer_class = (None, None) if partial else recorded or await self._answered(text, complete)
        candidate = Candidate(
            position=len(self._candidates),
            draw=draw if reply is None else reply.draw,
            text=text,
            answer=answer,
            answer_class=answer_class,
            complete=complete and not partial,
            call_ids=calls,
            parent=None if parent is None else parent.position,
            depth=depth,
            stop=None if reply is None else reply.stop,
            thinking=thinking,
            partial=partial,
            content=content,
            token_logprobs=None if reply is None else reply.token_logprobs,
            top_logprobs=None if reply is None else reply.top_logprobs,
            output_tokens=None if reply is None else reply.output_tokens,
        )
        self._candidates.append(candidate)
        return candidate

    async def _answered(self, text: str, complete: bool) -> tuple[str | None, str | None]:
        """The answer in a text and the name of its class."""
        answer = extract(text, self.question.contract, complete=complete).answer
        return answer, None if answer is None else await self._classes.aclassify(answer)

    def prune(self, candidate: Candidate) -> None:
        """Give a candidate up for others. What it cost stays charged, and is shown as pruned."""
        self._pruned.add(candidate.position)

    def signal(self, name: str, value: float | None) -> None:
        """Store a value that the strategy decides by, with the solution, so that its threshold can be tuned. None is one that is not known.

        Raises `ValueError` for one that is not finite.
        """
        if value is not None and not math.isfinite(value):
            raise ValueError(f"signal {name}: {value} is not finite")
        self._signals[name] = value

    def solution(self, selected: Candidate | None, stop_reason: StopReason, note: str | None = None) -> Solution:
        """The solution of this run: the selected candidate, or unresolved when that is None.

        `note` is stored where an error would be: something that a reader of the solution must know.
        Raises `RuntimeError` for a candidate that may not be selected: cut, partial, or without an answer.
        """
        if selected is not None and not selected.votes:
            raise RuntimeError("a candidate without a complete answer cannot be selected")
        answer = None if selected is None else selected.answer
        if selected is not None and self.question.contract.kind is ContractKind.INTEGER:
            # An integer has one canonical spelling, and the bounded controller of docs/strategies.md returns that: 42 for "+042".
            answer = selected.answer_class
        whole = [candidate for candidate in self._candidates if not candidate.partial]
        return Solution(
            stop_reason=stop_reason,
            attempts=len(whole),
            valid=sum(candidate.votes for candidate in whole),
            candidates=tuple(replace(one, pruned=one.position in self._pruned) for one in self._candidates),
            answer=answer,
            answer_class=None if selected is None else selected.answer_class,
            scores=tuple(self._scores),
            comparisons=tuple(self._comparisons),
            error=note,
            signals=dict(self._signals),
        )

    def failed(self, error: str) -> Solution:
        """The solution of a run that an error ended: nothing is selected, what was spent stays."""
        return replace(self.solution(None, StopReason.ERROR), error=error)

    def _config_of(self, thinking: Thinking | None, larger: bool) -> DrawConfig:
        config = self._config.larger if larger else self._config
        if config is None:
            raise RuntimeError("this cell has no larger model")
        return config.under(thinking)

    def _ask_config(self, ask: Ask) -> DrawConfig:
        config = self._config_of(ask.thinking, ask.larger)
        return config if ask.thinks else replace(config, thinking=Thinking())

    def _exchange_of(self, larger: bool) -> Exchange:
        exchange = self._larger if larger else self._exchange
        if exchange is None:
            raise RuntimeError("this cell has no larger model")
        return exchange

    def _cap(self, config: DrawConfig, max_output_tokens: int | None, *, thinks: bool = True) -> int:
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

    # Draws, for `Draws`, the session's other half.

    async def _obtain_draw(self, config: DrawConfig, exchange: Exchange, index: int, max_output_tokens: int | None) -> _Fetched:
        """Draw `index`, fetched and charged, or why it could not be."""
        try:
            request = draw_request(config, exchange.info, self.question.messages, index, self._cap(config, max_output_tokens))
        except LimitReached as limit:
            return _Fetched(index, [], failure=limit)
        return await self._fetch(request, exchange, config.pool, index)

    async def _consume(self, fetched: _Fetched, parallel: int) -> Candidate:
        """Take a draw into the run: its time passes, and its text becomes a candidate. Raises what made it fail."""
        text, charges = self._taken(fetched, parallel)
        reply = _reply(fetched.index, text, charges)
        return await self.candidate(text.text, complete=text.complete, thinking=text.thinking, reply=reply)

    def _fits_ahead(self, config: DrawConfig, exchange: Exchange, draws_ahead: int, max_output_tokens: int | None) -> bool:
        """Whether a draw can be dispatched early without changing the cap or the fate of those before it."""
        try:
            request = draw_request(config, exchange.info, self.question.messages, 0, self._cap(config, max_output_tokens))
        except LimitReached:
            return False
        return self.spending.fits(_several([self._whole_bound(request, exchange)] * (draws_ahead + 1)))

    # Requests of any kind.

    async def _fetch(self, request: Request, exchange: Exchange, pool: str | None = None, index: int = 0) -> _Fetched:
        fetched = _Fetched(index, [])
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

    def _taken(self, fetched: _Fetched, parallel: int) -> tuple[DrawText, Sequence[Charge]]:
        self.spending.take(fetched.charges, parallel)
        if fetched.text is None:
            assert fetched.failure is not None
            raise fetched.failure
        return fetched.text, fetched.charges

    async def _obtain_reply(self, ask: Ask) -> _Fetched:
        config, exchange = self._ask_config(ask), self._exchange_of(ask.larger)
        try:
            cap = self._cap(config, ask.max_output_tokens, thinks=ask.max_output_tokens is None)
            if ask.depth is not None:
                self.node(ask.depth)
        except LimitReached as limit:
            return _Fetched(ask.draw, [], failure=limit)
        fetched = await self._fetch(ask_request(ask, config, exchange.info, cap), exchange, config.pool, ask.draw)
        if ask.depth is not None and not fetched.charges:
            self.spending.give_back(Amounts(search_nodes=1))
        return fetched

    async def _reply(self, fetched: _Fetched, parallel: int) -> Reply:
        text, charges = self._taken(fetched, parallel)
        return _reply(fetched.index, text, charges)

    def _bound(self, ask: Ask) -> Amounts:
        config, exchange = self._ask_config(ask), self._exchange_of(ask.larger)
        budget = config.thinking.budget or 0
        cap = budget + config.answer_tokens if ask.max_output_tokens is None else ask.max_output_tokens
        return replace(self._whole_bound(ask_request(ask, config, exchange.info, cap), exchange), search_nodes=int(ask.depth is not None))

    def _whole_bound(self, request: Request, exchange: Exchange) -> Amounts:
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

    # Scores.

    def _score_request(self, candidate: Candidate, cap: int | None = None) -> Request:
        verifier = self._config.verifier
        if verifier is None:
            raise RuntimeError("this cell has no verifier")
        if isinstance(verifier, LocalVerifier) or not hasattr(verifier, "messages"):
            raise RuntimeError(f"verifier {verifier.name} scores no single candidate")
        asked: Verifier = verifier  # type: ignore[assignment]
        text = None if candidate.partial and not candidate.text else candidate.text
        draw = candidate.draw if getattr(asked, "by_draw", False) else 0
        return score_request(
            asked, self._verifier.info, self.question, text, candidate.thinking, seed=self._config.seed, cap=cap, draw=draw
        )

    def _judge_capped(self, make: Callable[[int | None], Request], answer_tokens: int) -> Request:
        problem = self.spending.accounts[0]
        room = problem.room("output_tokens")
        if room is not None and room <= 0:
            raise LimitReached(problem.scope, "output_tokens")
        return make(answer_tokens if room is None else min(answer_tokens, int(room)))

    async def _obtain_score(self, candidate: Candidate) -> _Fetched:
        judge = self._config.verifier
        try:
            self.spending.check_time()
            tokens = 0 if judge is None or isinstance(judge, LocalVerifier) else judge.answer_tokens
            request = self._judge_capped(lambda cap: self._score_request(candidate, cap), tokens)
        except LimitReached as limit:
            return _Fetched(0, [], failure=limit)
        return await self._fetch(request, self._verifier)

    def _scored(self, candidate: Candidate) -> Callable[[_Fetched, int], Coroutine[Any, Any, Score]]:
        verifier: Verifier = self._config.verifier  # type: ignore[assignment]

        async def read(fetched: _Fetched, parallel: int) -> Score:
            text, charges = self._taken(fetched, parallel)
            reading = Reading(None, problem="truncated")
            if text.complete:
                reading = read_reply(text.text, None, candidate.text, verifier.read(text.text))
            return self._note_score(candidate, verifier.name, verifier.kind, reading, charges[-1].call_id)

        return read

    async def _check(self, verifier: LocalVerifier, candidate: Candidate, given: JSON | None = None) -> Score:
        self.spending.check_time()
        self.spending.here(Amounts(verifier_calls=1))
        question = replace(self.question, given={**self.question.given, **given}) if given else self.question
        clock = time.perf_counter()
        reading = await verifier.check(question, candidate)
        seconds = time.perf_counter() - clock
        self.spending.pass_time(seconds)
        return self._note_score(candidate, verifier.name, verifier.kind, reading, None, seconds)

    def _note_score(
        self, candidate: Candidate, name: str, kind: ScoreKind, reading: Reading, call_id: str | None, seconds: float | None = None
    ) -> Score:
        said = reading.rationale or reading.problem
        score = Score(candidate.position, name, kind, reading.score, said, reading.steps, call_id, seconds)
        self._scores.append(score)
        return score

    # Several at once.

    async def _side_by_side(
        self,
        jobs: Sequence[Callable[[], Awaitable[_Fetched]]],
        bounds: Sequence[Amounts],
        take: Callable[[_Fetched, int], Awaitable[_T]],
        parallel: int,
    ) -> Taken[_T]:
        """Run `jobs` side by side if their bounds fit together, and otherwise one by one; take what they bring in their order."""
        if parallel < 2 or len(jobs) < 2 or not self.spending.fits(_several(bounds)):

            async def one(job: Callable[[], Awaitable[_Fetched]]) -> _T:
                return await take(await job(), 1)

            return await self._one_by_one([lambda job=job: one(job) for job in jobs])  # type: ignore[misc]
        gate = asyncio.Semaphore(parallel)

        async def gated(job: Callable[[], Awaitable[_Fetched]]) -> _Fetched:
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

    async def _one_by_one(self, jobs: Sequence[Callable[[], Awaitable[_T]]]) -> Taken[_T]:
        found: list[_T] = []
        for job in jobs:
            try:
                found.append(await job())
            except LimitReached as limit:
                return Taken(tuple(found), limit.stop_reason)
        return Taken(tuple(found))


def _reply(index: int, text: DrawText, charges: Sequence[Charge]) -> Reply:
    ids = tuple(charge.call_id for charge in charges)
    counts = [charge.attempt.usage.output_tokens for charge in charges if charge.attempt.response is not None]
    tokens = None if None in counts else sum(count or 0 for count in counts)
    return Reply(text.text, text.thinking, text.stop, text.complete, ids, index, text.token_logprobs, text.top_logprobs, tokens)


def _several(bounds: Sequence[Amounts]) -> Amounts:
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


class Draws:
    """Candidates in draw order, some of them fetched ahead. See `Session.draws`.

    Attributes:
        ended_by: the limit that ended the iteration early; None when all draws were consumed or the strategy stopped.
    """

    def __init__(
        self, session: Session, config: DrawConfig, exchange: Exchange, count: int, parallel: int, max_output_tokens: int | None, start: int
    ) -> None:
        self._session = session
        self._config = config
        self._exchange = exchange
        self._count = count
        self._parallel = 1 if session.spending.limits_time else max(1, parallel)
        self._cap = max_output_tokens
        self._next = self._start = start
        self._ahead: dict[int, asyncio.Task[_Fetched]] = {}
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
            if isinstance(result, _Fetched):
                self._session.spending.discard(result.charges)

    def __aiter__(self) -> AsyncIterator[Candidate]:
        return self

    async def __anext__(self) -> Candidate:
        if self._next >= self._count or self.ended_by is not None:
            raise StopAsyncIteration
        if self._next == self._start:
            self._session.spending.clock.barrier(self._parallel)
        draw = await self._obtained(self._next)
        self._next += 1
        try:
            return await self._session._consume(draw, self._parallel)
        except LimitReached as limit:
            self.ended_by = limit.stop_reason
            raise StopAsyncIteration from None

    def _obtained(self, index: int) -> Awaitable[_Fetched]:
        obtain = self._session._obtain_draw
        if self._parallel == 1:
            return obtain(self._config, self._exchange, index, self._cap)
        for ahead in range(index, min(index + self._parallel, self._count)):
            if ahead in self._ahead:
                continue
            if ahead > index and not self._session._fits_ahead(self._config, self._exchange, ahead - index, self._cap):
                break
            self._ahead[ahead] = asyncio.create_task(obtain(self._config, self._exchange, ahead, self._cap))
        return self._ahead.pop(index)
