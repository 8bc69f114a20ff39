"""The loader: moves journal lines into the DuckDB file, each exactly once.

The offset reached in every journal is kept in the transaction that inserts the rows, so a crash between the two cannot
happen. The file is open only while lines are loaded; while somebody else has it open the loader waits and says so.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from ttc_eval.errors import UserError
from ttc_eval.store.migrations import migrate, schema_name
from ttc_eval.store.paths import StudyPaths

# Rows of these tables replace earlier rows with the same key: the last state of a thing is the one that counts.
_KEYS = {
    "sweeps": ("sweep_id",),
    "cells": ("cell_id",),
    "problems": ("problem_id",),
    "grades": ("problem_id", "answer_class"),
    "solutions": ("cell_id", "problem_id"),
    "trace_scores": ("trace_id", "verifier", "what"),
    "imports": ("import_id",),
}
# Rows of these belong to one solution and are replaced with it.
_PARTS_OF_A_SOLUTION = ("uses", "candidates", "scores", "comparisons")

_Line = dict[str, list[dict[str, Any]]]

# What a row raises that does not fit its table.
_UNFIT = (pa.ArrowException, OverflowError, KeyError, TypeError, AttributeError)

_CHUNK_BYTES = 32 * 1024 * 1024
_ARROW = {
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "DOUBLE": pa.float64(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "BOOLEAN": pa.bool_(),
}


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What one call of `load` did: lines loaded, complete lines that were no JSON object, and bytes of torn ends."""

    lines: int = 0
    malformed: int = 0
    torn_bytes: int = 0


class DatabaseBusy(Exception):
    """The DuckDB file is open in another process, named in the text."""


def load(
    paths: StudyPaths,
    *,
    wait_seconds: float = 30.0,
    on_wait: Callable[[str], None] | None = None,
    target: Path | None = None,
) -> LoadReport:
    """Load what the journals of a study hold and the database does not yet.

    Args:
        wait_seconds: how long to wait for another process that has the file open.
        on_wait: told, once, who has it.
        target: another database to fill, from the beginning; the study's own by default.

    Raises:
        DatabaseBusy: the file stayed open elsewhere. The journals keep everything; call again.
    """
    database = target or paths.database
    if target is None and database.exists() and not _anything_new(paths):
        return LoadReport()
    # What is in the journals now will be in the database afterwards; what is written meanwhile may not be.
    reached = _state_of(paths)
    database.parent.mkdir(parents=True, exist_ok=True)
    connection = open_writable(database, wait_seconds, on_wait)
    try:
        migrate(connection, str(database))
        offsets = {row[0]: (row[1], row[2]) for row in connection.execute("SELECT * FROM journal_offsets").fetchall()}
        report = LoadReport()
        for journal in sorted(paths.journals.glob("*.jsonl"), key=_started):
            report = _load_journal(connection, journal, *offsets.get(journal.name, (0, 0)), report)
    finally:
        connection.close()
    if database == paths.database and paths.journals.exists():
        _marker(paths).write_text(reached + repr(database.stat().st_ino), "utf-8")
    return report


def _started(journal: Path) -> tuple[int, str]:
    """Journals in the order in which they were begun: the name ends with the time, in nanoseconds."""
    stamp = journal.stem.rpartition("-")[2]
    return (int(stamp) if stamp.isdigit() else 0, journal.name)


