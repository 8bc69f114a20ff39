"""Notebooks run from top to bottom on a small real study, and are kept without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from ttc_eval.sweep.app import main

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    sweep = ["-m", "experiment=simulated", "dataset.limit=12", f"results_dir={folder}", "study=small"]
    assert main(sweep) == 0
    return folder / "small.duckdb"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs(notebook: Path, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTC_EVAL_STUDY", str(study))
    content = nbformat.read(notebook, as_version=4)
    NotebookClient(content, timeout=120, resources={"metadata": {"path": str(notebook.parent)}}).execute()
    shown = [output for cell in content.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in shown) >= 3
    assert not any(output.output_type == "error" for output in shown)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_is_kept_without_outputs(notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in content.cells if cell.cell_type == "code")
