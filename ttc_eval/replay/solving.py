"""One strategy over the stored calls of one problem, and the rows that come of it: the same as those of a live run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttc_eval.answers import AnswerClasses
from ttc_eval.grading import grade
from ttc_eval.ledger import Account, Ledger, OverReservation, Scope
from ttc_eval.models.base import Model
from ttc_eval.records import Problem, Score, Solution
from ttc_eval.replay.pools import Recorded
from ttc_eval.replay.shared_usage import with_shared_usage
from ttc_eval.replay.stored import StoredCalls, StoredExchange
from ttc_eval.session import DrawFailed, Session
from ttc_eval.strategies import Strategy
from ttc_eval.sweep import rows
from ttc_eval.sweep.prepare import Cell

Line = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Replaying:
    """A cell whose calls are all stored."""

    cell: Cell
    calls: StoredCalls
    known: Recorded
    account: Account
    exchange: StoredExchange
    verifier: StoredExchange | None
    larger: StoredExchange | None

    @classmethod
    def of(cls, cell: Cell, calls: StoredCalls, known: Recorded, endpoint: str | None = None) -> Replaying:
        """`endpoint` is the stored identity of the cell's model, where a config no longer gives it (weights that were moved)."""

        def stored(model: Model | None, endpoint: str | None = None) -> StoredExchange | None:
            if model is None:
                return None
            info = model.info if endpoint is None else replace(model.info, endpoint=endpoint)
            return StoredExchange(info, calls, cell.config.retry)

        main, judge, larger = stored(cell.model, endpoint), stored(cell.verifier_model), stored(cell.larger_model)
        assert main is not None
        return cls(cell, calls, known, Account(Scope.CELL, cell.config.limits.cell), main, judge, larger)

    async def solve(self, problem: Problem, strategy: Strategy | None = None, scores: Sequence[Score] = ()) -> Line:
        """The rows of the solution of one problem.

        Args:
            strategy: instead of the cell's.
            scores: more scores of its candidates, which the strategy did not ask for and is not charged for.

        Raises `NotStored`.
        """
        have = self.known.grades.get(problem.problem_id, {})
        session = Session(
            question=problem.question(),
            config=self.cell.draw,
            exchange=self.exchange,
            verifier=self.verifier,
            larger=self.larger,
            ledger=Ledger(),
            problem=Account(Scope.PROBLEM, self.cell.config.limits.problem),
            cell=self.account,
            classes=AnswerClasses(problem.contract, have),
            recorded=self.known.answers,
        )
        try:
            solution = await (strategy or self.cell.config.strategy).solve(session)
        except (DrawFailed, OverReservation) as error:
            solution = session.failed(str(error))
        solution = replace(solution, scores=(*solution.scores, *scores))
        seen = {one.answer_class for one in solution.candidates if one.answer_class is not None}
        fresh = await self._graded(problem, solution, seen - set(have))
        line: Line = rows.solved(self.cell.cell_id, problem.problem_id, solution, session, fresh)
        line["grades"] += [dict(have[name]) for name in sorted(seen & set(have))]
        line["solutions"] = [with_shared_usage(line["solutions"][0], line["uses"], self.known.shared)]
        return line

    async def _graded(self, problem: Problem, solution: Solution, lacking: set[str]) -> dict[str, bool]:
        # Without a reference nothing is known of an answer: it is not wrong.
        if not lacking or not problem.reference:
            return {}
        candidates = tuple(one for one in solution.candidates if one.answer_class in lacking)
        return await grade(problem, replace(solution, candidates=candidates), run_code=self.cell.config.allow_code_execution)
