"""The schema's history: an append-only list of named steps. The names applied are kept in the database."""

from __future__ import annotations

import hashlib
import time
from functools import cache
from importlib.resources import files

import duckdb

from ttc_eval.errors import UserError


def _sql(name: str) -> str:
    return (files("ttc_eval.store") / name).read_text("utf-8")


def first_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """The tables of docs/design.md 4."""
    connection.execute(_sql("schema.sql"))


def trace_scores(connection: duckdb.DuckDBPyConnection) -> None:
    """Scores of stored traces, given after the fact."""
    connection.execute(_sql("trace_scores.sql"))


def search_and_comparisons(connection: duckdb.DuckDBPyConnection) -> None:
    """Nodes of a search, comparisons in both orders, larger models, and samples whose usage or time nobody recorded."""
    connection.execute(_sql("search_and_comparisons.sql"))


def imports(connection: duckdb.DuckDBPyConnection) -> None:
    """Where imported samples came from, and which sweeps were imports or replays."""
    connection.execute(_sql("imports.sql"))


MIGRATIONS = (first_schema, trace_scores, search_and_comparisons, imports)


def schema_name() -> str:
    """The schema and the views that this version wants, in one word."""
    return f"{MIGRATIONS[-1].__name__}/{_views_name()}"


@cache
def _views_name() -> str:
    return f"views-{hashlib.blake2b(_sql('views.sql').encode(), digest_size=6).hexdigest()}"


def migrate(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    """Bring an open database up to this version's schema and views.

    Raises `UserError` when the file was written by a newer version, or is no study.
    """
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (name VARCHAR NOT NULL, applied_at DOUBLE NOT NULL)")
    applied = {row[0] for row in connection.execute("SELECT name FROM migrations").fetchall()}
    known = {step.__name__ for step in MIGRATIONS}
    newer = {name for name in applied if not name.startswith("views-")} - known
    if newer:
        raise UserError(f"{path} was written by a newer version of ttc_eval ({', '.join(sorted(newer))}); upgrade ttc_eval")
    views, views_name = _sql("views.sql"), _views_name()
    pending = [step for step in MIGRATIONS if step.__name__ not in applied]
    if not pending and views_name in applied:
        return
    connection.execute("BEGIN")
    for step in pending:
        step(connection)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", [step.__name__, time.time()])
    connection.execute(views)
    connection.execute("DELETE FROM migrations WHERE name LIKE 'views-%'")
    connection.execute("INSERT INTO migrations VALUES (?, ?)", [views_name, time.time()])
    connection.execute("COMMIT")
