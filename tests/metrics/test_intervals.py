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
from tests.metrics.published import case
from ttc_eval.metrics import Estimate, cluster_mean, cluster_ratio, cluster_wilson, problem_bootstrap, two_level, wilson

numbers = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(-1e6, 1e6))


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


class TestWilson:
    def test_case_stderr_04(self, shared: Path) -> None:
        given_, want = (case(shared, "stderr-04")[key] for key in ("input", "expected"))
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
        found = wilson(3, 8)
        assert (found.value, found.method, found.n) == (0.375, "Wilson, 95 %", 8)
        assert found.stderr == pytest.approx(math.sqrt(0.375 * 0.625 / 8))
        assert str(found) == "0.375 [0.137, 0.694] (Wilson, 95 %, n = 8)"
        assert wilson(0, 8).stderr is None
        assert wilson(3, 8, z=1.96).method == "Wilson, z = 1.96"

    @pytest.mark.parametrize(
        ("successes", "n", "options"), [(0, 0, {}), (3, 2, {}), (-1, 2, {}), (0.5, 2, {}), (1, 2, {"confidence": 95}), (1, 2, {"z": -1.0})]
    )
    def test_bad_input_is_refused(self, successes: Any, n: int, options: dict[str, float]) -> None:
        with pytest.raises(ValueError):
            wilson(successes, n, **options)


class TestClusterMean:
    def test_case_stderr_01(self, shared: Path) -> None:
        given_, want = (case(shared, "stderr-01")[key] for key in ("input", "expected"))
        estimate = cluster_mean(given_["scores"])
        assert (estimate.value, estimate.stderr) == pytest.approx((want["mean"], want["stderr"]), abs=want["abs_tol"])
        assert estimate.n == want["n_clusters"]

    def test_case_stderr_02(self, shared: Path) -> None:
        given_, want = (case(shared, "stderr-02")[key] for key in ("input", "expected"))
        estimate = cluster_mean(given_["scores"])
        assert (estimate.value, estimate.stderr, estimate.low, estimate.high) == (want["mean"], None, None, None)
        json.dumps(asdict(estimate), allow_nan=False)

    def test_interval_is_students_t(self) -> None:
        values = [0.0, 0.25, 1.0, 0.5, 0.75]
        want = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
        assert ends(cluster_mean(values)) == pytest.approx(want)
        assert cluster_mean(values).method == "t over problems, 95 %"

    def test_z_replaces_the_t_quantile(self) -> None:
        estimate = cluster_mean([0.0, 1.0, 1.0], z=1.96)
        assert estimate.stderr is not None
        assert ends(estimate) == pytest.approx((estimate.value - 1.96 * estimate.stderr, 1.0))
        assert estimate.method == "normal over problems, z = 1.96"

    @settings(deadline=None)
    @given(st.integers(2, 6), st.integers(1, 4), st.data())
    def test_data_that_vary_have_a_width(self, problems: int, draws: int, data: st.DataObject) -> None:
        row = st.lists(numbers, min_size=draws, max_size=draws)
        values = np.array(data.draw(st.lists(row, min_size=problems, max_size=problems)))
        estimate = cluster_mean(values)
        json.dumps(asdict(estimate), allow_nan=False)
        if (values != values[0, 0]).any() or (0 <= values[0, 0] <= 1):
            low, high = ends(estimate)
            assert low < high
            assert low <= estimate.value <= high
        else:
            assert (estimate.stderr, estimate.low, estimate.high) == (None, None, None)
            assert estimate.method == f"none: all {problems} values are the same"

    @pytest.mark.parametrize(
        "values", [[0.0, 1e-200], [1.0, 1.0 + 2**-52], [1.0] * 1000 + [1.0 + 2**-52], [[0, 1], [1, 0]], [-1e200, 1e200]]
    )
    def test_extreme_scales_keep_a_width(self, values: Any) -> None:
        low, high = ends(cluster_mean(values))
        assert low < high

    @pytest.mark.parametrize("draws", [1, 5])
    def test_outcomes_that_are_all_the_same_get_wilsons_interval(self, draws: int) -> None:
        # Five draws of a problem are no five problems: the interval is that of the problems.
        for value, successes in ((1.0, 30), (0.0, 0)):
            estimate = cluster_mean(np.full((30, draws), value))
            assert ends(estimate) == pytest.approx(ends(wilson(successes, 30)))
            assert (estimate.value, estimate.stderr, estimate.n) == (value, None, 30)
            assert estimate.method == "Wilson, all 30 problems alike, 95 %"

    def test_shares_that_are_all_the_same_reach_towards_both_ends(self) -> None:
        low, high = ends(cluster_mean(np.full((7, 3), 0.1)))
        most = ends(wilson(0, 7))[1]
        assert (low, high) == pytest.approx((0.1 - most * 0.1, 0.1 + most * 0.9))
        assert cluster_mean([0.9 - 0.6, 0.7 - 0.4, 0.3]).method.startswith("Wilson, all 3")  # rounding is not variation

    def test_costs_that_are_all_the_same_have_no_interval(self) -> None:
        estimate = cluster_mean([1.0, 1.0, 1.0], share=False)  # one call per problem says nothing about another problem's
        assert (estimate.value, estimate.low) == (1.0, None)

    def test_a_share_stays_in_0_to_1_and_a_cost_does_not(self) -> None:
        values = [0.0] * 9 + [0.9]
        assert ends(cluster_mean(values))[0] == 0.0
        assert ends(cluster_mean(values, share=False))[0] < 0

    def test_numbers_of_draws_may_differ(self) -> None:
        ragged = [[1, 0, 1, 0], [1], [0, 0]]
        estimate, means = cluster_mean(ragged), cluster_mean([0.5, 1.0, 0.0])
        assert (estimate.value, estimate.stderr, ends(estimate)) == (means.value, means.stderr, ends(means))

    @pytest.mark.parametrize("values", [[], [[]], [1.0, math.nan], [1.0, math.inf], np.zeros((2, 2, 2)), 1.0])
    def test_bad_input_is_refused(self, values: Any) -> None:
        with pytest.raises(ValueError):
            cluster_mean(values)


