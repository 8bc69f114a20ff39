"""Paired comparisons: the recorded cases, published counts, exact enumeration, and whether the power that is promised is there."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.metrics.published import case, crucible, pooled
from ttc_eval.metrics import (
    best_of_n_at_k,
    compare,
    holm,
    majority_at_k,
    mcnemar,
    paired_difference,
    problem_bootstrap,
    problems_needed,
    sign_flip_test,
    wilson,
)


class TestPairedDifference:
    def test_case_stderr_06(self, shared: Path) -> None:
        given_, want = (case(shared, "stderr-06")[key] for key in ("input", "expected"))
        estimate = paired_difference(given_["strategy_a"], given_["strategy_b"])
        assert (estimate.value, estimate.stderr) == pytest.approx((want["diff"], want["paired_stderr"]), abs=want["abs_tol"])
        assert (estimate.n, estimate.method) == (10, "t over paired problems, 95 %")

    def test_numbers_of_draws_may_differ(self) -> None:
        a, b = [[1, 0], [1, 1], [0, 0]], [1, 0, 0]
        assert paired_difference(a, b).value == pytest.approx(0.5 - 1 / 3)

    def test_a_constant_difference_of_varying_draws_has_a_width(self) -> None:
        estimate = paired_difference([[1, 0], [0, 1]], [0, 0])
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < 0.5 < estimate.high

    @pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 0), (0, 1)])
    def test_policies_that_always_agree_are_not_known_to_be_equal(self, a: int, b: int) -> None:
        estimate = paired_difference([a] * 20, [b] * 20)
        most = wilson(0, 20).high
        assert most is not None
        value = a - b
        assert (estimate.low, estimate.high) == pytest.approx((value - most * (value + 1), value + most * (1 - value)))

    def test_costs_that_always_agree_have_no_interval(self) -> None:
        assert paired_difference([5.0, 6.0, 7.0], [4.0, 5.0, 6.0], share=False).low is None

    def test_other_problems_are_refused(self) -> None:
        with pytest.raises(ValueError, match="3 problems and b has 2"):
            paired_difference([1, 0, 1], [1, 0])


class TestMcNemar:
    def test_gsm8k_solutions_of_two_systems(self, shared: Path) -> None:
        lines = (shared / "data/gsm8k/example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        tuned, verified = ([row[name]["is_correct"] for row in rows] for name in ("175b_finetuning", "6b_verification"))
        found = mcnemar(tuned, verified)
        assert sorted((found.only_a, found.only_b)) == [152, 209]
        assert found.p == pytest.approx(stats.binomtest(152, 361).pvalue, rel=1e-10)
        assert found.n == 1319

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
    def test_equals_scipys_binomial_test(self, pairs: list[tuple[bool, bool]]) -> None:
        a, b = zip(*pairs, strict=True)
        found = mcnemar(a, b)
        apart = found.only_a + found.only_b
        want = stats.binomtest(found.only_a, apart).pvalue if apart else 1.0
        assert found.p == pytest.approx(want, rel=1e-9)
        assert mcnemar(b, a).p == found.p
        json.dumps(asdict(found), allow_nan=False)

    @pytest.mark.parametrize(("a", "b"), [([], []), ([1, 0], [1]), ([[1]], [[1]]), ([0.5], [1])])
    def test_bad_input_is_refused(self, a: Any, b: Any) -> None:
        with pytest.raises(ValueError):
            mcnemar(a, b)


class TestSignFlips:
    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
    def test_few_differences_equal_enumeration(self, differences: list[int]) -> None:
        far = abs(sum(differences))
        sums = [
            sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in itertools.product((1, -1), repeat=len(differences))
        ]
        found = sign_flip_test(differences)
        assert found.p == pytest.approx(sum(abs(total) >= far for total in sums) / len(sums))
        assert (found.error, found.method) == (0.0, "exact sign flips, two-sided")

    def test_outcomes_give_mcnemars_p(self) -> None:
        a, b = np.array([1] * 9 + [0] * 4 + [1, 0] * 10, dtype=bool), np.array([0] * 9 + [1] * 4 + [1, 0] * 10, dtype=bool)
        assert sign_flip_test(a, b).p == pytest.approx(mcnemar(a, b).p)

    def test_sampled_flips_agree_with_mcnemar_within_their_error(self) -> None:
        a, b = np.array([1] * 24 + [0] * 12 + [1], dtype=bool), np.array([0] * 24 + [1] * 12 + [1], dtype=bool)
        found = sign_flip_test(a, b, seed=5)
        assert found.error > 0
        assert found.p == pytest.approx(mcnemar(a, b).p, abs=4 * found.error)
        assert found == sign_flip_test(a, b, seed=5)
        assert found.p != sign_flip_test(a, b, seed=6).p

    def test_a_sampled_p_is_never_0(self) -> None:
        found = sign_flip_test(np.ones(40), np.zeros(40), flips=99)
        assert found.p == 0.01

    def test_rounding_does_not_break_a_tie(self) -> None:
        assert sign_flip_test([0.1, 0.2, -0.3, 0.3]).p == sign_flip_test([1, 2, -3, 3]).p

    def test_is_as_strict_as_it_says(self) -> None:
        rng = np.random.default_rng(12)
        rejected = sum(sign_flip_test(rng.normal(size=25), flips=199, seed=i).p <= 0.1 for i in range(400))
        assert 0.06 <= rejected / 400 <= 0.14

    def test_bad_input_is_refused(self) -> None:
        with pytest.raises(ValueError, match="flips"):
            sign_flip_test([1.0, 2.0], flips=0)
        with pytest.raises(ValueError, match="same problems"):
            sign_flip_test([1.0, 2.0], [1.0])


class TestHolm:
    def test_textbook_steps(self) -> None:
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    @given(st.lists(st.floats(0, 1), max_size=12))
    def test_is_between_the_raw_p_and_bonferroni_and_keeps_the_order(self, p: list[float]) -> None:
        adjusted = holm(p)
        for raw, value in zip(p, adjusted, strict=True):
            assert raw <= value <= min(1.0, raw * len(p)) + 1e-15
        for i, j in itertools.combinations(range(len(p)), 2):
            assert (p[i] - p[j]) * (adjusted[i] - adjusted[j]) >= 0

    @pytest.mark.parametrize("p", [[0.1, math.nan], [1.5], [-0.1], [[0.1]]])
    def test_bad_input_is_refused(self, p: Any) -> None:
        with pytest.raises(ValueError):
            holm(p)


class TestPower:
    def test_that_many_problems_resolve_the_effect_as_often_as_promised(self) -> None:
        rng = np.random.default_rng(20)
        pilot = rng.normal(0.1, 0.5, 5000)
        m = problems_needed(pilot, 0.1, power=0.8)
        assert m is not None
        found = 0
        for _ in range(600):
            estimate = paired_difference(rng.normal(0.1, 0.5, m), np.zeros(m), share=False)
            found += estimate.low is not None and estimate.low > 0
        assert 0.75 <= found / 600 <= 0.86

    def test_grows_with_the_square_of_the_effect(self) -> None:
        pilot = np.random.default_rng(1).normal(0.0, 1.0, 500)
        small, large = problems_needed(pilot, 0.02), problems_needed(pilot, 0.2)
        assert small is not None
        assert large is not None
        assert small == pytest.approx(100 * large, rel=0.02)

    def test_small_numbers_use_students_distribution(self) -> None:
        pilot = [1.0, -1.0] * 500
        m = problems_needed(pilot, 1.2)
        assert m is not None
        assert m > (1.96 + 0.84) ** 2 / 1.2**2 + 1
        quantiles = stats.t.ppf(0.975, m - 1) + stats.t.ppf(0.8, m - 1)
        assert m >= quantiles**2 / 1.2**2 * 0.999

    @pytest.mark.parametrize(("differences", "effect"), [([0.0] * 9, 0.1), ([1.0, -1.0], None), ([1.0], 0.5), ([1.0, 0.0], 0.0)])
    def test_what_cannot_be_told_is_none(self, differences: list[float], effect: float | None) -> None:
        assert problems_needed(differences, effect) is None

    @pytest.mark.parametrize("options", [{"confidence": 95}, {"power": 1.0}])
    def test_bad_input_is_refused(self, options: dict[str, float]) -> None:
        with pytest.raises(ValueError):
            problems_needed([1.0, 0.0], **options)


class TestCompare:
    def test_a_clear_difference_is_resolved(self) -> None:
        found = compare(np.arange(60) < 50, np.arange(60) < 25)
        assert found.resolved
        assert str(found).endswith(": resolved")
        json.dumps(asdict(found), allow_nan=False)

    def test_a_small_one_names_the_problems_that_would_do(self) -> None:
        a, b = np.arange(40) % 10 < 6, np.arange(40) % 10 > 4
        found = compare(a, b, effect=0.1)
        assert not found.resolved
        assert found.needed is not None
        assert found.needed > 40
        assert str(found).endswith(f"not resolvable with 40 problems; about {found.needed} would do for a difference of 0.1 (power 0.8)")

    def test_an_interval_from_five_problems_that_differ_is_not_enough(self) -> None:
        found = compare(np.arange(120) < 65, np.arange(120) < 60)
        assert found.difference.low is not None
        assert found.difference.low > 0
        assert found.test.p == 2 / 2**5
        assert not found.resolved
        assert found.needed is not None
        assert found.needed > 120

    def test_what_would_have_been_resolved_is_not_asked_for_again(self) -> None:
        found = compare(np.arange(400) % 10 < 6, np.arange(400) % 10 > 3, effect=0.5)
        assert not found.resolved
        assert str(found).endswith("not resolved, where a difference of 0.5 would have been (power 0.8)")

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
    def test_asks_for_more_problems_than_did_not_do(self, pairs: list[tuple[bool, bool]]) -> None:
        found = compare(*zip(*pairs, strict=True))
        assert found.resolved or found.needed is None or found.needed > len(pairs)
        assert not found.resolved or found.test.p <= 0.05

    def test_policies_that_always_agree_cannot_be_told_apart(self) -> None:
        found = compare([1, 0, 1], [1, 0, 1])
        assert (found.resolved, found.needed, found.test.p) == (False, None, 1.0)
        assert "cannot be told" in str(found)

    def test_crucible_prm_at_4_against_majority_at_8(self, shared: Path) -> None:
        classes, correct, scores = (values.reshape(120, 8) for values in crucible(shared))
        prm = best_of_n_at_k(scores, correct, 4).reshape(3, 40).mean(axis=0)
        vote = majority_at_k(classes, correct, 8).reshape(3, 40).mean(axis=0)
        boot = problem_bootstrap(prm - vote)
        assert [round(100 * value, 1) for value in (boot.value, boot.low or 0)] == [-2.1, -6.7]
        assert 100 * (boot.high or 0) == pytest.approx(2.3, abs=0.1)
        found = compare(prm, vote)
        assert not found.resolved
        assert found.needed is not None
        assert found.needed > 300

    def test_crucible_intervals_by_problem_are_wider_than_pooled_ones(self, shared: Path) -> None:
        _, correct, scores = crucible(shared)
        hits = np.stack([best_of_n_at_k(scores[seed], correct[seed], 8) for seed in range(3)], axis=1)
        boot, flat = problem_bootstrap(hits.mean(axis=1)), wilson(int(hits.sum()), 120)
        assert [round(100 * (end or 0)) for end in (flat.low, flat.high)] == [46, 64]
        assert [round(100 * (end or 0), 1) for end in (boot.low, boot.high)] == pytest.approx([40.8, 68.3], abs=0.1)
        assert pooled(correct).shape == (40, 24)
