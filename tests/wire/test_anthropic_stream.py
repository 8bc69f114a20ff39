"""A Messages stream: blocks verbatim, usage, stop reasons, errors inside it, and no surprise from garbage."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.prices import cost, is_listed
from ttc_eval.records import CallStop, Response, Timings, UsageSource
from ttc_eval.thinking import shown
from ttc_eval.wire.anthropic_stream import MessagesStream, usage
from ttc_eval.wire.sse import EventTooLarge, SSEParser

TIMINGS = Timings(0.0, 0.1, 0.2)
FIXTURES = ["basic_response.txt", "refusal_response.txt", "tool_use_response.txt", "incomplete_partial_json_response.txt"]


def fed(*chunks: bytes) -> MessagesStream:
    parser, stream = SSEParser(), MessagesStream()
    for chunk in chunks:
        for event in parser.feed(chunk):
            stream.feed(event)
    return stream


def read(*chunks: bytes) -> Response:
    return fed(*chunks).finish(TIMINGS)


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in events)


def start(**counts: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "m1", "role": "assistant", "content": [], "usage": {"input_tokens": 11} | counts}}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thought(index: int, *pieces: str, signature: str = "c2ln") -> list[dict[str, Any]]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, {"type": "signature_delta", "signature": signature})


def end(reason: str | None = "end_turn", details: Any = None, **counts: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    return [{"type": "message_delta", "delta": delta, "usage": counts or {"output_tokens": 17}}, {"type": "message_stop"}]


# Recorded streams


def test_recorded_streams(cases: list[dict]) -> None:
    seen = set()
    for case in (case for case in cases if case["kind"] == "stream_parsing" and case["input"]["protocol"] == "anthropic"):
        chunks = [base64.b64decode(chunk) for chunk in case["input"].get("chunks_b64", ())]
        whole = base64.b64decode(case["input"]["stream_b64"]) if "stream_b64" in case["input"] else b"".join(chunks)
        expected = case["expected"]
        seen.add(case["id"])
        if expected.get("status") == "error":
            with pytest.raises(CallFailed) as failed:
                read(*chunks)
            failure = failed.value
            assert (failure.kind, failure.retryable, failure.http_status) == ("overloaded", expected["retryable"], 200)
            assert failure.partial_text == expected["partial_text"]
            assert failure.usage is None, "what had been counted is a part, and the rest is unknown"
            continue
        for size in case["input"].get("chunk_sizes", [len(whole)]):
            parts = chunks or [whole[at : at + size] for at in range(0, len(whole), size)]
            response = read(*parts)
            assert list(response.blocks) == expected["blocks"], case["id"]
            assert (response.text, response.thinking, response.stop_raw) == ("4", "2+2 is 4", expected["stop_reason"])
            used = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
            assert used == expected["usage"]
    assert seen == {"stream_parsing-10", "stream_parsing-12", "stream_parsing-13"}


def real(shared: Path, name: str) -> bytes:
    return (shared / "data" / "sse" / f"anthropic_{name}").read_bytes().rstrip(b"\n") + b"\n\n"


def test_real_streams(shared: Path) -> None:
    basic = read(real(shared, "basic_response.txt"))
    assert (basic.text, basic.stop, basic.usage.output_tokens) == ("Hello there!", CallStop.END, 6)
    refusal = read(real(shared, "refusal_response.txt"))
    assert (refusal.stop, refusal.stop_raw, refusal.text, refusal.complete) == (CallStop.REFUSAL, "refusal/cyber", "", False)
    used = read(real(shared, "tool_use_response.txt"))
    assert used.stop is CallStop.TOOL_USE
    assert used.blocks[1] == {
        "type": "tool_use",
        "id": "toolu_01NRLabsLyVHZPKxbKvkfSMn",
        "name": "get_weather",
        "caller": {"type": "direct"},
        "input": {"location": "Paris"},
    }
    cut = read(real(shared, "incomplete_partial_json_response.txt"))
    assert cut.stop is CallStop.MAX_TOKENS
    assert cut.blocks[1]["input"] == {}
    assert cut.blocks[1]["partial_json"].endswith('\n"Filing taxes')
    declined = read(real(shared, "stream-a-refusal.sse"))
    assert (declined.stop, declined.stop_raw, declined.text) == (CallStop.REFUSAL, "refusal", "Hi")
    assert (declined.usage.output_tokens, declined.usage.reasoning_tokens, declined.usage.cached_input_tokens) == (106, 67, 0)
    fallback = read(real(shared, "stream-b-fallback.sse"))
    assert (fallback.usage.input_tokens, fallback.usage.output_tokens, fallback.usage.reasoning_tokens) == (31, 547, 0)
    assert fallback.thinking is None
    assert fallback.text.startswith(" there! Happy to explain.")


# Usage


def test_recorded_usage_prices_to_the_recorded_cost(cases: list[dict]) -> None:
    seen = set()
    for case in (case for case in cases if case["kind"] == "usage_cost" and case["input"].get("provider_shape") == "anthropic"):
        used, per = usage(case["input"]["usage"]), {name: Decimal(value) for name, value in case["input"]["price_per_mtok"].items()}
        price = Price(per["input"], per["output"], cached_input=per["cache_read"], cache_write=per["cache_write_5m"])
        assert cost(PriceRef(own=price), used, 0.0) == Decimal(case["expected"]["cost"]), case["id"]
        assert used.input_tokens == case["expected"].get("total_input_tokens", used.input_tokens)
        seen.add(case["id"])
    assert seen == {"usage_cost-03", "usage_cost-19"}


def test_running_totals_of_a_stream_are_not_added_up(cases: list[dict]) -> None:
    case = next(case for case in cases if case["id"] == "usage_cost-11")
    totals = [{"type": "message_delta", "delta": {}, "usage": counts} for counts in case["input"]["message_delta_usages"]]
    totals[-1]["delta"] = {"stop_reason": "end_turn"}
    begun = {"type": "message_start", "message": {"id": "m", "usage": case["input"]["message_start_usage"]}}
    response = read(sse(begun, *text(0, "hi"), *totals, {"type": "message_stop"}))
    assert response.usage.input_tokens == case["expected"]["input_tokens"]
    assert response.usage.output_tokens == case["expected"]["output_tokens"]


def test_recorded_bodies_price_as_recorded(shared: Path) -> None:
    right, dearer = 0, 0
    for entry in json.loads((shared / "data" / "genai_prices" / "usages.json").read_bytes()):
        raw, model = entry["body"].get("usage"), entry["body"].get("model") or ""
        for found in (found for extracted in entry["extracted"] for found in extracted["extractors"]):
            if (found["provider_id"], found["api_flavor"]) != ("anthropic", "default") or found.get("input_price") is None:
                continue
            assert is_listed("anthropic", model)
            usd, recorded = (
                cost(PriceRef("anthropic", model), usage(raw), 1.8e9),
                Decimal(found["input_price"]) + Decimal(found["output_price"]),
            )
            assert usd is not None
            if any(part["type"] == "compaction" for part in raw.get("iterations") or ()):
                assert usd > recorded, "a compaction is billed, and the recorded price leaves it out"
                dearer += 1
            else:
                assert usd == recorded
                right += 1
    assert (right, dearer) == (224, 2)


def test_a_count_that_a_later_event_leaves_out_stays() -> None:
    split = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 70}
    begun = start(output_tokens=1, cache_creation_input_tokens=70, cache_read_input_tokens=20, cache_creation=split)
    response = read(sse(begun, *text(0, "hi"), *end(output_tokens=5, cache_read_input_tokens=None)))
    assert (response.usage.input_tokens, response.usage.cached_input_tokens, response.usage.cache_write_tokens) == (101, 20, 70)
    assert response.usage.raw is not None
    assert response.usage.raw["cache_creation"] == split
    assert response.usage.reasoning_tokens is None, "not reported is unknown, not 0"


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"input_tokens": 5},
        {"input_tokens": 5, "output_tokens": -1},
        {"input_tokens": 5.5, "output_tokens": 1},
        {"input_tokens": True, "output_tokens": 1},
        {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": {"thinking_tokens": 4}},
        {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": "many"},
        {"input_tokens": 5, "output_tokens": 3, "iterations": [{"type": "compaction", "input_tokens": 5}]},
        {"input_tokens": 10**30, "output_tokens": 3},
    ],
)
def test_counts_that_contradict_each_other_make_all_of_it_unknown(raw: Any) -> None:
    used = usage(raw)
    assert (used.known, used.source) == (False, UsageSource.UNKNOWN)
    assert used.raw == (raw if isinstance(raw, dict) else None)


def test_a_compaction_is_counted_and_an_advisor_is_not() -> None:
    counts = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    parts = [counts | {"type": "message"}, counts | {"type": "compaction", "input_tokens": 500}, counts | {"type": "advisor_message"}]
    used = usage(counts | {"iterations": parts})
    assert (used.input_tokens, used.output_tokens) == (510, 4)


def test_the_count_of_the_first_event_alone_is_stale() -> None:
    response = read(sse(start(output_tokens=1), *text(0, "hi"), end()[0] | {"usage": None}, {"type": "message_stop"}))
    assert (response.usage.known, response.usage.source) == (False, UsageSource.UNKNOWN)


# Blocks


def test_blocks_are_put_together_verbatim_and_in_order() -> None:
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]}
    events = [
        *thought(0, "2+2", " is 4", signature="c2ln"),
        *block(1, {"type": "redacted_thinking", "data": "c2VhbGVk"}),
        *block(
            2,
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": "{}"},
        ),
        *block(3, found),
        *block(
            4,
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "4"},
            {"type": "citations_delta", "citation": cited},
        ),
        *block(5, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "so far"}),
        *block(6, {"type": "tool_use", "id": "t1", "name": "calc", "input": {}}),
    ]
    response = read(sse(start(), *events, *end("tool_use")))
    assert list(response.blocks) == [
        {"type": "thinking", "thinking": "2+2 is 4", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        found,
        {"type": "text", "text": "4", "citations": [cited]},
        {"type": "compaction", "content": "so far"},
        {"type": "tool_use", "id": "t1", "name": "calc", "input": {}},
    ]
    assert (response.text, response.thinking) == ("4", "2+2 is 4")


@pytest.mark.parametrize(
    ("events", "thinking"),
    [
        (text(0, "4"), None),
        ([*thought(0), *text(1, "4")], ""),
        ([*block(0, {"type": "redacted_thinking", "data": "eA=="}), *text(1, "4")], ""),
        ([*thought(0, "so"), *thought(1), *text(2, "4")], "so"),
    ],
    ids=["none", "omitted", "redacted", "in part"],
)
def test_thinking_that_is_not_disclosed_is_empty_and_its_tokens_count(events: list[dict[str, Any]], thinking: str | None) -> None:
    response = read(sse(start(), *events, *end(output_tokens=90, output_tokens_details={"thinking_tokens": 80})))
    assert (response.thinking, response.text, response.usage.reasoning_tokens) == (thinking, "4", 80)
    assert shown(response.thinking, 80) == (thinking or "not disclosed (80 tokens)")
    assert shown(response.thinking, None) == {None: "none", "": "not disclosed"}.get(thinking, thinking)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", CallStop.END),
        ("stop_sequence", CallStop.STOP_SEQUENCE),
        ("max_tokens", CallStop.MAX_TOKENS),
        ("tool_use", CallStop.TOOL_USE),
        ("refusal", CallStop.REFUSAL),
        ("model_context_window_exceeded", CallStop.CONTEXT_FULL),
        ("pause_turn", CallStop.OTHER),
        ("compaction", CallStop.OTHER),
        ("a new one", CallStop.OTHER),
    ],
)
def test_stop_reasons(reason: str, stop: CallStop) -> None:
    response = read(sse(start(), *text(0, "4"), *end(reason)))
    assert (response.stop, response.stop_raw) == (stop, reason)
    assert response.complete == (reason in ("end_turn", "stop_sequence"))


def test_an_event_of_an_unknown_type_is_passed_over_and_a_delta_of_one_is_no_text() -> None:
    odd = block(0, {"type": "text", "text": "a"}, {"type": "new_delta", "text": "b"}, {"type": "text_delta", "text": "c"})
    response = read(sse({"type": "new_event", "text": "x"}, start(), *odd, *end()) + sse(*text(9, "late"), {"type": "message_stop"}))
    assert response.text == "ac"


def test_a_stream_has_started_with_its_first_token_and_not_with_hidden_thinking() -> None:
    hidden, shown = sse(start(), *thought(0)), sse(start(), *thought(0, "so"))
    assert not fed(hidden).started
    assert fed(shown).started
    assert fed(hidden, sse(*text(1, "4"))).started
    assert fed(hidden, sse(*end())).started


# What goes wrong


@pytest.mark.parametrize(
    ("tail", "said", "known"),
    [
        ([], "a stop_reason", False),
        (end()[:1], "message_stop", True),
        (end()[1:], "a stop_reason", False),
    ],
)
def test_a_clean_end_without_its_terminator_is_incomplete(tail: list[dict[str, Any]], said: str, known: bool) -> None:
    with pytest.raises(CallFailed, match=said) as failed:
        read(sse(start(output_tokens=1), *thought(0, "hm"), *text(1, "Half"), *tail))
    failure = failed.value
    assert (failure.kind, failure.retryable, failure.partial_text, failure.thinking_text) == ("incomplete", True, "Half", "hm")
    assert (failure.usage is not None) == known


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "x"}, "overloaded", True),
        ({"type": "api_error", "message": "x"}, "server_error", True),
        ({"type": "rate_limit_error", "message": "x"}, "rate_limited", True),
        ({"type": "timeout_error", "message": "x"}, "timeout", True),
        ({"type": "invalid_request_error", "message": "x"}, "invalid_request", False),
        ({"type": "authentication_error", "message": "x"}, "authentication", False),
        ({"type": "billing_error", "message": "x"}, "credit", False),
        ({"type": "rate_limit_error", "message": "x", "details": {"error_code": "enforced_spend_limit_reached"}}, "credit", False),
        ({"type": "rate_limit_error", "message": "x", "details": {"error_code": "ramp_limit_exceeded"}}, "rate_limited", True),
    ],
)
def test_an_error_event_is_a_failure_of_its_kind(error: dict[str, Any], kind: str, retryable: bool) -> None:
    with pytest.raises(CallFailed) as failed:
        read(sse(start(), *text(0, "Half of"), {"type": "error", "error": error}))
    assert (failed.value.kind, failed.value.retryable, failed.value.partial_text) == (kind, retryable, "Half of")
    assert failed.value.usage is None


@pytest.mark.parametrize(
    "events",
    [
        [start(), *text(0, "a"), *text(0, "b")],
        [start(), {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "a"}}],
        [start(), *text(0, "a"), {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}],
        [start(), *block(0, {"type": "text", "text": ""}, {"type": "thinking_delta", "thinking": "a"})],
        [start(), *block(0, {"type": "text", "text": ""}, {"type": "input_json_delta", "partial_json": "{}"})],
        [start(), *block(0, {"type": "text", "text": 5})],
        [start(), *block(-1, {"type": "text", "text": ""})],
        [start(), *text(0, "a"), start()],
        [start(), {"type": "content_block_start", "index": 0, "content_block": None}],
        [{"type": "message_start", "message": None}],
    ],
)
def test_events_that_would_lose_or_mix_up_content_are_an_invalid_response(events: list[dict[str, Any]]) -> None:
    with pytest.raises(CallFailed) as failed:
        read(sse(*events, *end()))
    assert (failed.value.kind, failed.value.retryable) == ("invalid_response", True)


def test_a_secret_in_a_message_is_kept_out_of_it() -> None:
    parser, stream = SSEParser(), MessagesStream(["sk-planted-0123456789"])
    with pytest.raises(CallFailed) as failed:
        for event in parser.feed(b'event: error\ndata: {"type":"error","error":{"message":"sk-planted-0123456789"}}\n\n'):
            stream.feed(event)
    assert "planted" not in str(failed.value)


# Any bytes

LETTERS = st.text(st.characters(codec="utf-8"), max_size=12)
TURN = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.lists(LETTERS, max_size=4)),
        st.tuples(st.just("thinking"), st.lists(LETTERS, max_size=4)),
        st.tuples(st.just("tool_use"), st.dictionaries(LETTERS, st.integers(-(2**53), 2**53) | LETTERS | st.none(), max_size=3)),
        st.tuples(st.just("redacted_thinking"), LETTERS),
    ),
    max_size=5,
)


def written(turn: list[tuple[str, Any]], cut: int) -> tuple[bytes, list[dict[str, Any]]]:
    """A stream of `turn`, a tool's input in pieces of `cut` characters, and its blocks."""
    events, blocks = [start(output_tokens=1), {"type": "ping"}], []
    for index, (kind, content) in enumerate(turn):
        if kind == "text":
            events += text(index, *content)
            blocks.append({"type": "text", "text": "".join(content)})
        elif kind == "thinking":
            events += thought(index, *content, signature=f"s{index}")
            blocks.append({"type": "thinking", "thinking": "".join(content), "signature": f"s{index}"})
        elif kind == "tool_use":
            whole, given = json.dumps(content), {"type": "tool_use", "id": f"t{index}", "name": "n", "input": {}}
            pieces = [{"type": "input_json_delta", "partial_json": whole[at : at + cut]} for at in range(0, len(whole), cut)]
            events += block(index, given, *pieces)
            blocks.append(given | {"input": content})
        else:
            blocks.append({"type": kind, "data": content})
            events += block(index, blocks[-1])
    return sse(*events, *end("tool_use", output_tokens=40)), blocks


