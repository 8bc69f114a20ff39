"""Figures from the `cell_metrics` frame: pure functions from a frame to a matplotlib `Figure`.

Nothing here touches pyplot or the global rcParams, so the functions are safe in a server, a thread and a notebook. Only `save`
writes files. Every figure says in itself what it shows: n, split, model and interval method stand in the caption, what
needs labels is marked "oracle", and simulated results carry a watermark in every panel.

A line is a strategy. Where the frame holds several models, datasets or splits, each has its own lines: they are never mixed.
Cells that differ only in their seed are one point, the mean over the seeds; the ends of the interval are averaged
too, because seeds repeat the same problems and do not narrow what the problems leave open.
"""

from __future__ import annotations

import colorsys
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation, Transform
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Okabe and Ito's colours, safe for colour-blind readers, in an order in which neighbours also differ in lightness. Markers and
# dashes repeat with other periods than the colours, so that series stay apart in greyscale, and 63 of them before one returns.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same figure on every machine
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "figure.dpi": 150,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # fonts are embedded, and text in the PDF can be selected and searched
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # an SVG that looks the same where the font is missing
    "svg.hashsalt": "ttc_eval",  # the same figure gives the same bytes
}
_LABEL_SIZE = 7.0
_CAPTION_SIZE = 6.5
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
)


@dataclass(frozen=True, slots=True)
class _Level:
    """A place on the thinking axis. Levels of one `kind` are joined by a line: `off` is a budget of nothing."""

    kind: str
    order: float
    label: str


@dataclass(frozen=True, slots=True)
class _Series:
    """One line: `points` holds one row per level, in the order of the axis, with the columns `_NUMBERS` and `level`."""

    label: str
    colour: str
    marker: str
    dash: Any
    points: pd.DataFrame


@dataclass(frozen=True, slots=True)
class _Data:
    """What every panel draws from."""

    series: tuple[_Series, ...]
    levels: tuple[_Level, ...]
    facts: tuple[str, ...]
    simulated: str
    priced: bool
    limits: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _End:
    """Where a line ends, in data units: its label goes beside it."""

    series: _Series
    x: float
    y: float


_Panel = Callable[[Axes, _Data], list[_End]]


def budget_curve(cells: pd.DataFrame, *, interval_method: str = "95 % intervals over problems") -> Figure:
    """Success against the thinking budget, one line per strategy, with interval bands.

    Args:
        cells: rows of `cell_metrics` (docs/design.md 7). Needed: strategy_label, thinking_mode, thinking_budget, success; others are
            used when present and may hold NULLs. Rows without success are left out, and the caption counts them.
        interval_method: how `success_low` and `success_high` were made; it goes into the caption.

    Tested budgets stand at even distances, whatever their size, with thinking off first and effort levels last.

    Raises:
        ValueError: when a needed column is missing or no row has a success.
    """
    data = _prepare(cells)
    return _compose(data, (_draw_budget,), _size(data, 1), interval_method, labels=(0,))


def selection_gap(cells: pd.DataFrame, *, interval_method: str = "95 % intervals over problems") -> Figure:
    """Success and candidate-set success of each strategy at each thinking level, joined by the selection gap.

    Candidate-set success needs labels; the figure marks it "oracle". The faint bar at it is its own interval.
    Arguments and errors are those of `budget_curve`.
    """
    data = _prepare(cells)
    return _compose(data, (_draw_gap,), _size(data, 1), interval_method, labels=(0,))


def cost_curve(cells: pd.DataFrame, *, interval_method: str = "95 % intervals over problems") -> Figure:
    """Success against what it is charged per problem, with interval bars and the frontier of the cells shown.

    The cost is USD where every cell has a price above 0, else output tokens; then the caption says "no price". An unpriced
    cell is never shown as free. The frontier is the best success at or below each cost; it joins selected answers only
    and carries no uncertainty of its own. Arguments and errors are those of `budget_curve`.
    """
    data = _prepare(cells)
    return _compose(data, (_draw_cost,), _size(data, 1), interval_method, labels=(0,))


