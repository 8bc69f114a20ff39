"""Estimators without an exact form: draws of the pool in random orders, with a fixed seed and the Monte-Carlo error beside the value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Bools, Floats, Ints, class_numbers, compact, labels, same_shape, spread_k, taken

# Orders per block: large enough for NumPy, small enough for memory (8 MB per array at 64 draws).
_ROWS = 2**14
# Sums of weights that differ by less than this share are equal, as for the selectors: 0.1 + 0.2 and 0.3 tie.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Sampled:
    """A mean over sampled orders, per problem, and how far chance may have moved it.

    Attributes:
        value: shape (problems,) or (problems, ks).
        error: standard error that comes from sampling orders only, same shape; 0 where every order gave the same. It shrinks with
            the number of permutations; the uncertainty over problems does not (`cluster_mean(value)` shows that one).
        permutations: orders per problem.
        seed: the same seed gives the same orders for every rule, so that differences between rules are paired.
    """

    value: Floats
    error: Floats
    permutations: int
    seed: int

    @property
    def mean(self) -> Floats:
        """Mean over problems, shape () or (ks,)."""
        return np.asarray(self.value.mean(axis=0))

    @property
    def mean_error(self) -> Floats:
        """Monte-Carlo standard error of `mean`: orders of different problems are independent."""
        return np.asarray(np.sqrt(np.square(self.error).sum(axis=0)) / len(self.value))


def weighted_vote_at_k(
    classes: ArrayLike,
    correct: ArrayLike,
    weights: ArrayLike,
    k: ArrayLike,
    *,
    weighting: Literal["sum", "mean"] = "sum",
    ties: Literal["random", "unresolved"] = "random",
    permutations: int = 200,
    seed: int = 0,
) -> Sampled:
    """Probability that the class with the largest weight among k draws is correct, from sampled subsets.

    Args:
        classes, correct: as for `majority_at_k`.
        weights: shape (problems, n). A draw without an answer, or whose weight is not finite, does not vote. For CISC's softmax give
            exp(confidence / T): its divisor is common to a question.
        k: draws taken without replacement, 1 ≤ k ≤ n; one number, or a list. One order of the draws serves every k, with its first k.
        weighting: what a class weighs: the `sum` or the `mean` of its draws' weights.
        ties: as for `majority_at_k`; totals that are equal but for rounding tie.
        permutations: orders per problem, 2 or more.
        seed: of the orders.

    Raises:
        ValueError: as `majority_at_k`, for a negative weight in a sum, or fewer than 2 permutations.
    """
    class_ids, is_correct = class_numbers(classes), labels(correct)
    weight = np.asarray(weights, dtype=np.float64)
    same_shape("classes", class_ids, "correct", is_correct)
    same_shape("classes", class_ids, "weights", weight)
    problems, n = class_ids.shape
    ks, single = taken(k, n)
    if ties not in ("random", "unresolved") or weighting not in ("sum", "mean"):
        raise ValueError(f"ties is 'random' or 'unresolved' and weighting 'sum' or 'mean', not {ties!r} and {weighting!r}")
    voters = (class_ids >= 0) & np.isfinite(weight)
    if weighting == "sum" and bool((weight[voters] < 0).any()):
        raise ValueError("a sum of weights needs weights of 0 or more")
    codes, most = compact(np.where(voters, class_ids, -1))
    weight = np.where(voters, weight, 0.0)
    members, right = np.zeros((problems, most + 1)), np.zeros((problems, most + 1))
    each = np.arange(problems)[:, None]
    np.add.at(members, (each, codes), 1.0)  # -1 is the last column
    np.add.at(right, (each, codes), is_correct)
    credit = right[:, :most] / np.maximum(members[:, :most], 1.0)

    moments = np.zeros((2, problems, ks.size))
    for problem, order in orders(problems, n, permutations, seed):
        said, gave = codes[problem[:, None], order], weight[problem[:, None], order]
        total, votes = np.zeros((len(problem), most + 1)), np.zeros((len(problem), most + 1))
        rows = np.arange(len(problem))
        for step in range(int(ks.max())):
            total[rows, said[:, step]] += gave[:, step]
            votes[rows, said[:, step]] += 1.0
            for column in np.flatnonzero(ks == step + 1):
                score = total if weighting == "sum" else total / np.maximum(votes, 1.0)
                won = _share_of_lead(score[:, :most], votes[:, :most] > 0, credit[problem], ties)
                np.add.at(moments[0, :, column], problem, won)
                np.add.at(moments[1, :, column], problem, won * won)
    return sampled(spread_k(moments[0], single), spread_k(moments[1], single), permutations, seed)


def orders(problems: int, n: int, permutations: int, seed: int) -> Iterator[tuple[Ints, Ints]]:
    """Random orders of n draws in blocks of lines: the problem of each line, and its order, shape (lines, n).

    What a problem gets depends on the seed, its place, n and the number of permutations, never on the rule that is replayed.
    """
    if permutations != int(permutations) or permutations < 2:
        raise ValueError(f"permutations={permutations}: give 2 or more, or there is no Monte-Carlo error")
    rng = np.random.default_rng(seed)
    for start in range(0, problems * permutations, _ROWS):
        line = np.arange(start, min(start + _ROWS, problems * permutations))
        yield line // permutations, np.argsort(rng.random((line.size, n)), axis=1)


def sampled(total: Floats, square: Floats, permutations: int, seed: int) -> Sampled:
    """Mean and Monte-Carlo error from sums and sums of squares over the permutations."""
    value = total / permutations
    variance = np.maximum(square / permutations - value * value, 0.0)
    variance[variance < 1e-14 * np.square(value)] = 0.0  # rounding of a constant
    return Sampled(value, np.sqrt(variance / (permutations - 1)), permutations, seed)


def _share_of_lead(score: Floats, votes: Bools, credit: Floats, ties: str) -> Floats:
    """The chance that the leading class of each line is correct; 0 where nobody votes."""
    if not score.shape[1]:
        return np.zeros(len(score))
    standing = np.where(votes, score, -np.inf)
    top = standing.max(axis=1, keepdims=True)
    lead = votes & (standing >= top - _ROUNDING * np.abs(np.where(np.isfinite(top), top, 0.0)))
    leaders = lead.sum(axis=1)
    share = (credit * lead).sum(axis=1) / np.maximum(leaders, 1)
    return np.where(leaders == 1, share, 0.0) if ties == "unresolved" else share
