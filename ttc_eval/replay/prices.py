"""A stored study under other prices. Pure functions over the frames of a study.

| function | from | to |
|---|---|---|
| `replayed` | a study and a `Pricing` | `repriced`, read from its file |
| `repriced` | frames and a `Pricing` | one row per cell: what it was charged, and would be |
| `snapshot` | a file of the price book | a `cost_of` for a `Pricing` |

What a cell is charged is the sum over its calls. A call whose usage is unknown is charged its whole reservation, as when it was made
(docs/design.md 3.3), and an unknown price is None, which makes the sum of its cell None: never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ttc_eval import prices
from ttc_eval.errors import UserError
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.records import Usage
from ttc_eval.shown import unknown

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

CostOf = Callable[[PriceRef, Usage, float], Decimal | None]

# One row per cell and call that it used, with what its price depends on.
CHARGES = """
    SELECT u.cell_id, u.problem_id, u.overshoot, k.model, k.role, k.started_at, k.usage_source, k.input_tokens, k.cached_input_tokens,
           k.cache_write_tokens, k.output_tokens, k.reserved_input_tokens, k.reserved_output_tokens, u.charged_usd
    FROM uses u JOIN calls k USING (call_id)"""


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices to see a study under.

    Attributes:
        own: a price for every model, in USD per million tokens; models: one by the name that tables show, which goes first.
        provider, model: where the price book lists the price for every model, instead of where each is listed itself.
        at: moment in Unix seconds whose prices count; None: that of each call.
        cost_of: works a cost out, by default with the pinned price book.
    """

    own: Price | None = None
    provider: str | None = None
    model: str | None = None
    models: Mapping[str, PriceRef] = field(default_factory=dict)
    at: float | None = None
    cost_of: CostOf = prices.cost

    def ref(self, name: str, stored: PriceRef) -> PriceRef:
        """Where the model of that name has its price; `stored` is where it had it in the study."""
        if name in self.models:
            return self.models[name]
        if self.own is not None or self.model is not None:
            return PriceRef(self.provider, self.model, self.own)
        return stored


def repriced(cells: pd.DataFrame, charges: pd.DataFrame, refs: Mapping[tuple[str, str], PriceRef], pricing: Pricing) -> pd.DataFrame:
    """Cells with what their calls cost under other prices, beside what they were charged.

    Args:
        cells: rows of `Study.cells()`.
        charges: rows of the query `CHARGES`.
        refs: where each model has its price in the study, by cell and role of the call (`stored_refs`).

    Returns the columns cell_id, model, thinking_label, strategy_label, variant, n_problems, n_correct, charged_usd, usd_per_correct,
    new_usd, new_usd_per_correct, calls and unpriced_calls. USD is None where a price is unknown.
    """
    import pandas as pd

    sums: dict[str, Decimal | None] = dict.fromkeys(cells["cell_id"], Decimal(0))
    calls, unpriced = dict.fromkeys(cells["cell_id"], 0), dict.fromkeys(cells["cell_id"], 0)
    for row in charges[~charges["overshoot"].astype(bool)].to_dict("records"):
        cell_id = row["cell_id"]
        ref = pricing.ref(row["model"], refs.get((cell_id, row["model"]), PriceRef()))
        cost, total = call_cost(row, ref, pricing), sums[cell_id]
        calls[cell_id] += 1
        unpriced[cell_id] += cost is None
        sums[cell_id] = None if cost is None or total is None else total + cost
    names = ["cell_id", "model", "thinking_label", "strategy_label", "variant", "n_problems", "n_correct", "charged_usd", "usd_per_correct"]
    found = cells[[name for name in names if name in cells]].copy()
    totals = [sums[cell_id] if calls[cell_id] else None for cell_id in found["cell_id"]]
    right = [0 if unknown(count) else int(count) for count in found["n_correct"]]
    return found.assign(
        new_usd=pd.Series([None if total is None else float(total) for total in totals], index=found.index, dtype=object),
        new_usd_per_correct=pd.Series(
            [None if total is None or not count else float(total / count) for total, count in zip(totals, right, strict=True)],
            index=found.index,
            dtype=object,
        ),
        calls=[calls[cell_id] for cell_id in found["cell_id"]],
        unpriced_calls=[unpriced[cell_id] for cell_id in found["cell_id"]],
    )


