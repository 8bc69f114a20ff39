"""The figure of a verifier audit: whether its scores mean what they say, and what it selects as N grows."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from ttc_eval.plots.axes import count_axis, interval_bars, percent, share_axis, share_limits, titles
from ttc_eval.plots.layout import finished, panels, styled
from ttc_eval.plots.look import Look, looks
from ttc_eval.plots.style import LABEL_SIZE
from ttc_eval.plots.tidy import checked, names, problems_in, simulated_of, where

_AUDITED = ("verifier", "thinking_label")
_AMONG = ("verifier", "thinking_label", "model", "dataset", "split")
_MOST = 6
# Of fewer candidates a share says nothing.
_FEWEST = 10


@styled
def verifier_audit(reliability: pd.DataFrame, overoptimisation: pd.DataFrame) -> Figure:
    """Left: the share of right candidates by score. Right: best-of-N as N grows, beside the oracle.

    The frames are what the functions of these names in `analysis.audit` return. On the diagonal a score can be read as a probability;
    marks grow with the number of candidates. Where success falls while N grows, the verifier is being fooled. Several cells over the same
    pool share its candidates, so the one with most of them stands for all. `overoptimisation` may be empty: then there is only the left
    panel. Raises ValueError for a frame that lacks a column or a `reliability` without rows.
    """
    needed = ("score", "right", "right_low", "right_high", "candidates")
    bins = checked(reliability, (*needed, "cell_id"), "analysis.audit.reliability")
    bins = bins.assign(line=names(bins, ("verifier",), _AMONG))
    growing = overoptimisation.assign(line=names(overoptimisation, ("verifier",), _AMONG)) if len(overoptimisation) else None
    labels = list(dict.fromkeys([*bins["line"], *(growing["line"] if growing is not None else [])]))[:_MOST]
    styles = looks(labels)
    figure, axes = panels(1, 1 if growing is None else 2, (3.6 if growing is None else 6.6, 3.7))
    _reliability(axes[0], bins, styles)
    if growing is not None:
        _growth(axes[1], growing, styles)
    keys = [Line2D([], [], **look.line, label=look.label) for look in styles.values()]
    figure.legend(handles=keys, loc="outside upper left", ncols=2, fontsize=LABEL_SIZE, frameon=False, handlelength=3)
    kept = bins[bins["candidates"] >= _FEWEST]
    facts = [f"{problems_in(kept)} a bin", *where(bins), f"bins of {_FEWEST} candidates or more", "bars: 95 % intervals over problems"]
    return finished(figure, facts, simulated=simulated_of(bins))


def _reliability(ax: Axes, bins: pd.DataFrame, styles: dict[str, Look]) -> None:
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=0.9, zorder=1)
    for label, look in styles.items():
        here = bins[(bins["line"] == label) & (bins["candidates"] >= _FEWEST)]
        if here.empty:
            continue
        most = here.groupby("cell_id")["candidates"].sum().idxmax()
        at = here[here["cell_id"] == most].sort_values("score")
        x, y = at["score"].to_numpy(dtype=float), at["right"].to_numpy(dtype=float)
        ends = [at[f"right_{end}"].to_numpy(dtype=float) for end in ("low", "high")]
        interval_bars(ax, look.colour, x, y, (ends[0], ends[1]), "y", faint=True)
        area = 8 + 60 * at["candidates"].to_numpy(dtype=float) / float(at["candidates"].max())
        ax.scatter(x, y, s=area, marker=look.marker, color=look.colour, edgecolors="white", linewidths=0.5, zorder=3)
    ax.set_xlim(-0.03, 1.03)
    ax.xaxis.set_major_formatter(FuncFormatter(percent))
    ax.set_xlabel("score, mean of its bin")
    share_axis(ax, (-0.03, 1.03), "right candidates")
    titles(ax, "Do scores mean what they say?", "grey: they do; larger marks: more candidates")


def _growth(ax: Axes, growing: pd.DataFrame, styles: dict[str, Look]) -> None:
    for label, look in styles.items():
        at = growing[growing["line"] == label].sort_values("k").drop_duplicates("k")
        k, success = at["k"].to_numpy(dtype=float), at["success"].to_numpy(dtype=float)
        ends = [at[f"success_{end}"].to_numpy(dtype=float) for end in ("low", "high")]
        interval_bars(ax, look.colour, k, success, (ends[0], ends[1]), "y", faint=True)
        ax.plot(k, success, **look.line)
        hollow = look.line | {"markerfacecolor": "white", "markeredgecolor": look.colour, "linestyle": ":", "linewidth": 1.0}
        ax.plot(k, at["oracle"].to_numpy(dtype=float), **hollow)
    shares = growing[["success", "success_low", "success_high", "oracle"]].to_numpy(dtype=float)
    share_axis(ax, share_limits(shares), "success (share of all problems)")
    count_axis(ax, growing["k"].astype(int).tolist(), "candidates N")
    titles(ax, "What it selects as N grows", "filled: best-of-N; hollow, dotted: any right (oracle)")
