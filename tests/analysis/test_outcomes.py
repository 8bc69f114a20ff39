"""Outcomes sum to the problems, truncation leaves bounds, and what a verifier knows is found again."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ttc_eval.analysis.audit import _selected_score, audit, overoptimisation, reliability
from ttc_eval.analysis.outcomes import OUTCOMES, bounds, breakdown
from ttc_eval.analysis.problems import heat_map, latency
from ttc_eval.study import Study


def test_outcomes_sum_to_the_problems(simulated: Study) -> None:
    found = breakdown(simulated)
    cells = simulated.cells().set_index("cell_id")
    assert found.groupby("cell_id")["problems"].sum().to_dict() == cells["n_problems"].to_dict()
    assert set(found["outcome"]) == set(OUTCOMES)
    right = found[found["outcome"] == "right"].set_index("cell_id")
    assert np.allclose(right["share"], cells.loc[right.index, "success"])
    assert ((found["share_low"] <= found["share"]) & (found["share"] <= found["share_high"])).all()


def test_success_has_a_bound_where_answers_were_cut(simulated: Study) -> None:
    found = bounds(simulated).pivot(index="cell_id", columns="reading", values="success")
    cells = simulated.cells().set_index("cell_id")
    assert np.allclose(found["truncated_wrong"], cells.loc[found.index, "success"])
    assert (found["truncated_excluded"] >= found["truncated_wrong"]).all()


def test_an_audit_finds_the_quality_that_was_set(simulated: Study) -> None:
    found = audit(simulated).set_index(["strategy_label", "thinking_budget"])
    assert len(found) == 4
    for label in ("best_of_n@4", "best_of_n@8"):
        for budget in (16, 64):
            row = found.loc[(label, budget)]
            # The model's default verifier_auroc. Equal answers get one score, so there are few different ones.
            assert row["auroc_pooled"] == pytest.approx(0.8, abs=0.1)
            assert row["auroc_within_low"] < row["auroc_within"] < row["auroc_within_high"]
            assert 0 < row["brier"] < 0.4
            assert 0 < row["false_accept"] < 1
            assert row["regret"] > 0
            assert 0.2 < row["cost_share"] < 0.7
            assert row["threshold"] == 0.5
    bins = reliability(simulated)
    assert bins.groupby("cell_id")["candidates"].sum().to_dict() == dict(zip(found["cell_id"], found["candidates"], strict=True))
    assert bins["right"].between(0, 1).all()


def test_best_of_n_as_n_grows(simulated: Study) -> None:
    found = overoptimisation(simulated)
    assert np.allclose(found["gap"], found["oracle"] - found["success"])
    for _, one in found.groupby("cell_id"):
        assert one["selected_score"].is_monotonic_increasing
        assert one["oracle"].is_monotonic_increasing


def test_the_score_of_the_selected_is_the_mean_over_all_subsets() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((3, 5))
    for k in (1, 2, 3, 5):
        brute = np.mean([[max(row[list(chosen)]) for chosen in combinations(range(5), k)] for row in scores])
        assert _selected_score(scores, np.array([k]))[0] == pytest.approx(brute)


def test_problems_and_seconds(simulated: Study) -> None:
    cells = simulated.cells().set_index("cell_id")
    squares = heat_map(simulated)
    assert len(squares) == int(cells["n_problems"].sum())
    assert np.allclose(squares.groupby("cell_id")["correct"].mean(), cells.sort_index()["success"])
    seconds = latency(simulated).set_index("cell_id")
    assert np.allclose(seconds["p95_s"], cells.loc[seconds.index, "p95_latency_s"])
    assert (seconds["speed_up"] >= 1 - 1e-9).all()


def test_a_study_without_a_verifier_has_empty_audits_with_their_columns(unscored: Study) -> None:
    assert {"auroc_within", "auroc_within_low", "regret", "strategy_label"} <= set(audit(unscored).columns)
    assert {"score", "right", "right_low"} <= set(reliability(unscored).columns)
    assert {"k", "success", "oracle"} <= set(overoptimisation(unscored).columns)
    assert audit(unscored).empty