def overview(cells: pd.DataFrame, *, interval_method: str = "95 % intervals over problems") -> Figure:
    """The three panels in one figure of about 10 × 3.6 inches; stacked when there are too many strategies for that.

    Arguments and errors are those of `budget_curve`.
    """
    data = _prepare(cells)
    panels: tuple[_Panel, ...] = (_draw_budget, _draw_gap, _draw_cost)
    longest = max(len(one.label) for one in data.series)
    stacked = len(data.series) > 8 or len(data.levels) > 7 or len(data.series) * len(data.levels) > 40 or longest > 26
    if stacked:
        return _compose(data, panels, (8.0, 3 * _size(data, 1)[1]), interval_method, labels=(0, 1, 2), stacked=True)
    return _compose(data, panels, (10.0, 3.6), interval_method, labels=(0,))


def save(figure: Figure, path_stem: str | Path, formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
    """Write the figure as `<path_stem>.<format>` for each format, and return the paths. Parent folders are made.

    Fonts are embedded, and files carry no date, so the same figure gives the same bytes.
    """
    stem = Path(path_stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in formats]
    with mpl.rc_context(_STYLE):
        for path, suffix in zip(paths, formats, strict=True):
            figure.savefig(path, format=suffix, metadata=undated.get(suffix))
    return paths


# --- From the frame to series -----------------------------------------------------------------------------------------


def _prepare(cells: pd.DataFrame) -> _Data:
    missing = [column for column in _REQUIRED if column not in cells.columns]
    if missing:
        raise ValueError(f"the frame lacks {', '.join(missing)}; pass rows of cell_metrics")
    frame = cells.reset_index(drop=True).copy()
    frame["usd_per_problem"] = _numbers(frame, "charged_usd") / _numbers(frame, "n_problems")
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
    for i, label in enumerate(sorted(set(shown["series"]), key=_natural)):
        points = shown[shown["series"] == label].groupby("level")[list(_NUMBERS)].mean().reset_index()
        series.append(_Series(label, _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)], points))

    prices = shown["usd_per_problem"]
    return _Data(
        series=tuple(series),
        levels=axis,
        facts=_facts(shown, len(frame) - len(shown), averaged=len(shown) > sum(len(one.points) for one in series)),
        simulated=_simulated(shown),
        priced=bool((prices > 0).all()),
        limits=_limits(shown),
    )


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
        return _Level("tokens", budget, _compact(budget))
    if mode == "off":
        return _Level("tokens", -1, "off")
    name = mode if label is None or pd.isna(label) else str(label)
    effort = name.split()[-1]
    return _Level(mode, _EFFORTS.index(effort) if effort in _EFFORTS else len(_EFFORTS), name)


def _series_labels(frame: pd.DataFrame) -> list[str]:
    """The strategy, and whatever else the frame holds several of."""
    varying = [c for c in ("model", "dataset", "split", "verifier", "variant") if c in frame.columns and frame[c].nunique(dropna=False) > 1]
    labels = []
    for row in frame.to_dict("records"):
        parts = [column for column in ("strategy_label", *varying) if not pd.isna(row[column])]
        # A variant tells cells apart by its ends; cutting its middle out would make two of them look alike.
        widths = {column: 60 if column == "variant" else 34 if len(parts) == 1 else 22 for column in parts}
        labels.append(", ".join(_text(row[column], widths[column]) for column in parts))
    return labels


def _facts(shown: pd.DataFrame, dropped: int, averaged: bool) -> tuple[str, ...]:
    counts = sorted({int(n) for n in shown["n_problems"].dropna()})
    n = f"n = {counts[0]:,}" + (f" to {counts[-1]:,}" if len(counts) > 1 else "") + " problems" if counts else "n unknown"
    facts = [n, *(_names(shown, column) for column in ("dataset", "split", "model"))]
    if averaged:
        seeds = shown["seed"].nunique() if "seed" in shown.columns else 1
        facts.append(f"points with several cells are their mean ({seeds} {'seed' if seeds == 1 else 'seeds'})")
    if dropped:
        facts.append(f"{dropped} {'cell' if dropped == 1 else 'cells'} without a result not shown")
    return tuple(fact for fact in facts if fact)


