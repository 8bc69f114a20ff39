"""A study to analyse: two budgets, three strategies and a verifier on the simulated model, whose draws have a price."""

from __future__ import annotations

import json

import pytest

from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main

PRICED = ["model.price.own={input: 1, output: 4}"]


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("analysed")
    (folder / "sums.jsonl").write_text(
        "".join(json.dumps({"id": i, "question": f"What is {i} plus {i}?", "answer": 2 * i, "level": "hard"}) + "\n" for i in range(60))
    )
    dataset = [
        "dataset.name=sums",
        f"dataset.path={folder}/sums.jsonl",
        "dataset.prompt='{question}'",
        "dataset.reference=answer",
        "dataset.id_column=id",
        "dataset.difficulty=level",
        "dataset.split=heldout",
        "dataset.examples=[]",
        "dataset.system=null",
    ]
    faults = ["model.faults.server_error=0.05", "model.faults.cut_stream=0.05", "model.faults.unknown_usage=0.02", "retry.first_wait_s=0"]
    cells = "single,self_consistency_4,self_consistency_8,best_of_n_4,best_of_n_8"
    arguments = ["-m", "model=simulated", f"strategy={cells}", "thinking=budget", "thinking.budget=16,64", "verifier=outcome"]
    code = main([*arguments, *dataset, *PRICED, *faults, f"results_dir={folder}", "study=analysed"])
    assert code == 0
    return open_study(folder / "analysed.duckdb")


@pytest.fixture(scope="session")
def unscored(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two seeds of two strategies, and no verifier."""
    folder = tmp_path_factory.mktemp("unscored")
    cells = ["strategy=single,self_consistency_4", "seed=0,1", "thinking=budget", "thinking.budget=16"]
    assert main(["-m", "model=simulated", "dataset=quickstart", *cells, f"results_dir={folder}", "study=unscored"]) == 0
    return open_study(folder / "unscored.duckdb")
