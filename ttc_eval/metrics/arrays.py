"""What every estimator checks about its arrays before it counts: whole numbers, labels, shapes, and how many draws are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def whole(name: str, values: ArrayLike) -> Ints:
    """Whole numbers as int64; a float column is accepted when nothing is lost, as nullable columns come as floats."""
    array = np.asarray(values)
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.trunc(array)))):
        return array.astype(np.int64)
    if array.size == 0:
        return array.astype(np.int64)
    raise ValueError(f"{name} has to be whole numbers")


def class_numbers(values: ArrayLike) -> Ints:
    """Answer classes: numbers from 0, or −1 for a draw without an answer."""
    classes = whole("classes", values)
    if classes.size and classes.min() < -1:
        raise ValueError(f"classes are numbers from 0, or -1 for no answer; found {classes.min()}")
    return classes


def labels(values: ArrayLike) -> Bools:
    """Grades as bool; 0 and 1 are accepted, an unknown grade is not."""
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iuf" and bool(np.all((array == 0) | (array == 1))):
        return array.astype(bool)
    raise ValueError("correct has to be bool; an ungraded draw is neither correct nor wrong, leave its problem out")


def same_shape(name: str, first: NDArray[Any], other_name: str, other: NDArray[Any]) -> None:
    """Refuse two arrays that are not both (problems, n)."""
    if first.ndim != 2 or first.shape != other.shape:
        raise ValueError(f"{name} {first.shape} and {other_name} {other.shape} have to have one shape (problems, n)")


def taken(k: ArrayLike, n: int) -> tuple[Ints, bool]:
    """The numbers of draws asked for, each in 1..n, and whether it was a single one."""
    ks = np.asarray(k)
    if ks.ndim > 1 or ks.size == 0:
        raise ValueError(f"k is one number of draws or a list of them, not an array of shape {ks.shape}")
    numbers = np.atleast_1d(ks)
    if numbers.dtype.kind not in "iuf" or not bool(np.all((numbers >= 1) & (numbers <= n) & (numbers == np.trunc(numbers)))):
        raise ValueError(f"k={ks.tolist()} is not in 1..{n}, the draws per problem")
    return numbers.astype(np.int64), ks.ndim == 0


def spread_k(values: Floats, single: bool) -> Floats:
    """(problems, ks) as it is for a list of ks, (problems,) for a single k."""
    return values[:, 0] if single else values


def compact(classes: Ints) -> tuple[Ints, int]:
    """Classes renumbered 0, 1, … inside each problem, −1 kept, and the largest number of classes that a problem has."""
    problems, n = classes.shape
    if classes.size == 0:
        return classes, 0
    order = np.argsort(classes, axis=1, kind="stable")
    ranked = np.take_along_axis(classes, order, axis=1)
    new = np.zeros((problems, n), dtype=np.int64)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    codes = np.cumsum(new, axis=1) - (ranked[:, :1] < 0)  # a row that starts with -1 has its first class one step later
    out = np.empty_like(classes)
    np.put_along_axis(out, order, codes, axis=1)
    return out, int(codes.max()) + 1
