"""The rule verifier: 1 or 0 for an answer, 0 for what is provably lost, and no score for what is not decided."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, Candidate, ContractKind, Message, Question
from ttc_eval.tasks import task_of
from ttc_eval.verifiers import LocalVerifier, Reading, Rule

GIVEN = {"numbers": [4, 5, 6, 10]}
QUESTION = Question("p", (Message("user", "Make 24."),), AnswerContract(ContractKind.STATE, task="game24"), GIVEN)


def check(lookahead: int = 1, **holds: Any) -> Reading:
    candidate = Candidate(**{"position": 0, "draw": 0, "text": "", "answer": None, "answer_class": None, "complete": True, **holds})
    return asyncio.run(Rule(lookahead).check(QUESTION, candidate))


def state(*moves: str) -> str:
    found = task_of("game24").start(GIVEN)
    for move in moves:
        found = found.play(move)
    return found.render()


def test_an_answer_is_right_or_wrong() -> None:
    assert check(answer="5 * (10 - 4) - 6").score == 1
    wrong = check(answer="5 * (10 - 4) + 6")
    assert (wrong.score, wrong.rationale) == (0, "it makes 36")
    assert check() == Reading(None, problem="no_answer")


def test_a_state_is_lost_or_undecided_and_never_half_good() -> None:
    assert check(partial=True, content=state()) == Reading(None, problem="undecided")
    assert check(partial=True, content=state("10 - 4 = 6", "5 * 6 = 30")) == Reading(None, problem="undecided"), "30 - 6 is 24"
    lost = state("10 - 4 = 6", "5 + 6 = 11")
    assert check(partial=True, content=lost).score == 0
    assert check(0, partial=True, content=lost) == Reading(None, problem="undecided")
    two_from_the_end = state("10 / 6 = 5/3")
    assert check(1, partial=True, content=two_from_the_end).score is None
    assert check(2, partial=True, content=two_from_the_end).score == 0
    assert check(partial=True, content="persuasive prose") == Reading(None, problem="no_state")
    assert check(partial=True) == Reading(None, problem="no_state")


def test_it_runs_here_and_says_what_it_cannot_check() -> None:
    assert isinstance(Rule(), LocalVerifier)
    with pytest.raises(UserError, match=r"dataset\.answer\.kind is state"):
        Rule().check_question(Question("p", QUESTION.messages, AnswerContract()))
    for lookahead in (-1, 9):
        with pytest.raises(UserError, match="lookahead"):
            Rule(lookahead)
