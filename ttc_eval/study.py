"""A study in Python: tidy pandas frames of what a sweep stored. See docs/study.md for columns and units."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttc_eval.errors import UserError
from ttc_eval.store import StudyPaths, load, reading
from ttc_eval.store.loader import DatabaseBusy
from ttc_eval.variants import with_variants

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Study:
    """Reads one study. It holds no lock: every method opens the file, reads and closes it, so a sweep may be writing."""

    path: Path

    def sql(self, query: str, parameters: list[Any] | None = None) -> pd.DataFrame:
        """The rows of a SQL query over the tables and views of the study (`cell_metrics`, `problem_outcomes`, …)."""
        with reading(self.path) as connection:
            return connection.execute(query, parameters or []).df()

    def cells(self) -> pd.DataFrame:
        """One row per cell: its settings and metrics, the view `cell_metrics`. Shares are in [0, 1], costs in USD.

        `variant` tells cells apart that differ in a setting without a column of its own.
        """
        return with_variants(self.sql("SELECT m.*, c.config FROM cell_metrics m JOIN cells c USING (cell_id)"))

    def problems(self) -> pd.DataFrame:
        """One row per problem: prompt, reference, difficulty, split."""
        return self.sql("SELECT * FROM problems ORDER BY problem_id")

    def solutions(self) -> pd.DataFrame:
        """One row per cell and problem: what was selected, why the strategy stopped, what it was charged, what came of it."""
        return self.sql(
            """SELECT s.*, o.outcome, o.correct, o.candidate_right FROM solutions s
               JOIN problem_outcomes o USING (cell_id, problem_id) ORDER BY cell_id, problem_id"""
        )

    def candidates(self) -> pd.DataFrame:
        """One row per candidate, with its grade: `correct` is False for one that is cut or has no answer, NULL without a label."""
        return self.sql(
            """SELECT c.*, CASE WHEN c.complete AND c.answer_class IS NOT NULL THEN g.correct ELSE false END AS correct FROM candidates c
               LEFT JOIN grades g USING (problem_id, answer_class) ORDER BY cell_id, problem_id, position"""
        )

    def calls(self) -> pd.DataFrame:
        """One row per dispatched call: request, response, tokens, seconds and USD. Unknown is NULL."""
        return self.sql("SELECT * FROM calls ORDER BY started_at")

    def scores(self) -> pd.DataFrame:
        """One row per candidate and verifier: score in [0, 1] or NULL, and whether the candidate was right."""
        return self.sql("SELECT * FROM verifier_scores ORDER BY cell_id, problem_id, position")


def open_study(path: str | Path) -> Study:
    """The study in a DuckDB file, caught up with its journals. Raises `UserError` when there is none."""
    paths = StudyPaths(Path(path))
    if not paths.database.exists() and not paths.journals.is_dir():
        raise UserError(f"{path}: there is no such study; run a sweep first, for example: make sweep")
    # While a sweep is loading, what it has not loaded yet is missing here, as it would have been a moment earlier.
    with contextlib.suppress(DatabaseBusy):
        load(paths, wait_seconds=1.0)
    return Study(paths.database)


def newest_study(results_dir: str | Path = "results") -> Path:
    """The DuckDB file in `results_dir` that changed last. Raises `UserError` when there is none."""
    found = sorted(Path(results_dir).glob("*.duckdb"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UserError(f"{results_dir}: there is no study yet; run a sweep first: make sweep")
    return found[-1]