def _names(frame: pd.DataFrame, column: str) -> str:
    names = sorted({_text(value) for value in frame[column].dropna()}) if column in frame.columns else []
    if not names:
        return ""
    return f"{column} {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"


def _simulated(frame: pd.DataFrame) -> str:
    flags = [bool(flag) for flag in frame["simulated"] if not pd.isna(flag)] if "simulated" in frame.columns else []
    if not any(flags):
        return ""
    return "simulated" if all(flags) and len(flags) == len(frame) else "partly simulated"


def _limits(frame: pd.DataFrame) -> tuple[float, float]:
    """One success axis for all panels: what is shown with its intervals, and a little room, within 0 to 100 %."""
    ends = [f"{name}{end}" for name in ("success", "candidate_success") for end in ("", "_low", "_high")]
    values = frame[ends].to_numpy(dtype=float)
    low, high = max(0.0, float(np.nanmin(values))), min(1.0, float(np.nanmax(values)))
    room = max(0.06 * (high - low), 0.02)
    return low - room if low - room > 0 else -0.03, high + room if high + room < 1 else 1.04


def _natural(label: str) -> tuple[bool, list[tuple[int, int, str]]]:
    """`single` first, and `@4` before `@16`."""
    parts = re.split(r"(\d+)", label)
    return not label.startswith("single"), [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _text(value: object, width: int = 34) -> str:
    """Any value as plain text: no mathtext from a dollar sign, no label so long that it eats the panel."""
    text = " ".join(str(value).split())
    if len(text) > width:
        text = f"{text[: width - 12]}…{text[-11:]}"
    return text.replace("$", r"\$")


def _compact(number: float) -> str:
    """16000 → 16k and 16384 → 16,384: short only where nothing is lost."""
    if number >= 1_000_000 and number % 100_000 == 0:
        return f"{number / 1_000_000:g}M"
    if number >= 1_000 and number % 100 == 0:
        return f"{number / 1_000:g}k"
    return f"{number:,.0f}"


# --- Panels -----------------------------------------------------------------------------------------------------------


def _draw_budget(ax: Axes, data: _Data) -> list[_End]:
    ends, few = [], len(data.series) <= 5
    for i, one in enumerate(data.series):
        kinds = [data.levels[level].kind for level in one.points["level"]]
        for kind in dict.fromkeys(kinds):
            run = one.points[[k == kind for k in kinds]]
            alone = len(run) == 1
            x = run["level"].to_numpy(dtype=float) + (_dodge(i, len(data.series)) if alone else 0.0)
            y, low, high = (run[column].to_numpy(dtype=float) for column in ("success", "success_low", "success_high"))
            if alone:
                _bars(ax, one, x, y, (low, high), "y")
            else:
                ax.fill_between(
                    x,
                    low,
                    high,
                    facecolor=to_rgba(one.colour, 0.12 if few else 0.05),
                    edgecolor=to_rgba(one.colour, 0.5),
                    linewidth=0.5 * few,
                )
            ax.plot(x, y, color=one.colour, marker=one.marker, linestyle="" if alone else one.dash, label=one.label, **_EDGE)
        ends.append(_End(one, float(x[-1]), float(y[-1])))
    _thinking_axis(ax, data)
    _success_axis(ax, data, "success (share of all problems)")
    _titles(ax, "Success by thinking budget" if _has_budgets(data) else "Success by thinking", "selected answers; band or bar: interval")
    return ends


def _draw_gap(ax: Axes, data: _Data) -> list[_End]:
    ends = []
    for i, one in enumerate(data.series):
        x = one.points["level"].to_numpy(dtype=float) + _dodge(i, len(data.series))
        success, candidates = (one.points[column].to_numpy(dtype=float) for column in ("success", "candidate_success"))
        low, high = (one.points[f"candidate_success_{end}"].to_numpy(dtype=float) for end in ("low", "high"))
        _bars(ax, one, x, candidates, (low, high), "y", faint=True)
        ax.vlines(x, success, candidates, color=one.colour, linewidth=1.4)
        size = mpl.rcParams["lines.markersize"]
        ax.plot(x, candidates, one.marker, markersize=size + 2, markerfacecolor="white", markeredgecolor=one.colour, markeredgewidth=1.1)
        ax.plot(x, success, one.marker, markersize=size - 1.5, color=one.colour, label=one.label)
        ends.append(_End(one, float(x[-1]), float(success[-1])))
    for between in range(len(data.levels) - 1):
        ax.axvline(between + 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
    ax.grid(False, axis="x")
    _thinking_axis(ax, data)
    _success_axis(ax, data, "share of all problems")
    _titles(ax, "Selection gap", "filled: success; hollow: candidate set (oracle)")
    return ends


def _draw_cost(ax: Axes, data: _Data) -> list[_End]:
    ends, columns = (
        [],
        ("usd_per_problem",) * 3 if data.priced else ("mean_output_tokens", "mean_output_tokens_low", "mean_output_tokens_high"),
    )
    every = np.concatenate([one.points[columns[0]].to_numpy(dtype=float) for one in data.series])
    known = every[np.isfinite(every)]
    log = known.size > 0 and float(known.min()) > 0 and float(known.max()) > 4 * float(known.min())
    spots: list[tuple[float, float, str]] = []
    for one in data.series:
        points = one.points[one.points[columns[0]].notna()].sort_values(columns[0])
        if points.empty:
            continue
        x, x_low, x_high = (points[column].to_numpy(dtype=float) for column in columns)
        y, low, high = (points[column].to_numpy(dtype=float) for column in ("success", "success_low", "success_high"))
        _bars(ax, one, x, y, (low, high), "y", faint=True)
        if not data.priced:
            _bars(ax, one, x, y, (np.maximum(x_low, x / 4 if log else 0.0), x_high), "x", faint=True)
        ax.plot(x, y, one.marker, color=one.colour, label=one.label, **_EDGE)
        spots += zip(x.tolist(), y.tolist(), (data.levels[level].label for level in points["level"]), strict=True)
        ends.append(_End(one, float(x[-1]), float(y[-1])))
    if log:
        ax.set_xscale("log")
    steps = _frontier(spots)
    if steps:
        right = float(known.max()) * (1.15 if log else 1.03)
        x_steps, y_steps = [x for x, _, _ in steps] + [right], [y for _, y, _ in steps] + [steps[-1][1]]
        ax.step(x_steps, y_steps, where="post", color="#777777", linewidth=1.1, zorder=1.4, label="frontier")
    for x_step, y_step, level in steps if len(data.levels) > 1 else []:  # above and left of a frontier no point can be
        near: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6, "color": "#555555", "ha": "right", "gid": "level"}
        ax.annotate(level, (x_step, y_step), (-2.5, 2.5), **near)
    _cost_axis(ax, log, known)
    ax.set_xlabel(("USD" if data.priced else "output tokens") + " per problem, charged" + (" (log)" if log else ""))
    _success_axis(ax, data, "success (share of all problems)")
    _titles(ax, "Success by cost", "grey: frontier, with its thinking budgets" if _has_budgets(data) else "grey: frontier")
    return ends


_EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}


