"""Thinking that is left inside the content: split off however the stream is cut, with nothing added or lost."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import CallStop, Response, Timings
from ttc_eval.wire.dialects import DIALECTS
from ttc_eval.wire.openai_chat import ChatStream
from ttc_eval.wire.sse import Event
from ttc_eval.wire.think_tags import TagSplitter, ThinkTags

PLAIN, OPENED = ThinkTags(), ThinkTags(opened=True)


def split(*pieces: str, tags: ThinkTags = PLAIN, complete: bool = True) -> tuple[str, str]:
    splitter = TagSplitter(tags)
    for piece in pieces:
        splitter.feed(piece)
    splitter.end(complete=complete)
    return "".join(splitter.thinking), "".join(splitter.text)


@pytest.mark.parametrize(
    ("content", "tags", "complete", "thinking", "text"),
    [
        ("<think>two and two</think>four", PLAIN, True, "two and two", "four"),
        ("\n<think>\nhm\n</think>\n\nfour", PLAIN, True, "\nhm\n", "\n\n\nfour"),
        ("<think></think>four", PLAIN, True, "", "four"),
        ("four", PLAIN, True, "", "four"),
        ("", PLAIN, True, "", ""),
        ("I <think> so</think>", PLAIN, True, "", "I <think> so</think>"),
        ("<thin", PLAIN, True, "", "<thin"),
        ("<think>never ends", PLAIN, False, "never ends", ""),
        ("<think>ends in </thi", PLAIN, False, "ends in </thi", ""),
        ("<think>a</think>b<think>c</think>", PLAIN, True, "a", "b<think>c</think>"),
        ("<think>a < b </ c</think>d", PLAIN, True, "a < b </ c", "d"),
        ("two and two</think>four", OPENED, True, "two and two", "four"),
        ("<think>two and two</think>four", OPENED, True, "two and two", "four"),
        ("four", OPENED, True, "", "four"),
        ("cut in its thinking", OPENED, False, "cut in its thinking", ""),
        ("[T]x[/T]y", ThinkTags("[T]", "[/T]"), True, "x", "y"),
    ],
)
def test_splits_in_every_place(content: str, tags: ThinkTags, complete: bool, thinking: str, text: str) -> None:
    assert split(content, tags=tags, complete=complete) == (thinking, text)
    assert split(*content, tags=tags, complete=complete) == (thinking, text)
    for cut in range(len(content)):
        assert split(content[:cut], content[cut:], tags=tags, complete=complete) == (thinking, text)


letters = st.lists(st.sampled_from(["<", "think", ">", "</think>", "<think>", "/", " ", "a", "\n", "é🙂"]), max_size=12).map("".join)


@given(letters, st.lists(st.integers(0, 60), max_size=6), st.booleans(), st.booleans())
def test_any_cut_gives_the_same_and_keeps_every_letter(content: str, cuts: list[int], opened: bool, complete: bool) -> None:
    tags = ThinkTags(opened=opened)
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(content)), len(content)]
    whole = split(content, tags=tags, complete=complete)
    assert split(*(content[low:high] for low, high in pairwise(bounds)), tags=tags, complete=complete) == whole
    lost = len(content) - len("".join(whole))
    assert lost in (0, len(tags.open), len(tags.close), len(tags.open) + len(tags.close))
    if lost == 0:
        assert sorted("".join(whole)) == sorted(content)


def respond(pieces: list[str], finish: str = "stop", *, tags: ThinkTags | None = PLAIN, done: bool = True) -> Response:
    stream = ChatStream(DIALECTS["vllm"], (), tags)
    for piece in pieces:
        stream.feed(Event("", orjson.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]})))
        assert stream.started or not piece
    if done:
        stream.feed(Event("", orjson.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})))
        stream.feed(Event("", b"[DONE]"))
    return stream.finish(Timings(0.0, 0.1, 0.2))


def test_a_response_has_its_thinking_apart_and_one_without_tags_has_none() -> None:
    response = respond(["<th", "ink>two", " and two</thi", "nk>fo", "ur"])
    assert (response.thinking, response.text, response.stop) == ("two and two", "four", CallStop.END)
    assert respond(["four"]).thinking is None
    assert respond(["<think>x</think>four"], tags=None).text == "<think>x</think>four"


def test_a_response_cut_in_its_thinking_has_no_answer() -> None:
    response = respond(["<think>on and on"], "length")
    assert (response.thinking, response.text, response.stop) == ("on and on", "", CallStop.MAX_TOKENS)


def test_a_failure_carries_thinking_and_text_apart() -> None:
    with pytest.raises(CallFailed) as failed:
        respond(["<think>hm</think>half", " of"], done=False)
    assert (failed.value.thinking_text, failed.value.partial_text) == ("hm", "half of")


def test_empty_tags_are_refused() -> None:
    with pytest.raises(UserError, match="think_tags"):
        ThinkTags(open=" ")
