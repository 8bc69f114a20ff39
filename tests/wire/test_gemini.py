"""The Gemini API: what is sent, and what becomes of what comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import CallStop, Message, Request, Response, Sampling, Timings, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.formats import format_named
from ttc_eval.wire.gemini import GeminiFormat, error, request_body
from ttc_eval.wire.gemini_stream import GeminiStream, usage
from ttc_eval.wire.sse import SSEParser

TIMINGS = Timings(0.0, 0.1, 0.2)
OFF, ADAPTIVE = Thinking(), Thinking(ThinkingMode.ADAPTIVE)
BUDGET, LOW = Thinking(ThinkingMode.BUDGET, budget=64), Thinking(ThinkingMode.EFFORT, effort="low")
BUDGETS = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET, ThinkingMode.ADAPTIVE), min_budget=0, max_budget=24576)
LEVELS = ThinkingSupport(accepts=(ThinkingMode.EFFORT,), efforts=("low", "high"))
CALL = {"functionCall": {"name": "double", "args": {"x": 8}}, "thoughtSignature": "c2lnbg=="}
RESULT = {"functionResponse": {"name": "double", "response": {"y": 16}}}
USAGE = {"promptTokenCount": 20, "cachedContentTokenCount": 8, "candidatesTokenCount": 5, "thoughtsTokenCount": 25, "totalTokenCount": 50}


def request(thinking: Thinking = OFF, **changes: Any) -> Request:
    return replace(Request("m", "e", (Message("user", "2+2?"),), thinking, Sampling(), 32, 96), **changes)


def chunk(*parts: dict[str, Any], finish: str | None = None, counts: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **({"usageMetadata": counts} if counts else {}), "responseId": "r1", **more}


def chunks(*given: Any) -> bytes:
    return b"".join(b"data: " + orjson.dumps(one) + b"\r\n\r\n" for one in given)


def fed(*pieces: bytes) -> GeminiStream:
    parser, stream = SSEParser(), GeminiStream()
    for piece in pieces:
        for event in parser.feed(piece):
            stream.feed(event)
    return stream


def response_of(*given: dict[str, Any]) -> Response:
    return fed(chunks(*given)).finish(TIMINGS)


def failure_of(*given: Any) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        response_of(*given)
    return failed.value


# What is sent


def test_a_request() -> None:
    asked = request(
        BUDGET,
        messages=(Message("system", "Be brief."), Message("user", "2+2?"), Message("assistant", "4"), Message("user", "?")),
        sampling=Sampling(temperature=0.5, top_p=0.9, stop=("\n",)),
        tools=({"functionDeclarations": [{"name": "double"}]},),
    )
    body = request_body(asked, BUDGETS)
    assert body == {
        "contents": [
            {"role": "user", "parts": [{"text": "2+2?"}]},
            {"role": "model", "parts": [{"text": "4"}]},
            {"role": "user", "parts": [{"text": "?"}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {
            "maxOutputTokens": 96,
            "seed": asked.sampling_seed,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["\n"],
            "thinkingConfig": {"thinkingBudget": 64},
        },
        "tools": [{"functionDeclarations": [{"name": "double"}]}],
    }
    sent = GeminiFormat().what_was_sent(body)
    assert sent == {"maxOutputTokens": 96, "seed": asked.sampling_seed, "thinkingConfig": {"thinkingBudget": 64}}
    assert asked.sampling_seed < 2**31


@pytest.mark.parametrize(
    ("thinking", "support", "config"),
    [
        (OFF, BUDGETS, {"thinkingBudget": 0}),
        (OFF, replace(BUDGETS, off_form="omitted"), None),
        (OFF, ThinkingSupport(), None),
        (BUDGET, BUDGETS, {"thinkingBudget": 64}),
        (Thinking(ThinkingMode.BUDGET, budget=0), BUDGETS, {"thinkingBudget": 0}),
        (ADAPTIVE, BUDGETS, {"thinkingBudget": -1}),
        (LOW, LEVELS, {"thinkingLevel": "LOW"}),
        (LOW, replace(LEVELS, display="thoughts"), {"thinkingLevel": "LOW", "includeThoughts": True}),
        (BUDGET, replace(BUDGETS, display="thoughts"), {"thinkingBudget": 64, "includeThoughts": True}),
        (OFF, replace(BUDGETS, display="thoughts"), {"thinkingBudget": 0}),
    ],
)
def test_thinking_is_a_budget_or_a_level_and_never_both(
    thinking: Thinking, support: ThinkingSupport, config: dict[str, Any] | None
) -> None:
    assert request_body(request(thinking), support)["generationConfig"].get("thinkingConfig") == config


def test_the_form_that_a_model_does_not_take_is_refused_with_those_it_does() -> None:
    with pytest.raises(UserError, match=r"does not take it; it takes: effort \(low, high\)"):
        request_body(request(BUDGET), LEVELS)
    with pytest.raises(UserError, match="does not take it; it takes: off, budget"):
        request_body(request(LOW), BUDGETS)
    with pytest.raises(UserError, match="takes 24576 tokens at most"):
        request_body(request(Thinking(ThinkingMode.BUDGET, budget=24577), max_output_tokens=30000), BUDGETS)
    with pytest.raises(UserError, match="takes 128 tokens or more"):
        request_body(request(BUDGET), replace(BUDGETS, min_budget=128))
    with pytest.raises(UserError, match="beside 'adaptive'"):
        both = replace(LEVELS, accepts=(ThinkingMode.ADAPTIVE,))
        request_body(request(Thinking(ThinkingMode.ADAPTIVE, effort="low")), both)
    with pytest.raises(UserError, match="'thoughts'"):
        request_body(request(LOW), replace(LEVELS, display="detailed"))


def test_a_budget_must_leave_room_under_the_cap_unless_it_is_outside_of_it() -> None:
    with pytest.raises(UserError, match="below the cap"):
        request_body(request(Thinking(ThinkingMode.BUDGET, budget=96)), BUDGETS)
    apart = replace(BUDGETS, budget_inside_max_tokens=False)
    assert request_body(request(BUDGET), apart)["generationConfig"]["maxOutputTokens"] == 32


def test_what_the_api_has_no_words_for_is_refused() -> None:
    with pytest.raises(UserError, match="cannot continue"):
        request_body(request(prefix="So"), BUDGETS)
    late = (Message("user", "q"), Message("system", "Be brief."))
    with pytest.raises(UserError, match=r"messages\[1\]: .* at the start"):
        request_body(request(messages=late), BUDGETS)
    with pytest.raises(UserError, match="has no dialects"):
        format_named("gemini", "vllm")


def test_logprobs() -> None:
    asked = [request_body(request(sampling=Sampling(logprobs=count)), BUDGETS)["generationConfig"] for count in (0, 3)]
    assert [(config["responseLogprobs"], config.get("logprobs")) for config in asked] == [(True, None), (True, 3)]


def test_the_path_names_the_model_and_the_key_goes_in_a_header() -> None:
    wire = GeminiFormat()
    assert wire.path("gemini-2.5-flash") == "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert wire.path("tunedModels/my model?") == "/tunedModels/my%20model%3F:streamGenerateContent?alt=sse"
    assert (wire.headers("k"), wire.headers(None)) == ({"x-goog-api-key": "k"}, {})
    assert (wire.identity, wire.continues, wire.keep_alive) == ("gemini", False, True)


def test_parts_go_back_verbatim_with_their_signatures() -> None:
    parts = ({"text": "hm", "thought": True}, {"text": "Doubling."}, CALL)
    body = request_body(
        request(messages=(Message("user", "q"), Message("assistant", "Doubling.", parts), Message("user", "", (RESULT,)))), BUDGETS
    )
    assert orjson.dumps(body["contents"][1:]) == orjson.dumps(
        [{"role": "model", "parts": list(parts)}, {"role": "user", "parts": [RESULT]}]
    )


@pytest.mark.parametrize(
    "turns",
    [
        (Message("assistant", "", (CALL,)),),
        (Message("assistant", "", (CALL,)), Message("user", "so?")),
        (Message("assistant", "", (CALL, CALL)), Message("user", "", (RESULT,))),
        (Message("assistant", "4"), Message("user", "", (RESULT,))),
    ],
    ids=["no turn", "no response", "one of two", "no call"],
)
def test_calls_and_responses_that_do_not_belong_together_are_refused(turns: tuple[Message, ...]) -> None:
    with pytest.raises(UserError, match=r"messages\[1\]"):
        request_body(request(messages=(Message("user", "q"), *turns)), BUDGETS)


# What comes back


def test_a_whole_response() -> None:
    found = response_of(
        chunk({"text": "Two ", "thought": True}, counts={"promptTokenCount": 20, "totalTokenCount": 20}),
        chunk({"text": "and two", "thought": True}, counts={"promptTokenCount": 20, "thoughtsTokenCount": 25, "totalTokenCount": 45}),
        chunk({"text": "fo"}),
        chunk({"text": "ur"}, finish="STOP", counts=USAGE),
    )
    assert (found.text, found.thinking, found.stop, found.stop_raw) == ("four", "Two and two", CallStop.END, "STOP")
    assert (found.response_id, found.complete) == ("r1", True)
    assert found.blocks == ({"text": "Two and two", "thought": True}, {"text": "four"})
    used = found.usage
    assert (used.input_tokens, used.cached_input_tokens, used.output_tokens, used.reasoning_tokens) == (20, 8, 30, 25)
    assert used.input_tokens + used.output_tokens == USAGE["totalTokenCount"]


def test_a_part_with_a_signature_is_kept_apart_and_as_it_came() -> None:
    parts = [
        {"text": "a"},
        {"text": "b", "thoughtSignature": "eA=="},
        {"text": "c"},
        {"text": "d"},
        {"text": "", "thoughtSignature": "eQ=="},
        CALL,
    ]
    found = response_of(*(chunk(part) for part in parts), chunk(finish="STOP"))
    assert found.blocks == (parts[0], parts[1], {"text": "cd"}, parts[4], parts[5])
    assert (found.text, found.thinking, found.stop) == ("abcd", "", CallStop.TOOL_USE)


def test_thinking_that_is_not_shown_is_empty_and_none_is_none() -> None:
    assert response_of(chunk({"text": "4"}, finish="STOP", counts=USAGE)).thinking == ""
    plain = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25}
    assert response_of(chunk({"text": "4"}, finish="STOP", counts=plain)).thinking is None


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("MAX_TOKENS", CallStop.MAX_TOKENS),
        *((word, CallStop.REFUSAL) for word in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR")),
        *((word, CallStop.OTHER) for word in ("LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "BRAND_NEW")),
        *((word, CallStop.OTHER) for word in ("MISSING_THOUGHT_SIGNATURE", "TOO_MANY_TOOL_CALLS", "UNEXPECTED_TOOL_CALL")),
        ("CONTINUATION", CallStop.INCOMPLETE),
    ],
)
def test_finish_reasons_other_than_stop_are_not_complete(finish: str, stop: CallStop) -> None:
    found = response_of(chunk({"text": "4"}, finish=finish, counts=USAGE))
    assert (found.stop, found.stop_raw, found.complete, found.text) == (stop, finish, False, "4")


def test_a_blocked_prompt_is_a_refusal_that_used_its_input() -> None:
    found = response_of({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 20, "totalTokenCount": 20}})
    assert (found.stop, found.stop_raw, found.text, found.complete) == (CallStop.REFUSAL, "blocked/SAFETY", "", False)
    assert (found.usage.input_tokens, found.usage.output_tokens) == (20, 0)


def test_thinking_used_up_before_a_word_is_a_truncation_that_is_billed() -> None:
    spent = {"promptTokenCount": 10, "thoughtsTokenCount": 900, "totalTokenCount": 910}
    found = response_of(chunk(finish="MAX_TOKENS", counts=spent))
    assert (found.text, found.stop, found.usage.output_tokens, found.usage.reasoning_tokens) == ("", CallStop.MAX_TOKENS, 900, 900)


def test_logprobs_of_the_tokens() -> None:
    chosen = {"chosenCandidates": [{"token": "4", "logProbability": -0.25}, {"token": "!"}]}
    one = chunk({"text": "4!"}, finish="STOP")
    one["candidates"][0]["logprobsResult"] = chosen
    assert response_of(one).token_logprobs == (-0.25,)


@pytest.mark.parametrize(
    "given", [[], [chunk({"text": "half"})], [chunk({"text": "half"}, counts=USAGE)]], ids=["nothing", "text", "counted"]
)
def test_a_clean_end_without_a_finish_reason_is_incomplete(given: list[dict[str, Any]]) -> None:
    failure = failure_of(*given)
    assert (failure.kind, failure.retryable, failure.usage) == ("incomplete", True, None)
    assert failure.partial_text == ("half" if given else "")


@pytest.mark.parametrize(
    ("wrong", "kind", "retryable"),
    [
        ({"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}, "overloaded", True),
        ([{"error": {"code": 429, "message": "later", "status": "RESOURCE_EXHAUSTED"}}], "rate_limited", True),
        ({"error": {"code": 500, "message": "later", "status": "INTERNAL"}}, "server_error", True),
        ({"error": {"code": 400, "message": "later", "status": "INVALID_ARGUMENT"}}, "invalid_request", False),
        ({"error": {"code": 504, "message": "later", "status": "DEADLINE_EXCEEDED"}}, "timeout", True),
    ],
)
def test_an_error_inside_the_stream(wrong: Any, kind: str, retryable: bool) -> None:
    failure = failure_of(chunk({"text": "half"}), wrong)
    assert (failure.kind, failure.retryable, failure.partial_text, failure.http_status) == (kind, retryable, "half", 200)
    assert failure.usage is None
    assert "later" in str(failure)


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        {"candidates": 5},
        {"candidates": [5]},
        chunk({"text": 5}),
        {"candidates": [{"content": 5}]},
        {"candidates": [{"content": {"parts": [5]}}]},
    ],
    ids=str,
)
def test_a_chunk_not_of_this_format_is_refused_with_what_had_arrived(wrong: Any) -> None:
    failure = failure_of(chunk({"text": "half"}), wrong)
    assert (failure.kind, failure.partial_text) == ("invalid_response", "half")


# Usage


def test_recorded_usage(cases: list[dict]) -> None:
    seen = 0
    for case in (case for case in cases if case["kind"] == "usage_cost" and case["input"].get("provider_shape") == "gemini"):
        raw, expected = case["input"]["usage"], case["expected"]
        found = usage(raw)
        assert found.source is UsageSource.PROVIDER
        assert found.input_tokens + found.output_tokens == raw["totalTokenCount"]
        assert found.output_tokens == expected.get("output_tokens", found.output_tokens)
        assert found.reasoning_tokens == expected.get("reasoning_tokens")
        seen += 1
    assert seen == 2


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        ({"promptTokenCount": 4, "candidatesTokenCount": 6, "totalTokenCount": 10}, (4, 6, None)),
        ({"promptTokenCount": 4, "candidatesTokenCount": 6}, (4, 6, None)),
        ({"promptTokenCount": 4, "candidatesTokenCount": 6, "thoughtsTokenCount": 5}, (4, 11, 5)),
        ({"promptTokenCount": 4, "candidatesTokenCount": 6, "thoughtsTokenCount": 5, "totalTokenCount": 15}, (4, 11, 5)),
        # this server counts thinking among the candidates
        ({"promptTokenCount": 4, "candidatesTokenCount": 6, "thoughtsTokenCount": 5, "totalTokenCount": 10}, (4, 6, 5)),
        # counts of zero are left out
        ({"promptTokenCount": 4, "thoughtsTokenCount": 5, "totalTokenCount": 9}, (4, 5, 5)),
        ({"promptTokenCount": 4, "totalTokenCount": 4}, (4, 0, None)),
        ({"promptTokenCount": 4, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 6, "totalTokenCount": 13}, (7, 6, None)),
    ],
)
def test_usage_in_one_shape(raw: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    found = usage(raw)
    assert (found.input_tokens, found.output_tokens, found.reasoning_tokens) == counts
    assert found.source is UsageSource.PROVIDER


@pytest.mark.parametrize(
    "change",
    [
        {"promptTokenCount": -1},
        {"candidatesTokenCount": 1.5},
        {"thoughtsTokenCount": True},
        {"totalTokenCount": 51},
        {"cachedContentTokenCount": 21},
        {"cachedContentTokenCount": "8"},
        {"toolUsePromptTokenCount": 1},
    ],
    ids=str,
)
def test_counts_that_contradict_each_other_are_unknown_and_kept(change: dict[str, Any]) -> None:
    found = usage(USAGE | change)
    assert (found.source, found.known, found.raw) == (UsageSource.UNKNOWN, False, USAGE | change)


@pytest.mark.parametrize("raw", [None, {}, {"promptTokenCount": 4}, {"candidatesTokenCount": 4}], ids=str)
def test_what_was_not_counted_is_unknown(raw: object) -> None:
    assert not usage(raw).known


def test_running_totals_replace_each_other_and_one_that_vanishes_stays() -> None:
    found = response_of(
        chunk({"text": "a"}, counts={"promptTokenCount": 20, "candidatesTokenCount": 1, "thoughtsTokenCount": 25, "totalTokenCount": 46}),
        chunk({"text": "b"}, counts={"promptTokenCount": 20, "candidatesTokenCount": 2, "thoughtsTokenCount": 25, "totalTokenCount": 47}),
        chunk({"text": "c"}, finish="STOP", counts={"promptTokenCount": 20, "candidatesTokenCount": 3, "totalTokenCount": 48}),
    )
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.reasoning_tokens) == (20, 28, 25)
    after = fed(chunks(chunk({"text": "a"}, finish="STOP"), {"usageMetadata": USAGE})).finish(TIMINGS)
    assert after.usage.output_tokens == 30, "counts may come after the finish"


# Replies that are no stream


def test_a_429_waits_as_long_as_its_retry_info_says() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39.5s"}, {"@type": "x", "retryDelay": "soon"}, 5]
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    for shape in (body, [body]):
        failure = error(429, {}, orjson.dumps(shape), 0.0)
        assert (failure.kind, failure.retryable, failure.retry_after) == ("rate_limited", True, 39.5)
        assert error(429, {"retry-after": "3"}, orjson.dumps(shape), 0.0).retry_after == 3
    del body["error"]["details"]
    assert error(429, {}, orjson.dumps(body), 0.0).retry_after is None


@pytest.mark.parametrize(
    ("status", "word", "kind", "retryable"),
    [
        (400, "INVALID_ARGUMENT", "invalid_request", False),
        (403, "PERMISSION_DENIED", "authentication", False),
        (404, "NOT_FOUND", "invalid_request", False),
        (500, "INTERNAL", "server_error", True),
        (503, "UNAVAILABLE", "overloaded", True),
        (504, "DEADLINE_EXCEEDED", "timeout", True),
    ],
)
def test_errors(status: int, word: str, kind: str, retryable: bool) -> None:
    failure = GeminiFormat().error(status, {}, orjson.dumps({"error": {"code": status, "message": "so", "status": word}}), 0.0, ())
    assert (failure.kind, failure.retryable, failure.http_status) == (kind, retryable, status)


def test_a_bad_key_comes_as_a_400_and_is_not_shown() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    body = {"error": {"code": 400, "message": "API key not valid: AIza-planted", "status": "INVALID_ARGUMENT", "details": details}}
    failure = error(400, {}, orjson.dumps(body), 0.0, ["AIza-planted"])
    assert (failure.kind, failure.retryable) == ("authentication", False)
    assert "AIza-planted" not in str(failure)
    assert error(502, {}, b"<html>oops</html>", 0.0).kind == "server_error"


# Anything at all

WHOLE = chunks(
    chunk({"text": "naïve ", "thought": True}, counts={"promptTokenCount": 20, "totalTokenCount": 20}),
    chunk({"text": "漢字", "thought": True}),
    *(chunk({"text": piece}) for piece in ("vier ", "🙂", "\n")),
    chunk({"text": "fünf", "thoughtSignature": "eA=="}, finish="STOP", counts=USAGE),
)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_any_split_gives_the_same_response(cuts: list[int]) -> None:
    found = fed(*(WHOLE[a:b] for a, b in pairwise([0, *sorted(cuts), len(WHOLE)]))).finish(TIMINGS)
    assert (found.text, found.thinking, found.usage.output_tokens) == ("vier 🙂\nfünf", "naïve 漢字", 30)


@given(st.integers(0, len(WHOLE) - 4))
def test_any_truncation_is_incomplete_with_a_beginning_of_the_text(size: int) -> None:
    with pytest.raises(CallFailed) as failed:
        fed(WHOLE[:size]).finish(TIMINGS)
    assert (failed.value.kind, failed.value.usage) == ("incomplete", None)
    assert "vier 🙂\nfünf".startswith(failed.value.partial_text)
    assert "naïve 漢字".startswith(failed.value.thinking_text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["parts", "text", "thought", "index", "error"]), inner),
    max_leaves=8,
)
PART = st.dictionaries(st.sampled_from(["text", "thought", "thoughtSignature", "functionCall"]), JSON)
CANDIDATE = st.fixed_dictionaries(
    {},
    optional={
        "content": st.fixed_dictionaries({"parts": st.lists(PART)}) | JSON,
        "finishReason": JSON,
        "logprobsResult": JSON,
        "index": JSON,
    },
)
COUNTS = st.dictionaries(st.sampled_from(sorted(USAGE)), JSON | st.integers(0, 50))
CHUNK = st.fixed_dictionaries(
    {}, optional={"candidates": st.lists(CANDIDATE) | JSON, "usageMetadata": COUNTS, "promptFeedback": JSON, "error": JSON}
)


@given(st.lists(CHUNK, max_size=5))
def test_chunks_that_hold_anything_raise_nothing_but_a_failed_call(given: list[dict[str, Any]]) -> None:
    try:
        found = fed(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in given)).finish(TIMINGS)
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
