"""How sure a number is. The problem is the unit: draws of one problem are not independent (docs/design.md 5; Miller, arXiv 2411.00640).

| function | for |
|---|---|
| `wilson` | a share of problems, one 0/1 outcome each |
| `cluster_mean` | a mean over problems of anything, with or without repeated draws |
| `cluster_wilson` | a share from repeated draws, above all near 0 or 1 |
| `cluster_ratio` | a ratio of totals: right ÷ answered, tokens per correct answer |
| `problem_bootstrap` | any other statistic |
| `two_level` | how much of the uncertainty more draws, or more problems, would take away |

Results hold plain floats and None, never NaN, so they can go into JSON and into a database as they are. Data that vary never get an
interval of width 0. Shares that do not vary get one too: of n problems none was different, which allows that up to Wilson's upper bound
for 0 of n are, and each of these may have any value.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Floats

_ONE = "none: one problem has no standard error"
_ALIKE = "none: all {n} values are the same"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty, in the unit of the values.

    Attributes:
        value: the estimate.
        stderr: its standard error; None where the data show none (one problem, or values that are all the same).
        low, high: ends of its interval; None when there is none, and `method` says why.
        n: the number of problems.
        method: how the interval was made, in words for a table or a caption.
    """

    value: float
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    method: str

    def __str__(self) -> str:
        """The number with all that a reader needs beside it: `0.6 [0.213, 0.987] (t over problems, 95 %, n = 4)`."""
        ends = "" if self.low is None or self.high is None else f" [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.value:.3g}{ends} ({self.method}, n = {self.n})"


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """Where the uncertainty of a mean over problems comes from, when each problem was drawn several times.

    Attributes:
        problems: number of problems; draws: draws per problem, their harmonic mean where it varies.
        between: variance between problems of what a problem would give in the long run; never below 0.
        within: mean variance between the draws of a problem.
    """

    problems: int
    draws: float
    between: float
    within: float

    def stderr(self, problems: int | None = None, draws: float | None = None) -> float:
        """Standard error to expect of the mean with that many problems and draws each; by default as they were."""
        return math.sqrt((self.between + self.within / (draws or self.draws)) / (problems or self.problems))

    @property
    def rerun_stderr(self) -> float:
        """Standard error over reruns on these very problems: what draws alone contribute."""
        return math.sqrt(self.within / self.draws / self.problems)


def wilson(successes: int, n: int, confidence: float = 0.95, *, z: float | None = None) -> Estimate:
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
    share = successes / n
    low, high = _score_interval(share, n, quantile)
    stderr = math.sqrt(share * (1 - share) / n) if 0 < successes < n else None
    return Estimate(value=share, stderr=stderr, low=low, high=high, method=f"Wilson, {level}", n=int(n))


def cluster_mean(values: ArrayLike, confidence: float = 0.95, *, z: float | None = None, share: bool = True) -> Estimate:
    """Mean over problems, with its cluster-robust standard error and t interval.

    Args:
        values: one value per problem, shape (problems,), or draws, shape (problems, draws), or a list of draws for each problem, as
            many as it has. Draws are averaged within their problem first; the standard error is that of the problem means, with
            problems − 1 degrees of freedom, and so holds both levels: the problems' variance, and the draws' divided by their number.
        confidence: coverage of the interval.
        z: take this normal quantile instead of the t quantile.
        share: values that all lie in [0, 1] are shares or outcomes: the interval stays in [0, 1], and values that are all the same get
            one too. Say False for costs, counts and seconds.

    With one problem stderr, low and high are None. When all problem means agree but the draws do not, the standard error
    comes from the spread within problems.

    Raises:
        ValueError: without values, for NaN or infinity, or for more than two dimensions.
    """
    means, within = problem_means("values", values)
    bounds = (0.0, 1.0) if share and bool(((means >= 0) & (means <= 1)).all()) else None
    return over_problems(means, within, "problems", confidence, z, bounds)


