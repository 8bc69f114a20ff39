"""Chat Completions: what is sent per dialect, and what becomes of what comes back."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import CallStop, Message, Request, Response, Sampling, Timings, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.dialects import DIALECTS, Dialect, dialect_named
from ttc_eval.wire.openai_chat import ChatStream, error, request_body, usage, what_was_sent
from ttc_eval.wire.sse import Event, SSEParser

TIMINGS = Timings(0.0, 0.1, 0.2)
OFF, EFFORT, ADAPTIVE = Thinking(), Thinking(ThinkingMode.EFFORT, effort="high"), Thinking(ThinkingMode.ADAPTIVE)
BUDGET = Thinking(ThinkingMode.BUDGET, budget=64)


def request(thinking: Thinking = OFF, *, prefix: str = "", sampling: Sampling | None = None, messages: tuple[Message, ...] = ()) -> Request:
    return Request("m", "e", messages or (Message("user", "2+2?"),), thinking, sampling or Sampling(), 32, 96, prefix=prefix)


def stream_of(*chunks: bytes, dialect: Dialect = DIALECTS["generic"]) -> Response:
    parser, stream = SSEParser(), ChatStream(dialect)
    for chunk in chunks:
        for event in parser.feed(chunk):
            stream.feed(event)
    return stream.finish(TIMINGS)


def events(*chunks: Any, done: bool = True) -> bytes:
    return b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n" * done


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


# What is sent


def test_every_request_streams_with_usage_and_the_seed_of_its_draw() -> None:
    asked = request(sampling=Sampling(temperature=0.7, top_p=0.9, stop=("\n",)))
    body = request_body(asked, DIALECTS["generic"])
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "2+2?"}],
        "max_tokens": 96,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
        "top_p": 0.9,
        "stop": ["\n"],
        "seed": asked.sampling_seed,
    }
    assert what_was_sent(body) == {"max_tokens": 96, "seed": asked.sampling_seed}


@pytest.mark.parametrize(("name", "cap"), [("openai", "max_completion_tokens"), ("xai", "max_completion_tokens"), ("vllm", "max_tokens")])
def test_the_cap_has_the_dialects_name(name: str, cap: str) -> None:
    body = request_body(request(), DIALECTS[name])
    assert body[cap] == 96
    assert len({"max_tokens", "max_completion_tokens"} & body.keys()) == 1


@pytest.mark.parametrize(
    ("name", "thinking", "fields"),
    [
        ("openai", OFF, {"reasoning_effort": "none"}),
        ("openai", EFFORT, {"reasoning_effort": "high"}),
        ("vllm", OFF, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("vllm", BUDGET, {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 64}),
        ("sglang", BUDGET, {"custom_params": {"thinking_budget": 64}, "chat_template_kwargs": {"enable_thinking": True}}),
        ("llama_cpp", BUDGET, {"thinking_budget_tokens": 64, "chat_template_kwargs": {"enable_thinking": True}}),
        ("llama_cpp", ADAPTIVE, {"chat_template_kwargs": {"enable_thinking": True}}),
        ("deepseek", OFF, {"thinking": {"type": "disabled"}}),
        ("deepseek", EFFORT, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("openrouter", BUDGET, {"reasoning": {"max_tokens": 64}}),
        ("openrouter", ADAPTIVE, {"reasoning": {"enabled": True}}),
        ("fireworks", BUDGET, {"thinking": {"type": "enabled", "budget_tokens": 64}}),
    ],
)
def test_thinking_is_sent_as_the_dialect_says(name: str, thinking: Thinking, fields: dict[str, Any]) -> None:
    plain = request_body(request(), Dialect("plain", forms={ThinkingMode.OFF: {}}))
    body = request_body(request(thinking), DIALECTS[name])
    assert {key: body[key] for key in body.keys() - plain.keys() - {"max_completion_tokens", "usage"}} == fields
    assert "{" not in json.dumps(list(body.values())).replace("{}", "").split('"')[-1]


@pytest.mark.parametrize("name", sorted(DIALECTS))
@pytest.mark.parametrize("thinking", [OFF, BUDGET, EFFORT, ADAPTIVE], ids=lambda thinking: thinking.label)
def test_a_form_that_a_dialect_cannot_express_is_refused_with_the_forms_it_can(name: str, thinking: Thinking) -> None:
    dialect = DIALECTS[name]
    if thinking.mode in dialect.forms:
        assert "{budget}" not in json.dumps(request_body(request(thinking), dialect))
        assert "{effort}" not in json.dumps(request_body(request(thinking), dialect))
        return
    with pytest.raises(UserError) as refusal:
        request_body(request(thinking), dialect)
    assert all(mode.value in str(refusal.value) for mode in dialect.forms)


def test_a_budget_must_leave_room_under_the_cap() -> None:
    with pytest.raises(UserError, match="below the cap"):
        request_body(request(Thinking(ThinkingMode.BUDGET, budget=96)), DIALECTS["vllm"])


def test_a_budget_outside_the_providers_cap_sends_the_answers_cap() -> None:
    apart = ThinkingSupport(accepts=(ThinkingMode.BUDGET,), budget_inside_max_tokens=False)
    inside = ThinkingSupport(accepts=(ThinkingMode.BUDGET,))
    assert request_body(request(BUDGET), DIALECTS["vllm"], apart)["max_tokens"] == 32
    assert request_body(request(BUDGET), DIALECTS["vllm"], inside)["max_tokens"] == 96


def test_a_budget_forced_by_a_prefix_is_not_sent() -> None:
    forced = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), forced_by_prefix=True)
    body = request_body(request(Thinking(ThinkingMode.BUDGET, budget=500), prefix="Thinking:"), DIALECTS["llama_cpp"], forced)
    assert body["max_tokens"] == 96
    assert "thinking_budget_tokens" not in body
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_model_that_cannot_think_is_sent_no_switch_that_it_would_refuse() -> None:
    cannot = ThinkingSupport(accepts=(ThinkingMode.OFF,))
    assert "reasoning_effort" not in request_body(request(), DIALECTS["openai"], cannot)
    assert request_body(request(), DIALECTS["vllm"], cannot)["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_prefix_is_the_last_assistant_message_and_is_continued() -> None:
    body = request_body(request(prefix="So "), DIALECTS["vllm"])
    assert body["messages"][-1] == {"role": "assistant", "content": "So "}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    deepseek = request_body(request(prefix="So "), DIALECTS["deepseek"])
    assert deepseek["messages"][-1] == {"role": "assistant", "content": "So ", "prefix": True}
    assert "seed" not in deepseek
    merged = request_body(request(prefix="b", messages=(Message("user", "q"), Message("assistant", "a"))), DIALECTS["vllm"])
    assert merged["messages"] == [{"role": "user", "content": "q"}, {"role": "assistant", "content": "ab"}]


def test_a_dialect_that_cannot_continue_a_prefix_says_which_can() -> None:
    with pytest.raises(UserError, match="vllm"):
        request_body(request(prefix="So "), DIALECTS["openai"])


def test_logprobs_are_asked_for_in_a_way_that_returns_them() -> None:
    wanted = Sampling(logprobs=0)
    assert request_body(request(sampling=wanted), DIALECTS["openai"])["top_logprobs"] == 0
    assert request_body(request(sampling=wanted), DIALECTS["llama_cpp"])["top_logprobs"] == 1
    assert "logprobs" not in request_body(request(), DIALECTS["openai"])


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="generic, llama_cpp"):
        dialect_named("nope")


# What comes back


def test_recorded_streams_give_the_same_response_however_they_are_cut(cases: list[dict]) -> None:
    seen = 0
    for case in (case for case in cases if case["kind"] == "stream_parsing" and case["input"].get("protocol") == "openai_chat"):
        chunks = [base64.b64decode(chunk) for chunk in case["input"]["chunks_b64"]]
        whole, expected = b"".join(chunks), case["expected"]
        for cut in (chunks, [whole], [bytes([byte]) for byte in whole]):
            response = stream_of(*cut)
            assert response.text == expected["text"], case["id"]
            assert "\ufffd" not in response.text
            assert response.stop_raw == expected.get("finish_reason", "stop")
            assert response.usage.raw == expected.get("usage")
        seen += 1
    assert seen


def test_recorded_usage(cases: list[dict]) -> None:
    seen = 0
    for case in (case for case in cases if case["kind"] == "usage_cost" and case["input"].get("provider_shape") == "openai_chat"):
        raw, expected = case["input"]["usage"], case["expected"]
        found = usage(raw)
        assert found.source is UsageSource.PROVIDER
        assert found.input_tokens == raw["prompt_tokens"]
        assert found.output_tokens == raw["completion_tokens"]
        for name in ("input_tokens", "output_tokens", "reasoning_tokens"):
            assert getattr(found, name) == expected.get(name, getattr(found, name)), case["id"]
        if "uncached_input" in expected:
            assert found.input_tokens - found.cached_input_tokens == expected["uncached_input"]
        seen += 1
    assert seen


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        ({"prompt_tokens": 4, "completion_tokens": 6}, (4, 6, None, None)),
        ({"prompt_tokens": 4, "completion_tokens": 6, "completion_tokens_details": {"reasoning_tokens": 0}}, (4, 6, None, 0)),
        (
            {"prompt_tokens": 4, "completion_tokens": 6, "completion_tokens_details": None, "prompt_tokens_details": None},
            (4, 6, None, None),
        ),
        ({"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10, "reasoning_tokens": 5}, (4, 6, None, 5)),
        (
            {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 15, "completion_tokens_details": {"reasoning_tokens": 5}},
            (4, 11, None, 5),
        ),
        ({"prompt_tokens": 4, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 4}}, (4, 6, 4, None)),
    ],
)
def test_usage_in_one_shape(raw: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    found = usage(raw)
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens, found.reasoning_tokens) == counts
    assert found.source is UsageSource.PROVIDER


def test_reasoning_beside_the_completion_is_added_once() -> None:
    raw = {"prompt_tokens": 4, "completion_tokens": 6, "completion_tokens_details": {"reasoning_tokens": 5}}
    assert usage(raw, DIALECTS["xai"]).output_tokens == 11
    assert usage(raw | {"total_tokens": 15}, DIALECTS["xai"]).output_tokens == 11
    assert usage(raw | {"total_tokens": 10}, DIALECTS["xai"]).output_tokens == 6
    assert usage(raw, DIALECTS["openai"]).output_tokens == 6


def test_deepseeks_cache_count_is_read() -> None:
    raw = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 1}
    assert usage(raw, DIALECTS["deepseek"]).cached_input_tokens == 8


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_tokens": -1},
        {"completion_tokens": 1.5},
        {"completion_tokens": True},
        {"completion_tokens": "6"},
        {"completion_tokens": None},
        {"total_tokens": 11},
        {"total_tokens": -10},
        {"completion_tokens_details": {"reasoning_tokens": 7}},
        {"prompt_tokens_details": {"cached_tokens": 5}},
        {"prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2}},
        {"completion_tokens": 2**63},
    ],
    ids=str,
)
def test_counts_that_contradict_each_other_are_unknown_and_kept(change: dict[str, Any]) -> None:
    raw = {"prompt_tokens": 4, "completion_tokens": 6} | change
    found = usage(raw)
    assert (found.source, found.known, found.raw) == (UsageSource.UNKNOWN, False, raw)


@pytest.mark.parametrize("raw", [None, [], "usage", 5])
def test_no_usage_object_is_unknown_usage(raw: object) -> None:
    assert usage(raw).source is UsageSource.UNKNOWN


def test_running_totals_replace_each_other() -> None:
    running = [delta(content=str(n)) | {"usage": {"prompt_tokens": 5, "completion_tokens": n}} for n in (1, 2, 3)]
    assert stream_of(events(*running, delta("stop"))).usage.output_tokens == 3


def test_a_recorded_stream_of_llama_cpp_that_continues_a_prefix() -> None:
    # Server build of 2026-10, continue_final_message after "The answer to 2+3 is": the prefix is not repeated.
    head = b'"created":1796068239,"id":"chatcmpl-lPQr","model":"SmolLM2-135M","system_fingerprint":"b0","object":"chat.completion.chunk"'
    stream = b"".join(
        b"data: {" + chunk + b"," + head + b"}\n\n"
        for chunk in (
            b'"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}]',
            b'"choices":[{"finish_reason":null,"index":0,"delta":{"content":" actually"},'
            b'"logprobs":{"content":[{"id":2390,"token":" actually","bytes":[32],"logprob":-1.62,"top_logprobs":[]}]}}]',
            b'"choices":[{"finish_reason":null,"index":0,"delta":{"content":" 5."}}]',
            b'"choices":[{"finish_reason":"stop","index":0,"delta":{}}]',
            b'"choices":[],"usage":{"completion_tokens":5,"prompt_tokens":49,"total_tokens":54,"prompt_tokens_details":{"cached_tokens":48}},'
            b'"timings":{"cache_n":48,"prompt_n":1,"predicted_n":5}',
        )
    )
    response = stream_of(stream + b"data: [DONE]\n\n", dialect=DIALECTS["llama_cpp"])
    assert (response.text, response.stop, response.thinking, response.token_logprobs) == (" actually 5.", CallStop.END, None, (-1.62,))
    used = response.usage
    assert (used.input_tokens, used.cached_input_tokens, used.output_tokens, used.reasoning_tokens) == (49, 48, 5, None)


@pytest.mark.parametrize(
    ("finish", "stop", "complete"),
    [
        ("stop", CallStop.END, True),
        ("length", CallStop.MAX_TOKENS, False),
        ("content_filter", CallStop.REFUSAL, False),
        ("tool_calls", CallStop.TOOL_USE, False),
        ("function_call", CallStop.TOOL_USE, False),
        ("brand_new", CallStop.OTHER, False),
    ],
)
def test_finish_reasons(finish: str, stop: CallStop, complete: bool) -> None:
    response = stream_of(events(delta(content="4"), delta(finish)))
    assert (response.stop, response.stop_raw, response.complete, response.response_id) == (stop, finish, complete, "r1")


def test_a_stop_string_that_the_server_names_is_a_stop_sequence() -> None:
    met = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "\n", "matched_stop": "\n"}]}
    token = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 2, "matched_stop": 2}]}
    for name in ("vllm", "sglang"):
        assert stream_of(events(met), dialect=DIALECTS[name]).stop is CallStop.STOP_SEQUENCE
        assert stream_of(events(token), dialect=DIALECTS[name]).stop is CallStop.END
    assert stream_of(events(met), dialect=DIALECTS["llama_cpp"]).stop is CallStop.END


def test_reasoning_text_is_kept_apart_and_taken_once() -> None:
    both = delta(reasoning="a", reasoning_content="a")
    response = stream_of(events(both, delta(reasoning_content="b"), delta(content="4"), delta("stop")))
    assert (response.thinking, response.text) == ("ab", "4")
    parts = delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "4"}])
    response = stream_of(events(parts, delta("stop")))
    assert (response.thinking, response.text) == ("hm", "4")
    assert stream_of(events(delta(content="4"), delta("stop"))).thinking is None


def test_a_refusal_is_not_an_answer() -> None:
    response = stream_of(events(delta(refusal="I can"), delta(refusal="not"), delta("stop")))
    assert (response.text, response.stop, response.blocks) == ("", CallStop.REFUSAL, ({"type": "refusal", "refusal": "I cannot"},))


def test_logprobs_of_all_tokens_are_gathered() -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "x"}, "logprobs": {"content": [{"token": "x", "logprob": -n}]}}]} for n in (1, 2.5)
    ]
    assert stream_of(events(*chunks, delta("stop"))).token_logprobs == (-1.0, -2.5)
    assert stream_of(events(delta(content="x"), delta("stop"))).token_logprobs is None


def test_only_the_first_choice_counts() -> None:
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    assert stream_of(events(delta(content="yes"), second, delta("length"))).text == "yes"


def test_missing_usage_is_unknown_and_the_answer_stands() -> None:
    response = stream_of(events(delta(content="4"), delta("stop")))
    assert response.complete
    assert response.usage.source is UsageSource.UNKNOWN
    assert response.usage.input_tokens is None


@pytest.mark.parametrize(
    "stream",
    [
        events(delta(content="Half "), delta(content="of"), done=False),
        events(delta(content="Half "), delta(content="of")),
        events(delta(content="Half "), delta(content="of"), delta("stop"), done=False),
        events(delta(content="Half "), delta(content="of"), done=False) + b"data: [DONE]",
    ],
    ids=["neither", "no finish", "no terminator", "cut terminator"],
)
def test_a_stream_that_closes_without_its_end_is_incomplete(stream: bytes) -> None:
    with pytest.raises(CallFailed) as failed:
        stream_of(stream)
    failure = failed.value
    assert (failure.kind, failure.retryable, failure.partial_text, failure.usage) == ("incomplete", True, "Half of", None)


def test_usage_that_came_before_the_end_was_lost_is_known() -> None:
    used = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    with pytest.raises(CallFailed) as failed:
        stream_of(events(delta(content="a"), delta("stop"), used, done=False))
    assert failed.value.usage is not None
    assert failed.value.usage.output_tokens == 2


@pytest.mark.parametrize(
    ("last", "kind", "retryable"),
    [
        ({"error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", True),
        ({"error": {"type": "BadRequestError", "code": 400, "message": "no"}}, "invalid_request", False),
        ({"error": {"code": 429, "message": "slow"}}, "rate_limited", True),
        ({"error": "boom"}, "server_error", True),
        (delta("error") | {"error": {"code": "server_error", "message": "x"}}, "server_error", True),
        (delta("error"), "server_error", True),
        (delta("abort"), "server_error", True),
        (delta("insufficient_system_resource"), "overloaded", True),
    ],
)
def test_an_error_inside_a_stream_keeps_what_had_arrived(last: dict[str, Any], kind: str, retryable: bool) -> None:
    with pytest.raises(CallFailed) as failed:
        stream_of(events(delta(reasoning_content="hm"), delta(content="Half of"), last))
    failure = failed.value
    assert (failure.kind, failure.retryable, failure.http_status) == (kind, retryable, 200)
    assert (failure.partial_text, failure.thinking_text) == ("Half of", "hm")


def test_an_event_named_error_is_an_error_whatever_its_shape() -> None:
    with pytest.raises(CallFailed) as failed:
        stream_of(b'event: error\ndata: {"message":"no","code":503}\n\n')
    assert failed.value.kind == "overloaded"


def test_error_names_the_status_and_hides_secrets() -> None:
    failure = error(401, {}, b'{"error":{"message":"key sk-verysecret is wrong"}}', 0.0, ["sk-verysecret"])
    assert str(failure) == "HTTP 401: key [redacted] is wrong"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "content", "reasoning", "index", "usage", "prompt_tokens", "completion_tokens", "error", "logprobs"]
            )
            | st.sampled_from(
                ["finish_reason", "logprob", "text", "thinking", "refusal", "total_tokens", "completion_tokens_details", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=6), st.sampled_from(sorted(DIALECTS)))
def test_any_json_gives_a_response_or_a_failed_call(chunks: list[Any], name: str) -> None:
    stream = ChatStream(DIALECTS[name])
    try:
        for chunk in [*chunks, delta("stop")]:
            stream.feed(Event("", orjson.dumps(chunk, default=str)))
        stream.feed(Event("", b"[DONE]"))
        found = stream.finish(TIMINGS).usage
    except (CallFailed, orjson.JSONEncodeError):
        return
    for count in (found.input_tokens, found.output_tokens, found.reasoning_tokens, found.cached_input_tokens):
        assert count is None or count >= 0


@given(st.lists(st.text(max_size=5), min_size=1, max_size=5), st.data())
def test_a_truncated_or_damaged_stream_never_invents_text(pieces: list[str], data: st.DataObject) -> None:
    whole = events(
        *(delta(content=piece) for piece in pieces), delta("stop"), {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    )
    cut = data.draw(st.integers(0, len(whole)))
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1))
    chunks, at = [], 0
    while at < cut:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(whole[at : min(at + size, cut)])
        at += size
    try:
        response = stream_of(*chunks)
    except CallFailed as failure:
        assert "".join(pieces).startswith(failure.partial_text)
        assert failure.kind == "incomplete"
        return
    assert cut == len(whole)
    assert response.text == "".join(pieces)
    assert response.usage.output_tokens == 1


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_garbage_bytes_give_a_failed_call(chunks: list[bytes]) -> None:
    with pytest.raises(CallFailed) as failed:
        stream_of(*chunks)
    assert failed.value.partial_text == ""


def test_bytes_that_are_not_utf8_are_refused_and_not_replaced() -> None:
    with pytest.raises(CallFailed) as failed:
        stream_of(b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n')
    assert failed.value.kind == "invalid_response"
