"""The cheapest policy that reaches a target: chosen on one split, reported on another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ttc_eval.analysis.frames import LABELS, Floats, described, problem_values, solved_cells
from ttc_eval.errors import UserError
from ttc_eval.metrics.intervals import Estimate, cluster_wilson

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

# What makes two cells of different splits or seeds the same policy.
_POLICY = tuple(name for name in LABELS if name not in ("cell_id", "split", "seed", "simulated"))


@dataclass(frozen=True, slots=True)
class Demand:
    """What a policy has to reach.

    Attributes:
        success: least success, a share of all problems.
        confidence: with which the chosen policy has to reach it on the split that it is chosen on, over all policies together.
        max_usd, max_tokens: mean USD and mean output tokens per problem, at most; p95_latency_s: seconds that 95 % of problems stay within.
    """

    success: float
    confidence: float = 0.95
    max_usd: float | None = None
    max_tokens: float | None = None
    p95_latency_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.success <= 1:
            raise UserError(f"target success={self.success}: give a share above 0 and at most 1, for example 0.8")
        if not 0.5 <= self.confidence < 1:
            raise UserError(f"confidence={self.confidence}: give 0.5 to below 1, for example 0.95")
        for name in ("max_usd", "max_tokens", "p95_latency_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"{name}={value}: give a number above 0")


@dataclass(frozen=True, slots=True)
class Measured:
    """A policy on one split: success with a two-sided 95 % interval, its one-sided lower bound for the demand, and costs per problem.

    `bound` is corrected for the number of policies that were tried (Bonferroni). USD and seconds are None where they are unknown.
    """

    policy: str
    split: str
    success: Estimate
    bound: float | None
    usd: float | None
    tokens: float | None
    p95_latency_s: float | None
    seeds: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer.

    Attributes:
        chosen: the cheapest policy that meets the demand, on the split that it was chosen on; None: there is none.
        nearest: without one, the policy within the caps whose lower bound comes nearest to the target; None: none is within the caps.
        reported: the chosen policy on the other split; None where that does not have it.
        tried: how many policies there were; cost: what "cheapest" means, `usd` where every policy has a price, or else `tokens`.
        branded: whether the numbers come from the split that they were chosen on. Such a choice looks better than it is.
        simulated: whether answers were invented.
    """

    chosen: Measured | None
    nearest: Measured | None
    reported: Measured | None
    tried: int
    cost: str
    chosen_on: str
    reported_on: str
    branded: bool
    simulated: bool


def recommend(
    study: Study, demand: Demand, *, dataset: str | None = None, choose_on: str | None = None, report_on: str | None = None
) -> Recommendation:
    """The cheapest policy that meets `demand`, chosen by its lower confidence bound on one split and then measured on the other.

    Args:
        dataset: where the study has several; choose_on, report_on: splits; by default `dev` and `heldout`. Naming one split for both is
            allowed and brands the result, as does a study that has one split only.

    Cells that differ in their seed alone are one policy: each problem's outcome is the mean over them. A bound holds for all policies
    together: its level is 1 − (1 − confidence) ÷ number of policies (Bonferroni), so that trying many does not find one by luck.

    Raises `UserError` when the data set or a split is not there, or several data sets are and none is named.
    """
    cells = _of_data_set(solved_cells(study), dataset)
    splits = sorted(set(cells["split"]))
    first = choose_on or ("dev" if "dev" in splits else splits[0])
    second = report_on or ("heldout" if "heldout" in splits else next((split for split in splits if split != first), first))
    for split in (first, second):
        if split not in splits:
            raise UserError(f"split {split!r}: the study has no cell on it; its splits are: {', '.join(splits)}")
    policies = _policies(cells[cells["split"] == first])
    level = 1 - (1 - demand.confidence) / len(policies)
    measured = [_measured(study, group, level) for group in policies]
    cost = "usd" if all(one.usd is not None for one in measured) else "tokens"
    within = [place for place, one in enumerate(measured) if _within(one, demand)]
    good = [place for place in within if (measured[place].bound or 0.0) >= demand.success]
    chosen = min(good, key=lambda place: (_cost(measured[place], cost), -measured[place].success.value), default=None)
    nearest = None if good else max(within, key=lambda place: measured[place].bound or -1.0, default=None)
    shown = chosen if chosen is not None else nearest
    reported = None
    if shown is not None and second != first:
        other = [group for group in _policies(cells[cells["split"] == second]) if _key(group) == _key(policies[shown])]
        reported = _measured(study, other[0], demand.confidence) if other else None
    return Recommendation(
        chosen=None if chosen is None else measured[chosen],
        nearest=None if nearest is None else measured[nearest],
        reported=reported,
        tried=len(policies),
        cost=cost,
        chosen_on=first,
        reported_on=second,
        branded=first == second,
        simulated=bool(cells["simulated"].any()),
    )


