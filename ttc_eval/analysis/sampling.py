"""What k draws would have given: every selector over every subset of a pool, exactly where an exact form exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ttc_eval.analysis.frames import Floats
from ttc_eval.analysis.pools import Pool, pools
from ttc_eval.metrics import best_of_n_at_k, cluster_mean, majority_at_k, pass_at_k
from ttc_eval.metrics.estimators import cost_at_k, random_pick_at_k
from ttc_eval.metrics.resampling import weighted_vote_at_k
from ttc_eval.metrics.scaling import doubling

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study


def curves(study: Study, *, permutations: int = 200, seed: int = 0) -> pd.DataFrame:
    """Success of each selector over k of the n draws of every pool, at k = 1, 2, 4, … and n.

    One row per pool × selector × k: the labels of the pool, `selector` (random_pick, majority, best_of_n, weighted_vote, oracle),
    `verifier` (None for a selector that asks none), `k`, `n_draws`, `value`, `value_low`, `value_high` (over problems), `n` problems,
    `tokens` and `usd` per problem for k draws without the verifier's own cost (NaN where unknown), `monte_carlo_error` (0 for exact
    estimators), `oracle` (True: it needs labels, and is no accuracy that a system can have), `method`.

    Args:
        permutations, seed: of `weighted_vote`, which has no exact form.

    Majority leaves a tie unresolved, as `self_consistency` does. Draws that a verifier did not score, or not validly, rank below all
    others. Raises `UserError` when no pool holds two draws of every problem.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for pool in pools(study):
        ks = doubling(pool.n)
        costs = {"tokens": cost_at_k(pool.tokens, ks), "usd": cost_at_k(pool.usd, ks)}
        for selector, verifier, values, error in _selectors(pool, ks, permutations, seed):
            for place, k in enumerate(ks.tolist()):
                estimate = cluster_mean(values[:, place])
                rows.append(
                    {
                        **pool.labels,
                        "selector": selector,
                        "verifier": verifier,
                        "k": k,
                        "n_draws": pool.n,
                        "value": estimate.value,
                        "value_low": estimate.low,
                        "value_high": estimate.high,
                        "n": estimate.n,
                        **{name: float(table[:, place].mean()) for name, table in costs.items()},
                        "monte_carlo_error": 0.0 if error is None else float(error[place]),
                        "oracle": selector == "oracle",
                        "method": estimate.method,
                    }
                )
    return pd.DataFrame(rows)


def _selectors(pool: Pool, ks: np.ndarray, permutations: int, seed: int) -> list[tuple[str, str | None, Floats, Floats | None]]:
    """(selector, verifier, success of each problem at each k, Monte-Carlo error of its mean)."""
    right = pool.correct.sum(axis=1)
    oracle = np.stack([pass_at_k(np.full(len(right), pool.n), right, int(k)) for k in ks], axis=1)
    found: list[tuple[str, str | None, Floats, Floats | None]] = [
        ("random_pick", None, random_pick_at_k(pool.correct, ks, pool.classes >= 0), None),
        ("majority", None, majority_at_k(pool.classes, pool.correct, ks, "unresolved"), None),
    ]
    for verifier, scores in pool.scores.items():
        usable = np.where(pool.classes >= 0, scores, np.nan)
        found.append(("best_of_n", verifier, best_of_n_at_k(usable, pool.correct & (pool.classes >= 0), ks, "unresolved"), None))
        vote = weighted_vote_at_k(pool.classes, pool.correct, np.nan_to_num(usable), ks, permutations=permutations, seed=seed)
        found.append(("weighted_vote", verifier, vote.value, np.atleast_1d(vote.mean_error)))
    return [*found, ("oracle", None, oracle, None)]
