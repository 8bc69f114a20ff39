"""Figures: pure functions from a frame to a matplotlib `Figure`.

Nothing here touches pyplot or the global rcParams, so the functions are safe in a server, a thread and a notebook. Only `save`
writes files. Every figure says in itself what it shows: n, split, model and interval method stand in the caption, what
needs labels is marked "oracle", and simulated results carry a watermark in every panel.
"""

from ttc_eval.plots.bars import cost_decomposition, heat_map, latency, outcome_breakdown
from ttc_eval.plots.cells import budget_curve, cost_curve, overview, selection_gap
from ttc_eval.plots.curves import coverage_scaling, sampling_curves, stopping_tradeoff
from ttc_eval.plots.frontiers import cost_frontier, equal_cost_difference, policy_curve
from ttc_eval.plots.style import save
from ttc_eval.plots.verifier import verifier_audit

__all__ = [
    "budget_curve",
    "cost_curve",
    "cost_decomposition",
    "cost_frontier",
    "coverage_scaling",
    "equal_cost_difference",
    "heat_map",
    "latency",
    "outcome_breakdown",
    "overview",
    "policy_curve",
    "sampling_curves",
    "save",
    "selection_gap",
    "stopping_tradeoff",
    "verifier_audit",
]
