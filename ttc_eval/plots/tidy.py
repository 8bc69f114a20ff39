"""What frames say of themselves: names for lines and rows, and the parts of a caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ttc_eval.plots.style import plain_text

# What tells cells apart, in the order in which a name says it.
_TELLING = ("strategy_label", "thinking_label", "model", "dataset", "split", "verifier", "variant", "seed")


def checked(frame: pd.DataFrame, needed: Sequence[str], made_by: str) -> pd.DataFrame:
    """The frame, if it holds rows and the needed columns; else ValueError, which names the function that makes such a frame."""
    missing = [column for column in needed if column not in frame.columns]
    if missing and len(frame.columns):
        raise ValueError(f"the frame lacks {', '.join(missing)}; pass what {made_by} returns")
    if frame.empty:
        raise ValueError(f"{made_by} found nothing to plot")
    return frame.reset_index(drop=True)


def names(frame: pd.DataFrame, always: Sequence[str] = ("strategy_label",), among: Sequence[str] = _TELLING, width: int = 40) -> list[str]:
    """A name for each row: the columns `always`, and of those `among` what tells rows apart that would have the same name without it."""
    rows: list[dict[Any, Any]] = frame[[column for column in among if column in frame.columns]].to_dict("records")
    parts = [{column: row[column] for column in among if column in always and column in row} for row in rows]
    for column in among:
        if column in always or column not in frame.columns:
            continue
        seen: dict[str, set[str]] = {}
        for part, row in zip(parts, rows, strict=True):
            seen.setdefault(str(part), set()).add(str(row[column]))
        if any(len(values) > 1 for values in seen.values()):
            parts = [part | {column: row[column]} for part, row in zip(parts, rows, strict=True)]
    order = [column for column in among if column in frame.columns]
    return [plain_text(" · ".join(_word(c, part[c]) for c in order if c in part and not _null(part[c])), width) for part in parts]


def _word(column: str, value: Any) -> str:
    return f"seed {value}" if column == "seed" else str(value)


def _null(value: Any) -> bool:
    return value is None or bool(pd.isna(value))


def problems_in(frame: pd.DataFrame, column: str = "n") -> str:
    """The caption's n: one number, or the smallest and the largest."""
    counts = sorted({int(n) for n in frame[column].dropna()}) if column in frame.columns else []
    if not counts:
        return "n unknown"
    return f"n = {counts[0]:,}" + (f" to {counts[-1]:,}" if len(counts) > 1 else "") + " problems"


def where(frame: pd.DataFrame) -> list[str]:
    """The caption's data set, split and model, each with its name before it."""
    return [fact for fact in (_listed(frame, column) for column in ("dataset", "split", "model")) if fact]


def method_of(frame: pd.DataFrame) -> str:
    """How the intervals were made, where all rows say the same in their first clause."""
    found = {str(value) for value in frame["method"].dropna()} if "method" in frame.columns else set()
    return plain_text(found.pop(), 120) if len(found) == 1 else ""


def _listed(frame: pd.DataFrame, column: str) -> str:
    found = sorted({plain_text(value) for value in frame[column].dropna()}) if column in frame.columns else []
    if not found:
        return ""
    return f"{column} {', '.join(found[:4])}{f' and {len(found) - 4} more' if len(found) > 4 else ''}"


def simulated_of(frame: pd.DataFrame) -> str:
    """The watermark: `simulated` when every row is, `partly simulated` when some are, else nothing."""
    flags = [bool(flag) for flag in frame["simulated"] if not pd.isna(flag)] if "simulated" in frame.columns else []
    if not any(flags):
        return ""
    return "simulated" if all(flags) and len(flags) == len(frame) else "partly simulated"
