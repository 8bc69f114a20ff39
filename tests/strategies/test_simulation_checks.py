"""What every parallel strategy achieves on the simulated model agrees with theory, worked out here by enumeration and quadrature.

The model's draws are independent given the problem: right with a known probability, else one of three wrong answers. Its verifier's score,
and what it states as its confidence, belong to a text, so equal answers to one problem have the same; its log-probabilities
belong to a draw.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.prepare import prepare
from ttc_eval.sweep.runner import run

PROBLEMS = 720
ACCURACY = {"easy": 0.7, "medium": 0.5, "hard": 0.3}
WRONG = np.array([4, 2, 1]) / 7
VERIFIER, LOGPROBS = 0.8, 0.75
PACKAGE = "ttc_eval.strategies"
CELLS: dict[str, dict[str, Any]] = {
    "once": {"_target_": f"{PACKAGE}.Single"},
    "vote": {"_target_": f"{PACKAGE}.SelfConsistency", "max_attempts": 4},
    "vote_ties_random": {"_target_": f"{PACKAGE}.SelfConsistency", "max_attempts": 4, "ties": "random"},
    "vote_least_three": {"_target_": f"{PACKAGE}.SelfConsistency", "max_attempts": 4, "min_votes": 3},
    "beta": {"_target_": f"{PACKAGE}.AdaptiveConsistency", "max_attempts": 7, "threshold": 0.85},
    "dirichlet": {"_target_": f"{PACKAGE}.AdaptiveConsistency", "max_attempts": 7, "threshold": 0.8, "criterion": "dirichlet"},
    "windows": {"_target_": f"{PACKAGE}.EarlyStopping", "max_attempts": 6, "window": 2},
    "sliding": {"_target_": f"{PACKAGE}.EarlyStopping", "max_attempts": 6, "window": 2, "sliding": True},
    "best": {"_target_": f"{PACKAGE}.BestOfN", "n": 4},
    "sum": {"_target_": f"{PACKAGE}.WeightedVote", "n": 4},
    "mean": {"_target_": f"{PACKAGE}.WeightedVote", "n": 4, "weighting": "mean"},
    "softmax": {"_target_": f"{PACKAGE}.WeightedVote", "n": 4, "weighting": "softmax", "temperature": 0.3},
    "filtered": {"_target_": f"{PACKAGE}.WeightedVote", "n": 4, "weighting": "count", "min_score": 0.5, "on_none": "plurality"},
    "accepted": {"_target_": f"{PACKAGE}.FirstAccepted", "max_attempts": 4, "threshold": 0.6},
    "confidence": {"_target_": f"{PACKAGE}.ConfidenceVote", "n": 3, "signal": "mean_logprob"},
    "most_confident": {"_target_": f"{PACKAGE}.ConfidenceVote", "n": 4, "signal": "lowest_group", "keep": 0.5},
    "stated": {"_target_": f"{PACKAGE}.ConfidenceVote", "n": 3, "signal": "stated", "weighting": "softmax", "temperature": 0.2},
}
Theory = tuple[float, float, float | None]  # success, coverage, mean draws where they vary


# Theory. Class 0 is right; `q` are the probabilities of the four classes.


def classes(p: float) -> list[float]:
    return [p, *((1 - p) * WRONG)]


def outcomes(q: Sequence[float], n: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every way in which n draws fall into classes, with its probability."""
    for counts in product(range(n + 1), repeat=len(q)):
        if sum(counts) == n:
            ways = math.factorial(n) / math.prod(math.factorial(count) for count in counts)
            yield counts, ways * math.prod(share**count for share, count in zip(q, counts, strict=True))


def leaders(counts: Sequence[int]) -> list[int]:
    return [place for place, count in enumerate(counts) if count == max(counts)]


def vote(q: Sequence[float], n: int, *, ties_random: bool = False, least: int = 1) -> Theory:
    success = coverage = 0.0
    for counts, weight in outcomes(q, n):
        first = leaders(counts)
        if max(counts) < least or (len(first) > 1 and not ties_random):
            continue
        coverage += weight
        success += weight * (0 in first) / len(first)
    return success, coverage, None


