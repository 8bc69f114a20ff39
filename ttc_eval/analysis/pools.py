"""Pools of draws as matrices: what every strategy over the same request configuration chose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ttc_eval.analysis.frames import LABELS, Floats, solved_cells
from ttc_eval.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

# The draws of each pool that some cell took as candidates, with what each used: all its calls, failed attempts included. A second stage, a
# probe or a retry under another thinking draws for some problems only, chosen by their content: only draws under the cell's own count.
_DRAWS = """
    WITH taken AS (
        SELECT cell_id, problem_id, position, draw, complete, answer_class, unnest(from_json(call_ids, '["VARCHAR"]')) AS call_id
        FROM candidates WHERE NOT coalesce("partial", false) AND parent IS NULL AND depth = 0
    )
    SELECT t.cell_id, t.problem_id, t.position, t.draw, any_value(k.pool) AS pool,
           any_value(CASE WHEN t.complete THEN t.answer_class END) AS answer_class,
           any_value(CASE WHEN t.complete AND t.answer_class IS NOT NULL THEN g.correct ELSE false END) AS correct,
           CASE WHEN bool_and(coalesce(k.output_tokens, k.reserved_output_tokens) IS NOT NULL)
                THEN sum(coalesce(k.output_tokens, k.reserved_output_tokens)) END AS output_tokens,
           CASE WHEN bool_and(coalesce(k.cost_usd, k.reserved_usd) IS NOT NULL) THEN sum(coalesce(k.cost_usd, k.reserved_usd)) END AS usd,
           CASE WHEN bool_and(k.latency_s IS NOT NULL) THEN sum(k.latency_s) END AS latency_s
    FROM taken t JOIN calls k USING (call_id) JOIN cells c ON c.cell_id = t.cell_id
    LEFT JOIN grades g ON g.problem_id = t.problem_id AND g.answer_class = t.answer_class
    WHERE k.role = 'generate' AND k.model = c.model
      AND ((k.request->'$.thinking') IS NULL
           OR ((k.request->>'$.thinking[0]') = c.thinking_mode
               AND (k.request->>'$.thinking[1]') IS NOT DISTINCT FROM c.thinking_budget::VARCHAR
               AND (k.request->>'$.thinking[2]') IS NOT DISTINCT FROM c.thinking_effort))
    GROUP BY ALL"""

# What a score cost: the attempts that its sweep made for it. One that was no call cost nothing, one of unknown usage its reservation.
_SCORES = """
    WITH asked AS (SELECT DISTINCT call_id FROM scores WHERE call_id IS NOT NULL), costs AS (
        SELECT a.call_id,
               CASE WHEN bool_and(coalesce(k.output_tokens, k.reserved_output_tokens) IS NOT NULL)
                    THEN sum(coalesce(k.output_tokens, k.reserved_output_tokens)) END AS tokens,
               CASE WHEN bool_and(coalesce(k.cost_usd, k.reserved_usd) IS NOT NULL)
                    THEN sum(coalesce(k.cost_usd, k.reserved_usd)) END AS usd
        FROM asked a JOIN calls one USING (call_id)
        JOIN calls k ON k.key = one.key AND k.sweep_id = one.sweep_id AND k.status <> 'cancelled' GROUP BY ALL
    )
    SELECT s.cell_id, s.problem_id, s.position, s.verifier, CASE WHEN s.valid THEN s.score END AS score,
           CASE WHEN s.call_id IS NULL THEN 0 ELSE costs.tokens END AS score_tokens,
           CASE WHEN s.call_id IS NULL THEN 0 ELSE costs.usd END AS score_usd
    FROM scores s LEFT JOIN costs ON costs.call_id = s.call_id"""


@dataclass(frozen=True, slots=True)
class Pool:
    """The draws that every problem of a data set has in one pool: shape (problems, n), draw i in column i.

    Attributes:
        labels: those of the first cell that drew from it, without what belongs to a strategy.
        problems: their ids; difficulty: of each, None where the data set has none.
        classes: answer classes as numbers within the problem, −1: no answer; correct: the grade of each draw.
        tokens, usd, latency: output tokens, USD and seconds of each draw with its failed attempts; NaN where unknown.
        scores: by verifier, the score of each draw; NaN where there is none or it is not valid.
        asked: by verifier, of how many draws from the first on it was asked for a score in every problem. A draw without an answer is never
            asked about. Draws beyond were not judged, which says nothing against them.
        left_out: problems of its cells without such draws, because they ended in an error first.
        score_tokens, score_usd: by verifier, what scoring each draw cost; 0 for a draw without an answer, which is not scored, and NaN
            where the cost is unknown or a draw was never scored.
    """

    labels: Mapping[str, Any]
    problems: tuple[str, ...]
    difficulty: tuple[str | None, ...]
    classes: NDArray[np.int64]
    correct: NDArray[np.bool_]
    tokens: Floats
    usd: Floats
    latency: Floats
    scores: Mapping[str, Floats] = field(default_factory=dict)
    score_tokens: Mapping[str, Floats] = field(default_factory=dict)
    score_usd: Mapping[str, Floats] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0

    @property
    def n(self) -> int:
        """Draws of each problem."""
        return int(self.classes.shape[1])


def first_draws(pool: Pool, n: int) -> Pool:
    """The pool with the first n draws of each problem only."""
    names, by_verifier = ("classes", "correct", "tokens", "usd", "latency"), ("scores", "score_tokens", "score_usd")
    cut: dict[str, Any] = {name: getattr(pool, name)[:, :n] for name in names}
    cut |= {name: {verifier: values[:, :n] for verifier, values in getattr(pool, name).items()} for name in by_verifier}
    return replace(pool, **cut, asked={verifier: min(n, asked) for verifier, asked in pool.asked.items()})


def judged(pool: Pool, verifier: str) -> Pool | None:
    """The pool with the draws that a verifier was asked about in every problem; None where it was not asked about all first ones."""
    n = pool.asked[verifier]
    return first_draws(pool, n) if n else None


def pools(study: Study, *, at_least: int = 2) -> list[Pool]:
    """The pools of a study, one for each data set and split, in which every problem has `at_least` draws.

    Draws of a larger model or under another thinking than their cell's, as second stages make them, are left out.

    A pool is cut to the first n draws that all its problems have. Strategies stop early by what they have seen, so how many draws a problem
    has is a choice by their content; the first n are not. Raises `UserError` when there is no such pool.
    """
    import pandas as pd

    cells = solved_cells(study).set_index("cell_id", drop=False)
    draws = study.sql(_DRAWS)
    draws = draws[draws["cell_id"].isin(cells.index)]
    # Draws of several splits have one request configuration, and so one name of a pool.
    draws["place"] = draws["pool"] + " " + draws["cell_id"].map(cells["dataset"] + " " + cells["split"]).astype(str)
    scored = study.sql(_SCORES)
    difficulty = dict(study.sql("SELECT problem_id, difficulty FROM problems").itertuples(index=False, name=None))
    scored = scored.merge(draws[["cell_id", "problem_id", "position", "place", "draw"]], on=["cell_id", "problem_id", "position"])
    solved = study.sql("SELECT cell_id, problem_id FROM solutions")
    found = []
    for place, frame in draws.groupby("place", sort=False):
        expected = set(solved.loc[solved["cell_id"].isin(set(frame["cell_id"])), "problem_id"])
        one = _pool(frame, scored[scored["place"] == place], cells, difficulty, at_least, expected)
        found += [] if one is None else [one]
    if not found:
        raise UserError(
            f"{study.path}: no pool holds {at_least} draws of every problem, all with a label; sample more, for example "
            "strategy=self_consistency_8"
        )
    order = {cell_id: place for place, cell_id in enumerate(pd.Index(cells.index))}
    return sorted(found, key=lambda one: order[one.labels["cell_id"]])


def _pool(
    frame: pd.DataFrame, scored: pd.DataFrame, cells: pd.DataFrame, difficulty: Mapping[str, Any], at_least: int, expected: set[str]
) -> Pool | None:
    first = cells.loc[next(cell_id for cell_id in cells.index if cell_id in set(frame["cell_id"]))]
    once = frame.drop_duplicates(["problem_id", "draw"]).sort_values(["problem_id", "draw"])
    counts = once.groupby("problem_id")["draw"].apply(lambda held: _unbroken(held.to_numpy()))
    n = int(counts.min())
    if n < at_least or once["correct"].isna().any():  # an imported answer without a label is not wrong but unknown
        return None
    once = once[once["draw"] < n]
    problems = tuple(sorted(set(once["problem_id"])))
    wide = {
        name: once.pivot(index="problem_id", columns="draw", values=name).sort_index()
        for name in ("answer_class", "correct", "output_tokens", "usd", "latency_s")
    }
    numbers = np.stack([_numbered(row) for row in wide["answer_class"].to_numpy(dtype=object)])
    scores: dict[str, dict[str, Floats]] = {"score": {}, "score_tokens": {}, "score_usd": {}}
    asked: dict[str, int] = {}
    for verifier, given in scored[scored["draw"] < n].drop_duplicates(["problem_id", "draw", "verifier"]).groupby("verifier"):
        there = given.assign(asked=1.0).pivot(index="problem_id", columns="draw", values="asked")
        known = there.reindex(index=list(problems), columns=range(n)).notna().to_numpy() | (numbers < 0)
        asked[str(verifier)] = int(np.logical_and.accumulate(known.all(axis=0)).sum())
        for name, by_verifier in scores.items():
            table = given.pivot(index="problem_id", columns="draw", values=name).reindex(index=list(problems), columns=range(n))
            values = table.to_numpy(dtype=np.float64)
            by_verifier[str(verifier)] = values if name == "score" else np.where(np.isnan(values) & (numbers < 0), 0.0, values)
    kept = [name for name in LABELS if name not in ("strategy", "strategy_label", "verifier", "variant")]
    return Pool(
        labels={name: first[name] for name in kept if name in first},
        problems=problems,
        difficulty=tuple(difficulty.get(problem) for problem in problems),
        classes=numbers,
        correct=wide["correct"].to_numpy(dtype=bool),
        tokens=wide["output_tokens"].to_numpy(dtype=np.float64),
        usd=wide["usd"].to_numpy(dtype=np.float64),
        latency=wide["latency_s"].to_numpy(dtype=np.float64),
        scores=scores["score"],
        score_tokens=scores["score_tokens"],
        score_usd=scores["score_usd"],
        asked=asked,
        left_out=len(expected - set(problems)),
    )


def _unbroken(draws: NDArray[np.int64]) -> int:
    """How many draws from the first on are there without a gap."""
    missing = np.flatnonzero(draws != np.arange(len(draws)))
    return int(missing[0]) if missing.size else len(draws)


def _numbered(row: NDArray[np.object_]) -> NDArray[np.int64]:
    """Classes of one problem as numbers, in order of appearance; −1 for no answer."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(one, len(seen)) if isinstance(one, str) else -1 for one in row], dtype=np.int64)
