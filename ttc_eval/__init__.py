"""ttc_eval: measure what test-time compute buys, and what it costs.

    import ttc_eval
    study = ttc_eval.open_study("results/quickstart.duckdb")
    study.cells()

The command line is `ttc-eval`. Estimators are in `ttc_eval.metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttc_eval.study import Study as Study
    from ttc_eval.study import open_study as open_study

__version__ = "0.1.0"
__all__ = ["Study", "__version__", "open_study"]


def __getattr__(name: str) -> Any:
    # pandas and DuckDB take most of a second to import; a script that only wants a record does not pay for them.
    if name in ("Study", "open_study"):
        from ttc_eval import study

        return getattr(study, name)
    raise AttributeError(f"module 'ttc_eval' has no attribute {name!r}")
