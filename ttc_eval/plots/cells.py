"""Figures of cells: pure functions from the `cell_metrics` frame to a matplotlib `Figure`."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ttc_eval.plots.layout import finished, panels, styled
from ttc_eval.plots.panels import Panel, draw_budget, draw_cost, draw_gap
from ttc_eval.plots.series import Data, prepare
from ttc_eval.plots.style import plain_text

_INTERVALS = "95 % intervals over problems"


def budget_curve(cells: pd.DataFrame, *, bounds: pd.DataFrame | None = None, interval_method: str = _INTERVALS) -> Figure:
    """Success against the thinking budget, one line per strategy, with interval bands.

    Args:
        cells: rows of `cell_metrics` (docs/design.md 7). Needed: strategy_label, thinking_mode, thinking_budget, success; others are
            used when present and may hold NULLs. Rows without success are left out, and the caption counts them.
        bounds: `analysis.outcomes.bounds` of the same cells: a dotted line shows success with truncated problems left out, so that what
            truncation leaves open lies between the two.
        interval_method: how `success_low` and `success_high` were made; it goes into the caption.

    Tested budgets stand at even distances, whatever their size, with thinking off first and effort levels last.

    Raises:
        ValueError: when a needed column is missing or no row has a success.
    """
    data = prepare(cells, bounds)
    return _composed(data, (draw_budget,), _size(data), interval_method, labels=(0,))


def selection_gap(cells: pd.DataFrame, *, interval_method: str = _INTERVALS) -> Figure:
    """Success and candidate-set success of each strategy at each thinking level, joined by the selection gap.

    Candidate-set success needs labels; the figure marks it "oracle". The faint bar at it is its own interval.
    Arguments and errors are those of `budget_curve`.
    """
    data = prepare(cells)
    return _composed(data, (draw_gap,), _size(data), interval_method, labels=(0,))


def cost_curve(cells: pd.DataFrame, *, bounds: pd.DataFrame | None = None, interval_method: str = _INTERVALS) -> Figure:
    """Success against what it is charged per problem, with interval bars and the frontier of the cells shown.

    The cost is USD where every cell has a price above 0, else output tokens; then the caption says "no price". An unpriced
    cell is never shown as free. The frontier is the best success at or below each cost; it joins selected answers only
    and carries no uncertainty of its own. Arguments and errors are those of `budget_curve`; with `bounds`, a dotted stroke goes from each
    point up to its success with truncated problems left out.
    """
    data = prepare(cells, bounds)
    return _composed(data, (draw_cost,), _size(data), interval_method, labels=(0,))


def overview(cells: pd.DataFrame, *, interval_method: str = _INTERVALS) -> Figure:
    """The three panels in one figure of about 10 × 3.6 inches; stacked when there are too many strategies for that.

    Arguments and errors are those of `budget_curve`.
    """
    data = prepare(cells)
    drawn: tuple[Panel, ...] = (draw_budget, draw_gap, draw_cost)
    longest = max(len(one.label) for one in data.series)
    stacked = len(data.series) > 8 or len(data.levels) > 7 or len(data.series) * len(data.levels) > 40 or longest > 26
    if stacked:
        return _composed(data, drawn, (8.0, 3 * _size(data)[1]), interval_method, labels=(0, 1, 2), stacked=True)
    return _composed(data, drawn, (10.0, 3.6), interval_method, labels=(0,))


def _size(data: Data) -> tuple[float, float]:
    """Inches of a single panel: at one column of print its text is about 6 points; room for one label per series beside the axes."""
    longest = max(len(one.label) for one in data.series)
    return 3.4 + 0.06 * min(longest, 34) + 0.12 * len(data.levels), max(2.9, 1.5 + 0.15 * len(data.series))


@styled
def _composed(
    data: Data, drawn: Sequence[Panel], size: tuple[float, float], interval_method: str, *, labels: Sequence[int], stacked: bool = False
) -> Figure:
    """The panels side by side, or one above the other; the lines of those in `labels` are named."""
    figure, axes = panels(len(drawn) if stacked else 1, 1 if stacked else len(drawn), size)
    ends = [draw(ax, data) for ax, draw in zip(axes, drawn, strict=True)]
    facts = [*data.facts, plain_text(interval_method, 80)]
    if draw_gap in drawn:
        facts.append("bars at hollow points: intervals of candidate-set success")
    if draw_cost in drawn and not data.priced:
        facts.append("no price: cost in output tokens")
    if data.bounded:
        facts.append("dotted: truncated problems left out")
    if len(labels) < len(drawn):
        facts.append("colours and markers as named on the left")
    return finished(figure, facts, simulated=data.simulated, named={axes[i]: ends[i] for i in labels})
