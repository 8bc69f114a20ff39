"""Progress: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ttc_eval.sweep.state import SweepState

_PLAIN_EVERY_S = 10.0
_CELLS_SHOWN = 12


@contextmanager
def watching(state: SweepState, console: Console) -> Iterator[None]:
    """Show the progress of a sweep while the context lasts."""
    if not console.is_terminal:
        with _plain_lines(state, console):
            yield
        return
    with Live(get_renderable=lambda: _picture(state), console=console, refresh_per_second=4, transient=True):
        yield


@contextmanager
def _plain_lines(state: SweepState, console: Console) -> Iterator[None]:
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_PLAIN_EVERY_S):
            console.print(headline(state), highlight=False, soft_wrap=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def headline(state: SweepState) -> str:
    """One line: cells, problems, calls, tokens, USD against the limit, errors, rate and the time that is left."""
    cells = list(state.cells.values())
    done, total = sum(cell.done for cell in cells), sum(cell.done + cell.left for cell in cells)
    finished = sum(cell.left == 0 for cell in cells)
    tally, elapsed = state.tally, time.monotonic() - state.started
    parts = [
        f"cells {finished}/{len(cells)}",
        f"problems {done}/{total}",
        f"{tally.in_flight} in flight",
        f"{tally.calls} calls",
        f"{tally.reused} reused",
        f"{tally.output_tokens} output tokens ({tally.output_tokens / elapsed:.0f}/s)" if elapsed > 0 else "",
    ]
    limit = state.plan.cells[0].config.limits.sweep.usd
    if limit is not None or tally.usd:
        parts.append(f"${tally.usd:.4f}" + (f" of ${limit}" if limit is not None else ""))
    parts.append(f"{tally.errors} errors")
    here = sum(cell.done - cell.done_before for cell in cells)
    if here > 0 and total > done:
        parts.append(f"about {_duration(elapsed / here * (total - done))} left")
    return " · ".join(part for part in parts if part)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _picture(state: SweepState) -> RenderableType:
    rows = Table.grid(padding=(0, 1))
    cells = list(state.cells.values())
    # Of a large sweep, what is under way is worth the room.
    under_way = [cell for cell in cells if cell.left] or cells
    for cell in under_way[:_CELLS_SHOWN]:
        config = cell.cell.config
        name = f"{cell.cell.model.info.name} · {config.thinking.label} · {config.strategy.label}"
        total = cell.done + cell.left
        note = Text(f"{cell.errors} errors", style="red") if cell.errors else Text(cell.status if cell.status != "running" else "")
        rows.add_row(Text(name), ProgressBar(total=max(total, 1), completed=cell.done, width=24), Text(f"{cell.done}/{total}"), note)
    hidden = len(under_way) - _CELLS_SHOWN
    if hidden > 0:
        rows.add_row(Text(f"and {hidden} more cells", style="dim"))
    return Group(rows, Text(headline(state)))
