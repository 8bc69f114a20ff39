"""What the axes of figures have in common: titles, shares, costs, bars."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from ttc_eval.plots.style import LABEL_SIZE, Floats, compact, cost_text


def titles(ax: Axes, title: str, subtitle: str) -> None:
    """A bold line with what is shown, and one below it with how to read it, which may be empty."""
    ax.set_title(f"{title}\n" if subtitle else title)
    # It may be wider than a narrow panel without making it narrower still.
    above: dict[str, Any] = {"textcoords": "offset points", "fontsize": LABEL_SIZE, "va": "bottom", "color": "#333333", "in_layout": False}
    ax.annotate(subtitle, (0, 1), (0, 3.5), xycoords="axes fraction", **above)


def share_limits(values: Floats) -> tuple[float, float]:
    """Ends of an axis of shares: what is shown, and a little room, within 0 to 100 %. NaN are passed over."""
    low, high = max(0.0, float(np.nanmin(values))), min(1.0, float(np.nanmax(values)))
    room = max(0.06 * (high - low), 0.02)
    return low - room if low - room > 0 else -0.03, high + room if high + room < 1 else 1.04


def share_axis(ax: Axes, limits: tuple[float, float], label: str) -> None:
    """The vertical axis as a share in per cent."""
    ax.set_ylim(*limits)
    low, high = max(0.0, limits[0]), min(1.0, limits[1])
    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
    ax.set_yticks([tick for tick in ticks if low <= tick <= high])
    ax.yaxis.set_major_formatter(FuncFormatter(percent))
    ax.set_ylabel(label)


def percent(share: float, _: Any = None) -> str:
    """0.125 → 12.5 %."""
    return f"{100 * share:.4g} %"


def wide(costs: Floats) -> bool:
    """Whether costs need a log axis: all above 0, and the largest more than four times the smallest."""
    known = costs[np.isfinite(costs)]
    return known.size > 0 and float(known.min()) > 0 and float(known.max()) > 4 * float(known.min())


def cost_axis(ax: Axes, costs: Floats, label: str) -> None:
    """The horizontal axis as a cost, on a log scale where `wide` says so. `costs`: what is shown; NaN are passed over."""
    log, known = wide(costs), costs[np.isfinite(costs)]
    ax.set_xlabel(label + (" (log)" if log else ""))
    if not known.size:
        ax.set_xlim(0, 1)
        ax.set_xticks([])
        ax.text(0.5, 0.5, "no cell has a cost", transform=ax.transAxes, ha="center", color="#555555")
        return
    low, high = float(known.min()), float(known.max())
    if not log:
        ax.set_xlim(0, high * 1.1 if high > 0 else 1)
        ax.xaxis.set_major_locator(MaxNLocator(5))
    else:
        ax.set_xscale("log")
        ax.set_xlim(low / 1.35, high * 1.35)
        far = high / low > 60
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if far and high / low > 1000 else (1.0, 3.0) if far else (1.0, 2.0, 5.0)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: cost_text(value)))


def count_axis(ax: Axes, counts: Sequence[int], label: str) -> None:
    """The horizontal axis as numbers of draws, each doubling at an even distance."""
    ax.set_xscale("log", base=2)
    shown = sorted(set(counts))
    kept = [shown[-1]]
    for one in reversed(shown[:-1]):  # the largest is always named, and none so close that they touch
        if kept[-1] / one >= 1.7:
            kept.append(one)
    ax.xaxis.set_major_locator(FixedLocator(kept[::-1]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(shown[0] / 1.12, shown[-1] * 1.12)
    ax.set_xlabel(label)


def interval_bars(ax: Axes, colour: str, x: Floats, y: Floats, ends: tuple[Floats, Floats], along: str, faint: bool = False) -> None:
    """Interval bars; a point with no interval gets none, and rounding never makes a bar of negative length."""
    at = y if along == "y" else x
    low, high = (np.abs(np.where(np.isfinite(end), end, at) - at) for end in ends)
    error = np.where(np.isfinite(at), np.stack([low, high]), 0.0)
    style: dict[str, Any] = {f"{along}err": error, "elinewidth": 0.9 if faint else 1.2, "alpha": 0.45 if faint else 0.9}
    ax.errorbar(x, y, fmt="none", ecolor=colour, capsize=0 if faint else 2, zorder=1.5, **style)


def tilt_crowded_ticks(ax: Axes) -> None:
    """Turn the names below the axis where they would touch. Needs a drawn figure."""
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    if any(right.x0 < left.x1 + 3 for left, right in pairwise(boxes)):
        for label in ax.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
