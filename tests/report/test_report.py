from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ttc_eval
from ttc_eval.cli import main as cli
from ttc_eval.sweep.app import main as sweep


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    arguments = ["-m", "experiment=simulated", "dataset.limit=8", f"results_dir={folder}", "study=small"]
    assert sweep(arguments) == 0
    return folder / "small.duckdb"


def test_a_report_is_a_page_a_table_and_figures(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["report", str(study), "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "Simulated" in page
    assert "oracle" in page
    assert "://" not in page, "the page must need no network"
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".csv", ".tex", ".png", ".pdf", ".svg"}
    assert len(pd.read_csv(tmp_path / "cells.csv")) == 12
    assert "report.html" in capsys.readouterr().out


def test_the_table_of_cells_is_shown_again(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["cells", str(study)]) == 0
    assert "self_consistency@8" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["report", "nowhere.duckdb"], ["cells", "nowhere.duckdb"]])
def test_a_missing_study_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_frames_of_a_study_hang_together(study: Path) -> None:
    opened = ttc_eval.open_study(study)
    cells, solutions, candidates, calls = opened.cells(), opened.solutions(), opened.candidates(), opened.calls()
    assert len(solutions) == cells["n_problems"].sum() == 96
    assert len(opened.problems()) == 8
    assert candidates.groupby(["cell_id", "problem_id"]).size().sum() == solutions["attempts"].sum()
    assert cells["billed_calls"].sum() == len(calls)
    assert (cells["success"] - cells["coverage"] * cells["selected_accuracy"]).abs().max() < 1e-12
    assert (cells["selection_gap"] - (cells["candidate_success"] - cells["success"])).abs().max() < 1e-12
    losses = cells[["success", "lost_no_candidate", "lost_answered_wrong", "lost_unresolved"]].sum(axis=1)
    assert (losses - 1).abs().max() < 1e-12
    assert opened.scores().empty


def test_the_public_surface_is_small_and_complete() -> None:
    assert ttc_eval.__all__ == sorted(ttc_eval.__all__)
    assert all(getattr(ttc_eval, name) is not None for name in ttc_eval.__all__)
    with pytest.raises(AttributeError):
        _ = ttc_eval.nothing


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ["pandas", "numpy", "duckdb", "matplotlib", "datasets", "hydra", "scipy", "aiohttp"]
    code = f"import ttc_eval, ttc_eval.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