@settings(deadline=None)
@given(TURN, st.integers(1, 9), st.integers(1, 64))
def test_any_turn_in_any_chunks_comes_out_verbatim(turn: list[tuple[str, Any]], cut: int, size: int) -> None:
    stream, blocks = written(turn, cut)
    response = read(*(stream[at : at + size] for at in range(0, len(stream), size)))
    assert list(response.blocks) == blocks
    assert response.text == "".join(block["text"] for block in blocks if block["type"] == "text")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (11, 40)


@settings(deadline=None)
@given(TURN, st.integers(0, 4000), st.integers(1, 64))
def test_a_stream_cut_anywhere_is_incomplete_and_keeps_a_prefix_of_what_came(turn: list[tuple[str, Any]], length: int, size: int) -> None:
    stream, blocks = written(turn, 5)
    part = stream[: min(length, len(stream) - 1)]
    with pytest.raises(CallFailed) as failed:
        read(*(part[at : at + size] for at in range(0, len(part), size)))
    assert failed.value.kind == "incomplete"
    assert "".join(block["text"] for block in blocks if block["type"] == "text").startswith(failed.value.partial_text)
    assert "".join(block["thinking"] for block in blocks if block["type"] == "thinking").startswith(failed.value.thinking_text)


FIELDS = ["type", "index", "delta", "content_block", "message", "usage", "text", "thinking", "signature", "partial_json"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "stop_reason", "error"]), inner),
    max_leaves=8,
)
STEPS = ["content_block_start", "content_block_delta", "content_block_stop"]
KINDS = st.sampled_from(["message_start", *STEPS, "message_delta", "message_stop", "error"])
ODD_EVENT = st.builds(lambda kind, fields: {**fields, "type": kind}, KINDS, st.dictionaries(st.text("indexdeltusg_", max_size=9), JUNK))
BLOCKS = st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking", "tool_use", "x"])}, optional={"text": JUNK, "thinking": JUNK})
DELTAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta", "x"]) | JUNK},
    optional={"text": JUNK, "thinking": JUNK, "partial_json": JUNK, "signature": JUNK, "citation": JUNK, "stop_reason": JUNK},
)
EVENT = ODD_EVENT | st.fixed_dictionaries(
    {"type": KINDS, "index": st.integers(0, 1) | JUNK},
    optional={"content_block": BLOCKS | JUNK, "delta": DELTAS | JUNK, "message": JUNK, "usage": JUNK},
)