def open_writable(database: Path, wait_seconds: float, on_wait: Callable[[str], None] | None = None) -> duckdb.DuckDBPyConnection:
    """Open a database for writing, waiting for whoever has it. Raises `DatabaseBusy` after `wait_seconds`."""
    deadline, pause, told = time.monotonic() + wait_seconds, 0.01, False
    while True:
        try:
            return quiet(duckdb.connect(str(database)))
        except duckdb.Error as error:
            if not is_lock_conflict(error):
                raise UserError(f"{database} cannot be opened as a study: {str(error).splitlines()[0][:200]}") from None
            if time.monotonic() >= deadline:
                raise DatabaseBusy(f"{database} is open in {_holder(error)}") from None
            if on_wait is not None and not told and pause > 0.3:
                on_wait(f"{database} is open in {_holder(error)}; waiting until it is closed (nothing is lost)")
                told = True
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection, which from now on writes nothing to standard output: DuckDB draws a bar there when a query takes seconds."""
    (shown,) = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() or (False,)
    # In Jupyter it is off, and to touch the setting there at all needs ipywidgets.
    return connection.execute("SET enable_progress_bar = false") if shown else connection


def is_lock_conflict(error: Exception) -> bool:
    """Whether DuckDB refused a file because somebody else has it open."""
    text = str(error)
    return "Could not set lock" in text or "Conflicting lock" in text or "different configuration" in text


def _holder(error: Exception) -> str:
    found = re.search(r"held in (.+?) \(PID (\d+)\)", str(error))
    return f"process {found[2]} ({Path(found[1]).name})" if found else "another process"


def _state_of(paths: StudyPaths) -> str:
    """The sizes of the journals, and the schema that this version wants."""
    return repr(sorted((journal.name, journal.stat().st_size) for journal in paths.journals.glob("*.jsonl"))) + schema_name()


def _marker(paths: StudyPaths) -> Path:
    return paths.journals / "loaded"


def _anything_new(paths: StudyPaths) -> bool:
    # The marker is only a hint that saves readers from opening the file for writing; the offsets in the database decide.
    marker = _marker(paths)
    try:
        return marker.read_text("utf-8") != _state_of(paths) + repr(paths.database.stat().st_ino)
    except FileNotFoundError:
        return True


def _load_journal(connection: duckdb.DuckDBPyConnection, journal: Path, offset: int, malformed: int, report: LoadReport) -> LoadReport:
    lines_loaded, bad_lines, torn = report.lines, report.malformed, 0
    with journal.open("rb") as file:
        while True:
            file.seek(offset)
            chunk = file.read(_CHUNK_BYTES)
            if len(chunk) == _CHUNK_BYTES and b"\n" not in chunk:
                chunk += file.readline()
            end = chunk.rfind(b"\n") + 1
            if end == 0:
                torn = len(chunk)
                break
            parsed = [_parsed(line) for line in chunk[:end].split(b"\n")[:-1]]
            good = [line for line in parsed if line is not None]
            lines_loaded, bad_lines = lines_loaded + len(good), bad_lines + len(parsed) - len(good)
            malformed += len(parsed) - len(good)
            offset += end
            connection.execute("BEGIN")
            try:
                _insert(connection, _gathered(good))
            except _UNFIT:
                connection.execute("ROLLBACK")
                fitting = [line for line in good if _fits(connection, line)]
                bad_lines, malformed = bad_lines + len(good) - len(fitting), malformed + len(good) - len(fitting)
                connection.execute("BEGIN")
                _insert(connection, _gathered(fitting))
            connection.execute("DELETE FROM journal_offsets WHERE journal = ?", [journal.name])
            connection.execute("INSERT INTO journal_offsets VALUES (?, ?, ?)", [journal.name, offset, malformed])
            connection.execute("COMMIT")
    return LoadReport(lines_loaded, bad_lines, report.torn_bytes + torn)


def _parsed(line: bytes) -> _Line | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and all(isinstance(rows, list) for rows in value.values()) else None


def _gathered(lines: list[_Line]) -> _Line:
    """The rows of many lines by table. Of a problem solved twice (an error, then a retry) the last solution counts."""
    solved: dict[tuple[str, str], _Line] = {}
    rows: _Line = defaultdict(list)
    for line in lines:
        if "solutions" in line:
            solution = line["solutions"][0]
            solved[solution["cell_id"], solution["problem_id"]] = line
            continue
        for table, table_rows in line.items():
            rows[table].extend(table_rows)
    for line in solved.values():
        for table, table_rows in line.items():
            rows[table].extend(table_rows)
    return rows


def _fits(connection: duckdb.DuckDBPyConnection, rows: _Line) -> bool:
    """Whether every value fits its column. One that does not must not keep the rest of a study out of reach."""
    try:
        for table, table_rows in rows.items():
            _arrow(connection, table, table_rows)
    except _UNFIT:
        return False
    return True


def _insert(connection: duckdb.DuckDBPyConnection, rows: _Line) -> None:
    settled = {row["call_id"] for row in rows.get("calls", ())}
    if "dispatches" in rows:
        rows["dispatches"] = [row for row in rows["dispatches"] if row["call_id"] not in settled]
    if settled:
        _delete_matching(connection, "dispatches", ("call_id",), pa.table({"call_id": sorted(settled)}))
    solved = [{"cell_id": row["cell_id"], "problem_id": row["problem_id"]} for row in rows.get("solutions", ())]
    if solved:
        replaced = pa.Table.from_pylist(solved)
        for table in _PARTS_OF_A_SOLUTION:
            _delete_matching(connection, table, _KEYS["solutions"], replaced)
    for table, table_rows in rows.items():
        keys = _KEYS.get(table)
        if keys:
            table_rows = list({tuple(row[key] for key in keys): row for row in table_rows}.values())
        if not table_rows:
            continue
        batch = _arrow(connection, table, table_rows)
        if keys:
            _delete_matching(connection, table, keys, batch)
        connection.register("batch", batch)
        connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        connection.unregister("batch")


def _delete_matching(connection: duckdb.DuckDBPyConnection, table: str, keys: tuple[str, ...], batch: pa.Table) -> None:
    condition = " AND ".join(f"{table}.{key} = doomed.{key}" for key in keys)
    connection.register("doomed", batch)
    connection.execute(f"DELETE FROM {table} USING doomed WHERE {condition}")
    connection.unregister("doomed")


def _arrow(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> pa.Table:
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
    columns = connection.execute(query, [table]).fetchall()
    if not columns:
        raise KeyError(table)
    json_columns = [name for name, kind in columns if kind == "JSON"]
    encoded = [{**row, **{name: orjson.dumps(row[name]).decode() for name in json_columns if row.get(name) is not None}} for row in rows]
    return pa.Table.from_pylist(encoded, schema=pa.schema([pa.field(name, _ARROW[kind]) for name, kind in columns]))
