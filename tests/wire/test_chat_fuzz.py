"""Bytes of a chat stream, cut, damaged and mixed with garbage: no error but ours, no text lost or invented, no negative usage."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed
from ttc_eval.records import Response, Timings
from ttc_eval.wire.dialects import DIALECTS
from ttc_eval.wire.failures import RETRYABLE
from ttc_eval.wire.openai_chat import ChatStream
from ttc_eval.wire.sse import SSEParser
from ttc_eval.wire.think_tags import ThinkTags

pieces = st.lists(st.tuples(st.booleans(), st.text(min_size=1, max_size=6)), max_size=6)
cuts = st.lists(st.integers(0, 2000), max_size=8)
garbage = st.sampled_from(
    [b"\n", b"\r", b": ping\n\n", b"data:", b"\x00", b"\xff", b"{", b"}", b'"', b"data: [DONE]\n\n", b"data: {}\n\n", b"event: x\n"]
)
KINDS = RETRYABLE | {"invalid_request", "authentication", "credit", "refused", "model_not_found", "context_full"}


def stream_bytes(said: list[tuple[bool, str]], name: str, line_end: str, comments: bool) -> bytes:
    reasoning = DIALECTS[name].reasoning[0]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {(reasoning if thinks else "content"): text}}]} for thinks, text in said]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
    parts = [b"data: " + orjson.dumps(chunk) for chunk in chunks] + [b"data: [DONE]"]
    between = (line_end * 2).encode() + (b": ping" + (line_end * 2).encode() if comments else b"")
    return b"".join(part + between for part in parts)


def read(data: bytes, places: list[int], name: str, tags: ThinkTags | None = None) -> Response | CallFailed:
    bounds = [0, *sorted(place for place in places if place <= len(data)), len(data)]
    parser, stream = SSEParser(), ChatStream(DIALECTS[name], (), tags)
    try:
        for low, high in pairwise(bounds):
            for event in parser.feed(data[low:high]):
                stream.feed(event)
            if stream.done:
                break
        return stream.finish(Timings(0.0, 0.1, 0.2))
    except CallFailed as failure:
        return failure


@given(pieces, cuts, st.sampled_from(sorted(DIALECTS)), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_any_cut_of_the_bytes_gives_the_whole_response(
    said: list[tuple[bool, str]], places: list[int], name: str, line_end: str, comments: bool
) -> None:
    response = read(stream_bytes(said, name, line_end, comments), places, name)
    assert isinstance(response, Response)
    assert response.text == "".join(text for thinks, text in said if not thinks)
    assert (response.thinking or "") == "".join(text for thinks, text in said if thinks)
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 4)


@given(pieces, cuts, st.integers(0, 2000), st.sampled_from(sorted(DIALECTS)))
def test_a_truncated_stream_is_incomplete_and_carries_a_beginning(
    said: list[tuple[bool, str]], places: list[int], end: int, name: str
) -> None:
    whole = stream_bytes(said, name, "\n", False)
    outcome = read(whole[:end], places, name)
    if isinstance(outcome, Response):
        assert end >= len(whole)
        return
    assert (outcome.kind, outcome.retryable) == ("incomplete", True)
    assert "".join(text for thinks, text in said if not thinks).startswith(outcome.partial_text)
    assert "".join(text for thinks, text in said if thinks).startswith(outcome.thinking_text)
    assert outcome.usage is None or outcome.usage.known


@given(pieces, cuts, st.lists(st.tuples(st.integers(0, 2000), garbage), min_size=1, max_size=4), st.booleans())
def test_garbage_in_between_never_invents_text(
    said: list[tuple[bool, str]], places: list[int], damage: list[tuple[int, bytes]], tagged: bool
) -> None:
    data = stream_bytes(said, "vllm", "\n", True)
    for place, junk in damage:
        at = min(place, len(data))
        data = data[:at] + junk + data[at:]
    outcome = read(data, places, "vllm", ThinkTags() if tagged else None)
    if isinstance(outcome, CallFailed):
        assert outcome.kind in KINDS
        return
    for count in (outcome.usage.input_tokens, outcome.usage.output_tokens):
        assert count is None or count >= 0


@given(pieces, cuts, st.integers(0, 2000))
def test_the_tags_of_thinking_change_only_where_text_goes(said: list[tuple[bool, str]], places: list[int], end: int) -> None:
    texts = ["<think>", *(text for _, text in said), "</think>", "end"]
    data = stream_bytes([(False, text) for text in texts], "vllm", "\n", False)[:end]
    plain, tagged = read(data, places, "vllm"), read(data, places, "vllm", ThinkTags())
    assert type(plain) is type(tagged)
    assert "".join(_texts(tagged)) == "".join(_texts(plain)).replace("<think>", "", 1).replace("</think>", "", 1)


def _texts(outcome: Response | CallFailed) -> tuple[str, str]:
    if isinstance(outcome, Response):
        return outcome.thinking or "", outcome.text
    return outcome.thinking_text, outcome.partial_text