@settings(deadline=None, max_examples=300)
@given(st.lists(EVENT | JUNK, max_size=12), st.binary(max_size=40), st.integers(1, 50))
def test_garbage_is_a_failed_call_or_a_response_of_what_was_there(events: list[Any], noise: bytes, size: int) -> None:
    sent = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    middle = len(sent) // 2
    for stream in (sent, sent[:middle] + noise + sent[middle:], noise + sent):
        try:
            response = read(*(stream[at : at + size] for at in range(0, len(stream), size)))
        except CallFailed as failure:
            said, used = failure.partial_text + failure.thinking_text, failure.usage
        except EventTooLarge:
            continue
        else:
            said, used = response.text + (response.thinking or ""), response.usage
        assert all(letter in stream.decode("utf-8", "replace") or ord(letter) < 32 or letter in '"\\' for letter in said), (
            "no invented text"
        )
        if used is not None:
            assert all(count is None or count >= 0 for count in (used.input_tokens, used.output_tokens, used.reasoning_tokens))


@settings(deadline=None)
@given(
    JUNK
    | st.fixed_dictionaries({"input_tokens": JUNK, "output_tokens": JUNK}, optional={"iterations": JUNK, "output_tokens_details": JUNK})
)
def test_any_usage_is_read_and_none_is_negative(raw: Any) -> None:
    used = usage(raw)
    assert used.known == (used.source is UsageSource.PROVIDER)
    assert not used.known or (used.input_tokens or 0) >= (used.cached_input_tokens or 0) + (used.cache_write_tokens or 0)
    assert (used.output_tokens or 0) >= (used.reasoning_tokens or 0) >= 0
