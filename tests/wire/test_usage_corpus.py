"""1577 recorded usage bodies with their prices: our usage of each, priced, is the recorded price, or the difference has a name.

The bodies and prices are those of genai-prices (tests/dataset/usages.json). A body is read by the format that it is written in. The prices
recorded for it are those of the providers whose API has that format; prices that come from reading it as if it were in another format
(an Anthropic body by the rules of OpenAI's embeddings) are counted and left out.

`python -m tests.wire.test_usage_corpus` prints the counts.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage as BookUsage
from genai_prices import calc_price

from ttc_eval.models.base import PriceRef
from ttc_eval.prices import cost
from ttc_eval.records import Usage
from ttc_eval.wire import anthropic_stream, gemini_stream, openai_chat, openai_responses_stream
from ttc_eval.wire.dialects import DIALECTS

# The recorded prices are of several months. At this moment the pinned book gives all of them but three; DeepSeek's night price is over.
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT_BY_DEFAULT = ("groq", "mistral", "perplexity", "x-ai")  # whose default form is Chat Completions
FORMS = {
    "anthropic": {("anthropic", "default"), ("aws", "anthropic"), ("azure", "anthropic"), ("google", "anthropic")},
    "openai_responses": {("openai", "responses"), ("azure", "responses")},
    "gemini": {("google", "default")},
}
CANONICAL = {
    "anthropic": ("anthropic", "default"),
    "openai_responses": ("openai", "responses"),
    "openai_chat": ("openai", "chat"),
    "gemini": ("google", "default"),
}
UNSUPPORTED = {"bedrock": "AWS Converse", "cohere": "Cohere chat v2", "embeddings": "no output is counted", "unlike": "another shape"}
MODALITIES = ("audio", "image", "video")
EXPECTED = {
    ("anthropic", "right"): 887,
    # Our usage adds the tokens of a compaction, which were billed and stand in `iterations` only; the recorded price leaves them out.
    ("anthropic", "compaction"): 8,
    # A fee by the search, not by the token; the price of the tokens is right. Usage has no place for it.
    ("anthropic", "fee of web searches"): 7,
    ("anthropic", "price changed"): 2,
    ("openai_responses", "right"): 468,
    # Azure's rules in the book do not read them; OpenAI's do.
    ("openai_responses", "cache writes not read"): 2,
    ("openai_chat", "right"): 819,
    ("openai_chat", "cache writes not read"): 1,
    # Google's Chat Completions leave thinking out of every count but the total: unknown, not a low price.
    ("openai_chat", "contradictory total"): 2,
    ("openai_chat", "price changed"): 1,
    ("gemini", "right"): 390,
    # Audio, video and images have rates of their own. Usage counts them as tokens like others; this program sends and asks for text.
    ("gemini", "audio or images"): 44,
}


def form_of(body: dict[str, Any]) -> str:
    """The format that a body is written in."""
    usage = body.get("usage") or body.get("usageMetadata") or body.get("meta")
    assert isinstance(usage, dict), body
    if "usageMetadata" in body:
        return "gemini" if "totalTokenCount" in usage else "embeddings"
    if "prompt_tokens" in usage:
        return "openai_chat" if "completion_tokens" in usage else "embeddings"
    if "cache_creation_input_tokens" in usage:
        return "anthropic"
    if "input_tokens_details" in usage:
        return "openai_responses"
    if "inputTokens" in usage:
        return "bedrock"
    return "cohere" if "billed_units" in usage else "unlike"


def usage_of(form: str, body: dict[str, Any], provider: str = "openai") -> Usage:
    """The usage of a body in our shape, read as the provider's endpoint would be."""
    if form == "gemini":
        return gemini_stream.usage(body["usageMetadata"])
    if form == "anthropic":
        return anthropic_stream.usage(body["usage"])
    if form == "openai_responses":
        return openai_responses_stream.usage(body["usage"])
    return openai_chat.usage(body["usage"], DIALECTS.get({"x-ai": "xai"}.get(provider, provider), DIALECTS["generic"]))


