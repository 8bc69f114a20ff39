"""The Responses API: what is sent, and what becomes of what comes back."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import CallStop, Message, Request, Response, Sampling, Timings, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.formats import format_named
from ttc_eval.wire.openai_responses import ResponsesFormat, request_body
from ttc_eval.wire.openai_responses_stream import ResponsesStream, usage
from ttc_eval.wire.sse import SSEParser

TIMINGS = Timings(0.0, 0.1, 0.2)
OFF, HIGH = Thinking(), Thinking(ThinkingMode.EFFORT, effort="high")
BOTH = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.EFFORT), efforts=("low", "high"))
REASONING = {"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA", "summary": []}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "double", "arguments": '{"x": 8}', "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "16"}
USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 3},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 25},
    "total_tokens": 50,
}


def request(thinking: Thinking = OFF, **changes: Any) -> Request:
    return replace(Request("m", "e", (Message("user", "2+2?"),), thinking, Sampling(), 32, 96), **changes)


def events(*given: dict[str, Any]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in given)


def text(delta: str, **more: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": delta, **more}


def message(said: str) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def end(status: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, "usage": USAGE, **response}}


def fed(*chunks: bytes) -> ResponsesStream:
    parser, stream = SSEParser(), ResponsesStream()
    for chunk in chunks:
        for event in parser.feed(chunk):
            stream.feed(event)
    return stream


def response_of(*given: dict[str, Any]) -> Response:
    return fed(events(*given)).finish(TIMINGS)


def failure_of(*given: dict[str, Any]) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        response_of(*given)
    return failed.value


# What is sent


def test_every_request_streams_keeps_nothing_there_and_asks_for_sealed_reasoning() -> None:
    asked = request(
        HIGH, messages=(Message("system", "Be brief."), Message("user", "2+2?"), Message("assistant", "4"), Message("user", "?"))
    )
    body = request_body(asked, BOTH)
    assert body == {
        "model": "m",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "4"},
            {"role": "user", "content": "?"},
        ],
        "max_output_tokens": 96,
        "store": False,
        "stream": True,
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
    }
    sent = ResponsesFormat().what_was_sent(body)
    assert sent == {name: body[name] for name in ("max_output_tokens", "store", "reasoning", "include")}


def test_off_is_effort_none_or_left_out() -> None:
    assert request_body(request(), BOTH)["reasoning"] == {"effort": "none"}
    assert "reasoning" not in request_body(request(), replace(BOTH, off_form="omitted"))
    never = request_body(request(), ThinkingSupport())
    assert "reasoning" not in never
    assert "include" not in never


def test_a_summary_is_asked_for_by_its_word() -> None:
    shown = replace(BOTH, display="concise")
    assert request_body(request(HIGH), shown)["reasoning"] == {"effort": "high", "summary": "concise"}
    assert request_body(request(), shown)["reasoning"] == {"effort": "none"}
    with pytest.raises(UserError, match="auto, concise, detailed"):
        request_body(request(HIGH), replace(BOTH, display="thoughts"))


@pytest.mark.parametrize(
    "thinking", [Thinking(ThinkingMode.BUDGET, budget=64), Thinking(ThinkingMode.ADAPTIVE)], ids=["budget", "adaptive"]
)
def test_a_budget_is_refused_with_the_forms_there_are(thinking: Thinking) -> None:
    with pytest.raises(UserError, match=r"does not take it; it takes: off, effort \(low, high\)"):
        request_body(request(thinking), BOTH)
    with pytest.raises(UserError, match=r"cannot express it; it takes: off, effort \(low, high\)"):
        request_body(request(thinking), replace(BOTH, accepts=(*BOTH.accepts, thinking.mode)))


def test_an_effort_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(UserError, match=r"thinking\.effort=max: model 'm' takes: low, high"):
        request_body(request(Thinking(ThinkingMode.EFFORT, effort="max")), BOTH)
    with pytest.raises(UserError, match="it takes: effort"):
        request_body(request(), ThinkingSupport(accepts=(ThinkingMode.EFFORT,), efforts=("low",)))


def test_what_the_api_has_no_words_for_is_refused() -> None:
    with pytest.raises(UserError, match="no stop sequences"):
        request_body(request(sampling=Sampling(stop=("\n",))), BOTH)
    with pytest.raises(UserError, match="cannot continue"):
        request_body(request(prefix="So"), BOTH)
    with pytest.raises(UserError, match="has no dialects"):
        format_named("openai_responses", "vllm")


def test_sampling_tools_and_logprobs() -> None:
    tool = {"type": "function", "name": "double", "parameters": {}}
    body = request_body(request(sampling=Sampling(temperature=0.5, top_p=0.9, logprobs=0), tools=(tool,)), ThinkingSupport())
    assert (body["temperature"], body["top_p"], body["top_logprobs"], body["tools"]) == (0.5, 0.9, 0, [tool])
    assert body["include"] == ["message.output_text.logprobs"]


def test_key_and_path() -> None:
    wire = ResponsesFormat()
    assert (wire.path("m"), wire.headers("k"), wire.headers(None)) == ("/responses", {"Authorization": "Bearer k"}, {})
    assert (wire.identity, wire.continues, wire.keep_alive) == ("openai_responses", False, True)


# A history with tools


def turns(*blocks: tuple[dict[str, Any], ...]) -> tuple[Message, ...]:
    roles: tuple[Any, ...] = ("assistant", "user")
    return (Message("user", "q"), *(Message(roles[place % 2], "", items) for place, items in enumerate(blocks)))


def test_items_go_back_verbatim_and_in_order() -> None:
    body = request_body(request(messages=turns((REASONING, CALL), (OUTPUT,))), BOTH)
    assert orjson.dumps(body["input"][1:]) == orjson.dumps([REASONING, CALL, OUTPUT])


@pytest.mark.parametrize(
    ("history", "text"),
    [
        (
            turns(({**REASONING, "encrypted_content": None}, CALL), (OUTPUT,)),
            r"messages\[1\]: item 0 \(reasoning\) has no encrypted_content",
        ),
        (turns((REASONING,)), r"messages\[1\]: item 0 \(reasoning\) is not followed"),
        (turns((REASONING, CALL)), r"messages\[1\]: item 1 \(function_call\) has no output"),
        (turns((REASONING, CALL), ({"role": "user", "content": "so?"},)), r"messages\[1\]: item 1 \(function_call\) has no output"),
        (turns((message("4"),), (OUTPUT,)), r"messages\[2\]: item 0 \(function_call_output\) answers 'c1'"),
    ],
    ids=["unsealed", "reasoning last", "no turn", "no output", "no call"],
)
def test_a_history_that_the_api_refuses_is_refused_before_it_is_sent(history: tuple[Message, ...], text: str) -> None:
    with pytest.raises(UserError, match=text):
        request_body(request(messages=history), BOTH)


# What comes back


def test_a_whole_response() -> None:
    found = response_of(
        {"type": "response.created", "response": {"id": "resp_0"}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Two"},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "and two"},
        done({**REASONING, "summary": [{"type": "summary_text", "text": "Two"}, {"type": "summary_text", "text": "and two"}]}),
        text("fo", output_index=1),
        text("ur", output_index=1),
        done(message("four"), 1),
        end(),
    )
    assert (found.text, found.thinking, found.stop, found.stop_raw) == ("four", "Two\n\nand two", CallStop.END, "completed")
    assert (found.response_id, found.complete) == ("resp_1", True)
    assert [block["type"] for block in found.blocks] == ["reasoning", "message"]
    used = found.usage
    counts = (used.input_tokens, used.cached_input_tokens, used.cache_write_tokens, used.output_tokens, used.reasoning_tokens)
    assert counts == (20, 8, 3, 30, 25)


def test_reasoning_that_is_not_shown_is_empty_and_no_reasoning_is_none() -> None:
    assert response_of(done(REASONING), done(message("4"), 1), end()).thinking == ""
    assert response_of(done(message("4")), end()).thinking is None


def test_disclosed_reasoning_goes_before_its_summary() -> None:
    item = {**REASONING, "content": [{"type": "reasoning_text", "text": "2+2"}], "summary": [{"type": "summary_text", "text": "sum"}]}
    assert response_of(done(item), done(message("4"), 1), end()).thinking == "2+2"


def test_items_of_the_last_event_count_where_no_event_of_their_own_came() -> None:
    found = response_of(end(output=[REASONING, message("4")]))
    assert (found.text, found.blocks) == ("4", (REASONING, message("4")))
    sealed = response_of(done(REASONING), end(output=[{**REASONING, "encrypted_content": None}, message("4")]))
    assert sealed.blocks == (REASONING, message("4"))


@pytest.mark.parametrize(
    ("status", "more", "stop", "raw"),
    [
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, CallStop.MAX_TOKENS, "incomplete/max_output_tokens"),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, CallStop.REFUSAL, "incomplete/content_filter"),
        ("incomplete", {"incomplete_details": {"reason": "steered"}}, CallStop.OTHER, "incomplete/steered"),
        ("incomplete", {"incomplete_details": None}, CallStop.OTHER, "incomplete"),
    ],
)
def test_an_incomplete_response_is_not_complete(status: str, more: dict[str, Any], stop: CallStop, raw: str) -> None:
    found = response_of(text("fo"), end(status, **more))
    assert (found.text, found.stop, found.stop_raw, found.complete) == ("fo", stop, raw, False)
    assert found.usage.known


def test_a_call_of_a_function_and_a_refusal_are_told_apart_from_an_end() -> None:
    assert response_of(done(REASONING), done(CALL, 1), end()).stop is CallStop.TOOL_USE
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    found = response_of({"type": "response.refusal.delta", "delta": "No."}, done(refusal), end())
    assert (found.stop, found.text, found.blocks) == (CallStop.REFUSAL, "", (refusal,))


def test_thinking_used_up_before_a_word_is_a_truncation_that_is_billed() -> None:
    spent = {"input_tokens": 10, "output_tokens": 900, "output_tokens_details": {"reasoning_tokens": 900}, "total_tokens": 910}
    found = response_of(done(REASONING), end("incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=spent))
    assert (found.text, found.stop, found.usage.output_tokens, found.usage.reasoning_tokens) == ("", CallStop.MAX_TOKENS, 900, 900)


def test_logprobs_of_the_tokens() -> None:
    found = response_of(text("4", logprobs=[{"token": "4", "logprob": -0.25, "top_logprobs": []}]), end())
    assert found.token_logprobs == (-0.25,)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", "server_error", True),
        ("rate_limit_exceeded", "rate_limited", True),
        ("server_is_overloaded", "overloaded", True),
        ("credit_balance_exhausted", "credit", False),
        ("invalid_prompt", "invalid_request", False),
        ("data_residency_mismatch", "invalid_request", False),
        ("bio_policy", "refused", False),
        ("misalignment_policy_violation", "refused", False),
        ("brand_new", "server_error", True),
    ],
)
def test_a_response_that_failed_tells_its_kind_and_what_it_used(code: str, kind: str, retryable: bool) -> None:
    failure = failure_of(text("half"), end("failed", error={"code": code, "message": "it broke"}))
    assert (failure.kind, failure.retryable, failure.partial_text, failure.http_status) == (kind, retryable, "half", 200)
    assert failure.usage is not None
    assert failure.usage.output_tokens == 30
    inside = failure_of(text("half"), {"type": "error", "code": code, "message": "it broke", "param": None, "sequence_number": 3})
    assert (inside.kind, inside.retryable, inside.partial_text, inside.usage) == (kind, retryable, "half", None)
    assert "it broke" in str(failure)


@pytest.mark.parametrize(
    "given",
    [
        [],
        [text("half")],
        [text("half"), done(message("half"))],
        [text("half"), {"type": "response.in_progress", "response": {"usage": USAGE}}],
        [text("half"), end("cancelled")],
        [text("half"), {"type": "response.completed", "response": {"status": "in_progress"}}],
    ],
    ids=["nothing", "text", "item", "progress", "cancelled", "not over"],
)
def test_a_clean_end_without_its_event_is_incomplete(given: list[dict[str, Any]]) -> None:
    failure = failure_of(*given)
    assert (failure.kind, failure.retryable) == ("incomplete", True)
    assert failure.partial_text in ("half", "")


def test_what_comes_after_the_end_does_not_count_and_unknown_events_are_passed_over() -> None:
    found = response_of(text("4"), {"type": "keepalive"}, {"type": "response.brand_new", "delta": "x"}, end(), text("LATE"))
    assert found.text == "4"
    assert fed(events(text("4"), end()) + b"data: [DONE]\n\n").finish(TIMINGS).text == "4"
    with pytest.raises(CallFailed, match="without"):
        fed(events(text("4")) + b"data: [DONE]\n\n").finish(TIMINGS)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_text.delta", "delta": 5},
        {"type": "response.output_text.delta", "delta": "x", "output_index": -1},
        {"type": "response.output_item.done", "item": "x"},
        {"type": "response.output_item.done", "output_index": "0", "item": {}},
        {"type": "response.completed"},
        {"type": 5},
    ],
    ids=str,
)
def test_an_event_not_of_this_format_is_refused_with_what_had_arrived(event: dict[str, Any]) -> None:
    stream = fed(events(text("half")))
    with pytest.raises(CallFailed) as failed:
        for one in SSEParser().feed(b"data: " + orjson.dumps(event) + b"\n\n"):
            stream.feed(one)
    assert (failed.value.kind, failed.value.partial_text) == ("invalid_response", "half")


def test_a_delta_for_an_item_that_has_ended_is_refused() -> None:
    assert failure_of(done(message("4")), text("5")).kind == "invalid_response"
    assert failure_of(done(message("4")), done(message("5"))).kind == "invalid_response"


@pytest.mark.parametrize(
    "change",
    [
        {"input_tokens": -1},
        {"output_tokens": 1.5},
        {"output_tokens": None},
        {"total_tokens": 51},
        {"input_tokens_details": {"cached_tokens": 21}},
        {"input_tokens_details": {"cached_tokens": 18, "cache_write_tokens": 3}},
        {"output_tokens_details": {"reasoning_tokens": 31}},
        {"output_tokens_details": {"reasoning_tokens": True}},
    ],
    ids=str,
)
def test_counts_that_contradict_each_other_are_unknown_and_kept(change: dict[str, Any]) -> None:
    found = usage(USAGE | change)
    assert (found.source, found.known, found.raw) == (UsageSource.UNKNOWN, False, USAGE | change)


def test_parts_that_were_not_reported_are_unknown() -> None:
    found = usage({"input_tokens": 4, "output_tokens": 6, "input_tokens_details": None})
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens, found.reasoning_tokens) == (4, 6, None, None)
    assert usage(None).source is UsageSource.UNKNOWN


# Replies that are no stream


@pytest.mark.parametrize(
    ("status", "headers", "error", "kind", "retryable", "wait"),
    [
        (429, {"retry-after-ms": "1500", "retry-after": "30"}, {"code": "rate_limit_exceeded"}, "rate_limited", True, 1.5),
        (
            429,
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s", "x-ratelimit-remaining-requests": "5"},
            {"code": "rate_limit_exceeded"},
            "rate_limited",
            True,
            90.0,
        ),
        (429, {}, {"code": "slow_down"}, "rate_limited", True, None),
        (429, {"retry-after": "3"}, {"code": "credit_balance_exhausted", "type": "insufficient_quota"}, "credit", False, 3.0),
        (429, {"x-should-retry": "true"}, {"code": "credit_balance_exhausted"}, "credit", False, None),
        (503, {}, {"code": "server_is_overloaded", "type": "server_error"}, "overloaded", True, None),
        (500, {}, {"type": "server_error"}, "server_error", True, None),
        (400, {}, {"type": "invalid_request_error", "code": "unsupported_value"}, "invalid_request", False, None),
        (400, {}, {"code": "context_length_exceeded"}, "context_full", False, None),
        (401, {}, {"code": "invalid_api_key"}, "authentication", False, None),
    ],
)
def test_errors(status: int, headers: dict[str, str], error: dict[str, str], kind: str, retryable: bool, wait: float | None) -> None:
    body = orjson.dumps({"error": {"message": "so it is", **error}})
    failure = ResponsesFormat().error(status, headers, body, 0.0, ())
    assert (failure.kind, failure.retryable, failure.retry_after, failure.http_status) == (kind, retryable, wait, status)


def test_a_server_that_does_not_stream_is_told() -> None:
    whole = orjson.dumps({"object": "response", "status": "completed", "error": None, "output": []})
    failure = ResponsesFormat().error(200, {}, whole, 0.0, ())
    assert (failure.kind, failure.retryable) == ("invalid_response", False)
    assert "event stream" in str(failure)
    assert ResponsesFormat().error(200, {}, b'{"error": {"code": "server_error"}}', 0.0, ()).kind == "server_error"


def test_a_key_in_an_error_is_not_shown() -> None:
    failure = ResponsesFormat().error(401, {}, b'{"error": {"message": "Incorrect API key provided: sk-planted"}}', 0.0, ["sk-planted"])
    assert "sk-planted" not in str(failure)


# Recorded streams


def recorded(shared: Path, name: str) -> list[tuple[dict[str, Any], bytes]]:
    """The requests and replies of one recording."""
    with (shared / "data" / "sse" / f"openai_test_responses_{name}.yaml").open(encoding="utf-8") as file:
        interactions = yaml.safe_load(file)["interactions"]
    found = []
    for interaction in interactions:
        body = interaction["response"]["body"]["string"]
        body = body.encode() if isinstance(body, str) else body
        found.append((json.loads(interaction["request"]["body"]), gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body))
    return found


def test_a_recorded_stream_gives_the_same_response_however_it_is_cut(shared: Path) -> None:
    [(asked, stream)] = recorded(shared, "basic_streaming")
    whole = fed(stream).finish(TIMINGS)
    assert (whole.text, whole.stop, whole.thinking) == ("pong", CallStop.END, None)
    assert whole.usage.known
    for size in (1, 2, 3, 7, 64, 1000):
        assert fed(*(stream[at : at + size] for at in range(0, len(stream), size))).finish(TIMINGS) == whole
    ours = request_body(
        request(Thinking(ThinkingMode.EFFORT, effort="low"), messages=(Message("user", asked["input"][0]["content"]),)), BOTH
    )
    assert {name: ours[name] for name in asked.keys() - {"model"}} == {name: asked[name] for name in asked.keys() - {"model"}}


@pytest.mark.parametrize("name", ["basic_non_streaming", "interleaved_reasoning_between_tool_calls", "round_trips_encrypted_reasoning"])
def test_recorded_responses_are_read_and_their_items_are_accepted_back(shared: Path, name: str) -> None:
    """A recorded whole response stands in the event that ends a stream; its items go back as the next request had them."""
    history: tuple[Message, ...] = ()
    for asked, reply in recorded(shared, name):
        response = orjson.loads(reply)
        found = response_of({"type": "response.completed", "response": response})
        assert (found.usage.raw, found.usage.known) == (response["usage"], True)
        assert found.blocks == tuple(response["output"])
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        assert found.stop is (CallStop.TOOL_USE if calls else CallStop.END)
        history = history or (Message("user", asked["input"][0]["content"]),)
        sent = request_body(request(HIGH, messages=history), BOTH)["input"]
        assert [item.get("type") for item in sent] == [item.get("type") for item in asked["input"]]
        sealed = [[item["encrypted_content"] for item in items if item.get("type") == "reasoning"] for items in (sent, asked["input"])]
        assert sealed[0] == sealed[1]
        outputs = tuple({"type": "function_call_output", "call_id": call["call_id"], "output": "1"} for call in calls)
        history = (*history, Message("assistant", found.text, found.blocks), Message("user", "", outputs))


# Anything at all

WHOLE = events(
    {"type": "response.created", "response": {"id": "resp_1"}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "naïve "},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "漢字"},
    done({**REASONING, "summary": [{"type": "summary_text", "text": "naïve 漢字"}]}),
    *(text(piece, output_index=1) for piece in ("vier ", "🙂", "\n", "fünf")),
    done(message("vier 🙂\nfünf"), 1),
    end(),
)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_any_split_gives_the_same_response(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    found = fed(*(WHOLE[a:b] for a, b in itertools.pairwise(edges))).finish(TIMINGS)
    assert (found.text, found.thinking) == ("vier 🙂\nfünf", "naïve 漢字")


@given(st.integers(0, len(WHOLE) - 1))
def test_any_truncation_is_incomplete_with_a_beginning_of_the_text(size: int) -> None:
    with pytest.raises(CallFailed) as failed:
        fed(WHOLE[:size]).finish(TIMINGS)
    assert (failed.value.kind, failed.value.usage) == ("incomplete", None)
    assert "vier 🙂\nfünf".startswith(failed.value.partial_text)
    assert "naïve 漢字".startswith(failed.value.thinking_text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "item", "text", "output", "id", "error"]), inner),
    max_leaves=8,
)
KINDS = [f"response.{kind}" for kind in ("output_text.delta", "reasoning_summary_text.delta", "output_item.done", "completed", "failed")]
KEYS = ["delta", "item", "response", "output_index", "content_index", "summary_index", "logprobs", "code", "error"]


@given(st.lists(st.fixed_dictionaries({"type": st.sampled_from([*KINDS, "error"])}, optional=dict.fromkeys(KEYS, JSON)), max_size=6))
def test_events_that_hold_anything_raise_nothing_but_a_failed_call(given: list[dict[str, Any]]) -> None:
    try:
        found = fed(b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in given)).finish(TIMINGS)
    except CallFailed as failure:
        assert failure.kind
        return
    assert all((count or 0) >= 0 for count in (found.usage.input_tokens, found.usage.output_tokens, found.usage.reasoning_tokens))


@given(st.integers(0, len(WHOLE)), st.binary(max_size=40))
def test_garbage_in_the_bytes_raises_nothing_but_a_failed_call(place: int, garbage: bytes) -> None:
    try:
        found = fed(WHOLE[:place] + garbage + WHOLE[place:]).finish(TIMINGS)
    except CallFailed:
        return
    assert all((count or 0) >= 0 for count in (found.usage.input_tokens, found.usage.output_tokens, found.usage.reasoning_tokens))