def sequential(q: Sequence[float], most: int, decide: Callable[[tuple[int, ...]], int | None]) -> Theory:
    """A rule that may stop after any draw with a class, or go on; the plurality at the end."""
    total = [0.0, 0.0, 0.0]

    def walk(drawn: tuple[int, ...], weight: float) -> None:
        found = decide(drawn) if drawn else None
        if found is None and len(drawn) < most:
            for name, share in enumerate(q):
                walk((*drawn, name), weight * share)
            return
        if found is None:
            first = leaders([drawn.count(name) for name in range(len(q))])
            found = first[0] if len(first) == 1 else -1
        for place, value in enumerate((found == 0, found >= 0, len(drawn))):
            total[place] += weight * value

    walk((), 1.0)
    return total[0], total[1], total[2]


@cache
def posterior(counts: tuple[int, ...], pairwise: bool) -> float:
    """P(the first class is the likeliest), against the second alone or against all that were seen."""
    if pairwise or len(counts) < 3:
        return float(stats.beta.sf(0.5, counts[0] + 1, (counts[1] if len(counts) > 1 else 0) + 1))
    density = lambda x: stats.gamma.pdf(x, counts[0] + 1) * math.prod(stats.gamma.cdf(x, count + 1) for count in counts[1:])  # noqa: E731
    return float(integrate.quad(density, 0, 60, points=[counts[0]])[0])


def adaptive(most: int, threshold: float, *, pairwise: bool) -> Callable[[tuple[int, ...]], int | None]:
    def decide(drawn: tuple[int, ...]) -> int | None:
        ranked = Counter(drawn).most_common()
        (leader, votes), second = ranked[0], ranked[1][1] if len(ranked) > 1 else 0
        sure = votes > second and posterior(tuple(count for _, count in ranked), pairwise) >= threshold
        return leader if sure or votes > second + most - len(drawn) else None

    return decide


def window(width: int, *, sliding: bool) -> Callable[[tuple[int, ...]], int | None]:
    def decide(drawn: tuple[int, ...]) -> int | None:
        ended = len(drawn) >= width and (sliding or len(drawn) % width == 0)
        return drawn[-1] if ended and len(set(drawn[-width:])) == 1 else None

    return decide


GRID = np.linspace(-9, 9, 7201)


def gap(auroc: float) -> float:
    """Half the distance between the latent scores of right and wrong, of standard deviation 1."""
    return math.sqrt(2) * float(special.ndtri(auroc)) / 2


def above_all(bounds: Sequence[Any], auroc: float) -> float:
    """P(the latent score of each wrong one is below its bound), where bounds are given over `GRID`, the right one's score."""
    right = stats.norm.pdf(GRID, gap(auroc))
    return float(integrate.trapezoid(right * math.prod((stats.norm.cdf(bound, -gap(auroc)) for bound in bounds), start=1.0), GRID))


def weighed(q: Sequence[float], n: int, bound: Callable[[Any, int, int], Any]) -> Theory:
    """A vote in which the right class beats a wrong one when that one's latent score is below `bound(scores, votes right, votes wrong)`."""
    success = 0.0
    for counts, weight in outcomes(q, n):
        if counts[0]:
            with np.errstate(divide="ignore", invalid="ignore"):
                bounds = [bound(special.expit(GRID), counts[0], count) for count in counts[1:] if count]
            success += weight * above_all(bounds, VERIFIER)
    return success, 1.0, None


def latent(score: Any) -> Any:
    return special.logit(np.clip(score, 0.0, 1.0))


def passing(threshold: float) -> Iterator[tuple[tuple[bool, ...], float]]:
    """Which classes a verifier lets pass, with its probability."""
    edge = float(special.logit(threshold))
    shares = [stats.norm.sf(edge, gap(VERIFIER)), *[stats.norm.sf(edge, -gap(VERIFIER))] * len(WRONG)]
    for passes in product((True, False), repeat=len(shares)):
        yield passes, math.prod(share if one else 1 - share for one, share in zip(passes, shares, strict=True))


def filtered(q: Sequence[float], n: int, threshold: float) -> Theory:
    success = coverage = 0.0
    for passes, chance in passing(threshold):
        for counts, weight in outcomes(q, n):
            kept = [count * one for count, one in zip(counts, passes, strict=True)]
            first = leaders(kept if any(kept) else counts)
            if len(first) == 1:
                coverage += chance * weight
                success += chance * weight * (first == [0])
    return success, coverage, None


