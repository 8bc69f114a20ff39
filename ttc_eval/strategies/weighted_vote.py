"""Weighted vote: verifier scores as the weights of votes, or as what lets a candidate vote at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Solution, StopReason
from ttc_eval.selectors import Ties, Weighting, passing, plurality, valid_scores, weighted_vote
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.judged import Otherwise, check_counts, check_scores, draw_and_score


@dataclass(frozen=True, slots=True)
class WeightedVote:
    """Scores every complete draw that has an answer; the class of answers that weighs the most is selected.

    Attributes:
        n: how many draws.
        weighting: `sum` or `mean` of a class's scores, `softmax` of them inside the question, or `count` of its candidates. An invalid
            score has no weight.
        temperature: of the softmax.
        min_score: only candidates with this score or more vote; None: all with a valid score.
        ties: what becomes of classes that weigh the same.
        on_none: the declared rule for a run in which no candidate may vote; the solution says that it was used.
        parallel: calls in flight at once, where the limits leave room for all of them; the solution does not depend on it.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "weighted_vote"
    needs_verifier: ClassVar[bool] = True
    n: int = 8
    weighting: Weighting = Weighting.SUM
    temperature: float = 1.0
    min_score: float | None = None
    ties: Ties = Ties.UNRESOLVED
    on_none: Otherwise = Otherwise.UNRESOLVED
    parallel: int = 1
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts(n=self.n, parallel=self.parallel, max_output_tokens=self.max_output_tokens)
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"strategy.temperature={self.temperature}: give a number above 0")
        if self.min_score is not None and not 0 <= self.min_score <= 1:
            raise UserError(f"strategy.min_score={self.min_score}: give 0 to 1, or null for no filter")
        if self.weighting is Weighting.COUNT and self.min_score is None:
            raise UserError("strategy.weighting=count: it uses scores to filter only; give strategy.min_score, or take self_consistency")

    @property
    def label(self) -> str:
        """`weighted_vote:sum@8`; with a filter `weighted_vote:count≥0.5@8`."""
        return f"{self.name}:{self.weighting.value}{'' if self.min_score is None else f'≥{self.min_score:g}'}@{self.n}"

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
        voters = passing(run.candidates, run.judgements, 0.0 if self.min_score is None else self.min_score)
        if run.judgements and not voters:
            fallback = plurality(run.candidates, 1, self.ties, session.chance) if self.on_none is Otherwise.PLURALITY else None
            why = "no valid score" if not valid_scores(run.judgements) else f"no score of {self.min_score:g} or more"
            return session.solution(fallback, stop, note=f"{why}; {self.on_none.value} used")
        weights, seed = valid_scores(run.judgements), session.chance
        chosen = weighted_vote(voters, weights, self.weighting, temperature=self.temperature, ties=self.ties, seed=seed)
        return session.solution(chosen, stop)