def _of_data_set(cells: pd.DataFrame, dataset: str | None) -> pd.DataFrame:
    names = sorted(set(cells["dataset"]))
    if dataset is None and len(names) > 1:
        raise UserError(f"the study has several data sets; name one with --dataset: {', '.join(names)}")
    if dataset is not None and dataset not in names:
        raise UserError(f"dataset {dataset!r}: the study has no cell on it; it has: {', '.join(names)}")
    return cells if dataset is None else cells[cells["dataset"] == dataset]


def _key(group: pd.DataFrame) -> tuple[str, ...]:
    return tuple(str(group.iloc[0][name]) for name in _POLICY if name in group)


def _policies(cells: pd.DataFrame) -> list[pd.DataFrame]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for place in range(len(cells)):
        groups.setdefault(_key(cells.iloc[[place]]), []).append(place)
    return [cells.iloc[places] for places in groups.values()]


def _measured(study: Study, cells: pd.DataFrame, level: float) -> Measured:
    columns = ["correct", "charged_usd", "charged_output_tokens", "latency_s"]
    values = problem_values(study, list(cells["cell_id"]), columns)
    right = values["correct"].mean(axis=1)
    low = cluster_wilson(right, 2 * level - 1).low
    first = cells.iloc[0]
    return Measured(
        policy=described(first) + ("" if not isinstance(first.get("variant"), str) else f" · {first['variant']}"),
        split=str(first["split"]),
        success=cluster_wilson(right),
        bound=low,
        usd=_mean(values["charged_usd"]),
        tokens=_mean(values["charged_output_tokens"]),
        p95_latency_s=_p95(values["latency_s"]),
        seeds=len(cells),
    )


def _within(one: Measured, demand: Demand) -> bool:
    """Whether a policy stays within the caps. What is unknown is not within any."""
    caps = ((one.usd, demand.max_usd), (one.tokens, demand.max_tokens), (one.p95_latency_s, demand.p95_latency_s))
    return all(cap is None or (value is not None and value <= cap) for value, cap in caps)


def _cost(one: Measured, cost: str) -> float:
    value = one.usd if cost == "usd" else one.tokens
    return float("inf") if value is None else value


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if np.isfinite(values).all() else None


def _p95(values: Floats) -> float | None:
    return float(np.quantile(values, 0.95)) if np.isfinite(values).all() else None


def in_words(found: Recommendation, demand: Demand) -> list[str]:
    """The recommendation as lines of text: what was found, on which split, and what to keep in mind."""
    lines: list[str] = []
    shown: Measured | None = found.chosen or found.nearest
    if found.chosen is not None:
        lines.append(f"{found.chosen.policy}")
        lines.append(f"chosen on {found.chosen_on}: {_said(found.chosen)}; lower bound {_share(found.chosen.bound)} ≥ {demand.success:.1%}")
    elif found.nearest is not None:
        lines.append(f"none; the nearest is {found.nearest.policy}")
        lines.append(f"on {found.chosen_on}: {_said(found.nearest)}; lower bound {_share(found.nearest.bound)} < {demand.success:.1%}")
    else:
        lines.append("none; no policy of this study stays within the caps with a known cost")
    if found.reported is not None:
        lines.append(f"reported on {found.reported_on}, which had no part in the choice: {_said(found.reported)}")
    elif shown is not None and not found.branded:
        lines.append(f"split {found.reported_on} has no such cell: run it there to report it")
    if found.branded:
        lines.append(f"TUNED ON THE SPLIT IT IS MEASURED ON ({found.chosen_on}): a choice looks better there than it is")
    many = f"{found.tried} policies were tried, and the bound holds for all of them together at {demand.confidence:.0%} (Bonferroni)"
    lines.append(f"{many}; the cheapest by {'USD' if found.cost == 'usd' else 'output tokens, since not every policy has a price'}")
    return [*lines, "SIMULATED: the answers of this study were invented"] if found.simulated else lines


def _said(one: Measured) -> str:
    ends = "" if one.success.low is None else f" [{one.success.low:.1%}, {one.success.high:.1%}]"
    costs: list[tuple[str, Any]] = [("{:.1f} output tokens", one.tokens), ("{:.6f} USD", one.usd), ("p95 {:.2f} s", one.p95_latency_s)]
    known = ", ".join(text.format(value) for text, value in costs if value is not None)
    return f"success {one.success.value:.1%}{ends} of n = {one.success.n}" + (f"; {known} per problem" if known else "; cost unknown")


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"
