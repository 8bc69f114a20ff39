"""How sure a mean is. The problem is the unit: draws of one problem are not independent (docs/design.md 5; Miller 2024, arXiv 2411.00640).

Results hold plain floats and None, never NaN, so they can go into JSON and into a database as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_ONE = "none: one problem has no standard error"


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval for a proportion.

    Attributes:
        low, high: its ends, within [0, 1].
        method: how it was made, in words for a table or a caption.
        n: the number of trials.
    """

    low: float
    high: float
    method: str
    n: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty, in the unit of the values.

    Attributes:
        mean: the estimate.
        stderr: its standard error; None when there is one problem only.
        low, high: ends of its interval; None when stderr is. They may leave [0, 1] for a share of problems.
        method: how the interval was made, in words for a table or a caption.
        n: the number of problems.
    """

    mean: float
    stderr: float | None
    low: float | None
    high: float | None
    method: str
    n: int


def wilson(successes: int, n: int, confidence: float = 0.95, *, z: float | None = None) -> Interval:
    """Wilson's score interval for `successes` out of `n` independent trials, for one draw per problem.

    It keeps a width at 0 and at n successes, where the normal interval collapses to a point. `z` replaces the normal
    quantile of `confidence`, to reproduce a figure made with 1.96.

    Raises:
        ValueError: for n < 1 (a share of nothing is undefined), successes outside 0..n, or counts that are not whole.

    Source: Wilson 1927; Brown, Cai and DasGupta 2001, "Interval estimation for a binomial proportion".
    """
    if n != int(n) or successes != int(successes):
        raise ValueError(f"successes and n are whole counts, not {successes} of {n}; for problem means use cluster_mean")
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: need n >= 1 and 0 <= successes <= n")
    quantile, level = _normal(confidence, z)
    share, square = successes / n, quantile * quantile
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)  # exact at the ends, where rounding leaves 1e-17
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low=low, high=high, method=f"Wilson, {level}", n=int(n))


def cluster_mean(values: ArrayLike, confidence: float = 0.95, *, z: float | None = None) -> Estimate:
    """Mean over problems, with its standard error and t interval.

    Args:
        values: one value per problem, shape (problems,), or draws, shape (problems, draws). Draws are averaged within
            their problem first; the standard error is that of the problem means, with problems − 1 degrees of freedom.
            Where problems have different numbers of draws, pass their means.
        confidence: coverage of the interval.
        z: take this normal quantile instead of the t quantile.

    With one problem stderr, low and high are None. When all problem means agree but the draws do not, the standard error
    comes from the spread within problems, so that data that vary never get an interval of width 0. Data that do not vary
    at all do get one; for single draws at 0 or 100 % use `wilson`.

    Raises:
        ValueError: without values, for NaN or infinity, or for more than two dimensions.
    """
    means, within = _problem_means("values", values)
    return _over_problems(means, within, "problems", confidence, z)


def paired_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95, *, z: float | None = None) -> Estimate:
    """Mean of a − b over the same problems in the same order, with the interval of the paired differences.

    Pairing removes the variation between problems that both share: two overlapping separate intervals do not say that
    there is no difference.

    Args:
        a, b: values as in `cluster_mean`; the numbers of draws may differ, the problems may not.

    Raises:
        ValueError: as `cluster_mean`, and when a and b have different numbers of problems.
    """
    first, within_first = _problem_means("a", a)
    second, within_second = _problem_means("b", b)
    if first.size != second.size:
        raise ValueError(f"a has {first.size} problems and b has {second.size}; a paired difference needs the same problems in both")
    return _over_problems(first - second, np.hypot(within_first, within_second), "paired problems", confidence, z)


def problem_bootstrap(
    *columns: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 0,
) -> Estimate:
    """Percentile bootstrap that resamples problems, for statistics without a formula, such as tokens per correct answer.

    Args:
        columns: one or more arrays of one value per problem, shape (problems,). They are resampled together, so rows
            stay paired.
        statistic: a function of the columns that returns a number. With an `axis` argument it is called on blocks of
            resamples, which is much faster.
        resamples: how many resamples; the Monte-Carlo error of the ends falls with its square root.
        seed: the same seed gives the same interval.

    Returns:
        The statistic of the data, the bootstrap standard error and the percentile interval; with one problem, no interval.

    Raises:
        ValueError: as `cluster_mean`, for columns of different lengths, and when the statistic is undefined for the data
            or for a resample (a ratio whose divisor can become 0).

    Source: Efron and Tibshirani 1993. Percentile and not BCa: BCa is undefined for the nearly constant columns that good
    models produce.
    """
    from scipy import stats

    arrays = [_finite(f"column {i}", column) for i, column in enumerate(columns)]
    if not arrays or any(array.ndim != 1 or array.size != arrays[0].size for array in arrays):
        raise ValueError("problem_bootstrap needs columns of one value per problem, all of one length")
    n = arrays[0].size
    value = float(statistic(*arrays))
    if not math.isfinite(value):
        raise ValueError(f"the statistic of these {n} problems is {value}")
    method = f"bootstrap over problems ({resamples} resamples, seed {seed}), {_percent(confidence)}"
    if n == 1:
        return Estimate(mean=value, stderr=None, low=None, high=None, method=_ONE, n=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = stats.bootstrap(
            arrays,
            statistic,
            n_resamples=resamples,
            batch=max(1, 2_000_000 // n),
            paired=len(arrays) > 1,
            confidence_level=confidence,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    if not np.isfinite(result.bootstrap_distribution).all():
        raise ValueError(f"the statistic is undefined for some resamples of these {n} problems")
    low, high = (float(end) for end in result.confidence_interval)
    return Estimate(mean=value, stderr=float(result.standard_error), low=low, high=high, method=method, n=n)


def _over_problems(means: Floats, within: Floats, unit: str, confidence: float, z: float | None) -> Estimate:
    """The estimate from problem means and, for the case that they are all alike, their standard errors within the problem."""
    n, mean = means.size, _mean(means)
    if n == 1:
        return Estimate(mean=mean, stderr=None, low=None, high=None, method=_ONE, n=1)
    if z is None:
        quantile, method = _t_quantile(confidence, n - 1), f"t over {unit}, {_percent(confidence)}"
    else:
        quantile, level = _normal(confidence, z)
        method = f"normal over {unit}, {level}"
    stderr = _spread(means) / math.sqrt(n)
    if stderr == 0.0:
        stderr = math.hypot(*within.tolist()) / n
    low, high = mean - quantile * stderr, mean + quantile * stderr
    if stderr > 0.0:  # a width below the resolution of floats is still a width
        low, high = min(low, math.nextafter(mean, -math.inf)), max(high, math.nextafter(mean, math.inf))
    return Estimate(mean=mean, stderr=stderr, low=low, high=high, method=method, n=n)


def _problem_means(name: str, values: ArrayLike) -> tuple[Floats, Floats]:
    """Mean of each problem's draws, and the standard error of that mean as far as the draws show it."""
    array = _finite(name, values)
    if array.ndim == 1:
        return array, np.zeros_like(array)
    if array.ndim != 2:
        raise ValueError(f"{name} has {array.ndim} dimensions; give (problems,) or (problems, draws)")
    draws = array.shape[1]
    if draws == 1:
        return array[:, 0], np.zeros(array.shape[0])
    # Identical draws give their own value: sum and division would add a rounding error that looks like variation.
    alike = (array == array[:, :1]).all(axis=1)
    means = np.where(alike, array[:, 0], array.mean(axis=1))
    deviation = array - means[:, None]
    largest = np.abs(deviation).max(axis=1)
    scale = np.where(largest > 0, largest, 1.0)  # as in _spread
    return means, scale * np.sqrt(np.square(deviation / scale[:, None]).sum(axis=1) / (draws - 1) / draws)


def _finite(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise ValueError(f"{name} is empty; the mean of no problem is undefined")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity; leave out the problems without a value, and say how many")
    return array


def _mean(values: Floats) -> float:
    """The mean; exactly the common value when all are equal."""
    return float(values[0]) if bool((values == values[0]).all()) else float(values.mean())


def _spread(values: Floats) -> float:
    """Sample standard deviation, scaled first so that squaring can neither underflow nor overflow."""
    deviation = values - _mean(values)
    largest = float(np.abs(deviation).max())
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(float(np.square(deviation / largest).sum()) / (values.size - 1))


def _t_quantile(confidence: float, degrees: int) -> float:
    from scipy import special

    _percent(confidence)
    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def _normal(confidence: float, z: float | None) -> tuple[float, str]:
    """The quantile and how to call it."""
    if z is not None:
        if not (math.isfinite(z) and z > 0):
            raise ValueError(f"z={z} has to be a positive number")
        return z, f"z = {z:g}"
    from statistics import NormalDist

    level = _percent(confidence)
    return NormalDist().inv_cdf(0.5 + confidence / 2), level


def _percent(confidence: float) -> str:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} is not between 0 and 1; 0.95 stands for 95 %")
    return f"{100 * confidence:g} %"
