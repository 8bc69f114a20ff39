"""What a call costs. An unknown price or usage is None, never 0."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ttc_eval import prices
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.records import UNKNOWN_USAGE, Usage
from ttc_eval.wire import openai_chat

NOW = 1_796_000_000.0


def own(price: dict[str, str]) -> PriceRef:
    cached = price.get("cache_read")
    return PriceRef(own=Price(Decimal(price["input"]), Decimal(price["output"]), None if cached is None else Decimal(cached)))


def test_recorded_chat_usages_cost_what_they_should(shared: Path) -> None:
    cases = [json.loads(line) for line in (shared / "cases" / "cases.jsonl").read_text().splitlines()]
    chosen = [
        c for c in cases if c["kind"] == "usage_cost" and c["input"].get("provider_shape") == "openai_chat" and "cost" in c["expected"]
    ]
    assert chosen
    for case in chosen:
        usage = openai_chat.usage(case["input"]["usage"])
        assert prices.cost(own(case["input"]["price_per_mtok"]), usage, NOW) == Decimal(case["expected"]["cost"]), case["id"]


def test_an_unknown_price_or_usage_has_no_cost() -> None:
    assert prices.cost(PriceRef(model="some-preview-model"), Usage(10, 10), NOW) is None
    assert prices.cost(PriceRef(), Usage(10, 10), NOW) is None
    assert prices.cost(own({"input": "1", "output": "2"}), UNKNOWN_USAGE, NOW) is None
    assert not prices.has_price(PriceRef(model="some-preview-model"))


def test_the_price_book_knows_the_date() -> None:
    usage = Usage(1_000_000, 1_000_000)
    then, later = 1_748_700_000.0, NOW
    assert prices.cost(PriceRef("openai", "o3"), usage, then) == Decimal(50)
    assert prices.cost(PriceRef("openai", "o3"), usage, later) == Decimal(10)


@pytest.mark.parametrize("ref", [PriceRef("anthropic", "claude-haiku-4-5"), own({"input": "1", "output": "5", "cache_read": "0.1"})])
def test_the_upper_bound_holds_for_every_split_of_the_input(ref: PriceRef) -> None:
    bound = prices.upper_bound(ref, 1000, 100, NOW)
    assert bound is not None
    splits: list[dict[str, Any]] = [
        {},
        {"cached_input_tokens": 1000},
        {"cache_write_tokens": 1000},
        {"cached_input_tokens": 300, "cache_write_tokens": 700},
    ]
    for split in splits:
        spent = prices.cost(ref, Usage(1000, 100, **split), NOW)
        assert spent is not None
        assert spent <= bound
