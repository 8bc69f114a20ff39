"""Sampled estimators: weighted votes and stopping rules against enumeration of every order, within their Monte-Carlo error."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.metrics import (
    Sampled,
    Seen,
    accepted,
    best_of_n_at_k,
    best_scored,
    beta_criterion,
    esc_window,
    first_accepted,
    leading,
    locked_plurality,
    majority_at_k,
    never,
    pass_at_k,
    random_pick_at_k,
    replay,
    weighted_vote_at_k,
)
from ttc_eval.stopping import beta_agreement, window_agrees

POOL = [0, 0, 0, 1, 1, 2, -1]
RIGHT = [True, True, True, False, False, False, False]
SCORES = [0.9, 0.2, math.nan, 0.6, 0.3, 0.8, 0.95]


def near(found: Sampled, want: Sequence[float], errors: float = 4.5) -> None:
    """Within 4.5 Monte-Carlo errors, which chance exceeds once in 150,000 times."""
    assert np.all(np.abs(found.value - np.array(want)) <= errors * found.error + 1e-12)


class TestWeightedVote:
    def test_equal_weights_are_the_exact_vote(self) -> None:
        rng = np.random.default_rng(0)
        classes = rng.integers(-1, 4, (30, 9))
        for ties in ("random", "unresolved"):
            found = weighted_vote_at_k(classes, classes == 0, np.full((30, 9), 0.1), [1, 3, 6], ties=ties, permutations=800)
            near(found, majority_at_k(classes, classes == 0, [1, 3, 6], ties))
            assert found.value.shape == found.error.shape == (30, 3)

    @pytest.mark.parametrize("weighting", ["sum", "mean"])
    def test_equals_enumeration(self, weighting: Any) -> None:
        def vote(subset: tuple[int, ...]) -> float:
            members: dict[int, list[Fraction]] = {}
            for i in subset:
                if POOL[i] >= 0 and not math.isnan(SCORES[i]):
                    members.setdefault(POOL[i], []).append(Fraction(round(SCORES[i] * 100)))
            totals = {name: sum(w) / (len(w) if weighting == "mean" else 1) for name, w in members.items()}
            lead = [name for name in totals if totals[name] == max(totals.values())]
            return (0 in lead) / len(lead) if lead else 0.0

        for k in (1, 3, 5):
            want = np.mean([vote(subset) for subset in itertools.combinations(range(7), k)])
            found = weighted_vote_at_k([POOL], [RIGHT], [SCORES], k, weighting=weighting, permutations=20_000)
            near(found, [float(want)])
            assert found.error[0] < 0.005

    def test_all_draws_are_one_subset_and_have_no_error(self) -> None:
        found = weighted_vote_at_k([POOL], [RIGHT], [SCORES], 7)
        assert (found.value.tolist(), found.error.tolist()) == ([1.0], [0.0])  # 1.1 against 0.9 and 0.8

    def test_totals_that_differ_by_rounding_tie(self) -> None:
        found = weighted_vote_at_k([[0, 0, 1]], [[1, 1, 0]], [[0.1, 0.2, 0.3]], 3)
        assert found.value.tolist() == [0.5]
        assert weighted_vote_at_k([[0, 0, 1]], [[1, 1, 0]], [[0.1, 0.2, 0.3]], 3, ties="unresolved").value.tolist() == [0.0]

    def test_nobody_votes(self) -> None:
        assert weighted_vote_at_k([[0, 0]], [[1, 1]], [[math.nan, math.inf]], 2).value.tolist() == [0.0]
        assert weighted_vote_at_k([[-1, -1]], [[1, 1]], [[1.0, 1.0]], 2).value.tolist() == [0.0]

    def test_a_seed_repeats_and_more_permutations_err_less(self) -> None:
        first, again, other = (weighted_vote_at_k([POOL], [RIGHT], [SCORES], 3, seed=seed) for seed in (1, 1, 2))
        assert first.value == again.value
        assert first.value != other.value
        more = weighted_vote_at_k([POOL], [RIGHT], [SCORES], 3, permutations=3200)
        assert more.error[0] == pytest.approx(first.error[0] / 4, rel=0.1)

    def test_the_error_is_the_spread_over_seeds(self) -> None:
        classes = np.random.default_rng(1).integers(0, 3, (12, 8))
        runs = [weighted_vote_at_k(classes, classes == 0, classes + 0.5, 3, permutations=60, seed=seed) for seed in range(80)]
        assert np.std([run.mean for run in runs]) == pytest.approx(float(runs[0].mean_error), rel=0.3)

    @pytest.mark.parametrize(
        ("weights", "options"),
        [
            ([[1.0, -1.0]], {}),
            ([[1.0]], {}),
            ([[1.0, 1.0]], {"permutations": 1}),
            ([[1.0, 1.0]], {"weighting": "product"}),
            ([[1, 1]], {"k": 3}),
        ],
    )
    def test_bad_input_is_refused(self, weights: Any, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            weighted_vote_at_k([[0, 1]], [[1, 0]], weights, **{"k": 1, **options})


def by_every_order(decide: Callable[[tuple[int, ...]], tuple[bool, int]], at_most: int) -> tuple[float, float]:
    """Success and mean draws over all orders, where `decide` says for a prefix of places whether to stop, and the place chosen."""
    success, drawn, orders = 0, 0, list(itertools.permutations(range(7)))
    for order in orders:
        for j in range(1, at_most + 1):
            stop, chosen = decide(order[:j])
            if stop or j == at_most:
                success += chosen >= 0 and RIGHT[chosen]
                drawn += j
                break
    return success / len(orders), drawn / len(orders)


def standing(places: tuple[int, ...]) -> tuple[int, int, int]:
    """Votes of the leader and the next, and the leader's first place, or −1 for a tie."""
    ranked = Counter(POOL[i] for i in places if POOL[i] >= 0).most_common()
    if not ranked:
        return 0, 0, -1
    lead, second = ranked[0][1], ranked[1][1] if len(ranked) > 1 else 0
    return lead, second, next(i for i in places if POOL[i] == ranked[0][0]) if lead > second else -1


