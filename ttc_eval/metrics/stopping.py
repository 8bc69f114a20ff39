"""Stopping rules replayed over the pool: what a rule would have selected, drawn and cost, in random orders of the stored draws.

A rule is a function of `Seen`, what is known after the first draws of many replays at once, and says for each whether it stops. A selector
is a function of the same and says which of the draws is selected. A rule of one's own is a function:

    def two_of_a_kind(seen):
        return seen.lead >= 2

    replay(two_of_a_kind, leading(), classes, correct)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ttc_eval.metrics.arrays import Bools, Floats, Ints, class_numbers, compact, labels, same_shape
from ttc_eval.metrics.resampling import Sampled, orders, sampled


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known after the first `draws` draws, a line per replay.

    Attributes:
        draws: draws so far; at_most: draws that the replay may make.
        classes: shape (lines, draws), in drawn order; −1 is no answer. Numbers mean nothing beyond equality.
        scores: same shape, NaN without a valid score; None when the replay has no scores.
        votes: shape (lines, classes), votes per class.
        lead, runner_up: votes of the leading class and of the next; equal when the lead is tied.
        leader_at: where the leading class was first seen; −1 before any answer.
    """

    draws: int
    at_most: int
    classes: Ints
    scores: Floats | None
    votes: Ints
    lead: Ints
    runner_up: Ints
    leader_at: Ints


StoppingRule = Callable[[Seen], Bools]
Selector = Callable[[Seen], Ints]


@dataclass(frozen=True, slots=True)
class Replay:
    """What a stopping rule does, per problem, with its Monte-Carlo error.

    Attributes:
        success: probability that the selected draw is correct; nothing selected counts as not correct.
        coverage: probability that something is selected.
        draws: expected number of draws.
        costs: by name of the cost, the expected cost, in its unit. NaN where the cost of a draw that was used is unknown.
    """

    success: Sampled
    coverage: Sampled
    draws: Sampled
    costs: dict[str, Sampled]


def replay(
    rule: StoppingRule,
    selector: Selector,
    classes: ArrayLike,
    correct: ArrayLike,
    *,
    scores: ArrayLike | None = None,
    costs: Mapping[str, ArrayLike] | None = None,
    at_most: int | None = None,
    permutations: int = 200,
    seed: int = 0,
) -> Replay:
    """Replay a stopping rule over random orders of the stored draws.

    Args:
        rule: stops or goes on, asked after every draw; the replay ends after `at_most` draws in any case.
        selector: the position that is selected when the replay ends, or −1 for none.
        classes, correct: as for `majority_at_k`; a selected draw is right when its own label is.
        scores: shape (problems, n), NaN without a valid score. They are known as soon as a draw is made.
        costs: by name, shape (problems, n): what a draw costs, with what its verifier charged.
        at_most: draws that the rule may make, 1 to n; None: n.
        permutations: orders per problem, 2 or more.
        seed: of the orders. Rules replayed with one seed see the same orders, so their differences are paired.

    Raises:
        ValueError: for shapes that differ, `at_most` outside 1..n, fewer than 2 permutations, or a rule or selector that returns another
            shape or a position that was not drawn.
    """
    class_ids, is_correct = class_numbers(classes), labels(correct)
    same_shape("classes", class_ids, "correct", is_correct)
    problems, n = class_ids.shape
    scored = None if scores is None else np.asarray(scores, dtype=np.float64)
    priced = {name: np.asarray(values, dtype=np.float64) for name, values in (costs or {}).items()}
    for name, values in {**({} if scored is None else {"scores": scored}), **priced}.items():
        same_shape("classes", class_ids, name, values)
    limit = n if at_most is None else at_most
    if limit != int(limit) or not 1 <= limit <= n:
        raise ValueError(f"at_most={at_most} is not in 1..{n}, the draws per problem")
    codes, most = compact(class_ids)

    sums = {name: np.zeros((2, problems)) for name in ("success", "coverage", "draws")}
    cost_sums = {name: np.zeros((2, problems)) for name in priced}
    for problem, order in orders(problems, n, permutations, seed):
        order = order[:, :limit]
        at = problem[:, None]
        drawn, picked = _run(rule, selector, codes[at, order], most, None if scored is None else scored[at, order])
        lines = np.arange(len(problem))
        has = picked >= 0
        right = has & is_correct[problem, order[lines, picked]]
        for name, value in (("success", right), ("coverage", has), ("draws", drawn)):
            _add(sums[name], problem, value.astype(np.float64))
        for name, values in priced.items():
            spent = np.cumsum(values[at, order], axis=1)[lines, drawn - 1]
            _add(cost_sums[name], problem, spent)

    def mean(moments: Floats) -> Sampled:
        return sampled(moments[0], moments[1], permutations, seed)

    return Replay(
        **{name: mean(moments) for name, moments in sums.items()}, costs={name: mean(moments) for name, moments in cost_sums.items()}
    )