@dataclass(frozen=True)
class Case:
    """One recorded price of one body, beside ours. `book` is what the pinned book makes of the recorded reading of the body."""

    form: str
    provider: str
    flavor: str
    model: str
    body: dict[str, Any]
    read: dict[str, int]
    recorded: Decimal
    ours: Decimal | None
    book: Decimal

    @property
    def outcome(self) -> str:
        """`right`, or the name of the difference; `wrong` when it has none."""
        counted = self.body.get("usage") or self.body["usageMetadata"]
        if self.ours == self.recorded:
            return "right"
        if self.ours is None:
            return "contradictory total" if _contradicts(counted) else "wrong"
        if self.read.get("web_searches") and self.recorded - self.ours == Decimal(self.read["web_searches"]) / 100:
            return "fee of web searches"
        if any(entry.get("type") == "compaction" for entry in counted.get("iterations") or ()) and self.ours > self.recorded:
            return "compaction"
        if any(word in name for name in self.read for word in MODALITIES) and self.ours < self.recorded:
            return "audio or images"
        written = (counted.get("input_tokens_details") or counted.get("prompt_tokens_details") or {}).get("cache_write_tokens")
        if written and "cache_write_tokens" not in self.read:
            return "cache writes not read"
        return "price changed" if self.ours == self.book else "wrong"


def _contradicts(counted: dict[str, Any]) -> bool:
    return counted.get("total_tokens") != counted.get("prompt_tokens", 0) + counted.get("completion_tokens", 0)


def is_its_own(form: str, provider: str, flavor: str) -> bool:
    """Whether a provider reads bodies of this form in this flavor."""
    if form == "openai_chat":
        return flavor == "chat" or (flavor == "default" and provider in CHAT_BY_DEFAULT)
    return (provider, flavor) in FORMS.get(form, ())


def recorded_prices(rows: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], dict[str, int], str]]:
    """Of every recorded price: the body's form, the body, who priced it, how it was read, and the model."""
    for row in rows:
        body = row["body"]
        model = row.get("model") or body.get("model") or body.get("modelVersion") or ""
        for reading in row["extracted"]:
            for reader in reading["extractors"]:
                if "input_price" in reader or "output_price" in reader:
                    yield form_of(body), body, reader, reading["usage"], model


def cases_of(rows: list[dict[str, Any]]) -> list[Case]:
    """All recorded prices of bodies in formats that we speak, by the providers that speak them."""
    cases = []
    for form, body, reader, read, model in recorded_prices(rows):
        provider, flavor = reader["provider_id"], reader["api_flavor"]
        if not is_its_own(form, provider, flavor):
            continue
        parts = Decimal(reader.get("input_price") or 0) + Decimal(reader.get("output_price") or 0)
        ours = cost(PriceRef(provider, model), usage_of(form, body, provider), AT.timestamp())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = calc_price(BookUsage(**read), model, provider_id=provider, genai_request_timestamp=AT).total_price
        recorded = Decimal(reader["total_price"]) if reader.get("total_price") else parts
        cases.append(Case(form, provider, flavor, model, body, read, recorded, ours, book))
    return cases


def load(shared: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((shared / "data" / "genai_prices" / "usages.json").read_bytes())
    return rows


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, Any]]:
    return load(shared)


@pytest.fixture(scope="module")
def priced(rows: list[dict[str, Any]]) -> list[Case]:
    return cases_of(rows)


def test_every_body_has_a_form_and_what_is_not_spoken_has_a_name(rows: list[dict[str, Any]]) -> None:
    forms = Counter(form_of(row["body"]) for row in rows)
    assert len(rows) == sum(forms.values()) == 1577
    assert forms == {
        "anthropic": 226,
        "openai_responses": 254,
        "openai_chat": 406,
        "gemini": 440,
        "bedrock": 220,
        "cohere": 17,
        "embeddings": 14,
    }


def test_every_recorded_price_is_ours_or_the_difference_has_a_name(priced: list[Case]) -> None:
    wrong = [case for case in priced if case.outcome == "wrong"]
    assert not wrong, wrong[0]
    found = Counter((case.form, case.outcome) for case in priced)
    assert found == EXPECTED


