"""Thresholds of adaptive policies: tuned on one split under a cap on their cost, measured once on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ttc_eval.analysis.frames import Floats, rows_or_columns, solved_cells
from ttc_eval.analysis.recommend import HELD_OUT, check_splits, of_data_set, of_split
from ttc_eval.analysis.tunables import Outcome, Tunable, tunables
from ttc_eval.errors import UserError
from ttc_eval.metrics.intervals import cluster_wilson

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

Unit = Literal["tokens", "usd"]

_COLUMNS = (
    *("family", "parameter", "policy", "tuned_on", "measured_on", "cap", "unit", "tried", "seeds"),
    *("dev_success", "dev_success_low", "dev_success_high", "dev_n", "dev_cost"),
    *("success", "success_low", "success_high", "n", "cost", "cap_held", "monte_carlo_error", "branded", "method"),
)


def tuned(
    study: Study,
    *,
    cap: float,
    unit: Unit = "tokens",
    dataset: str | None = None,
    tuned_on: str = "dev",
    measured_on: str = HELD_OUT,
    on_measured_split: bool = False,
    families: Sequence[str] | None = None,
    permutations: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """For each family, the parameter with the highest success on `tuned_on` at a mean cost within `cap`, measured once on `measured_on`.

    Args:
        cap: mean cost per problem on `tuned_on`, at most; unit: of it, `tokens` (output tokens) or `usd`, as charged.
        dataset: where the study has several; families: some of `tunables.FAMILIES`, by default all that the study holds.
        on_measured_split: allow tuning on the split that is measured, or on held-out. Such rows are branded: a choice looks better there
            than it is.
        permutations, seed: of the orders in which stopping rules see a pool.

    One row for each family over each pool (same model, thinking and request configuration on both splits), or each strategy with a second
    stage: labels, `family`, `parameter`, `policy` in words, `tuned_on`, `measured_on`, `cap`, `unit`, `tried` (parameters), `seeds`;
    `dev_success` with `_low` and `_high`, `dev_n` and `dev_cost` on the split that it was tuned on, whatever its name; `success` with
    `_low` and `_high`, `n` and `cost` on the one that it is measured on; `cap_held` (whether the cost stays within the cap there, too),
    `monte_carlo_error` of `success`, `branded`, `method`. Of parameters with the same success the cheapest is taken. Intervals are 95 %,
    over problems; that of `dev_success` knows nothing of the choice.

    What is needed: for a stopping rule, a pool with two draws or more of every problem on both splits (for `first_accepted`, with a score
    of each draw; the verifier is charged). For `cascade`, `route` and `verify_selectively`, a cell on each split, which shows the signals,
    and the draws and scores that the strategy asks for at every threshold. They are all there when it ran once at the threshold at which
    no answer is safe and, for `route`, once at the one at which none is hard. The strategy itself is replayed over them.

    Families without a parameter within the cap, of unknown cost, or without what they need on `measured_on` are named with the reason in
    `attrs["excluded"]`. Raises `UserError` for a cap that is not above 0, a split that is not there, tuning where it is measured without
    `on_measured_split`, a study that has nothing to tune, and draws or scores of a second stage that are not stored.
    """
    if not cap > 0 or not np.isfinite(cap):
        raise UserError(f"cap={cap}: give {unit} per problem, above 0")
    if unit not in ("tokens", "usd"):
        raise UserError(f"unit={unit}: give tokens or usd")
    cells = of_data_set(solved_cells(study), dataset)
    name = str(cells["dataset"].iloc[0])
    for split in (tuned_on, measured_on):
        of_split(cells, split)
    branded = check_splits(tuned_on, measured_on, on_measured_split)
    held = tunables(
        study, dataset=name, tuned_on=tuned_on, measured_on=measured_on, families=families, permutations=permutations, seed=seed
    )
    if not held:
        raise UserError(
            f"{study.path}: nothing to tune on split {tuned_on}; sample a pool (strategy=self_consistency_8) or run cascade, route or "
            "verify_selectively there"
        )
    excluded, rows = list[str](), list[dict[str, Any]]()
    for one in held:
        found = _tuned(one, cap, unit, tuned_on, measured_on)
        if isinstance(found, str):
            excluded.append(f"{one.name}: {found}")
        else:
            rows.append({**one.labels, **found, "branded": branded})
    frame = rows_or_columns(rows, _COLUMNS)
    if rows:
        frame = frame[[*(name for name in frame if name not in _COLUMNS), *_COLUMNS]]
    frame.attrs["excluded"] = excluded
    return frame


def _tuned(one: Tunable, cap: float, unit: Unit, tuned_on: str, measured_on: str) -> Mapping[str, Any] | str:
    """The row of a family, or why it has none."""
    if measured_on not in one.splits:
        return f"split {measured_on} has no such draws; run it there"
    seen = {parameter: one.on(tuned_on, parameter) for parameter in one.parameters}
    costs = {parameter: float(_cost(outcome, unit).mean()) for parameter, outcome in seen.items()}
    if not any(np.isfinite(cost) for cost in costs.values()):
        return f"its {unit} are not known for every call"
    within = [parameter for parameter, cost in costs.items() if cost <= cap * (1 + 1e-9)]
    if not within:
        return f"its cheapest parameter costs {min(cost for cost in costs.values() if np.isfinite(cost)):.6g} {unit} per problem"
    # Rounded, since means that are the same differ in their last digits, and of those the cheapest is meant.
    best = min(within, key=lambda parameter: (-round(float(seen[parameter].success.mean()), 9), costs[parameter]))
    there = seen[best] if measured_on == tuned_on else one.on(measured_on, best)
    here, measured, cost = cluster_wilson(seen[best].success), cluster_wilson(there.success), float(_cost(there, unit).mean())
    return {
        "family": one.family,
        "parameter": best,
        "policy": one.named(best),
        "tuned_on": tuned_on,
        "measured_on": measured_on,
        "cap": cap,
        "unit": unit,
        "tried": len(one.parameters),
        "seeds": there.seeds,
        "dev_success": here.value,
        "dev_success_low": here.low,
        "dev_success_high": here.high,
        "dev_n": here.n,
        "dev_cost": costs[best],
        "success": measured.value,
        "success_low": measured.low,
        "success_high": measured.high,
        "n": measured.n,
        "cost": cost,
        "cap_held": cost <= cap * (1 + 1e-9) if np.isfinite(cost) else None,
        "monte_carlo_error": there.error,
        "method": f"{there.method}; {measured.method}",
    }


def _cost(outcome: Outcome, unit: Unit) -> Floats:
    return outcome.tokens if unit == "tokens" else outcome.usd
