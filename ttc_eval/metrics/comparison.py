"""Is one policy better than another? Both answered the same problems, so everything here is paired by problem.

Results hold plain floats, ints and None, never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Floats, labels
from ttc_eval.metrics.intervals import Estimate, over_problems, problem_means

# All sign patterns are enumerated up to this many differences that are not 0.
_EXACT_FLIPS = 16
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact McNemar test of two sets of 0/1 outcomes over the same problems.

    Attributes:
        only_a, only_b: problems that only a, or only b, got right.
        p: two-sided probability of a split at least as uneven, if both were equally good.
        n: the number of problems; method: in words.
    """

    only_a: int
    only_b: int
    p: float
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Permutation test of paired differences: under no difference, a and b could be swapped in every problem.

    Attributes:
        value: mean difference.
        p: two-sided probability of a mean at least as far from 0.
        error: Monte-Carlo standard error of p; 0 where all sign patterns were enumerated.
        n: the number of problems; method: in words.
    """

    value: float
    p: float
    error: float
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """a against b over the same problems.

    Attributes:
        difference: mean of a − b with its interval.
        test: the permutation test of it.
        resolved: whether the interval leaves 0 out and p is as small as its confidence asks for: an interval from a handful of problems
            that differ is too narrow alone, and five that differ can at best reach p = 0.06. False when there is no interval.
        effect: the difference that `needed` is for, in the unit of the values.
        needed: problems with which such a difference would be resolved with probability `power`; None when that cannot be told.
        power: that probability.
    """

    difference: Estimate
    test: SignFlip
    resolved: bool
    effect: float
    needed: int | None
    power: float

    def __str__(self) -> str:
        """The verdict in a line: the difference, its interval and p, and what it would take where it is not resolved."""
        head = f"{self.difference}, p = {self.test.p:.2g} ({self.test.method})"
        if self.resolved:
            return f"{head}: resolved"
        missing = f"{head}: not resolvable with {self.difference.n} problems"
        if self.needed is None:
            return f"{missing}; how many would do cannot be told from these differences"
        if self.needed <= self.difference.n:
            return f"{head}: not resolved, where a difference of {self.effect:.3g} would have been (power {self.power:g})"
        return f"{missing}; about {self.needed} would do for a difference of {self.effect:.3g} (power {self.power:g})"


def paired_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95, *, z: float | None = None, share: bool = True) -> Estimate:
    """Mean of a − b over the same problems in the same order, with the interval of the paired differences.

    Pairing removes the variation between problems that both share: two overlapping separate intervals do not say that
    there is no difference.

    Args:
        a, b: values as in `cluster_mean`; the numbers of draws may differ, the problems may not.
        share: as in `cluster_mean`: where all values lie in [0, 1], the difference stays in [−1, 1], and two policies that agree on
            every problem still have an interval.

    Raises:
        ValueError: as `cluster_mean`, and when a and b have different numbers of problems.
    """
    first, within_first = problem_means("a", a)
    second, within_second = problem_means("b", b)
    _same_problems(first, second)
    both = np.concatenate([first, second])
    bounds = (-1.0, 1.0) if share and bool(((both >= 0) & (both <= 1)).all()) else None
    return over_problems(first - second, np.hypot(within_first, within_second), "paired problems", confidence, z, bounds)


def mcnemar(a: ArrayLike, b: ArrayLike) -> McNemar:
    """Exact McNemar test: the problems that only one of two policies got right, against a fair coin.

    Args:
        a, b: bool, shape (problems,): whether each policy was right, in the same order. For repeated draws use `sign_flip_test`.

    Raises:
        ValueError: for shapes that differ, are not (problems,), or are empty, and labels that are not bool.

    Source: McNemar 1947, with the exact binomial tail; p = 1 without a problem that tells them apart.
    """
    from scipy import special

    first, second = labels(a), labels(b)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise ValueError(f"a {first.shape} and b {second.shape} have to have one outcome for each of the same problems")
    only_a, only_b = int((first & ~second).sum()), int((second & ~first).sum())
    apart = only_a + only_b
    p = min(1.0, 2.0 * float(special.bdtr(min(only_a, only_b), apart, 0.5))) if apart else 1.0
    return McNemar(only_a=only_a, only_b=only_b, p=p, n=first.size, method="exact McNemar, two-sided")


def sign_flip_test(a: ArrayLike, b: ArrayLike | float = 0.0, *, flips: int = 9_999, seed: int = 0) -> SignFlip:
    """Permutation test of paired differences, two-sided, for any values and with repeated draws.

    Args:
        a, b: values as in `paired_difference`; without b, a holds the differences.
        flips: sampled sign patterns, when there are more than 16 differences that are not 0; below that all are enumerated.
        seed: of the sampled patterns.

    Raises:
        ValueError: as `paired_difference`, and for fewer than 1 flip.

    Source: Fisher 1935, The Design of Experiments, section 21. A sampled p counts the data as one of the patterns, (1 + hits)/(1 + flips),
    so it is never 0 (Phipson and Smyth 2010).
    """
    if flips < 1:
        raise ValueError(f"flips={flips}: give 1 or more")
    first, _ = problem_means("a", a)
    second = problem_means("b", b)[0] if np.ndim(b) else np.full(first.size, float(np.asarray(b)))
    _same_problems(first, second)
    differences = first - second
    moved = np.abs(differences[differences != 0])
    far = abs(float(differences.sum())) - 1e-9 * float(moved.sum())  # patterns that differ by rounding only are equal
    if moved.size <= _EXACT_FLIPS:
        patterns = 1 - 2 * ((np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1)
        p, error, how = float((np.abs(patterns @ moved) >= far).mean()), 0.0, "exact sign flips"
    else:
        rng = np.random.default_rng(seed)
        hits, rows = 0, max(1, _BLOCK // moved.size)
        for start in range(0, flips, rows):
            signs = rng.integers(0, 2, (min(rows, flips - start), moved.size), dtype=np.int8)
            hits += int((np.abs(2.0 * (signs @ moved) - moved.sum()) >= far).sum())
        p = (1 + hits) / (1 + flips)
        error, how = math.sqrt(p * (1 - p) / flips), f"{flips} sign flips, seed {seed}"
    return SignFlip(value=float(differences.mean()), p=p, error=error, n=differences.size, method=f"{how}, two-sided")


def holm(p_values: Sequence[float] | Floats) -> list[float]:
    """p values adjusted for the number of comparisons (Holm 1979): each is below α only if all smaller ones are, too.

    Valid whatever the tests have in common, and never weaker than Bonferroni. The order is kept.

    Raises:
        ValueError: for a p value outside [0, 1] or NaN; leave out comparisons that are undefined, and say how many.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not bool(((p >= 0) & (p <= 1)).all()):
        raise ValueError("p values are a list of numbers in [0, 1]")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def problems_needed(differences: ArrayLike, effect: float | None = None, *, confidence: float = 0.95, power: float = 0.8) -> int | None:
    """How many problems would show a mean difference of `effect` with probability `power`, if they vary like these.

    Args:
        differences: observed paired differences a − b as in `cluster_mean`: one per problem, or draws.
        effect: the difference to be found, in the unit of the values; None: the observed mean.
        confidence: of the interval that has to leave 0 out.

    Returns:
        The least m with m ≥ (t + t′)² · s² / effect², s the observed standard deviation over problems, and t, t′ the quantiles of
        Student's distribution for `confidence` and `power` with m − 1 degrees of freedom. None for an effect of 0, and where the
        differences show no variance. The number is as uncertain as s²: with n problems its relative error is about √(2/n).

    Raises:
        ValueError: as `cluster_mean`; for a confidence or power outside (0, 1).
    """
    from scipy import special

    if not 0 < confidence < 1 or not 0 < power < 1:
        raise ValueError(f"confidence={confidence} and power={power} lie between 0 and 1")
    means, _ = problem_means("differences", differences)
    wanted = abs(float(means.mean()) if effect is None else effect)
    if means.size < 2 or wanted == 0.0 or not math.isfinite(wanted) or bool((means == means[0]).all()):
        return None
    ratio = float(means.var(ddof=1)) / wanted**2
    needed = max(2.0, (NormalDist().inv_cdf(0.5 + confidence / 2) + NormalDist().inv_cdf(power)) ** 2 * ratio)
    for _ in range(50):  # t depends on m; from below it settles within a few rounds
        before = needed
        degrees = max(1, math.ceil(needed) - 1)
        quantiles = float(special.stdtrit(degrees, 0.5 + confidence / 2) + special.stdtrit(degrees, power))
        needed = max(2.0, quantiles**2 * ratio)
        if math.ceil(needed) == math.ceil(before):
            break
    return math.ceil(max(needed, before))


