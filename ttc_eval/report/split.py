"""Which split a reader decides by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = "heldout"


def deciding(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells on held-out problems where a study has such cells beside others; else all of them."""
    splits = set(cells["split"])
    return cells[cells["split"] == HELD_OUT] if len(splits) > 1 and HELD_OUT in splits else cells
