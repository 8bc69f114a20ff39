"""Self-consistency: the unique plurality of independent draws (Wang et al., arXiv 2203.11171).

The rule, the early stop and the accounting are those of the bounded controller, see docs/strategies.md: a vote is a
complete draw with a valid answer; the run stops when the leader can be neither overtaken nor tied by the attempts that
are left; a used-up budget may still leave a unique plurality, and the stop reason says which budget it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Solution, StopReason
from ttc_eval.selectors import Ties, is_locked, lead, plurality, tally
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most


@dataclass(frozen=True, slots=True)
class SelfConsistency:
    """Votes among at most `max_attempts` draws.

    Attributes:
        min_votes: votes that the winner needs.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
        ties: what becomes of classes that lead together; by default nothing is selected.
        early_stop: stop when the leader is locked; without it all attempts are drawn.
        parallel: draws in flight at once. The solution does not depend on it; draws beyond the stop are overshoot.
    """

    name: ClassVar[str] = "self_consistency"
    asks_verifier: ClassVar[bool] = False
    max_attempts: int = 5
    min_votes: int = 1
    ties: Ties = Ties.UNRESOLVED
    max_output_tokens: int | None = None
    early_stop: bool = True
    parallel: int = 1

    def __post_init__(self) -> None:
        if self.max_attempts < 1 or self.parallel < 1:
            raise UserError("strategy.max_attempts and strategy.parallel must be 1 or more")
        if not 1 <= self.min_votes <= self.max_attempts:
            raise UserError(f"strategy.min_votes={self.min_votes}: give 1 to max_attempts={self.max_attempts}")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise UserError(f"strategy.max_output_tokens={self.max_output_tokens}: give 1 or more")

    @property
    def label(self) -> str:
        """`self_consistency@8` for eight attempts."""
        return f"{self.name}@{self.max_attempts}"

    @property
    def most(self) -> Most:
        """All attempts."""
        return Most(self.max_attempts)

    async def solve(self, session: Session) -> Solution:
        """Draw until the leader is locked, the attempts are used up, or a limit is."""
        candidates: list[Candidate] = []
        async with session.draws(self.max_attempts, parallel=self.parallel, max_output_tokens=self.max_output_tokens) as draws:
            async for candidate in draws:
                candidates.append(candidate)
                left = self.max_attempts - len(candidates)
                if self.early_stop and candidate.votes and is_locked(lead(tally(candidates)), left, self.min_votes):
                    return session.solution(plurality(candidates, self.min_votes), StopReason.LOCKED_PLURALITY)
        chosen = plurality(candidates, self.min_votes, self.ties, session.chance)
        return session.solution(chosen, draws.ended_by or StopReason.ATTEMPT_LIMIT)
