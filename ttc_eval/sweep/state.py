"""How far a sweep is: what the runner changes, the progress display shows and the outcome is made from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ttc_eval.exchange import Tally
from ttc_eval.ledger import Account
from ttc_eval.sweep.prepare import Cell, Plan


@dataclass(slots=True)
class CellState:
    """How far a cell is."""

    cell: Cell
    account: Account
    left: int
    done: int = 0
    done_before: int = 0
    errors: int = 0
    status: str = "running"
    error: str | None = None
    first_error: str | None = None
    started_at: float = field(default_factory=time.time)


@dataclass(slots=True)
class SweepState:
    """What the progress display shows and the outcome is made from."""

    plan: Plan
    sweep_id: str
    cells: dict[str, CellState]
    tally: Tally
    started: float = field(default_factory=time.monotonic)
    stopped_by: str | None = None
    notes: list[str] = field(default_factory=list)
    # Where the numbers are read from: the study's database, or a snapshot of the journals while that is busy.
    database: Path = field(default_factory=Path)

    @property
    def status(self) -> str:
        """`stopped` by a limit or by the user, `failed` when a cell or a problem did, else `finished`."""
        if self.stopped_by is not None:
            return "stopped"
        failed = any(state.status == "failed" or state.errors or state.left for state in self.cells.values())
        return "failed" if failed else "finished"


def unfinished(state: SweepState) -> Sequence[CellState]:
    """The cells that failed, were stopped, or hold problems that ended in an error."""
    return [cell_state for cell_state in state.cells.values() if cell_state.status != "finished" or cell_state.errors]
