"""Is A better than B: on the same problems, and at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ttc_eval.analysis.frames import Floats, described, merged, one_data_set, policies_of, problem_values, solved_cells
from ttc_eval.analysis.frontiers import COST_COLUMNS, Cost
from ttc_eval.errors import UserError
from ttc_eval.metrics.comparison import compare, holm, mcnemar, problems_needed
from ttc_eval.metrics.frontier import equal_cost as difference_at
from ttc_eval.metrics.frontier import hull, hull_success, mixture_at
from ttc_eval.metrics.intervals import Estimate

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study


@dataclass(frozen=True, slots=True)
class EqualCost:
    """A against B where both cost `at` per problem.

    Attributes:
        a, b: the two in words; cost: what is equal (`usd`, `tokens`, `calls`, `latency`); at: how much of it per problem.
        success_a, success_b: of the best mixture of each that costs no more; difference: A minus B, paired by problem.
        needed: problems with which a difference of this size would be resolved four times in five; None where that cannot be told.
        simulated: whether a cell's answers were invented.
    """

    a: str
    b: str
    cost: Cost
    at: float
    success_a: float
    success_b: float
    difference: Estimate
    needed: int | None
    simulated: bool

    @property
    def verdict(self) -> str:
        """In words: which one is better, or that this is not resolvable and with how many problems it would be."""
        low, high, n = self.difference.low, self.difference.high, self.difference.n
        if low is not None and low > 0:
            return f"{self.a} is better"
        if high is not None and high < 0:
            return f"{self.b} is better"
        if self.needed is None:
            return f"not resolvable with {n} problems"
        return f"not resolvable with {n} problems; about {self.needed} would do"


def equal_cost(
    study: Study,
    a: str | Sequence[str],
    b: str | Sequence[str],
    *,
    cost: Cost = "tokens",
    at: float | None = None,
    dataset: str | None = None,
    split: str | None = None,
    seed: int = 0,
) -> EqualCost:
    """A against B at one cost per problem.

    Args:
        a, b: strategy labels (`best_of_n@8`), a strategy's name for all its cells (`best_of_n`), or cell ids. Several cells make a curve,
            whose randomised mixtures are read at the cost. Cells that differ in their seed alone are one policy, the mean of them.
        at: cost per problem; None: the largest that both reach, so that neither is held below its means.
        dataset, split: where the study has several.

    Raises `UserError` when a name fits no cell, a cost is unknown, or the two share no cost.
    """
    sides = _Sides.of(study, a, b, cost, dataset, split)
    at = sides.common()[1] if at is None else at
    difference = difference_at(sides.cost_a, sides.right_a, sides.cost_b, sides.right_b, at, seed=seed)
    mixed_a = mixture_at(sides.cost_a.mean(axis=0), sides.right_a.mean(axis=0), at)
    mixed_b = mixture_at(sides.cost_b.mean(axis=0), sides.right_b.mean(axis=0), at)
    if difference is None or mixed_a is None or mixed_b is None:
        low, high = sides.common()
        raise UserError(f"at={at:g}: one of the two costs more than that; both can be had from {low:g} {cost} per problem (up to {high:g})")
    values_a, values_b = mixed_a.of(sides.right_a), mixed_b.of(sides.right_b)
    return EqualCost(
        a=sides.name_a,
        b=sides.name_b,
        cost=cost,
        at=at,
        success_a=float(values_a.mean()),
        success_b=float(values_b.mean()),
        difference=difference,
        needed=problems_needed(values_a - values_b),
        simulated=sides.simulated,
    )


def equal_cost_curve(
    study: Study,
    a: str | Sequence[str],
    b: str | Sequence[str],
    *,
    cost: Cost = "tokens",
    dataset: str | None = None,
    split: str | None = None,
    points: int = 15,
    resamples: int = 1_000,
    seed: int = 0,
) -> pd.DataFrame:
    """A against B over all costs that both can be had for.

    Columns: cost, success_a, success_b, difference, difference_low, difference_high, n, method. `attrs` name the two (`a`, `b`), the unit
    (`cost`) and whether a cell is simulated. Arguments and errors are those of `equal_cost`; `points` costs are spread evenly on a log
    scale, and the corners of both hulls are among them.
    """
    import pandas as pd

    sides = _Sides.of(study, a, b, cost, dataset, split)
    low, high = sides.common()
    corners = [
        float(costs.mean(axis=0)[i])
        for costs, right in ((sides.cost_a, sides.right_a), (sides.cost_b, sides.right_b))
        for i in hull(costs.mean(axis=0), right.mean(axis=0))
    ]
    grid = np.geomspace(low, high, points) if low > 0 else np.linspace(low, high, points)
    at = np.unique([low, high, *grid[(grid > low) & (grid < high)], *(corner for corner in corners if low < corner < high)])
    rows = []
    for one in at.tolist():
        found = difference_at(sides.cost_a, sides.right_a, sides.cost_b, sides.right_b, one, resamples=resamples, seed=seed)
        assert found is not None
        rows.append(
            {
                "cost": one,
                "success_a": hull_success(sides.cost_a.mean(axis=0), sides.right_a.mean(axis=0), one),
                "success_b": hull_success(sides.cost_b.mean(axis=0), sides.right_b.mean(axis=0), one),
                "difference": found.value,
                "difference_low": found.low,
                "difference_high": found.high,
                "n": found.n,
                "method": found.method,
            }
        )
    frame = pd.DataFrame(rows)
    frame.attrs.update(a=sides.name_a, b=sides.name_b, cost=cost, simulated=sides.simulated, **sides.where)
    return frame


_PAIR = (
    *("cell_id_a", "cell_id_b", "a", "b", "dataset", "split", "n", "difference", "difference_low", "difference_high", "method"),
    *("mcnemar_p", "resolved", "needed", "simulated"),
)


def pairwise(study: Study, *, confidence: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Every pair of cells of one data set, split and seed, on the problems that both solved.

    Columns: cell_id_a, cell_id_b, a, b, dataset, split, n, difference (success of A minus B), difference_low, difference_high, method,
    mcnemar_p (exact), holm_p (McNemar's, adjusted over all pairs of the frame), resolved, needed (problems that would resolve it; None:
    cannot be told), simulated.
    """
    import pandas as pd

    cells = solved_cells(study)
    cells = cells[cells["success"].notna()]
    rows = []
    for (dataset, split, _), group in cells.groupby(["dataset", "split", "seed"], sort=False):
        wide = _answered(study, list(group["cell_id"]))
        for (_, a), (_, b) in combinations(group.iterrows(), 2):
            both = wide[[a["cell_id"], b["cell_id"]]].dropna()
            if both.empty:
                continue
            right = both.to_numpy(dtype=np.float64)
            found = compare(right[:, 0], right[:, 1], confidence=confidence, flips=1, seed=seed)
            rows.append(
                {
                    "cell_id_a": a["cell_id"],
                    "cell_id_b": b["cell_id"],
                    "a": described(a),
                    "b": described(b),
                    "dataset": dataset,
                    "split": split,
                    "n": len(right),
                    "difference": found.difference.value,
                    "difference_low": found.difference.low,
                    "difference_high": found.difference.high,
                    "method": found.difference.method,
                    "mcnemar_p": mcnemar(right[:, 0].astype(bool), right[:, 1].astype(bool)).p,
                    "resolved": found.resolved,
                    "needed": found.needed,
                    "simulated": bool(a["simulated"] or b["simulated"]),
                }
            )
    frame = pd.DataFrame(rows, columns=_PAIR)
    frame["holm_p"] = holm(frame["mcnemar_p"].tolist()) if len(frame) else []
    return frame


