"""What k of n stored draws would have given, and cost, exactly.

Every estimator here is the expectation over all subsets of k draws out of the n draws of one problem (docs/design.md 5). None
samples subsets, and none takes only the first k draws, which would be one subset out of C(n, k). Results are per
problem: average them over problems, never pool the draws of different problems first. The vote has a file of its own, majority.py; what
has no exact form (weighted votes, stopping rules) is in resampling.py and stopping.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Bools, Floats, Ints, labels, same_shape, spread_k, taken, whole

# Numbers per block of work: 2 MB of float64, about the size of a CPU's cache.
_BLOCK = 2**18


@overload
def pass_at_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats: ...
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Probability that at least one of k draws is correct: 1 − C(n−c, k) / C(n, k).

    An oracle view: it says what a perfect verifier could select, not what a policy scores.

    Args:
        n: draws per problem.
        c: correct draws among them.
        k: draws taken without replacement.

    The arguments are whole numbers and broadcast against each other; the result has the broadcast shape. For a table of problems × ks,
    give c as a column: `pass_at_k(n, c[:, None], ks)`.

    Raises:
        ValueError: where k < 1, k > n (never extrapolated), c < 0 or c > n, or a value is not a whole number.

    Source: Chen et al. 2021, arXiv 2107.03374. The relative error stays below 1e-12 at n = 10,000.
    """
    return _per_triple(_some, n, c, k)


