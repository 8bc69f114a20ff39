"""The estimators against enumeration of every subset, the recorded cases, and published tables."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.published import case, crucible, pooled
from ttc_eval.metrics import best_of_n_at_k, cost_at_k, longest_at_k, majority_at_k, pass_at_k, pass_hat_k, random_pick_at_k

EXACT = {"rel": 1e-12, "abs": 1e-14}


def over_subsets(n: int, k: int, value: Any) -> float:
    """The mean of `value(subset)` over all subsets of k of n draws, as exact fractions."""
    subsets = list(itertools.combinations(range(n), k))
    return float(sum((Fraction(value(subset)) for subset in subsets), Fraction(0)) / len(subsets))


def vote(classes: Sequence[int], credit: dict[int, Fraction], ties: str, subset: Sequence[int]) -> Fraction:
    votes = Counter(classes[i] for i in subset if classes[i] >= 0)
    if not votes:
        return Fraction(0)
    lead = [name for name, count in votes.items() if count == max(votes.values())]
    if len(lead) > 1 and ties == "unresolved":
        return Fraction(0)
    return sum((credit[name] for name in lead), Fraction(0)) / len(lead)


def best(scores: Sequence[float], correct: Sequence[bool], subset: Sequence[int]) -> Fraction:
    def rank(i: int) -> tuple[bool, float]:
        return (False, 0.0) if math.isnan(scores[i]) else (True, scores[i])

    top = [i for i in subset if rank(i) == max(map(rank, subset))]
    return Fraction(sum(correct[i] for i in top), len(top))


def by_whole_numbers(sizes: Sequence[int], silent: int, k: int, unresolved: bool) -> float:
    """The formula of docs/design.md 5 for class 0, in whole numbers and fractions."""
    total = Fraction(0)
    for w in range(1, min(sizes[0], k) + 1):
        ways = {(0, 0): 1}
        for size in sizes[1:]:
            after: Counter[tuple[int, int]] = Counter()
            for (j, t), count in ways.items():
                for x in range(min(size, w, k - w - j) + 1):
                    after[j + x, t + (x == w)] += count * math.comb(size, x)
            ways = after
        others = sum(
            Fraction(count * math.comb(silent, k - w - j), t + 1)
            for (j, t), count in ways.items()
            if k - w - j <= silent and not (unresolved and t)
        )
        total += math.comb(sizes[0], w) * others
    return float(total / math.comb(sum(sizes) + silent, k))


@st.composite
def draws(draw: st.DrawFn) -> tuple[int, list[int], list[bool], int]:
    n = draw(st.integers(1, 8))
    classes = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    correct = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return n, classes, correct, draw(st.integers(1, n))


class TestPassAtK:
    def test_every_n_c_k_up_to_8_equals_enumeration(self) -> None:
        for n in range(1, 9):
            for c, k in itertools.product(range(n + 1), range(1, n + 1)):
                assert pass_at_k(n, c, k) == pytest.approx(over_subsets(n, k, lambda s, c=c: min(s) < c), **EXACT)
                assert pass_hat_k(n, c, k) == pytest.approx(over_subsets(n, k, lambda s, c=c: max(s) < c), **EXACT)

    @settings(deadline=None)
    @given(st.data())
    def test_any_n_up_to_2000_equals_exact_binomials(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 2000))
        c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
        total = math.comb(n, k)
        assert pass_at_k(n, c, k) == pytest.approx((total - math.comb(n - c, k)) / total, rel=1e-12)
        assert pass_hat_k(n, c, k) == pytest.approx(math.comb(c, k) / total, rel=1e-11, abs=1e-300)

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_ten_thousand_draws_equal_exact_binomials(self, data: st.DataObject) -> None:
        n = 10_000
        c = data.draw(st.lists(st.integers(0, n), min_size=1, max_size=4))
        k = data.draw(st.integers(1, n))
        total = math.comb(n, k)
        want = [float(Fraction(total - math.comb(n - one, k), total)) for one in c]
        assert pass_at_k(n, c, k).tolist() == pytest.approx(want, rel=1e-12)
        assert pass_hat_k(n, c, k).tolist() == pytest.approx(
            [float(Fraction(math.comb(one, k), total)) for one in c], rel=1e-11, abs=1e-290
        )

    def test_a_table_of_problems_by_k_equals_its_cells(self) -> None:
        c, ks = np.array([0, 1, 40, 63, 64, 40]), np.arange(1, 65)
        for estimator in (pass_at_k, pass_hat_k):
            table = estimator(64, c[:, None], ks)
            assert table.tolist() == [[pytest.approx(estimator(64, int(one), int(k)), rel=1e-14) for k in ks] for one in c]

    def test_arguments_broadcast(self) -> None:
        table = pass_at_k(8, np.array([[0], [1], [3], [8]]), np.array([1, 2, 4, 8]))
        assert table.shape == (4, 4)
        assert table[2, 1] == pytest.approx(pass_at_k(8, 3, 2))
        assert pass_at_k(np.array([4.0, 8.0]), [1, 1], 2).tolist() == pytest.approx([0.5, 0.25])

    def test_bounds_are_exact(self) -> None:
        assert pass_at_k(9, 0, 4) == 0.0
        assert pass_at_k(9, 6, 4) == 1.0
        assert pass_hat_k(9, 9, 4) == 1.0
        assert pass_hat_k(9, 3, 4) == 0.0

    @pytest.mark.parametrize(("n", "c", "k"), [(2, 0, 5), (2, 3, 1), (2, -1, 1), (2, 1, 0), (0, 0, 1), (2.5, 1, 1), (float("nan"), 1, 1)])
    @pytest.mark.parametrize("estimator", [pass_at_k, pass_hat_k])
    def test_impossible_counts_are_refused(self, estimator: Any, n: float, c: int, k: int) -> None:
        with pytest.raises(ValueError):
            estimator(n, c, k)
        with pytest.raises(ValueError):
            estimator([4, n], [2, c], k)

    def test_the_message_names_the_problem(self) -> None:
        with pytest.raises(ValueError, match=r"k is not in 1\.\.n: n=2, c=0, k=5 \(1 of 2 problems\)"):
            pass_at_k([8, 2], [0, 0], 5)

    def test_no_problems_give_no_values(self) -> None:
        assert pass_at_k([], [], 1).shape == (0,)

    def test_case_pass_at_k_01(self, shared: Path) -> None:
        with pytest.raises(ValueError):
            pass_at_k(**case(shared, "pass_at_k-01")["input"])

    def test_case_pass_at_k_03(self, shared: Path) -> None:
        given_, want = (case(shared, "pass_at_k-03")[key] for key in ("input", "expected"))
        correct = np.arange(given_["problems"]) < given_["solved"]
        assert pass_at_k(given_["samples_per_problem"], correct, 1).mean() == pytest.approx(want["values"]["1"])
        for k in (10, 100):
            with pytest.raises(ValueError):
                pass_at_k(given_["samples_per_problem"], correct, k)

    @pytest.mark.parametrize("case_id", ["pass_at_k-04", "pass_at_k-06"])
    def test_cases_with_one_value(self, shared: Path, case_id: str) -> None:
        found = case(shared, case_id)
        assert pass_at_k(**found["input"]) == pytest.approx(found["expected"]["value"], rel=1e-12)

    def test_case_pass_at_k_08(self, shared: Path) -> None:
        given_, want = (case(shared, "pass_at_k-08")[key] for key in ("input", "expected"))
        means = [pass_at_k(given_["samples_per_problem"], given_["c"], k).mean() for k in given_["k"]]
        assert means == pytest.approx(list(want["values"].values()))
        assert means == sorted(means)

    def test_case_pass_at_k_10(self, shared: Path) -> None:
        found = case(shared, "pass_at_k-10")
        assert pass_at_k(**found["input"]).mean() == pytest.approx(found["expected"]["value"])


class TestMajorityAtK:
    @settings(max_examples=300, deadline=None)
    @given(draws(), st.sampled_from(["random", "unresolved"]))
    def test_equals_enumeration(self, drawn: tuple[int, list[int], list[bool], int], ties: Any) -> None:
        n, classes, correct, k = drawn
        votes = list(zip(classes, correct, strict=True))
        credit = {name: Fraction(sum(y for c, y in votes if c == name), classes.count(name)) for name in classes}
        want = over_subsets(n, k, lambda subset: vote(classes, credit, ties, subset))
        assert majority_at_k([classes], [correct], k, ties)[0] == pytest.approx(want, **EXACT)

    @settings(max_examples=60, deadline=None)
    @given(st.data(), st.sampled_from(["random", "unresolved"]))
    def test_every_k_of_several_problems_equals_enumeration(self, data: st.DataObject, ties: Any) -> None:
        n = data.draw(st.integers(1, 7))
        row = st.lists(st.integers(-1, 4), min_size=n, max_size=n)
        classes = data.draw(st.lists(row, min_size=1, max_size=5))
        correct = [[name == 0 for name in row] for row in classes]
        table = majority_at_k(classes, correct, range(1, n + 1), ties)
        assert table.shape == (len(classes), n)
        for values, row in zip(table.tolist(), classes, strict=True):
            credit = {name: Fraction(name == 0) for name in row}
            want = [over_subsets(n, k, lambda s, row=row, credit=credit: vote(row, credit, ties, s)) for k in range(1, n + 1)]
            assert values == pytest.approx(want, **EXACT)

    @settings(max_examples=12, deadline=None)
    @given(st.lists(st.integers(1, 90), min_size=2, max_size=7), st.integers(0, 20), st.integers(1, 256), st.booleans())
    def test_up_to_256_draws_equal_whole_numbers(self, sizes: list[int], silent: int, k: int, unresolved: bool) -> None:
        while sum(sizes) + silent > 256:
            sizes = sizes[:-1]
        n = sum(sizes) + silent
        k = min(k, n)
        classes = np.array([[name for name, size in enumerate(sizes) for _ in range(size)] + [-1] * silent])
        want = by_whole_numbers(sizes, silent, k, unresolved)
        got = majority_at_k(classes, classes == 0, k, "unresolved" if unresolved else "random")[0]
        assert got == pytest.approx(want, rel=1e-11, abs=1e-300)

    def test_more_draws_than_one_table_serves_equal_whole_numbers(self) -> None:
        sizes, silent = [260, 240, 238, 200], 62
        classes = np.array([[name for name, size in enumerate(sizes) for _ in range(size)] + [-1] * silent])
        ks = [1, 9, 40]
        want = [by_whole_numbers(sizes, silent, k, unresolved=False) for k in ks]
        assert majority_at_k(classes, classes == 0, ks)[0].tolist() == pytest.approx(want, rel=1e-11)

    def test_a_list_of_ks_equals_its_members(self) -> None:
        rng = np.random.default_rng(3)
        classes = np.minimum(rng.geometric(0.4, (200, 24)) - 1, 6) - (rng.random((200, 24)) < 0.1)
        correct = classes == rng.integers(0, 3, (200, 1))
        ks = [24, 1, 7, 7, 2]
        for ties in ("random", "unresolved"):
            alone = np.stack([majority_at_k(classes, correct, k, ties) for k in ks], axis=1)
            assert majority_at_k(classes, correct, ks, ties).ravel().tolist() == pytest.approx(alone.ravel().tolist(), **EXACT)

    def test_many_ways_to_tie_still_sum_to_certainty(self) -> None:
        classes = np.stack([np.arange(64), np.arange(64) // 2, np.arange(64) // 3, np.arange(64) % 5])
        assert majority_at_k(classes, np.ones_like(classes, dtype=bool), range(1, 65)) == pytest.approx(1.0, rel=1e-12)

    def test_problems_do_not_influence_each_other(self) -> None:
        rng = np.random.default_rng(5)
        classes = rng.integers(-1, 6, (300, 12))
        correct = classes == 0
        together = majority_at_k(classes, correct, 5)
        alone = [majority_at_k(classes[i : i + 1], correct[i : i + 1], 5)[0] for i in range(300)]
        assert together.tolist() == pytest.approx(alone, **EXACT)

    @pytest.mark.parametrize("k", [1, 2, 15, 128, 255, 256])
    def test_labels_for_every_answer_make_a_certain_vote_at_256_draws(self, k: int) -> None:
        # Whoever wins is correct, so the exact sum over all winners is 1: rounding would show here.
        rng = np.random.default_rng(k)
        classes = np.floor(rng.exponential(6.0, (6, 256))).astype(int)
        classes[5] = np.arange(256)
        assert majority_at_k(classes, np.ones_like(classes, dtype=bool), k) == pytest.approx(1.0, rel=1e-11)

    def test_large_n_with_two_classes_equals_the_hypergeometric_tail(self) -> None:
        n, c, k = 256, 131, 101
        tail = sum(math.comb(c, w) * math.comb(n - c, k - w) for w in range(k // 2 + 1, k + 1)) / math.comb(n, k)
        classes = np.array([[0] * c + [1] * (n - c)])
        assert majority_at_k(classes, classes == 0, k)[0] == pytest.approx(tail, rel=1e-12)

    def test_at_one_draw_it_is_accuracy(self) -> None:
        classes = np.array([[0, 0, 1, -1], [-1, -1, -1, -1], [3, 4, 5, 6]])
        assert majority_at_k(classes, classes == 0, 1).tolist() == pytest.approx([0.5, 0.0, 0.0])

    def test_names_of_classes_do_not_matter(self) -> None:
        assert majority_at_k([[7, 7, 90, -1]], [[1, 1, 0, 0]], 3)[0] == pytest.approx(majority_at_k([[0, 0, 1, -1]], [[1, 1, 0, 0]], 3)[0])

    def test_no_problems_give_no_values(self) -> None:
        assert majority_at_k(np.zeros((0, 4), dtype=int), np.zeros((0, 4), dtype=bool), 2).shape == (0,)

    @pytest.mark.parametrize(
        ("classes", "correct", "k", "ties"),
        [
            ([[0, 1]], [[True, False]], 3, "random"),
            ([[0, 1]], [[True, False]], 0, "random"),
            ([[0, 1]], [[True]], 1, "random"),
            ([0, 1], [True, False], 1, "random"),
            ([[0, -2]], [[True, False]], 1, "random"),
            ([[0, 0.5]], [[True, False]], 1, "random"),
            ([[0, 1]], [[True, float("nan")]], 1, "random"),
            ([[0, 1]], [["yes", "no"]], 1, "random"),
            ([[0, 1]], [[True, False]], 1, "first_seen"),
            ([[0, 1]], [[True, False]], [1, 3], "random"),
            ([[0, 1]], [[True, False]], [], "random"),
            ([[0, 1]], [[True, False]], 1.5, "random"),
        ],
    )
    def test_bad_input_is_refused(self, classes: Any, correct: Any, k: int, ties: Any) -> None:
        with pytest.raises(ValueError):
            majority_at_k(classes, correct, k, ties)


class TestBestOfNAtK:
    @settings(max_examples=300, deadline=None)
    @given(st.data())
    def test_equals_enumeration(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 8))
        values = st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan, -math.inf, math.inf])
        scores = data.draw(st.lists(values, min_size=n, max_size=n))
        correct = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        k = data.draw(st.integers(1, n))
        want = over_subsets(n, k, lambda subset: best(scores, correct, subset))
        assert best_of_n_at_k([scores], [correct], k)[0] == pytest.approx(want, **EXACT)

    def test_where_nothing_is_scored_the_policy_guesses_or_is_silent(self) -> None:
        scores, correct = [[math.nan, math.nan, 0.1]], [[True, True, False]]
        assert best_of_n_at_k(scores, correct, [1, 2, 3])[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0.0])
        assert best_of_n_at_k(scores, correct, [1, 2, 3], "unresolved")[0].tolist() == [0.0, 0.0, 0.0]
        with pytest.raises(ValueError, match="unscored"):
            best_of_n_at_k(scores, correct, 1, "last")  # type: ignore[arg-type]

    def test_ten_thousand_draws_equal_exact_binomials(self) -> None:
        n, ks = 10_000, [1, 10, 1_000, 9_999]
        correct = np.random.default_rng(4).random((1, n)) < 0.01
        order = np.flatnonzero(correct[0]).tolist()  # scores fall with the place
        want = [float(Fraction(sum(math.comb(n - 1 - i, k - 1) for i in order), math.comb(n, k))) for k in ks[:3]]
        got = best_of_n_at_k(-np.arange(n, dtype=float)[None], correct, ks)[0].tolist()
        assert got[:3] == pytest.approx(want, rel=1e-11)
        assert got[3] == pytest.approx(correct[0, 0] * (n - 1) / n + correct[0, 1] / n)

    def test_a_list_of_ks_equals_its_members(self) -> None:
        rng = np.random.default_rng(3)
        scores, correct = rng.integers(0, 5, (50, 12)).astype(float), rng.random((50, 12)) < 0.4
        assert best_of_n_at_k(scores, correct, [12, 3])[:, 1].tolist() == pytest.approx(best_of_n_at_k(scores, correct, 3).tolist())

    def test_a_perfect_score_reaches_pass_at_k(self) -> None:
        correct = np.random.default_rng(1).random((20, 256)) < 0.05
        for k in (1, 7, 128, 256):
            assert best_of_n_at_k(correct.astype(float), correct, k) == pytest.approx(pass_at_k(256, correct.sum(axis=1), k), rel=1e-12)

    def test_only_invalid_scores_select_at_random(self) -> None:
        assert best_of_n_at_k([[math.nan] * 4], [[True, False, False, False]], 3)[0] == pytest.approx(0.25)

    def test_problems_do_not_share_tied_blocks(self) -> None:
        assert best_of_n_at_k([[1.0, 0.5], [0.5, 0.5]], [[False, True], [False, False]], 2).tolist() == [0.0, 0.0]

    @pytest.mark.parametrize(("scores", "correct", "k"), [([[0.1]], [[True]], 2), ([[0.1]], [[True, False]], 1), ([0.1], [True], 1)])
    def test_bad_input_is_refused(self, scores: Any, correct: Any, k: int) -> None:
        with pytest.raises(ValueError):
            best_of_n_at_k(scores, correct, k)


class TestPicksAndCosts:
    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_a_random_pick_equals_enumeration(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 8))
        flags = st.lists(st.booleans(), min_size=n, max_size=n)
        correct, answered, k = data.draw(flags), data.draw(flags), data.draw(st.integers(1, n))

        def picked(subset: Sequence[int]) -> Fraction:
            able = [i for i in subset if answered[i]]
            return Fraction(sum(correct[i] for i in able), len(able)) if able else Fraction(0)

        assert random_pick_at_k([correct], k, [answered])[0] == pytest.approx(over_subsets(n, k, picked), **EXACT)
        assert random_pick_at_k([correct], [1, n])[0].tolist() == pytest.approx([sum(correct) / n] * 2)

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_cost_and_latency_equal_enumeration(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 8))
        values = data.draw(st.lists(st.integers(0, 50), min_size=n, max_size=n))
        k = data.draw(st.integers(1, n))
        assert cost_at_k([values], k)[0] == pytest.approx(over_subsets(n, k, lambda s: sum(values[i] for i in s)), **EXACT)
        assert longest_at_k([values], [k])[0, 0] == pytest.approx(over_subsets(n, k, lambda s: max(values[i] for i in s)), **EXACT)

    def test_an_unknown_cost_is_unknown_and_not_0(self) -> None:
        for estimator in (cost_at_k, longest_at_k):
            known, unknown = estimator([[1.0, 1.0], [1.0, math.nan]], 2).tolist()
            assert known > 0
            assert math.isnan(unknown)

    @pytest.mark.parametrize("estimator", [cost_at_k, longest_at_k])
    def test_bad_input_is_refused(self, estimator: Any) -> None:
        with pytest.raises(ValueError):
            estimator([1.0, 2.0], 1)
        with pytest.raises(ValueError):
            estimator([[1.0, 2.0]], 3)


# --- Published data -------------------------------------------------------------------------------------------------


def printed(per_problem: Iterable[np.ndarray]) -> str:
    return " ".join(f"{values.mean():.4f}" for values in per_problem)


class TestPublishedTables:
    def test_crucible_pooled_over_24_draws(self, shared: Path) -> None:
        classes, correct, scores = map(pooled, crucible(shared))
        ks = (1, 2, 4, 8, 16, 24)
        assert printed(pass_at_k(24, correct.sum(axis=1), k) for k in ks) == "0.3823 0.5062 0.6042 0.6718 0.7129 0.7250"
        assert printed(best_of_n_at_k(scores, correct, k) for k in ks) == "0.3823 0.4589 0.5143 0.5618 0.6091 0.6250"
        assert printed(majority_at_k(classes, correct, k) for k in ks) == "0.3823 0.3823 0.4663 0.5336 0.5755 0.5813"

    def test_crucible_within_a_seed(self, shared: Path) -> None:
        classes, correct, scores = (values.reshape(120, 8) for values in crucible(shared))
        ks = (2, 4, 8)
        assert printed(pass_at_k(8, correct.sum(axis=1), k) for k in ks) == "0.5110 0.6155 0.7000"
        assert printed(best_of_n_at_k(scores, correct, k) for k in ks) == "0.4619 0.5175 0.5500"
        assert printed(majority_at_k(classes, correct, k) for k in ks) == "0.3823 0.4657 0.5385"

    def test_first_k_of_the_published_table_is_one_subset(self, shared: Path) -> None:
        # Cases dataset_replay-02 and majority_vote-06: taking all of the first n draws (k = n) is the published count.
        classes, correct, scores = (values.reshape(120, 8) for values in crucible(shared))
        ns = (1, 2, 4, 8)
        replay = case(shared, "dataset_replay-02")["expected"]
        assert [round(pass_at_k(n, correct[:, :n].sum(axis=1), n).sum()) for n in ns] == replay["oracle"]
        assert [round(best_of_n_at_k(scores[:, :n], correct[:, :n], n).sum(), 6) for n in ns] == replay["prm"]
        at_two = case(shared, "majority_vote-06")["expected"]
        assert correct[:, 0].sum() == at_two["pass1_correct"] == at_two["correct"]  # first-seen ties at n = 2 are the first draw
        by_draw = majority_at_k(classes[:, :2], correct[:, :2], 2).mean()
        assert by_draw == pytest.approx(correct[:, :2].mean())  # random ties at n = 2 are a random draw

    def test_game_of_24(self, shared: Path) -> None:
        want = {
            "standard": "0.0734 0.1057 0.1492 0.1789 0.2115 0.2728 0.3300",
            "cot": "0.0403 0.0728 0.1429 0.2148 0.2955 0.4068 0.4900",
        }
        for prompt, row in want.items():
            path = shared / f"data/tot/game24/gpt-4_0.7_naive_{prompt}_sample_100_start900_end1000.json"
            puzzles = json.loads(path.read_text(encoding="utf-8"))
            hits = [sum(puzzle["accs"]) if "accs" in puzzle else sum(info["r"] for info in puzzle["infos"]) for puzzle in puzzles]
            assert printed(pass_at_k(100, hits, k) for k in (1, 2, 5, 10, 20, 50, 100)) == row

    def test_case_dataset_replay_05_reward_model_and_majority(self, shared: Path) -> None:
        want = case(shared, "dataset_replay-05")["expected"]
        lines = (shared / "data/rm_maj_qwen/math_cot_100.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        correct = np.array([row["score"] for row in rows])
        scores = np.array([[score[0] for score in row["pred_score"]] for row in rows])
        classes = np.array([[-1 if not answer else row["pred"].index(answer) for answer in row["pred"]] for row in rows])
        assert round(best_of_n_at_k(scores, correct, 8).sum(), 6) == want["rm_at_8"]
        assert round(pass_at_k(8, correct.sum(axis=1), 8).sum()) == want["any_of_8"]
        assert best_of_n_at_k(scores, correct, 1).mean() == pytest.approx(want["mean"])
        # The script gives a tie to the answer seen first. Random ties give each leader its share; unresolved ties, nothing.
        votes = [Counter(row) for row in classes.tolist()]
        leaders = [[name for name in count if count[name] == max(count.values())] for count in votes]
        tied = np.array([len(lead) > 1 for lead in leaders])
        first_seen = [bool(correct[i][classes[i] == lead[0]].any()) for i, lead in enumerate(leaders)]
        assert tied.sum() == want["tied_problems"]
        assert sum(first_seen) == want["maj_at_8"]
        assert majority_at_k(classes, correct, 8)[~tied].tolist() == pytest.approx(np.array(first_seen, dtype=float)[~tied].tolist())
        assert majority_at_k(classes, correct, 8).sum() == pytest.approx(91 + 3 / 2)  # one of two leaders is right in 3 of the 4 ties
        assert majority_at_k(classes, correct, 8, "unresolved").sum() == pytest.approx(91)

    def test_case_dataset_replay_01_any_of_4(self, shared: Path) -> None:
        want = case(shared, "dataset_replay-01")["expected"]
        lines = (shared / "data/gsm8k/example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
        correct = np.array([[json.loads(line)[system]["is_correct"] for system in want["correct"]] for line in lines])
        assert correct.sum(axis=0).tolist() == list(want["correct"].values())
        assert pass_at_k(4, correct.sum(axis=1), 4).sum() == want["any_of_4"]
        assert pass_at_k(4, correct.sum(axis=1), 1).sum() == pytest.approx(correct.sum() / 4)
