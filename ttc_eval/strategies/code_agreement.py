"""Code agreement: programs and generated tests vouch for each other (CodeT, Chen et al. 2022, arXiv 2207.10397).

Programs that pass the same tests form a consensus set. Its score is the number of its programs, each as often as it was drawn, times the
number of tests that they pass, each as often as it was written; the set with the highest score is the answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.answers.programs import written_tests
from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Message, Role, ScoreKind, Solution, StopReason
from ttc_eval.session import Ask, LimitReached, Session
from ttc_eval.strategies.base import Most, Setting

_ASK = """Write tests for the function `{name}` described below, as Python statements of the form
assert {name}(...) == ...
one a line, in one fenced block, and nothing else. Do not write the function.

{problem}"""


class Weight(StrEnum):
    """How the programs of a set count: one by one, as in the paper, or by the square root of their number, as in its published code."""

    LINEAR = "linear"
    SQRT = "sqrt"


@dataclass(frozen=True, slots=True)
class CodeAgreement:
    """Draws programs, runs all against all generated tests, and selects the earliest program of the best consensus set.

    Attributes:
        n: how many programs.
        test_replies: how many replies with tests the model is asked for; 0 takes those of the question, column `tests`.
        tests_per_reply: the most that are taken from one reply.
        weight: how the programs of a set count.
        max_output_tokens: cap of one draw's output, reasoning included; None: the thinking budget plus `answer_tokens`.
    """

    name: ClassVar[str] = "code_agreement"
    needs_verifier: ClassVar[bool] = True
    n: int = 10
    test_replies: int = 10
    tests_per_reply: int = 5
    weight: Weight = Weight.LINEAR
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.n < 1 or self.tests_per_reply < 1 or self.test_replies < 0:
            raise UserError("strategy.n and strategy.tests_per_reply must be 1 or more, strategy.test_replies 0 or more")

    @property
    def label(self) -> str:
        """`code_agreement@10` for ten programs; `/sqrt` where they count by the square root."""
        return f"{self.name}@{self.n}" + ("" if self.weight is Weight.LINEAR else f"/{self.weight.value}")

    @property
    def most(self) -> Most:
        """All programs, each run once, and the replies with tests."""
        return Most(self.n, self.n, self.test_replies)

    def check(self, setting: Setting) -> None:
        """Raise `UserError` when the verifier runs no programs, or there would be no tests."""
        if setting.verifier is None or setting.verifier.kind is not ScoreKind.CODE:
            raise UserError("strategy=code_agreement: programs vouch for each other by what they do; add verifier=code")
        if self.test_replies == 0 and not setting.question.given.get("tests"):
            raise UserError(
                "strategy=code_agreement: the data set states no tests (dataset.given); let the model write some: strategy.test_replies=10"
            )

    async def solve(self, session: Session) -> Solution:
        """Draw the tests, then the programs, each run as it comes, until the programs or a limit are used up."""
        tests, ended_by = await self._tests(session)
        given = {"tests": list(tests)} if self.test_replies else None
        passed: dict[int, tuple[float, ...]] = {}
        candidates: list[Candidate] = []
        async with session.draws(self.n if ended_by is None else 0, max_output_tokens=self.max_output_tokens) as draws:
            async for candidate in draws:
                candidates.append(candidate)
                if not candidate.votes or given == {"tests": []}:
                    continue
                try:
                    passed[candidate.position] = (await session.score(candidate, given=given)).steps
                except LimitReached as limit:
                    ended_by = limit.stop_reason
                    break
        note = "no test could be read" if given == {"tests": []} and ended_by is None else None
        return session.solution(agreed(candidates, passed, self.weight), ended_by or draws.ended_by or StopReason.ATTEMPT_LIMIT, note)

    async def _tests(self, session: Session) -> tuple[tuple[str, ...], StopReason | None]:
        name = str(session.question.given.get("entry_point"))
        words = _ASK.format(name=name, problem=session.question.messages[-1].content)
        asks = [Ask((*session.question.messages[:-1], Message("user", words)), Role.VERIFY, draw=draw) for draw in range(self.test_replies)]
        replies = await session.ask_all(asks)
        written = [test for reply in replies.found if reply.complete for test in written_tests(reply.text, name, self.tests_per_reply)]
        return tuple(written), replies.ended_by


def agreed(candidates: Sequence[Candidate], passed: Mapping[int, Sequence[float]], weight: Weight = Weight.LINEAR) -> Candidate | None:
    """The earliest program of the consensus set with the highest score, of tied ones the earlier; None when no program passes a test.

    `passed` holds, by a candidate's position, 1 for each test that it passes and 0 for each other; one without an entry, or with an empty
    one, is in no set.
    """
    sets: dict[tuple[float, ...], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        outcomes = tuple(passed.get(candidate.position, ()))
        if candidate.votes and any(outcomes):
            sets[outcomes].append(candidate)
    count = math.sqrt if weight is Weight.SQRT else float
    best = max(sets.items(), key=lambda one: count(len(one[1])) * sum(one[0]), default=None)
    return None if best is None else best[1][0]