def _bars(ax: Axes, one: _Series, x: Floats, y: Floats, ends: tuple[Floats, Floats], along: str, faint: bool = False) -> None:
    """Interval bars; a point with no interval gets none, and rounding never makes a bar of negative length."""
    at = y if along == "y" else x
    low, high = (np.abs(np.where(np.isfinite(end), end, at) - at) for end in ends)
    error = np.where(np.isfinite(at), np.stack([low, high]), 0.0)
    style: dict[str, Any] = {f"{along}err": error, "elinewidth": 0.9 if faint else 1.2, "alpha": 0.45 if faint else 0.9}
    ax.errorbar(x, y, fmt="none", ecolor=one.colour, capsize=0 if faint else 2, zorder=1.5, **style)


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


# --- Axes, labels, caption --------------------------------------------------------------------------------------------


def _titles(ax: Axes, title: str, subtitle: str) -> None:
    ax.set_title(f"{title}\n")
    ax.text(0, 1.025, subtitle, transform=ax.transAxes, fontsize=_LABEL_SIZE, va="bottom", color="#333333")


def _has_budgets(data: _Data) -> bool:
    return any(level.kind == "tokens" and level.order >= 0 for level in data.levels)


def _thinking_axis(ax: Axes, data: _Data) -> None:
    ax.set_xlim(-0.5, len(data.levels) - 0.5)
    ax.set_xticks(range(len(data.levels)), [_text(level.label, 16) for level in data.levels])
    mixed = len({level.kind for level in data.levels}) > 1
    ax.set_xlabel(f"thinking budget (tokens){', or effort' * mixed}" if _has_budgets(data) else "thinking")


