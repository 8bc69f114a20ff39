"""How well scores tell right draws from wrong ones, and whether they can be read as probabilities.

Every function takes `scores` and `correct` of shape (problems, n). NaN is a draw without a valid score. What is undefined is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Bools, Floats, Ints, labels, same_shape
from ttc_eval.metrics.intervals import Estimate, cluster_mean, cluster_ratio, over_problems

Invalid = Literal["lowest", "left_out"]


@dataclass(frozen=True, slots=True)
class Bin:
    """Draws with similar scores.

    Attributes:
        low, high: the scores that belong to it: low ≤ score < high, the last bin with its end.
        draws: draws in it; n of `right` says from how many problems.
        score: their mean score, the share that should be right.
        right: the share that is, with its interval over problems.
    """

    low: float
    high: float
    draws: int
    score: float
    right: Estimate


def auroc(scores: ArrayLike, correct: ArrayLike, invalid: Invalid = "lowest") -> float | None:
    """Probability that a right draw scores above a wrong one, over all pairs, ties counted half; None without both kinds.

    Pairs within a problem and across problems are pooled, so it also rewards a verifier that only knows which problems are easy;
    `auroc_within` does not. Any shape that scores and correct share.

    Args:
        invalid: draws without a valid score rank `lowest`, below every score and tied with each other, or are `left_out`.

    Raises:
        ValueError: for shapes that differ, labels that are not bool, or another word for `invalid`.

    Source: Mann and Whitney 1947; Hanley and McNeil 1982.
    """
    score, label = np.asarray(scores, dtype=np.float64), labels(correct)
    if score.shape != label.shape:
        raise ValueError(f"scores {score.shape} and correct {label.shape} have to have one shape")
    above, pairs = _wins(score.reshape(1, -1), label.reshape(1, -1), invalid)
    return float(above[0] / pairs[0]) if pairs[0] else None


def auroc_pooled(scores: ArrayLike, correct: ArrayLike, confidence: float = 0.95, invalid: Invalid = "lowest") -> Estimate | None:
    """The pooled AUROC with an interval that takes the problem as the unit; None without a right and a wrong draw.

    Arguments and errors are those of `auroc`, for two dimensions. n counts the problems with a draw in it.

    Source: Obuchowski 1997, "Nonparametric analysis of clustered ROC curve data": the variance of the sums, over a problem, of how often
    its draws win.
    """
    score, label, valid = _checked(scores, correct, invalid)
    value = auroc(score, label, invalid)
    if value is None:
        return None
    rank = _codes(score)
    positive, negative = label & valid, ~label & valid
    right, wrong = np.sort(rank[positive]), np.sort(rank[negative])
    m, n = right.size, wrong.size
    # For every draw: how much of the other kind it beats, less what it would at this AUROC; then summed by problem.
    over_wrong = (np.searchsorted(wrong, rank, "left") + np.searchsorted(wrong, rank, "right")) / (2 * n) - value
    under_right = (2 * m - np.searchsorted(right, rank, "left") - np.searchsorted(right, rank, "right")) / (2 * m) - value
    part = np.where(positive, over_wrong, 0.0).sum(axis=1) / m + np.where(negative, under_right, 0.0).sum(axis=1) / n
    part = part[valid.any(axis=1)]
    part[np.abs(part) < 1e-13] = 0.0
    # The parts sum to 0, and the square of their sum estimates the variance: a mean of values + parts · problems.
    return over_problems(value + part * part.size, np.zeros(part.size), "problems, pooled pairs", confidence, None, (0.0, 1.0))


def auroc_within(
    scores: ArrayLike,
    correct: ArrayLike,
    weights: Literal["problems", "pairs"] = "problems",
    confidence: float = 0.95,
    invalid: Invalid = "lowest",
) -> Estimate | None:
    """AUROC among the draws of one problem, averaged over the problems that have both kinds: what best-of-N can use.

    Args:
        weights: of the average. `problems`: each problem counts the same; `pairs`: each pair of a right and a wrong draw does, so
            problems of medium difficulty count most.
        invalid: as for `auroc`.

    Returns:
        The estimate, its n the number of problems that have both kinds; None without any.

    Raises:
        ValueError: as `auroc`, for shapes that are not (problems, n), or another word for `weights`.
    """
    if weights not in ("problems", "pairs"):
        raise ValueError(f"weights is 'problems' or 'pairs', not {weights!r}")
    score, label, _ = _checked(scores, correct, invalid)
    above, pairs = _wins(score, label, invalid)
    both = pairs > 0
    if not both.any():
        return None
    if weights == "pairs":
        return cluster_ratio(above[both], pairs[both], confidence)
    return cluster_mean(above[both] / pairs[both], confidence)


def brier(scores: ArrayLike, correct: ArrayLike, confidence: float = 0.95) -> Estimate | None:
    """Mean of (score − correct)², 0 for perfect certainty and 0.25 for always saying ½, averaged within each problem and then over them.

    Draws without a valid score are left out; n counts the problems that have one. None without any.

    Raises:
        ValueError: for a score outside [0, 1], shapes that are not equal and two-dimensional, or labels that are not bool.

    Source: Brier 1950.
    """
    score, label, valid = _checked(scores, correct, "left_out")
    _probabilities(score, valid)
    used = valid.any(axis=1)
    if not used.any():
        return None
    square = np.where(valid, np.square(np.where(valid, score, 0.0) - label), 0.0)
    return cluster_mean(square[used].sum(axis=1) / valid[used].sum(axis=1), confidence)


def reliability(
    scores: ArrayLike, correct: ArrayLike, bins: int = 10, by: Literal["width", "count"] = "width", confidence: float = 0.95
) -> tuple[Bin, ...]:
    """How often draws of about the same score are right; on the diagonal a score can be read as a probability.

    Args:
        bins: how many, 1 or more; those without a draw are left out.
        by: bins of equal `width` on [0, 1], or with about the same `count` of draws (equal scores stay together).

    Draws without a valid score are left out. The interval of each share takes the problem as the unit.

    Raises:
        ValueError: as `brier`, for fewer than 1 bin, or another word for `by`.
    """
    if bins < 1 or by not in ("width", "count"):
        raise ValueError(f"bins={bins}, by={by!r}: give 1 bin or more, by 'width' or 'count'")
    score, label, valid = _checked(scores, correct, "left_out")
    _probabilities(score, valid)
    if not valid.any():
        return ()
    steps = np.linspace(0.0, 1.0, bins + 1)
    edges = steps if by == "width" else np.unique(np.quantile(score[valid], steps, method="inverted_cdf"))
    if edges.size == 1:
        edges = np.repeat(edges, 2)
    which = np.clip(np.searchsorted(edges, np.where(valid, score, edges[0]), side="right") - 1, 0, edges.size - 2)
    found: list[Bin] = []
    for place in range(edges.size - 1):
        member = valid & (which == place)
        count = member.sum(axis=1)
        if not count.any():
            continue
        here = count > 0
        right = cluster_ratio((member & label).sum(axis=1)[here], count[here], confidence)
        found.append(Bin(float(edges[place]), float(edges[place + 1]), int(count.sum()), float(score[member].mean()), right))
    return tuple(found)


def _checked(scores: ArrayLike, correct: ArrayLike, invalid: str) -> tuple[Floats, Bools, Bools]:
    """Scores, labels, and which draws take part."""
    score, label = np.asarray(scores, dtype=np.float64), labels(correct)
    same_shape("scores", score, "correct", label)
    return score, label, _takes_part(score, invalid)


def _takes_part(score: Floats, invalid: str) -> Bools:
    if invalid not in ("lowest", "left_out"):
        raise ValueError(f"invalid is 'lowest' or 'left_out', not {invalid!r}")
    valid: Bools = ~np.isnan(score)
    return valid if invalid == "left_out" else np.ones_like(valid)


def _probabilities(score: Floats, valid: Bools) -> None:
    if bool(((score[valid] < 0) | (score[valid] > 1)).any()):
        raise ValueError("scores outside [0, 1] are no probabilities: they have no Brier score and no reliability")


def _codes(score: Floats) -> Ints:
    """Scores as whole numbers in the same order, equal where they are equal; −1 for NaN."""
    distinct, code = np.unique(score, return_inverse=True)
    code = code.reshape(score.shape).astype(np.int64)
    code[np.isnan(score)] = -1
    return code if distinct.size else np.zeros_like(code)


def _wins(score: Floats, label: Bools, invalid: Invalid) -> tuple[Floats, Ints]:
    """For each row: pairs in which the right draw scores above the wrong one (ties half), and all pairs."""
    valid = _takes_part(score, invalid)
    code = _codes(score)
    rows = len(code)
    if code.size == 0:
        return np.zeros(rows), np.zeros(rows, dtype=np.int64)
    # Mid-ranks by counting: a draw's rank is the number of draws below it in its row, and half of those that tie with it.
    order = np.argsort(code, axis=1, kind="stable")
    ranked = np.take_along_axis(code, order, axis=1)
    wrong = np.take_along_axis(~label & valid, order, axis=1)
    right = np.take_along_axis(label & valid, order, axis=1)
    starts = np.concatenate([np.ones((rows, 1), dtype=bool), ranked[:, 1:] != ranked[:, :-1]], axis=1)
    tie = np.cumsum(starts.reshape(-1)) - 1
    wrong_in_tie = np.bincount(tie, weights=wrong.reshape(-1))[tie].reshape(code.shape)
    before_tie = np.maximum.accumulate(np.where(starts, np.cumsum(wrong, axis=1) - wrong, 0), axis=1)
    above = np.where(right, before_tie + wrong_in_tie / 2, 0.0).sum(axis=1)
    return above, right.sum(axis=1) * wrong.sum(axis=1)
