"""Intervals: the recorded cases, coverage, and the promises about degenerate data."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import ttc_eval.metrics
from ttc_eval.metrics import Estimate, Interval, cluster_mean, paired_difference, problem_bootstrap, wilson

numbers = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(-1e6, 1e6))


def case(shared: Path, case_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    for line in (shared / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if found["id"] == case_id:
            return found["input"], found["expected"]
    raise LookupError(case_id)


def ends(estimate: Estimate | Interval) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


class TestWilson:
    def test_case_stderr_04(self, shared: Path) -> None:
        given_, want = case(shared, "stderr-04")
        interval = wilson(given_["successes"], given_["n"], z=given_["z"])
        assert ends(interval) == pytest.approx(tuple(want["interval"]), abs=1e-9)

    @settings(deadline=None)
    @given(st.integers(1, 5000), st.data())
    def test_equals_scipy(self, n: int, data: st.DataObject) -> None:
        successes = data.draw(st.integers(0, n))
        want = stats.binomtest(successes, n).proportion_ci(0.9, method="wilson")
        assert ends(wilson(successes, n, 0.9)) == pytest.approx((want.low, want.high), abs=1e-12)

    @settings(deadline=None)
    @given(st.integers(1, 10**6), st.data())
    def test_is_inside_0_and_1_around_the_share_and_never_a_point(self, n: int, data: st.DataObject) -> None:
        successes = data.draw(st.integers(0, n))
        low, high = ends(wilson(successes, n))
        assert 0 <= low <= successes / n <= high <= 1
        assert low < high

    def test_states_method_and_n(self) -> None:
        assert wilson(3, 8) == Interval(low=wilson(3, 8).low, high=wilson(3, 8).high, method="Wilson, 95 %", n=8)
        assert wilson(3, 8, z=1.96).method == "Wilson, z = 1.96"

    @pytest.mark.parametrize(
        ("successes", "n", "options"), [(0, 0, {}), (3, 2, {}), (-1, 2, {}), (0.5, 2, {}), (1, 2, {"confidence": 95}), (1, 2, {"z": -1.0})]
    )
    def test_bad_input_is_refused(self, successes: Any, n: int, options: dict[str, float]) -> None:
        with pytest.raises(ValueError):
            wilson(successes, n, **options)


class TestClusterMean:
    def test_case_stderr_01(self, shared: Path) -> None:
        given_, want = case(shared, "stderr-01")
        estimate = cluster_mean(given_["scores"])
        assert (estimate.mean, estimate.stderr) == pytest.approx((want["mean"], want["stderr"]), abs=want["abs_tol"])
        assert estimate.n == want["n_clusters"]

    def test_case_stderr_02(self, shared: Path) -> None:
        given_, want = case(shared, "stderr-02")
        estimate = cluster_mean(given_["scores"])
        assert (estimate.mean, estimate.stderr, estimate.low, estimate.high) == (want["mean"], None, None, None)
        json.dumps(asdict(estimate), allow_nan=False)

    def test_interval_is_students_t(self) -> None:
        values = [0.0, 0.25, 1.0, 0.5, 0.75]
        want = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
        assert ends(cluster_mean(values)) == pytest.approx(want)
        assert cluster_mean(values).method == "t over problems, 95 %"

    def test_z_replaces_the_t_quantile(self) -> None:
        estimate = cluster_mean([0.0, 1.0, 1.0], z=1.96)
        assert estimate.stderr is not None
        assert ends(estimate) == pytest.approx((estimate.mean - 1.96 * estimate.stderr, estimate.mean + 1.96 * estimate.stderr))
        assert estimate.method == "normal over problems, z = 1.96"

    @settings(deadline=None)
    @given(st.integers(2, 6), st.integers(1, 4), st.data())
    def test_data_that_vary_have_a_width_and_constant_data_have_none(self, problems: int, draws: int, data: st.DataObject) -> None:
        row = st.lists(numbers, min_size=draws, max_size=draws)
        values = np.array(data.draw(st.lists(row, min_size=problems, max_size=problems)))
        estimate = cluster_mean(values)
        low, high = ends(estimate)
        assert (low < high) == bool((values != values[0, 0]).any())
        assert low <= estimate.mean <= high
        json.dumps(asdict(estimate), allow_nan=False)

    @pytest.mark.parametrize(
        "values", [[0.0, 1e-200], [1.0, 1.0 + 2**-52], [1.0] * 1000 + [1.0 + 2**-52], [[0, 1], [1, 0]], [-1e200, 1e200]]
    )
    def test_extreme_scales_keep_a_width(self, values: Any) -> None:
        low, high = ends(cluster_mean(values))
        assert low < high

    def test_thirds_in_every_problem_are_constant(self) -> None:
        assert cluster_mean(np.full((7, 3), 0.1)) == Estimate(mean=0.1, stderr=0.0, low=0.1, high=0.1, method="t over problems, 95 %", n=7)

    @pytest.mark.parametrize("values", [[], [[]], [1.0, math.nan], [1.0, math.inf], np.zeros((2, 2, 2)), 1.0])
    def test_bad_input_is_refused(self, values: Any) -> None:
        with pytest.raises(ValueError):
            cluster_mean(values)

    def test_covers_the_truth_about_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(11)
        hits = 0
        for _ in range(400):
            draws = rng.random((30, 8)) < rng.beta(1.0, 1.0, (30, 1))  # draws of a problem share its difficulty
            low, high = ends(cluster_mean(draws))
            hits += low <= 0.5 <= high
        assert 0.91 <= hits / 400 <= 0.985


class TestPairedDifference:
    def test_case_stderr_06(self, shared: Path) -> None:
        given_, want = case(shared, "stderr-06")
        estimate = paired_difference(given_["strategy_a"], given_["strategy_b"])
        assert (estimate.mean, estimate.stderr) == pytest.approx((want["diff"], want["paired_stderr"]), abs=want["abs_tol"])
        assert estimate.n == 10

    def test_numbers_of_draws_may_differ(self) -> None:
        a, b = [[1, 0], [1, 1], [0, 0]], [1, 0, 0]
        assert paired_difference(a, b).mean == pytest.approx(0.5 - 1 / 3)

    def test_a_constant_difference_of_varying_draws_has_a_width(self) -> None:
        low, high = ends(paired_difference([[1, 0], [0, 1]], [0, 0]))
        assert low < 0.5 < high

    def test_other_problems_are_refused(self) -> None:
        with pytest.raises(ValueError, match="3 problems and b has 2"):
            paired_difference([1, 0, 1], [1, 0])


class TestProblemBootstrap:
    def test_a_seed_repeats(self) -> None:
        values = np.random.default_rng(2).random(40)
        assert problem_bootstrap(values, seed=3) == problem_bootstrap(values, seed=3)
        assert problem_bootstrap(values, seed=3) != problem_bootstrap(values, seed=4)

    def test_agrees_with_the_t_interval_of_a_mean(self) -> None:
        values = np.random.default_rng(2).normal(10.0, 2.0, 200)
        estimate, exact = problem_bootstrap(values), cluster_mean(values)
        assert estimate.mean == pytest.approx(exact.mean)
        assert estimate.stderr == pytest.approx(exact.stderr, rel=0.05)
        assert ends(estimate) == pytest.approx(ends(exact), abs=0.05)

    def test_columns_stay_paired(self) -> None:
        tokens = np.random.default_rng(2).random(30) * 100
        estimate = problem_bootstrap(tokens, 2 * tokens, statistic=lambda x, y: y.sum() / x.sum(), resamples=200)
        assert ends(estimate) == pytest.approx((2.0, 2.0))

    def test_one_problem_has_no_interval(self) -> None:
        estimate = problem_bootstrap([3.0])
        assert (estimate.mean, estimate.stderr, estimate.low, estimate.n) == (3.0, None, None, 1)

    def test_constant_and_nearly_constant_columns_give_numbers(self) -> None:
        assert ends(problem_bootstrap([1.0] * 20, resamples=500)) == (1.0, 1.0)
        low, high = ends(problem_bootstrap([1.0] * 20 + [0.0], resamples=500))
        assert low < high

    def test_an_undefined_ratio_is_refused(self) -> None:
        tokens, correct = np.full(4, 10.0), np.array([1.0, 0.0, 0.0, 0.0])
        with pytest.raises(ValueError, match="undefined for some resamples"):
            problem_bootstrap(tokens, correct, statistic=lambda x, y, axis=-1: x.sum(axis=axis) / y.sum(axis=axis), resamples=500)

    @pytest.mark.parametrize("columns", [(), ([1.0, 2.0], [1.0]), ([[1.0]],), ([math.nan],)])
    def test_bad_input_is_refused(self, columns: Any) -> None:
        with pytest.raises(ValueError):
            problem_bootstrap(*columns)


class TestPackage:
    def test_all_is_sorted_and_complete(self) -> None:
        names = ttc_eval.metrics.__all__
        assert names == sorted(names)
        for name in names:
            assert getattr(ttc_eval.metrics, name).__module__.startswith("ttc_eval.metrics.")
            assert name in dir(ttc_eval.metrics)

    def test_an_unknown_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="pass_at_kk"):
            ttc_eval.metrics.pass_at_kk  # noqa: B018

    def test_importing_the_package_imports_no_numerics(self) -> None:
        code = "import sys, ttc_eval.metrics; print({'numpy', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "set()"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=30))
def test_bootstrap_contains_the_mean_of_any_labels(labels: list[bool]) -> None:
    low, high = ends(problem_bootstrap(np.array(labels, dtype=float), resamples=400))
    assert low <= np.mean(labels) + 1e-12
    assert high >= np.mean(labels) - 1e-12