def _success_axis(ax: Axes, data: _Data, label: str) -> None:
    ax.set_ylim(*data.limits)
    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(max(0.0, data.limits[0]), min(1.0, data.limits[1]))
    ax.set_yticks([tick for tick in ticks if max(0.0, data.limits[0]) <= tick <= min(1.0, data.limits[1])])
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g} %"))
    ax.set_ylabel(label)


def _cost_axis(ax: Axes, log: bool, costs: Floats) -> None:
    if not costs.size:
        ax.set_xlim(0, 1)
        ax.set_xticks([])
        ax.text(0.5, 0.5, "no cell has a cost", transform=ax.transAxes, ha="center", color="#555555")
        return
    low, high = float(costs.min()), float(costs.max())
    if not log:
        ax.set_xlim(0, high * 1.1 if high > 0 else 1)
        ax.xaxis.set_major_locator(MaxNLocator(5))
    else:
        ax.set_xlim(low / 1.35, high * 1.35)
        wide = high / low > 60
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide and high / low > 1000 else (1.0, 3.0) if wide else (1.0, 2.0, 5.0)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _cost_text(value)))


def _cost_text(value: float) -> str:
    """A tick of the cost axis: 20000 → 20k, 0.00005 as it is and not 5e-05."""
    if value >= 10 or value == round(value):
        return _compact(round(value))
    return f"{value:.6f}".rstrip("0") if value >= 1e-6 else f"{value:g}"


def _size(data: _Data, panels: int) -> tuple[float, float]:
    """Inches: room for one label per series beside the axes."""
    return 6.4 * panels, max(3.6, 1.4 + 0.15 * len(data.series))