def test_the_named_differences_are_bounded(priced: list[Case]) -> None:
    by_name: dict[str, list[Case]] = {}
    for case in priced:
        by_name.setdefault(case.outcome, []).append(case)
    # Where the book has changed since, the recorded reading of the body, priced by the same book, is ours to the last digit.
    assert all(case.ours == case.book for case in by_name["price changed"])
    assert len(by_name["price changed"]) <= 3
    # A cache write that one provider's rules do not read is one that OpenAI's own rules do read, and there our price is the recorded one.
    for case in by_name["cache writes not read"]:
        twin = [other for other in priced if other.body is case.body and other.provider == "openai"]
        assert [other.outcome for other in twin] == ["right"]
    # Audio and images in and out have rates of their own, which text has not; without them the rest is the recorded price.
    for case in by_name["audio or images"]:
        plain = {name: count for name, count in case.read.items() if not any(word in name for word in MODALITIES)}
        plain = {name: count for name, count in plain.items() if "_text_" not in name}
        assert calc_price(BookUsage(**plain), case.model, provider_id="google", genai_request_timestamp=AT).total_price == case.ours
    assert {case.form for case in by_name["compaction"]} == {"anthropic"}
    assert all(case.ours is None for case in by_name["contradictory total"])


def test_every_body_in_a_format_that_we_speak_is_read_as_recorded(rows: list[dict[str, Any]]) -> None:
    seen: Counter[str] = Counter()
    for row in rows:
        form = form_of(row["body"])
        if form not in CANONICAL:
            continue
        read = [
            reading["usage"]
            for reading in row["extracted"]
            if any((reader["provider_id"], reader["api_flavor"]) == CANONICAL[form] for reader in reading["extractors"])
        ]
        ours = usage_of(form, row["body"])
        counted = row["body"].get("usage") or row["body"]["usageMetadata"]
        if any(entry.get("type") == "compaction" for entry in counted.get("iterations") or ()):
            seen["compaction"] += 1
        elif not ours.known:
            assert _contradicts(counted)
            seen["contradictory total"] += 1
        else:
            assert (ours.input_tokens, ours.output_tokens) == (read[0].get("input_tokens", 0), read[0].get("output_tokens", 0))
            assert (ours.cached_input_tokens or 0) == read[0].get("cache_read_tokens", 0)
            assert (ours.cache_write_tokens or 0) == read[0].get("cache_write_tokens", 0)
            assert (ours.reasoning_tokens or 0) == read[0].get("output_reasoning_tokens", 0)
            seen["the same"] += 1
    assert seen == {"the same": 1322, "compaction": 2, "contradictory total": 2}


def main() -> None:
    """Print the counts."""
    rows = load(Path(os.environ.get("TTC_EVAL_SHARED") or Path(__file__).parents[3] / "shared"))
    print(f"{len(rows)} bodies:", dict(Counter(form_of(row["body"]) for row in rows)))  # noqa: T201
    cases = cases_of(rows)
    for (form, provider, outcome), count in sorted(Counter((case.form, case.provider, case.outcome) for case in cases).items()):
        print(f"{form:18}{provider:26}{outcome:24}{count:5}")  # noqa: T201
    print(sorted(Counter((case.form, case.outcome) for case in cases).items()))  # noqa: T201
    others = Counter(
        form if form in UNSUPPORTED else "read as another format"
        for form, _, reader, _, _ in recorded_prices(rows)
        if not is_its_own(form, reader["provider_id"], reader["api_flavor"])
    )
    print("recorded prices left out:", dict(others))  # noqa: T201
    bodies: dict[int, set[str]] = {}
    for case in cases:
        bodies.setdefault(id(case.body), set()).add(case.outcome)
    print(f"bodies with a price: {len(bodies)}, all right: {sum(outcomes == {'right'} for outcomes in bodies.values())}")  # noqa: T201


if __name__ == "__main__":
    main()