def accepted(q: Sequence[float], most: int, threshold: float) -> Theory:
    success = coverage = drawn = 0.0
    for passes, chance in passing(threshold):
        stops = sum(share for share, one in zip(q, passes, strict=True) if one)
        for before in range(most):
            reached = chance * (1 - stops) ** before
            coverage, success, drawn = coverage + reached * stops, success + reached * q[0] * passes[0], drawn + reached
    return success, coverage, drawn


def three_confidences(q: Sequence[float]) -> Theory:
    """Weights lie between a half and one, so two that agree always beat a third, and of three that differ the largest wins."""
    success = sum(weight for counts, weight in outcomes(q, 3) if counts[0] >= 2)
    apart = sum(weight for counts, weight in outcomes(q, 3) if counts[0] == 1 and max(counts) == 1)
    return success + apart * above_all([GRID, GRID], LOGPROBS), 1.0, None


def surest_of_four(q: Sequence[float]) -> Theory:
    """Of the two surest of four, both agree or the surer wins: it is the surest draw's answer."""
    right, wrong = gap(LOGPROBS), -gap(LOGPROBS)
    below = q[0] * stats.norm.cdf(GRID, right) + (1 - q[0]) * stats.norm.cdf(GRID, wrong)
    return float(integrate.trapezoid(4 * q[0] * stats.norm.pdf(GRID, right) * below**3, GRID)), 1.0, None


def stated(q: Sequence[float], n: int, temperature: float) -> Theory:
    """Whole numbers from 0 to 100 as confidences, of which two may be equal: a tie."""
    edges = special.logit((np.arange(101) + 0.5)[:-1] / 100)
    cuts = np.concatenate([[-np.inf], edges, [np.inf]])
    right, wrong = (np.diff(stats.norm.cdf(cuts, mean)) for mean in (gap(VERIFIER), -gap(VERIFIER)))
    weights = np.exp(np.arange(101) / 100 / temperature)
    success = coverage = 0.0
    for counts, chance in outcomes(q, n):
        seen = [(count, right if place == 0 else wrong, place) for place, count in enumerate(counts) if count]
        for count, mass, place in seen:
            ahead = mass.copy()
            for other, other_mass, other_place in seen:
                if other_place != place:
                    below = np.concatenate([[0.0], np.cumsum(other_mass)])
                    ahead *= below[np.searchsorted(other * weights, count * weights * (1 - 1e-9))]
            coverage += chance * float(ahead.sum())
            success += chance * float(ahead.sum()) * (place == 0)
    return success, coverage, None


