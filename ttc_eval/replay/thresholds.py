"""Policies with a second stage under other thresholds: the code of the strategy over stored draws, with no call.

`cascade`, `route` and `verify_selectively` compare one signal, which is known before the threshold is looked at and is stored, with one
threshold. So a problem's solution is the same for all thresholds on one side of its signal, and at most three replays of a problem say what
every threshold gives: below its signal, at it, above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from ttc_eval.errors import UserError
from ttc_eval.records import JSON, Problem
from ttc_eval.replay.pools import Recorded, recorded, stored_calls
from ttc_eval.replay.solving import Line, Replaying
from ttc_eval.replay.stored import NotStored, StoredCalls
from ttc_eval.store import reading
from ttc_eval.strategies import Strategy
from ttc_eval.sweep.config import build, parse
from ttc_eval.sweep.prepare import cell_of
from ttc_eval.variants import policy_key
from ttc_eval.verify.traces import stored_problems

STRATEGIES = ("cascade", "route", "verify_selectively")
# More different signals than this, as lengths and log-probabilities have, are tried at this many quantiles.
MOST_THRESHOLDS = 32

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Run:
    """The cells of one split and seed that differ in their threshold alone.

    Attributes:
        config: of the first of them; endpoint: identity of its model.
        problems: those that one of them has solved; signals: by problem, None where the signal is not known.
    """

    config: JSON = field(hash=False)
    endpoint: str
    problems: tuple[Problem, ...]
    signals: Mapping[str, float | None] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """The cells of one split that differ in threshold and seed alone.

    Attributes:
        key: the same for the same policy on another split.
        cell_ids: in the order in which they were run; ran: the thresholds that they have.
        runs: one for each seed.
    """

    key: str
    split: str
    label: str
    cell_ids: tuple[str, ...]
    ran: tuple[float, ...]
    runs: tuple[Run, ...]

    def thresholds(self) -> tuple[float, ...]:
        """Those that are different policies on these problems: every value of the signal, and beyond them, as the strategy allows.

        With many values, their quantiles. The thresholds that were run are always among them.
        """
        values = np.array(sorted({value for run in self.runs for value in run.signals.values() if value is not None}))
        if values.size > MOST_THRESHOLDS:
            every = [value for run in self.runs for value in run.signals.values() if value is not None]
            values = np.unique(np.quantile(every, np.linspace(0, 1, MOST_THRESHOLDS), method="inverted_cdf"))
        shares = bool(values.size) and values[0] >= 0 and values[-1] <= 1
        ends = [1.0] if shares else [float(values[0]) - 1, float(values[-1]) + 1] if values.size else []
        return tuple(one for one in sorted({*values.tolist(), *ends, *self.ran}) if self._allows(one))

    def strategy(self, threshold: float) -> Strategy:
        """The strategy with another threshold. Raises `UserError` for one that it does not take."""
        built: Strategy = build({**self.runs[0].config["strategy"], "threshold": threshold}, "strategy")
        return built

    def _allows(self, threshold: float) -> bool:
        try:
            self.strategy(threshold)
        except UserError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class ThresholdOutcome:
    """What a policy comes to at one threshold, per problem: the mean over its seeds. NaN: unknown."""

    correct: Floats
    tokens: Floats
    usd: Floats
    latency_s: Floats


class ThresholdReplays:
    """Replays of the policies of one study. Each solution is worked out once."""

    def __init__(self, database: Path) -> None:
        """Reads the study; its file is closed again."""
        self.policies = threshold_policies(database)
        self._calls, self._known = StoredCalls(), Recorded({}, {}, {})
        if self.policies:
            self._calls, shared = stored_calls(database)
            self._known = recorded(database, shared)
        self._lines: dict[tuple[str, str, int, str, int | None], tuple[float, ...]] = {}

    def outcome(self, policy: ThresholdPolicy, threshold: float) -> ThresholdOutcome:
        """A policy at a threshold, on the problems that all its seeds have solved.

        Raises `UserError` when a draw or a score that it asks for is not stored: what is missing, and the cells to run for it. So it does
        for cells with a limit of their own: what one problem leaves for the next depends on the threshold there.
        """
        if any(value is not None for run in policy.runs for value in run.config["limits"]["cell"].values()):
            raise UserError(f"{policy.label}: its cells have limits.cell, by which problems depend on each other; tune cells without it")
        # In a thread of its own, since a notebook has a running loop in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._outcome(policy, threshold)).result()

    async def _outcome(self, policy: ThresholdPolicy, threshold: float) -> ThresholdOutcome:
        shared = set.intersection(*({problem.problem_id for problem in run.problems} for run in policy.runs))
        if not shared:
            raise UserError(f"{policy.label}: its seeds have no problem of split {policy.split} in common")
        strategy, seeds = policy.strategy(threshold), []
        for place, run in enumerate(policy.runs):
            problems = tuple(problem for problem in run.problems if problem.problem_id in shared)
            replaying: Replaying | None = None
            rows = []
            for problem in problems:
                signal = run.signals.get(problem.problem_id)
                side = None if signal is None else (threshold > signal) - (threshold < signal)
                key = (policy.key, policy.split, place, problem.problem_id, side)
                if key not in self._lines:
                    replaying = replaying or self._replaying(run, problems)
                    try:
                        self._lines[key] = _numbers(await replaying.solve(problem, strategy))
                    except NotStored:
                        raise UserError(_missing(policy, threshold, problem)) from None
                rows.append(self._lines[key])
            seeds.append(np.array(rows, dtype=np.float64))
        return ThresholdOutcome(*np.mean(seeds, axis=0).T)

    def _replaying(self, run: Run, problems: tuple[Problem, ...]) -> Replaying:
        return Replaying.of(cell_of(parse(run.config), problems), self._calls, self._known, run.endpoint)


def threshold_policies(database: Path) -> list[ThresholdPolicy]:
    """The policies of a study whose strategy is one of `STRATEGIES`, for each split, in the order in which they were first run."""
    cells, solved = _stored(database)
    known = {problem.problem_id: problem for problem in stored_problems(database)} if cells else {}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in cells:
        key = policy_key(cell["config"], cell["endpoint"], without=("strategy.threshold", "strategy.parallel"))
        groups.setdefault((key, f"{cell['dataset']} {cell['split']}"), []).append(cell)
    return [_policy(key, group, solved, known) for (key, _), group in groups.items()]


def _stored(database: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, float | None]]]:
    """The solved cells, and for each the signal of every problem."""
    query = """
        SELECT c.cell_id, c.config, c.endpoint, c.dataset, c.split, c.seed, c.strategy_label
        FROM cells c LEFT JOIN sweeps w USING (sweep_id)
        WHERE list_contains(?, c.strategy) AND c.cell_id IN (SELECT cell_id FROM solutions) ORDER BY w.started_at, c.ordinal"""
    with reading(database) as connection:
        found = connection.execute(query, [list(STRATEGIES)])
        names = [column[0] for column in found.description or ()]
        cells = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        rows = connection.execute(
            "SELECT cell_id, problem_id, signals FROM solutions WHERE list_contains(?, cell_id) ORDER BY problem_id",
            [[cell["cell_id"] for cell in cells]],
        ).fetchall()
    solved: dict[str, dict[str, float | None]] = {}
    for cell_id, problem_id, signals in rows:
        # A run that failed before it knew its signal has none.
        values = list(orjson.loads(signals).values()) if signals else []
        solved.setdefault(cell_id, {})[problem_id] = values[0] if values else None
    return [{**cell, "config": orjson.loads(cell["config"])} for cell in cells], solved


def _policy(
    key: str, cells: Sequence[Mapping[str, Any]], solved: Mapping[str, Mapping[str, float | None]], known: Mapping[str, Problem]
) -> ThresholdPolicy:
    first, runs = cells[0], []
    for seed in dict.fromkeys(cell["seed"] for cell in cells):
        same = [cell for cell in cells if cell["seed"] == seed]
        signals: dict[str, float | None] = {}
        for cell in same:  # a run that failed in one of them may have known its signal in another
            signals |= {problem: value for problem, value in solved[cell["cell_id"]].items() if signals.get(problem) is None}
        problems = tuple(known[problem] for problem in sorted(signals) if problem in known)
        runs.append(Run(same[0]["config"], same[0]["endpoint"], problems, signals))
    return ThresholdPolicy(
        key=key,
        split=first["split"],
        label=f"{first['config']['model'].get('name')} · {first['strategy_label']}",
        cell_ids=tuple(cell["cell_id"] for cell in cells),
        ran=tuple(dict.fromkeys(float(cell["config"]["strategy"]["threshold"]) for cell in cells)),
        runs=tuple(runs),
    )


def _numbers(line: Line) -> tuple[float, ...]:
    """Correct (0 or 1), output tokens, USD and seconds of a solution, in the order of `ThresholdOutcome`."""
    solution = line["solutions"][0]
    right = {row["answer_class"] for row in line["grades"] if row["correct"]}
    charged = [solution[name] for name in ("charged_output_tokens", "charged_usd", "latency_s")]
    correct = bool(solution["selected"]) and solution["answer_class"] in right
    return (float(correct), *(float("nan") if value is None else float(value) for value in charged))


def _missing(policy: ThresholdPolicy, threshold: float, problem: Problem) -> str:
    every = policy.thresholds()
    ends = ",".join(f"{one:g}" for one in dict.fromkeys((every[0], every[-1])))
    return (
        f"{policy.label} at threshold {threshold:g} asks for a draw or a score of problem {problem.problem_id} that is not stored; "
        f"run it once at both ends (strategy.threshold={ends}) on split {policy.split}, which reuses what is stored, or tune without it"
    )
