"""A verifier that runs a candidate program, in the sandbox, against tests that the question states: public tests, or generated ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from ttc_eval.answers.programs import assembled, prompt_tests
from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, ContractKind, Question, ScoreKind
from ttc_eval.sandbox import Job, Limits, SandboxFailed, checker
from ttc_eval.verifiers.base import Reading


class Source(StrEnum):
    """Where the tests stand: in the column `tests` of the question, or as examples in the docstring of its column `prompt`."""

    GIVEN = "given"
    PROMPT = "prompt"


class Scoring(StrEnum):
    """What the score is: the share of tests that were passed, or 1 for all of them and 0 otherwise."""

    SHARE = "share"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Code:
    """Scores a program by the tests that it passes. Each step of its score is one test, in order: 1 passed, 0 failed.

    The question's `given` names the function, `entry_point`, and holds the `prompt` that the program may continue. It never sees the hidden
    tests, which are the reference.

    Attributes:
        tests: where the tests stand; score: what is made of them; limits: of one run, see `Limits`.
    """

    name: ClassVar[str] = "code"
    kind: ClassVar[ScoreKind] = ScoreKind.CODE
    evidence: ClassVar[str] = "what the program does: its results for the tests that the question states"
    tests: Source = Source.GIVEN
    score: Scoring = Scoring.SHARE
    limits: Limits = field(default_factory=Limits)

    def check_question(self, question: Question) -> None:
        """Raise `UserError` when the question is not about a program, or does not name its function."""
        if question.contract.kind is not ContractKind.CODE:
            raise UserError(f"verifier=code: it runs programs; dataset.answer.kind is {question.contract.kind.value}, not code")
        needed = ("entry_point",) if self.tests is Source.GIVEN else ("entry_point", "prompt")
        missing = [name for name in needed if not question.given.get(name)]
        if missing:
            raise UserError(f"verifier=code: it needs the column {missing[0]}; name it in dataset.given")

    async def check(self, question: Question, candidate: Candidate) -> Reading:
        """See the class. No program, no tests or no verdict of the sandbox: no score."""
        tests = self._tests(question)
        if candidate.answer is None or not tests:
            return Reading(None, problem="no_answer" if candidate.answer is None else "no_tests")
        prompt, name = str(question.given.get("prompt") or ""), str(question.given["entry_point"])
        each = tuple(dict.fromkeys(tests))
        try:
            verdict = await checker().check(Job(assembled(candidate.answer, prompt, name), name, each, prompt), self.limits)
        except SandboxFailed as error:
            return Reading(None, problem=f"sandbox: {error}")
        passed = dict(zip(each, (outcome.passed for outcome in verdict.outcomes), strict=True))
        steps = tuple(float(passed[test]) for test in tests)
        score = sum(steps) / len(steps) if self.score is Scoring.SHARE else float(verdict.passed)
        return Reading(score, verdict.why, steps=steps)

    def _tests(self, question: Question) -> tuple[str, ...]:
        if self.tests is Source.PROMPT:
            return prompt_tests(str(question.given.get("prompt") or ""), str(question.given["entry_point"]))
        tests: Any = question.given.get("tests") or ()
        return (tests,) if isinstance(tests, str) else tuple(str(test) for test in tests)
