"""What the terminal shows after a sweep: the table of cells, what went wrong, the figure, and what to try next."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttc_eval.shown import share, unknown
from ttc_eval.store import reading
from ttc_eval.sweep.state import SweepState, unfinished
from ttc_eval.variants import with_variants

if TYPE_CHECKING:
    import pandas as pd

_WIDE = 132
_WIDE_HEADS = ("coverage", "selected-answer\naccuracy", "success", "candidate-set\nsuccess (oracle)", "selection\ngap", "output\ntokens")
_NARROW_HEADS = ("cover-\nage", "sel.-ans.\naccuracy", "success", "cand.-set\n(oracle)", "sel.\ngap", "output\ntokens")


def cell_metrics(state: SweepState) -> pd.DataFrame:
    """The rows of `cell_metrics` for the cells of this sweep, in the sweep's order."""
    with reading(state.database) as connection:
        query = "SELECT m.*, c.config FROM cell_metrics m JOIN cells c USING (cell_id) WHERE list_contains(?, cell_id)"
        found = with_variants(connection.execute(query, [list(state.cells)]).df())
    order = {cell_id: place for place, cell_id in enumerate(state.cells)}
    return found.sort_values("cell_id", key=lambda ids: ids.map(order)).reset_index(drop=True)


def output_console() -> Console:
    """The console of standard output; wide where it goes to a file or a pipe, which have no width."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def table(cells: pd.DataFrame, width: int) -> Table:
    """Cells and their metrics: percentages with their 95 % intervals, and means per problem.

    Below `_WIDE` columns the intervals stand under their values, so that the table fits a terminal of 80.
    """
    wide = width >= _WIDE
    interval = " [{:.0f}, {:.0f}]" if wide else "\n{:.0f}–{:.0f}"
    names = ("model", "dataset", "split", "seed", "variant")
    constant = [name for name in (*names, "n_problems") if cells[name].nunique(dropna=False) == 1]
    priced = bool(cells["charged_usd"].notna().any())
    shown = Table(box=box.SIMPLE_HEAD, title_justify="left", title_style="", header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    varying = [name for name in names if name not in constant]
    for name in [*(varying if wide else []), *(("thinking", "strategy") if wide else ("thinking\nstrategy",))]:
        shown.add_column(name, no_wrap=True)
    heads = _WIDE_HEADS if wide else _NARROW_HEADS
    for name in [*(["n"] if "n_problems" not in constant else []), *heads, "calls", *(["USD per\ncorrect"] if priced else [])]:
        shown.add_column(name, justify="right")
    for row in cells.to_dict("records"):
        labels = [row["thinking_label"], row["strategy_label"]]
        more = ["" if unknown(row[name]) else str(row[name]) for name in varying]
        shown.add_row(
            *(
                [*more, *labels]
                if wide
                else ["\n".join([*labels, *(f"{name} {text}" for name, text in zip(varying, more, strict=True) if text)])]
            ),
            *([str(row["n_problems"])] if "n_problems" not in constant else []),
            *(share(row, name, interval) for name in ("coverage", "selected_accuracy", "success", "candidate_success", "selection_gap")),
            _mean(row, interval),
            _number(row["mean_calls"]),
            *([_usd(row)] if priced else []),
        )
    known = {name: cells[name].iloc[0] for name in constant if not unknown(cells[name].iloc[0])}
    patterns = {"n_problems": "n = {} problems", "seed": "seed {}"}
    said = [patterns.get(name, "{}").format(value) for name, value in known.items()]
    charged, billed = cells["charged_calls"].sum(), cells["billed_calls"].sum()
    usd = f"; USD: {_total(cells['charged_usd'])} charged, {_total(cells['billed_usd'])} billed" if priced else "; USD: no price"
    shown.title = ", ".join(said) + "; shares in % with 95 % Wilson intervals over problems; tokens and calls per problem"
    shown.caption = f"calls: {charged:.0f} charged, {billed:.0f} billed (draws are shared)" + usd
    shown.caption_justify = "left"
    return shown


def tell(state: SweepState, cells: pd.DataFrame, figures: Sequence[str], console: Console) -> None:
    """Print the table of cells, the study and the figures."""
    if cells["simulated"].any():
        console.print(Text("Simulated: these answers were invented, see docs/models.md.", style="bold yellow"))
    console.print(table(cells, console.width))
    tally = state.tally
    _line(console, f"this run: {tally.calls} calls dispatched, {tally.reused} draws reused; study: {state.plan.paths.database}")
    for warning in _warnings(cells):
        _line(console, warning, "yellow")
    for figure in figures:
        _line(console, f"figure: {figure}")


def tell_failures(state: SweepState, console: Console) -> None:
    """Print what went wrong: cells that failed, problems that ended in an error, calls that were lost."""
    for note in state.notes:
        _line(console, note, "yellow")
    for cell in unfinished(state):
        name = f"{cell.cell.model.info.name}, {cell.cell.config.thinking.label}, {cell.cell.config.strategy.label}"
        if cell.status == "failed":
            _line(console, f"cell failed: {name}: {cell.error}", "red")
        elif cell.errors:
            why = f" ({cell.first_error})" if cell.first_error else ""
            _line(console, f"{cell.errors} problems ended in an error: {name}{why}; run the same command to try them again", "red")
    lost, cancelled = _unused_calls(state)
    if lost:
        _line(console, f"{lost} calls were in flight when an earlier run was killed; their reservations count as billed", "yellow")
    if cancelled:
        _line(console, f"{cancelled} calls of this sweep were billed and no solution used them, since it was interrupted", "yellow")


def tell_stopped(state: SweepState, command: str, console: Console) -> None:
    """Say what stopped the sweep, that nothing is lost, and how to go on."""
    done = sum(cell.done for cell in state.cells.values())
    total = done + sum(cell.left for cell in state.cells.values())
    _line(console, f"Stopped ({state.stopped_by}) after {done} of {total} solutions. Everything received is kept.", "yellow")
    limit = (state.stopped_by or "").removesuffix(" is used up")
    again = f"raise {limit} and run again" if limit.startswith("limits.") else "run the same command again"
    _line(console, f"To go on, {again}: {command}")


def program() -> str:
    """How this program is called from here: by name when it is on the path, else by the path of its environment."""
    found = shutil.which("ttc-eval")
    if found is not None:
        return "ttc-eval"
    path = Path(sys.executable).parent / "ttc-eval"
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def tell_next(state: SweepState, console: Console) -> None:
    """What to try next."""
    study, here = state.plan.paths.study, Path("Makefile").exists()
    steps = [
        ("make lab" if here else f"{program()} cells", "the study in a notebook" if here else "the table again"),
        ("make report" if here else f"{program()} report", f"figures and tables of {study} as files"),
    ]
    if study == "quickstart" and here:
        steps.append(("make sweep ARGS='dataset.limit=300'", "more problems; the stored draws are reused"))
    if study != "simulated":
        steps.append((f"{program()} sweep -m experiment=simulated", "a sweep without a model, in seconds"))
    steps.append(
        (f"{program()} sweep model=openai_compatible model.base_url=… model.model=…", "your own endpoint: README, “Use a real provider”")
    )
    console.print("\nNext:")
    for command, what in steps:
        console.print(f"  [bold]{command}[/bold]\n      {what}", highlight=False, soft_wrap=True)


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _unused_calls(state: SweepState) -> tuple[int, int]:
    """Calls of this sweep whose outcome was lost, and calls that no solution used."""
    if not state.database.exists():
        return 0, 0
    query = """SELECT (SELECT count(*) FROM dispatches WHERE sweep_id = $1),
                      (SELECT count(*) FROM calls WHERE sweep_id = $1 AND call_id NOT IN (SELECT call_id FROM uses))"""
    with reading(state.database) as connection:
        row = connection.execute(query, [state.sweep_id]).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


def _warnings(cells: pd.DataFrame) -> list[str]:
    """What would be read off the table wrongly: answers that were cut or not understood."""
    advice = {
        "truncated_share": "were cut by their cap or ran out of thinking budget, and do not vote; raise answer_tokens or the budget",
        "unparsed_share": "had no answer that dataset.answer can read; look at some: SELECT answer_text FROM calls",
    }
    found = []
    for column, said in advice.items():
        many = [row for row in cells.to_dict("records") if not unknown(row[column]) and row[column] > 0.1]
        if many:
            worst = max(many, key=lambda row: float(row[column]))
            where = f"most in {worst['thinking_label']}, {worst['strategy_label']}: {100 * worst[column]:.0f} %"
            found.append(f"in {len(many)} of {len(cells)} cells more than 10 % of the candidates {said} ({where})")
    return found


def _mean(row: dict[Any, Any], interval: str) -> str:
    value, low, high = (row[f"mean_output_tokens{end}"] for end in ("", "_low", "_high"))
    if unknown(value):
        return "undefined"
    return f"{value:.1f}" + ("" if unknown(low) else interval.format(low, high))


def _total(costs: pd.Series[float]) -> str:
    """The sum of what is known, and for how many cells it is not."""
    missing = int(costs.isna().sum())
    if missing == len(costs):
        return "unknown"
    return f"{costs.sum():.6f}" + (f" (unknown in {missing} cells)" if missing else "")


def _number(value: float) -> str:
    return "–" if unknown(value) else f"{value:.2f}".rstrip("0").rstrip(".")


def _usd(row: dict[Any, Any]) -> str:
    if unknown(row["charged_usd"]):
        return "no price"
    return "undefined" if unknown(row["usd_per_correct"]) else f"{row['usd_per_correct']:.6f}"