@overload
def pass_hat_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats: ...
def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Probability that all of k draws are correct, the reliability of a policy: C(c, k) / C(n, k).

    Arguments, shapes and errors are those of `pass_at_k`. Source: τ-bench, arXiv 2406.12045.
    """
    return _per_triple(_every, n, c, k)


def best_of_n_at_k(scores: ArrayLike, correct: ArrayLike, k: ArrayLike, unscored: Literal["random", "unresolved"] = "random") -> Floats:
    """Probability that the highest-scored of k draws is correct; score ties are broken at random.

    Args:
        scores: shape (problems, n), in any unit that orders the draws. NaN marks a draw without a valid score: it ranks
            below every score, −inf included, and the NaN draws tie with each other.
        correct: bool, same shape.
        k: draws taken without replacement, 1 ≤ k ≤ n; one number, or a list.
        unscored: what a subset selects in which no draw has a valid score. `random`: one of its draws, as a policy must that has to
            answer. `unresolved`: nothing, as a policy does that never selects what it could not score.

    Returns:
        Probabilities, shape (problems,), or (problems, ks) for a list of ks.

    Raises:
        ValueError: for k outside 1..n, shapes that are not equal and two-dimensional, labels that are not bool, or another word for
            `unscored`.

    Source: docs/design.md 5, Σ_i y_i · C(n−1−i, k−1) / C(n, k) over draws in descending order of score, y replaced by its mean
    inside a block of tied scores.
    """
    score, label = np.asarray(scores, dtype=np.float64), labels(correct)
    same_shape("scores", score, "correct", label)
    if unscored not in ("random", "unresolved"):
        raise ValueError(f"unscored is 'random' or 'unresolved', not {unscored!r}")
    problems, n = score.shape
    ks, single = taken(k, n)

    order = np.argsort(-score, axis=1, kind="stable")  # NaN sorts last
    ranked = np.take_along_axis(score, order, axis=1)
    y = np.take_along_axis(label, order, axis=1).astype(np.float64)
    if unscored == "unresolved":
        y[np.isnan(ranked)] = 0.0
    same = (ranked[:, 1:] == ranked[:, :-1]) | (np.isnan(ranked[:, 1:]) & np.isnan(ranked[:, :-1]))
    starts = np.concatenate([np.ones((problems, 1), dtype=bool), ~same], axis=1)
    block = np.cumsum(starts.reshape(-1)) - 1  # every row starts a block, so no block spans two problems
    block_mean = np.bincount(block, weights=y.reshape(-1)) / np.bincount(block)
    y = block_mean[block].reshape(problems, n)
    return spread_k(np.minimum(y @ _first_of_subset(n, ks), 1.0), single)


def random_pick_at_k(correct: ArrayLike, k: ArrayLike, answered: ArrayLike | None = None) -> Floats:
    """Probability that one of k draws, picked at random, is correct: what any selector has to beat.

    Args:
        correct: bool, shape (problems, n).
        k: draws taken without replacement, 1 ≤ k ≤ n; one number, or a list.
        answered: bool, same shape: which draws have an answer. The pick is then among these, and a subset without any selects nothing.
            None: every draw may be picked, and k makes no difference.

    Returns:
        Probabilities, shape (problems,), or (problems, ks) for a list of ks. With m draws that have an answer, c of them correct, it is
        (1 − C(n−m, k) / C(n, k)) · c/m, and 0 for m = 0.

    Raises:
        ValueError: for k outside 1..n, shapes that are not equal and two-dimensional, or labels that are not bool.
    """
    label = labels(correct)
    pickable = np.ones_like(label) if answered is None else labels(answered)
    same_shape("correct", label, "answered", pickable)
    n = label.shape[1]
    ks, single = taken(k, n)
    m = pickable.sum(axis=1)
    share = (label & pickable).sum(axis=1) / np.maximum(m, 1)
    return spread_k(pass_at_k(n, m[:, None], ks) * share[:, None], single)


def cost_at_k(costs: ArrayLike, k: ArrayLike) -> Floats:
    """Expected cost of k draws, in the unit of `costs` (tokens, USD, calls): k times the mean of the pool.

    It holds for every rule that takes k draws whatever they say: votes, best-of-N (with what the verifier charged for a draw added to the
    draw), a random pick, the oracle. A rule that stops early has another cost: `replay`.

    Args:
        costs: shape (problems, n); what each draw cost, with everything that it caused. NaN is unknown and makes its problem NaN: an
            unknown cost is never 0.
        k: draws taken without replacement, 1 ≤ k ≤ n; one number, or a list.

    Returns:
        Shape (problems,), or (problems, ks) for a list of ks.

    Raises:
        ValueError: for k outside 1..n, or costs that are not two-dimensional.
    """
    cost = _two_dimensional("costs", costs)
    ks, single = taken(k, cost.shape[1])
    return spread_k(cost.mean(axis=1)[:, None] * ks, single)


def longest_at_k(seconds: ArrayLike, k: ArrayLike) -> Floats:
    """Expected latency of k draws made at once, in the unit of `seconds`: the mean, over all subsets, of the longest of k.

    Args:
        seconds: shape (problems, n); NaN is unknown and makes its problem NaN.
        k: draws taken without replacement, 1 ≤ k ≤ n; one number, or a list.

    Returns:
        Shape (problems,), or (problems, ks) for a list of ks: Σ_i t_i · C(n−1−i, k−1) / C(n, k), longest first.

    Raises:
        ValueError: for k outside 1..n, or seconds that are not two-dimensional.
    """
    time = _two_dimensional("seconds", seconds)
    ks, single = taken(k, time.shape[1])
    longest = -np.sort(-time, axis=1) @ _first_of_subset(time.shape[1], ks)
    longest[np.isnan(time).any(axis=1)] = np.nan
    return spread_k(longest, single)


def _first_of_subset(n: int, ks: Ints) -> Floats:
    """The chance that the draw at rank i is the first of a subset of k: C(n−1−i, k−1) / C(n, k), shape (n, ks)."""
    i = np.arange(n - 1)[:, None]
    chance = np.empty((n, ks.size))
    chance[0] = ks / n
    np.cumprod(np.maximum(n - ks - i, 0) / (n - 1 - i), axis=0, out=chance[1:])
    chance[1:] *= chance[0]
    return chance


def _two_dimensional(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"{name} {array.shape} has to have the shape (problems, n)")
    return array


def _some(n: Ints, c: Ints, k: Ints) -> Floats:
    """The chance that the j-th of the draws is the first correct one, summed over j: no term is negative."""
    fewer, more = np.minimum(c, k), np.maximum(c, k)  # C(n−c, k)/C(n, k) is symmetric in c and k; take the shorter product
    j = np.arange(int(fewer.max(initial=0)))
    left = np.maximum(n[:, None] - j, 1)
    hit = np.where(j < fewer[:, None], np.minimum(more[:, None], left) / left, 0.0)
    # The share that misses from whole numbers, not as 1 − hit: that would round.
    missing = np.cumprod(np.where(j < fewer[:, None], np.maximum(left - more[:, None], 0) / left, 1.0), axis=1)
    chance = hit[:, 0] + (hit[:, 1:] * missing[:, :-1]).sum(axis=1) if j.size else np.zeros(n.size)
    return np.where(c > n - k, 1.0, np.minimum(chance, 1.0))


def _every(n: Ints, c: Ints, k: Ints) -> Floats:
    """All k are correct if none of the n − c wrong draws is among them."""
    fewer, more = np.minimum(n - c, k), np.maximum(n - c, k)
    j = np.arange(int(fewer.max(initial=0)))
    left = np.maximum(n[:, None] - j, 1)
    factor = np.where(j < fewer[:, None], np.maximum(left - more[:, None], 0) / left, 1.0)
    return np.where(c < k, 0.0, np.prod(factor, axis=1))


def _per_triple(probability: Callable[[Ints, Ints, Ints], Floats], n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Work out each distinct triple once, in blocks of alike length, and spread the results over the broadcast shape."""
    draws, hits, ks = np.broadcast_arrays(whole("n", n), whole("c", c), whole("k", k))
    _refuse((ks < 1) | (ks > draws), "k is not in 1..n", draws, hits, ks)
    _refuse((hits < 0) | (hits > draws), "c is not in 0..n", draws, hits, ks)
    if draws.size == 0:
        return np.zeros(draws.shape)
    base = int(draws.max()) + 1
    if base > 2_000_000:
        raise ValueError(f"n={base - 1}: more than 2,000,000 draws per problem are not supported")
    keys, where = np.unique(((draws * base + hits) * base + ks).reshape(-1), return_inverse=True)
    triples = np.stack([keys // base // base, keys // base % base, keys % base])
    length = np.maximum(np.minimum(triples[2], triples[0] - triples[1] if probability is _every else triples[1]), 1)
    order = np.argsort(length, kind="stable")
    triples, length = triples[:, order], length[order]
    values = np.empty(keys.size)
    start = 0
    while start < keys.size:
        # As many as fit a block at the length of the longest of them, which is the last.
        within = length[start : start + _BLOCK // int(length[start])]
        stop = start + max(1, int((np.arange(1, within.size + 1) * within <= _BLOCK).sum()))
        values[order[start:stop]] = probability(*triples[:, start:stop])
        start = stop
    spread = values[where.reshape(-1)].reshape(draws.shape)
    return float(spread) if draws.ndim == 0 else spread


def _refuse(bad: Bools, what: str, n: Ints, c: Ints, k: Ints) -> None:
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{what}: n={n.flat[at]}, c={c.flat[at]}, k={k.flat[at]} ({int(bad.sum())} of {bad.size} problems)")