def never() -> StoppingRule:
    """Never stops early: all draws that the replay may make, as a fixed number of samples does."""
    return lambda seen: np.zeros(len(seen.lead), dtype=bool)


def locked_plurality(min_votes: int = 1) -> StoppingRule:
    """Stops when the leader has `min_votes` and can be neither overtaken nor tied by the draws that are left.

    It selects what all draws would have selected, where ties are unresolved. Source: docs/strategies.md, `self_consistency`.
    """
    _at_least_one("min_votes", min_votes)

    def stops(seen: Seen) -> Bools:
        return (seen.lead >= min_votes) & (seen.lead > seen.runner_up + seen.at_most - seen.draws)

    return stops


def esc_window(window: int, *, sliding: bool = False) -> StoppingRule:
    """Draws windows of `window` draws and stops after the first in which all answers are the same.

    Windows follow each other without overlap, as published, or `sliding` ones end at every draw. A draw without an answer breaks one.
    Source: early-stopping self-consistency, arXiv 2401.10480.
    """
    _at_least_one("window", window)

    def stops(seen: Seen) -> Bools:
        if seen.draws < window or (not sliding and seen.draws % window):
            return np.zeros(len(seen.lead), dtype=bool)
        last = seen.classes[:, -window:]
        same: Bools = (last == last[:, :1]).all(axis=1) & (last[:, 0] >= 0)
        return same

    return stops


