"""Stopping rules: how sure agreement among the draws so far makes the leading answer. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

# Nodes of the quadrature; the integrand is smooth between the quantiles that bound it.
_NODES = 200
_TAIL = 1e-13


def beta_agreement(votes: int, runner_up: int) -> float:
    """P(p > 1/2) for p ~ Beta(votes + 1, runner_up + 1): how surely the leader beats the runner-up, in (0, 1).

    Exact for whole numbers: 1 − 2^−N · Σ_{j ≤ runner_up} C(N, j) with N = votes + runner_up + 1.
    Source: Adaptive-Consistency, arXiv 2305.11860.
    """
    if not 0 <= runner_up <= votes:
        raise ValueError(f"runner_up={runner_up} is not between 0 and votes={votes}")
    trials = votes + runner_up + 1
    ways, behind = 1, 0
    for place in range(runner_up + 1):
        behind += ways
        ways = ways * (trials - place) // (place + 1)
    return float(1 - Fraction(behind, 2**trials))


def dirichlet_agreement(counts: Iterable[int]) -> float:
    """P(the leading class is the most likely one) under a uniform Dirichlet prior over the classes seen, in (0, 1).

    A Dirichlet draw is a set of independent Gamma draws over their sum, so the probability is ∫ f(x; n_1 + 1) · Π F(x; n_i + 1) dx with
    the density and the distribution functions of Gamma(n + 1, 1), here by Gauss–Legendre quadrature (error below 1e-9). With one class
    seen, one that was not seen stands against it, so that with two classes or fewer it is `beta_agreement`.
    Source: the Dirichlet criterion of arXiv 2305.11860, which estimates this by Monte Carlo over its five largest classes.

    Args:
        counts: votes of each class; the largest is the leader. No vote at all gives 0.
    """
    ranked = sorted((count for count in counts if count), reverse=True)
    if not ranked:
        return 0.0
    if len(ranked) < 3:
        return beta_agreement(ranked[0], ranked[1] if len(ranked) > 1 else 0)
    return _largest(tuple(ranked))


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Any, Any]:
    import numpy as np

    return np.polynomial.legendre.leggauss(_NODES)


@lru_cache(maxsize=4096)
def _largest(counts: tuple[int, ...]) -> float:
    import numpy as np
    from scipy import special

    shapes = np.array(counts) + 1.0
    low, high = special.gammaincinv(shapes[0], _TAIL), special.gammainccinv(shapes[0], _TAIL)
    nodes, weights = _quadrature()
    places = low + (nodes + 1) * (high - low) / 2
    density = np.exp((shapes[0] - 1) * np.log(places) - places - special.gammaln(shapes[0]))
    others = special.gammainc(shapes[1:, None], places).prod(axis=0)
    return float(np.clip((weights * density * others).sum() * (high - low) / 2, 0.0, 1.0))


def window_agrees(classes: Sequence[str | None], width: int, *, sliding: bool = False) -> bool:
    """Whether the last `width` draws end a window and all voted for one class.

    Windows follow each other without overlap, as published, or `sliding` ones end at every draw. A draw that does not vote (None) agrees
    with nothing. Source: early-stopping self-consistency (ESC), arXiv 2401.10480.
    """
    if len(classes) < width or (not sliding and len(classes) % width):
        return False
    last = classes[-width:]
    return last[0] is not None and all(name == last[0] for name in last)
