"""How coverage grows with draws: measured, modelled, held against draws that the model did not see, and only then continued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ttc_eval.analysis.pools import Pool, pools
from ttc_eval.metrics import cluster_mean, pass_at_k
from ttc_eval.metrics.scaling import Scaling, beta_binomial, doubling, held_out, power_law, predicted

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study


def coverage(study: Study, *, max_factor: float = 2.0, extrapolate_to: int | None = None, seed: int = 0) -> pd.DataFrame:
    """pass@k of every pool, with two models of it.

    One row per pool × fit × k: the labels, `fit` (exact, power, beta_binomial), `k`, `pass_at_k` with `_low` and `_high` (measured rows
    only), `n` problems, `n_draws`, `method`, and `role`:

    | role | is |
    |---|---|
    | measured | the exact estimate from all draws |
    | fitted | the model made from all draws, at a k that it was made on |
    | checked | a model made from the first quarter of the draws, at a larger k that was measured; `error` is modelled minus measured |
    | extrapolated | beyond every draw: a figure has to say so |

    Args:
        max_factor: how many times n the curve may be continued; extrapolate_to: a k beyond that, asked for by name.

    A model that a pool does not define (no draw right, or every one) has no rows for it. Coverage needs labels: an oracle view.
    Raises `UserError` when no pool holds two draws of every problem.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for pool in pools(study):
        right, ks = pool.correct.sum(axis=1), doubling(pool.n)
        base = {**pool.labels, "n": len(right), "left_out": pool.left_out, "n_draws": pool.n, "error": np.nan, "oracle": True}
        means = []
        for k in ks.tolist():
            one = cluster_mean(pass_at_k(np.full(len(right), pool.n), right, k))
            means.append(one.value)
            interval = {"pass_at_k_low": one.low, "pass_at_k_high": one.high, "method": one.method}
            rows.append({**base, "fit": "exact", "role": "measured", "k": k, "pass_at_k": one.value, **interval})
        for name in ("power", "beta_binomial"):
            rows += [{**base, "fit": name, **row} for row in _modelled(pool, name, ks, means, max_factor, extrapolate_to, seed)]
    return pd.DataFrame(rows)


def _modelled(
    pool: Pool, name: str, ks: np.ndarray, means: list[float], max_factor: float, extrapolate_to: int | None, seed: int
) -> list[dict[str, Any]]:
    try:
        fit: Scaling = (
            power_law(ks, means) if name == "power" else beta_binomial(np.full(len(pool.problems), pool.n), pool.correct.sum(axis=1))
        )
    except ValueError:
        return []
    rows = []
    ahead = [int(max_factor * pool.n), *([] if extrapolate_to is None else [extrapolate_to])]
    said = predicted(fit, [*ks.tolist(), *sorted(set(ahead))], max_factor=max_factor, extrapolate=extrapolate_to is not None)
    for k, value, beyond in zip(said.k.tolist(), said.value.tolist(), said.extrapolated.tolist(), strict=True):
        rows.append({"role": "extrapolated" if beyond else "fitted", "k": k, "pass_at_k": value, "method": str(fit)})
    seen = pool.n // 4
    larger = [k for k in ks.tolist() if k > seen]
    if seen < 2:
        return rows
    try:
        checks = held_out(pool.correct, seen, larger, model=name, seed=seed)
    except ValueError:
        return rows
    for one in checks:
        checked = f"fitted on the first {seen} draws of each problem"
        rows.append({"role": "checked", "k": one.k, "pass_at_k": one.modelled, "error": one.error, "method": checked})
    return rows
