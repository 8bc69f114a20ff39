"""Numbers from stored draws: estimators, intervals, comparisons. Pure functions over arrays; nothing here reads a store.

Names are imported on first use, so that `import ttc_eval` does not pay for numpy and scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttc_eval.metrics.comparison import (
        Comparison,
        McNemar,
        SignFlip,
        compare,
        holm,
        mcnemar,
        paired_difference,
        problems_needed,
        sign_flip_test,
    )
    from ttc_eval.metrics.estimators import best_of_n_at_k, cost_at_k, longest_at_k, pass_at_k, pass_hat_k, random_pick_at_k
    from ttc_eval.metrics.intervals import (
        Estimate,
        TwoLevel,
        cluster_mean,
        cluster_ratio,
        cluster_wilson,
        problem_bootstrap,
        two_level,
        wilson,
    )
    from ttc_eval.metrics.majority import majority_at_k
    from ttc_eval.metrics.ranking import Bin, auroc, auroc_pooled, auroc_within, brier, reliability
    from ttc_eval.metrics.resampling import Sampled, weighted_vote_at_k
    from ttc_eval.metrics.stopping import (
        Replay,
        Seen,
        accepted,
        best_scored,
        beta_criterion,
        esc_window,
        first_accepted,
        leading,
        locked_plurality,
        never,
        replay,
    )

__all__ = [
    "Bin",
    "Comparison",
    "Estimate",
    "McNemar",
    "Replay",
    "Sampled",
    "Seen",
    "SignFlip",
    "TwoLevel",
    "accepted",
    "auroc",
    "auroc_pooled",
    "auroc_within",
    "best_of_n_at_k",
    "best_scored",
    "beta_criterion",
    "brier",
    "cluster_mean",
    "cluster_ratio",
    "cluster_wilson",
    "compare",
    "cost_at_k",
    "esc_window",
    "first_accepted",
    "holm",
    "leading",
    "locked_plurality",
    "longest_at_k",
    "majority_at_k",
    "mcnemar",
    "never",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "problem_bootstrap",
    "problems_needed",
    "random_pick_at_k",
    "reliability",
    "replay",
    "sign_flip_test",
    "two_level",
    "weighted_vote_at_k",
    "wilson",
]

_MODULES = {
    "comparison": (
        "Comparison",
        "McNemar",
        "SignFlip",
        "compare",
        "holm",
        "mcnemar",
        "paired_difference",
        "problems_needed",
        "sign_flip_test",
    ),
    "estimators": ("best_of_n_at_k", "cost_at_k", "longest_at_k", "pass_at_k", "pass_hat_k", "random_pick_at_k"),
    "intervals": ("Estimate", "TwoLevel", "cluster_mean", "cluster_ratio", "cluster_wilson", "problem_bootstrap", "two_level", "wilson"),
    "majority": ("majority_at_k",),
    "ranking": ("Bin", "auroc", "auroc_pooled", "auroc_within", "brier", "reliability"),
    "resampling": ("Sampled", "weighted_vote_at_k"),
    "stopping": (
        "Replay",
        "Seen",
        "accepted",
        "best_scored",
        "beta_criterion",
        "esc_window",
        "first_accepted",
        "leading",
        "locked_plurality",
        "never",
        "replay",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
