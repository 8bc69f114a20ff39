"""Figures of success against cost: the frontier and how sure it is, A against B at equal cost, policies by difficulty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ttc_eval.plots.axes import cost_axis, interval_bars, percent, share_axis, share_limits, titles
from ttc_eval.plots.layout import finished, panels, styled
from ttc_eval.plots.look import looks
from ttc_eval.plots.series import natural
from ttc_eval.plots.style import EDGE, LABEL_SIZE, plain_text
from ttc_eval.plots.tidy import checked, method_of, names, problems_in, simulated_of, where

_UNITS = {"usd": "USD", "tokens": "output tokens", "calls": "calls", "latency": "seconds of the critical path"}
_LIKELY = 0.05
_MOST = 12


@styled
def cost_frontier(frame: pd.DataFrame) -> Figure:
    """Success against cost with the frontier, and how often each cell is on it, as `analysis.frontiers.frontier` returns it.

    Above: every cell with a known cost, with interval bars; the grey steps are the frontier, the dashes the hull of randomised mixtures.
    Below: the cells with at least 5 % of the resampled sets of problems that have them on the frontier. Cells without a cost are named
    in the caption, never shown as free. Raises ValueError for a frame that lacks a column, holds no row, or no known cost.
    """
    needed = ("cost", "success", "on_frontier", "on_hull", "frontier_probability")
    data = checked(frame, needed, "analysis.frontiers.frontier")
    known = data[data["cost"].notna()].reset_index(drop=True)
    if known.empty:
        raise ValueError("no cell has a known cost")
    known = known.assign(line=names(known, among=("strategy_label", "model", "dataset", "split", "verifier", "variant")))
    styles = looks(sorted(set(known["line"]), key=natural))
    likely = known[known["frontier_probability"] >= _LIKELY].nlargest(_MOST, "frontier_probability").sort_values("cost")
    longest = max(len(line) for line in known["line"])
    size = (3.6 + 0.065 * min(longest, 40), 3.4 + 0.17 * len(likely))
    figure, (ax, sure) = panels(2, 1, size, gridspec_kw={"height_ratios": (2.5, 0.35 + 0.17 * max(1, len(likely)))})
    ends = []
    for line, points in sorted(known.groupby("line"), key=lambda pair: natural(str(pair[0]))):
        look, at = styles[str(line)], points.sort_values("cost")
        x, y = at["cost"].to_numpy(dtype=float), at["success"].to_numpy(dtype=float)
        for along, name in (("y", "success"), ("x", "cost")):
            low, high = (at[f"{name}_{end}"].to_numpy(dtype=float) for end in ("low", "high"))
            interval_bars(ax, look.colour, x, y, (low, high), along, faint=True)
        ax.plot(x, y, look.marker, color=look.colour, **EDGE)
        ends.append(look.end(float(y[-1])))
    cost_axis(ax, known["cost"].to_numpy(dtype=float), f"{_UNITS.get(frame.attrs.get('cost', ''), 'cost')} per problem, charged")
    for _, group in known.groupby(["dataset", "split"], sort=False) if "split" in known.columns else [("", known)]:
        steps = group[group["on_frontier"]].sort_values("cost")
        ax.step(
            np.append(steps["cost"], ax.get_xlim()[1]),
            np.append(steps["success"], steps["success"].iloc[-1]),
            where="post",
            color="#777777",
            linewidth=1.1,
            zorder=1.4,
        )
        corners = group[group["on_hull"]].sort_values("cost")
        ax.plot(corners["cost"], corners["success"], color="#777777", linestyle=(0, (4, 2)), linewidth=0.9, zorder=1.4)
    ends_of = ["success", "success_low", "success_high"]
    share_axis(ax, share_limits(known[ends_of].to_numpy(dtype=float)), "success (share of all problems)")
    titles(ax, "Success by cost", "grey: frontier; dashed: hull of randomised mixtures")
    for place, row in enumerate(likely.to_dict("records")):
        colour = styles[row["line"]].colour
        sure.barh(place, row["frontier_probability"], color=colour, edgecolor="#333333", linewidth=0.5, height=0.62)
        said = f"{percent(round(row['frontier_probability'], 2))}  {_policy(row)}"
        sure.text(row["frontier_probability"] + 0.02, place, said, va="center", fontsize=LABEL_SIZE, in_layout=False)
    sure.set_yticks([])
    sure.invert_yaxis()
    sure.set_xlim(0, 2.0)
    sure.set_xticks((0, 0.25, 0.5, 0.75, 1.0))
    sure.xaxis.set_major_formatter(FuncFormatter(percent))
    sure.grid(False, axis="y")
    titles(sure, "How often on the frontier", "share of resampled sets of problems; cheapest first")
    unknown = len(data) - len(known)
    left = f"{unknown} {'cell' if unknown == 1 else 'cells'} of unknown cost not shown" if unknown else ""
    seeds = int(known["seeds"].max()) if "seeds" in known.columns else 1
    averaged = f"points are means over {'up to ' * (int(known['seeds'].min()) < seeds)}{seeds} seeds" if seeds > 1 else ""
    return finished(
        figure, [problems_in(known), *where(known), averaged, method_of(known), left], simulated=simulated_of(known), named={ax: ends}
    )


def _policy(row: dict[Any, Any]) -> str:
    return plain_text(f"{row['line']} · {row['thinking_label']}" if row.get("thinking_label") else row["line"], 48)


@styled
def equal_cost_difference(frame: pd.DataFrame) -> Figure:
    """Success of A minus B where both cost the same, over all costs that both can be had for.

    `frame` is what `analysis.comparisons.equal_cost_curve` returns; its `attrs` name the two. Where the band holds 0, the difference is not
    resolved. Raises ValueError for a frame that lacks a column or holds no row.
    """
    needed = ("cost", "difference", "difference_low", "difference_high")
    data, said = checked(frame, needed, "analysis.comparisons.equal_cost_curve"), frame.attrs
    a, b = (plain_text(said.get(side, side.upper()), 30) for side in ("a", "b"))
    figure, (ax,) = panels(1, 1, (4.2, 2.8))
    x, y, low, high = (data[name].to_numpy(dtype=float) for name in needed)
    (look,) = looks([f"{a} − {b}"]).values()
    ax.axhline(0, color="#555555", linewidth=0.9)
    ax.fill_between(x, low, high, facecolor=to_rgba(look.colour, 0.15), edgecolor=to_rgba(look.colour, 0.5), linewidth=0.5)
    ax.plot(x, y, **look.line | ({} if len(x) < 30 else {"marker": ""}))
    cost_axis(ax, x, f"{_UNITS.get(said.get('cost', ''), 'cost')} per problem, both the same")
    edge = 1.15 * float(np.nanmax(np.abs(np.concatenate([low, high, y])))) or 0.01
    ax.set_ylim(-edge, edge)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:+.3g}".replace("-", "−")))
    ax.set_ylabel("difference of success, points")
    beside: dict[str, Any] = {"transform": ax.transAxes, "fontsize": LABEL_SIZE, "color": "#333333", "ha": "right"}
    ax.text(0.99, 0.985, f"{a} better", va="top", **beside)
    ax.text(0.99, 0.015, f"{b} better", va="bottom", **beside)
    titles(ax, "Equal cost", f"{a} minus {b}, paired by problem; band: interval")
    facts = [problems_in(data), *(f"{name} {said[name]}" for name in ("dataset", "split", "model") if said.get(name)), method_of(data)]
    return finished(figure, facts, simulated="simulated" if said.get("simulated") else "")


@styled
def policy_curve(frame: pd.DataFrame) -> Figure:
    """Success of a policy by difficulty and of one cell for all, against what each really spent.

    `frame` is what `analysis.policies.compute_optimal` returns. Both were chosen on other problems than they are measured on; the caption
    says on which. Raises ValueError for a frame that lacks a column or holds no row.
    """
    needed = ("spent", "success", "success_low", "success_high", "fixed_spent", "fixed", "fixed_low", "fixed_high", "by", "bins")
    data = checked(frame, needed, "analysis.policies.compute_optimal")
    figure, (ax,) = panels(1, 1, (4.6, 2.9))
    by, bins = data["by"].iloc[0], int(data["bins"].max())
    oracle = bool(data["oracle"].any()) if "oracle" in data.columns else False
    styles = looks([f"by {by}{' (oracle)' if oracle else ''}", "one for all"])
    ends = []
    for look, cost, name in zip(styles.values(), ("spent", "fixed_spent"), ("success", "fixed"), strict=True):
        at = data.sort_values(cost)
        x, y = at[cost].to_numpy(dtype=float), at[name].to_numpy(dtype=float)
        ax.fill_between(
            x, at[f"{name}_low"].astype(float), at[f"{name}_high"].astype(float), facecolor=to_rgba(look.colour, 0.12), linewidth=0
        )
        ax.plot(x, y, **look.line)
        ends.append(look.end(float(y[-1])))
    cost_axis(ax, data[["spent", "fixed_spent"]].to_numpy(dtype=float).ravel(), "output tokens per problem, spent")
    shares = ["success", "success_low", "success_high", "fixed", "fixed_low", "fixed_high"]
    share_axis(ax, share_limits(data[shares].to_numpy(dtype=float)), "success (share of all problems)")
    titles(ax, "Spending by difficulty", f"a policy for each of {bins} bins by {by}; band: interval")
    tuned = [
        f"{word} on {data[column].iloc[0]}" for word, column in (("chosen", "tuned_on"), ("measured", "measured_on")) if column in data
    ]
    return finished(figure, [problems_in(data), *where(data), *tuned, method_of(data)], simulated=simulated_of(data), named={ax: ends})
