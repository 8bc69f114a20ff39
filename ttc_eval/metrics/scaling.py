"""How coverage grows with draws: two models of pass@k, fitted on some k and checked on others. Pure functions over arrays.

| model | pass@k | fitted | source |
|---|---|---|---|
| power | exp(a·k^b) | a line through (log k, log(−log pass@k)) at k = 1, 2, 4, … and n | Brown et al., arXiv 2407.21787 |
| beta-binomial | (1 − z)·(1 − B(α, β+k)/B(α, β)) | likelihood of counts; a share z is never solved | Schaeffer et al., arXiv 2502.17578 |

A fit is a description of the k that it was made on. `predicted` refuses to go far beyond them unless it is told to, and marks what it
then says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttc_eval.metrics.estimators import pass_at_k
from ttc_eval.metrics.intervals import Estimate, problem_bootstrap

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Scaling(Protocol):
    """A fitted model of coverage. `largest` is the largest k that it was fitted on."""

    @property
    def largest(self) -> int:
        """The largest k that it was fitted on."""
        ...

    def at(self, k: ArrayLike) -> Floats:
        """Modelled mean pass@k over problems, shape of `k`, however large that is: use `predicted`."""
        ...


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """pass@k = exp(a·k^b), with a < 0; b < 0 where coverage grows."""

    a: float
    b: float
    largest: int

    def at(self, k: ArrayLike) -> Floats:
        """See `Scaling`."""
        value: Floats = np.exp(self.a * np.asarray(k, dtype=np.float64) ** self.b)
        return value


@dataclass(frozen=True, slots=True)
class BetaBinomial:
    """Problems whose success probability follows Beta(alpha, beta), but for a share `zero` that is never solved."""

    alpha: float
    beta: float
    zero: float
    largest: int

    def at(self, k: ArrayLike) -> Floats:
        """See `Scaling`."""
        from scipy import special

        ks = np.asarray(k, dtype=np.float64)
        missed = np.exp(special.betaln(self.alpha, self.beta + ks) - special.betaln(self.alpha, self.beta))
        value: Floats = (1 - self.zero) * (1 - missed)
        return value


@dataclass(frozen=True, slots=True)
class Prediction:
    """Modelled pass@k at each k, and whether that k lies beyond those that the model was fitted on."""

    k: Ints
    value: Floats
    extrapolated: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Check:
    """A fit on few draws held against the draws that it did not see, at one k. `error` is modelled minus measured, in shares."""

    k: int
    fitted_on: int
    modelled: float
    measured: Estimate
    error: float


def doubling(n: int) -> Ints:
    """The k to fit a line on: 1, 2, 4, … and n. Even distances in log k, so that large k do not outvote small ones."""
    powers = 2 ** np.arange(int(np.log2(n)) + 1)
    return np.unique(np.append(powers, n)).astype(np.int64)


def power_law(k: ArrayLike, coverage: ArrayLike) -> PowerLaw:
    """The line through (log k, log(−log coverage)) of least squares.

    Args:
        k: draws, at least two different ones; coverage: mean pass@k over problems, strictly between 0 and 1.

    Raises:
        ValueError: where the line is not defined. Coverage of 0 or 1 has no logarithm of a logarithm.
    """
    ks, shares = np.asarray(k, dtype=np.float64), np.asarray(coverage, dtype=np.float64)
    if ks.ndim != 1 or ks.shape != shares.shape or len(np.unique(ks)) < 2:
        raise ValueError("power_law needs the coverage at two or more different k")
    if not ((shares > 0) & (shares < 1)).all():
        raise ValueError("power_law needs coverage strictly between 0 and 1 at every k; leave out k where none or all are solved")
    slope, height = np.polyfit(np.log(ks), np.log(-np.log(shares)), 1)
    return PowerLaw(float(-np.exp(height)), float(slope), int(ks.max()))


def beta_binomial(n: ArrayLike, c: ArrayLike, *, zero_inflated: bool = True) -> BetaBinomial:
    """The most likely beta-binomial for `c` right draws out of `n`, problem by problem.

    Args:
        n, c: shape (problems,).
        zero_inflated: allow a share of problems that are never solved; without it the share is 0.

    Raises:
        ValueError: with fewer than two problems, or when every draw or none is right: the likelihood then has no maximum.
    """
    from scipy import optimize, special

    draws, right = np.asarray(n, dtype=np.float64), np.asarray(c, dtype=np.float64)
    draws, right = np.broadcast_arrays(draws, right)
    if draws.ndim != 1 or len(draws) < 2 or not ((right >= 0) & (right <= draws) & (draws >= 1)).all():
        raise ValueError("beta_binomial needs two or more problems with 0 ≤ c ≤ n right draws each")
    if not right.any() or (right == draws).all():
        raise ValueError("beta_binomial: no draw is right, or every draw is; such counts fit any success probability near 0 or 1")

    def minus_log_likelihood(parameters: Floats) -> float:
        alpha, beta = np.exp(parameters[:2])
        zero = special.expit(parameters[2]) if zero_inflated else 0.0
        each = special.betaln(alpha + right, beta + draws - right) - special.betaln(alpha, beta)
        with np.errstate(divide="ignore"):
            each = np.log1p(-zero) + each
            each = np.where(right == 0, np.logaddexp(each, np.log(zero)), each)
        return float(-each.sum())

    share = float(np.clip(right.sum() / draws.sum(), 1e-3, 1 - 1e-3))
    starts = [np.log([share * spread, (1 - share) * spread]) for spread in (0.5, 2.0, 8.0)]
    bounds = [(-12.0, 12.0), (-12.0, 12.0), (-14.0, 8.0)][: 3 if zero_inflated else 2]
    best = min(
        (
            optimize.minimize(minus_log_likelihood, np.append(start, [-3.0][: int(zero_inflated)]), method="L-BFGS-B", bounds=bounds)
            for start in starts
        ),
        key=lambda found: float(found.fun),
    )
    alpha, beta = np.exp(best.x[:2])
    zero = float(special.expit(best.x[2])) if zero_inflated else 0.0
    return BetaBinomial(float(alpha), float(beta), zero, int(draws.max()))


def predicted(fit: Scaling, k: ArrayLike, *, max_factor: float = 2.0, extrapolate: bool = False) -> Prediction:
    """Modelled pass@k, and what of it is extrapolated.

    Args:
        max_factor: how many times the largest fitted k may be passed; `extrapolate` lifts that, and figures then have to say so.

    Raises:
        ValueError: for k < 1, or beyond the factor without `extrapolate`.
    """
    ks = np.atleast_1d(np.asarray(k, dtype=np.int64))
    if (ks < 1).any():
        raise ValueError("k is 1 or more")
    if not extrapolate and (ks > max_factor * fit.largest).any():
        raise ValueError(
            f"k = {int(ks.max())} is more than {max_factor:g} times the largest k that was fitted ({fit.largest}); "
            "draw more, or pass extrapolate=True and mark the figure"
        )
    return Prediction(ks, fit.at(ks), ks > fit.largest)


def held_out(
    correct: ArrayLike, fitted_on: int, k: ArrayLike, *, model: str = "power", confidence: float = 0.95, seed: int = 0
) -> list[Check]:
    """A model fitted on the first `fitted_on` draws of every problem, held against pass@k of all draws at larger k.

    Args:
        correct: bool, shape (problems, n). Draws are exchangeable, so the first ones are any.
        fitted_on: draws of each problem that the fit may see. k: where to check, above that and at most n.
        model: `power` or `beta_binomial`.

    Raises:
        ValueError: for k outside fitted_on + 1 to n, another model, or a fit that is not defined.
    """
    labels = np.asarray(correct, dtype=bool)
    ks = np.atleast_1d(np.asarray(k, dtype=np.int64))
    if labels.ndim != 2 or not 1 <= fitted_on < labels.shape[1]:
        raise ValueError("correct has shape (problems, n), and fitted_on leaves draws to check on")
    if ((ks <= fitted_on) | (ks > labels.shape[1])).any():
        raise ValueError(f"k: check at {fitted_on + 1} to {labels.shape[1]}")
    seen, right = labels[:, :fitted_on].sum(axis=1), labels.sum(axis=1)
    fit = _fitted(model, fitted_on, seen)
    checks = []
    for one in ks.tolist():
        measured = problem_bootstrap(pass_at_k(np.full(len(right), labels.shape[1]), right, one), confidence=confidence, seed=seed)
        modelled = float(fit.at(one))
        checks.append(Check(one, fitted_on, modelled, measured, modelled - measured.value))
    return checks


def _fitted(model: str, n: int, c: Ints) -> Scaling:
    if model == "power":
        ks = doubling(n)
        return power_law(ks, [float(pass_at_k(np.full(len(c), n), c, int(k)).mean()) for k in ks])
    if model == "beta_binomial":
        return beta_binomial(np.full(len(c), n), c)
    raise ValueError(f"model={model!r}: give 'power' or 'beta_binomial'")
