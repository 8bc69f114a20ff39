"""Which cells are worth their cost, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ttc_eval.analysis.frames import Floats, described, labels_of, merged, policies_of, problem_values, solved_cells
from ttc_eval.metrics.frontier import frontier_probability, hull, on_frontier
from ttc_eval.metrics.intervals import cluster_mean, wilson

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

Cost = Literal["usd", "tokens", "calls", "latency"]

# What one problem is charged, in the unit of the cost: USD, output tokens, calls, seconds of the critical path.
COST_COLUMNS = {"usd": "charged_usd", "tokens": "charged_output_tokens", "calls": "charged_calls", "latency": "latency_s"}


def frontier(study: Study, cost: Cost = "tokens", *, resamples: int = 2_000, seed: int = 0) -> pd.DataFrame:
    """Policies with their cost and success per problem, and whether they are on the frontier, within each data set and split.

    A policy is a cell, or several that differ in their seed alone: those are one row, their mean, with the first one's labels.

    Args:
        cost: `usd`, `tokens` (output), `calls`, or `latency` (seconds of the critical path), as charged.
        resamples, seed: of the bootstrap over problems.

    Returns the labels and `cost`, `cost_low`, `cost_high` (t over problems), `success`, `success_low`, `success_high` (Wilson, or t over
    problems for a mean of seeds), `n`, `seeds`, `on_frontier`, `on_hull` (a corner of the hull of randomised mixtures) and
    `frontier_probability`. A policy whose cost is unknown has NaN there, is on no frontier, and is named in `attrs["excluded"]`. Policies
    are compared on the problems that all of them solved.
    """
    import pandas as pd

    cells = solved_cells(study)
    parts = []
    for _, group in cells.groupby(["dataset", "split"], sort=False):
        parts.append(_of_one_data_set(study, group.reset_index(drop=True), cost, resamples, seed))
    found = pd.concat(parts, ignore_index=True)
    found.attrs["excluded"] = [described(row) for _, row in found[found["cost"].isna()].iterrows()]
    found.attrs["cost"] = cost
    return found


def _of_one_data_set(study: Study, cells: pd.DataFrame, cost: Cost, resamples: int, seed: int) -> pd.DataFrame:
    column, policies = COST_COLUMNS[cost], policies_of(cells)
    values = problem_values(study, list(cells["cell_id"]), [column, "correct"])
    costs, right = merged(values[column], policies), merged(values["correct"], policies)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(costs).all(axis=0))
    costs = np.where(known, costs, np.nan)
    means = costs.mean(axis=0)
    success = right.mean(axis=0)
    corners, steps = set(hull(means, success)), np.asarray(on_frontier(means, success)).tolist()
    spread = [cluster_mean(costs[:, i], share=False) if known[i] else None for i in range(len(policies))]
    alone = [_success(right[:, i], len(places)) for i, places in enumerate(policies)]
    return labels_of(cells.iloc[[places[0] for places in policies]].reset_index(drop=True)).assign(
        cost=means,
        cost_low=[np.nan if one is None or one.low is None else max(0.0, one.low) for one in spread],
        cost_high=[np.nan if one is None or one.high is None else one.high for one in spread],
        success=success,
        success_low=[low for low, _ in alone],
        success_high=[high for _, high in alone],
        n=len(right),
        seeds=[len(places) for places in policies],
        on_frontier=steps,
        on_hull=[i in corners for i in range(len(policies))],
        frontier_probability=frontier_probability(costs, right, resamples=resamples, seed=seed),
        method=f"success: Wilson; cost: t over problems; frontier: {resamples} resamples of problems, seed {seed}",
    )


def _success(right: Floats, seeds: int) -> tuple[float, float]:
    """Ends of the interval of success: Wilson, or t over problems for a mean over seeds, whose values are no counts."""
    found = wilson(int(right.sum()), len(right)) if seeds == 1 else cluster_mean(right)
    return (np.nan if found.low is None else found.low), (np.nan if found.high is None else found.high)
