"""`ttc-eval replay`: a study under other strategies, verifiers, stopping rules or prices. It makes no call."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttc_eval.commands.studies import chosen, take_options_anywhere
from ttc_eval.errors import UserError
from ttc_eval.replay.price_options import parsed, pricing_of, said
from ttc_eval.replay.prices import replayed
from ttc_eval.shown import unknown
from ttc_eval.store import StudyPaths
from ttc_eval.study import Study, open_study

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.replay.policies import Policy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Run strategies over the stored draws and scores of a study, or see it under other prices. Makes no call; the study stays as "
        "it is. Guide: docs/replay.md"
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="[STUDY] [KEY=VALUE…]",
        help="the study's DuckDB file or name (default: the newest in results/); strategy=NAME and its keys as in a sweep, "
        "limits.problem.…; verifier=NAME of stored scores, or a verifier that runs here; model=, dataset=, split=, seed=, thinking= take "
        "only these pools; "
        "study=OUT keeps the result as a study; prices.own.input=, .output= (USD per million tokens), prices.provider=, prices.model=, "
        "prices.at=DATE, prices.book=FILE.json, or prices=FILE.yaml",
    )
    parser.add_argument("-m", "--multirun", action="store_true", help="several values: -m strategy.n=1,2,4,8")
    parser.add_argument("--config-dir", default=None, help="a folder of your own configs")
    take_options_anywhere(parser)


def run(options: argparse.Namespace) -> int:
    """Show the cells under other strategies, or under other prices, or both."""
    from ttc_eval.sweep.summary import output_console

    named = [one for one in options.arguments if "=" not in one]
    if len(named) > 1:
        raise UserError(f"replay: give one study, not {len(named)}: {' '.join(named)}")
    given = [one for one in options.arguments if "=" in one]
    prices = [one for one in given if one.partition("=")[0].split(".")[0] == "prices"]
    rules = [one for one in given if one not in prices]
    study, console = chosen(Path(named[0]) if named else None), output_console()
    if not rules:
        _show_prices(study, prices, console)
        return 0
    with tempfile.TemporaryDirectory(prefix="ttc-eval-replay-") as scratch:
        _replay(study, rules, prices, options, Path(scratch), console)
    return 0


def _replay(
    study: Study, rules: Sequence[str], prices: Sequence[str], options: argparse.Namespace, scratch: Path, console: Console
) -> None:
    from ttc_eval.replay.policies import replay
    from ttc_eval.replay.pools import FILTERS
    from ttc_eval.sweep.summary import table

    wanted = {name: value.split(",") for name, _, value in (one.partition("=") for one in rules) if name in FILTERS}
    outputs = [one.partition("=")[2] for one in rules if one.startswith("study=")]
    rest = [one for one in rules if one.partition("=")[0] not in (*FILTERS, "study")]
    if not any(one.startswith("strategy=") for one in rest):
        raise UserError("replay: say which strategy, for example strategy=self_consistency strategy.max_attempts=4, or only prices.…=…")
    source = StudyPaths(study.path)
    target = _target(outputs[-1], source) if outputs else StudyPaths(scratch / "replay.duckdb")
    policies = _policies(source, rest, wanted, options)
    asyncio.run(replay(source, target, policies, wanted, [*rest, *prices]))
    found = open_study(target.database)
    console.print(table(found.cells(), console.width))
    kept = f"; kept in {target.database}" if outputs else "; study=OUT keeps it"
    console.print(Text(f"replayed from {study.path}; no call was made, and the study is as it was{kept}"), soft_wrap=True)
    if prices:
        _show_prices(found, prices, console)


def _target(name: str, source: StudyPaths) -> StudyPaths:
    path = Path(name)
    # A bare name goes beside the study that it is made from.
    return StudyPaths(path) if path.suffix == ".duckdb" else StudyPaths.of(source.database.parent, name)


def _policies(source: StudyPaths, rest: Sequence[str], wanted: dict[str, list[str]], options: argparse.Namespace) -> list[Policy]:
    from ttc_eval.replay.policies import REPLACED, Policy, verifiers_of
    from ttc_eval.sweep.app import compose, plain

    stored = verifiers_of(source.database, wanted)
    asked = [one.partition("=")[2].split(",") for one in rest if one.startswith("verifier=")]
    names: list[str | None] = [*asked[-1]] if asked and all(name in stored for name in asked[-1]) else [None]
    if names[0] is not None:
        rest = [one for one in rest if not one.startswith("verifier=")]
    keys = [_top(one) for one in rest]
    foreign = [key for key in keys if key not in REPLACED]
    if foreign:
        known = ", ".join(key for key in REPLACED if key != "strategy")
        raise UserError(f"{foreign[0]}: a replay takes strategy, {known} and the filters; the rest is as the draws were made")
    # A verifier's config may bring its judge.
    given = frozenset([*keys, *(["verifier_model"] if "verifier" in keys else [])])
    words = [*(["--multirun"] if options.multirun else []), *([f"--config-dir={options.config_dir}"] if options.config_dir else []), *rest]
    composed = [plain(config) for config in compose(words)]
    return [Policy(config, given, name) for config, name in product(composed, names)]


def _top(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").rpartition("@")[2].split(".")[0]


def _show_prices(study: Study, prices: Sequence[str], console: Console) -> None:
    """What each cell was charged and what it would have been, side by side."""
    from ttc_eval.prices import book_version

    wanted = parsed(prices)
    found = replayed(study, pricing_of(wanted))
    console.print(price_table(found))
    console.print(Text(f"{study.path}; {said(wanted, book_version())}; no call was made, and the study is as it was"), soft_wrap=True)
    calls, missing = int(found["calls"].sum()), int(found["unpriced_calls"].sum())
    if missing:
        console.print(Text(f"{missing} of {calls} charged calls have no price here: their cells' cost is unknown", style="yellow"))


def price_table(found: pd.DataFrame) -> Table:
    """The cells with their cost as stored and as replayed, per cell and per correct answer."""
    shown = Table(
        box=box.SIMPLE_HEAD, title="Charged USD, as stored and as replayed", title_justify="left", title_style="bold", pad_edge=False
    )
    heads = (
        "model",
        "thinking",
        "strategy",
        "problems",
        "correct",
        "stored",
        "replayed",
        "ratio",
        "stored\na correct",
        "replayed\na correct",
    )
    for head in heads:
        shown.add_column(head, justify="left" if head in heads[:3] else "right")
    for row in found.to_dict("records"):
        strategy = row["strategy_label"] if unknown(row.get("variant")) else f"{row['strategy_label']} ({row['variant']})"
        old, new = row["charged_usd"], row["new_usd"]
        ratio = "–" if unknown(old) or unknown(new) or not float(old) else f"{float(new) / float(old):.3f}"
        counts = ["–" if unknown(row[name]) else str(int(row[name])) for name in ("n_problems", "n_correct")]
        each = [_usd(row[name], row[cost]) for name, cost in (("usd_per_correct", "charged_usd"), ("new_usd_per_correct", "new_usd"))]
        shown.add_row(str(row["model"]), str(row["thinking_label"]), strategy, *counts, _usd(old, old), _usd(new, new), ratio, *each)
    return shown


def _usd(value: Any, cost: Any) -> str:
    if unknown(cost):
        return "no price"
    return "undefined" if unknown(value) else f"{float(value):.6f}"
