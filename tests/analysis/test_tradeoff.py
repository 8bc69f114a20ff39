"""Stopping rules over stored draws: the ends of the range are known, and a rule never uses more than it may."""

from __future__ import annotations

import numpy as np
import pytest

from ttc_eval.analysis.pools import pools
from ttc_eval.analysis.stopping import tradeoff
from ttc_eval.metrics import majority_at_k
from ttc_eval.study import Study


def test_the_ends_are_known_and_locked_plurality_only_saves(simulated: Study) -> None:
    found = tradeoff(simulated, permutations=60)
    pool = pools(simulated)[0]
    first = found[found["thinking_budget"] == 16].set_index(["rule", "parameter"])
    assert first.loc[("all", 8), "success"] == pytest.approx(float(majority_at_k(pool.classes, pool.correct, 8, "unresolved").mean()))
    assert first.loc[("all", 8), "saved"] == pytest.approx(0.0)
    assert first.loc[("all", 1), "draws"] == pytest.approx(1.0)
    for k in (2, 4, 8):
        # It selects what all k would have, for less.
        assert first.loc[("locked_plurality", k), "success"] == pytest.approx(first.loc[("all", k), "success"])
        assert first.loc[("locked_plurality", k), "draws"] <= k
    assert (found["draws"] <= found["n_draws"] + 1e-9).all()
    accepted = found[found["rule"] == "first_accepted"].sort_values("parameter")
    assert set(accepted["verifier"]) == {"outcome"}
    for _, one in accepted.groupby("thinking_budget"):
        assert one["draws"].is_monotonic_increasing
    assert np.isfinite(found[["tokens", "usd", "success", "monte_carlo_error"]].to_numpy(dtype=float)).all()
