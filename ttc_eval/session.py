"""The session: the one door through which a strategy spends compute on one question.

A strategy asks for draws and gets candidates, words requests of its own and gets replies, and has candidates scored; the ledger, the store,
retries and the reuse of stored calls sit behind. What is charged here is what the strategy would have cost alone, whether a call was
stored or fresh (docs/design.md 3.3, 3.4).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ttc_eval.answers import AnswerClasses, extract
from ttc_eval.asking import Ask, DrawConfig, Reply, draw_request, preference_request
from ttc_eval.draws import Draws
from ttc_eval.exchange import Exchange
from ttc_eval.fetching import Fetched, Fetching, Taken, reply_of, several
from ttc_eval.ledger import Account, Ledger, LimitReached
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
    Score,
    ScoreKind,
    Solution,
    StopReason,
    digest,
)
from ttc_eval.spending import DrawFailed, Spending
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import LocalVerifier, PairwiseVerifier, Reading, Verifier

__all__ = ["Ask", "DrawConfig", "DrawFailed", "Draws", "LimitReached", "Reply", "Session", "Taken"]

# No vocabulary in use averages as many bytes a token.
_BYTES_PER_TOKEN = 16


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
        self._judge = verifier or exchange
        self._fetching = Fetching(question, config, exchange, self._judge, larger, self.spending)
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
        return self._fetching.larger is not None

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
            cap = self._fetching.cap(self._config, max_output_tokens)
        except LimitReached:
            return False
        longest = Candidate(0, 0, "x" * (_BYTES_PER_TOKEN * cap), None, None, complete=True)
        bounds = [
            self._fetching.whole_bound(draw_request(self._config, self._exchange.info, self.question.messages, 0, cap), self._exchange)
        ]
        if scored and isinstance(self._config.verifier, LocalVerifier):
            bounds.append(Amounts(verifier_calls=1))
        elif scored:
            bounds.append(self._fetching.whole_bound(self._fetching.judge_request(longest), self._judge))
        if asked is not None:
            bounds.append(self._fetching.bound(asked(longest)))
        return self.spending.fits(several(bounds * draws))

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
        config, exchange = self._fetching.config_of(thinking, larger), self._fetching.exchange_of(larger)
        return Draws(self._fetching, self._consume, config, exchange, count, parallel, max_output_tokens, start)

    async def ask(self, ask: Ask) -> Reply:
        """The reply to a request that the strategy words itself. It makes no candidate: see `candidate`.

        Raises `LimitReached` when a limit leaves no room for it, `DrawFailed` when it came to nothing.
        """
        return await self._reply(await self._fetching.reply(ask), 1)

    async def ask_all(self, asks: Sequence[Ask], *, parallel: int = 1) -> Taken[Reply]:
        """The replies to several requests, side by side where the limits leave room for all of them.

        What is charged and what comes back do not depend on `parallel`. Raises `DrawFailed` for the first, in their order, that came to
        nothing; the others are charged all the same.
        """
        bounds = [self._fetching.bound(ask) for ask in asks]
        return await self._fetching.side_by_side([lambda ask=ask: self._fetching.reply(ask) for ask in asks], bounds, self._reply, parallel)  # type: ignore[misc]

    async def score(self, candidate: Candidate, *, given: JSON | None = None) -> Score:
        """The cell's verifier's score of a candidate, reserved and charged like any other call.

        `given` is shown to a verifier that runs here beside what the question states, such as tests that a model wrote.

        Raises `LimitReached` when a limit leaves no room for it, `DrawFailed` when the call came to nothing.
        """
        verifier = self._config.verifier
        if isinstance(verifier, LocalVerifier):
            return await self._check(verifier, candidate, given)
        return await self._scored(candidate)(await self._fetching.score(candidate), 1)

    async def score_all(self, candidates: Sequence[Candidate], *, parallel: int = 1) -> Taken[Score]:
        """The scores of several candidates, side by side as in `ask_all`."""
        verifier = self._config.verifier
        if isinstance(verifier, LocalVerifier):
            return await self._fetching.one_by_one([lambda one=one: self._check(verifier, one) for one in candidates])  # type: ignore[misc]
        bounds = [self._fetching.whole_bound(self._fetching.judge_request(one), self._judge) for one in candidates]
        jobs = [lambda one=one: self._fetching.score(one) for one in candidates]
        kept = iter(candidates)
        return await self._fetching.side_by_side(jobs, bounds, lambda fetched, n: self._scored(next(kept))(fetched, n), parallel)

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
                verifier, self._judge.info, self.question, *pair, seed=self._config.seed, cap=cap
            )
            text, charges = self._fetching.taken(
                await self._fetching.fetch(self._fetching.judge_capped(make, verifier.answer_tokens), self._judge), 1
            )
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
        self.spending.node(depth)

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

    async def _consume(self, fetched: Fetched, parallel: int) -> Candidate:
        """Take a draw into the run: its time passes, and its text becomes a candidate. Raises what made it fail."""
        text, charges = self._fetching.taken(fetched, parallel)
        reply = reply_of(fetched.index, text, charges)
        return await self.candidate(text.text, complete=text.complete, thinking=text.thinking, reply=reply)

    async def _reply(self, fetched: Fetched, parallel: int) -> Reply:
        text, charges = self._fetching.taken(fetched, parallel)
        return reply_of(fetched.index, text, charges)

    def _scored(self, candidate: Candidate) -> Callable[[Fetched, int], Coroutine[Any, Any, Score]]:
        verifier: Verifier = self._config.verifier  # type: ignore[assignment]

        async def read(fetched: Fetched, parallel: int) -> Score:
            text, charges = self._fetching.taken(fetched, parallel)
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
