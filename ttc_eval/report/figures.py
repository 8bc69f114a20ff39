"""The figures of a report: those that a study has the data for, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ttc_eval import plots
from ttc_eval.analysis.audit import overoptimisation, reliability
from ttc_eval.analysis.comparisons import equal_cost_curve
from ttc_eval.analysis.costs import decomposition
from ttc_eval.analysis.frontiers import frontier
from ttc_eval.analysis.outcomes import breakdown
from ttc_eval.analysis.problems import heat_map, latency
from ttc_eval.analysis.sampling import curves
from ttc_eval.analysis.scaling import coverage
from ttc_eval.analysis.stopping import tradeoff
from ttc_eval.errors import UserError
from ttc_eval.report.split import deciding

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ttc_eval.study import Study

# The page shows these as the panels of the overview; they are files of their own for a paper.
IN_OVERVIEW = ("budget-curve", "selection-gap", "cost-curve")

_WILSON = "95 % Wilson intervals"


def drawn(study: Study, cells: pd.DataFrame, difficulties: pd.DataFrame) -> dict[str, tuple[str, Figure]]:
    """By file name: what the figure shows in words, and the figure. One that the study has no data for is left out."""
    of_success: dict[str, tuple[str, Callable[[], Figure]]] = {
        "overview": ("Success, selection gap and cost of every cell", lambda: plots.overview(cells, interval_method=_WILSON)),
        "budget-curve": ("Success by thinking budget", lambda: plots.budget_curve(cells, interval_method=_WILSON)),
        "selection-gap": ("Success and candidate-set success (oracle)", lambda: plots.selection_gap(cells, interval_method=_WILSON)),
        "cost-curve": ("Success by cost", lambda: plots.cost_curve(cells, interval_method=_WILSON)),
    }
    # Imported answers without a label leave success unknown, in every cell or in some.
    makers = of_success if cells["success"].notna().any() else {}
    if difficulties["strategy_label"].nunique() > 1:
        named = "Success of one draw by thinking budget and difficulty"
        method = f"one draw; {_WILSON}"
        makers["budget-curve-by-difficulty"] = (named, lambda: plots.budget_curve(difficulties, interval_method=method))
    makers |= {
        "cost-frontier": ("The cost frontier, and how sure it is", lambda: _frontier(study, cells)),
        "equal-cost": ("The best strategy against the cheapest, at equal cost", lambda: _equal_cost(study, cells)),
        "sampling-curves": ("What k draws would have given, by selector", lambda: plots.sampling_curves(curves(study, permutations=50))),
        "coverage-scaling": ("How coverage grows with draws (oracle)", lambda: plots.coverage_scaling(coverage(study))),
        "stopping": ("What stopping early saves", lambda: plots.stopping_tradeoff(tradeoff(study, permutations=50))),
        "outcomes": ("What came of every problem", lambda: plots.outcome_breakdown(breakdown(study))),
        "cost-parts": ("What the tokens went to", lambda: _cost_parts(study)),
        "latency": ("Seconds per problem", lambda: _latency(study)),
        "verifier": ("What the verifier knows", lambda: _verifier(study)),
        "problems": ("Problem by problem (oracle)", lambda: plots.heat_map(heat_map(study))),
    }
    found = {}
    for name, (alt, make) in makers.items():
        try:
            found[name] = (alt, make())
        except UserError:
            continue
    return found


def _frontier(study: Study, cells: pd.DataFrame) -> Figure:
    found = frontier(study, "tokens")
    found = found[found["split"].isin(set(deciding(cells)["split"]))]
    if found["cost"].isna().all():
        raise UserError("no cell has a known cost")
    return plots.cost_frontier(found)


def _equal_cost(study: Study, cells: pd.DataFrame) -> Figure:
    cells = deciding(cells)
    split = cells["split"].iloc[0] if cells["split"].nunique() == 1 else None
    best = cells.sort_values(["success", "mean_output_tokens"], ascending=[False, True])["strategy_label"].iloc[0]
    other = cells[cells["strategy_label"] != best].sort_values("mean_output_tokens")["strategy_label"]
    if other.empty or len(cells[["dataset", "model"]].drop_duplicates()) > 1:
        raise UserError("there is one strategy only, or several data sets or models, which are no alternatives of one another")
    return plots.equal_cost_difference(equal_cost_curve(study, best, other.iloc[0], split=split))


def _latency(study: Study) -> Figure:
    found = latency(study)
    if found["p50_s"].isna().all():
        raise UserError("no cell's latencies are all known")
    return plots.latency(found)


def _cost_parts(study: Study) -> Figure:
    parts = decomposition(study)
    charged = parts[parts["basis"] == "charged"]
    # Imported samples often come without their usage.
    if charged.groupby("cell_id")["tokens_per_problem"].apply(lambda known: known.isna().any()).all():
        raise UserError("no cell's tokens are all known")
    return plots.cost_decomposition(parts)


def _verifier(study: Study) -> Figure:
    bins = reliability(study)
    if bins.empty:
        raise UserError("no candidate has a score")
    return plots.verifier_audit(bins, overoptimisation(study))
