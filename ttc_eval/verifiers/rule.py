"""A verifier by rule, for checkable tasks (`ttc_eval.tasks`): it knows what is valid and what is provably lost, and asks no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, ContractKind, Question, ScoreKind
from ttc_eval.tasks import impossible, task_of
from ttc_eval.verifiers.base import Reading

UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Rule:
    """Scores a final answer 1 or 0 by the task's own check, and a state of a search 0 when it provably leads to no solution.

    A state that is not proven lost has no score: its reading is `undecided`, which is neither invalid output nor a chance of one half. It
    is stored as a score without a value, with that word as its rationale; a search must rank such states by something else.

    Attributes:
        lookahead: a state with at most so many moves to its end is decided by trying all of them. 0 leaves it to the task's bound. Beyond 1
            or 2 the verifier solves the problem itself, and what is measured is no longer the model's search.
    """

    name: ClassVar[str] = "rule"
    kind: ClassVar[ScoreKind] = ScoreKind.RULE
    evidence: ClassVar[str] = "the rules of the task, which decide what is valid and what is provably lost"
    lookahead: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.lookahead <= 8:
            raise UserError(f"verifier.lookahead={self.lookahead}: give 0 to 8 moves; 1 is one move from the end")

    def check_question(self, question: Question) -> None:
        """Raise `UserError` when the question belongs to no checkable task."""
        if question.contract.kind is not ContractKind.STATE:
            kind = question.contract.kind.value
            raise UserError(
                f"verifier=rule: it checks tasks whose dataset.answer.kind is state, such as dataset=game24; this one is {kind}"
            )

    async def check(self, question: Question, candidate: Candidate) -> Reading:
        """See the class. A candidate without an answer, or a node that holds no state, is invalid."""
        task = task_of(question.contract.task)
        if not candidate.partial:
            if candidate.answer is None:
                return Reading(None, problem="no_answer")
            verdict = task.check(question.given, candidate.answer)
            return Reading(1.0 if verdict.valid else 0.0, verdict.reason)
        try:
            state = task.read(question.given, candidate.content or "")
        except ValueError:
            return Reading(None, problem="no_state")
        reason = impossible(state, self.lookahead)
        return Reading(None, problem=UNDECIDED) if reason is None else Reading(0.0, reason)
