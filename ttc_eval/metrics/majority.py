"""Exact majority@k: what a plurality vote over k of n stored draws would have selected, for every k at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Bools, Floats, Ints, class_numbers, labels, same_shape, spread_k, taken

Ties = Literal["random", "unresolved"]

# Numbers per array of a block, so that the arrays of one step stay in a CPU's cache: 256 KB of float64.
_BLOCK = 2**15
# One table of binomials serves all k while its smallest entry, 2^-n, is a normal float.
_ONE_TABLE = 900


def majority_at_k(classes: ArrayLike, correct: ArrayLike, k: ArrayLike, ties: Ties = "random") -> Floats:
    """Probability that a plurality vote over k draws selects a correct answer, over all subsets of k draws.

    Args:
        classes: whole numbers, shape (problems, n). Draws of one problem vote together when their number is the same;
            −1 marks a draw with no answer, which is one of the n draws but votes for nothing.
        correct: bool, same shape. The label of a draw with no answer has no effect. Labels that differ inside a class
            (the log of a grader that read the text and not the class) count with their mean: the answer of a class
            is then that of a random voter.
        k: draws taken without replacement, 1 ≤ k ≤ n; one number, or a list. All k of a list cost little more than its largest.
        ties: `random` breaks a tie for the lead at random; with `unresolved` a tie selects nothing.

    Returns:
        Probabilities, shape (problems,), or (problems, ks) for a list of ks. A vote without any answer selects nothing and counts as 0.

    Raises:
        ValueError: for k outside 1..n, shapes that are not equal and two-dimensional, a class below −1, labels that are
            not bool, or another word for `ties`.

    Source: the formula of docs/design.md 5, summed over every correct class, evaluated as follows.

    The counts of a subset are products of binomials C(n_i, x), so a subset of every size is a polynomial product, and the coefficient of
    z^k belongs to k. Let each draw be taken independently with probability ½: that scales the coefficients and nothing else, so nothing
    overflows, and as no term is negative nothing cancels. For a winning count w only classes with at least w draws can tie or pass it;
    all the others merge into one pool. A tie with t others has the weight u(t), written as Σ_g ω_g s_g^t so that it factorises over the
    classes: s = 0 gives [t = 0], and Gauss-Legendre nodes on [0, 1] give ∫ s^t ds = 1/(t+1), exact for every t that can occur.
    Problems that look the same to w (own count, and the counts that reach w) are worked out once; in sorted order they are neighbours.
    The relative error stays below 1e-11 at n = 256.
    """
    class_ids, is_correct = class_numbers(classes), labels(correct)
    same_shape("classes", class_ids, "correct", is_correct)
    problems, n = class_ids.shape
    ks, single = taken(k, n)
    if ties not in ("random", "unresolved"):
        raise ValueError(f"ties is 'random' or 'unresolved', not {ties!r}")
    chance = np.zeros((problems, ks.size))
    problem, counts, credit = _contenders(class_ids, is_correct)
    if problem.size:
        for column, p in _tables(ks, n):
            wins = _win_probability(counts, n, ks[column], ties, p)
            np.add.at(chance[:, column], problem, wins * credit[:, None])
    return spread_k(np.minimum(chance, 1.0), single)


def _tables(ks: Ints, n: int) -> Iterator[tuple[slice, float]]:
    """Which ks share a table of binomials, and the probability that it is made with."""
    if n <= _ONE_TABLE:
        yield slice(None), 0.5
        return
    for column, k in enumerate(ks.tolist()):
        yield slice(column, column + 1), k / n


def _contenders(classes: Ints, correct: Bools) -> tuple[Ints, Ints, Floats]:
    """The classes that are correct, each with the classes it runs against.

    Returns:
        For each contender: its problem; its own count followed by its rivals' counts in descending order, padded with 0;
        and the share of its draws that are correct. They come in descending order of the counts.
    """
    problems = classes.shape[0]
    order = np.argsort(classes, axis=1, kind="stable")
    ids = np.take_along_axis(classes, order, axis=1)
    right = np.take_along_axis(correct, order, axis=1)
    starts = np.concatenate([np.ones((problems, 1), dtype=bool), ids[:, 1:] != ids[:, :-1]], axis=1)
    group = np.cumsum(starts.reshape(-1)) - 1
    count = np.bincount(group)
    credit = np.bincount(group, weights=right.reshape(-1)) / count
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
    counts = np.concatenate([count[contends, None], rivals], axis=1)
    if not len(counts):
        return row[contends], counts, credit[contends]
    ranked = np.lexsort(-counts.T[::-1])
    return row[contends][ranked], counts[ranked], credit[contends][ranked]


def _win_probability(counts: Ints, n: int, ks: Ints, ties: str, p: float) -> Floats:
    """Probability that the first count of each line wins a vote over k of n draws, shape (lines, ks)."""
    most = int(ks.max())
    pmf = _binomial_table(n, most, p)  # pmf[x, m]
    own, rivals = counts[:, 0], counts[:, 1:]
    apart = _told_apart_from(counts)
    filled = np.concatenate([np.zeros((len(counts), 1), dtype=np.int64), np.cumsum(rivals, axis=1)], axis=1)
    won = np.zeros((most + 1, len(counts)))
    for w in range(1, min(most, int(own[0])) + 1):
        live = int(np.searchsorted(-own, -w, side="right"))  # lines whose own count reaches w: they come first
        first = np.concatenate([[True], apart[: live - 1] >= w])
        group = np.cumsum(first) - 1
        lines = np.flatnonzero(first)
        threats = (rivals[lines] >= w).sum(axis=1)
        harmless = n - own[lines] - filled[lines, threats]
        value = np.empty((most + 1 - w, lines.size))
        for number in np.unique(threats).tolist():
            alike = np.flatnonzero(threats == number)
            size = max(1, _BLOCK // (most + 1 - w))
            for part in np.split(alike, range(size, alike.size, size)):
                value[:, part] = _others_below(rivals[lines[part], :number].T, harmless[part], w, pmf[: most + 1 - w], ties)
        value *= pmf[w, own[lines]]
        won[w:, :live] += value if lines.size == live else np.take(value, group, axis=1)
    chance: Floats = (won[ks] / pmf[ks, n][:, None]).T
    return chance


def _told_apart_from(counts: Ints) -> Ints:
    """For each line but the last: the least w at which it still differs from the next, and 0 where the two are equal.

    To w a line is its own count and the counts that reach w. Lines come in descending order, so the two look the same from the larger of
    the first counts in which they differ, plus one.
    """
    differs = counts[1:] != counts[:-1]
    at = differs.argmax(axis=1)
    level = counts[np.arange(len(at)), at]
    level[at == 0] = counts.max(initial=0)  # another own count is another line for every w
    return np.where(differs.any(axis=1), level, 0)


def _others_below(rivals: Ints, harmless: Ints, w: int, pmf: Floats, ties: str) -> Floats:
    """Σ_t W(j, t) · u(t) for j = 0, 1, …, in the rows of the result; a column per line.

    Args:
        rivals: counts that reach w, shape (threats, lines).
        harmless: draws that can neither tie nor pass w: of smaller classes, or without an answer.
        pmf: binomials [x, m], cut where j ends.
    """
    rest = len(pmf) - 1
    pool = pmf[:, harmless]
    if not len(rivals):
        return pool
    nodes, weights = _tie_rule(ties, min(len(rivals), rest // w))
    top = min(w, rest)
    # The threats first: their product is short, and only they depend on the node.
    state = pmf[None, : top + 1, rivals[0]].repeat(len(nodes), axis=0)
    if w <= rest:
        state[:, w] *= nodes[:, None]
    for counts in rivals[1:]:
        take = pmf[: top + 1, counts]
        length = min(state.shape[1] + top, rest + 1)
        after = np.zeros((len(nodes), length, counts.size))
        for x in range(top + 1):
            reach = min(state.shape[1], length - x)
            factor = take[x] * nodes[:, None, None] if x == w else take[x]
            after[:, x : x + reach] += state[:, :reach] * factor
        state = after
    fill: Floats = np.tensordot(weights, state, axes=1)
    below: Floats = fill[0] * pool
    for x in range(1, len(fill)):
        below[x:] += fill[x] * pool[: rest + 1 - x]
    return below


def _binomial_table(n: int, most: int, p: float) -> Floats:
    """P(X = x) for X ~ Binomial(m, p), as table[x, m] for x ≤ most, by the recursion over m that adds probabilities."""
    table = np.zeros((n + 1, most + 1))
    table[0, 0] = 1.0
    for m in range(1, n + 1):
        table[m] = table[m - 1] * (1.0 - p)
        table[m, 1:] += table[m - 1, :-1] * p
    return np.ascontiguousarray(table.T)


def _tie_rule(ties: str, most: int) -> tuple[Floats, Floats]:
    """Nodes s and weights ω with Σ_g ω_g s_g^t = u(t) for every number of ties t up to `most`."""
    if ties == "unresolved" or most == 0:
        return np.zeros(1), np.ones(1)
    x, weights = _legendre(most // 2 + 1)
    return (x + 1.0) / 2.0, weights / 2.0


@cache
def _legendre(points: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(points)
