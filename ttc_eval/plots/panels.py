"""Panels of cells: success by budget, the selection gap, success by cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from ttc_eval.plots.axes import cost_axis, interval_bars, share_axis, titles, wide
from ttc_eval.plots.layout import End
from ttc_eval.plots.series import Data
from ttc_eval.plots.style import EDGE, plain_text

Panel = Callable[[Axes, Data], list[End]]


def draw_budget(ax: Axes, data: Data) -> list[End]:
    ends, few = [], len(data.series) <= 5
    for i, one in enumerate(data.series):
        kinds = [data.levels[level].kind for level in one.points["level"]]
        for kind in dict.fromkeys(kinds):
            run = one.points[[k == kind for k in kinds]]
            alone = len(run) == 1
            x = run["level"].to_numpy(dtype=float) + (_dodge(i, len(data.series)) if alone else 0.0)
            y, low, high = (run[column].to_numpy(dtype=float) for column in ("success", "success_low", "success_high"))
            if alone:
                interval_bars(ax, one.colour, x, y, (low, high), "y")
            else:
                ax.fill_between(
                    x,
                    low,
                    high,
                    facecolor=to_rgba(one.colour, 0.12 if few else 0.05),
                    edgecolor=to_rgba(one.colour, 0.5),
                    linewidth=0.5 * few,
                )
            ax.plot(x, y, color=one.colour, marker=one.marker, linestyle="" if alone else one.dash, label=one.label, **EDGE)
        if data.bounded:
            ax.plot(one.points["level"], one.points["bound"], color=one.colour, linestyle=":", linewidth=1.1, zorder=1.8)
        ends.append(End(one.label, one.colour, one.marker, float(y[-1])))
    _thinking_axis(ax, data)
    share_axis(ax, data.limits, "success (share of all problems)")
    titles(ax, "Success by thinking budget" if _has_budgets(data) else "Success by thinking", "selected answers; band or bar: interval")
    return ends


def draw_gap(ax: Axes, data: Data) -> list[End]:
    ends = []
    for i, one in enumerate(data.series):
        x = one.points["level"].to_numpy(dtype=float) + _dodge(i, len(data.series))
        success, candidates = (one.points[column].to_numpy(dtype=float) for column in ("success", "candidate_success"))
        low, high = (one.points[f"candidate_success_{end}"].to_numpy(dtype=float) for end in ("low", "high"))
        interval_bars(ax, one.colour, x, candidates, (low, high), "y", faint=True)
        ax.vlines(x, success, candidates, color=one.colour, linewidth=1.4)
        size = mpl.rcParams["lines.markersize"]
        ax.plot(x, candidates, one.marker, markersize=size + 2, markerfacecolor="white", markeredgecolor=one.colour, markeredgewidth=1.1)
        ax.plot(x, success, one.marker, markersize=size - 1.5, color=one.colour, label=one.label)
        ends.append(End(one.label, one.colour, one.marker, float(success[-1])))
    for between in range(len(data.levels) - 1):
        ax.axvline(between + 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
    ax.grid(False, axis="x")
    _thinking_axis(ax, data)
    share_axis(ax, data.limits, "share of all problems")
    titles(ax, "Selection gap", "filled: success; hollow: candidate set (oracle)")
    return ends


def draw_cost(ax: Axes, data: Data) -> list[End]:
    ends, columns = (
        [],
        ("usd_per_problem",) * 3 if data.priced else ("mean_output_tokens", "mean_output_tokens_low", "mean_output_tokens_high"),
    )
    every = np.concatenate([one.points[columns[0]].to_numpy(dtype=float) for one in data.series])
    log = wide(every)
    spots: list[tuple[float, float, str]] = []
    for one in data.series:
        points = one.points[one.points[columns[0]].notna()].sort_values(columns[0])
        if points.empty:
            continue
        x, x_low, x_high = (points[column].to_numpy(dtype=float) for column in columns)
        y, low, high = (points[column].to_numpy(dtype=float) for column in ("success", "success_low", "success_high"))
        interval_bars(ax, one.colour, x, y, (low, high), "y", faint=True)
        if not data.priced:
            interval_bars(ax, one.colour, x, y, (np.maximum(x_low, x / 4 if log else 0.0), x_high), "x", faint=True)
        if data.bounded:
            ax.vlines(x, y, points["bound"].to_numpy(dtype=float), color=one.colour, linestyle=":", linewidth=1.1)
        ax.plot(x, y, one.marker, color=one.colour, label=one.label, **EDGE)
        spots += zip(x.tolist(), y.tolist(), (data.levels[level].label for level in points["level"]), strict=True)
        ends.append(End(one.label, one.colour, one.marker, float(y[-1])))
    cost_axis(ax, every, ("USD" if data.priced else "output tokens") + " per problem, charged")
    steps = _frontier(spots)
    if steps:
        right = float(np.nanmax(every)) * (1.15 if log else 1.03)
        x_steps, y_steps = [x for x, _, _ in steps] + [right], [y for _, y, _ in steps] + [steps[-1][1]]
        ax.step(x_steps, y_steps, where="post", color="#777777", linewidth=1.1, zorder=1.4, label="frontier")
    for x_step, y_step, level in steps if len(data.levels) > 1 else []:  # above and left of a frontier no point can be
        near: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6, "color": "#555555", "ha": "right", "gid": "level"}
        ax.annotate(level, (x_step, y_step), (-2.5, 2.5), **near)
    share_axis(ax, data.limits, "success (share of all problems)")
    titles(ax, "Success by cost", "grey: frontier, with its thinking budgets" if _has_budgets(data) else "grey: frontier")
    return ends


def _dodge(i: int, n: int) -> float:
    """A horizontal offset, so that series at one level stand side by side."""
    return 0.0 if n == 1 else (i / (n - 1) - 0.5) * min(0.66, 0.14 * n)


def _frontier(spots: Iterable[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """The (cost, success, level) that no other beats or equals at the same cost or less, in order of cost."""
    best: list[tuple[float, float, str]] = []
    for spot in sorted(spots, key=lambda spot: (spot[0], -spot[1])):
        if not best or spot[1] > best[-1][1]:
            best.append(spot)
    return best


def _has_budgets(data: Data) -> bool:
    return any(level.kind == "tokens" and level.order >= 0 for level in data.levels)


def _thinking_axis(ax: Axes, data: Data) -> None:
    ax.set_xlim(-0.5, len(data.levels) - 0.5)
    ax.set_xticks(range(len(data.levels)), [plain_text(level.label, 16) for level in data.levels])
    mixed = len({level.kind for level in data.levels}) > 1
    ax.set_xlabel(f"thinking budget (tokens){', or effort' * mixed}" if _has_budgets(data) else "thinking")
