"""What a search asks about a state, and how its replies are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.records import AnswerContract, ContractKind, Message, Question
from ttc_eval.tasks import task_of
from ttc_eval.tasks.prompts import Outlook, asks_for_moves, judge, outlook, proposals, propose, state_shown

GIVEN = {"numbers": [4, 5, 6, 10]}
EXAMPLES = (Message("user", "an example"), Message("assistant", "Answer: 1"))
QUESTION = Question("p", (*EXAMPLES, Message("user", "Make 24.")), AnswerContract(ContractKind.STATE, task="game24"), GIVEN)


def test_a_request_states_the_problem_the_state_and_what_is_wanted() -> None:
    task = task_of("game24")
    state = task.start(GIVEN).play("10 - 4 = 6")
    for messages, wanted in (
        (propose(QUESTION, task, state, 8), 8),
        (propose(QUESTION, task, state, 1), 1),
        (judge(QUESTION, task, state), None),
    ):
        [turn] = messages
        assert turn.role == "user"
        assert turn.content.startswith("Make 24.\n\n")
        assert task.moves_are in turn.content
        assert state_shown(turn.content) == state.render()
        assert asks_for_moves(turn.content) == wanted
    assert state_shown("Make 24.") is None


def test_moves_are_read_a_line_each() -> None:
    reply = "1. 10 - 4 = 6\n\n- `4 + 5 = 9`\n* 6 * 4 = 24\nMove 2: 5 + 6 = 11\n(3) 5 * 6 = 30"
    moves = ["10 - 4 = 6", "4 + 5 = 9", "6 * 4 = 24", "5 + 6 = 11", "5 * 6 = 30"]
    assert proposals(reply, 9) == moves
    assert proposals(reply, 2) == moves[:2]
    assert proposals(reply, 9, complete=False) == moves[:-1], "the last line of a reply that was cut may lack its end"
    assert proposals("-4 + 10 = 6", 1) == ["-4 + 10 = 6"]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("sure", Outlook.SURE),
        ("4 * 6 is 24\n**Likely**.\n", Outlook.LIKELY),
        ("sure\nimpossible", Outlook.IMPOSSIBLE),
        ("it is likely", None),
        ("sure or impossible", None),
        ("", None),
        ("0.7", None),
    ],
)
def test_a_judgement_is_one_of_three_words_or_nothing(reply: str, said: Outlook | None) -> None:
    assert outlook(reply) is said


@given(st.text(max_size=80))
def test_no_reply_makes_the_reader_raise(reply: str) -> None:
    assert outlook(reply) in {None, *Outlook}
    assert len(proposals(reply, 3)) <= 3