class TestReplay:
    def check(self, rule: Any, selector: Any, decide: Any, at_most: int) -> None:
        found = replay(rule, selector, [POOL], [RIGHT], scores=[SCORES], at_most=at_most, permutations=6000)
        success, drawn = by_every_order(decide, at_most)
        near(found.success, [success])
        near(found.draws, [drawn])

    @pytest.mark.parametrize("at_most", [3, 5, 7])
    def test_locked_plurality(self, at_most: int) -> None:
        def decide(places: tuple[int, ...]) -> tuple[bool, int]:
            lead, second, first = standing(places)
            return lead >= 2 and lead > second + at_most - len(places), first if lead >= 2 else -1

        self.check(locked_plurality(2), leading(2), decide, at_most)

    @pytest.mark.parametrize("confidence", [0.7, 0.9])
    def test_beta_criterion(self, confidence: float) -> None:
        def decide(places: tuple[int, ...]) -> tuple[bool, int]:
            lead, second, first = standing(places)
            return lead > 0 and beta_agreement(lead, second) >= confidence, first

        self.check(beta_criterion(confidence), leading(), decide, 7)

    @pytest.mark.parametrize("sliding", [False, True])
    @pytest.mark.parametrize("window", [1, 2, 3])
    def test_esc_window(self, window: int, sliding: bool) -> None:
        def decide(places: tuple[int, ...]) -> tuple[bool, int]:
            said = [str(POOL[i]) if POOL[i] >= 0 else None for i in places]
            return window_agrees(said, window, sliding=sliding), standing(places)[2]

        self.check(esc_window(window, sliding=sliding), leading(), decide, 7)

    @pytest.mark.parametrize("otherwise", ["unresolved", "best"])
    def test_first_accepted(self, otherwise: Any) -> None:
        def decide(places: tuple[int, ...]) -> tuple[bool, int]:
            able = [i for i in places if POOL[i] >= 0 and not math.isnan(SCORES[i])]
            passing = [i for i in able if SCORES[i] >= 0.7]
            if passing:
                return True, passing[0]
            return False, max(able, key=lambda i: SCORES[i], default=-1) if otherwise == "best" else -1

        self.check(first_accepted(0.7), accepted(0.7, otherwise), decide, 3)

    def test_a_rule_of_ones_own(self) -> None:
        def two_of_a_kind(seen: Seen) -> Any:
            return seen.votes.max(axis=1) >= 2

        self.check(two_of_a_kind, leading(), lambda places: (standing(places)[0] >= 2, standing(places)[2]), 7)

    def test_never_stopping_gives_the_exact_estimators(self) -> None:
        rng = np.random.default_rng(4)
        classes = rng.integers(-1, 4, (40, 8))
        correct, scores = classes == 0, rng.random((40, 8))
        scores[classes < 0] = math.nan
        for k in (1, 4, 8):
            options: dict[str, Any] = {"at_most": k, "permutations": 600}
            near(replay(never(), leading(), classes, correct, **options).success, majority_at_k(classes, correct, k, "unresolved"))
            by_chance = replay(never(), leading(ties="random"), classes, correct, **options)
            near(by_chance.success, majority_at_k(classes, correct, k))
            assert by_chance.draws.value.tolist() == [k] * 40
            assert by_chance.draws.error.max() == 0.0
            best = replay(never(), best_scored(), classes, correct, scores=scores, **options)
            near(best.success, best_of_n_at_k(scores, correct, k, "unresolved"))
            near(best.coverage, pass_at_k(8, (classes >= 0).sum(axis=1), k))
        one = replay(first_accepted(0.0), accepted(0.0), classes, correct, scores=scores, permutations=600)
        near(one.success, random_pick_at_k(correct, 8, classes >= 0))  # the first answer is a random one

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.integers(-1, 3), min_size=1, max_size=12), st.integers(0, 5), st.data())
    def test_locking_never_changes_the_outcome_and_never_costs_more(self, pool: list[int], seed: int, data: st.DataObject) -> None:
        at_most = data.draw(st.integers(1, len(pool)))
        options: dict[str, Any] = {"at_most": at_most, "seed": seed, "permutations": 50, "costs": {"tokens": [[7.0] * len(pool)]}}
        right = [[name == 0 for name in pool]]
        early, late = (replay(rule, leading(), [pool], right, **options) for rule in (locked_plurality(), never()))
        assert early.success.value == late.success.value  # the same seed gives the same orders
        assert early.coverage.value == late.coverage.value
        assert early.draws.value <= late.draws.value == at_most
        assert early.costs["tokens"].value == pytest.approx(7 * early.draws.value)

    def test_costs_follow_the_draws_that_were_made(self) -> None:
        costs = {"usd": [[0.5] * 7], "tokens": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]}
        found = replay(never(), leading(), [POOL], [RIGHT], costs=costs, at_most=3, permutations=2000)
        assert found.costs["usd"].value[0] == pytest.approx(1.5)
        assert found.costs["usd"].error[0] == 0.0
        near(found.costs["tokens"], [12.0])

    def test_an_unknown_cost_is_unknown(self) -> None:
        costs = {"usd": [[0.5, math.nan], [0.5, 0.5]]}
        found = replay(never(), leading(), [[0, 0], [0, 0]], [[1, 1], [1, 1]], costs=costs)
        assert math.isnan(found.costs["usd"].value[0])
        assert found.costs["usd"].value[1] == 1.0

    def test_problems_do_not_mix_across_blocks(self) -> None:
        classes = np.repeat(np.arange(300)[:, None] % 2, 3, axis=1)
        found = replay(never(), leading(), classes, classes == 0, permutations=200)  # 60,000 lines: several blocks
        assert found.success.value.tolist() == [float(i % 2 == 0) for i in range(300)]
        assert float(found.success.mean) == 0.5
        assert float(found.success.mean_error) == 0.0

    def test_no_answer_anywhere_selects_nothing(self) -> None:
        for selector in (leading(), leading(ties="random"), accepted(0.5, "best"), best_scored()):
            found = replay(never(), selector, [[-1, -1]], [[True, True]], scores=[[1.0, 1.0]])
            assert (found.success.value[0], found.coverage.value[0]) == (0.0, 0.0)

    @pytest.mark.parametrize(
        ("rule", "selector", "options", "message"),
        [
            (never(), leading(), {"at_most": 8}, "at_most"),
            (never(), leading(), {"at_most": 0}, "at_most"),
            (never(), leading(), {"permutations": 1}, "permutations"),
            (never(), leading(), {"costs": {"usd": [[1.0]]}}, "usd"),
            (first_accepted(0.5), leading(), {}, "scores"),
            (lambda seen: seen.lead, leading(), {}, "bool"),
            (lambda seen: True, leading(), {}, "bool"),
            (never(), lambda seen: np.full(len(seen.lead), 9), {}, "position"),
            (never(), lambda seen: 0, {}, "position"),
        ],
    )
    def test_bad_input_is_refused(self, rule: Any, selector: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            replay(rule, selector, [POOL], [RIGHT], **options)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: locked_plurality(0),
            lambda: esc_window(0),
            lambda: beta_criterion(1.0),
            lambda: leading(0),
            lambda: leading(ties="first"),  # type: ignore[arg-type]
            lambda: accepted(0.5, "last"),  # type: ignore[arg-type]
        ],
    )
    def test_options_that_make_no_sense_are_refused(self, make: Any) -> None:
        with pytest.raises(ValueError):
            make()