def _compose(
    data: _Data,
    panels: Sequence[_Panel],
    size: tuple[float, float],
    interval_method: str,
    *,
    labels: Sequence[int],
    stacked: bool = False,
) -> Figure:
    """Draw the panels, label the lines of those in `labels`, and put caption and watermark on."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(panels) if stacked else 1, 1 if stacked else len(panels), squeeze=False)
        axes: list[Axes] = list(grid.flat)
        names = []
        for i, (ax, draw) in enumerate(zip(axes, panels, strict=True)):
            ends = draw(ax, data)
            if i in labels:
                names.append((ax, ends, _name_lines(figure, ax, ends)))
            if data.simulated:
                ax.text(0.5, 0.5, data.simulated, **_WATERMARK, transform=ax.transAxes)
        facts = [*data.facts, _text(interval_method, 80)]
        if _draw_gap in panels:
            facts.append("bars at hollow points: intervals of candidate-set success")
        if _draw_cost in panels and not data.priced:
            facts.append("no price: cost in output tokens")
        if len(labels) < len(panels):
            facts.append("colours and markers as named on the left")
        if data.simulated:
            facts.append(f"{data.simulated} data")
        figure.supxlabel(_caption(facts, size[0]), x=0.01, ha="left", fontsize=_CAPTION_SIZE, color="#333333", linespacing=1.35)
        figure.draw_without_rendering()
        for ax in axes:
            _tilt_crowded_ticks(ax)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the places of the labels belong to this layout
        for ax in axes:
            _drop_crowded_notes(ax)
        for ax, ends, texts in names:
            _spread(figure, ax, ends, texts)
    return figure


_WATERMARK: dict[str, Any] = {
    "fontsize": 22,
    "color": "#000000",
    "alpha": 0.09,
    "rotation": 18,
    "ha": "center",
    "va": "center",
    "zorder": 1.2,  # above the bands, below the lines
    "weight": "bold",
    "in_layout": False,
}


def _caption(facts: Sequence[str], width: float) -> str:
    """One paragraph, wrapped to the width of the figure in inches."""
    return textwrap.fill(" · ".join(facts), int(width * 72 / (_CAPTION_SIZE * 0.56)))


def _name_lines(figure: Figure, ax: Axes, ends: Sequence[_End]) -> list[Text]:
    """The labels in a column right of the axes, not yet apart; the layout has to know their width first."""
    style: dict[str, Any] = {"fontsize": _LABEL_SIZE, "va": "center", "transform": _right_of(figure, ax, 14)}
    return [ax.text(1.0, 0.5, end.series.label, color=_dark(end.series.colour), **style) for end in ends]


def _right_of(figure: Figure, ax: Axes, points: float) -> Transform:
    """Axes fractions, moved to the right by some points."""
    return ax.transAxes + ScaledTranslation(points / 72, 0, figure.dpi_scale_trans)


def _spread(figure: Figure, ax: Axes, ends: Sequence[_End], texts: Sequence[Text]) -> None:
    """Move each label as near to its line's end as the others allow, with its marker, which says whose it is."""
    if not ends:
        return
    height = ax.get_position().height * figure.get_figheight() * 72  # points
    low, high = ax.get_ylim()
    places = _apart(np.array([(end.y - low) / (high - low) for end in ends]), 1.3 * _LABEL_SIZE / height)
    style: dict[str, Any] = {"transform": _right_of(figure, ax, 8), "clip_on": False, "markersize": 4, "gid": "key", "linestyle": ""}
    for end, text, place in zip(ends, texts, places.tolist(), strict=True):
        text.set_y(place)
        ax.plot([1.0], [place], marker=end.series.marker, color=end.series.colour, **style)


def _apart(wanted: Floats, gap: float) -> Floats:
    """The places nearest to the wanted ones (least squares) that are at least `gap` apart, kept in 0 to 1 where they fit.

    Subtracting i·gap from the i-th in order turns "at least gap apart" into "not decreasing", which pooling solves.
    """
    order = np.argsort(wanted, kind="stable")
    pools: list[tuple[float, int]] = []
    for i, value in enumerate(wanted[order]):
        mean, count = float(value) - i * gap, 1
        while pools and pools[-1][0] >= mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    flat = np.repeat([mean for mean, _ in pools], [count for _, count in pools])
    top = 1.0 - (len(wanted) - 1) * gap
    placed = np.empty_like(wanted)
    placed[order] = np.clip(flat, min(0.0, top), max(0.0, top)) + gap * np.arange(len(wanted))
    return placed


def _tilt_crowded_ticks(ax: Axes) -> None:
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    if any(right.x0 < left.x1 + 3 for left, right in pairwise(boxes)):
        for label in ax.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")


def _drop_crowded_notes(ax: Axes) -> None:
    """Keep the notes at frontier points that stay clear of each other and of the axis; the dearest points come first."""
    frame, kept = ax.get_window_extent(), list[Any]()
    for note in reversed([text for text in ax.texts if text.get_gid() == "level"]):
        box = note.get_window_extent()
        if box.x0 < frame.x0 + 2 or box.y1 > frame.y1 or any(box.overlaps(other) for other in kept):
            note.remove()
        else:
            kept.append(box)


def _dark(colour: str) -> tuple[float, float, float]:
    """The colour, dark enough to read as text on white."""
    hue, light, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    return colorsys.hls_to_rgb(hue, min(light, 0.3), saturation)
