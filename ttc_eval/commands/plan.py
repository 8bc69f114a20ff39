"""`ttc-eval plan`: what `ttc-eval sweep` with the same arguments would send and could cost. Nothing is sent and nothing is spent."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttc_eval.errors import UserError
from ttc_eval.records import Amounts

if TYPE_CHECKING:
    from ttc_eval.sweep.plan import CellForecast, Forecast
    from ttc_eval.sweep.prepare import Plan

_UNKNOWN = "unknown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments, for the help; `main` reads them itself, since they are Hydra's."""
    parser.add_argument("--like", metavar="STUDY", help="expect what the draws of this study used (default: the study of the sweep)")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for sweep, -m and experiment=… included")


def main(arguments: Sequence[str]) -> int:
    """Show the plan of `ttc-eval sweep ARGUMENTS`; returns the exit code: 0, or 2 for what the sweep would refuse."""
    from ttc_eval.sweep.app import compose, plain
    from ttc_eval.sweep.prepare import prepare
    from ttc_eval.sweep.summary import output_console, program

    if any(one in ("-h", "--help") for one in arguments):
        parser = argparse.ArgumentParser(prog="ttc-eval plan", description=f"{__doc__}")
        add_arguments(parser)
        parser.print_help()
        return 0
    try:
        like, overrides = _like(arguments)
        composed = compose(overrides)
        if not composed:
            return 0
        plan = prepare([plain(config) for config in composed], overrides, to_run=False)
        tell(plan, foreseen(plan, like), output_console(), f"{program()} sweep {shlex.join(plan.overrides)}".rstrip())
    except UserError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    return 0


def run(options: argparse.Namespace) -> int:
    """Show the plan of the overrides; the command line itself calls `main`."""
    return main([*(["--like", options.like] if options.like else []), *options.overrides])


def foreseen(plan: Plan, like: Path | None = None) -> Forecast:
    """The forecast of a plan, after what its study holds; `like` is another study to take means from. Raises `UserError`."""
    from ttc_eval.store.loader import DatabaseBusy, load
    from ttc_eval.sweep.history import read_history
    from ttc_eval.sweep.means import read_means
    from ttc_eval.sweep.plan import forecast

    if any(plan.paths.journals.glob("*.jsonl")):
        # What a running sweep holds in its journals only is missing then, as it would have been a moment earlier.
        with contextlib.suppress(DatabaseBusy):
            load(plan.paths, wait_seconds=1.0)
    if like is not None and not like.exists():
        raise UserError(f"--like {like}: there is no such study")
    return forecast(plan, read_history(plan), read_means(like or plan.paths.database))


def tell(plan: Plan, found: Forecast, console: Console, command: str) -> None:
    """Print what each cell sends, what it takes at most, and the sums."""
    from ttc_eval.prices import book_version

    console.print(_sent_table(found))
    console.print(_cost_table(found))
    for text in _sums(found, book_version()):
        console.print(Text(text), soft_wrap=True)
    for text in _warnings(found):
        console.print(Text(text, style="yellow"), soft_wrap=True)
    console.print(Text(f"study: {plan.paths.database}; nothing was sent. To run it: {command}"), soft_wrap=True)


