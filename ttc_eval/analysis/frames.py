"""What all analyses share: the labels of cells, and values of problems as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ttc_eval.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

Floats = NDArray[np.float64]

LABELS = (
    "cell_id",
    "model",
    "thinking_label",
    "thinking_mode",
    "thinking_budget",
    "strategy",
    "strategy_label",
    "verifier",
    "dataset",
    "split",
    "seed",
    "variant",
    "simulated",
)


def solved_cells(study: Study) -> pd.DataFrame:
    """The cells with at least one solution, as `Study.cells` gives them. Raises `UserError` when there is none."""
    cells = study.cells()
    cells = cells[cells["n_problems"] > 0].reset_index(drop=True)
    if cells.empty:
        raise UserError(f"{study.path}: no problem has been solved yet; run a sweep to its end first")
    return cells


def labels_of(cells: pd.DataFrame) -> pd.DataFrame:
    """The label columns of cells."""
    return cells[[name for name in LABELS if name in cells]]


def described(row: pd.Series) -> str:
    """A cell in words, for messages: its model, thinking and strategy."""
    return " · ".join(str(row[name]) for name in ("model", "thinking_label", "strategy_label"))


def problem_values(study: Study, cell_ids: Sequence[str], columns: Sequence[str]) -> dict[str, Floats]:
    """Values of `problem_outcomes` as matrices of shape (problems, cells), on the problems that all the cells have solved.

    NaN where a value is unknown. Booleans become 0 and 1. The rows are the problems in the order of their ids.
    Raises `UserError` when the cells have no problem in common.
    """
    import pandas as pd

    wanted = ", ".join(columns)
    frame = study.sql(f"SELECT cell_id, problem_id, {wanted} FROM problem_outcomes WHERE list_contains(?, cell_id)", [list(cell_ids)])
    found: dict[str, Floats] = {}
    for column in columns:
        wide = frame.assign(value=pd.to_numeric(frame[column], errors="coerce")).pivot(
            index="problem_id", columns="cell_id", values="value"
        )
        here = frame.assign(one=1).pivot(index="problem_id", columns="cell_id", values="one")
        shared = here.reindex(columns=list(cell_ids)).notna().all(axis=1)
        if not shared.any():
            raise UserError("these cells have no problem in common; compare cells of one data set and split")
        found[column] = wide.reindex(columns=list(cell_ids))[shared].sort_index().to_numpy(dtype=np.float64)
    return found
