"""Cells that are not replicates must not look alike, in a table or in a figure."""

from __future__ import annotations

from tests.sweep.conftest import Sweep, sweep  # noqa: F401
from ttc_eval import plots

BASE = ["model=simulated", "dataset=quickstart", "dataset.limit=6", "strategy=self_consistency_4"]


def test_a_setting_that_differs_is_named(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep("-m", *BASE, "sampling.temperature=0.2,1.0", "strategy.early_stop=true,false", "seed=0,1")
    cells = outcome.study.cells()
    assert len(cells) == 8
    assert cells["variant"].nunique() == 4
    assert "temperature=0.2" in outcome.out
    assert all(cells.groupby("variant")["seed"].nunique() == 2), "seeds are replicates, not variants"
    labels = {text.get_text() for text in plots.budget_curve(cells).axes[0].texts if "self_consistency" in text.get_text()}
    assert len(labels) == 4


def test_runs_of_other_sizes_are_not_averaged(sweep: Sweep) -> None:  # noqa: F811
    sweep(*BASE)
    outcome = sweep(*BASE, "dataset.limit=12")
    cells = outcome.study.cells()
    assert set(cells["variant"]) == {"limit=6", "limit=12"}


def test_replicates_alone_have_no_variant(sweep: Sweep) -> None:  # noqa: F811
    cells = sweep("-m", *BASE, "seed=0,1", "strategy=single,self_consistency_4").study.cells()
    assert cells["variant"].isna().all()
