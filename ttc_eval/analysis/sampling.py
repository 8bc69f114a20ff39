"""What k draws would have given: every selector over every subset of a pool, exactly where an exact form exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ttc_eval.analysis.frames import Floats
from ttc_eval.analysis.pools import Pool, judged, pools
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

    Majority and weighted vote leave a tie unresolved, as the strategies do. A selector by scores chooses from the first draws that its
    verifier was asked about in every problem (`n_draws`); of those, one without a valid score ranks below all others and does not vote.
    `left_out` counts problems that ended in an error before they had draws: a cell's success counts those as not solved.

    Raises `UserError` when no pool holds two draws of every problem.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for pool in pools(study):
        for selector, verifier, held in _selectors(pool):
            ks = doubling(held.n)
            values, error = _success(selector, verifier, held, ks, permutations, seed)
            costs = {"tokens": cost_at_k(held.tokens, ks), "usd": cost_at_k(held.usd, ks)}
            for place, k in enumerate(ks.tolist()):
                estimate = cluster_mean(values[:, place])
                rows.append(
                    {
                        **pool.labels,
                        "selector": selector,
                        "verifier": verifier,
                        "k": k,
                        "n_draws": held.n,
                        "value": estimate.value,
                        "value_low": estimate.low,
                        "value_high": estimate.high,
                        "n": estimate.n,
                        "left_out": pool.left_out,
                        **{name: float(table[:, place].mean()) for name, table in costs.items()},
                        "monte_carlo_error": 0.0 if error is None else float(error[place]),
                        "oracle": selector == "oracle",
                        "method": estimate.method,
                    }
                )
    return pd.DataFrame(rows)


def _selectors(pool: Pool) -> list[tuple[str, str | None, Pool]]:
    """(selector, verifier, the draws that it chooses from)."""
    found: list[tuple[str, str | None, Pool]] = [("random_pick", None, pool), ("majority", None, pool)]
    for verifier in pool.scores:
        held = judged(pool, verifier)
        found += [] if held is None else [("best_of_n", verifier, held), ("weighted_vote", verifier, held)]
    return [*found, ("oracle", None, pool)]


def _success(selector: str, verifier: str | None, pool: Pool, ks: np.ndarray, permutations: int, seed: int) -> tuple[Floats, Floats | None]:
    """Success of each problem at each k, and the Monte-Carlo error of its mean where it is sampled."""
    right = pool.correct.sum(axis=1)
    if selector == "oracle":
        return np.stack([pass_at_k(np.full(len(right), pool.n), right, int(k)) for k in ks], axis=1), None
    if selector == "random_pick":
        return random_pick_at_k(pool.correct, ks, pool.classes >= 0), None
    if verifier is None:
        return majority_at_k(pool.classes, pool.correct, ks, "unresolved"), None
    usable = np.where(pool.classes >= 0, pool.scores[verifier], np.nan)
    if selector == "best_of_n":
        return best_of_n_at_k(usable, pool.correct & (pool.classes >= 0), ks, "unresolved"), None
    vote = weighted_vote_at_k(pool.classes, pool.correct, usable, ks, ties="unresolved", permutations=permutations, seed=seed)
    return vote.value, np.atleast_1d(vote.mean_error)