def call_cost(row: Mapping[Any, Any], ref: PriceRef, pricing: Pricing) -> Decimal | None:
    """USD of one stored call; that of its whole reservation when its usage is unknown. None without a price or a reservation."""
    at = row["started_at"] if pricing.at is None else pricing.at
    size, out, cached, written = (None if unknown(row[name]) else int(row[name]) for name in _COUNTS)
    if size is not None and out is not None:
        return pricing.cost_of(ref, Usage(size, out, cached, written), at)
    if unknown(row["reserved_input_tokens"]) or unknown(row["reserved_output_tokens"]):
        return None
    size, out = int(row["reserved_input_tokens"]), int(row["reserved_output_tokens"])
    dearest = [pricing.cost_of(ref, Usage(size, out, cache_write_tokens=written), at) for written in (0, size)]
    return None if None in dearest else max(cost for cost in dearest if cost is not None)


_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens")


def snapshot(path: Path) -> CostOf:
    """Costs by another snapshot of the price book: a JSON file with a list of providers, as genai-prices publishes it.

    Raises `UserError` when the file cannot be read as one.
    """
    from genai_prices import Usage as BookUsage
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import _providers_from_raw  # the only reader of that format, in a package that is pinned

    try:
        book = DataSnapshot(_providers_from_raw(orjson.loads(path.read_bytes())), from_auto_update=False)
    except OSError as error:
        raise UserError(f"prices.book={path}: it cannot be read: {error.strerror}") from None
    except Exception as error:
        raise UserError(f"prices.book={path}: it is no price book of genai-prices ({type(error).__name__})") from None

    def cost(ref: PriceRef, usage: Usage, at: float) -> Decimal | None:
        if ref.own is not None or ref.model is None or usage.input_tokens is None or usage.output_tokens is None:
            return prices.cost(ref, usage, at)
        measured = BookUsage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_input_tokens or 0,
            cache_write_tokens=usage.cache_write_tokens or 0,
            output_tokens=usage.output_tokens,
        )
        try:
            found = book.calc(measured, ref.model, ref.provider, None, datetime.fromtimestamp(at, tz=UTC))
        except LookupError:
            return None
        return found.total_price

    return cost


def stored_refs(cells: pd.DataFrame) -> dict[tuple[str, str], PriceRef]:
    """Where the models of each cell have their prices, by cell and model name, from frames with `cell_id` and `config`."""
    refs: dict[tuple[str, str], PriceRef] = {}
    for row in cells.to_dict("records"):
        config = orjson.loads(row["config"])
        for key in ("larger_model", "verifier_model", "model"):
            model = config.get(key)
            if model:
                refs[row["cell_id"], model.get("name", "")] = price_ref(model.get("price") or {})
    return refs


def price_ref(plain: Mapping[str, Any]) -> PriceRef:
    """A `PriceRef` from the values of a config. Raises `UserError` or ValueError for what is none."""
    own = {name: None if value is None else Decimal(str(value)) for name, value in (plain.get("own") or {}).items()}
    price = Price(**own) if own else None  # type: ignore[arg-type]
    return PriceRef(plain.get("provider"), plain.get("model"), price)


def replayed(study: Study, pricing: Pricing) -> pd.DataFrame:
    """The cells of a study under other prices, see `repriced`. Makes no call."""
    refs = stored_refs(study.sql("SELECT cell_id, config FROM cells"))
    return repriced(study.cells(), study.sql(CHARGES), refs, pricing)
