"""From the frame of cells to lines: one for each strategy, with a point for each level of thinking.

A line is a strategy. Where the frame holds several models, datasets or splits, each has its own lines: they are never mixed.
Cells that differ only in their seed are one point, the mean over the seeds; the ends of the interval are averaged
too, because seeds repeat the same problems and do not narrow what the problems leave open.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ttc_eval.plots.axes import share_limits
from ttc_eval.plots.style import COLOURS, DASHES, MARKERS, compact
from ttc_eval.plots.tidy import names, problems_in, simulated_of, where

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


_REQUIRED = ("strategy_label", "thinking_mode", "thinking_budget", "success")


_NUMBERS = (
    "thinking_budget",
    "n_problems",
    "success",
    "success_low",
    "success_high",
    "candidate_success",
    "candidate_success_low",
    "candidate_success_high",
    "mean_output_tokens",
    "mean_output_tokens_low",
    "mean_output_tokens_high",
    "usd_per_problem",
    "bound",
)

_ENDS = [*(f"{name}{end}" for name in ("success", "candidate_success") for end in ("", "_low", "_high")), "bound"]


@dataclass(frozen=True, slots=True)
class _Level:
    """A place on the thinking axis. Levels of one `kind` are joined by a line: `off` is a budget of nothing."""

    kind: str
    order: float
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """One line: `points` holds one row per level, in the order of the axis, with the columns `_NUMBERS` and `level`."""

    label: str
    colour: str
    marker: str
    dash: Any
    points: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Data:
    """What every panel draws from."""

    series: tuple[Series, ...]
    levels: tuple[_Level, ...]
    facts: tuple[str, ...]
    simulated: str
    priced: bool
    limits: tuple[float, float]
    bounded: bool


def prepare(cells: pd.DataFrame, bounds: pd.DataFrame | None = None) -> Data:
    """What panels draw from `cell_metrics` rows, and from the two readings of truncation where they are given.

    Raises ValueError when a needed column is missing or no row has a success.
    """
    missing = [column for column in _REQUIRED if column not in cells.columns]
    if missing:
        raise ValueError(f"the frame lacks {', '.join(missing)}; pass rows of cell_metrics")
    frame = cells.reset_index(drop=True).copy()
    frame["usd_per_problem"] = _numbers(frame, "charged_usd") / _numbers(frame, "n_problems")
    frame["bound"] = np.nan if bounds is None else frame["cell_id"].map(_without_truncated(bounds))
    for column in _NUMBERS:
        frame[column] = _numbers(frame, column)
    shown = frame[frame["success"].notna()].copy()
    if shown.empty:
        raise ValueError("no cell has a success to plot" if len(frame) else "there are no cells to plot")

    levels = [_level(row) for row in shown.to_dict("records")]
    axis = tuple(sorted(set(levels), key=lambda level: (level.kind != "tokens", level.kind, level.order, level.label)))
    shown["level"] = [axis.index(level) for level in levels]
    shown["series"] = _series_labels(shown)
    series = []
    for i, label in enumerate(sorted(set(shown["series"]), key=natural)):
        points = shown[shown["series"] == label].groupby("level")[list(_NUMBERS)].mean().reset_index()
        series.append(Series(label, COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)], points))

    prices = shown["usd_per_problem"]
    return Data(
        series=tuple(series),
        levels=axis,
        facts=_facts(shown, len(frame) - len(shown), averaged=len(shown) > sum(len(one.points) for one in series)),
        simulated=simulated_of(shown),
        priced=bool((prices > 0).all()),
        limits=share_limits(shown[_ENDS].to_numpy(dtype=float)),
        bounded=bounds is not None,
    )


def _without_truncated(bounds: pd.DataFrame) -> dict[str, float]:
    found = bounds[bounds["reading"] == "truncated_excluded"]
    return dict(zip(found["cell_id"], found["success"].astype(float), strict=True))


def _numbers(frame: pd.DataFrame, column: str) -> pd.Series[float]:
    """A column as floats, NaN for every kind of NULL and for a column that is not there."""
    if column not in frame.columns:
        return pd.Series(np.nan, index=frame.index, dtype=float)
    values = [math.nan if pd.isna(value) else float(value) for value in frame[column].tolist()]
    return pd.Series(values, index=frame.index, dtype=float)


def _level(row: dict[Any, Any]) -> _Level:
    mode = "unknown" if pd.isna(row["thinking_mode"]) else str(row["thinking_mode"])
    budget, label = row["thinking_budget"], row.get("thinking_label")
    if not math.isnan(budget):
        return _Level("tokens", budget, compact(budget))
    if mode == "off":
        return _Level("tokens", -1, "off")
    name = mode if label is None or pd.isna(label) else str(label)
    effort = name.split()[-1]
    return _Level(mode, _EFFORTS.index(effort) if effort in _EFFORTS else len(_EFFORTS), name)


def _series_labels(frame: pd.DataFrame) -> list[str]:
    """The strategy, and whatever else tells apart the cells of one strategy at one level."""
    # A variant tells cells apart by its ends; cutting its middle out would make two of them look alike.
    width = 60 if "variant" in frame.columns and frame["variant"].notna().any() else 40
    return names(frame, among=("strategy_label", "model", "dataset", "split", "verifier", "variant"), width=width)


def _facts(shown: pd.DataFrame, dropped: int, averaged: bool) -> tuple[str, ...]:
    facts = [problems_in(shown, "n_problems"), *where(shown)]
    if averaged:
        seeds = shown["seed"].nunique() if "seed" in shown.columns else 1
        facts.append(f"points with several cells are their mean ({seeds} {'seed' if seeds == 1 else 'seeds'})")
    if dropped:
        facts.append(f"{dropped} {'cell' if dropped == 1 else 'cells'} without a result not shown")
    return tuple(fact for fact in facts if fact)


def natural(label: str) -> tuple[bool, list[tuple[int, int, str]]]:
    """`single` first, and `@4` before `@16`."""
    parts = re.split(r"(\d+)", label)
    return not label.startswith("single"), [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
