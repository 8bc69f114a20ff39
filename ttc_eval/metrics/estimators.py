"""What k of n stored draws would have given, exactly.

Every estimator here is the expectation over all subsets of k draws out of the n draws of one problem (docs/design.md 5). None
samples subsets, and none takes only the first k draws, which would be one subset out of C(n, k). Results are per
problem: average them over problems, never pool the draws of different problems first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Elements of working memory per block of problems in majority_at_k: 2 MB of float64, about the size of a CPU's cache.
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

    The arguments are whole numbers and broadcast against each other; the result has the broadcast shape.

    Raises:
        ValueError: where k < 1, k > n (never extrapolated), c < 0 or c > n, or a value is not a whole number.

    Source: Chen et al. 2021, arXiv 2107.03374. The relative error stays below 1e-12 at n = 10,000.
    """
    return _per_triple(_pass_at_k, n, c, k)


@overload
def pass_hat_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats: ...
def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Probability that all of k draws are correct, the reliability of a policy: C(c, k) / C(n, k).

    Arguments, shapes and errors are those of `pass_at_k`. Source: τ-bench, arXiv 2406.12045.
    """
    return _per_triple(_pass_hat_k, n, c, k)


def majority_at_k(classes: ArrayLike, correct: ArrayLike, k: int, ties: Literal["random", "unresolved"] = "random") -> Floats:
    """Probability that a plurality vote over k draws selects a correct answer.

    Args:
        classes: whole numbers, shape (problems, n). Draws of one problem vote together when their number is the same;
            −1 marks a draw with no answer, which is one of the n draws but votes for nothing.
        correct: bool, same shape. The label of a draw with no answer has no effect. Labels that differ inside a class
            (the log of a grader that read the text and not the class) count with their mean: the answer of a class
            is then that of a random voter.
        k: draws taken without replacement, 1 ≤ k ≤ n.
        ties: `random` breaks a tie for the lead at random; with `unresolved` a tie selects nothing.

    Returns:
        Probabilities, shape (problems,). A vote without any answer selects nothing and counts as 0.

    Raises:
        ValueError: for k outside 1..n, shapes that are not equal and two-dimensional, a class below −1, labels that are
            not bool, or another word for `ties`.

    Source: the formula of docs/design.md 5, summed over every correct class, evaluated as follows.

    Let each draw be taken independently with probability p = k/n. Given that k draws were taken in all, every subset of
    size k is equally likely, so counts of hypergeometric draws are binomial counts given their sum. That turns the
    products of C(n_i, x) into products of probabilities, which never overflow and are never subtracted. For a winning
    count w only classes with at least w draws can tie or pass it; all the others merge into one pool. A tie with t others
    has the weight u(t), written as Σ_g ω_g s_g^t so that it factorises over the classes: s = 0 gives [t = 0], and
    Gauss-Legendre nodes on [0, 1] give ∫ s^t ds = 1/(t+1), exact for every t that can occur.
    """
    class_ids, is_correct = _classes(classes), _labels(correct)
    _same_shape("classes", class_ids, "correct", is_correct)
    n = class_ids.shape[1]
    _check_k(k, n)
    if ties not in ("random", "unresolved"):
        raise ValueError(f"ties is 'random' or 'unresolved', not {ties!r}")

    problem, rivals, credit = _contenders(class_ids, is_correct)
    if not problem.size:
        return np.zeros(class_ids.shape[0])
    # Problems often share their counts; each distinct pattern is worked out once. A contender's own count comes first.
    patterns, where = np.unique(rivals, axis=0, return_inverse=True)
    wins = _win_probability(patterns, n, k, ties)
    chance = np.bincount(problem, weights=credit * wins[where.reshape(-1)], minlength=class_ids.shape[0])
    return np.minimum(chance, 1.0)


def best_of_n_at_k(scores: ArrayLike, correct: ArrayLike, k: int) -> Floats:
    """Probability that the highest-scored of k draws is correct; score ties are broken at random.

    Args:
        scores: shape (problems, n), in any unit that orders the draws. NaN marks a draw without a valid score: it ranks
            below every score, −inf included, and the NaN draws tie with each other. So a subset in which no draw has a
            valid score selects one of its draws at random, as a policy must that has to answer. To count such a
            subset as unresolved, set `correct` to False where the score is NaN.
        correct: bool, same shape.
        k: draws taken without replacement, 1 ≤ k ≤ n.

    Returns:
        Probabilities, shape (problems,).

    Raises:
        ValueError: for k outside 1..n, shapes that are not equal and two-dimensional, or labels that are not bool.

    Source: docs/design.md 5, Σ_i y_i · C(n−1−i, k−1) / C(n, k) over draws in descending order of score, y replaced by its mean
    inside a block of tied scores.
    """
    score, label = np.asarray(scores, dtype=np.float64), _labels(correct)
    _same_shape("scores", score, "correct", label)
    problems, n = score.shape
    _check_k(k, n)

    order = np.argsort(-score, axis=1, kind="stable")  # NaN sorts last
    ranked = np.take_along_axis(score, order, axis=1)
    y = np.take_along_axis(label, order, axis=1).astype(np.float64)
    same = (ranked[:, 1:] == ranked[:, :-1]) | (np.isnan(ranked[:, 1:]) & np.isnan(ranked[:, :-1]))
    starts = np.concatenate([np.ones((problems, 1), dtype=bool), ~same], axis=1)
    block = np.cumsum(starts.reshape(-1)) - 1  # every row starts a block, so no block spans two problems
    block_mean = np.bincount(block, weights=y.reshape(-1)) / np.bincount(block)
    y = block_mean[block].reshape(problems, n)

    # The chance that the draw at rank i is the best of the subset: k/n for the first, then a ratio of binomials.
    i = np.arange(n - 1)
    weight = k / n * np.concatenate([[1.0], np.cumprod(np.maximum(n - k - i, 0) / (n - 1 - i))])
    chance: Floats = y @ weight
    return np.minimum(chance, 1.0)


def _pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that the j-th of the draws is the first correct one, summed over j: no term is negative."""
    if c > n - k:
        return 1.0
    fewer, more = min(c, k), max(c, k)  # C(n−c, k)/C(n, k) is symmetric in c and k; take the shorter product
    hit = more / (n - np.arange(fewer, dtype=np.float64))
    still_missing = np.concatenate([[1.0], np.cumprod(1.0 - hit)[:-1]])[:fewer]
    return min(float(hit @ still_missing), 1.0)