class TestClusterWilson:
    def test_with_one_draw_it_is_nearly_wilsons(self) -> None:
        values = np.arange(200) < 150
        low, high = ends(cluster_wilson(values))
        assert (low, high) == pytest.approx(ends(wilson(150, 200)), abs=0.002)

    def test_repeated_draws_count_by_their_problems(self) -> None:
        values = np.repeat((np.arange(40) < 22)[:, None], 3, axis=1)  # three draws that say the same are one
        assert ends(cluster_wilson(values)) == pytest.approx(ends(cluster_wilson(values[:, 0])))
        assert np.diff(ends(cluster_wilson(values))) > 1.6 * np.diff(ends(wilson(66, 120)))

    @settings(deadline=None)
    @given(st.integers(2, 12), st.integers(1, 5), st.data())
    def test_is_inside_0_and_1_around_the_mean_with_a_width(self, problems: int, draws: int, data: st.DataObject) -> None:
        row = st.lists(st.booleans(), min_size=draws, max_size=draws)
        values = data.draw(st.lists(row, min_size=problems, max_size=problems))
        estimate = cluster_wilson(values)
        low, high = ends(estimate)
        assert 0 <= low < high <= 1
        assert low - 1e-12 <= estimate.value <= high + 1e-12

    def test_other_values_are_refused(self) -> None:
        with pytest.raises(ValueError, match="cluster_mean"):
            cluster_wilson([0.0, 2.0])


class TestClusterRatio:
    def test_equal_counts_give_the_mean_of_the_problems(self) -> None:
        draws = np.random.default_rng(0).random((30, 4)) < 0.4
        ratio, mean = cluster_ratio(draws.sum(axis=1), np.full(30, 4)), cluster_mean(draws)
        assert (ratio.value, ratio.stderr) == pytest.approx((mean.value, mean.stderr))
        assert ends(ratio) == pytest.approx(ends(mean))

    def test_agrees_with_the_bootstrap(self) -> None:
        rng = np.random.default_rng(1)
        tokens, right = rng.gamma(3.0, 100.0, 80), rng.integers(0, 5, 80)
        ratio = cluster_ratio(tokens, right)
        boot = problem_bootstrap(tokens, right, statistic=lambda x, y, axis=-1: x.sum(axis=axis) / y.sum(axis=axis), resamples=4000)
        assert ratio.value == boot.value == pytest.approx(tokens.sum() / right.sum())
        assert ratio.stderr == pytest.approx(boot.stderr, rel=0.1)

    def test_a_ratio_that_is_always_the_same(self) -> None:
        all_right = cluster_ratio([3, 0, 1, 7], [3, 0, 1, 7])
        assert ends(all_right) == pytest.approx(ends(wilson(3, 3)))  # the problem without an answer shows nothing
        assert cluster_ratio([0.3, 0.6, 0.9], [1, 2, 3], share=False).low is None

    @pytest.mark.parametrize(
        ("totals", "counts"), [([1.0], [0.0]), ([1.0, 2.0], [1.0]), ([1.0], [-1.0]), ([math.nan], [1.0]), ([[1.0]], [[1.0]])]
    )
    def test_undefined_and_bad_input_is_refused(self, totals: Any, counts: Any) -> None:
        with pytest.raises(ValueError):
            cluster_ratio(totals, counts)