def cluster_wilson(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean over problems of 0/1 outcomes, or of values in [0, 1], with Wilson's interval at the effective sample size.

    The effective sample size is the number of independent trials with the same standard error, p(1 − p)/stderr², at most the number of
    draws, and the quantile is Student's with problems − 1 degrees of freedom. Near 0 and 1 it covers better than `cluster_mean`, whose
    interval is symmetric there.

    Args:
        values: as for `cluster_mean`.

    Raises:
        ValueError: as `cluster_mean`, and for values outside [0, 1].

    Source: Korn and Graubard 1998 for the effective sample size; Franco et al. 2019, "Comparative study of confidence intervals for
    proportions in complex sample surveys", for Wilson's interval with it.
    """
    means, within = problem_means("values", values)
    if bool(((means < 0) | (means > 1)).any()):
        raise ValueError("values of a share lie in [0, 1]; for others use cluster_mean")
    plain = over_problems(means, within, "problems", confidence, None, (0.0, 1.0))
    if plain.stderr is None:
        return plain
    effective = min(plain.value * (1 - plain.value) / plain.stderr**2, float(sum(_lengths(values))))
    low, high = _score_interval(plain.value, effective, _t_quantile(confidence, plain.n - 1))
    method = f"Wilson at effective size {effective:.4g} over problems, {_percent(confidence)}"
    return Estimate(value=plain.value, stderr=plain.stderr, low=low, high=high, method=method, n=plain.n)


def cluster_ratio(totals: ArrayLike, counts: ArrayLike, confidence: float = 0.95, *, share: bool = True) -> Estimate:
    """Ratio of two sums over problems, Σ totals / Σ counts, with the standard error of its linearisation and a t interval.

    For selected-answer accuracy (right ÷ selected), for tokens or USD per correct answer, for a share of pooled draws.

    Args:
        totals, counts: one value per problem; a problem with count 0 belongs to n and adds nothing to the divisor.
        share: as for `cluster_mean`: the ratio of parts to wholes stays in [0, 1]. It is one where 0 ≤ totals ≤ counts.

    Raises:
        ValueError: for shapes other than (problems,), NaN, infinity or negative counts, or when the counts sum to 0: that ratio is
            undefined.

    Source: Cochran 1977, Sampling Techniques, section 6; Miller 2024 uses it for draws in clusters.
    """
    top, bottom = _finite("totals", totals), _finite("counts", counts)
    if top.ndim != 1 or top.shape != bottom.shape:
        raise ValueError(f"totals {top.shape} and counts {bottom.shape} have to have one value per problem")
    whole = float(bottom.sum())
    if bool((bottom < 0).any()) or whole == 0.0:
        raise ValueError("counts are 0 or more, and a ratio to a sum of 0 is undefined")
    n, value = top.size, float(top.sum()) / whole
    bounds = (0.0, 1.0) if share and bool(((top >= 0) & (top <= bottom)).all()) else None
    residual = top - value * bottom
    if float(np.abs(residual).max()) <= 1e-12 * float(np.abs(top).max()):  # rounding of an exact ratio is not variation
        return over_problems(np.full(int((bottom > 0).sum()), value), np.zeros(n), "problems, of a ratio", confidence, None, bounds)
    # Each problem's part in the ratio: the mean of these is the value, and their spread its standard error.
    return over_problems(value + residual * n / whole, np.zeros(n), "problems, of a ratio", confidence, None, bounds)


def two_level(values: Any) -> TwoLevel:
    """Variance between problems and within them, from repeated draws (analysis of variance, one-way random effects).

    Args:
        values: draws, shape (problems, draws), or a list of draws for each problem. At least two problems, and two draws in one.

    Raises:
        ValueError: for less than that, NaN or infinity.
    """
    rows = [_finite("values", row) for row in values]
    sizes = np.array([row.size for row in rows], dtype=np.float64)
    if len(rows) < 2 or sizes.max() < 2 or any(row.ndim != 1 for row in rows):
        raise ValueError("two levels need two problems or more, and one with two draws or more")
    means = np.array([row.mean() for row in rows])
    squares = sum(float(np.square(row - row.mean()).sum()) for row in rows)
    within = squares / float((sizes - 1).sum())
    draws = float(1 / np.mean(1 / sizes))
    between = max(0.0, float(means.var(ddof=1)) - within / draws)
    return TwoLevel(problems=len(rows), draws=draws, between=between, within=within)


def problem_bootstrap(
    *columns: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    confidence: float = 0.95,
    resamples: int = 9_999,
    seed: int = 0,
    kind: Literal["percentile", "bca"] = "percentile",
) -> Estimate:
    """Bootstrap that resamples problems, for statistics without a formula, such as a median.

    Args:
        columns: one or more arrays of one value per problem, shape (problems,). They are resampled together, so rows
            stay paired.
        statistic: a function of the columns that returns a number. With an `axis` argument it is called on blocks of
            resamples, which is much faster.
        resamples: how many resamples; the Monte-Carlo error of the ends falls with its square root.
        seed: the same seed gives the same interval.
        kind: `percentile`, or `bca`, which corrects bias and skewness (costs, latencies). BCa is undefined for nearly constant columns;
            the percentile interval is then given, and `method` says so.

    Returns:
        The statistic of the data, the bootstrap standard error and the interval; no interval with one problem, or when all resamples
        give the same number. (A mean of outcomes that are all the same has one by `cluster_mean` and `wilson`.)

    Raises:
        ValueError: as `cluster_mean`, for columns of different lengths, and when the statistic is undefined for the data
            or for a resample (a ratio whose divisor can become 0).

    Source: Efron and Tibshirani 1993; BCa: Efron 1987.
    """
    from scipy import stats

    arrays = [_finite(f"column {i}", column) for i, column in enumerate(columns)]
    if not arrays or any(array.ndim != 1 or array.size != arrays[0].size for array in arrays):
        raise ValueError("problem_bootstrap needs columns of one value per problem, all of one length")
    if kind not in ("percentile", "bca"):
        raise ValueError(f"kind is 'percentile' or 'bca', not {kind!r}")
    n = arrays[0].size
    value = float(statistic(*arrays))
    if not math.isfinite(value):
        raise ValueError(f"the statistic of these {n} problems is {value}")
    level = _percent(confidence)
    if n == 1:
        return Estimate(value=value, stderr=None, low=None, high=None, method=_ONE, n=1)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns where BCa is undefined; that is looked at below
        result = stats.bootstrap(
            arrays,
            statistic,
            n_resamples=resamples,
            batch=max(1, 2_000_000 // n),
            paired=len(arrays) > 1,
            confidence_level=confidence,
            method="BCa" if kind == "bca" else "percentile",
            rng=np.random.default_rng(seed),
        )
    drawn = np.asarray(result.bootstrap_distribution)
    if not np.isfinite(drawn).all():
        raise ValueError(f"the statistic is undefined for some resamples of these {n} problems")
    if drawn.min() == drawn.max():
        return Estimate(value=value, stderr=None, low=None, high=None, method="none: all resamples give the same number", n=n)
    low, high = (float(end) for end in result.confidence_interval)
    name = "BCa bootstrap" if kind == "bca" else "bootstrap"
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = (float(end) for end in np.quantile(drawn, [0.5 - confidence / 2, 0.5 + confidence / 2]))
        name = "bootstrap (BCa undefined)"
    if low == high:  # few resamples differ: the interval is at least as wide as they are
        low, high = min(low, float(drawn.min())), max(high, float(drawn.max()))
        name += " of all resamples"
    method = f"{name} over problems ({resamples} resamples, seed {seed}), {level}"
    return Estimate(value=value, stderr=float(result.standard_error), low=low, high=high, method=method, n=n)


def over_problems(
    means: Floats, within: Floats, unit: str, confidence: float, z: float | None, bounds: tuple[float, float] | None
) -> Estimate:
    """The estimate from one value per problem and, for the case that they are all alike, their standard errors within the problem.

    `bounds` are the least and the largest value that a problem can have, or None where there are none.
    """
    n, mean = means.size, _mean(means)
    if z is None:
        level = _percent(confidence)
        method = f"t over {unit}, {level}"
    else:
        level = _normal(confidence, z)[1]
        method = f"normal over {unit}, {level}"
    if n == 1:
        return Estimate(value=mean, stderr=None, low=None, high=None, method=_ONE, n=1)
    stderr = _spread(means) / math.sqrt(n)
    if stderr == 0.0:
        stderr = math.hypot(*within.tolist()) / n
    # Shares that differ by rounding only (0.9 − 0.6 and 0.7 − 0.4) do not vary.
    if stderr == 0.0 or (bounds is not None and stderr <= 1e-15):
        return _alike(mean, n, confidence, z, bounds)
    quantile = _t_quantile(confidence, n - 1) if z is None else _normal(confidence, z)[0]
    # A width below the resolution of floats is still a width.
    low = min(mean - quantile * stderr, math.nextafter(mean, -math.inf))
    high = max(mean + quantile * stderr, math.nextafter(mean, math.inf))
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Estimate(value=mean, stderr=stderr, low=low, high=high, method=method, n=n)


def problem_means(name: str, values: ArrayLike) -> tuple[Floats, Floats]:
    """Mean of each problem's draws, and the standard error of that mean as far as the draws show it."""
    if isinstance(values, (list, tuple)) and len(set(_lengths(values))) > 1:
        pairs = [problem_means(name, [row]) for row in values]
        return np.concatenate([mean for mean, _ in pairs]), np.concatenate([error for _, error in pairs])
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


def _lengths(values: Any) -> list[int]:
    """The number of draws of each problem."""
    return [np.size(row) for row in values]


def _alike(value: float, n: int, confidence: float, z: float | None, bounds: tuple[float, float] | None) -> Estimate:
    """Of n problems none was different: up to Wilson's upper bound for 0 of n may be, each anywhere within the bounds."""
    if bounds is None:
        return Estimate(value=value, stderr=None, low=None, high=None, method=_ALIKE.format(n=n), n=n)
    quantile, level = _normal(confidence, z)
    others = quantile * quantile / (n + quantile * quantile)
    low, high = value - others * (value - bounds[0]), value + others * (bounds[1] - value)
    return Estimate(value=value, stderr=None, low=low, high=high, method=f"Wilson, all {n} problems alike, {level}", n=n)


def _score_interval(share: float, n: float, quantile: float) -> tuple[float, float]:
    square = quantile * quantile
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if share == 0 else max(0.0, centre - half)  # exact at the ends, where rounding leaves 1e-17
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def _finite(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise ValueError(f"{name} is empty; the mean of no problem is undefined")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity; leave out the problems without a value, and say how many")
    if array.ndim == 0:
        raise ValueError(f"{name} is one number; give one value per problem")
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
