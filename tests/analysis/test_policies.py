"""Compute-optimal policies by difficulty: they gain where difficulty decides, and cross-fitting keeps luck out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ttc_eval.analysis.policies import choices, compute_optimal, difficulty_bins
from ttc_eval.errors import UserError
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Half of the problems need no thinking at all, the other half nothing but thinking."""
    folder = tmp_path_factory.mktemp("mixed")
    rows = [{"q": f"What is {i} plus 1?", "a": i + 1, "level": "easy" if i % 2 else "hard"} for i in range(120)]
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [
        "-m",
        "model=simulated",
        "model.accuracy={easy: {0: 0.97, 64: 0.97}, hard: {0: 0.05, 64: 0.9}, default: {0: 0.5}}",
        "dataset.name=mixed",
        f"dataset.path={folder}/dev.jsonl",
        "dataset.prompt='{q}'",
        "dataset.reference=a",
        "dataset.id_column=null",
        "dataset.difficulty=level",
        "dataset.examples=[]",
        "thinking=budget",
        "thinking.budget=0,64",
        "strategy=single,self_consistency_4",
    ]
    assert main([*arguments, f"results_dir={folder}", "study=mixed"]) == 0
    return open_study(folder / "mixed.duckdb")


def test_bins_follow_the_label_or_what_the_draws_show(mixed: Study) -> None:
    problems = mixed.problems()["problem_id"].tolist()
    labels = mixed.problems()["difficulty"].tolist()
    which, names = difficulty_bins(mixed, problems, "label")
    assert [names[place] for place in which] == labels
    for by in ("agreement", "success"):
        which, names = difficulty_bins(mixed, problems, by, bins=2, probe=2)  # type: ignore[arg-type]
        assert set(which.tolist()) == set(range(len(names)))


def test_thinking_only_where_it_helps_reaches_more_for_the_same(mixed: Study) -> None:
    found = compute_optimal(mixed, by="label")
    assert len(found) >= 3
    best = found.loc[found["difference"].idxmax()]
    assert best["difference"] > 0.1
    assert best["difference_low"] > 0
    assert np.allclose(found["difference"], found["success"] - found["fixed"])
    assert (found["tuned_on"] != found["measured_on"]).all()
    assert not found["oracle"].any()
    assert found["simulated"].all()
    # A bin's choice stays within the cost on the problems that it was chosen on; the mean on others may differ a little.
    assert (found["spent"] <= 1.25 * found["cost"]).all()
    assert compute_optimal(mixed, by="success")["oracle"].all()
    cheap = choices(mixed, float(found["cost"].max()), by="label").set_index("bin")
    assert "budget 64" in cheap.loc["hard", "policy"]
    assert "budget 0" in cheap.loc["easy", "policy"]


def test_bins_of_noise_gain_nothing(simulated: Study) -> None:
    """All problems are alike here: choosing by bins on the problems that are measured would show a gain, cross-fitting does not."""
    found = compute_optimal(simulated, by="agreement", bins=5, probe=4)
    assert (found["difference_low"].fillna(0) <= 0).all()
    assert (found["spent"] >= found["fixed_spent"].min()).all()


def test_what_is_missing_is_named(simulated: Study, mixed: Study, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the study has: mixed"):
        compute_optimal(mixed, dataset="other")
    with pytest.raises(UserError, match="no pool"):
        compute_optimal(mixed, by="agreement", probe=64)
