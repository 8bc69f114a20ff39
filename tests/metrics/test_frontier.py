"""The frontier and its mixtures, against definitions written out, and on a published table with unpriced rows."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.metrics.frontier import equal_cost, frontier_probability, hull, hull_success, mixture_at, on_frontier

points = st.lists(st.tuples(st.integers(0, 12) | st.just(math.nan), st.integers(0, 12) | st.just(math.nan)), min_size=1, max_size=8)


def columns(drawn: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [float(cost) for cost, _ in drawn], [float(success) for _, success in drawn]


@given(points)
def test_a_policy_is_on_the_frontier_when_nothing_cheaper_or_as_cheap_is_as_good(drawn: list[tuple[float, float]]) -> None:
    cost, success = columns(drawn)
    known = [i for i in range(len(cost)) if not math.isnan(cost[i]) and not math.isnan(success[i])]

    def beaten(i: int) -> bool:
        return any(
            cost[j] <= cost[i] and success[j] >= success[i] and ((cost[j], success[j]) != (cost[i], success[i]) or j < i)
            for j in known
            if j != i
        )

    assert on_frontier(cost, success).tolist() == [i in known and not beaten(i) for i in range(len(cost))]


@given(points, st.floats(0, 13))
def test_the_hull_is_what_the_best_mixture_of_two_reaches(drawn: list[tuple[float, float]], at: float) -> None:
    cost, success = columns(drawn)
    known = [i for i in range(len(cost)) if not math.isnan(cost[i]) and not math.isnan(success[i])]
    reached = [success[i] for i in known if cost[i] <= at]
    for i in known:
        for j in known:
            if cost[i] <= at < cost[j]:
                share = (at - cost[i]) / (cost[j] - cost[i])
                reached.append(success[i] + share * (success[j] - success[i]))
    found = hull_success(cost, success, at)
    if not reached:
        assert math.isnan(found)
        assert mixture_at(cost, success, at) is None
    else:
        assert found == pytest.approx(max(reached))


@given(points)
def test_the_corners_of_the_hull_are_on_the_frontier_and_rise_ever_more_slowly(drawn: list[tuple[float, float]]) -> None:
    cost, success = columns(drawn)
    corners = hull(cost, success)
    assert set(corners) <= set(np.flatnonzero(on_frontier(cost, success)).tolist())
    slopes = [(success[j] - success[i]) / (cost[j] - cost[i]) for i, j in pairwise(corners)]
    assert all(slope > 0 for slope in slopes)
    assert all(earlier > later for earlier, later in pairwise(slopes))


def test_unpriced_rows_are_not_free(shared: Path) -> None:
    [case] = [
        one
        for one in map(json.loads, (shared / "cases" / "cases.jsonl").read_text("utf-8").splitlines())
        if one["id"] == "dataset_replay-15"
    ]
    rows = yaml.safe_load((shared / case["input"]["file"]).read_text("utf-8"))
    priced = [float(row.get("total_cost") or math.nan) for row in rows]
    success = [float(row["pass_rate_2"]) for row in rows]
    assert (len(rows), sum(math.isnan(cost) for cost in priced)) == (case["expected"]["rows"], case["expected"]["zero_cost_rows"])
    found = sorted([priced[i], success[i]] for i in np.flatnonzero(on_frontier(priced, success)))
    assert found == case["expected"]["frontier"]
    free = sorted([float(row.get("total_cost") or 0), float(row["pass_rate_2"])] for row in rows)
    wrong = on_frontier(*(list(column) for column in zip(*free, strict=True)))
    assert free[int(np.flatnonzero(wrong)[0])] == case["expected"]["known_wrong_first"]


def test_the_probability_of_being_on_the_frontier_follows_the_evidence() -> None:
    rng = np.random.default_rng(5)
    n = 200
    cost = np.tile([1.0, 2.0, 3.0, math.nan], (n, 1))
    # The second is better than the first for sure; the third is exactly as good as the second, problem by problem or not.
    second = (rng.random(n) < 0.7).astype(float)
    success = np.stack([(rng.random(n) < 0.3).astype(float), second, second, np.ones(n)], axis=1)
    found = frontier_probability(cost, success, resamples=400, seed=1)
    assert found[0] == 1.0
    assert found[1] > 0.99
    assert found[2] == 0.0  # dearer and never better
    assert math.isnan(found[3])  # an unknown cost is not a low one
    assert frontier_probability(cost, success, resamples=400, seed=1).tolist()[:3] == found.tolist()[:3]


def test_equal_cost_reads_both_at_one_cost_and_pairs_the_problems() -> None:
    rng = np.random.default_rng(2)
    n = 300
    hard = rng.random(n)
    cheap, dear = (hard < 0.4).astype(float), (hard < 0.8).astype(float)
    other = (hard < 0.5).astype(float)
    cost_a, success_a = np.tile([1.0, 3.0], (n, 1)), np.stack([cheap, dear], axis=1)
    cost_b, success_b = np.full((n, 1), 2.0), other[:, None]
    found = equal_cost(cost_a, success_a, cost_b, success_b, 2.0, resamples=500, seed=3)
    assert found is not None
    assert found.value == pytest.approx((0.5 * cheap + 0.5 * dear - other).mean())
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    unpaired = 1.96 * math.sqrt(np.var(0.5 * cheap + 0.5 * dear) / n + np.var(other) / n)
    assert found.high - found.low < 2 * unpaired
    # Half of the money buys neither B nor anything like it.
    assert equal_cost(cost_a, success_a, cost_b, success_b, 1.5) is None


def test_the_interval_of_an_equal_cost_difference_covers_it() -> None:
    inside = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 80
        hard = rng.random(n)
        a = np.stack([(rng.random(n) < 0.8 - 0.5 * hard), (rng.random(n) < 0.95 - 0.5 * hard)], axis=1).astype(float)
        b = (rng.random(n) < 0.8 - 0.4 * hard)[:, None].astype(float)
        found = equal_cost(np.tile([1.0, 2.0], (n, 1)), a, np.full((n, 1), 1.5), b, 1.5, resamples=300, seed=seed)
        assert found is not None
        truth = 0.5 * (0.55 + 0.70) - 0.6
        inside += found.low <= truth <= found.high  # type: ignore[operator]
    assert 0.90 <= inside / 200 <= 0.99


@pytest.mark.parametrize(
    ("cost", "success", "said"),
    [([1.0], [1.0, 2.0], "one of each"), ([[1.0]], [[1.0]], "one cost and one success"), (1.0, 1.0, "one of each")],
)
def test_shapes_that_do_not_fit_are_refused(cost: object, success: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        hull(cost, success)  # type: ignore[arg-type]
