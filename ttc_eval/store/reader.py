"""Reading a study: the file is opened for one query and closed again, so that a sweep can go on writing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ttc_eval.errors import UserError
from ttc_eval.store.loader import is_lock_conflict, quiet


@contextmanager
def reading(database: Path, wait_seconds: float = 60.0) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection that is closed on leaving. Waits while a loader has the file.

    Raises `UserError` when there is no such file, or when it stays open for writing elsewhere.
    """
    if not database.exists():
        raise UserError(f"{database}: there is no such study; run a sweep first, or check results_dir and study")
    connection = _open(database, wait_seconds)
    try:
        yield connection
    finally:
        connection.close()


def _open(database: Path, wait_seconds: float) -> duckdb.DuckDBPyConnection:
    deadline, pause = time.monotonic() + wait_seconds, 0.01
    while True:
        try:
            return quiet(duckdb.connect(str(database), read_only=True))
        except duckdb.Error as error:
            if not is_lock_conflict(error):
                raise UserError(f"{database} cannot be read as a study: {str(error).splitlines()[0][:200]}") from None
            if time.monotonic() >= deadline:
                raise UserError(f"{database} is open for writing in another process; close it there and try again") from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
