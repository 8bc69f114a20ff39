"""The guide's own example: a strategy in a folder outside the package, run as the guide says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ttc_eval.study import open_study

GUIDE = Path(__file__).parents[2] / "docs" / "add-a-strategy.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with the files that the guide shows, and nothing else."""
    for language in ("python", "yaml"):
        [block] = re.findall(rf"```{language}\n# (\S+)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
        path = tmp_path / block[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block[1], "utf-8")
    return tmp_path


def ttc_eval(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "ttc_eval.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_the_guides_strategy_runs_beside_the_shipped_ones(folder: Path) -> None:
    [line] = re.findall(r"^PYTHONPATH=\. ttc-eval (sweep .*)$", GUIDE.read_text("utf-8"), re.MULTILINE)
    found = ttc_eval(folder, *line.split(), "dataset.limit=6")
    assert found.returncode == 0, found.stderr
    cells = open_study(folder / "results" / "twice.duckdb").cells().set_index("strategy")
    assert cells.loc["twice", "strategy_label"] == "twice@8"
    assert cells.loc["twice", "n_problems"] == 6
    # Two draws at least; and all of them are shared with the eight of self-consistency.
    assert cells.loc["twice", "charged_calls"] >= 12
    assert cells["billed_calls"].sum() < cells["charged_calls"].sum()


def test_its_options_are_checked_before_anything_is_spent(folder: Path) -> None:
    base = ("sweep", "--config-dir", "mine", "strategy=twice", "model=lab", "dataset=lab", "study=t")
    for override, said in (
        ("strategy.max_atempts=3", "did you mean strategy.max_attempts"),
        ("strategy.max_attempts=1", "give 2 or more"),
        ("strategy.parallel=many", "strategy.parallel"),
    ):
        found = ttc_eval(folder, *base, override)
        assert (found.returncode, said in found.stderr) == (2, True), found.stderr
    assert not (folder / "results").exists()


def test_a_plan_bounds_it(folder: Path) -> None:
    found = ttc_eval(folder, "plan", "--config-dir", "mine", "strategy=twice", "model=lab", "dataset=lab", "dataset.limit=3", "study=t")
    assert found.returncode == 0, found.stderr
    assert "24" in found.stdout  # three problems, eight draws
