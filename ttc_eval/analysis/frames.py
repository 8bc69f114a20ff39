"""What all analyses share: the labels of cells, and values of problems as matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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


def rows_or_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A frame of the rows; without any, an empty one that still has its columns."""
    import pandas as pd

    return pd.DataFrame(list(rows)) if rows else pd.DataFrame(columns=[*LABELS, *columns])


def policies_of(cells: pd.DataFrame) -> list[list[int]]:
    """The rows of each policy: cells that differ in their seed alone are one, since a seed is nothing that one could choose."""
    kept = [name for name in LABELS if name in cells and name not in ("cell_id", "seed")]
    keys = [str(row) for row in cells[kept].to_dict("records")]
    return [[place for place, other in enumerate(keys) if other == key] for key in dict.fromkeys(keys)]


def merged(values: Floats, policies: Sequence[Sequence[int]]) -> Floats:
    """Values of shape (problems, cells) as (problems, policies): the mean over the cells of each."""
    return np.stack([values[:, list(places)].mean(axis=1) for places in policies], axis=1)


def described(row: pd.Series) -> str:
    """A cell in words, for messages: its model, thinking and strategy."""
    return " · ".join(str(row[name]) for name in ("model", "thinking_label", "strategy_label"))


def one_data_set(cells: pd.DataFrame, dataset: str | None, split: str | None) -> pd.DataFrame:
    """The cells of one data set and split. Raises `UserError` where there are several and none is named, or the named one is not there."""
    for name, wanted in (("dataset", dataset), ("split", split)):
        known = sorted(set(cells[name]))
        if wanted is None and len(known) > 1:
            raise UserError(f"{name}: the study has several; name one of: {', '.join(known)}")
        if wanted is not None and wanted not in known:
            raise UserError(f"{name}={wanted}: the study has: {', '.join(known)}")
        cells = cells if wanted is None else cells[cells[name] == wanted]
    return cells.reset_index(drop=True)


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
        if column == "correct" and wide.reindex(columns=list(cell_ids))[shared].isna().to_numpy().any():
            raise UserError("some answers of these cells have no label, so what was right is unknown")
        found[column] = wide.reindex(columns=list(cell_ids))[shared].sort_index().to_numpy(dtype=np.float64)
    return found
