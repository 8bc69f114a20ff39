"""Exact estimators beside straightforward references and the formulas that peers publish, as ratios, on 10,000 problems × 64 draws.

    python benchmarks/estimators.py [--problems 10000] [--draws 64]

Each line names what is compared; a ratio above 1 says how many times longer the other takes. Both sides run here, in turn, and the least of
several runs counts. Where the other would take minutes it runs on a part of the problems and its time is scaled; the line says so.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ttc_eval.metrics import best_of_n_at_k, majority_at_k, pass_at_k

SHUFFLES = 30
Draws = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]


def pool(problems: int, draws: int, seed: int = 0) -> Draws:
    """Classes, labels and scores: success from Beta(1, 1.2), wrong answers spread over up to 30 classes unevenly, 5 % without an answer."""
    rng = np.random.default_rng(seed)
    right = rng.random((problems, draws)) < rng.beta(1.0, 1.2, (problems, 1))
    shares = rng.gamma(0.5, 1.0, (problems, 30)).cumsum(axis=1)
    wrong = 1 + (rng.random((problems, draws))[..., None] * shares[:, None, -1:] > shares[:, None, :]).sum(axis=2)
    classes = np.where(right, 0, wrong)
    classes[rng.random((problems, draws)) < 0.05] = -1
    return classes, classes == 0, np.round(right + rng.normal(0.0, 1.0, (problems, draws)), 2)


def one_hot_shuffles(classes: NDArray[np.int64], shuffles: int) -> NDArray[np.float64]:
    """Majority for every k by shuffling: votes of every class by a cumulative sum over one-hot draws; class 0 is the correct one."""
    rng = np.random.default_rng(0)
    problems, n = classes.shape
    names = np.arange(classes.max() + 1)
    total = np.zeros((problems, n))
    for _ in range(shuffles):
        order = rng.permuted(np.tile(np.arange(n), (problems, 1)), axis=1)
        votes = (np.take_along_axis(classes, order, axis=1)[..., None] == names).cumsum(axis=1, dtype=np.int16)
        top = votes.max(axis=2)
        total += ((votes[..., 0] == top) & (top > 0)) / np.maximum((votes == top[..., None]).sum(axis=2), 1)
    return total / shuffles


def running_shuffles(classes: NDArray[np.int64], shuffles: int) -> NDArray[np.float64]:
    """The same with a running count, which is the least that a shuffle can cost in NumPy: one vote at a time for all problems."""
    rng = np.random.default_rng(0)
    problems, n = classes.shape
    row = np.arange(problems)
    total = np.zeros((problems, n))
    for _ in range(shuffles):
        drawn = np.take_along_axis(classes, np.argsort(rng.random((problems, n)), axis=1), axis=1)
        votes = np.zeros((problems, classes.max() + 2), dtype=np.int64)
        lead, tied, right = np.zeros(problems, dtype=np.int64), np.zeros(problems), np.zeros(problems)
        for step in range(n):
            said = drawn[:, step]
            votes[row, said] += 1
            count = np.where(said >= 0, votes[row, said], -1)
            ahead, level = count > lead, count == lead
            tied = np.where(ahead, 1.0, tied + level)
            right = np.where(ahead, said == 0, right + (level & (said == 0)))
            lead = np.maximum(lead, count)
            total[:, step] += right / np.maximum(tied, 1.0)
    return total / shuffles


def plain_majority(classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The formula of docs/design.md 5 in plain Python with whole numbers, for every k."""
    out = np.zeros(classes.shape)
    n = classes.shape[1]
    for number, row in enumerate(classes.tolist()):
        own = row.count(0)
        others = [row.count(name) for name in set(row) - {0, -1}]
        for w in range(1, own + 1):
            ways = {(0, 0): 1}  # (draws, ties) -> ways
            for size in others:
                after: dict[tuple[int, int], int] = {}
                for (j, t), count in ways.items():
                    for x in range(min(size, w) + 1):
                        key = (j + x, t + (x == w))
                        after[key] = after.get(key, 0) + count * math.comb(size, x)
                ways = after
            silent = row.count(-1)
            for (j, t), count in ways.items():
                for x in range(silent + 1):
                    k = w + j + x
                    out[number, k - 1] += math.comb(own, w) * count * math.comb(silent, x) / (t + 1) / math.comb(n, k)
    return out


