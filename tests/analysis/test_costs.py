"""Every token and every dollar of a cell is in one part, and the parts make the ledger's sums."""

from __future__ import annotations

import numpy as np
import pytest

from ttc_eval.analysis.costs import PARTS, decomposition
from ttc_eval.study import Study


@pytest.mark.parametrize("basis", ["charged", "billed"])
def test_the_parts_sum_to_the_cells_totals(simulated: Study, basis: str) -> None:
    found = decomposition(simulated)
    cells = simulated.cells().set_index("cell_id")
    sums = found[found["basis"] == basis].groupby("cell_id")[["calls", "tokens", "usd"]].sum().reindex(cells.index, fill_value=0.0)
    assert np.allclose(sums["tokens"], cells[f"{basis}_input_tokens"] + cells[f"{basis}_output_tokens"])
    assert np.allclose(sums["usd"], cells[f"{basis}_usd"])
    assert (sums["calls"] == cells[f"{basis}_calls"]).all()
    assert set(found["part"]) <= set(PARTS)
    assert not found.duplicated(["cell_id", "basis", "part"]).any()


def test_what_failed_was_retried_or_unknown_is_told_apart(simulated: Study) -> None:
    found = decomposition(simulated)
    charged = found[found["basis"] == "charged"].groupby("part")["tokens"].sum()
    for part in ("prompt", "reasoning", "answer", "verifier", "retried", "reserved"):
        assert charged[part] > 0
    assert "overshoot" not in charged  # nothing was fetched ahead
    judged = found[found["strategy"] == "best_of_n"]
    assert set(judged.loc[judged["part"] == "verifier", "basis"]) == {"charged", "billed"}
    alone = found[found["strategy"] == "single"]
    assert "verifier" not in set(alone["part"])


def test_per_problem_and_per_correct_answer(simulated: Study) -> None:
    found = decomposition(simulated)
    cells = simulated.cells().set_index("cell_id").loc[found["cell_id"]]
    assert np.allclose(found["tokens_per_problem"] * cells["n_problems"].to_numpy(), found["tokens"])
    assert np.allclose(found["usd_per_correct"] * cells["n_correct"].to_numpy(), found["usd"])
    assert found.attrs["excluded"] == []
