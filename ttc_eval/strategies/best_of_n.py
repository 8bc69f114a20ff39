"""Best of N: the candidate with the highest verifier score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.records import Solution, StopReason
from ttc_eval.selectors import ScoreTies, best_score, plurality, valid_scores
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import Otherwise, check_counts, check_scores, draw_and_score


@dataclass(frozen=True, slots=True)
class BestOfN:
    """Scores every complete draw that has an answer, and selects the best.

    Attributes:
        n: how many draws.
        ties: which of several best ones is selected, see `ttc_eval.selectors.ScoreTies`.
        on_no_score: the declared rule for a run in which no score is valid; the solution says that it was used.
        parallel: calls in flight at once, where the limits leave room for all of them; the solution does not depend on it.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "best_of_n"
    needs_verifier: ClassVar[bool] = True
    n: int = 4
    ties: ScoreTies = ScoreTies.FIRST
    on_no_score: Otherwise = Otherwise.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(n=self.n, parallel=self.parallel, max_output_tokens=self.max_output_tokens)

    @property
    def label(self) -> str:
        """`best_of_n@8` for eight draws."""
        return f"{self.name}@{self.n}"

    @property
    def most(self) -> Most:
        """All draws, each scored."""
        return Most(self.n, self.n)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` for a verifier that scores no single candidate."""
        check_scores(self.name, setting)

    async def solve(self, session: Session) -> Solution:
        """Draw and score, until the draws or a limit are used up: `attempt_limit`, or the limit in its name."""
        run = await draw_and_score(session, self.n, parallel=self.parallel, max_output_tokens=self.max_output_tokens)
        stop = run.ended_by or StopReason.ATTEMPT_LIMIT
        if run.judgements and not valid_scores(run.judgements):
            fallback = plurality(run.candidates) if self.on_no_score is Otherwise.PLURALITY else None
            return session.solution(fallback, stop, note=f"no valid score; {self.on_no_score.value} used")
        return session.solution(best_score(run.candidates, run.judgements, self.ties), stop)
