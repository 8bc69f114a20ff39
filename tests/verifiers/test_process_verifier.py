"""The process verifier: the steps that a scorer returns, and the rule that makes one score of them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, Message, Question
from ttc_eval.verifiers import Aggregation, Process

QUESTION = Question("p", (Message("system", "s"), Message("user", "37+8-5*3")), AnswerContract())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_configured_rule_is_honoured(steps: list[float]) -> None:
    wanted = {
        Aggregation.LAST: steps[-1],
        Aggregation.MIN: min(steps),
        Aggregation.PROD: math.prod(steps),
        Aggregation.MEAN: sum(steps) / len(steps),
    }
    for rule, value in wanted.items():
        reading = Process(aggregation=rule).read(json.dumps({"steps": steps}))
        assert reading.score == pytest.approx(value)
        assert reading.steps == tuple(steps)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "unparsed"),
        ("[0.5]", "unparsed"),
        ('{"steps": []}', "unparsed"),
        ('{"score": 0.5}', "unparsed"),
        ('{"steps": [0.5, "0.9"]}', "not_a_number"),
        ('{"steps": [0.5, true]}', "not_a_number"),
        ('{"steps": [0.5, NaN]}', "not_a_number"),
        ('{"steps": [0.5, 1.01]}', "out_of_range"),
        ('{"steps": [-0.1]}', "out_of_range"),
        ('{"steps": {"1": 0.5}}', "unparsed"),
        ('{"steps": [[0.5]]}', "not_a_number"),
        ('{"steps": [0.5], "steps": [0.9]}', "ambiguous"),
        ('{"steps": [0.5, 0.', "unparsed"),
    ],
)
def test_a_malformed_reply_is_invalid_and_never_0_or_1(reply: str, problem: str) -> None:
    reading = Process().read(reply)
    assert (reading.score, reading.problem, reading.steps) == (None, problem, ())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(0, 11), st.floats(0, 1))
def test_rules_keep_order_and_bounds(steps: list[float], place: int, lower: float) -> None:
    """Every rule stays within 0 and 1, the product is never above the minimum, and a worse step never makes a better whole."""
    worse = [min(step, lower) if here == place else step for here, step in enumerate(steps)]
    scores = {rule: Process(aggregation=rule).read(json.dumps({"steps": steps})).score for rule in Aggregation}
    after = {rule: Process(aggregation=rule).read(json.dumps({"steps": worse})).score for rule in Aggregation}
    for rule, score in scores.items():
        assert score is not None and 0 <= score <= 1
        assert (after[rule] or 0.0) <= score + 1e-12
    assert (scores[Aggregation.PROD] or 0.0) <= (scores[Aggregation.MIN] or 0.0) <= (scores[Aggregation.MEAN] or 0.0) + 1e-12


def test_a_scorer_that_talks_is_read_as_a_judge_is() -> None:
    reply = 'Each step:\n```json\n{"rationale": "step 2 slips", "steps": [0.9, 0.2]}\n```'
    reading = Process(aggregation=Aggregation.MIN).read(reply)
    assert (reading.score, reading.steps, reading.rationale) == (0.2, (0.9, 0.2), "step 2 slips")
    with_quote = 'It says {"steps": [1, 1]}. I say {"steps": [0.5]}'
    assert Process().read(with_quote).score == 0.5


def test_it_shows_the_scorer_the_question_the_thinking_and_the_answer() -> None:
    messages = Process().messages(QUESTION, "20", "37+8=45;")
    assert messages == (*QUESTION.messages, Message("assistant", "<think>37+8=45;</think>20"))
    assert Process(label="lab", aggregation=Aggregation.MIN).name == "lab:min"


def test_room_for_no_reply_is_refused() -> None:
    with pytest.raises(UserError, match="answer_tokens"):
        Process(answer_tokens=0)
