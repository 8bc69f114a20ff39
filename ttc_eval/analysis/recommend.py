"""The cheapest policy that reaches a target: chosen on one split, reported on another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ttc_eval.analysis.frames import Floats, described, problem_values, solved_cells
from ttc_eval.analysis.tunables import Tunable, tunables
from ttc_eval.errors import UserError
from ttc_eval.metrics.intervals import Estimate, cluster_wilson
from ttc_eval.variants import policy_keys

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

HELD_OUT = "heldout"
# A policy, measured on a split with a bound at a level; None: the split does not have it.
_Measure = Callable[[str, float], "Measured | None"]


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
        tried: how many policies there were; thresholds: how many of them are other thresholds than the cells have.
        cost: what "cheapest" means, `usd` where every policy has a price, or else `tokens`.
        branded: whether the numbers come from the split that they were chosen on, or the choice was made on held-out. Such a choice looks
            better than it is.
        simulated: whether answers were invented.
    """

    chosen: Measured | None
    nearest: Measured | None
    reported: Measured | None
    tried: int
    thresholds: int
    cost: str
    chosen_on: str
    reported_on: str
    branded: bool
    simulated: bool


def recommend(
    study: Study,
    demand: Demand,
    *,
    dataset: str | None = None,
    choose_on: str | None = None,
    report_on: str | None = None,
    tune: Sequence[str] = (),
    on_measured_split: bool = False,
) -> Recommendation:
    """The cheapest policy that meets `demand`, chosen by its lower confidence bound on one split and then measured on the other.

    Args:
        dataset: where the study has several; choose_on, report_on: splits; by default `dev` and `heldout`. Naming one split for both is
            allowed and brands the result, as does a study that has one split only.
        tune: families of `tunables.FAMILIES` whose thresholds are tried as well, each as a policy of its own.
        on_measured_split: allow `tune` on the split that is reported, or on held-out.

    Cells that differ in their seed alone are one policy: each problem's outcome is the mean over them. A bound holds for all policies
    together: its level is 1 − (1 − confidence) ÷ number of policies (Bonferroni), so that trying many does not find one by luck.

    Raises `UserError` when the data set or a split is not there, or several data sets are and none is named; with `tune` also as
    `tunables` and `check_splits` do.
    """
    cells = of_data_set(solved_cells(study), dataset)
    splits = sorted(set(cells["split"]))
    first = choose_on or ("dev" if "dev" in splits else splits[0])
    second = report_on or (HELD_OUT if HELD_OUT in splits else next((split for split in splits if split != first), first))
    for split in (first, second):
        of_split(cells, split)
    branded = check_splits(first, second, on_measured_split or not tune)
    policies = _policies(study, cells)
    measures: list[_Measure] = [partial(_of_cells, study, by_split) for by_split in policies if first in by_split]
    among = len(measures)
    if tune:
        name = str(cells["dataset"].iloc[0])
        held = tunables(study, dataset=name, tuned_on=first, measured_on=second, families=tune)
        measures += [partial(_tuned, one, parameter) for one in held for parameter in one.parameters]
    level = 1 - (1 - demand.confidence) / len(measures)
    measured = [one for measure in measures if (one := measure(first, level)) is not None]
    cost = "usd" if all(one.usd is not None for one in measured) else "tokens"
    within = [place for place, one in enumerate(measured) if _within(one, demand)]
    good = [place for place in within if (measured[place].bound or 0.0) >= demand.success]
    chosen = min(good, key=lambda place: (_cost(measured[place], cost), -measured[place].success.value), default=None)
    nearest = None if good else max(within, key=lambda place: measured[place].bound or -1.0, default=None)
    shown = chosen if chosen is not None else nearest
    return Recommendation(
        chosen=None if chosen is None else measured[chosen],
        nearest=None if nearest is None else measured[nearest],
        reported=None if shown is None or second == first else measures[shown](second, demand.confidence),
        tried=len(measures),
        thresholds=len(measures) - among,
        cost=cost,
        chosen_on=first,
        reported_on=second,
        branded=branded,
        simulated=bool(cells["simulated"].any()),
    )


def of_data_set(cells: pd.DataFrame, dataset: str | None) -> pd.DataFrame:
    """The cells of a data set. Raises `UserError` when it is not there, or when there are several and none is named."""
    names = sorted(set(cells["dataset"]))
    if dataset is None and len(names) > 1:
        raise UserError(f"the study has several data sets; name one with --dataset: {', '.join(names)}")
    if dataset is not None and dataset not in names:
        raise UserError(f"dataset {dataset!r}: the study has no cell on it; it has: {', '.join(names)}")
    return cells if dataset is None else cells[cells["dataset"] == dataset]


