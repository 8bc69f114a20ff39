"""Adaptive policies: another cell for each difficulty, chosen on some problems and measured on others (Snell et al., arXiv 2408.03314)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ttc_eval.analysis.frames import Floats, described, merged, one_data_set, policies_of, problem_values, solved_cells
from ttc_eval.analysis.pools import pools
from ttc_eval.errors import UserError
from ttc_eval.metrics import paired_difference
from ttc_eval.metrics.intervals import cluster_mean

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

By = Literal["label", "agreement", "success"]
Ints = NDArray[np.int64]


def difficulty_bins(study: Study, problems: Sequence[str], by: By, bins: int = 5, probe: int = 4) -> tuple[Ints, list[str]]:
    """The bin of each problem, 0 for the easiest, and the names of the bins.

    Args:
        by: `label` is the data set's own difficulty. `agreement` is what a system can see: the share of the plurality among the first
            `probe` draws. `success` is the share of right draws, which needs labels: an oracle.
        bins: of about equal size, for the two that are numbers; problems with equal values stay together, so there may be fewer.

    Raises `UserError` when the data set has no label, or no pool has the draws that are needed.
    """
    if by == "label":
        found = dict(study.sql("SELECT problem_id, difficulty FROM problems").itertuples(index=False, name=None))
        if any(not isinstance(found.get(problem), str) for problem in problems):
            raise UserError("by='label': the data set gives no difficulty; bin by 'agreement'")
        names = sorted(
            {found[problem] for problem in problems}, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)
        )
        return np.array([names.index(found[problem]) for problem in problems]), names
    pool = next((one for one in pools(study, at_least=probe if by == "agreement" else 2) if set(problems) <= set(one.problems)), None)
    if pool is None:
        raise UserError(f"by={by!r}: no pool has draws of all these problems")
    rows = [pool.problems.index(problem) for problem in problems]
    values = pool.correct[rows].mean(axis=1) if by == "success" else _agreement(pool.classes[rows, :probe])
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1), method="inverted_cdf"))
    which = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, max(0, len(edges) - 2))
    used = np.unique(which)[::-1]  # high success or agreement is easy
    names = [f"{by} {edges[place]:.2g} to {edges[min(place + 1, len(edges) - 1)]:.2g}" for place in used]
    return np.array([int(np.flatnonzero(used == place)[0]) for place in which]), names


def compute_optimal(
    study: Study,
    *,
    dataset: str | None = None,
    split: str | None = None,
    by: By = "agreement",
    bins: int = 5,
    probe: int = 4,
    folds: int = 2,
    seed: int = 0,
) -> pd.DataFrame:
    """At each cost, a cell for each difficulty bin against one cell for all, both chosen on other problems than they are measured on.

    Cells that differ in their seed alone are one, their mean.

    One row for each cost at which a cell stands: `cost` (output tokens per problem that may be spent on average), `success` with
    `_low` and `_high` of the policy by bins, `spent` (output tokens that it really spent), `fixed`, `fixed_low`, `fixed_high`,
    `fixed_spent` of the best cell for all problems, `difference` with `_low` and `_high` (paired), `n`, `by`, `bins`, `oracle` (True for
    `by="success"`), `dataset`, `split`, `simulated`, `tuned_on`, `measured_on`, `method`.

    The problems are dealt into `folds`; what is measured on one fold was chosen on the others (cross-fitting), so no problem has a part in
    the choice that is made for it. The policy by bins is the assignment of cells to bins with the highest success whose mean cost stays
    within `cost`, among those that are best for some price of a token; what is saved on easy bins may be spent on hard ones. `agreement`
    costs the probe's draws, which are spent before a cell is chosen: they are added to `spent` in full, though a vote could use them again.

    Raises `UserError` as `difficulty_bins` does, and when several data sets or splits are there and none is named.
    """
    import pandas as pd

    cells = one_data_set(solved_cells(study), dataset, split)
    values = problem_values(study, list(cells["cell_id"]), ["correct", "charged_output_tokens"])
    each = policies_of(cells)
    right, spent = merged(values["correct"], each), merged(values["charged_output_tokens"], each)
    problems = _problems(study, list(cells["cell_id"]))
    if not np.isfinite(spent).all():
        raise UserError("the output tokens of some problems are not known; policies cannot be held to a cost")
    if len(problems) < 2 * folds:
        raise UserError(f"{len(problems)} problems are too few to choose on some and measure on others; {2 * folds} are needed at least")
    which, names = difficulty_bins(study, problems, by, bins, probe)
    fold = np.random.default_rng(seed).permutation(len(problems)) % folds
    extra = _probe_cost(study, problems, probe) if by == "agreement" else np.zeros(len(problems))
    rows: list[dict[str, Any]] = []
    for cost in np.unique(spent.mean(axis=0)).tolist():
        adaptive, fixed = np.full(len(problems), -1), np.full(len(problems), -1)
        for held in range(folds):
            seen = fold != held
            best = _best(right[seen], spent[seen], cost)
            fixed[fold == held] = best
            assigned = _assignment(right[seen], spent[seen], which[seen], len(names), cost)
            for place, cell in enumerate(assigned):
                adaptive[(fold == held) & (which == place)] = cell
        if (fixed < 0).any():
            continue  # on some fold even the cheapest cell cost more
        adaptive = np.where(adaptive < 0, fixed, adaptive)  # a bin that no problem of the other folds is in
        line = np.arange(len(problems))
        by_bin, for_all = right[line, adaptive], right[line, fixed]
        one, other, apart = cluster_mean(by_bin), cluster_mean(for_all), paired_difference(by_bin, for_all)
        rows.append(
            {
                "dataset": cells["dataset"].iloc[0],
                "split": cells["split"].iloc[0],
                "simulated": bool(cells["simulated"].any()),
                "cost": cost,
                "success": one.value,
                "success_low": one.low,
                "success_high": one.high,
                "spent": float((spent[line, adaptive] + extra).mean()),
                "fixed": other.value,
                "fixed_low": other.low,
                "fixed_high": other.high,
                "fixed_spent": float(spent[line, fixed].mean()),
                "difference": apart.value,
                "difference_low": apart.low,
                "difference_high": apart.high,
                "n": len(problems),
                "by": by,
                "bins": len(names),
                "oracle": by == "success",
                "tuned_on": f"{cells['split'].iloc[0]}, the other of {folds} folds",
                "measured_on": f"{cells['split'].iloc[0]}, each fold in turn",
                "method": f"cross-fitted over {folds} folds of problems, seed {seed}; {one.method}",
            }
        )
    return pd.DataFrame(rows)


def choices(study: Study, cost: float, *, by: By = "agreement", bins: int = 5, probe: int = 4, split: str | None = None) -> pd.DataFrame:
    """The cell for each bin at a mean of `cost` output tokens per problem, chosen on all problems: to look at, not to report.

    Columns: `bin`, `problems`, `cell_id`, `policy`, `success` (on the problems that it was chosen on), `spent`, `tuned_on`, `measured_on`
    (the same).
    """
    import pandas as pd

    cells = one_data_set(solved_cells(study), None, split)
    values = problem_values(study, list(cells["cell_id"]), ["correct", "charged_output_tokens"])
    problems, each = _problems(study, list(cells["cell_id"])), policies_of(cells)
    right, spent = merged(values["correct"], each), merged(values["charged_output_tokens"], each)
    which, names = difficulty_bins(study, problems, by, bins, probe)
    rows = []
    assigned = _assignment(right, spent, which, len(names), cost)
    for place, (name, best) in enumerate(zip(names, assigned, strict=True)):
        if best < 0:
            continue
        inside, cell = which == place, cells.iloc[each[best][0]]
        rows.append(
            {
                "bin": name,
                "problems": int(inside.sum()),
                "cell_id": cell["cell_id"],
                "policy": described(cell),
                "success": float(right[inside, best].mean()),
                "spent": float(spent[inside, best].mean()),
                "tuned_on": cell["split"],
                "measured_on": cell["split"],
            }
        )
    return pd.DataFrame(rows)


def _best(right: Floats, spent: Floats, cost: float) -> int:
    """The cell with the highest success among those that stay within the cost; of equals the cheapest. −1: none does."""
    means, success = spent.mean(axis=0), right.mean(axis=0)
    fits = np.flatnonzero(means <= cost * (1 + 1e-9))
    if not fits.size:
        return -1
    return int(min(fits.tolist(), key=lambda place: (-float(success[place]), float(means[place]))))


def _assignment(right: Floats, spent: Floats, which: Ints, bins: int, cost: float) -> list[int]:
    """A cell for each bin: the best success at a mean cost within `cost`, among the assignments that a price of a token gives.

    For a price, each bin takes the cell with the highest success less price × cost (a Lagrangian), so the assignments lie on the hull of
    all. −1 for a bin without a problem, and for all when even the cheapest assignment costs more.
    """
    here = [place for place in range(bins) if (which == place).any()]
    success = np.stack([right[which == place].mean(axis=0) for place in here])
    means = np.stack([spent[which == place].mean(axis=0) for place in here])
    weight = np.array([(which == place).mean() for place in here])
    rise, run = success[:, :, None] - success[:, None, :], means[:, :, None] - means[:, None, :]
    prices = np.unique(np.append(np.clip(rise[run > 0] / run[run > 0], 0, None), 0.0))
    between = np.concatenate([prices, (prices[1:] + prices[:-1]) / 2, [prices[-1] * 2 + 1]])
    best: tuple[float, float, list[int]] | None = None
    for price in between.tolist():
        taken = [int(place) for place in np.argmax(success - price * means - 1e-12 * means, axis=1)]
        line = np.arange(len(here))
        spends, reaches = float(weight @ means[line, taken]), float(weight @ success[line, taken])
        if spends <= cost * (1 + 1e-9) and (best is None or (reaches, -spends) > best[:2]):
            best = (reaches, -spends, taken)
    found = [-1] * bins
    for place, cell in zip(here, best[2] if best is not None else [], strict=False):
        found[place] = cell
    return found


def _agreement(classes: Ints) -> Floats:
    """Votes of the plurality ÷ draws, for each problem; a draw without an answer votes for nothing."""
    return np.array([np.bincount(row[row >= 0]).max(initial=0) / len(row) if (row >= 0).any() else 0.0 for row in classes])


def _probe_cost(study: Study, problems: Sequence[str], probe: int) -> Floats:
    pool = next(one for one in pools(study, at_least=probe) if set(problems) <= set(one.problems))
    rows = [pool.problems.index(problem) for problem in problems]
    return np.asarray(pool.tokens[rows, :probe].sum(axis=1))


def _problems(study: Study, cell_ids: Sequence[str]) -> list[str]:
    """The problems that all cells have solved, in the order of `problem_values`."""
    solved_by_all = """SELECT problem_id FROM problem_outcomes WHERE list_contains(?, cell_id)
                       GROUP BY problem_id HAVING count(*) = ? ORDER BY problem_id"""
    frame = study.sql(solved_by_all, [list(cell_ids), len(cell_ids)])
    return [str(problem) for problem in frame["problem_id"]]
