"""Numbers from stored draws: estimators and intervals. Pure functions over arrays; nothing here reads a store.

Names are imported on first use, so that `import ttc_eval` does not pay for numpy and scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttc_eval.metrics.estimators import best_of_n_at_k, majority_at_k, pass_at_k, pass_hat_k
    from ttc_eval.metrics.intervals import Estimate, Interval, cluster_mean, paired_difference, problem_bootstrap, wilson

__all__ = [
    "Estimate",
    "Interval",
    "best_of_n_at_k",
    "cluster_mean",
    "majority_at_k",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "problem_bootstrap",
    "wilson",
]

_HOME = dict.fromkeys(("best_of_n_at_k", "majority_at_k", "pass_at_k", "pass_hat_k"), "estimators")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME.get(name, 'intervals')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