def _like(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    kept, like, left = list[str](), None, iter(arguments)
    for argument in left:
        if argument == "--like" or argument.startswith("--like="):
            given = argument.partition("=")[2] or next(left, "")
            if not given:
                raise UserError("--like: name a study, for example --like results/quickstart.duckdb")
            like = Path(given) if Path(given).suffix else Path("results") / f"{given}.duckdb"
        else:
            kept.append(argument)
    return like, kept


def _sent_table(found: Forecast) -> Table:
    """One row per distinct request: which cells send it, and what it says."""
    table = _table("What is sent, without the conversation", ["cells", "model", "thinking", "budget", "cap", "sent"])
    rows: dict[tuple[str, ...], list[int]] = {}
    for place, cell in enumerate(found.cells, 1):
        thinking = cell.cell.config.thinking
        budget = "–" if thinking.budget is None else str(thinking.budget)
        row: tuple[str, ...] = (cell.cell.model.info.name, thinking.label, budget, str(cell.cap), _sent(cell))
        rows.setdefault(row, []).append(place)
    for row, places in rows.items():
        table.add_row(_ranges(places), *row)
    return table


def _sent(cell: CellForecast) -> str:
    info, thinking = cell.cell.model.info, cell.cell.config.thinking
    how = ""
    if info.forced is not None and thinking.budget:
        how = f"the budget is forced here, by continuing the turn: up to {cell.segments} requests a draw"
    if cell.body is None:
        return how or ("nothing: its answers are invented here" if info.simulated else "runs in this process")
    fields = ", ".join(f"{name}: {_short(value)}" for name, value in cell.body.items() if name not in ("model", "stream", "stream_options"))
    return f"{fields}; {how}" if how else fields


def _short(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= 120 else f"{text[:117]}…"


def _cost_table(found: Forecast) -> Table:
    names = ["cell", "thinking", "strategy", "problems", "draws", "reused", "scores", "calls", "input", "output"]
    priced = any(cell.priced for cell in found.cells)
    usd = ["USD", "expected USD"] if priced else []
    table = _table("New work: at most, without retries (and expected)", [*names, "expected output", *usd])
    for place, cell in enumerate(found.cells, 1):
        config, bound, expected = cell.cell.config, cell.bound, cell.expected
        shown = [str(place), config.thinking.label, config.strategy.label, str(cell.problems), _count(cell.draws), str(cell.stored)]
        shown += [_count(cell.scores), *(_of(bound, name) for name in ("calls", "input_tokens", "output_tokens"))]
        shown += [_of(expected, "output_tokens")]
        table.add_row(*shown, *([_usd(cell, bound), _usd(cell, expected)] if priced else []))
    return table


def _sums(found: Forecast, book: str) -> list[str]:
    lines = []
    what = {"at most, each call once": found.bound, "at most, with every retry": found.retried, "expected by stored draws": found.expected}
    for name, amounts in what.items():
        if amounts is None:
            why = "no draws are stored that are like these" if name.startswith("expected") else "a strategy does not say what it asks for"
            lines.append(f"{name}: {_UNKNOWN} ({why})")
            continue
        usd = f"${amounts.usd:.4f}" if found.priced else "USD unknown: no price"
        tokens = f"{amounts.input_tokens:,} input tokens, {amounts.output_tokens:,} output tokens"
        lines.append(f"{name}: {amounts.calls:,} calls, {tokens}, {usd}")
    if found.priced:
        lines.append(f"prices: {book}")
    return lines


def _warnings(found: Forecast) -> list[str]:
    unpriced = sorted({cell.cell.model.info.name for cell in found.cells if not cell.priced and not cell.cell.model.info.simulated})
    warnings = [f"no price is known for {', '.join(unpriced)}: cost will be unknown, not 0"] if unpriced else []
    silent = {
        cell.cell.model.info.name
        for cell in found.cells
        if cell.cell.config.thinking.mode.value != "off" and not cell.cell.model.info.thinking.reports_reasoning_tokens
    }
    if silent and not all(cell.cell.model.info.simulated for cell in found.cells):
        warnings.append(f"{', '.join(sorted(silent))}: its usage does not tell reasoning tokens, so they will be unknown")
    return warnings


def _table(title: str, heads: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold", justify="left" if head in ("cells", "model", "thinking", "strategy", "sent") else "right")
    return table


def _ranges(places: Sequence[int]) -> str:
    if len(places) > 2 and places[-1] - places[0] == len(places) - 1:
        return f"{places[0]}–{places[-1]}"
    return ", ".join(map(str, places))


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _of(amounts: Amounts | None, name: str) -> str:
    return _UNKNOWN if amounts is None else f"{getattr(amounts, name):,}"


def _usd(cell: CellForecast, amounts: Amounts | None) -> str:
    if not cell.priced:
        return "no price"
    return _UNKNOWN if amounts is None else f"{Decimal(amounts.usd):.4f}"
