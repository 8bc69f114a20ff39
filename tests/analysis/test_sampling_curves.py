"""Curves over k and models of coverage, from a study, against what a longer sweep really did."""

from __future__ import annotations

import numpy as np
import pytest

from ttc_eval.analysis.pools import pools
from ttc_eval.analysis.sampling import curves
from ttc_eval.analysis.scaling import coverage
from ttc_eval.metrics import pass_at_k
from ttc_eval.study import Study


def test_a_pool_holds_what_the_cells_drew(simulated: Study) -> None:
    found = pools(simulated)
    assert [(one.labels["thinking_budget"], one.n, len(one.problems)) for one in found] == [(16, 8, 60), (64, 8, 60)]
    cells = simulated.cells()
    [cell] = cells[(cells["strategy_label"] == "best_of_n@8") & (cells["thinking_budget"] == 16)]["cell_id"]
    taken = simulated.candidates()
    taken = taken[taken["cell_id"] == cell].sort_values(["problem_id", "draw"])
    assert found[0].correct.ravel().tolist() == taken["correct"].tolist()
    assert found[0].difficulty == ("hard",) * 60
    # Draws of one class have one number, and no answer is −1.
    for row, (_, group) in zip(found[0].classes, taken.groupby("problem_id"), strict=True):
        names = group["answer_class"].where(group["complete"]).tolist()
        assert [number == -1 for number in row] == [not isinstance(name, str) for name in names]
        assert len(set(row[row >= 0])) == len({name for name in names if isinstance(name, str)})
    assert (found[0].tokens > 0).all()


def test_the_ends_of_a_curve_are_what_strategies_did(simulated: Study) -> None:
    found = curves(simulated, permutations=20)
    cells = simulated.cells()
    for budget in (16, 64):
        here = found[found["thinking_budget"] == budget].set_index(["selector", "k"])
        done = cells[cells["thinking_budget"] == budget].set_index("strategy_label")
        # All eight draws: no choice of a subset is left.
        assert here.loc[("majority", 8), "value"] == pytest.approx(done.loc["self_consistency@8", "success"])
        assert here.loc[("best_of_n", 8), "value"] == pytest.approx(done.loc["best_of_n@8", "success"])
        assert here.loc[("oracle", 8), "value"] == pytest.approx(done.loc["best_of_n@8", "candidate_success"])
        assert here.loc[("random_pick", 1), "value"] == pytest.approx(here.loc[("oracle", 1), "value"])
        assert here.loc[("oracle", 8), "tokens"] == pytest.approx(8 * here.loc[("oracle", 1), "tokens"])
    assert found.loc[found["selector"] == "oracle", "oracle"].all()
    assert not found.loc[found["selector"] != "oracle", "oracle"].any()
    assert (found["monte_carlo_error"] > 0).any()
    assert found["simulated"].all()


def test_coverage_is_measured_modelled_checked_and_marked_beyond(simulated: Study) -> None:
    found = coverage(simulated)
    pool = pools(simulated)[0]
    first = found[found["thinking_budget"] == 16]
    measured = first[first["role"] == "measured"].set_index("k")
    right = pool.correct.sum(axis=1)
    for k in (1, 2, 4, 8):
        assert measured.loc[k, "pass_at_k"] == pytest.approx(float(pass_at_k(np.full(60, 8), right, k).mean()))
        assert measured.loc[k, "pass_at_k_low"] < measured.loc[k, "pass_at_k"]
    assert set(first["fit"]) == {"exact", "power", "beta_binomial"}
    assert set(first.loc[first["role"] == "checked", "k"]) == {4, 8}
    assert first.loc[first["role"] == "checked", "error"].notna().all()
    assert set(first.loc[first["role"] == "extrapolated", "k"]) == {16}
    assert set(coverage(simulated, extrapolate_to=100).loc[lambda frame: frame["role"] == "extrapolated", "k"]) == {16, 100}
