"""Cost and success: the frontier, its randomised mixtures, and how sure each is. Pure functions over arrays.

A *policy* is a column: its cost and its success, one row per problem. An unknown cost is NaN: such a policy is never on a frontier, since
an unknown price is not a low one. Costs are in any one unit (USD, tokens, calls, seconds).

A mixture uses policy i with probability w and policy j otherwise, decided by a coin and not by the problem. It needs no new call and
reaches every point on the line between the two, so policies are compared at equal cost on the upper hull of their points
(docs/design.md 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttc_eval.metrics.comparison import paired_difference
from ttc_eval.metrics.intervals import Estimate

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Elements of working memory per block of resamples.
_BLOCK = 2**22


@dataclass(frozen=True, slots=True)
class Mixture:
    """Policy `first` with probability `weight`, and `second` otherwise; both are columns. The same twice where no coin is needed."""

    first: int
    second: int
    weight: float

    def of(self, values: Floats) -> Floats:
        """What the mixture gives for each problem: `values` has shape (problems, policies)."""
        return self.weight * values[..., self.first] + (1 - self.weight) * values[..., self.second]


def on_frontier(cost: ArrayLike, success: ArrayLike) -> Bools:
    """Which policies no other beats or equals at the same cost or less; of exact copies the first counts.

    Args:
        cost, success: shape (…, policies). NaN in either: not on the frontier.
    """
    costs, successes = _policies(cost, success)
    flat_cost, flat_success = costs.reshape(-1, costs.shape[-1]), successes.reshape(-1, costs.shape[-1])
    # Known policies first, then by cost, and the better one first among equals in cost.
    known = np.isfinite(flat_cost) & np.isfinite(flat_success)
    order = np.lexsort((-np.where(known, flat_success, -np.inf), np.where(known, flat_cost, np.inf)), axis=-1)
    ranked = np.take_along_axis(np.where(known, flat_success, -np.inf), order, -1)
    best_before = np.maximum.accumulate(ranked, axis=-1)
    best_before = np.concatenate([np.full((len(ranked), 1), -np.inf), best_before[:, :-1]], axis=1)
    found = np.zeros_like(known)
    np.put_along_axis(found, order, ranked > best_before, -1)
    return (found & known).reshape(costs.shape)


def hull(cost: ArrayLike, success: ArrayLike) -> list[int]:
    """The policies at the corners of the upper hull of mixtures, in order of cost: no mixture of others reaches as much as cheaply.

    Args:
        cost, success: shape (policies,). A policy with NaN in either is left out.
    """
    costs, successes = _policies(cost, success)
    if costs.ndim != 1:
        raise ValueError("hull takes one cost and one success for each policy")
    steps = [int(i) for i in np.flatnonzero(on_frontier(costs, successes))]
    corners: list[int] = []
    for i in sorted(steps, key=lambda step: float(costs[step])):
        while len(corners) > 1 and _below(costs, successes, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return corners


def mixture_at(cost: ArrayLike, success: ArrayLike, at: float) -> Mixture | None:
    """The best mixture that costs `at` or less on average; None when even the cheapest policy costs more.

    Args:
        cost, success: shape (policies,), means over problems.
    """
    costs, successes = _policies(cost, success)
    corners = hull(costs, successes)
    if not corners or at < costs[corners[0]]:
        return None
    last = corners[-1]
    for low, high in pairwise(corners):
        if at < costs[high]:
            share = (at - costs[low]) / (costs[high] - costs[low])
            return Mixture(low, high, float(1 - share))
    return Mixture(last, last, 1.0)


def hull_success(cost: ArrayLike, success: ArrayLike, at: float) -> float:
    """Success of the best mixture that costs `at` or less; NaN when there is none."""
    found = mixture_at(cost, success, at)
    return math.nan if found is None else float(found.of(np.asarray(success, dtype=np.float64)))


def frontier_probability(cost: ArrayLike, success: ArrayLike, *, resamples: int = 2_000, seed: int = 0) -> Floats:
    """For each policy the share of resamples of the problems in which it is on the frontier, shape (policies,).

    Args:
        cost, success: shape (problems, policies), all policies on the same problems. A policy with an unknown cost gets NaN.
        resamples: of whole problems, so that policies stay paired. seed: the same seed gives the same shares.

    A share is no significance level: it says how far the problems at hand settle which policies are worth their cost.
    """
    costs, successes = _problems(cost, success)
    n, policies = costs.shape
    rng = np.random.default_rng(seed)
    hits, done = np.zeros(policies), 0
    block = max(1, _BLOCK // max(1, n * policies))
    while done < resamples:
        size = min(block, resamples - done)
        weights = rng.multinomial(n, np.full(n, 1 / n), size=size) / n
        hits += on_frontier(weights @ costs, weights @ successes).sum(axis=0)
        done += size
    return np.where(np.isfinite(costs).all(axis=0), hits / resamples, np.nan)


def equal_cost(
    cost_a: ArrayLike,
    success_a: ArrayLike,
    cost_b: ArrayLike,
    success_b: ArrayLike,
    at: float,
    *,
    confidence: float = 0.95,
    resamples: int = 4_000,
    seed: int = 0,
) -> Estimate | None:
    """Success of A minus that of B where both cost `at` per problem, each read from its hull of mixtures.

    None where even the cheapest policy of one of them costs more.

    Args:
        cost_a, success_a: shape (problems, policies of A); cost_b, success_b: (problems, policies of B), on the same problems in order.
        at: cost per problem.

    The interval is a percentile bootstrap over problems in which both hulls are made anew, so it holds the uncertainty of the costs and
    of which policies are mixed as well; a resample in which one of the two cannot be had for `at` takes its cheapest policy.

    Raises:
        ValueError: when the problems are not as many in both, or there is none.
    """
    costs_a, successes_a = _problems(cost_a, success_a)
    costs_b, successes_b = _problems(cost_b, success_b)
    n = len(costs_a)
    if len(costs_b) != n:
        raise ValueError(f"A has {n} problems and B has {len(costs_b)}; both must be measured on the same ones")
    mixed = [
        mixture_at(costs.mean(axis=0), successes.mean(axis=0), at) for costs, successes in ((costs_a, successes_a), (costs_b, successes_b))
    ]
    if mixed[0] is None or mixed[1] is None:
        return None
    apart = mixed[0].of(successes_a) - mixed[1].of(successes_b)
    mean = float(apart.mean())
    if n == 1:
        return Estimate(mean, None, None, None, method="none: one problem has no standard error", n=1)
    rng = np.random.default_rng(seed)
    differences = np.empty(resamples)
    for i in range(resamples):
        taken = rng.integers(0, n, n)
        ends = [
            _reached(costs[taken].mean(axis=0), successes[taken].mean(axis=0), at)
            for costs, successes in ((costs_a, successes_a), (costs_b, successes_b))
        ]
        differences[i] = ends[0] - ends[1]
    tail = (1 - confidence) / 2
    low, high = (float(end) for end in np.quantile(differences, [tail, 1 - tail]))
    if low == high:
        # Problems that all say the same tell a bootstrap nothing of those that were not drawn.
        return paired_difference(mixed[0].of(successes_a), mixed[1].of(successes_b), confidence=confidence)
    method = f"bootstrap over paired problems, hulls made anew ({resamples} resamples, seed {seed}), {100 * confidence:g} %"
    return Estimate(mean, float(differences.std(ddof=1)), low, high, method=method, n=n)


def _reached(cost: Floats, success: Floats, at: float) -> float:
    found = mixture_at(cost, success, at)
    if found is not None:
        return float(found.of(success))
    return float(success[int(np.nanargmin(cost))])


def _below(cost: Floats, success: Floats, first: int, middle: int, last: int) -> bool:
    """Whether a mixture of the outer two reaches the middle one's success at its cost."""
    rise = (success[middle] - success[first]) * (cost[last] - cost[first])
    return bool(rise <= (success[last] - success[first]) * (cost[middle] - cost[first]))


def _policies(cost: ArrayLike, success: ArrayLike) -> tuple[Floats, Floats]:
    costs, successes = np.asarray(cost, dtype=np.float64), np.asarray(success, dtype=np.float64)
    if costs.shape != successes.shape or costs.ndim == 0:
        raise ValueError(f"cost has shape {costs.shape} and success {successes.shape}; give one of each for every policy")
    return costs, successes


def _problems(cost: ArrayLike, success: ArrayLike) -> tuple[Floats, Floats]:
    costs, successes = _policies(cost, success)
    if costs.ndim != 2 or 0 in costs.shape:
        raise ValueError("cost and success have shape (problems, policies), with one of each at least")
    return costs, successes
