"""How panels become a figure: labels beside the ends of lines, a caption, a watermark."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation, Transform

from ttc_eval.plots.axes import tilt_crowded_ticks
from ttc_eval.plots.style import CAPTION_SIZE, LABEL_SIZE, STYLE, WATERMARK, Floats, dark

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class End:
    """Where a line ends, in data units: its label goes beside it."""

    label: str
    colour: str
    marker: str
    y: float


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A function that draws, made to draw in the house style, whatever the caller's."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return inside


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure of that size in inches with a grid of axes, row by row."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def finished(figure: Figure, facts: Sequence[str], *, simulated: str = "", named: Mapping[Axes, Sequence[End]] | None = None) -> Figure:
    """The figure with its caption, the watermark in every panel that shows data, and the labels of its lines in their places.

    Args:
        facts: parts of the caption; an empty one is left out.
        simulated: the watermark; empty: none.
        named: for each panel whose lines are labelled, where they end.
    """
    shown = [ax for ax in figure.axes if ax.axison and ax.get_label() != "<colorbar>"]
    if simulated:
        for ax in shown:
            ax.text(0.5, 0.5, simulated, **WATERMARK, transform=ax.transAxes)
    lines = [fact for fact in (*facts, f"{simulated} data" if simulated else "") if fact]
    width = float(figure.get_figwidth())
    figure.supxlabel(caption(lines, width), x=0.01, ha="left", fontsize=CAPTION_SIZE, color="#333333", linespacing=1.35)
    labels = [(ax, ends, _name_lines(figure, ax, ends)) for ax, ends in (named or {}).items()]
    figure.draw_without_rendering()
    for ax in shown:
        tilt_crowded_ticks(ax)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the places of the labels belong to this layout
    for ax in shown:
        _drop_crowded_notes(ax)
    for ax, ends, texts in labels:
        _spread(figure, ax, ends, texts)
    return figure


def caption(facts: Sequence[str], width: float) -> str:
    """One paragraph, wrapped to the width of the figure in inches."""
    return textwrap.fill(" · ".join(facts), int(width * 72 / (CAPTION_SIZE * 0.56)))


def _name_lines(figure: Figure, ax: Axes, ends: Sequence[End]) -> list[Text]:
    """The labels in a column right of the axes, not yet apart; the layout has to know their width first."""
    style: dict[str, Any] = {"fontsize": LABEL_SIZE, "va": "center", "transform": _right_of(figure, ax, 14)}
    return [ax.text(1.0, 0.5, end.label, color=dark(end.colour), **style) for end in ends]


def _right_of(figure: Figure, ax: Axes, points: float) -> Transform:
    """Axes fractions, moved to the right by some points."""
    return ax.transAxes + ScaledTranslation(points / 72, 0, figure.dpi_scale_trans)


def _spread(figure: Figure, ax: Axes, ends: Sequence[End], texts: Sequence[Text]) -> None:
    """Move each label as near to its line's end as the others allow, with its marker, which says whose it is."""
    if not ends:
        return
    height = ax.get_position().height * figure.get_figheight() * 72  # points
    low, high = ax.get_ylim()
    places = _apart(np.array([(end.y - low) / (high - low) for end in ends]), 1.3 * LABEL_SIZE / height)
    style: dict[str, Any] = {"transform": _right_of(figure, ax, 8), "clip_on": False, "markersize": 4, "gid": "key", "linestyle": ""}
    for end, text, place in zip(ends, texts, places.tolist(), strict=True):
        text.set_y(place)
        ax.plot([1.0], [place], marker=end.marker, color=end.colour, **style)


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


def _drop_crowded_notes(ax: Axes) -> None:
    """Keep the notes at frontier points that stay clear of each other and of the axis; the dearest points come first."""
    frame, kept = ax.get_window_extent(), list[Any]()
    for note in reversed([text for text in ax.texts if text.get_gid() == "level"]):
        box = note.get_window_extent()
        if box.x0 < frame.x0 + 2 or box.y1 > frame.y1 or any(box.overlaps(other) for other in kept):
            note.remove()
        else:
            kept.append(box)
