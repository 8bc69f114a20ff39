"""Studies that are not whole: draws that nobody scored, invalid scores, answers without a label, unfinished cells, one problem."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ttc_eval.analysis.audit import overoptimisation
from ttc_eval.analysis.comparisons import equal_cost
from ttc_eval.analysis.frontiers import frontier
from ttc_eval.analysis.outcomes import breakdown
from ttc_eval.analysis.policies import compute_optimal
from ttc_eval.analysis.pools import pools
from ttc_eval.analysis.sampling import curves
from ttc_eval.cli import main as cli
from ttc_eval.errors import UserError
from ttc_eval.metrics.frontier import equal_cost as difference_at
from ttc_eval.metrics.intervals import wilson
from ttc_eval.report import write_report
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main


def swept(folder: Path, *arguments: str, code: int = 0) -> Study:
    base = [
        "-m",
        "model=simulated",
        "dataset=quickstart",
        "dataset.limit=30",
        "thinking=budget",
        "thinking.budget=16",
        f"results_dir={folder}",
    ]
    assert main([*base, "study=part", *arguments]) == code
    return open_study(folder / "part.duckdb")


def test_best_of_n_over_the_draws_that_were_scored_is_what_the_strategy_came_to(tmp_path: Path) -> None:
    study = swept(tmp_path, "strategy=self_consistency_8,best_of_n_4", "verifier=outcome")
    (pool,) = pools(study)
    assert pool.n > 4
    assert set(pool.asked.values()) == {4}
    live = study.cells().set_index("strategy_label").loc["best_of_n@4", "success"]
    for frame, column in ((curves(study, permutations=20).query("selector == 'best_of_n'"), "value"), (overoptimisation(study), "success")):
        by_k = frame.set_index("k")[column]
        assert by_k.index.max() == 4
        # A tie of scores is broken by draw order there, and evenly over the orders here.
        assert by_k[4] == pytest.approx(live, abs=0.1)
        assert by_k[1] == pytest.approx(pool.correct[:, :4].mean(), abs=0.02)


def test_scores_that_are_not_valid_have_no_vote(tmp_path: Path) -> None:
    study = swept(tmp_path, "model.verifier_invalid=1.0", "strategy=weighted_vote", "verifier=outcome")
    found = curves(study, permutations=20)
    assert (found.loc[found["selector"].isin(["weighted_vote", "best_of_n"]), "value"] == 0).all()
    assert study.cells()["success"].item() == 0


def test_answers_without_a_label_are_unknown_and_not_wrong(tmp_path: Path) -> None:
    rows = [
        {"problem": f"p{i}", "draw": draw, "text": str(i), "answer": str(i), **({"correct": True} if i < 5 else {})}
        for i in range(10)
        for draw in range(2)
    ]
    (tmp_path / "half.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli(["import", "jsonl", str(tmp_path / "half.jsonl"), "--db", str(tmp_path / "half.duckdb")]) == 0
    study = open_study(tmp_path / "half.duckdb")
    cell = study.cells().iloc[0]
    for name in ("success", "success_low", "success_high", "selected_accuracy", "candidate_success", "selection_gap", "n_correct"):
        assert pd.isna(cell[name]), name
    assert cell["coverage"] == 1.0
    counts = breakdown(study).set_index("outcome")["problems"]
    assert counts["ungraded"] == 5
    assert counts["right"] == 5
    assert counts.sum() == 10
    assert study.candidates()["correct"].isna().sum() == 10
    with pytest.raises(UserError, match="label"):
        curves(study)
    with pytest.raises(UserError, match="label"):
        frontier(study)
    assert "outcomes.png" in {path.name for path in write_report(study, tmp_path / "out")}


def test_an_interval_belongs_to_the_problems_that_its_value_is_over(tmp_path: Path) -> None:
    swept(tmp_path, "strategy=self_consistency_4")
    study = swept(tmp_path, "strategy=single", "thinking.budget=64", "limits.sweep.calls=5", code=1)
    found = frontier(study, "tokens", resamples=20)
    assert set(found["n"]) < set(range(30))
    for _, row in found.iterrows():
        one = wilson(round(row["success"] * row["n"]), int(row["n"]))
        assert (row["success_low"], row["success_high"]) == pytest.approx((one.low, one.high))


def test_problems_that_all_say_the_same_leave_a_difference_uncertain() -> None:
    found = difference_at(np.ones((3, 1)), np.ones((3, 1)), np.ones((3, 1)), np.zeros((3, 1)), 1.0)
    assert found is not None
    assert found.low is not None
    assert found.low < 1.0
    assert found.n == 3


def test_one_problem_is_too_few_to_choose_by(tmp_path: Path) -> None:
    study = swept(tmp_path, "strategy=single,self_consistency_4", "dataset.limit=1")
    with pytest.raises(UserError, match="too few"):
        compute_optimal(study, by="label")


def test_problems_that_ended_in_an_error_are_counted_where_a_pool_lacks_them(tmp_path: Path) -> None:
    # This seed fails the first draw of one problem, and no second draw.
    faults = ["model.seed=1", "model.faults.server_error=0.06", "retry.max_attempts=1"]
    study = swept(tmp_path, "dataset.limit=20", *faults, "strategy=self_consistency", "strategy.max_attempts=2", code=1)
    lost = int((study.solutions()["outcome"] == "error").sum())
    assert lost > 0
    found = curves(study, permutations=20)
    assert (found["n"] + found["left_out"] == 20).all()


def test_a_report_tells_models_and_splits_apart(tmp_path: Path) -> None:
    swept(tmp_path, "strategy=single,self_consistency_4", "dataset.split=dev,heldout")
    study = swept(tmp_path, "strategy=single,self_consistency_4", "model.name=other", "model.seed=3")
    files = {path.name: path for path in write_report(study, tmp_path / "out")}
    for name in ("outcomes.csv", "costs.csv", "curves.csv"):
        heads = files[name].read_text("utf-8").splitlines()[0].split(",")
        assert {"model", "split"} <= set(heads), name
    with pytest.raises(UserError, match="several"):
        equal_cost(study, "single", "self_consistency@4")