def _pass_hat_k(n: int, c: int, k: int) -> float:
    if c < k:
        return 0.0
    fewer, more = min(n - c, k), max(n - c, k)  # all k are correct if none of the n − c wrong draws is among them
    return float(np.prod(1.0 - more / (n - np.arange(fewer, dtype=np.float64))))


def _per_triple(probability: Callable[[int, int, int], float], n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Apply `probability(n, c, k)` once per distinct triple and spread the results over the broadcast shape."""
    draws, hits, taken = np.broadcast_arrays(_whole("n", n), _whole("c", c), _whole("k", k))
    _refuse((taken < 1) | (taken > draws), "k is not in 1..n", draws, hits, taken)
    _refuse((hits < 0) | (hits > draws), "c is not in 0..n", draws, hits, taken)
    if draws.ndim == 0:
        return probability(int(draws), int(hits), int(taken))
    triples, where = np.unique(np.stack([draws, hits, taken]).reshape(3, -1), axis=1, return_inverse=True)
    values = np.array([probability(*triple) for triple in triples.T.tolist()], dtype=np.float64)
    return values[where.reshape(-1)].reshape(draws.shape)


def _refuse(bad: NDArray[np.bool_], what: str, n: Ints, c: Ints, k: Ints) -> None:
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{what}: n={n.flat[at]}, c={c.flat[at]}, k={k.flat[at]} ({int(bad.sum())} of {bad.size} problems)")


def _whole(name: str, values: ArrayLike) -> Ints:
    """Whole numbers as int64; a float column is accepted when nothing is lost, as nullable columns come as floats."""
    array = np.asarray(values)
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.trunc(array)))):
        return array.astype(np.int64)
    if array.size == 0:
        return array.astype(np.int64)
    raise ValueError(f"{name} has to be whole numbers")


def _classes(values: ArrayLike) -> Ints:
    classes = _whole("classes", values)
    if classes.size and classes.min() < -1:
        raise ValueError(f"classes are numbers from 0, or -1 for no answer; found {classes.min()}")
    return classes


def _labels(values: ArrayLike) -> NDArray[np.bool_]:
    labels = np.asarray(values)
    if labels.dtype.kind == "b":
        return labels
    if labels.dtype.kind in "iuf" and bool(np.all((labels == 0) | (labels == 1))):
        return labels.astype(bool)
    raise ValueError("correct has to be bool; an ungraded draw is neither correct nor wrong, leave its problem out")


def _same_shape(name: str, first: NDArray[Any], other_name: str, other: NDArray[Any]) -> None:
    if first.ndim != 2 or first.shape != other.shape:
        raise ValueError(f"{name} {first.shape} and {other_name} {other.shape} have to have one shape (problems, n)")


def _check_k(k: int, n: int) -> None:
    if k != int(k) or not 1 <= k <= n:
        raise ValueError(f"k={k} is not in 1..{n}, the draws per problem")


def _contenders(classes: Ints, correct: NDArray[np.bool_]) -> tuple[Ints, Ints, Floats]:
    """The classes that are correct, each with the classes it runs against.

    Returns:
        For each contender: its problem; its own count followed by its rivals' counts in descending order, padded with 0;
        and the share of its draws that are correct.
    """
    problems = classes.shape[0]
    order = np.argsort(classes, axis=1, kind="stable")
    ids = np.take_along_axis(classes, order, axis=1)
    labels = np.take_along_axis(correct, order, axis=1)
    starts = np.concatenate([np.ones((problems, 1), dtype=bool), ids[:, 1:] != ids[:, :-1]], axis=1)
    group = np.cumsum(starts.reshape(-1)) - 1
    count = np.bincount(group)
    credit = np.bincount(group, weights=labels.reshape(-1)) / count
    row, column = np.nonzero(starts)
    answered = ids[row, column] >= 0
    row, count, credit = row[answered], count[answered], credit[answered]

    # A table of counts per problem, then one line per contender with its own count moved to the front.
    slot = np.arange(row.size) - np.searchsorted(row, row)
    table = np.zeros((problems, int(slot.max(initial=-1)) + 1), dtype=np.int64)
    table[row, slot] = count
    contends = credit > 0
    rivals = table[row[contends]]
    rivals[np.arange(len(rivals)), slot[contends]] = 0
    rivals = -np.sort(-rivals, axis=1)
    return row[contends], np.concatenate([count[contends, None], rivals], axis=1), credit[contends]


def _win_probability(patterns: Ints, n: int, k: int, ties: str) -> Floats:
    """Probability that the first count of each pattern wins a vote over k of n draws, shape (patterns,)."""
    pmf = _binomial_table(n, k)
    won = np.zeros(len(patterns))
    for w in range(1, min(k, int(patterns[:, 0].max())) + 1):
        able = np.flatnonzero(patterns[:, 0] >= w)
        rivals = patterns[able, 1:]
        threats = (rivals >= w).sum(axis=1)
        able = able[np.argsort(-threats, kind="stable")]  # most threats first: each step below then works on a prefix
        nodes, weights = _tie_rule(ties, min(int(threats.max(initial=0)), (k - w) // w))
        size = max(1, _BLOCK // (len(nodes) * (k - w + 1)))
        for rows in np.split(able, range(size, len(able), size)):
            won[rows] += pmf[patterns[rows, 0], w] * _others_below(patterns[rows, 1:], patterns[rows, 0], w, n, k, pmf, nodes, weights)
    return won / float(pmf[n, k])


def _others_below(rivals: Ints, own: Ints, w: int, n: int, k: int, pmf: Floats, nodes: Floats, weights: Floats) -> Floats:
    """Σ_t W(k−w, t) · u(t) for each row: the rivals and the draws with no answer fill k−w draws, none above w."""
    rest = k - w
    threats = (rivals >= w).sum(axis=1)
    harmless = n - own - np.where(rivals >= w, rivals, 0).sum(axis=1)
    # state[r, g, j]: probability that the classes so far fill j draws, each tie weighted with the node s_g
    state = np.repeat(pmf[harmless, None, : rest + 1], len(nodes), axis=1)
    for slot in range(int(threats.max(initial=0))):
        live = int(np.searchsorted(-threats, -slot))  # rows with more than `slot` threats; they come first
        before, take = state[:live], pmf[rivals[:live, slot]]
        after = before * take[:, :1, None]
        for x in range(1, min(w, rest + 1)):
            after[:, :, x:] += before[:, :, : rest + 1 - x] * take[:, x, None, None]
        if w <= rest:
            after[:, :, w:] += before[:, :, : rest + 1 - w] * (take[:, w, None, None] * nodes[:, None])
        state[:live] = after
    expected: Floats = state[:, :, rest] @ weights
    return expected


def _binomial_table(n: int, k: int) -> Floats:
    """P(X = x) for X ~ Binomial(m, k/n), as table[m, x], by the recursion over m that adds probabilities."""
    p = k / n
    table = np.zeros((n + 1, k + 1))
    table[0, 0] = 1.0
    for m in range(1, n + 1):
        table[m] = table[m - 1] * (1.0 - p)
        table[m, 1:] += table[m - 1, :-1] * p
    return table


def _tie_rule(ties: str, most: int) -> tuple[Floats, Floats]:
    """Nodes s and weights ω with Σ_g ω_g s_g^t = u(t) for every number of ties t up to `most`."""
    if ties == "unresolved" or most == 0:
        return np.zeros(1), np.ones(1)
    x, weights = np.polynomial.legendre.leggauss(most // 2 + 1)
    return (x + 1.0) / 2.0, weights / 2.0
