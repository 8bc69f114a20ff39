"""The log-probabilities of the likeliest tokens, in every format that has them, token by token beside those that were sampled."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed
from ttc_eval.records import Response, Timings
from ttc_eval.wire.gemini_stream import GeminiStream
from ttc_eval.wire.logprobs import TokenLogprobs
from ttc_eval.wire.openai_chat import ChatStream
from ttc_eval.wire.openai_responses_stream import ResponsesStream
from ttc_eval.wire.sse import Event

TIMINGS = Timings(0.0, 0.1, 0.2)
Tokens = list[tuple[float, list[float]]]
TWO: Tokens = [(-0.25, [-0.25, -1.5]), (-2.0, [-0.5, -2.0, -9999.0])]


def openai(tokens: Tokens) -> list[dict[str, Any]]:
    """As OpenAI, vLLM, SGLang and llama.cpp's server list them."""
    return [
        {"token": "4", "logprob": logprob, "bytes": [52], "top_logprobs": [{"token": "4", "bytes": [52], "logprob": one} for one in top]}
        for logprob, top in tokens
    ]


def gathered(stream: Any, *events: dict[str, Any], end: bytes = b"") -> Response:
    for event in events:
        stream.feed(Event(str(event.get("type", "")), orjson.dumps(event)))
    if end:
        stream.feed(Event("", end))
    return stream.finish(TIMINGS)


def chat(*parts: Any) -> Response:
    chunks = [{"choices": [{"index": 0, "delta": {"content": "4"}, "logprobs": part, "finish_reason": None}]} for part in parts]
    return gathered(ChatStream(), *chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, end=b"[DONE]")


def responses(*parts: Any) -> Response:
    deltas = [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "4", "logprobs": part} for part in parts
    ]
    return gathered(ResponsesStream(), *deltas, {"type": "response.completed", "response": {"id": "r", "status": "completed"}})


def gemini(*parts: Any) -> Response:
    chunks = [{"candidates": [{"content": {"parts": [{"text": "4"}]}, "logprobsResult": part}]} for part in parts]
    return gathered(GeminiStream(), *chunks, {"candidates": [{"finishReason": "STOP"}]})


def google(tokens: Tokens) -> dict[str, Any]:
    steps = [{"candidates": [{"token": "4", "tokenId": 7, "logProbability": one} for one in top]} for _, top in tokens]
    return {"chosenCandidates": [{"token": "4", "logProbability": logprob} for logprob, _ in tokens], "topCandidates": steps}


def whole(tokens: Tokens) -> list[Response]:
    """The same tokens in every format, all in one event."""
    return [chat({"content": openai(tokens)}), responses(openai(tokens)), gemini(google(tokens))]


def piecewise(tokens: Tokens) -> list[Response]:
    """The same, an event each."""
    each = [openai([token]) for token in tokens]
    return [chat(*({"content": one} for one in each)), responses(*each), gemini(*(google([token]) for token in tokens))]


def test_every_format_gives_the_same_numbers_however_its_events_are_cut() -> None:
    for found in (*whole(TWO), *piecewise(TWO)):
        assert found.token_logprobs == (-0.25, -2.0)
        assert found.top_logprobs == ((-0.25, -1.5), (-0.5, -2.0, -9999.0)), "as the provider said them"


NUMBERS = st.floats(-50, 0)


@given(st.lists(st.tuples(NUMBERS, st.lists(NUMBERS, max_size=4)), min_size=1, max_size=6))
def test_there_is_a_list_for_each_sampled_token(tokens: Tokens) -> None:
    for found in (*whole(tokens), *piecewise(tokens)):
        assert found.token_logprobs == tuple(logprob for logprob, _ in tokens)
        tops = tuple(tuple(top) for _, top in tokens)
        assert found.top_logprobs == (tops if any(tops) else None)


def test_without_likeliest_tokens_there_are_none() -> None:
    for found in whole([(-0.25, []), (-1.0, [])]):
        assert (found.token_logprobs, found.top_logprobs) == ((-0.25, -1.0), None)
    for found in (chat(None), responses(None), gemini(None)):
        assert (found.token_logprobs, found.top_logprobs) == (None, None)


@pytest.mark.parametrize(
    "junk", [True, "x", 3, [], [None], [{"logprob": None}], {"content": 7}, {"chosenCandidates": 4, "topCandidates": [1]}]
)
def test_what_is_no_number_is_left_out(junk: Any) -> None:
    for read in (chat, responses, gemini):
        try:
            found = read(junk)
        except CallFailed:
            continue
        assert (found.token_logprobs, found.top_logprobs) == (None, None)


def test_a_token_without_a_number_does_not_shift_the_others() -> None:
    logprobs = TokenLogprobs()
    logprobs.add_openai([{"logprob": None, "top_logprobs": [{"logprob": -3.0}]}, {"logprob": -1, "top_logprobs": [{"logprob": True}, "?"]}])
    logprobs.add(-2.0, [-2.0])
    assert logprobs.sampled == (-1.0, -2.0)
    assert logprobs.top == ((), (-2.0,))
    result = {
        "chosenCandidates": [{"token": "a"}, {"token": "b", "logProbability": -1.0}],
        "topCandidates": [{}, {"candidates": [{"logProbability": -1.0}]}],
    }
    found = gemini(result)
    assert (found.token_logprobs, found.top_logprobs) == ((-1.0,), ((-1.0,),))
