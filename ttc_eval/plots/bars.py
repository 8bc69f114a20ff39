"""Figures with a row for each cell: outcomes, cost by part, latency, problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from ttc_eval.plots.axes import cost_axis, percent, titles
from ttc_eval.plots.layout import finished, panels, styled
from ttc_eval.plots.style import LABEL_SIZE, cost_text
from ttc_eval.plots.tidy import checked, names, problems_in, simulated_of, where

_ROW = ("strategy_label", "thinking_label")
_MOST = 40

# Fill and hatch: apart in greyscale by lightness, neighbours also by hatch.
_OUTCOMES: dict[str, tuple[str, str]] = {
    "right": ("#0072B2", ""),
    "wrong": ("#E69F00", ""),
    "unresolved": ("#f7f7f7", "////"),
    "truncated": ("#bbbbbb", ""),
    "unparsed": ("#f7f7f7", "...."),
    "refused": ("#777777", ""),
    "error": ("#111111", ""),
    "ungraded": ("#f7f7f7", "xxxx"),
}
_PARTS: dict[str, tuple[str, str]] = {
    "prompt": ("#d9e6f2", ""),
    "cached": ("#d9e6f2", "////"),
    "cache_write": ("#d9e6f2", "...."),
    "reasoning": ("#0072B2", ""),
    "answer": ("#56B4E9", ""),
    "output": ("#56B4E9", "////"),
    "reserved": ("#f7f7f7", "xxxx"),
    "verifier": ("#E69F00", "...."),
    "pruned": ("#bbbbbb", ""),
    "retried": ("#777777", "////"),
    "failed": ("#444444", ""),
    "overshoot": ("#f7f7f7", "\\\\\\\\"),
}


@styled
def outcome_breakdown(frame: pd.DataFrame) -> Figure:
    """What came of every problem, a bar for each cell, as `analysis.outcomes.breakdown` returns it; the parts of a bar sum to n.

    Counts stand in the parts that are wide enough. Raises ValueError for a frame that lacks a column, holds no row, or an outcome that
    is not one of breakdown's.
    """
    data = checked(frame, ("cell_id", "outcome", "share", "problems"), "analysis.outcomes.breakdown")
    figure, ax, rows = _rows(data)
    _stack(ax, rows, "outcome", "share", _OUTCOMES, counts="problems")
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(FuncFormatter(percent))
    ax.set_xlabel("share of all problems")
    _key(figure, data["outcome"][data["problems"] > 0], _OUTCOMES)
    titles(ax, "Outcomes", "numbers: problems")
    return finished(figure, [problems_in(data), *where(data), _left_out(data)], simulated=simulated_of(data))


@styled
def cost_decomposition(
    frame: pd.DataFrame, *, unit: Literal["tokens", "usd"] = "tokens", basis: Literal["charged", "billed"] = "charged"
) -> Figure:
    """What was paid for what, per problem: a bar for each cell, as `analysis.costs.decomposition` returns it.

    Args:
        unit: tokens (input and output), or USD; cells whose value is unknown are left out and counted in the caption.
        basis: `charged`, as if the strategy ran alone, or `billed`, what was paid, overshoot included.

    Raises ValueError for a frame that lacks a column, or holds no row of that basis with a known value.
    """
    column = f"{unit}_per_problem"
    data = checked(frame, ("cell_id", "basis", "part", column), "analysis.costs.decomposition")
    data = data[data["basis"] == basis]
    unknown = set(data.loc[data[column].isna(), "cell_id"])
    left = f"{len(unknown)} {'cell' if len(unknown) == 1 else 'cells'} of unknown cost not shown" if unknown else ""
    data = checked(data[~data["cell_id"].isin(unknown)], (), "analysis.costs.decomposition")
    figure, ax, rows = _rows(data)
    totals = _stack(ax, rows, "part", column, _PARTS)
    for place, total in enumerate(totals):
        ax.text(total, place, f" {cost_text(total if unit == 'usd' else round(total))}", va="center", fontsize=LABEL_SIZE)
    ax.set_xlim(0, max(totals) * 1.14 or 1)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: cost_text(value)))
    ax.set_xlabel(f"{'USD' if unit == 'usd' else 'tokens, input and output,'} per problem, {basis}")
    _key(figure, data["part"][data[column] > 0], _PARTS)
    titles(ax, "Cost by part", "numbers: the whole")
    return finished(figure, [*where(data), left, _left_out(data)], simulated=simulated_of(data))


@styled
def latency(frame: pd.DataFrame) -> Figure:
    """Seconds per problem, as `analysis.problems.latency` returns them: median and 95th percentile of the critical path, and all work.

    Cells whose latencies are not all known are left out and counted in the caption. Raises ValueError as the others do.
    """
    data = checked(frame, ("cell_id", "p50_s", "p95_s", "work_s"), "analysis.problems.latency")
    known = checked(data[data["p50_s"].notna()], (), "analysis.problems.latency")
    figure, ax, rows = _rows(known)
    for place, (_, row) in enumerate(rows):
        one = row.iloc[0]
        ax.plot([one["p50_s"], one["p95_s"]], [place, place], color="#0072B2", linewidth=2.2, solid_capstyle="butt", zorder=2)
        ax.plot(one["p50_s"], place, "o", color="#0072B2", zorder=3)
        ax.plot(one["p95_s"], place, "|", color="#0072B2", markersize=9, markeredgewidth=1.8, zorder=3)
        ax.plot(one["work_s"], place, "D", markerfacecolor="white", markeredgecolor="#333333", markersize=4, zorder=2.5)
    cost_axis(ax, known[["p50_s", "p95_s", "work_s"]].to_numpy(dtype=float).ravel(), "seconds per problem")
    titles(ax, "Latency", "dot: median; tick: 95th percentile; diamond: all work, mean")
    missing = len(data) - len(known)
    left = f"{missing} {'cell' if missing == 1 else 'cells'} with unknown latencies not shown" if missing else ""
    return finished(figure, [problems_in(known), *where(known), left, _left_out(known)], simulated=simulated_of(known))


@styled
def heat_map(frame: pd.DataFrame, *, value: Literal["right_share", "correct"] = "right_share") -> Figure:
    """Cells × problems, as `analysis.problems.heat_map` returns them: dark where right, hatched where there is nothing to be right.

    Problems stand from the one that is solved most to the one that is solved least. `right_share` is the share of right candidates, which
    needs labels (an oracle view, and named so); `correct` is whether the selected answer is right. Raises ValueError as the others do.
    """
    data = checked(frame, ("cell_id", "problem_id", value), "analysis.problems.heat_map")
    wide = data.assign(value=data[value].astype(float)).pivot(index="cell_id", columns="problem_id", values="value")
    figure, ax, rows = _rows(data, row_height=0.16)
    wide = wide.reindex([cell for cell, _ in rows])
    order = wide.fillna(0).mean(axis=0).sort_values(ascending=False, kind="stable").index
    table = wide[order].to_numpy(dtype=float)
    ax.set_facecolor("white")
    ax.patch.set(hatch="xxxx", edgecolor="#999999")
    extent = (0, table.shape[1], table.shape[0] - 0.5, -0.5)
    shown = ax.imshow(
        np.ma.masked_invalid(table), aspect="auto", cmap=mpl.colormaps["Blues"], vmin=0, vmax=1, interpolation="nearest", extent=extent
    )
    ax.grid(False)
    ax.set_xlabel("problems, most solved first")
    label = "right candidates (oracle)" if value == "right_share" else "selected answer right"
    bar = figure.colorbar(shown, ax=ax, shrink=0.9, pad=0.02, ticks=(0, 0.5, 1))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(percent))
    bar.set_label(label, fontsize=LABEL_SIZE)
    titles(ax, "Problem by problem", f"{label}; hatched: no candidate")
    facts = [f"{table.shape[1]:,} problems", *where(data), _left_out(data)]
    return finished(figure, facts, simulated=simulated_of(data))


def _rows(data: pd.DataFrame, row_height: float = 0.2) -> tuple[Figure, Axes, list[tuple[str, pd.DataFrame]]]:
    """A figure with a named row for each of the first cells, the first at the top."""
    rows = [(str(cell), group) for cell, group in data.groupby("cell_id", sort=False)][:_MOST]
    labels = dict(zip(data["cell_id"], names(data, _ROW), strict=True))
    figure, (ax,) = panels(1, 1, (5.2, 1.6 + row_height * len(rows)))
    ax.set_yticks(range(len(rows)), [labels[cell] for cell, _ in rows], fontsize=LABEL_SIZE)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(False, axis="y")
    return figure, ax, rows


def _stack(
    ax: Axes,
    rows: Sequence[tuple[str, pd.DataFrame]],
    column: str,
    value: str,
    fills: Mapping[str, tuple[str, str]],
    counts: str | None = None,
) -> list[float]:
    """A bar of parts for each row, in the order of `fills`; returns where each ends."""
    totals = []
    for place, (_, group) in enumerate(rows):
        sizes = dict(zip(group[column], group[value].astype(float), strict=True))
        numbers = {} if counts is None else dict(zip(group[column], group[counts], strict=True))
        foreign = [part for part in sizes if part not in fills]
        if foreign:
            raise ValueError(f"{column} {foreign[0]!r} is not one of: {', '.join(fills)}")
        left = 0.0
        for part, (fill, hatch) in fills.items():
            width = sizes.get(part, 0.0)
            if not width > 0:
                continue
            ax.barh(place, width, left=left, height=0.72, color=fill, hatch=hatch, edgecolor="#333333", linewidth=0.4)
            if part in numbers and width >= 0.06:
                box = {"facecolor": "white", "pad": 0.6, "linewidth": 0} if hatch else None
                text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6, "color": _ink(fill), "bbox": box}
                ax.text(left + width / 2, place, f"{int(numbers[part])}", **text)
            left += width
        totals.append(left)
    return totals


def _ink(fill: str) -> str:
    red, green, blue = mpl.colors.to_rgb(fill)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def _key(figure: Figure, present: pd.Series[str], fills: Mapping[str, tuple[str, str]]) -> None:
    here = set(present)
    handles = [
        Patch(facecolor=fill, hatch=hatch, edgecolor="#333333", linewidth=0.4, label=part)
        for part, (fill, hatch) in fills.items()
        if part in here
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(5, max(1, len(handles))), fontsize=LABEL_SIZE, frameon=False)


def _left_out(data: pd.DataFrame) -> str:
    cells = data["cell_id"].nunique()
    return f"the first {_MOST} of {cells} cells" if cells > _MOST else ""
