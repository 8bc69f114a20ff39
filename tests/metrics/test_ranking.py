"""AUROC, Brier score and reliability against brute force over pairs and draws, and the published verifier scores."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.published import crucible, pooled
from ttc_eval.metrics import auroc, auroc_pooled, auroc_within, brier, cluster_ratio, reliability

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan])


def by_pairs(scores: list[float], correct: list[bool], invalid: str) -> tuple[float, int]:
    """Pairs that are ranked right, ties half, and all pairs."""
    used = [(-1.0 if math.isnan(s) else s, y) for s, y in zip(scores, correct, strict=True) if invalid == "lowest" or not math.isnan(s)]
    pairs = [(right, wrong) for (right, y), (wrong, z) in itertools.product(used, used) if y and not z]
    return sum(1.0 if right > wrong else 0.5 * (right == wrong) for right, wrong in pairs), len(pairs)


@st.composite
def scored(draw: st.DrawFn) -> tuple[list[list[float]], list[list[bool]]]:
    problems, n = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    scores = draw(st.lists(st.lists(SCORES, min_size=n, max_size=n), min_size=problems, max_size=problems))
    correct = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=problems, max_size=problems))
    return scores, correct


class TestAuroc:
    @settings(deadline=None)
    @given(scored(), st.sampled_from(["lowest", "left_out"]))
    def test_pooled_equals_all_pairs(self, drawn: tuple[list[list[float]], list[list[bool]]], invalid: Any) -> None:
        scores, correct = drawn
        won, pairs = by_pairs([*itertools.chain(*scores)], [*itertools.chain(*correct)], invalid)
        found, estimate = auroc(scores, correct, invalid), auroc_pooled(scores, correct, invalid=invalid)
        if not pairs:
            assert found is None
            assert estimate is None
            return
        assert found == pytest.approx(won / pairs)
        assert estimate is not None
        assert estimate.value == pytest.approx(won / pairs)
        assert estimate.low is None or 0 <= estimate.low < (estimate.high or 0) <= 1

    @settings(deadline=None)
    @given(scored(), st.sampled_from(["lowest", "left_out"]))
    def test_within_equals_the_pairs_of_each_problem(self, drawn: tuple[list[list[float]], list[list[bool]]], invalid: Any) -> None:
        scores, correct = drawn
        found = [by_pairs(*row, invalid) for row in zip(scores, correct, strict=True)]
        both = [(won, pairs) for won, pairs in found if pairs]
        equal, by_pair = (auroc_within(scores, correct, weights, invalid=invalid) for weights in ("problems", "pairs"))
        if not both:
            assert equal is by_pair is None
            return
        assert equal is not None
        assert by_pair is not None
        assert equal.value == pytest.approx(np.mean([won / pairs for won, pairs in both]))
        assert by_pair.value == pytest.approx(sum(won for won, _ in both) / sum(pairs for _, pairs in both))
        assert equal.n == by_pair.n == len(both)

    def test_knowing_only_which_problem_is_easy_is_worth_nothing_within(self) -> None:
        rng = np.random.default_rng(3)
        ease = rng.random((400, 1))
        correct = rng.random((400, 6)) < ease
        scores = np.repeat(ease, 6, axis=1)
        across, within = auroc(scores, correct), auroc_within(scores, correct)
        assert across is not None
        assert within is not None
        assert across > 0.75
        assert within.value == 0.5

    def test_crucible_pooled(self, shared: Path) -> None:
        _, correct, scores = map(pooled, crucible(shared))
        estimate, within = auroc_pooled(scores, correct), auroc_within(scores, correct)
        assert estimate is not None
        assert within is not None
        assert f"{estimate.value:.4f}" == "0.9285"
        assert (estimate.n, within.n) == (40, 27)
        assert within.value < estimate.value - 0.1

    def test_a_perfect_verifier_still_has_an_interval(self) -> None:
        correct = np.random.default_rng(0).random((20, 4)) < 0.5
        estimate = auroc_pooled(correct.astype(float), correct)
        assert estimate is not None
        assert estimate.value == 1.0
        assert (estimate.low or 0) < 1.0 == estimate.high

    def test_the_interval_of_the_pooled_one_equals_a_bootstrap_over_problems(self) -> None:
        rng = np.random.default_rng(8)
        correct = rng.random((60, 5)) < rng.random((60, 1))
        scores = np.round(correct + rng.normal(0.0, 1.0, (60, 1)) + rng.normal(0.0, 1.0, (60, 5)), 1)
        estimate = auroc_pooled(scores, correct)
        again = []
        for _ in range(800):
            rows = rng.integers(0, 60, 60)
            again.append(auroc(scores[rows], correct[rows]))
        assert estimate is not None
        assert estimate.stderr == pytest.approx(np.std(np.array(again, dtype=float)), rel=0.12)

    @pytest.mark.parametrize(("scores", "correct", "invalid"), [([[1.0]], [[True, False]], "lowest"), ([[1.0, 2.0]], [[1, 0]], "dropped")])
    def test_bad_input_is_refused(self, scores: Any, correct: Any, invalid: Any) -> None:
        for function in (auroc, auroc_pooled):
            with pytest.raises(ValueError):
                function(scores, correct, invalid=invalid)
        with pytest.raises(ValueError):
            auroc_within(scores, correct, invalid=invalid)
        with pytest.raises(ValueError):
            auroc_within([[1.0, 2.0]], [[1, 0]], "draws")  # type: ignore[arg-type]


class TestCalibration:
    @settings(deadline=None)
    @given(scored())
    def test_brier_equals_the_mean_of_problems(self, drawn: tuple[list[list[float]], list[list[bool]]]) -> None:
        scores, correct = drawn
        squares = [[(s - y) ** 2 for s, y in zip(*row, strict=True) if not math.isnan(s)] for row in zip(scores, correct, strict=True)]
        means = [np.mean(row) for row in squares if row]
        found = brier(scores, correct)
        assert (found is None) == (not means)
        if found is not None:
            assert (found.value, found.n) == (pytest.approx(np.mean(means)), len(means))

    @settings(deadline=None)
    @given(scored(), st.integers(1, 6), st.sampled_from(["width", "count"]))
    def test_every_valid_draw_is_in_one_bin(self, drawn: tuple[list[list[float]], list[list[bool]]], bins: int, by: Any) -> None:
        scores, correct = map(np.array, drawn)
        found = reliability(scores, correct, bins, by)
        valid = ~np.isnan(scores)
        assert sum(one.draws for one in found) == valid.sum()
        assert sum(one.draws * one.right.value for one in found) == pytest.approx((correct & valid).sum())
        assert sum(one.draws * one.score for one in found) == pytest.approx(scores[valid].sum())
        assert len(found) <= bins
        assert all(one.low - 1e-12 <= one.score <= one.high + 1e-12 for one in found)

    def test_a_bins_interval_is_that_of_its_problems(self) -> None:
        rng = np.random.default_rng(4)
        scores = rng.random((50, 6))
        correct = rng.random((50, 6)) < scores
        found = reliability(scores, correct, bins=4)
        assert [one.low for one in found] == [0.0, 0.25, 0.5, 0.75]
        last = scores >= 0.75
        rows = last.any(axis=1)
        assert found[3].right == cluster_ratio((last & correct).sum(axis=1)[rows], last.sum(axis=1)[rows])
        assert all((one.right.low or 0) <= one.score <= (one.right.high or 1) for one in found)

    def test_bins_of_equal_count(self) -> None:
        scores = np.random.default_rng(5).beta(5, 1, (100, 4))
        counts = [one.draws for one in reliability(scores, scores > 0.8, bins=5, by="count")]
        assert sum(counts) == 400
        assert max(counts) - min(counts) <= 2

    def test_without_valid_scores_there_is_nothing(self) -> None:
        assert brier([[math.nan]], [[True]]) is None
        assert reliability([[math.nan]], [[True]]) == ()

    def test_scores_that_are_no_probabilities_are_refused(self) -> None:
        for function in (brier, reliability):
            with pytest.raises(ValueError, match="probabilities"):
                function([[1.5]], [[True]])
        with pytest.raises(ValueError, match="bins"):
            reliability([[0.5]], [[True]], bins=0)
