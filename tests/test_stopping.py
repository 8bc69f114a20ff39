"""Stopping rules: probabilities that agree with exact arithmetic and with sampling, and windows as published."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ttc_eval.stopping import beta_agreement, dirichlet_agreement, window_agrees


def exact_largest(counts: list[int]) -> float:
    """P(the first class is the largest of a Dirichlet draw with parameters counts + 1), by inclusion and exclusion over Gamma draws."""
    first, *others = counts
    # The product over the others of 1 - e^-x S(x), as a polynomial for each power of e^-x.
    product: dict[int, list[Fraction]] = {0: [Fraction(1)]}
    for count in others:
        series = [Fraction(1, math.factorial(power)) for power in range(count + 1)]
        grown: dict[int, list[Fraction]] = {}
        for power, terms in product.items():
            for shift, factor in ((0, [Fraction(1)]), (1, [-term for term in series])):
                into = grown.setdefault(power + shift, [])
                into.extend([Fraction(0)] * (len(terms) + len(factor) - 1 - len(into)))
                for i, left in enumerate(terms):
                    for j, right in enumerate(factor):
                        into[i + j] += left * right
        product = grown
    total = Fraction(0)
    for power, terms in product.items():
        for degree, term in enumerate(terms):
            order = degree + first
            total += term * Fraction(math.factorial(order), (power + 1) ** (order + 1))
    return float(total / math.factorial(first))


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_beta_criterion_is_the_tail_of_a_beta_distribution(left: int, right: int) -> None:
    votes, runner_up = max(left, right), min(left, right)
    assert beta_agreement(votes, runner_up) == pytest.approx(stats.beta.sf(0.5, votes + 1, runner_up + 1), abs=1e-12)


def test_the_beta_criterion_stops_where_the_paper_does() -> None:
    assert beta_agreement(3, 0) == 0.9375
    assert beta_agreement(4, 0) == 0.96875, "four draws that agree are enough for 0.95"
    assert beta_agreement(6, 1) == 1 - 9 / 256
    assert beta_agreement(5, 5) == 0.5
    assert 0 < 1 - beta_agreement(3000, 2900) < 0.5
    with pytest.raises(ValueError, match="runner_up"):
        beta_agreement(1, 2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_the_dirichlet_criterion_agrees_with_exact_arithmetic(counts: list[int]) -> None:
    ranked = sorted(counts, reverse=True)
    padded = ranked if len(ranked) > 1 else [*ranked, 0]
    assert dirichlet_agreement(counts) == pytest.approx(exact_largest(padded), abs=1e-9)


@given(st.integers(1, 30), st.integers(0, 30))
def test_two_classes_are_the_beta_criterion(votes: int, behind: int) -> None:
    counts = [max(votes, behind), min(votes, behind)]
    assert dirichlet_agreement(counts) == pytest.approx(exact_largest(counts), abs=1e-12)
    assert dirichlet_agreement(counts) == beta_agreement(*counts)


def test_the_dirichlet_criterion_agrees_with_sampling_and_is_the_same_each_time() -> None:
    counts = [7, 3, 2, 2, 1]
    draws = np.random.default_rng(0).dirichlet(np.array(counts) + 1, 200_000)
    assert dirichlet_agreement(counts) == pytest.approx((draws.argmax(1) == 0).mean(), abs=0.005)
    assert dirichlet_agreement(counts) == dirichlet_agreement(reversed(counts))
    assert dirichlet_agreement([]) == 0.0
    assert dirichlet_agreement([1] * 40) == pytest.approx(1 / 40, abs=1e-9)
    assert dirichlet_agreement([400, 300, 300]) == pytest.approx(1.0, abs=1e-3)


Classes = list[str | None]


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=12), st.integers(2, 4), st.booleans())
def test_a_window_is_a_run_of_one_answer(classes: Classes, width: int, sliding: bool) -> None:
    ends = range(width, len(classes) + 1, 1 if sliding else width)
    expected = len(classes) in ends and len(set(classes[-width:])) == 1 and classes[-1] is not None
    assert window_agrees(classes, width, sliding=sliding) is expected


def test_published_windows_do_not_overlap() -> None:
    assert not window_agrees(["a", "b", "b", "b"], 3)
    assert window_agrees(["a", "b", "b", "b"], 3, sliding=True)
    assert window_agrees(["a", "b", "a", "b", "b", "b"], 3)
