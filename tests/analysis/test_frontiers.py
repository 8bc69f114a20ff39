"""Frontier and comparisons of a study, against its own views and the arithmetic written out."""

from __future__ import annotations

import numpy as np
import pytest

from ttc_eval.analysis.comparisons import equal_cost, equal_cost_curve, pairwise
from ttc_eval.analysis.frontiers import frontier
from ttc_eval.errors import UserError
from ttc_eval.metrics.comparison import holm
from ttc_eval.study import Study


@pytest.mark.parametrize(
    ("cost", "column"),
    [("usd", "charged_usd"), ("tokens", "charged_output_tokens"), ("calls", "charged_calls"), ("latency", "mean_latency_s")],
)
def test_cost_and_success_are_those_of_the_cells(simulated: Study, cost: str, column: str) -> None:
    found = frontier(simulated, cost, resamples=50).set_index("cell_id")  # type: ignore[arg-type]
    cells = simulated.cells().set_index("cell_id").loc[found.index]
    each = cells[column] if cost == "latency" else cells[column] / cells["n_problems"]
    assert np.allclose(found["cost"], each)
    assert np.allclose(found["success"], cells["success"])
    assert (found["cost_low"] <= found["cost"]).all()
    assert found["on_frontier"].any()
    best = found.sort_values(["success", "cost"], ascending=[False, True]).iloc[0]
    assert best["on_frontier"]
    assert found.loc[found["on_hull"], "on_frontier"].all()
    assert found["frontier_probability"].between(0, 1).all()


def test_an_unpriced_cell_is_named_and_on_no_frontier(simulated: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Study.sql

    def without_prices(self: Study, query: str, parameters: list[object] | None = None) -> object:
        frame = real(self, query, parameters)
        if "charged_usd" in frame and "problem_id" in frame:
            first = frame["cell_id"] == sorted(frame["cell_id"])[0]
            frame.loc[first, "charged_usd"] = None
        return frame

    monkeypatch.setattr(Study, "sql", without_prices)
    found = frontier(simulated, "usd", resamples=50)
    assert found["cost"].isna().sum() == 1
    assert len(found.attrs["excluded"]) == 1
    assert not found.loc[found["cost"].isna(), "on_frontier"].any()
    assert found.loc[found["cost"].isna(), "frontier_probability"].isna().all()


def test_two_policies_at_one_cost(simulated: Study) -> None:
    found = equal_cost(simulated, "best_of_n", "self_consistency")
    assert found.difference.value == pytest.approx(found.success_a - found.success_b)
    assert found.difference.n == 60
    assert found.simulated
    assert found.verdict
    other = equal_cost(simulated, "self_consistency", "best_of_n", at=found.at)
    assert other.difference.value == pytest.approx(-found.difference.value)
    curve = equal_cost_curve(simulated, "best_of_n", "self_consistency", points=5, resamples=100)
    assert np.allclose(curve["difference"], curve["success_a"] - curve["success_b"])
    assert curve["cost"].is_monotonic_increasing
    assert (curve["difference_low"] <= curve["difference"]).all()
    assert curve.attrs["simulated"]


def test_what_cannot_be_compared_is_said(simulated: Study) -> None:
    with pytest.raises(UserError, match=r"no cell has that label; the labels are: .*self_consistency@8"):
        equal_cost(simulated, "best_of_m", "single")
    with pytest.raises(UserError, match="one of the two costs more than that"):
        equal_cost(simulated, "best_of_n@8", "single", at=1.0)


def test_every_pair_is_compared_on_its_problems(simulated: Study) -> None:
    found = pairwise(simulated)
    cells = simulated.cells().set_index("cell_id")
    assert len(found) == len(cells) * (len(cells) - 1) // 2
    assert np.allclose(
        found["difference"], cells.loc[found["cell_id_a"], "success"].to_numpy() - cells.loc[found["cell_id_b"], "success"].to_numpy()
    )
    assert found["holm_p"].tolist() == pytest.approx(holm(found["mcnemar_p"].tolist()))
    assert (found["holm_p"] >= found["mcnemar_p"]).all()
    resolved = found[found["resolved"]]
    assert ((resolved["difference_low"] > 0) | (resolved["difference_high"] < 0)).all()


def test_cells_that_differ_in_their_seed_are_one_policy(unscored: Study) -> None:
    cells = unscored.cells()
    found = frontier(unscored, "tokens", resamples=20).set_index("strategy_label")
    assert list(found["seeds"]) == [2, 2]
    for label, row in found.iterrows():
        both = cells[cells["strategy_label"] == label]
        assert row["success"] == pytest.approx(both["success"].mean())
        assert row["cost"] == pytest.approx(both["mean_output_tokens"].mean())
        assert row["success_low"] <= row["success"] <= row["success_high"]


def test_one_cell_makes_no_pair_and_the_frame_keeps_its_columns(unscored: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Study.cells
    monkeypatch.setattr(Study, "cells", lambda self: real(self).head(1))
    found = pairwise(unscored)
    assert found.empty
    assert {"difference", "holm_p", "mcnemar_p"} <= set(found.columns)