def _answered(study: Study, cell_ids: list[str]) -> pd.DataFrame:
    """Right (1) or not (0): a row for each problem, a column for each cell; NaN where the cell has not solved it."""
    frame = study.sql(
        "SELECT cell_id, problem_id, correct::DOUBLE AS correct FROM problem_outcomes WHERE list_contains(?, cell_id)", [cell_ids]
    )
    return frame.pivot(index="problem_id", columns="cell_id", values="correct").reindex(columns=cell_ids)


@dataclass(frozen=True, slots=True)
class _Sides:
    """Costs and successes of the two, shape (problems, cells of that side), on the same problems."""

    name_a: str
    name_b: str
    cost_a: Floats
    right_a: Floats
    cost_b: Floats
    right_b: Floats
    simulated: bool
    where: dict[str, str]

    @classmethod
    def of(cls, study: Study, a: str | Sequence[str], b: str | Sequence[str], cost: Cost, dataset: str | None, split: str | None) -> _Sides:
        cells = one_data_set(solved_cells(study), dataset, split)
        chosen_a, chosen_b = _chosen(cells, a, "A"), _chosen(cells, b, "B")
        ids = [*chosen_a["cell_id"], *chosen_b["cell_id"]]
        values = problem_values(study, ids, [COST_COLUMNS[cost], "correct"])
        here, there = policies_of(chosen_a), [[len(chosen_a) + place for place in one] for one in policies_of(chosen_b)]
        costs, right = values[COST_COLUMNS[cost]], values["correct"]
        if not np.isfinite(costs).all():
            raise UserError(f"cost={cost}: it is not known for every call of these cells; compare by another, for example cost='tokens'")
        where = {name: ", ".join(sorted({*chosen_a[name], *chosen_b[name]})) for name in ("dataset", "split", "model")}
        simulated = bool(chosen_a["simulated"].any() or chosen_b["simulated"].any())
        sides = [(merged(costs, places), merged(right, places)) for places in (here, there)]
        return cls(_named(a), _named(b), *sides[0], *sides[1], simulated, where)

    def common(self) -> tuple[float, float]:
        """The least and the largest cost per problem that both can be had for. Above the dearest of one it gains nothing more by paying."""
        ends = [(float(costs.mean(axis=0).min()), float(costs.mean(axis=0).max())) for costs in (self.cost_a, self.cost_b)]
        low = max(end[0] for end in ends)
        return low, max(low, min(end[1] for end in ends))


def _chosen(cells: pd.DataFrame, wanted: str | Sequence[str], side: str) -> pd.DataFrame:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    fits = cells["cell_id"].isin(names) | cells["strategy_label"].isin(names) | cells["strategy"].isin(names)
    if not fits.any():
        known = ", ".join(sorted(set(cells["strategy_label"])))
        raise UserError(f"{side}={_named(wanted)}: no cell has that label; the labels are: {known}")
    return cells[fits]


def _named(wanted: str | Sequence[str]) -> str:
    return wanted if isinstance(wanted, str) else ", ".join(wanted)