def compare(
    a: ArrayLike,
    b: ArrayLike,
    *,
    effect: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
    flips: int = 9_999,
    seed: int = 0,
    share: bool = True,
) -> Comparison:
    """a against b over the same problems: difference, interval, permutation test, and how many problems would resolve it.

    Args:
        a, b, confidence, share: as in `paired_difference`. For "at equal cost", give the values of both at that cost.
        effect: a difference that would matter, in the unit of the values; None: the observed one.
        power: as in `problems_needed`; flips, seed: as in `sign_flip_test`.

    Raises:
        ValueError: as these.
    """
    difference = paired_difference(a, b, confidence, share=share)
    apart = problem_means("a", a)[0] - problem_means("b", b)[0]
    test = sign_flip_test(apart, flips=flips, seed=seed)
    excludes = difference.low is not None and difference.high is not None and (difference.low > 0 or difference.high < 0)
    resolved = excludes and test.p <= 1 - confidence
    needed = problems_needed(apart, effect, confidence=confidence, power=power)
    if needed is not None and not resolved and effect is None:
        needed = max(needed, difference.n + 1)  # more than these, which did not do
    return Comparison(
        difference=difference,
        test=test,
        resolved=resolved,
        effect=difference.value if effect is None else effect,
        needed=needed,
        power=power,
    )


def _same_problems(first: Floats, second: Floats) -> None:
    if first.size != second.size:
        raise ValueError(f"a has {first.size} problems and b has {second.size}; a paired difference needs the same problems in both")
