"""A route: a signal that is known before anything is answered chooses the way, and is charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.sequential import QUESTION, Sweeps, check_books, check_parallel, check_repeatable, rows, solved
from ttc_eval.ledger import Limits
from ttc_eval.models.scripted import Reply
from ttc_eval.records import CallStop
from ttc_eval.session import Reply as Said
from ttc_eval.strategies import Route
from ttc_eval.strategies.route import Signal, Way, stated_difficulty

# The scripted model gives draw 0 this reply whether it is asked how hard the question is or what its answer is.
ASKED = '{{"difficulty": {}}}\nAnswer: 41'
DEAR = ("model@larger_model=simulated", "larger_model.name=dear", "larger_model.seed=1")
LAB = (
    "model=lab",
    "dataset=lab",
    "dataset.limit=12",
    "answer_tokens=8",
    "sampling.temperature=1.0",
    "thinking=budget",
    "thinking.budget=48",
)


@pytest.fixture
def sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeps:
    return Sweeps(tmp_path, capsys)


# What the model says of the difficulty.


def said(text: str, *, complete: bool = True) -> Said:
    return Said(text, None, CallStop.END if complete else CallStop.MAX_TOKENS, complete, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"difficulty": 0.25}', 0.25),
        ('Sure:\n```json\n{ "difficulty" : 1 }\n```', 1.0),
        ('{"difficulty": .5, "why": "long"}', 0.5),
        ('{"difficulty": 0.1} or rather {"difficulty": 0.7}', 0.7),
        ('{"difficulty": 1.5}', None),
        ('{"difficulty": -0.5}', None),
        ('{"difficulty": "0.5"}', None),
        ('{"difficulty": 7}', None),
        ('{"difficulty": 0.5e3}', None),
        ('{"difficulty": NaN}', None),
        ("0.5", None),
        ("It is easy.", None),
        ("", None),
    ],
)
def test_a_stated_difficulty_is_read_strictly(text: str, value: float | None) -> None:
    assert stated_difficulty(said(text)) == value
    assert stated_difficulty(said(text, complete=False)) is None


@given(st.text())
def test_whatever_is_said_gives_a_share_or_nothing(text: str) -> None:
    value = stated_difficulty(said(text))
    assert value is None or 0 <= value <= 1


# The ways.


@pytest.mark.parametrize(
    ("stated", "malformed", "answer", "difficulty"),
    [
        ("0.2", Way.EXPENSIVE, "41", 0.2),
        ("0.5", Way.EXPENSIVE, "77", 0.5),
        ("high", Way.EXPENSIVE, "77", None),
        ("high", Way.CHEAP, "41", None),
    ],
)
def test_what_the_model_says_chooses_the_way_and_is_charged(stated: str, malformed: Way, answer: str, difficulty: float | None) -> None:
    solution, session = solved(Route(malformed=malformed), [ASKED.format(stated)], larger=["77"])
    assert (solution.answer, solution.stop_reason, dict(solution.signals)) == (answer, "attempt_limit", {"asked": difficulty})
    assert session.spending.charged.calls == 2
    assert len(solution.candidates) == 1, "what was said of the difficulty is no candidate"


@pytest.mark.parametrize("threshold", [18, 19])
def test_the_length_of_the_question_costs_nothing(threshold: int) -> None:
    assert len(QUESTION.messages[-1].content) == 18
    options = Route(Signal.LENGTH, threshold, draws=3, then_draws=2)
    solution, session = solved(options, ["41", "41", "42"], larger=["77", "77"])
    hard = threshold == 18
    assert (solution.answer, session.spending.charged.calls) == (("77", 2) if hard else ("41", 3))
    assert dict(solution.signals) == {"length": 18}


@pytest.mark.parametrize(
    ("limits", "answer", "stop", "calls", "signal"),
    [
        (Limits(calls=0), None, "call_budget", 0, None),
        (Limits(calls=1), None, "call_budget", 1, 0.9),
        (Limits(calls=2), "77", "call_budget", 2, 0.9),
        (Limits(output_tokens=1), None, "output_budget", 1, 0.9),
    ],
)
def test_it_stops_at_a_limit_by_its_name(limits: Limits, answer: str | None, stop: str, calls: int, signal: float | None) -> None:
    solution, session = solved(Route(then_draws=2), [ASKED.format("0.9")], larger=["77", "77"], limits=limits)
    assert (solution.answer, solution.stop_reason, session.spending.charged.calls) == (answer, stop, calls)
    assert dict(solution.signals) == {"asked": signal}


def test_a_reply_that_was_cut_says_nothing() -> None:
    solution, _ = solved(Route(malformed=Way.CHEAP), [Reply(ASKED.format("0.9"), complete=False)], larger=["77"])
    assert (solution.answer, dict(solution.signals)) == (None, {"asked": None})


# Sweeps.


def test_a_probe_thinks_less_is_charged_and_chooses(sweeps: Sweeps) -> None:
    options = (*LAB, "strategy=route", "strategy.signal=probe", "strategy.then_budget=120", "strategy.threshold=0.5")
    study = check_repeatable(sweeps, options)
    asked = """SELECT s.signals, count(*) FILTER (k.requested_budget = 16), count(*) FILTER (k.requested_budget = 48),
        count(*) FILTER (k.requested_budget = 120) FROM solutions s JOIN uses u USING (cell_id, problem_id) JOIN calls k USING (call_id)
        GROUP BY s.cell_id, s.problem_id, s.signals"""
    ways = set()
    for signals, probes, cheap, dear in rows(study, asked):
        hard = json.loads(signals)["probe"] >= 0.5
        assert (probes, cheap, dear) == (3, 0, 1) if hard else (3, 1, 0)
        ways.add(hard)
    assert ways == {True, False}


def test_a_real_model_that_says_nothing_of_the_difficulty_takes_the_stated_way(sweeps: Sweeps) -> None:
    study = sweeps.run(*LAB, "strategy=route", "strategy.then_budget=120", "strategy.malformed=cheap")
    check_books(study)
    assert rows(study, "SELECT DISTINCT signals->>'$.asked', charged_calls FROM solutions") == [(None, 2)]
    assert rows(study, "SELECT DISTINCT requested_budget FROM calls") == [(48,)]


def test_parallel_calls_decide_as_serial_ones_do(sweeps: Sweeps) -> None:
    options = ("model=simulated", "dataset.limit=15", "thinking=budget", "thinking.budget=64", "strategy=route", "strategy.signal=probe")
    check_parallel(sweeps, (*options, *DEAR, "strategy.draws=4", "strategy.then_draws=3", "limits.problem.calls=6"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "there is nothing to go over to"),
        (("strategy.then_budget=64", "strategy.signal=length"), "a number of characters"),
        (("strategy.then_budget=64", "strategy.threshold=2"), "from 0 to 1"),
        (("strategy.then_budget=64", "strategy.signal=probe"), "a probe thinks less than the cell does"),
        (("strategy.then_budget=64", "strategy.signal=probe", "thinking=budget", "thinking.budget=16"), "a probe thinks less"),
        (("strategy.then_budget=64", "strategy.signal=probe", "strategy.probe_draws=1"), "give 2 or more"),
        (("strategy.then_budget=-1",), "give 0 or more tokens"),
    ],
)
def test_what_cannot_work_is_refused_before_any_call(sweeps: Sweeps, options: tuple[str, ...], said: str) -> None:
    assert said in sweeps.refused("model=simulated", "strategy=route", *options)
