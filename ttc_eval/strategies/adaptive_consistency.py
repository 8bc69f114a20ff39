"""Adaptive-Consistency: draw until the leading answer is sure enough to stay ahead (Aggarwal et al., arXiv 2305.11860)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Solution, StopReason
from ttc_eval.selectors import Ties, is_locked, lead, plurality, tally
from ttc_eval.session import Session
from ttc_eval.stopping import beta_agreement, dirichlet_agreement
from ttc_eval.strategies.base import Most
from ttc_eval.strategies.judged import check_counts


class Criterion(StrEnum):
    """Against what the leader has to hold: `beta` the runner-up alone, `dirichlet` every class that was seen. See `ttc_eval.stopping`."""

    BETA = "beta"
    DIRICHLET = "dirichlet"


@dataclass(frozen=True, slots=True)
class AdaptiveConsistency:
    """Votes among at most `max_attempts` draws, fewer where they agree.

    Attributes:
        criterion: how the probability that the leader is the most likely answer is worked out from the votes so far.
        threshold: the probability that is enough.
        min_attempts: draws before the criterion counts.
        ties: what becomes of classes that lead together when the attempts are used up.
        parallel: draws in flight at once. The solution does not depend on it; draws beyond the stop are overshoot.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "adaptive_consistency"
    asks_verifier: ClassVar[bool] = False
    max_attempts: int = 40
    criterion: Criterion = Criterion.BETA
    threshold: float = 0.95
    min_attempts: int = 1
    ties: Ties = Ties.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(max_attempts=self.max_attempts, parallel=self.parallel, max_output_tokens=self.max_output_tokens)
        if not 1 <= self.min_attempts <= self.max_attempts:
            raise UserError(f"strategy.min_attempts={self.min_attempts}: give 1 to max_attempts={self.max_attempts}")
        if not 0.5 < self.threshold < 1:
            raise UserError(f"strategy.threshold={self.threshold}: give a probability above 0.5 and below 1, for example 0.95")

    @property
    def label(self) -> str:
        """`adaptive_consistency:beta@40` for at most forty attempts."""
        return f"{self.name}:{self.criterion.value}@{self.max_attempts}"

    @property
    def most(self) -> Most:
        """All attempts."""
        return Most(self.max_attempts)

    async def solve(self, session: Session) -> Solution:
        """Draw until the criterion is met: `accepted`, a statistical stop that further draws could overturn.

        Stops by `locked_plurality` where the leader can be neither overtaken nor tied any more, which saves draws and changes no answer;
        else by `attempt_limit` or the limit in its name, with the plurality of what was drawn.
        """
        candidates: list[Candidate] = []
        async with session.draws(self.max_attempts, parallel=self.parallel, max_output_tokens=self.max_output_tokens) as draws:
            async for candidate in draws:
                candidates.append(candidate)
                if not candidate.votes:
                    continue
                if len(candidates) >= self.min_attempts and self._agrees(candidates):
                    return session.solution(plurality(candidates), StopReason.ACCEPTED)
                if is_locked(lead(tally(candidates)), self.max_attempts - len(candidates), 1):
                    return session.solution(plurality(candidates), StopReason.LOCKED_PLURALITY)
        chosen = plurality(candidates, 1, self.ties, session.chance)
        return session.solution(chosen, draws.ended_by or StopReason.ATTEMPT_LIMIT)

    def _agrees(self, candidates: list[Candidate]) -> bool:
        votes = tally(candidates)
        standing = lead(votes)
        beta = self.criterion is Criterion.BETA
        return standing.unique and self.threshold <= (
            beta_agreement(standing.votes, standing.runner_up) if beta else dirichlet_agreement(votes.values())
        )
