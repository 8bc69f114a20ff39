"""A cascade: cheap draws first, and expensive ones only where a signal says that the cheap answer is not safe.

The signals are the agreement of the cheap draws (Yue et al., arXiv 2310.03094) or a verifier's doubt (FrugalGPT, arXiv 2305.05176). Neither
is ground truth: their thresholds are to be tuned on one split and reported on another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Solution, StopReason
from ttc_eval.selectors import agreement, best_score, plurality, valid_scores
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import check_counts, check_scores
from ttc_eval.strategies.second_stage import check_options, check_second_stage, second_stage, then_thinking
from ttc_eval.thinking import Thinking


class Signal(StrEnum):
    """What tells whether the cheap answer is safe: the share of the cheap draws that gave it, or a verifier's best score; in [0, 1]."""

    AGREEMENT = "agreement"
    VERIFIER = "verifier"


class Final(StrEnum):
    """Whose unique plurality is selected after the second stage: that of the expensive draws, or of all draws."""

    EXPENSIVE = "expensive"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Cascade:
    """Accepts the cheap answer at `threshold` or above, and otherwise asks the larger model or thinks more.

    Attributes:
        draws: cheap draws, from the cell's model under the cell's thinking.
        signal, threshold: what tells whether the cheap answer is safe, and from where. A draw that is cut or has no answer agrees with
            none, and a score that is not valid is below every threshold.
        then_draws: draws of the second stage, from the larger model where the cell has one, otherwise from the same model.
        then_budget, then_effort: how the second stage thinks; None for both: as the cell does.
        final: whose plurality is selected after the second stage; a tie is unresolved.
        parallel: calls in flight at once; the solution does not depend on it.
    """

    name: ClassVar[str] = "cascade"
    asks_larger_model: ClassVar[bool] = True
    draws: int = 4
    signal: Signal = Signal.AGREEMENT
    threshold: float = 0.75
    then_draws: int = 1
    then_budget: int | None = None
    then_effort: str | None = None
    final: Final = Final.EXPENSIVE
    parallel: int = 1

    def __post_init__(self) -> None:
        check_counts(draws=self.draws, parallel=self.parallel)
        check_options(self.then_draws, self.then_budget, self.then_effort)
        if not 0 <= self.threshold <= 1:
            raise UserError(f"strategy.threshold={self.threshold}: give a share or a score from 0 to 1")
        if self.signal is Signal.AGREEMENT and self.draws < 2:
            raise UserError(f"strategy.draws={self.draws}: one draw always agrees with itself; give 2 or more, or strategy.signal=verifier")

    @property
    def asks_verifier(self) -> bool:
        """Whether the signal is a verifier's."""
        return self.signal is Signal.VERIFIER

    needs_verifier = asks_verifier

    @property
    def label(self) -> str:
        """`cascade:agreement@4+1` for four cheap draws and one expensive one."""
        return f"{self.name}:{self.signal.value}@{self.draws}+{self.then_draws}"

    @property
    def most(self) -> Most:
        """Both stages, and a score of each cheap draw where a verifier is asked."""
        return Most(self.draws, self.draws if self.asks_verifier else 0, larger_draws=self.then_draws)

    def then_thinking(self, first: Thinking) -> Thinking:
        """How the second stage thinks."""
        return then_thinking(first, self.then_budget, self.then_effort)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` when there is nothing to go over to, or for a verifier that scores no single candidate."""
        check_second_stage(self.name, setting, self.then_thinking(setting.thinking))
        if self.asks_verifier:
            check_scores(self.name, setting)

    async def solve(self, session: Session) -> Solution:
        """Draw, look at the signal, and go over to the second stage where it says so.

        Stops by `accepted` with the cheap answer; by `attempt_limit` after the second stage; or by the limit that left no room, with what
        the rule of the stage that it ended gives for the draws that were made.
        """
        async with session.draws(self.draws, parallel=self.parallel) as draws:
            cheap = [candidate async for candidate in draws]
        stop = draws.ended_by
        value: float | None = agreement(cheap, self.draws)
        safe = plurality(cheap)
        if self.asks_verifier:
            value, safe, late = await self._scored(session, cheap)
            stop = stop or late
        session.signal(self.signal.value, value)
        if safe is not None and value is not None and value >= self.threshold:
            return session.solution(safe, stop or StopReason.ACCEPTED)
        expensive: list[Candidate] = []
        if stop is None:
            then = self.then_thinking(session.thinking)
            async with second_stage(session, then, self.then_draws, self.parallel) as more:
                expensive = [candidate async for candidate in more]
            stop = more.ended_by or StopReason.ATTEMPT_LIMIT
        return session.solution(plurality([*cheap, *expensive] if self.final is Final.BOTH else expensive), stop)

    async def _scored(self, session: Session, cheap: list[Candidate]) -> tuple[float | None, Candidate | None, StopReason | None]:
        taken = await session.score_all([candidate for candidate in cheap if candidate.votes], parallel=self.parallel)
        return max(valid_scores(taken.found).values(), default=None), best_score(cheap, taken.found), taken.ended_by
