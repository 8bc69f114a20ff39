"""What a call costs: the pinned, dated price book, or the user's own price. An unknown price is None, never 0.

The book is genai-prices at a pinned version; nothing is fetched. Every figure is stored with `book_version()` and the
time of its call, so that it can be recomputed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from ttc_eval.models.base import Price, PriceRef
from ttc_eval.records import Usage

_MILLION = Decimal(1_000_000)


def book_version() -> str:
    """Name and version of the price book, for the record."""
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


def cost(ref: PriceRef, usage: Usage, at: float) -> Decimal | None:
    """USD of one call at Unix time `at`; None when its price or its usage is unknown.

    `usage` follows docs/design.md 3.2: cached input is part of input, reasoning is part of output and not added again.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if ref.own is not None:
        return _own_cost(ref.own, usage)
    if ref.model is None:
        return None
    return _book_cost(ref.provider, ref.model, usage, at)


def upper_bound(ref: PriceRef, input_tokens: int, output_tokens: int, at: float) -> Decimal | None:
    """The most that a call of these sizes can cost: input at its dearest rate. None when there is no price."""
    plain = cost(ref, Usage(input_tokens, output_tokens), at)
    written = cost(ref, Usage(input_tokens, output_tokens, cache_write_tokens=input_tokens), at)
    return None if plain is None or written is None else max(plain, written)


def _own_cost(price: Price, usage: Usage) -> Decimal:
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    fresh = (usage.input_tokens or 0) - cached - written
    return (
        fresh * price.input
        + cached * (price.input if price.cached_input is None else price.cached_input)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + (usage.output_tokens or 0) * price.output
    ) / _MILLION


def _book_cost(provider: str | None, model: str, usage: Usage, at: float) -> Decimal | None:
    from genai_prices import Usage as BookUsage
    from genai_prices import calc_price

    if not is_listed(provider, model):
        return None
    measured = BookUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_input_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens or 0,
        output_tokens=usage.output_tokens,
    )
    when = datetime.fromtimestamp(at, tz=UTC)
    return calc_price(measured, model, provider_id=provider, genai_request_timestamp=when).total_price


@lru_cache(maxsize=256)
def is_listed(provider: str | None, model: str) -> bool:
    """Whether the price book knows the model."""
    from genai_prices import Usage as BookUsage
    from genai_prices import calc_price

    try:
        calc_price(BookUsage(input_tokens=1, output_tokens=1), model, provider_id=provider)
    except LookupError:
        return False
    return True


def has_price(ref: PriceRef) -> bool:
    """Whether calls with this reference can be priced at all."""
    return ref.own is not None or (ref.model is not None and is_listed(ref.provider, ref.model))
