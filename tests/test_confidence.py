"""Signals of confidence: DeepConf's definitions, and a stated number that is read or refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.confidence import Signal, bottom_mean, confidence, group_means, read_stated, token_confidences
from ttc_eval.records import Candidate

LOGS = st.floats(-20, 0)
NEEDS_TOP = [signal for signal in Signal if signal.least_logprobs == 2]
NEEDS_SAMPLED = [signal for signal in Signal if signal.least_logprobs == 0]


def candidate(sampled: list[float] | None = None, top: list[list[float]] | None = None) -> Candidate:
    logs = None if sampled is None else tuple(sampled)
    tops = None if top is None else tuple(tuple(one) for one in top)
    return Candidate(0, 0, "42", "42", "42", True, token_logprobs=logs, top_logprobs=tops)


@given(st.lists(st.lists(LOGS, min_size=2, max_size=5), min_size=1, max_size=40), st.integers(1, 45))
def test_the_signals_of_deepconf(top: list[list[float]], window: int) -> None:
    tokens = [-float(np.mean(one)) for one in top]
    groups = [float(np.mean(tokens[place : place + window])) for place in range(max(1, len(tokens) - window + 1))]
    found = {signal: confidence(candidate(top=top), signal, window) for signal in NEEDS_TOP}
    assert found[Signal.MEAN] == pytest.approx(np.mean(tokens), abs=1e-9)
    assert found[Signal.TAIL] == pytest.approx(np.mean(tokens[-window:]), abs=1e-9)
    assert found[Signal.LOWEST_GROUP] == pytest.approx(min(groups), abs=1e-9)
    lowest = np.sort(groups)[: max(1, int(len(groups) * 0.1))]
    assert found[Signal.BOTTOM_GROUPS] == pytest.approx(lowest.mean(), abs=1e-9)


@given(st.lists(LOGS, min_size=1, max_size=40), st.integers(1, 45))
def test_the_signals_of_sampled_tokens_are_probabilities(logs: list[float], window: int) -> None:
    found = {signal: confidence(candidate(logs), signal, window) for signal in NEEDS_SAMPLED}
    assert found[Signal.MEAN_LOGPROB] == pytest.approx(math.exp(np.mean(logs)))
    assert found[Signal.TAIL_LOGPROB] == pytest.approx(math.exp(np.mean(logs[-window:])))
    groups = [np.mean(logs[place : place + window]) for place in range(max(1, len(logs) - window + 1))]
    assert found[Signal.LOWEST_GROUP_LOGPROB] == pytest.approx(math.exp(min(groups)))
    assert all(0 <= value <= 1 for value in found.values() if value is not None)


def test_both_kinds_grow_with_certainty() -> None:
    sure, unsure = [math.log(p) for p in (0.9, 0.05, 0.05)], [math.log(p) for p in (0.4, 0.3, 0.3)]
    for signal in (*NEEDS_TOP, *NEEDS_SAMPLED):
        low, high = (confidence(candidate([one[0]] * 5, [one] * 5), signal, 3) for one in (unsure, sure))
        assert low is not None
        assert high is not None
        assert low < high


def test_what_came_without_log_probabilities_has_no_signal() -> None:
    for signal in (*NEEDS_TOP, *NEEDS_SAMPLED):
        assert confidence(candidate(), signal, 8) is None
        assert confidence(candidate([], [[], []]), signal, 8) is None
    assert confidence(candidate([-0.1]), Signal.TAIL, 8) is None
    assert token_confidences([(), (-1.0, -3.0)]) == [2.0], "a token without its likeliest ones is left out"
    with pytest.raises(ValueError, match="asked"):
        confidence(candidate([-0.1]), Signal.STATED, 8)


def test_groups_are_where_the_window_fits() -> None:
    assert group_means([1.0, 2.0, 3.0, 4.0], 2) == [1.5, 2.5, 3.5]
    assert group_means([1.0, 2.0], 5) == [1.5]
    assert bottom_mean([float(place) for place in range(40)], 1) == 1.5, "four of forty"


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("85", 0.85),
        (" 85%\n", 0.85),
        ("(100)", 1.0),
        ("0", 0.0),
        ("**70**", 0.7),
        ("Confidence: 90", 0.9),
        ("Proposed confidence: (40)", 0.4),
        ("60/100", 0.6),
        ("101", None),
        ("85.", 0.85),
        ("-5", None),
        (".5", None),
        ("1000", None),
        ("8.5", None),
        ("between 70 and 80", None),
        ("85 because 3 * 4 = 12", None),
        ("high", None),
        ("", None),
    ],
)
def test_a_stated_confidence_is_one_number_or_none(reply: str, value: float | None) -> None:
    assert read_stated(reply) == value


@given(st.text())
def test_no_reply_breaks_the_reader(reply: str) -> None:
    value = read_stated(reply)
    assert value is None or 0 <= value <= 1


@given(st.integers(0, 100))
def test_every_number_is_read(number: int) -> None:
    assert read_stated(f"{number}%") == number / 100
