"""What the command line says of prices, as a `Pricing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.replay.prices import Pricing, snapshot

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


def said(wanted: Prices, book: str) -> str:
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