class TestTwoLevel:
    def test_finds_both_variances(self) -> None:
        rng = np.random.default_rng(6)
        draws = rng.normal(0.0, 2.0, (4000, 1)) + rng.normal(0.0, 3.0, (4000, 5))
        found = two_level(draws)
        assert (found.between, found.within) == pytest.approx((4.0, 9.0), rel=0.1)
        assert found.stderr() == pytest.approx(cluster_mean(draws).stderr)
        assert found.rerun_stderr == pytest.approx(math.sqrt(9 / 5 / 4000), rel=0.05)

    def test_predicts_what_more_draws_and_more_problems_would_give(self) -> None:
        rng = np.random.default_rng(6)
        rates = rng.beta(1.0, 1.0, (3000, 1))
        planned = two_level(rng.random((3000, 2)) < rates).stderr(problems=1500, draws=16)
        assert planned == pytest.approx(cluster_mean(rng.random((1500, 16)) < rates[:1500]).stderr, rel=0.05)

    def test_numbers_of_draws_may_differ(self) -> None:
        found = two_level([[0, 2], [4, 6, 5], [9]])
        assert (found.problems, found.draws) == (3, pytest.approx(3 / (1 / 2 + 1 / 3 + 1)))
        assert found.within == pytest.approx((2 + 2) / 3)

    @pytest.mark.parametrize("values", [[[1, 0]], [[1], [0]], [[1, 0], [1, math.nan]], [[[1, 0]], [[1, 0]]]])
    def test_bad_input_is_refused(self, values: Any) -> None:
        with pytest.raises(ValueError):
            two_level(values)


class TestProblemBootstrap:
    def test_a_seed_repeats(self) -> None:
        values = np.random.default_rng(2).random(40)
        assert problem_bootstrap(values, seed=3) == problem_bootstrap(values, seed=3)
        assert problem_bootstrap(values, seed=3) != problem_bootstrap(values, seed=4)

    def test_agrees_with_the_t_interval_of_a_mean(self) -> None:
        values = np.random.default_rng(2).normal(10.0, 2.0, 200)
        estimate, exact = problem_bootstrap(values), cluster_mean(values)
        assert estimate.value == pytest.approx(exact.value)
        assert estimate.stderr == pytest.approx(exact.stderr, rel=0.05)
        assert ends(estimate) == pytest.approx(ends(exact), abs=0.05)

    def test_columns_stay_paired(self) -> None:
        tokens = np.random.default_rng(2).random(30) * 100
        estimate = problem_bootstrap(tokens, 2 * tokens, statistic=lambda x, y: y.sum() / x.sum(), resamples=200)
        assert (estimate.value, estimate.low, estimate.method) == (2.0, None, "none: all resamples give the same number")

    def test_bca_follows_the_skew(self) -> None:
        costs = np.random.default_rng(2).lognormal(0.0, 1.5, 60)
        (low, high), (low_bca, high_bca) = ends(problem_bootstrap(costs)), ends(problem_bootstrap(costs, kind="bca"))
        assert low < low_bca
        assert high < high_bca
        assert problem_bootstrap(costs, kind="bca").method.startswith("BCa bootstrap over problems")
        with pytest.raises(ValueError, match="kind"):
            problem_bootstrap(costs, kind="basic")  # type: ignore[arg-type]

    def test_where_bca_is_undefined_the_percentile_interval_says_so(self) -> None:
        values = [0.0] * 13 + [1.0] * 10  # leaving out any one problem leaves the median where it is
        bca, plain = (problem_bootstrap(values, statistic=np.median, resamples=2000, kind=kind) for kind in ("bca", "percentile"))
        assert bca.method.startswith("bootstrap (BCa undefined) over problems")
        assert ends(bca) == ends(plain) == (0.0, 1.0)

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0]), min_size=2, max_size=25), st.sampled_from(["percentile", "bca"]))
    def test_no_interval_of_width_0(self, values: list[float], kind: Any) -> None:
        for statistic in (np.mean, np.median):
            estimate = problem_bootstrap(values, statistic=statistic, kind=kind, resamples=300)
            assert estimate.low is None or (estimate.high is not None and estimate.low < estimate.high)
            assert estimate.low is not None or len(set(values)) == 1 or statistic is np.median

    def test_one_problem_has_no_interval(self) -> None:
        estimate = problem_bootstrap([3.0])
        assert (estimate.value, estimate.stderr, estimate.low, estimate.n) == (3.0, None, None, 1)

    def test_constant_and_nearly_constant_columns_give_numbers(self) -> None:
        assert problem_bootstrap([1.0] * 20, resamples=500).low is None
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
@given(st.lists(st.booleans(), min_size=2, max_size=30).filter(lambda labels: len(set(labels)) == 2))
def test_bootstrap_contains_the_mean_of_any_labels(labels: list[bool]) -> None:
    low, high = ends(problem_bootstrap(np.array(labels, dtype=float), resamples=400))
    assert low <= np.mean(labels) + 1e-12
    assert high >= np.mean(labels) - 1e-12
