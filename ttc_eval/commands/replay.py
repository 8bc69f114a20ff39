"""`ttc-eval replay`: a stored study under other rules, without a call. So far: other prices."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from ttc_eval.commands.studies import chosen
from ttc_eval.errors import UserError
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.replay import Pricing, replayed, snapshot
from ttc_eval.shown import unknown

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLE = "for example prices.own.input=0.25 prices.own.output=2"


@dataclass(frozen=True, slots=True)
class Prices:
    """What `prices` may say on the command line, or in the file that it names.

    Attributes:
        own: USD per million tokens, for every model; models: a price for one model each, by its name in tables.
        provider, model: where the price book lists the price for every model.
        book: a file with another snapshot of the price book; at: the date whose prices count, such as 2025-06-01 (UTC).
    """

    own: Price | None = None
    models: Mapping[str, PriceRef] = field(default_factory=dict)
    provider: str | None = None
    model: str | None = None
    book: str | None = None
    at: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="[STUDY] [prices…]",
        help="the study's DuckDB file or name (default: the newest in results/), and prices.own.input=, .output=, .cached_input=, "
        ".cache_write= (USD per million tokens), prices.provider= and prices.model= (as the price book lists it), prices.at=DATE, "
        "prices.book=FILE.json, or prices=FILE.yaml with these keys and models: {NAME: {own: …}}",
    )


def run(options: argparse.Namespace) -> int:
    """Show what each cell was charged and what it would have been, side by side."""
    from ttc_eval.prices import book_version
    from ttc_eval.sweep.summary import output_console

    named = [one for one in options.arguments if "=" not in one]
    if len(named) > 1:
        raise UserError(f"replay: give one study, not {len(named)}: {' '.join(named)}")
    wanted = parsed([one for one in options.arguments if "=" in one])
    study = chosen(Path(named[0]) if named else None)
    found = replayed(study, pricing_of(wanted))
    console = output_console()
    console.print(table(found))
    console.print(Text(f"{study.path}; {_said(wanted, book_version())}; no call was made, and the study is as it was"), soft_wrap=True)
    unpriced, missing = int(found["calls"].sum()), int(found["unpriced_calls"].sum())
    if missing:
        console.print(Text(f"{missing} of {unpriced} charged calls have no price here: their cells' cost is unknown", style="yellow"))
    return 0


def parsed(overrides: Sequence[str]) -> Prices:
    """The prices that overrides name. Raises `UserError`."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from ttc_eval.sweep.config import typed

    dotted: list[str] = []
    values: dict[str, Any] = {}
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "prices" and not value.startswith("{"):
            values |= _file(Path(value))
        elif key == "prices" or key.startswith("prices."):
            dotted.append(override)
        else:
            raise UserError(f"{key}: replay takes prices only, {_EXAMPLE}")
    try:
        given = OmegaConf.to_container(OmegaConf.from_dotlist(dotted), resolve=True)
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"prices: {str(error).splitlines()[0]}") from None
    assert isinstance(given, dict)
    given = values | (given.get("prices") or {})
    # The models' names are no keys of ours.
    named = given.pop("models", None) or {}
    if not isinstance(named, Mapping):
        raise UserError("prices.models: give a price for each model by its name in tables, {NAME: {own: {input: …, output: …}}}")
    found: Prices = typed(Prices, given, "prices")
    models = {str(name): typed(PriceRef, value, f"prices.models.{name}") for name, value in named.items()}
    found = replace(found, models=models)
    if found.provider is not None and found.model is None:
        raise UserError(f"prices.provider={found.provider}: name the model too, with prices.model=…")
    return found


def pricing_of(wanted: Prices) -> Pricing:
    """The pricing that options ask for. Raises `UserError` for a date or a file that cannot be used."""
    at = None
    if wanted.at is not None:
        try:
            day = datetime.fromisoformat(wanted.at)
        except ValueError:
            raise UserError(f"prices.at={wanted.at}: give a date, for example 2025-06-01") from None
        at = (day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp()
    options: dict[str, Any] = {} if wanted.book is None else {"cost_of": snapshot(Path(wanted.book))}
    return Pricing(wanted.own, wanted.provider, wanted.model, wanted.models, at, **options)


def table(found: pd.DataFrame) -> Table:
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


def _said(wanted: Prices, book: str) -> str:
    """In words, which prices these are."""
    parts = []
    if wanted.own is not None:
        parts.append(f"own price {wanted.own.input} in, {wanted.own.output} out, USD per million tokens")
    elif wanted.model is not None:
        parts.append(f"the price of {wanted.model}")
    parts += [f"own entries for {', '.join(sorted(wanted.models))}"] if wanted.models else []
    parts.append(f"book {wanted.book or book}")
    return ", ".join(parts) + (f", as of {wanted.at}" if wanted.at else ", each call at its own time")


def _file(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf

    try:
        found = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except Exception as error:  # the reader of YAML has no base class for its errors
        raise UserError(f"prices={path}: it cannot be read as YAML ({type(error).__name__}); give a file, or {_EXAMPLE}") from None
    if not isinstance(found, dict):
        raise UserError(f"prices={path}: it must hold keys such as own, models, provider, model, book, at")
    return {str(key): value for key, value in found.items()}