THEORY: dict[str, Callable[[Sequence[float]], Theory]] = {
    "once": lambda q: (q[0], 1.0, None),
    "vote": lambda q: vote(q, 4),
    "vote_ties_random": lambda q: vote(q, 4, ties_random=True),
    "vote_least_three": lambda q: vote(q, 4, least=3),
    "beta": lambda q: sequential(q, 7, adaptive(7, 0.85, pairwise=True)),
    "dirichlet": lambda q: sequential(q, 7, adaptive(7, 0.8, pairwise=False)),
    "windows": lambda q: sequential(q, 6, window(2, sliding=False)),
    "sliding": lambda q: sequential(q, 6, window(2, sliding=True)),
    "best": lambda q: weighed(q, 4, lambda score, _, __: latent(score)),
    "sum": lambda q: weighed(q, 4, lambda score, right, wrong: latent(score * right / wrong)),
    "mean": lambda q: weighed(q, 4, lambda score, _, __: latent(score)),
    "softmax": lambda q: weighed(q, 4, lambda score, right, wrong: latent(score + 0.3 * math.log(right / wrong))),
    "filtered": lambda q: filtered(q, 4, 0.5),
    "accepted": lambda q: accepted(q, 4, 0.6),
    "confidence": three_confidences,
    "most_confident": surest_of_four,
    "stated": lambda q: stated(q, 3, 0.2),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """One sweep over all of them, which share one pool of draws."""
    folder = tmp_path_factory.mktemp("simulation")
    data, strategies = folder / "problems.jsonl", folder / "mine" / "strategy"
    strategies.mkdir(parents=True)
    levels = list(ACCURACY)
    rows = [{"id": f"p{i:05d}", "question": f"Question {i:05d}?", "answer": str(1000 * i), "level": levels[i % 3]} for i in range(PROBLEMS)]
    data.write_text("\n".join(map(json.dumps, rows)))
    for name, cell in CELLS.items():
        (strategies / f"{name}.yaml").write_text(json.dumps(cell))
    accuracy = ",".join(f"{level}: {{0: {p}}}" for level, p in ACCURACY.items())
    arguments = [
        "-m",
        "--config-dir",
        str(folder / "mine"),
        f"results_dir={folder}",
        "study=checks",
        "model=simulated",
        f"model.accuracy={{{accuracy}}}",
        f"model.verifier_auroc={VERIFIER}",
        f"model.logprob_auroc={LOGPROBS}",
        "verifier=outcome",
        "sampling.logprobs=2",
        "dataset=one_question",
        f"dataset.path={data}",
        "dataset.difficulty=level",
        "dataset.answer={kind: integer, extraction: final}",
        f"strategy={','.join(CELLS)}",
    ]
    plan = prepare([plain(config) for config in compose(arguments)], arguments)
    state = asyncio.run(run(plan, lambda state: nullcontext()))
    assert state.status == "finished", [cell.error or cell.first_error for cell in state.cells.values()]
    return open_study(plan.paths.database)


@cache
def expected(name: str) -> Theory:
    found = [THEORY[name](classes(p)) for p in ACCURACY.values()]
    drawn = None if found[0][2] is None else sum(one[2] or 0.0 for one in found) / len(found)
    return sum(one[0] for one in found) / len(found), sum(one[1] for one in found) / len(found), drawn


@pytest.fixture(scope="module")
def cells(study: Study) -> dict[str, Any]:
    """What was measured, by the name of the YAML that made the cell."""
    rows = study.sql("SELECT m.*, c.config FROM cell_metrics m JOIN cells c USING (cell_id)").to_dict("records")
    drawn = study.sql("SELECT cell_id, avg(attempts) AS mean, stddev(attempts) AS spread FROM solutions GROUP BY cell_id").set_index(
        "cell_id"
    )
    by_strategy = {json.dumps(json.loads(row["config"])["strategy"], sort_keys=True): row for row in rows}
    found = {name: by_strategy[json.dumps(cell, sort_keys=True)] for name, cell in CELLS.items()}
    return {
        name: row | {"drawn": drawn.loc[row["cell_id"], "mean"], "spread": drawn.loc[row["cell_id"], "spread"]}
        for name, row in found.items()
    }


@pytest.mark.parametrize("name", CELLS)
def test_success_agrees_with_theory(cells: dict[str, Any], name: str) -> None:
    (success, coverage, drawn), row = expected(name), cells[name]
    assert row["n_problems"] == PROBLEMS
    for share, found in ((success, row["success"]), (coverage, row["coverage"])):
        # 99.9 % of the time; problems of different difficulty make it a little narrower still.
        assert abs(found - share) <= 3.3 * math.sqrt(share * (1 - share) / PROBLEMS) + 1e-9, (found, share)
    if drawn is not None:
        assert abs(row["drawn"] - drawn) <= 3.3 * row["spread"] / math.sqrt(PROBLEMS), (row["drawn"], drawn)


def test_the_stated_intervals_hold_what_theory_says(cells: dict[str, Any]) -> None:
    inside = [row["success_low"] <= expected(name)[0] <= row["success_high"] for name, row in cells.items()]
    assert sum(inside) >= len(CELLS) - 3, "95 % intervals; the cells share their draws, so they miss together"


def test_theory_tells_the_strategies_apart() -> None:
    """Otherwise the agreement would say nothing about the rules."""
    found = {name: expected(name)[0] for name in CELLS}
    assert found["vote"] < found["vote_ties_random"] < found["sum"]
    assert found["once"] < found["best"] < found["softmax"]
    assert found["vote_least_three"] < found["vote"]
    assert abs(found["best"] - found["mean"]) < 1e-12, "equal texts have equal scores"
    assert len({round(value, 3) for value in found.values()}) > len(found) - 4


def test_the_whole_sweep_is_one_pool(study: Study) -> None:
    (pools, most) = study.sql("SELECT count(DISTINCT pool) AS pools, max(draw) + 1 AS most FROM calls").iloc[0]
    assert (pools, most) == (1, 7)
