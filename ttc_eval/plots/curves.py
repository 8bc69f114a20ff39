"""Figures over the number of draws: what k would have given, how coverage grows, what stopping early saves. One panel a pool."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ttc_eval.plots.axes import count_axis, share_axis, share_limits, titles
from ttc_eval.plots.layout import End, finished, panels, styled
from ttc_eval.plots.look import Look, looks
from ttc_eval.plots.style import LABEL_SIZE
from ttc_eval.plots.tidy import checked, method_of, names, problems_in, simulated_of, where

_POOL = ("thinking_label",)
_APART = ("thinking_label", "model", "dataset", "split", "seed")
_MOST = 6


@styled
def sampling_curves(frame: pd.DataFrame) -> Figure:
    """Success of each selector over k of the stored draws, as `analysis.sampling.curves` returns it: one panel a pool.

    Bands are the intervals over problems. The oracle is dashed and hollow, and named so. Raises ValueError for a frame that lacks a column
    or holds no row.
    """
    data = checked(frame, ("selector", "k", "value", "value_low", "value_high", "oracle"), "analysis.sampling.curves")
    data = data.assign(line=[_selector(row) for row in data.to_dict("records")])
    styles = looks(data["line"])
    limits = share_limits(data[["value", "value_low", "value_high"]].to_numpy(dtype=float))
    figure, axes, kept = _grid(data, limits, "success (share of all problems)")
    named: dict[Axes, list[End]] = {}
    for ax, (pool, rows) in zip(axes, kept, strict=True):
        named[ax] = []
        for line, points in rows.groupby("line", sort=False):
            look, at = styles[str(line)], points.sort_values("k")
            k, value = at["k"].to_numpy(dtype=float), at["value"].to_numpy(dtype=float)
            oracle = bool(at["oracle"].iloc[0])
            ax.fill_between(
                k, at["value_low"].astype(float), at["value_high"].astype(float), facecolor=to_rgba(look.colour, 0.1), linewidth=0
            )
            ax.plot(k, value, **look.line | ({"markerfacecolor": "white", "markeredgecolor": look.colour} if oracle else {}))
            named[ax].append(look.end(float(value[-1])))
        count_axis(ax, rows["k"].astype(int).tolist(), "draws k")
        titles(ax, pool, "")
    read = "mean over all subsets of k draws; bands: intervals"
    facts = [read, problems_in(data), *where(data), f"pools of {_draws(data)} draws", method_of(data), _left_out(data)]
    return _labelled(figure, axes, facts, data, named, list(styles.values()))


@styled
def coverage_scaling(frame: pd.DataFrame) -> Figure:
    """pass@k with the two models of it, as `analysis.scaling.coverage` returns it: one panel a pool.

    Measured points carry intervals; a line is a model made from all draws. Hollow marks are a model made from the first quarter of the
    draws: where they miss what was measured, the model is not believed further out. What lies beyond the draws is dotted, on grey, and
    named "extrapolated". Coverage needs labels: the figure says "oracle". Raises ValueError as `sampling_curves` does.
    """
    data = checked(frame, ("fit", "role", "k", "pass_at_k", "pass_at_k_low", "pass_at_k_high", "n_draws"), "analysis.scaling.coverage")
    styles = looks(["exact", "power", "beta_binomial"])
    limits = share_limits(data[["pass_at_k", "pass_at_k_low", "pass_at_k_high"]].to_numpy(dtype=float))
    figure, axes, kept = _grid(data, limits, "coverage, pass@k (oracle)")
    for ax, (pool, rows) in zip(axes, kept, strict=True):
        _coverage(ax, rows, styles)
        count_axis(ax, rows["k"].astype(int).tolist(), "draws k")
        titles(ax, pool, "")
    facts = [
        problems_in(data),
        *where(data),
        f"pools of {_draws(data)} draws",
        "checked: fitted on the first quarter of the draws",
        method_of(data[data["fit"] == "exact"]),
    ]
    keys = [
        _key("measured", styles["exact"], linestyle=""),
        *(_key(f"{fit.replace('_', '-')} fit", styles[fit], marker="") for fit in ("power", "beta_binomial")),
        *(
            _key(f"{fit.replace('_', '-')} checked", styles[fit], linestyle="", markerfacecolor="white", markeredgecolor=styles[fit].colour)
            for fit in ("power", "beta_binomial")
        ),
    ]
    _legend(figure, keys)
    return finished(figure, [*facts, _left_out(data)], simulated=simulated_of(data))


def _coverage(ax: Axes, rows: pd.DataFrame, styles: dict[str, Look]) -> None:
    drawn = int(rows["n_draws"].iloc[0])
    for (fit, role), points in rows.groupby(["fit", "role"], sort=False):
        look, at = styles[str(fit)], points.sort_values("k")
        k, value = at["k"].to_numpy(dtype=float), at["pass_at_k"].to_numpy(dtype=float)
        if role == "measured":
            low, high = (np.abs(at[f"pass_at_k_{end}"].to_numpy(dtype=float) - value) for end in ("low", "high"))
            ax.errorbar(k, value, yerr=np.nan_to_num(np.stack([low, high])), fmt="none", ecolor=look.colour, elinewidth=0.9, capsize=2)
            ax.plot(k, value, **look.line | {"linestyle": ""}, zorder=3)
        elif role == "checked":
            ax.plot(k, value, look.marker, markerfacecolor="white", markeredgecolor=look.colour, zorder=2.6)
        elif role == "fitted":
            ax.plot(k, value, color=look.colour, linestyle=look.dash)
        else:
            last = rows[(rows["fit"] == fit) & (rows["role"] == "fitted")].sort_values("k").tail(1)
            joined = [np.append(last[name].to_numpy(dtype=float), ends) for name, ends in (("k", k), ("pass_at_k", value))]
            ax.plot(*joined, color=look.colour, linestyle=":", linewidth=1.8)
    if (rows["role"] == "extrapolated").any():
        ax.axvspan(drawn, float(rows["k"].max()) * 1.12, color="#eeeeee", zorder=0)
        style: dict[str, Any] = {"rotation": 90, "ha": "left", "va": "bottom", "fontsize": LABEL_SIZE - 1, "color": "#555555"}
        ax.text(drawn * 1.06, ax.get_ylim()[0] + 0.02 * np.ptp(ax.get_ylim()), "extrapolated", **style)


@styled
def stopping_tradeoff(frame: pd.DataFrame) -> Figure:
    """Success against the draws that each stopping rule used, as `analysis.stopping.tradeoff` returns it: one panel a pool.

    A line is a rule over its parameter; the band is the interval of `all`, which takes a fixed number of draws: a rule above it buys more
    with the same draws. Raises ValueError as `sampling_curves` does.
    """
    data = checked(frame, ("rule", "parameter", "draws", "success", "success_low", "success_high"), "analysis.stopping.tradeoff")
    data = data.assign(line=names(data, ("rule",), ("rule", "verifier") if data["verifier"].nunique() > 1 else ("rule",)))
    styles = looks(data["line"])
    limits = share_limits(data[["success", "success_low", "success_high"]].to_numpy(dtype=float))
    figure, axes, kept = _grid(data, limits, "success (share of all problems)")
    named: dict[Axes, list[End]] = {}
    for ax, (pool, rows) in zip(axes, kept, strict=True):
        named[ax] = []
        for line, points in rows.groupby("line", sort=False):
            look, at = styles[str(line)], points.sort_values(["draws", "success"])
            x, y = at["draws"].to_numpy(dtype=float), at["success"].to_numpy(dtype=float)
            if line == "all":
                low, high = (at[f"success_{end}"].to_numpy(dtype=float) for end in ("low", "high"))
                ax.fill_between(x, low, high, facecolor=to_rgba(look.colour, 0.12), linewidth=0)
            ax.plot(x, y, **look.line)
            named[ax].append(look.end(float(y[-1])))
        count_axis(ax, [k for k in (1, 2, 4, 8, 16, 32, 64, 128, 256) if k <= rows["draws"].max() * 1.01], "draws used, mean")
        titles(ax, pool, "")
    facts = [
        "each line: a rule over its parameter; band: interval of all",
        problems_in(data),
        *where(data),
        f"pools of {_draws(data)} draws",
        _orders(data),
        _left_out(data),
    ]
    return _labelled(figure, axes, facts, data, named, list(styles.values()))


def _selector(row: dict[Any, Any]) -> str:
    if row["oracle"]:
        return "any right (oracle)"
    verifier = row.get("verifier")
    return str(row["selector"]) if verifier is None or pd.isna(verifier) else f"{row['selector']}, {verifier}"


def _grid(data: pd.DataFrame, limits: tuple[float, float], label: str) -> tuple[Figure, list[Axes], list[tuple[str, pd.DataFrame]]]:
    """A panel for each of the first pools, with one share axis for all."""
    pools = [(str(pool), rows) for pool, rows in data.groupby(names(data, _POOL, _APART), sort=False)][:_MOST]
    columns = min(2, len(pools))
    lines = ceil(len(pools) / columns)
    figure, axes = panels(lines, columns, (4.4 if columns == 1 else 5.8, 0.8 + 2.0 * lines), sharey=True)
    for spare in axes[len(pools) :]:
        spare.set_axis_off()
    for i, ax in enumerate(axes[: len(pools)]):
        share_axis(ax, limits, label if i % columns == 0 else "")
    return figure, axes[: len(pools)], pools


def _labelled(
    figure: Figure, axes: Sequence[Axes], facts: Sequence[str], data: pd.DataFrame, named: dict[Axes, list[End]], styles: Sequence[Look]
) -> Figure:
    """Names beside the lines where there is one panel; below all panels where there are several."""
    if len(axes) == 1:
        return finished(figure, facts, simulated=simulated_of(data), named=named)
    _legend(figure, [_key(look.label, look) for look in styles])
    return finished(figure, facts, simulated=simulated_of(data))


def _key(label: str, look: Look, **changes: Any) -> Line2D:
    return Line2D([], [], **look.line | changes, label=label)


def _legend(figure: Figure, keys: Sequence[Line2D]) -> None:
    columns = max(1, int(figure.get_figwidth() / 1.5))
    figure.legend(handles=keys, loc="outside upper left", ncols=min(columns, len(keys)), fontsize=LABEL_SIZE, frameon=False, handlelength=3)


def _draws(data: pd.DataFrame) -> str:
    counts = sorted(set(data["n_draws"].astype(int)))
    return f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")


def _orders(data: pd.DataFrame) -> str:
    found = {str(value).partition("; ")[2] for value in data["method"]} if "method" in data.columns else set()
    return found.pop() if len(found) == 1 else ""


def _left_out(data: pd.DataFrame) -> str:
    pools = len(set(names(data, _POOL, _APART)))
    said = [f"the first {_MOST} of {pools} pools"] if pools > _MOST else []
    errors = int(data["left_out"].max()) if "left_out" in data.columns else 0
    if errors:
        said.append(f"{errors} {'problem' if errors == 1 else 'problems'} without draws (errors) left out")
    return " · ".join(said)
