"""What a study already holds of the cells of a plan: solutions, stored draws, and the sweep that is to be resumed."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb
import orjson

from ttc_eval.records import Amounts
from ttc_eval.store import StudyPaths, reading
from ttc_eval.sweep.prepare import Plan


@dataclass(frozen=True, slots=True)
class History:
    """The past of a plan.

    Attributes:
        sweep_id: of this invocation; that of the unfinished earlier one when the same sweep goes on.
        solved: per cell, the problems that need no more work; errors: how many of them ended in an error.
        charged: per cell, what its stored solutions were charged; billed: what the resumed sweep has been billed.
        cells: stored rows of cells, which keep the sweep and the place that they were first run in.
        classes: per problem, the names of answer classes that are stored.
    """

    paths: StudyPaths
    sweep_id: str
    started_at: float = field(default_factory=time.time)
    solved: Mapping[str, frozenset[str]] = field(default_factory=lambda: defaultdict(frozenset))
    errors: Mapping[str, int] = field(default_factory=lambda: defaultdict(int))
    charged: Mapping[str, Amounts] = field(default_factory=lambda: defaultdict(Amounts))
    billed: Amounts = field(default_factory=Amounts)
    cells: Mapping[str, tuple[str, int, float]] = field(default_factory=dict)
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def calls(self, pools: Iterable[str]) -> list[dict[str, Any]]:
        """The stored calls of some pools, in the order of their attempts."""
        if not self.paths.database.exists():
            return []
        query = "SELECT * EXCLUDE (request, usage_raw) FROM calls WHERE list_contains(?, pool) ORDER BY started_at, attempt"
        with reading(self.paths.database) as connection:
            found = connection.execute(query, [sorted(set(pools))])
            names = [column[0] for column in found.description or ()]
            stored = [dict(zip(names, values, strict=True)) for values in found.fetchall()]
        for row in stored:
            for name in ("blocks", "token_logprobs", "top_logprobs"):
                row[name] = None if row[name] is None else orjson.loads(row[name])
        return stored


_UNFINISHED = """
    SELECT sweep_id, started_at FROM sweeps WHERE limits->>'$.sweep_hash' = ? AND status IN ('running', 'stopped')
    ORDER BY started_at DESC LIMIT 1"""
_SOLVED = "SELECT cell_id, problem_id FROM solutions WHERE list_contains(?, cell_id) AND {kept}"
_ERRORS = "SELECT cell_id, count(*) FROM solutions WHERE list_contains(?, cell_id) AND stop_reason = 'error' AND {kept} GROUP BY cell_id"
_CHARGED = """
    SELECT cell_id, sum(charged_calls), coalesce(sum(charged_input_tokens), 0), coalesce(sum(charged_output_tokens), 0),
           coalesce(sum(charged_usd), 0), coalesce(sum(latency_s), 0), coalesce(sum(charged_verifier_calls), 0),
           coalesce(sum(charged_search_nodes), 0)
    FROM solutions WHERE list_contains(?, cell_id) AND {kept} GROUP BY cell_id"""
_CLASSES = "SELECT problem_id, answer_class FROM grades WHERE list_contains(?, problem_id) ORDER BY problem_id, answer_class"
_CELLS = "SELECT cell_id, sweep_id, ordinal, started_at FROM cells WHERE list_contains(?, cell_id)"
# With the reservations of calls whose outcome was lost with a killed process: they may have been billed in full.
_BILLED = """
    SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(usd), 0) FROM (
        SELECT coalesce(input_tokens, reserved_input_tokens) AS input_tokens,
               coalesce(output_tokens, reserved_output_tokens) AS output_tokens,
               coalesce(cost_usd, reserved_usd) AS usd
        FROM calls WHERE sweep_id = $1
        UNION ALL SELECT reserved_input_tokens, reserved_output_tokens, reserved_usd FROM dispatches WHERE sweep_id = $1)"""


def fresh_id() -> str:
    """A new sweep's id: when it began, and something random."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"


def unfinished(connection: duckdb.DuckDBPyConnection, sweep_hash: str) -> tuple[str, float] | None:
    """Id and start (Unix seconds) of the last run of the same sweep that did not come to its end."""
    found = connection.execute(_UNFINISHED, [sweep_hash]).fetchone()
    return None if found is None else (str(found[0]), float(found[1]))


def billed(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> Amounts:
    """What a sweep has been billed so far, lost calls included."""
    return _amounts(connection.execute(_BILLED, [sweep_id]).fetchone() or ())


def read_history(plan: Plan) -> History:
    """What the study's database holds of the plan's cells."""
    fresh = fresh_id()
    if not plan.paths.database.exists():
        return History(plan.paths, fresh)
    ids = [cell.cell_id for cell in plan.cells]
    problem_ids = sorted({problem.problem_id for cell in plan.cells for problem in cell.problems})
    with reading(plan.paths.database) as connection:
        resumed = unfinished(connection, plan.sweep_hash)
        sweep_id, started_at = resumed or (fresh, time.time())
        # An error is final within its sweep; a later sweep tries such a problem again.
        kept = "true" if resumed else "stop_reason <> 'error'"
        solved: defaultdict[str, set[str]] = defaultdict(set)
        for cell_id, problem_id in _rows(connection, _SOLVED.format(kept=kept), ids):
            solved[cell_id].add(problem_id)
        classes: defaultdict[str, list[str]] = defaultdict(list)
        for problem_id, answer_class in _rows(connection, _CLASSES, problem_ids):
            classes[problem_id].append(answer_class)
        return History(
            paths=plan.paths,
            sweep_id=sweep_id,
            started_at=started_at,
            solved=defaultdict(frozenset, {cell_id: frozenset(found) for cell_id, found in solved.items()}),
            errors=defaultdict(int, dict(_rows(connection, _ERRORS.format(kept=kept), ids))),
            charged=defaultdict(Amounts, {row[0]: _amounts(row[1:]) for row in _rows(connection, _CHARGED.format(kept=kept), ids)}),
            billed=billed(connection, sweep_id),
            cells={row[0]: (row[1], row[2], row[3]) for row in _rows(connection, _CELLS, ids)},
            classes={problem_id: tuple(found) for problem_id, found in classes.items()},
        )


def _amounts(row: tuple[Any, ...]) -> Amounts:
    calls, input_tokens, output_tokens, usd, *rest = row
    seconds, verifier_calls, search_nodes = rest or (0.0, 0, 0)
    return Amounts(
        int(calls), int(input_tokens), int(output_tokens), Decimal(str(usd)), float(seconds), int(verifier_calls), int(search_nodes)
    )


def _rows(connection: duckdb.DuckDBPyConnection, query: str, values: list[str]) -> list[tuple[Any, ...]]:
    return connection.execute(query, [values]).fetchall()
