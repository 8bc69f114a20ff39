"""A report decides by held-out problems where a study has them, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttc_eval.analysis.frames import solved_cells
from ttc_eval.report.content import content
from ttc_eval.report.split import deciding
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder: Path = tmp_path_factory.mktemp("splits")
    size = ["dataset=quickstart", "dataset.split=dev,heldout", "dataset.limit=20"]
    assert main(["-m", "model=simulated", "strategy=single,self_consistency_4", *size, f"results_dir={folder}", "study=both"]) == 0
    return open_study(folder / "both.duckdb")


def test_the_headline_and_the_comparison_at_equal_cost_are_on_held_out_problems(study: Study) -> None:
    cells = solved_cells(study)
    assert set(cells["split"]) == {"dev", "heldout"}
    found = content(study, cells)
    assert all("(quickstart, heldout)" in line for line in found.headline[:2])
    (table,) = (one for one in found.tables if one.name == "equal-cost")
    assert "split heldout" in table.caption
    assert {row[6] for row in table.rows} == {"20"}


def test_a_study_of_one_split_is_read_as_it_is(study: Study) -> None:
    cells = solved_cells(study)
    dev = cells[cells["split"] == "dev"]
    assert len(deciding(dev)) == len(dev)