def beta_criterion(confidence: float = 0.95) -> StoppingRule:
    """Stops when the leader is the majority against the runner-up with this confidence: P(p > ½ | Beta(v₁+1, v₂+1)).

    For whole numbers of votes that is 1 − 2^−N Σ_{j ≤ v₂} C(N, j) with N = v₁ + v₂ + 1. Source: Adaptive-Consistency, arXiv 2305.11860.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} is not between 0 and 1")

    def stops(seen: Seen) -> Bools:
        from scipy import special

        reached: Bools = (seen.lead > 0) & (special.bdtrc(seen.runner_up, seen.lead + seen.runner_up + 1, 0.5) >= confidence)
        return reached

    return stops


def first_accepted(threshold: float) -> StoppingRule:
    """Stops at the first draw with an answer whose score is valid and `threshold` or more. Needs scores."""

    def stops(seen: Seen) -> Bools:
        accepted: Bools = (_scores(seen)[:, -1] >= threshold) & (seen.classes[:, -1] >= 0)
        return accepted

    return stops


def leading(min_votes: int = 1, ties: Literal["random", "unresolved"] = "unresolved") -> Selector:
    """Selects the class with the most votes, by the first draw that gave it; nothing below `min_votes`.

    With `random` a tied lead goes to the class that reached it first, which in a random order is each of them with the same chance.
    """
    _at_least_one("min_votes", min_votes)
    if ties not in ("random", "unresolved"):
        raise ValueError(f"ties is 'random' or 'unresolved', not {ties!r}")

    def select(seen: Seen) -> Ints:
        clear = seen.lead > seen.runner_up if ties == "unresolved" else seen.lead > 0
        return np.where(clear & (seen.lead >= min_votes), seen.leader_at, -1)

    return select


def accepted(threshold: float, otherwise: Literal["best", "unresolved"] = "unresolved") -> Selector:
    """Selects the first draw that has an answer and a score of `threshold` or more; if there is none, nothing, or the best score."""
    if otherwise not in ("best", "unresolved"):
        raise ValueError(f"otherwise is 'best' or 'unresolved', not {otherwise!r}")

    def select(seen: Seen) -> Ints:
        passes = (_scores(seen) >= threshold) & (seen.classes >= 0)
        fallback = best_scored()(seen) if otherwise == "best" else np.full(len(passes), -1)
        return np.where(passes.any(axis=1), passes.argmax(axis=1), fallback)

    return select


def best_scored() -> Selector:
    """Selects the first draw with the highest valid score among those that have an answer; nothing without any."""

    def select(seen: Seen) -> Ints:
        valid = (seen.classes >= 0) & np.isfinite(_scores(seen))
        score = np.where(valid, _scores(seen), -np.inf)
        return np.where(valid.any(axis=1), score.argmax(axis=1), -1)

    return select


def _run(rule: StoppingRule, selector: Selector, classes: Ints, most: int, scores: Floats | None) -> tuple[Ints, Ints]:
    """Draws made and position selected, for each line."""
    lines, limit = classes.shape
    drawn, picked = np.full(lines, limit), np.full(lines, -1)
    where = np.arange(lines)  # the lines that are still in the arrays below; some of them may have stopped
    running = np.ones(lines, dtype=bool)
    votes, first_at = np.zeros((lines, most + 1), dtype=np.int64), np.full((lines, most + 1), -1)
    lead, runner_up, leader = np.zeros(lines, dtype=np.int64), np.zeros(lines, dtype=np.int64), np.full(lines, -1)
    for step in range(limit):
        row, said = np.arange(len(where)), classes[:, step]
        votes[row, said] += 1  # −1 is the last column, which nobody reads
        unseen = first_at[row, said] < 0
        first_at[row[unseen], said[unseen]] = step
        count = np.where(said >= 0, votes[row, said], 0)
        other = said != leader
        overtakes = other & (count > lead)
        runner_up = np.where(overtakes, lead, np.where(other, np.maximum(runner_up, count), runner_up))
        lead = np.maximum(lead, count)
        leader = np.where(overtakes, said, leader)
        leader_at = np.where(leader >= 0, first_at[row, leader], -1)
        seen = Seen(
            draws=step + 1,
            at_most=limit,
            classes=classes[:, : step + 1],
            scores=None if scores is None else scores[:, : step + 1],
            votes=votes[:, :most],
            lead=lead,
            runner_up=runner_up,
            leader_at=leader_at,
        )
        stop = np.ones(len(where), dtype=bool) if step + 1 == limit else np.asarray(rule(seen))
        if stop.shape != where.shape or stop.dtype.kind != "b":
            raise ValueError(f"a rule returns a bool for each of {where.shape} lines, not {stop.dtype} of shape {stop.shape}")
        now = running & stop
        if not now.any():
            continue
        selected = np.asarray(selector(seen))
        if selected.shape != where.shape or selected.dtype.kind != "i" or not ((selected >= -1) & (selected <= step)).all():
            raise ValueError(f"a selector returns a position from -1 to {step} for each of {where.shape} lines")
        drawn[where[now]], picked[where[now]] = step + 1, selected[now]
        running &= ~now
        if running.sum() * 2 <= len(where):
            keep = running
            where, running, classes, votes, first_at = where[keep], running[keep], classes[keep], votes[keep], first_at[keep]
            lead, runner_up, leader = lead[keep], runner_up[keep], leader[keep]
            scores = None if scores is None else scores[keep]
            if not len(where):
                break
    return drawn, picked


def _add(moments: Floats, problem: Ints, value: Floats) -> None:
    moments[0] += np.bincount(problem, weights=value, minlength=moments.shape[1])
    moments[1] += np.bincount(problem, weights=value * value, minlength=moments.shape[1])


def _scores(seen: Seen) -> Floats:
    if seen.scores is None:
        raise ValueError("this rule reads scores; give replay(..., scores=...)")
    return seen.scores


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name}={value}: give 1 or more")
