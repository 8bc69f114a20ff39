"""A part of CodeT's published samples, run again: the labels that they have, and its rule on them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ttc_eval.sandbox import Checker, Sandbox, run
from ttc_eval.study import open_study
from ttc_eval.sweep.app import run_all

# How many of the first 10 samples of a problem pass, counted when all 16,400 were run (benchmarks/codet.py).
PASSING = {"HumanEval/0": 7, "HumanEval/4": 4, "HumanEval/38": 0, "HumanEval/50": 8}
SAMPLES = 10


@pytest.fixture(scope="module")
def codet(shared: Path) -> object:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    import codet

    return codet


def test_samples_pass_as_they_did(codet: object, sandbox: Sandbox, shared: Path) -> None:
    checker = Checker(sandbox)
    tasks = {task.name: task for task in codet.codet_tasks(shared / "data" / "codet")}  # type: ignore[attr-defined]
    assert len(tasks) == 164
    found = {
        name: sum(checker.check_now(tasks[name].job(one), codet.LIMITS).passed for one in tasks[name].completions[:SAMPLES])  # type: ignore[attr-defined]
        for name in PASSING
    }
    assert found == PASSING


def test_its_rule_selects_among_them(codet: object, sandbox: Sandbox, shared: Path, tmp_path: Path) -> None:
    tasks = [task for task in codet.codet_tasks(shared / "data" / "codet") if task.name in ("HumanEval/4", "HumanEval/16")]  # type: ignore[attr-defined]
    cells = codet.cells(tasks, tmp_path, draws=12)  # type: ignore[attr-defined]
    assert run_all(cells[1:3], []) == 0
    study = open_study(tmp_path / "codet.duckdb")
    rows = study.sql("SELECT strategy, success, candidate_success FROM cell_metrics ORDER BY strategy").to_dict("records")
    assert [row["strategy"] for row in rows] == ["code_agreement", "self_consistency"]
    assert rows[0]["success"] == rows[0]["candidate_success"] == 1.0
    assert study.sql("SELECT count(*) AS n FROM calls")["n"][0] == 24, "one pool for both"


def test_every_reference_solution_passes_its_own_tests(codet: object, sandbox: Sandbox, shared: Path) -> None:
    rows = codet.read(shared / "data" / "codet" / codet.PROBLEMS)  # type: ignore[attr-defined]
    tasks = codet.codet_tasks(shared / "data" / "codet")  # type: ignore[attr-defined]
    for task, row in list(zip(tasks, rows, strict=True))[::12]:
        verdict = run(task.job(row["canonical_solution"]), sandbox, codet.LIMITS)  # type: ignore[attr-defined]
        assert verdict.passed, (task.name, verdict.why)
