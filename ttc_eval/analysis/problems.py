"""Problem by problem: which are solved by what, and how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttc_eval.analysis.frames import labels_of, solved_cells

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study


def heat_map(study: Study) -> pd.DataFrame:
    """One row per cell × problem.

    Columns after the labels: `problem_id`, `difficulty` (None: the data set has none), `correct` (1.0 or 0.0: the selected answer is
    right), `right_share` (of the candidates that are meant to be answers, those that are right; NaN without any), `outcome`.
    """
    cells = solved_cells(study)
    rows = study.sql(
        """SELECT cell_id, problem_id, difficulty, correct::DOUBLE AS correct,
                  CASE WHEN candidates > 0 THEN right_candidates / candidates END AS right_share, outcome
           FROM problem_outcomes ORDER BY problem_id"""
    )
    return labels_of(cells).merge(rows, on="cell_id")


def latency(study: Study) -> pd.DataFrame:
    """Seconds per problem of each cell, from recorded latencies.

    Columns after the labels: `p50_s`, `p95_s`, `mean_s` of the critical path (what a user waits, calls in flight side by side as the
    strategy keeps them), `work_s` (mean of all calls one after another), `speed_up` (work ÷ critical path), `n`. NaN where a latency is
    unknown.
    """
    cells = solved_cells(study)
    rows = study.sql(
        """SELECT cell_id, count(*) AS n,
                  CASE WHEN count(latency_s) = count(*) THEN quantile_cont(latency_s, 0.5) END AS p50_s,
                  CASE WHEN count(latency_s) = count(*) THEN quantile_cont(latency_s, 0.95) END AS p95_s,
                  CASE WHEN count(latency_s) = count(*) THEN avg(latency_s) END AS mean_s,
                  CASE WHEN count(work_s) = count(*) THEN avg(work_s) END AS work_s,
                  CASE WHEN count(latency_s) = count(*) AND sum(latency_s) > 0 THEN sum(work_s) / sum(latency_s) END AS speed_up
           FROM solutions GROUP BY cell_id"""
    )
    return labels_of(cells).merge(rows, on="cell_id")
