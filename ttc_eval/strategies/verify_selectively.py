"""Selective verification: the first answer is kept when a signal says that it is safe, and a verifier is paid for only where it does not.

The signals are those that a serving system sees. That draws agree, that their tokens were likely or that they are short says nothing of
the reference: whether a signal tells right from wrong has to be measured, and its threshold tuned, on data of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.confidence import Signal as Confidence
from ttc_eval.confidence import confidence
from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Score, Solution, StopReason
from ttc_eval.selectors import agreement, best_score, plurality, valid_scores
from ttc_eval.session import LimitReached, Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import Otherwise, check_counts, check_scores


class Signal(StrEnum):
    """What tells whether the first answer is safe.

    `agreement`: the share of the first draws that gave the leading answer. `mean_logprob`: e to the mean log-probability of the first
    draw's tokens. Both are in [0, 1], and safe at the threshold or above. `length`: the first draw's output tokens, reasoning included;
    safe at the threshold or below. A signal that is not known is never safe.
    """

    AGREEMENT = "agreement"
    MEAN_LOGPROB = "mean_logprob"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class VerifySelectively:
    """Keeps the first answer, or verifies: scores one draw after the other until one is accepted, or `n` are scored.

    Attributes:
        signal, threshold: what tells whether the first answer is safe, and from where; see `Signal`.
        agreement_draws: the first draws whose agreement is looked at; the other signals look at one.
        n: draws in all, the first included. accept_at: the score at which a draw is accepted without looking for a better one.
        on_no_score: the declared rule for a run in doubt in which no score is valid; the solution says that it was used.
        parallel: the first draws in flight at once; the solution does not depend on it.
    """

    name: ClassVar[str] = "verify_selectively"
    needs_verifier: ClassVar[bool] = True
    signal: Signal = Signal.AGREEMENT
    threshold: float = 1.0
    agreement_draws: int = 2
    n: int = 4
    accept_at: float = 0.8
    on_no_score: Otherwise = Otherwise.UNRESOLVED
    parallel: int = 1

    def __post_init__(self) -> None:
        check_counts(agreement_draws=self.agreement_draws, n=self.n, parallel=self.parallel)
        if self.signal is Signal.LENGTH and not 1 < self.threshold < float("inf"):
            raise UserError(f"strategy.threshold={self.threshold}: signal=length takes a number of tokens, above 1")
        if self.signal is not Signal.LENGTH and not 0 < self.threshold <= 1:
            raise UserError(f"strategy.threshold={self.threshold}: signal={self.signal.value} takes a share above 0 and at most 1")
        if self.signal is Signal.AGREEMENT and not 2 <= self.agreement_draws <= self.n:
            raise UserError(f"strategy.agreement_draws={self.agreement_draws}: give 2 to strategy.n={self.n}; one draw always agrees")
        if not 0 <= self.accept_at <= 1:
            raise UserError(f"strategy.accept_at={self.accept_at}: give a score from 0 to 1")

    @property
    def label(self) -> str:
        """`verify_selectively:agreement@4` for four draws at most."""
        return f"{self.name}:{self.signal.value}@{self.n}"

    @property
    def most(self) -> Most:
        """All draws, each scored."""
        return Most(self.n, self.n)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` for a verifier that scores no single candidate, and for a signal that would never come."""
        check_scores(self.name, setting)
        if self.signal is Signal.MEAN_LOGPROB and setting.sampling.logprobs is None:
            raise UserError("strategy.signal=mean_logprob: it needs log-probabilities; add sampling.logprobs=0, where the model gives them")

    async def solve(self, session: Session) -> Solution:
        """Draw, look at the signal, and verify where it says so.

        Stops by `accepted` with the first answer, or with one that was scored `accept_at` or more; otherwise with the best of those scored,
        by `attempt_limit` or by the limit that left no room.
        """
        first = self.agreement_draws if self.signal is Signal.AGREEMENT else 1
        async with session.draws(first, parallel=self.parallel) as draws:
            candidates = [candidate async for candidate in draws]
        value = self._value(candidates, first)
        session.signal(self.signal.value, value)
        kept, scores = plurality(candidates), list[Score]()
        if (
            kept is not None
            and value is not None
            and (value <= self.threshold if self.signal is Signal.LENGTH else value >= self.threshold)
        ):
            return session.solution(kept, draws.ended_by or StopReason.ACCEPTED)
        if draws.ended_by is not None:
            return self._best(session, candidates, scores, draws.ended_by)
        try:
            for candidate in candidates:
                if await self._accepts(session, candidate, scores):
                    return session.solution(candidate, StopReason.ACCEPTED)
            async with session.draws(self.n, start=first) as more:
                async for candidate in more:
                    candidates.append(candidate)
                    if await self._accepts(session, candidate, scores):
                        return session.solution(candidate, StopReason.ACCEPTED)
            stop = more.ended_by or StopReason.ATTEMPT_LIMIT
        except LimitReached as limit:
            stop = limit.stop_reason
        return self._best(session, candidates, scores, stop)

    def _value(self, candidates: list[Candidate], first: int) -> float | None:
        if self.signal is Signal.AGREEMENT:
            return agreement(candidates, first)
        if not candidates or not candidates[0].votes:
            return None
        if self.signal is Signal.LENGTH:
            return candidates[0].output_tokens
        return confidence(candidates[0], Confidence.MEAN_LOGPROB, 1)

    async def _accepts(self, session: Session, candidate: Candidate, scores: list[Score]) -> bool:
        if not candidate.votes:
            return False
        scores.append(await session.score(candidate))
        value = scores[-1].value
        return value is not None and value >= self.accept_at

    def _best(self, session: Session, candidates: list[Candidate], scores: list[Score], stop: StopReason) -> Solution:
        if valid_scores(scores):
            return session.solution(best_score(candidates, scores), stop)
        fallback = plurality(candidates) if self.on_no_score is Otherwise.PLURALITY else None
        note = f"no valid score; {self.on_no_score.value} used" if scores or fallback is not None else None
        return session.solution(fallback, stop, note=note)