def human_eval_pass_at_k(n: int, c: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """`estimate_pass_at_k` as human-eval publishes it: a product per problem."""

    def estimator(n: int, c: int, k: int) -> float:
        if n - c < k:
            return 1.0
        return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))

    return np.array([estimator(n, int(one), k) for one in c])


def plain_best_of_n(scores: NDArray[np.float64], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Best-of-N for every k in plain Python: blocks of tied scores by binomials."""
    out = np.zeros(scores.shape)
    n = scores.shape[1]
    for number in range(len(scores)):
        values: dict[float, list[bool]] = {}
        for score, right in zip(scores[number].tolist(), correct[number].tolist(), strict=True):
            values.setdefault(score, []).append(right)
        for k in range(1, n + 1):
            above, total = 0, math.comb(n, k)
            for score in sorted(values, reverse=True):
                size = len(values[score])
                first = math.comb(n - above, k) - math.comb(n - above - size, k)
                out[number, k - 1] += first / total * sum(values[score]) / size
                above += size
    return out


def least(work: Callable[[], object], runs: int = 3) -> float:
    """Least seconds of several runs."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--problems", type=int, default=10_000)
    options.add_argument("--draws", type=int, default=64)
    given = options.parse_args()
    n = given.draws
    classes, correct, scores = pool(given.problems, n)
    hits, ks = correct.sum(axis=1), np.arange(1, n + 1)
    print(f"{given.problems} problems × {n} draws, every k from 1 to {n}; least of 3 runs")

    exact = least(lambda: majority_at_k(classes, correct, ks))
    print(f"\nexact majority@k          {exact:8.3f} s = {given.problems / exact:,.0f} problems/s")
    part = max(1, given.problems // 10)
    some = slice(0, part)
    for name, shuffled in (("one-hot shuffles", one_hot_shuffles), ("running shuffles", running_shuffles)):
        seconds = least(lambda shuffled=shuffled: shuffled(classes, 3)) / 3 * SHUFFLES
        print(f"  {SHUFFLES} {name:20s} {seconds:8.3f} s, ratio {seconds / exact:6.1f} (from 3 shuffles)")
    plain = slice(0, max(1, given.problems // 200))
    seconds = least(lambda: plain_majority(classes[plain]), 1) * given.problems / len(classes[plain])
    print(f"  exact in plain Python   {seconds:8.1f} s, ratio {seconds / exact:6.1f} (from {len(classes[plain])} problems)")
    gap = np.abs(majority_at_k(classes[plain], correct[plain], ks) - plain_majority(classes[plain])).max()
    print(f"  largest difference from plain Python's whole numbers: {gap:.1e}")
    error = np.abs(majority_at_k(classes[some], correct[some], ks) - running_shuffles(classes[some], SHUFFLES))
    print(f"  a problem's value after {SHUFFLES} shuffles is off by {error.mean():.3f} on average, {error.max():.2f} at most")

    exact = least(lambda: pass_at_k(n, hits[:, None], ks))
    peer = least(lambda: [human_eval_pass_at_k(n, hits[some], int(k)) for k in ks], 1) * given.problems / part
    print(f"\npass@k                    {exact:8.3f} s")
    print(f"  human-eval's formula    {peer:8.3f} s, ratio {peer / exact:6.1f} (from {part} problems)")

    exact = least(lambda: best_of_n_at_k(scores, correct, ks))
    part = max(1, given.problems // 100)
    peer = least(lambda: plain_best_of_n(scores[:part], correct[:part]), 1) * given.problems / part
    print(f"\nbest-of-N@k               {exact:8.3f} s")
    print(f"  plain Python            {peer:8.3f} s, ratio {peer / exact:6.1f} (from {part} problems)")


if __name__ == "__main__":
    main()
