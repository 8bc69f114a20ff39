"""Do 95 % intervals contain the truth 95 times in 100? Simulated studies with repeated draws: problems differ, and so do their draws.

Every study draws new problems from a population whose truth is known, and draws of a problem share its difficulty. The seeds are fixed, so
the shares below are always the same; each comes from 1,000 studies and is good to ±1.4 points (95 %).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ttc_eval.metrics import (
    Estimate,
    auroc_pooled,
    auroc_within,
    cluster_mean,
    cluster_ratio,
    cluster_wilson,
    paired_difference,
    problem_bootstrap,
    wilson,
)

STUDIES = 1_000
Make = Callable[[np.random.Generator], tuple[Any, ...]]


def coverage(make: Make, estimate: Callable[..., Estimate | None], truth: float, studies: int = STUDIES) -> float:
    """The share of studies whose interval contains the truth; every study has to have one."""
    rng = np.random.default_rng(2026)
    hits = 0
    for _ in range(studies):
        found = estimate(*make(rng))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    return hits / studies


def outcomes(a: float, b: float, problems: int, draws: int) -> Make:
    """0/1 outcomes: a problem's success rate from Beta(a, b), then its draws."""
    return lambda rng: (rng.random((problems, draws)) < rng.beta(a, b, (problems, 1)),)


def boot(kind: Any) -> Callable[..., Estimate]:
    return lambda draws: problem_bootstrap(draws.mean(axis=1), resamples=599, kind=kind)


@pytest.mark.parametrize(
    ("population", "estimate"),
    [
        ((1.0, 1.0, 40, 8), cluster_mean),
        ((0.4, 0.6, 100, 4), cluster_mean),
        ((8.0, 2.0, 60, 2), cluster_mean),
        ((1.0, 1.0, 40, 8), cluster_wilson),
        ((0.4, 0.6, 100, 4), cluster_wilson),
        ((5.0, 0.3, 50, 8), cluster_wilson),  # 94 % success: near the end of the scale
        ((18.0, 2.0, 50, 4), cluster_wilson),
        ((1.0, 1.0, 60, 8), boot("percentile")),
        ((1.0, 1.0, 60, 8), boot("bca")),
    ],
    ids=["t", "t-bimodal", "t-two-draws", "wilson", "wilson-bimodal", "wilson-94%", "wilson-90%", "bootstrap", "bca"],
)
def test_mean_success(population: tuple[float, float, int, int], estimate: Callable[..., Estimate]) -> None:
    a, b, _, _ = population
    assert 0.93 <= coverage(outcomes(*population), estimate, a / (a + b)) <= 0.97


def test_draws_that_count_as_problems_miss_the_truth() -> None:
    # What the intervals above avoid: 320 draws of 40 problems taken for 320 trials.
    def pooled(draws: Any) -> Estimate:
        return wilson(int(draws.sum()), draws.size)

    assert coverage(outcomes(1.0, 1.0, 40, 8), pooled, 0.5) < 0.75


def test_paired_difference() -> None:
    def two_policies(rng: np.random.Generator) -> tuple[Any, ...]:
        worse = rng.beta(1.0, 1.0, (50, 1))
        better = worse + 0.3 * (1 - worse) * rng.random((50, 1))
        return rng.random((50, 4)) < better, rng.random((50, 8)) < worse

    assert 0.93 <= coverage(two_policies, paired_difference, 0.3 * 0.5 * 0.5) <= 0.97


def test_ratio_of_right_to_answered() -> None:
    def answered(rng: np.random.Generator) -> tuple[Any, ...]:
        rate = rng.beta(1.0, 1.0, (60, 1))
        said = rng.random((60, 8)) < 0.5 + 0.5 * rate
        return (said & (rng.random((60, 8)) < rate)).sum(axis=1), said.sum(axis=1)

    truth = (0.5 * 1 / 2 + 0.5 * 1 / 3) / (0.5 + 0.5 * 1 / 2)
    assert 0.93 <= coverage(answered, cluster_ratio, truth) <= 0.97


def test_ranking() -> None:
    def verified(rng: np.random.Generator, problems: int = 60) -> tuple[Any, ...]:
        ease = rng.beta(1.0, 1.0, (problems, 1))
        right = rng.random((problems, 8)) < ease
        return right + 0.8 * ease + rng.normal(0.0, 1.0, (problems, 8)), right

    population = verified(np.random.default_rng(0), 150_000)
    for estimate in (auroc_pooled, auroc_within):
        truth = estimate(*population)
        assert truth is not None
        assert 0.93 <= coverage(verified, estimate, truth.value, 700) <= 0.97
