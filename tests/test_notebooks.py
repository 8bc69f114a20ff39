"""Notebooks run from top to bottom on a small real study and on an imported one, and are kept without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from ttc_eval.cli import main as cli
from ttc_eval.sweep.app import main

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHARED = Path(os.environ.get("TTC_EVAL_SHARED") or ROOT.parent / "shared") / "data"

# Figures that each shows on a study that has all it asks for; an imported one has no calls of a verifier, no latencies and no price.
FIGURES = {
    "01_quickstart": (3, 3),
    "02_budget_curves": (3, 3),
    "03_selection_and_verifiers": (2, 2),
    "04_cost_and_equal_cost": (3, 1),
    "05_stopping_and_adaptive": (2, 1),
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    size = ["dataset.limit=30", "thinking.budget=32,96", "strategy=single,self_consistency_8,best_of_n_8"]
    assert main(["-m", "experiment=quickstart", *size, f"results_dir={folder}", "study=small"]) == 0
    return folder / "small.duckdb"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = sorted((SHARED / "crucible").glob("math500-bestofn-seed*.json"))
    if not samples:
        pytest.skip(f"crucible's samples are not in {SHARED}; TTC_EVAL_SHARED names another folder")
    study = tmp_path_factory.mktemp("imported") / "crucible.duckdb"
    assert cli(["import", "crucible", *map(str, samples), "--db", str(study)]) == 0
    return study


def executed(name: str, study: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Figures that the notebook showed; an error in a cell is raised."""
    monkeypatch.setenv("TTC_EVAL_STUDY", str(study))
    notebook = ROOT / "notebooks" / f"{name}.ipynb"
    content = nbformat.read(notebook, as_version=4)
    NotebookClient(content, timeout=300, resources={"metadata": {"path": str(notebook.parent)}}).execute()
    shown = [output for cell in content.cells if cell.cell_type == "code" for output in cell.outputs]
    return sum("image/png" in output.get("data", {}) for output in shown)


@pytest.mark.parametrize("name", FIGURES)
def test_the_notebook_runs_on_a_real_study(name: str, live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executed(name, live, monkeypatch) >= FIGURES[name][0]


@pytest.mark.parametrize("name", FIGURES)
def test_the_notebook_runs_on_an_imported_study(name: str, imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executed(name, imported, monkeypatch) >= FIGURES[name][1]


def test_published_results_are_reproduced(live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook itself asserts that every figure agrees with the published one."""
    if not (SHARED / "crucible").is_dir():
        pytest.skip(f"the published samples are not in {SHARED}; TTC_EVAL_SHARED names another folder")
    assert executed("06_published_results", live, monkeypatch) >= 0


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in NOTEBOOKS} == {*FIGURES, "06_published_results"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_is_kept_without_outputs(notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in content.cells if cell.cell_type == "code")
