"""The TTC-v2 client: what is sent, what is read on both surfaces, and every breach of the protocol by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.ttc_v2 import Reply, TTCServer, events, final_message, refused
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.http import HttpModel, Timeouts
from ttc_eval.protocol.schemas import WAIT, request_violation
from ttc_eval.records import NOTHING_USED, CallStop, Message, Request, Response, Sampling, Timings, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.sse import Event, SSEParser
from ttc_eval.wire.ttc_v2 import Surface, TTCFormat, error, request_body, surface_named, usage

BUDGET = Thinking(ThinkingMode.BUDGET, 64)
SUPPORT = ThinkingSupport(
    (ThinkingMode.OFF, ThinkingMode.BUDGET), budget_inside_max_tokens=False, reports_reasoning_tokens=True, budget_slack=8
)
COUNTS = {"input_tokens": 10, "output_tokens": 3, "thinking_tokens": 5, "cache_creation_input_tokens": 4}
TIMINGS = Timings(0.0, 0.0, 0.0)
BOTH = pytest.mark.parametrize("chat", [False, True], ids=["messages", "chat"])


def request(thinking: Thinking = BUDGET, **changes: Any) -> Request:
    cap = 32 + (thinking.budget or 0)
    return replace(Request("m", "e", (Message("system", "Be brief."), Message("user", "2+2?")), thinking, Sampling(), 32, cap), **changes)


def read(parts: Iterable[bytes]) -> Response:
    stream, parser = TTCFormat().stream(()), SSEParser()
    for part in parts:
        for event in parser.feed(part):
            stream.feed(event)
    return stream.finish(TIMINGS)


def failed(parts: Iterable[bytes]) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        read(parts)
    return caught.value


def breach(reply: Reply, *, chat: bool = False) -> str:
    """The message about a reply that breaks the protocol: it is not sent again, since it would break it again."""
    failure = failed(events(reply, chat=chat))
    assert (failure.kind, failure.retryable) == ("invalid_response", False)
    return str(failure)


# What is sent.


def test_the_answer_has_a_cap_of_its_own_beside_the_budget() -> None:
    body = request_body(request(sampling=Sampling(temperature=0.5, top_p=0.9, stop=("\n\n",))))
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}],
        "max_tokens": 32,
        "stream": True,
        "thinking": {"type": "enabled", "budget_tokens": 64},
        "stop_sequences": ["\n\n"],
        "temperature": 0.5,
        "top_p": 0.9,
    }
    assert request_violation(body) is None


def test_a_lowered_cap_lowers_the_room_for_the_answer_and_never_the_budget() -> None:
    assert request_body(request(max_output_tokens=70))["max_tokens"] == 6
    with pytest.raises(UserError, match="must be below the cap of all output"):
        request_body(request(max_output_tokens=64))


@pytest.mark.parametrize("thinking", [Thinking(), Thinking(ThinkingMode.BUDGET, 0)], ids=["off", "a budget of 0"])
def test_without_thinking_there_is_no_thinking_object(thinking: Thinking) -> None:
    body = request_body(request(thinking))
    assert "thinking" not in body
    assert request_violation(body) is None


def test_a_seed_goes_only_where_the_base_protocol_has_one() -> None:
    assert "seed" not in request_body(request())
    assert request_body(request(), Surface.CHAT)["seed"] == request().sampling_seed


def test_turns_with_blocks_are_sent_back_verbatim() -> None:
    blocks = ({"type": "thinking", "text": "4"}, {"type": "text", "text": "four"})
    sent = request_body(request(messages=(Message("user", "2+2?"), Message("assistant", "four", blocks), Message("user", "sure?"))))
    assert sent["messages"][1] == {"role": "assistant", "content": list(blocks)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"thinking": Thinking(ThinkingMode.EFFORT, effort="high")}, "thinking=effort: TTC-v2 cannot express it; it can: off, budget"),
        ({"thinking": Thinking(ThinkingMode.ADAPTIVE)}, "thinking=adaptive"),
        ({"prefix": "So"}, "prefix"),
        ({"sampling": Sampling(logprobs=1)}, "sampling.logprobs"),
        ({"tools": ({"name": "t"},)}, "tools"),
    ],
)
def test_what_the_protocol_cannot_express_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        request_body(request(**changes))


def test_surfaces_have_names() -> None:
    assert surface_named("generic") is Surface.MESSAGES
    with pytest.raises(UserError, match="messages, chat"):
        surface_named("openai")


# Usage.


def test_usage_counts_thinking_beside_the_text() -> None:
    found = usage(COUNTS)
    assert (found.input_tokens, found.output_tokens, found.reasoning_tokens, found.cache_write_tokens) == (10, 8, 5, 4)
    assert (found.cached_input_tokens, found.source, found.raw) == (None, UsageSource.PROVIDER, COUNTS)


@pytest.mark.parametrize(
    "changes",
    [{"input_tokens": 3}, {"thinking_tokens": -1}, {"output_tokens": True}, {"output_tokens": 1.5}, {"input_tokens": None}],
    ids=["cache above input", "negative", "no number", "a fraction", "missing"],
)
def test_counts_that_contradict_each_other_are_unknown_and_kept(changes: dict[str, Any]) -> None:
    raw = COUNTS | changes
    assert not usage(raw).known
    assert usage(raw).raw == raw


def test_counts_that_deny_tokens_to_text_that_came_are_unknown() -> None:
    assert not read(events(Reply(("so",), "4", usage={"thinking_tokens": 0}))).usage.known
    assert read(events(Reply((), "4"))).usage.reasoning_tokens == 0


# What is read.


@BOTH
@pytest.mark.parametrize("key", ["text", "thinking"])
@pytest.mark.parametrize("content", [True, False])
def test_both_surfaces_say_the_same(chat: bool, key: str, content: bool) -> None:
    response = read(events(Reply(("2+2, two twos,", " so 4"), "It is 4.", key=key, content=content), chat=chat))
    assert (response.thinking, response.text) == ("2+2, two twos, so 4", "It is 4.")
    assert (response.stop, response.stop_raw, response.response_id, response.complete) == (CallStop.END, "end_turn", "resp-1", True)
    assert (response.usage.output_tokens, response.usage.reasoning_tokens) == (8, 5)


def test_where_a_thinking_block_ends_stays_known() -> None:
    response = read(events(Reply(("one", "two"), "3")))
    assert [block["text"] for block in response.blocks] == ["one", "two", "3"]
    assert read(events(Reply(("one",), "3"))).blocks == ()


def test_a_chat_stream_may_end_by_its_last_chunks_instead_of_a_final_message() -> None:
    reply = Reply(("so",), "4", chunks=True)
    assert read(events(reply, chat=True)) == read(events(replace(reply, chunks=False)))
    unended = [part for part in events(reply, chat=True) if b"[DONE]" not in part]
    assert read(unended).text == "4"
    assert "usage must be given in the last chunk" in str(failed(part for part in unended if b'"usage"' not in part))


def test_a_stop_reason_in_a_base_protocols_own_words_is_no_stop_reason() -> None:
    assert "stop_reason must be one of" in breach(Reply((), "4", stop="stop", chunks=True), chat=True)


@BOTH
def test_a_used_up_budget_is_told_by_the_stop_reason(chat: bool) -> None:
    response = read(events(Reply(("on and on",), stop="budget_exceeded"), chat=chat))
    assert (response.stop, response.complete, response.thinking, response.text) == (CallStop.BUDGET_EXCEEDED, False, "on and on", "")


@BOTH
def test_a_used_up_budget_is_told_by_the_marker_which_stays_part_of_the_thinking(chat: bool) -> None:
    response = read(events(Reply(("first", f"on and{WAIT}"), stop="stop_sequence"), chat=chat))
    assert (response.stop, response.stop_raw, response.thinking) == (CallStop.BUDGET_EXCEEDED, "stop_sequence", f"firston and{WAIT}")


@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (Reply((f"one{WAIT}", "two"), stop="stop_sequence"), CallStop.STOP_SEQUENCE),
        (Reply((f"one{WAIT} more",), stop="stop_sequence"), CallStop.STOP_SEQUENCE),
        (Reply((f"one{WAIT}",), "4"), CallStop.END),
        (Reply((f"one{WAIT}",), stop="max_tokens"), CallStop.MAX_TOKENS),
        (Reply(("one",), f"say {WAIT}", stop="stop_sequence"), CallStop.STOP_SEQUENCE),
        (Reply((), WAIT, stop="stop_sequence"), CallStop.STOP_SEQUENCE),
    ],
    ids=["not the last block", "not at the end", "another stop", "cut", "in the answer", "in the answer alone"],
)
def test_the_marker_means_nothing_elsewhere(reply: Reply, stop: CallStop) -> None:
    assert read(events(reply)).stop is stop


def test_nothing_after_the_final_message_counts() -> None:
    assert read(events(Reply((), "4", fault="late_text"))).text == "4"


# Breaches, each with the name of the field.


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(("so",), "4", fault="late_thinking"), "a thinking block must not follow a text block"),
        (Reply(("so",), "4", stop="budget_exceeded"), r'content\[1\].type must be "thinking"'),
        (Reply(("so",), "4", stop="budget_exceeded", content=False), r'content\[1\].type must be "thinking"'),
        (Reply((f"so{WAIT}",), "4", stop="stop_sequence"), r"content\[1\] must not be a text block"),
        (Reply((), "4", final={"usage": ...}), "usage must be given"),
        (Reply((), "4", usage={"thinking_tokens": "0"}), "usage.thinking_tokens must be integer"),
        (
            Reply((), "4", usage={"cache_creation_input_tokens": 11}),
            "usage.cache_creation_input_tokens must be at most usage.input_tokens=10",
        ),
        (Reply((), "4", final={"id": ...}), "id must be given"),
        (Reply((), "4", stop="done"), "stop_reason must be one of"),
        (Reply((), "4", final={"content": [{"type": "text", "text": "5"}]}), "content: its text must be what the deltas brought"),
        (Reply(("so",), "4", final={"content": [{"type": "text", "text": "4"}]}), "content: its thinking must be what the deltas brought"),
        (Reply((), "4", final={"content": [{"type": "tool_use", "text": ""}]}), r"content\[0\].type must be one of"),
    ],
)
def test_a_breach_names_its_field(reply: Reply, said: str) -> None:
    import re

    assert re.search(said, breach(reply))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"type": "content_block_delta", "delta": {"type": "signature_delta", "text": "x"}}, "delta.type must be one of"),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": 5}}, "delta.text must be string"),
        ({"type": "content_block_delta", "delta": {"type": "text_delta"}}, "delta.text must be given"),
        ({"type": "content_block_delta", "delta": {"type": "thinking_delta", "text": "a", "thinking": "b"}}, "must not differ"),
        ({"type": "content_block_delta"}, "delta must be object"),
        ({"type": "content_block_start", "content_block": {"type": "image"}}, "content_block.type must be one of"),
        ({"choices": 5}, "choices must be array"),
        ({"choices": [{"delta": {"content": "a", "content_type": "music"}}]}, "delta.content_type must be one of"),
        ({"choices": [{"delta": {"content": ["a"]}}]}, "delta.content.text must be string"),
        ({"choices": [{"delta": 5}]}, "delta must be object"),
        ({"choices": [5]}, "choices must hold objects"),
    ],
)
def test_an_event_of_the_wrong_form_is_a_breach(event: dict[str, Any], said: str) -> None:
    failure = failed([b"data: " + orjson.dumps(event) + b"\n\n"])
    assert said in str(failure)
    assert not failure.retryable


def test_a_breach_in_the_final_message_keeps_what_it_counted() -> None:
    failure = failed(events(Reply((), "4", stop="done")))
    assert failure.usage is not None
    assert (failure.usage.output_tokens, failure.partial_text) == (1, "4")


@BOTH
@pytest.mark.parametrize(("fault", "kind"), [("no_final", "incomplete"), ("garbage", "invalid_response"), ("error_event", "overloaded")])
def test_what_comes_to_nothing_keeps_what_had_arrived(chat: bool, fault: str, kind: str) -> None:
    failure = failed(events(Reply(("a long thought of many tokens",), "x", fault=fault), chat=chat))
    assert (failure.kind, failure.retryable, failure.usage, failure.partial_text) == (kind, True, None, "")
    assert "a long thought".startswith(failure.thinking_text[:14])
    assert failure.thinking_text


def test_a_refused_budget_is_a_kind_of_its_own() -> None:
    failure = error(400, {}, refused(9999).body, 0.0)
    assert (failure.kind, failure.retryable, failure.usage) == ("budget_refused", False, NOTHING_USED)
    assert "9999 is above the maximum of 4096" in str(failure)
    assert error(422, {}, refused(1).body, 0.0).kind == "invalid_request"
    assert (
        error(400, {}, b'{"type":"error","error":{"type":"invalid_request_error","code":"budget_exceeded"}}', 0.0).kind == "invalid_request"
    )
    assert error(400, {}, b"oops", 0.0).kind == "invalid_request"
    assert error(429, {"retry-after": "2"}, b"{}", 0.0).retry_after == 2


def test_secrets_stay_out_of_messages() -> None:
    said = refused(1).body.replace(b"is above", b"of sk-planted is above")
    assert "sk-planted" not in str(error(400, {}, said, 0.0, ["sk-planted"]))


# Fuzz: any split of the bytes says the same; garbage raises nothing but CallFailed and invents nothing.

TEXTS = st.text(max_size=12)
REPLIES = st.builds(
    Reply,
    thinking=st.lists(TEXTS.filter(bool), max_size=3).map(tuple),
    text=TEXTS,
    stop=st.sampled_from(["end_turn", "max_tokens"]),
    key=st.sampled_from(["text", "thinking"]),
    content=st.booleans(),
    chunks=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(REPLIES, st.booleans(), st.data())
def test_any_split_gives_the_same_response(reply: Reply, chat: bool, data: st.DataObject) -> None:
    whole = b"".join(events(reply, chat=chat))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    response = read(pieces)
    assert (response.thinking or "", response.text) == ("".join(reply.thinking), reply.text)
    assert response == read([whole])


@settings(max_examples=100, deadline=None)
@given(REPLIES, st.booleans(), st.data())
def test_a_truncated_stream_is_incomplete_and_keeps_a_prefix(reply: Reply, chat: bool, data: st.DataObject) -> None:
    whole = b"".join(events(replace(reply, chunks=False), chat=chat)).removesuffix(b"data: [DONE]\n\n")
    failure = failed([whole[: data.draw(st.integers(0, len(whole) - 1))]])
    # On chat, a stream that has told its stop reason lacks only what was used.
    assert failure.kind == "incomplete" or "usage must be given" in str(failure)
    assert "".join(reply.thinking).startswith(failure.thinking_text)
    assert reply.text.startswith(failure.partial_text)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "delta", "index", "text", "thinking", "choices", "content", "content_type", "finish_reason", "usage", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(["", "message_stop", "content_block_delta", "content_block_start", "message_start", "error", "ping"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(KINDS, JSONS | st.binary(max_size=8)), max_size=6), JSONS)
def test_garbage_raises_nothing_but_a_failed_call(parts: list[tuple[str, Any]], final: Any) -> None:
    stream = TTCFormat().stream(())
    message = final_message(Reply((), "4")) | (final if isinstance(final, dict) else {})
    try:
        for kind, value in [*parts, ("message_stop", message)]:
            stream.feed(Event(kind, value if isinstance(value, bytes) else orjson.dumps(value)))
        response = stream.finish(TIMINGS)
    except CallFailed as failure:
        counts = failure.usage
    else:
        counts = response.usage
    if counts is not None:
        assert all(count is None or count >= 0 for count in (counts.input_tokens, counts.output_tokens, counts.reasoning_tokens))


# Over a real socket.


def talk(reply: Reply, asked: Request, *, surface: str = "messages", **fields: Any) -> tuple[Response, TTCServer]:
    async def main() -> tuple[Response, TTCServer]:
        limits = Timeouts(connect_s=5, first_token_s=5, idle_s=5, total_s=10)
        async with TTCServer(lambda body, n: reply) as server:
            model = HttpModel("local", server.url, "m", wire="ttc_v2", dialect=surface, thinking=SUPPORT, timeouts=limits, **fields)
            async with model.connect() as connection:
                return await connection.respond(asked), server

    return asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize(("surface", "path"), [("messages", "/v1/messages"), ("chat", "/v1/chat/completions")])
def test_a_call_on_each_surface(surface: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTC_KEY", "sk-planted-0123")
    response, server = talk(Reply(("so",), "4"), request(), surface=surface, api_key_env="TTC_KEY")
    assert (response.thinking, response.text, response.response_id) == ("so", "4", "resp-1")
    assert server.paths == [path]
    assert server.headers[0]["authorization"] == "Bearer sk-planted-0123"
    assert request_violation(server.bodies[0]) is None
    assert response.sent is not None
    assert response.sent["thinking"] == {"type": "enabled", "budget_tokens": 64}


@pytest.mark.parametrize("surface", ["messages", "chat"])
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refused(64), "budget_refused"),
        (Reply(("so so so",), "4", fault="cut"), "connection"),
        (Reply(("so so so",), "4", fault="no_final"), "incomplete"),
        (Reply(body=b'{"type":"message","content":[]}'), "invalid_response"),
    ],
    ids=["refused", "cut", "no final message", "not a stream"],
)
def test_a_failure_on_each_surface(surface: str, reply: Reply, kind: str) -> None:
    with pytest.raises(CallFailed) as caught:
        talk(reply, request(), surface=surface)
    assert caught.value.kind == kind
