"""Confidence vote: how sure the model was as the weight of its votes; DeepConf (arXiv 2508.15260) and CISC (arXiv 2502.06233)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.confidence import Signal, confidence
from ttc_eval.errors import UserError
from ttc_eval.records import Solution, StopReason
from ttc_eval.selectors import Ties, Weighting, most_confident, plurality, weighted_vote
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import Judged, Otherwise, check_counts
from ttc_eval.strategies.stated import Stated, draw_and_ask
from ttc_eval.thinking import Thinking


@dataclass(frozen=True, slots=True)
class ConfidenceVote:
    """Votes among `n` draws, weighted by the model's own confidence; a verifier is not asked.

    Attributes:
        signal: what the confidence is, see `ttc_eval.confidence.Signal`. All but `stated` need `sampling.logprobs`.
        weighting: how a class's weights are added up (`sum`: DeepConf; `softmax`: CISC); `temperature` is that of the softmax.
        keep: only the most confident share of the candidates votes; 1 keeps all.
        window: tokens of a group and of the tail.
        stated_tokens: room for a stated confidence, in tokens, asked with thinking off. None: asked as a draw is, with its thinking.
        stated_temperature: of that request; None samples as the cell does.
        ties: what becomes of classes that weigh the same.
        on_no_signal: the declared rule for a run in which no candidate has the signal; the solution says that it was used.
        parallel: calls in flight at once, where the limits leave room for all of them; the solution does not depend on it.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "confidence_vote"
    asks_verifier: ClassVar[bool] = False
    n: int = 8
    signal: Signal = Signal.MEAN_LOGPROB
    weighting: Weighting = Weighting.SUM
    temperature: float = 1.0
    keep: float = 1.0
    window: int = 2048
    stated_tokens: int | None = 16
    stated_temperature: float | None = 0.0
    ties: Ties = Ties.UNRESOLVED
    on_no_signal: Otherwise = Otherwise.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(n=self.n, window=self.window, stated_tokens=self.stated_tokens, parallel=self.parallel)
        check_counts(max_output_tokens=self.max_output_tokens)
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"strategy.temperature={self.temperature}: give a number above 0")
        if not 0 < self.keep <= 1:
            raise UserError(f"strategy.keep={self.keep}: give a share above 0 and at most 1")

    @property
    def label(self) -> str:
        """`confidence_vote:tail@8`; `confidence_vote:tail top 10%@8` where only the top tenth votes."""
        return f"{self.name}:{self.signal.value}{'' if self.keep == 1 else f' top {self.keep:.0%}'}@{self.n}"

    @property
    def most(self) -> Most:
        """All draws, and a request about each for a stated confidence."""
        return Most(self.n, asks=self.n if self.signal is Signal.STATED else 0)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` for a signal that would never come."""
        least, given = self.signal.least_logprobs, setting.sampling.logprobs
        if least is not None and (given is None or given < least):
            raise UserError(
                f"strategy.signal={self.signal.value}: it needs {'log-probabilities' if least == 0 else 'those of the likeliest tokens'}; "
                f"add sampling.logprobs={20 if least else 0}, where the model gives them (now {'null' if given is None else given})"
            )
        if self.signal is Signal.STATED and self.stated_tokens is not None:
            try:
                setting.model.thinking.check(Thinking(), setting.model.name)
            except UserError as error:
                raise UserError(
                    f"strategy.signal=stated: it is asked with thinking off unless strategy.stated_tokens=null; {error}"
                ) from None

    async def solve(self, session: Session) -> Solution:
        """Draw, and ask for what has to be asked for, until the draws or a limit are used up: `attempt_limit`, or the limit in its name."""
        run = await self._run(session)
        stop, values = run.ended_by or StopReason.ATTEMPT_LIMIT, dict(run.judgements)
        known = {position: value for position, value in values.items() if value is not None}
        if values and not known:
            fallback = plurality(run.candidates, 1, self.ties, session.chance) if self.on_no_signal is Otherwise.PLURALITY else None
            return session.solution(fallback, stop, note=f"no candidate has the signal {self.signal.value}; {self.on_no_signal.value} used")
        weights = most_confident(known, self.keep)
        chosen = weighted_vote(run.candidates, weights, self.weighting, temperature=self.temperature, ties=self.ties, seed=session.chance)
        return session.solution(chosen, stop)

    async def _run(self, session: Session) -> Judged[Stated]:
        if self.signal is Signal.STATED:
            return await draw_and_ask(
                session,
                self.n,
                tokens=self.stated_tokens,
                temperature=self.stated_temperature,
                parallel=self.parallel,
                max_output_tokens=self.max_output_tokens,
            )
        async with session.draws(self.n, parallel=self.parallel, max_output_tokens=self.max_output_tokens) as draws:
            drawn = [candidate async for candidate in draws]
        found = tuple((one.position, confidence(one, self.signal, self.window)) for one in drawn if one.votes)
        return Judged(tuple(drawn), found, draws.ended_by)