def of_split(cells: pd.DataFrame, split: str) -> pd.DataFrame:
    """The cells of a split. Raises `UserError` when there is none."""
    splits = sorted(set(cells["split"]))
    if split not in splits:
        raise UserError(f"split {split!r}: the study has no cell on it; its splits are: {', '.join(splits)}")
    return cells[cells["split"] == split]


def check_splits(chosen_on: str, measured_on: str, allowed: bool) -> bool:
    """Whether a choice made so is branded. Raises `UserError` when it is, and that was not asked for."""
    branded = chosen_on in (measured_on, HELD_OUT)
    if branded and not allowed:
        raise UserError(
            f"tuning on {chosen_on} and measuring on {measured_on} shows a choice where it looks better than it is; tune on another split, "
            "or say on_measured_split=True (--on-measured-split), which brands the result"
        )
    return branded


def _policies(study: Study, cells: pd.DataFrame) -> list[dict[str, pd.DataFrame]]:
    """The cells of each policy, by split. Of cells that differ in their problems alone, the one with the most."""
    stored = study.sql("SELECT cell_id, config, endpoint FROM cells").set_index("cell_id").loc[list(cells["cell_id"])]
    configs = [orjson.loads(config) for config in stored["config"]]
    keys = policy_keys(list(zip(configs, stored["endpoint"], cells["split"], cells["seed"], strict=True)))
    groups: dict[str, dict[str, list[int]]] = {}
    for place, (key, split) in enumerate(zip(keys, cells["split"], strict=True)):
        groups.setdefault(key, {}).setdefault(str(split), []).append(place)
    return [{split: _largest(cells.iloc[places]) for split, places in by_split.items()} for by_split in groups.values()]


def _largest(cells: pd.DataFrame) -> pd.DataFrame:
    return cells.sort_values("n_problems", ascending=False, kind="stable").drop_duplicates("seed").sort_index()


def _of_cells(study: Study, by_split: Mapping[str, pd.DataFrame], split: str, level: float) -> Measured | None:
    """The policy of these cells on a split."""
    return _measured(study, by_split[split], level) if split in by_split else None


def _tuned(one: Tunable, parameter: float, split: str, level: float) -> Measured | None:
    """A family at a parameter on a split."""
    if split not in one.splits:
        return None
    found = one.on(split, parameter)
    return _of_values(one.named(parameter), split, found.success, (found.usd, found.tokens, found.latency_s), found.seeds, level)


def _measured(study: Study, cells: pd.DataFrame, level: float) -> Measured:
    columns = ["correct", "charged_usd", "charged_output_tokens", "latency_s"]
    values = problem_values(study, list(cells["cell_id"]), columns)
    first = cells.iloc[0]
    name = described(first) + ("" if not isinstance(first.get("variant"), str) else f" · {first['variant']}")
    costs = (values["charged_usd"], values["charged_output_tokens"], values["latency_s"])
    return _of_values(name, str(first["split"]), values["correct"].mean(axis=1), costs, len(cells), level)


def _of_values(name: str, split: str, right: Floats, costs: tuple[Floats, Floats, Floats], seeds: int, level: float) -> Measured:
    usd, tokens, latency = costs
    return Measured(
        policy=name,
        split=split,
        success=cluster_wilson(right),
        bound=cluster_wilson(right, 2 * level - 1).low,
        usd=_mean(usd),
        tokens=_mean(tokens),
        p95_latency_s=_p95(latency),
        seeds=seeds,
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
    elif shown is not None and found.chosen_on != found.reported_on:
        lines.append(f"split {found.reported_on} has no such cell: run it there to report it")
    if found.branded and found.chosen_on == found.reported_on:
        lines.append(f"TUNED ON THE SPLIT IT IS MEASURED ON ({found.chosen_on}): a choice looks better there than it is")
    elif found.branded:
        lines.append(f"TUNED ON {found.chosen_on}: that split can no longer tell how good a choice is")
    tried = f"{found.tried} policies" + (f", {found.thresholds} of them thresholds," if found.thresholds else "")
    many = f"{tried} were tried, and the bound holds for all of them together at {demand.confidence:.0%} (Bonferroni)"
    lines.append(f"{many}; the cheapest by {'USD' if found.cost == 'usd' else 'output tokens, since not every policy has a price'}")
    return [*lines, "SIMULATED: the answers of this study were invented"] if found.simulated else lines


def _said(one: Measured) -> str:
    ends = "" if one.success.low is None else f" [{one.success.low:.1%}, {one.success.high:.1%}]"
    costs: list[tuple[str, Any]] = [("{:.1f} output tokens", one.tokens), ("{:.6f} USD", one.usd), ("p95 {:.2f} s", one.p95_latency_s)]
    known = ", ".join(text.format(value) for text, value in costs if value is not None)
    return f"success {one.success.value:.1%}{ends} of n = {one.success.n}" + (f"; {known} per problem" if known else "; cost unknown")


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"
