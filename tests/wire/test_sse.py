"""The event-stream parser: the standard's rules, and the same events for every way of cutting the bytes."""

from __future__ import annotations

import base64
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.wire.sse import Event, EventTooLarge, SSEParser


def parse(*chunks: bytes) -> list[Event]:
    parser = SSEParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def pairs(*chunks: bytes) -> list[tuple[str, str]]:
    return [(event.event, event.text) for event in parse(*chunks)]


def standard(stream: bytes) -> list[tuple[str, str]]:
    """The algorithm of the HTML standard, written down line by line, over the whole stream."""
    stream = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events, data, name = [], b"", ""
    for line in stream.split(b"\n")[:-1]:
        if line == b"":
            if data:
                events.append((name, data[:-1].decode("utf-8", "replace")))
            data, name = b"", ""
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return events


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [("", "a")]),
        (b"data:a\n\n", [("", "a")]),
        (b"data:  a\n\n", [("", " a")]),
        (b"data: a\ndata: b\n\n", [("", "a\nb")]),
        (b"data\n\n", [("", "")]),
        (b"data:\ndata:\n\n", [("", "\n")]),
        (b"event: x\n\ndata: a\n\n", [("", "a")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), ("", "b")]),
        (b": comment\n\n:\ndata: a\n\n", [("", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("", "a")]),
        (b"data: a\r\rdata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (b"data: a\r\n\ndata: b\n\r\n", [("", "a"), ("", "b")]),
        (b"unknown: a\nDATA: b\ndata : c\n\n", []),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"", []),
    ],
)
def test_events_follow_the_standard_however_the_bytes_are_cut(stream: bytes, expected: list[tuple[str, str]]) -> None:
    assert pairs(stream) == expected == standard(stream)
    assert pairs(*(stream[at : at + 1] for at in range(len(stream)))) == expected
    for cut in range(len(stream)):
        assert pairs(stream[:cut], b"", stream[cut:]) == expected


@given(
    st.lists(
        st.sampled_from(
            [
                b"data",
                b"data:",
                b"event:",
                b"id:",
                b"retry:",
                b":",
                b" ",
                b"\n",
                b"\r",
                b"\r\n",
                b"\xef\xbb\xbf",
                "é🙂".encode(),
                b"\xff",
                b"x",
            ]
        )
    ),
    st.lists(st.integers(0, 60)),
)
def test_any_bytes_in_any_chunks_give_the_events_of_the_standard(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    assert pairs(*(stream[low:high] for low, high in pairwise(bounds))) == standard(stream)


def test_id_persists_and_retry_takes_digits_only() -> None:
    parser = SSEParser()
    events = parser.feed(b"id: 7\nretry: 1500\ndata: a\n\nretry: 1x\nid: bad\0\ndata: b\n\n")
    assert [event.id for event in events] == ["7", "7"]
    assert parser.retry_ms == 1500


def test_an_unfinished_event_is_dropped_and_said_to_be() -> None:
    for stream, clean in (
        (b"data: a\n\n", True),
        (b"data: a\n\n: note\n", True),
        (b"data: a\n", False),
        (b"data: a\n\ndat", False),
        (b"event: x\n", False),
    ):
        parser = SSEParser()
        parser.feed(stream)
        assert parser.close() is clean
        assert parser.close() is True


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 200, b"data: xxxxxxxxxx\n" * 20, b":" + b"x" * 200], ids=["line", "lines", "comment"]
)
def test_an_event_larger_than_the_bound_is_refused(stream: bytes) -> None:
    parser = SSEParser(max_event_bytes=100)
    with pytest.raises(EventTooLarge):
        for at in range(0, len(stream), 10):
            parser.feed(stream[at : at + 10])


def test_many_events_below_the_bound_are_not_refused() -> None:
    parser = SSEParser(max_event_bytes=100)
    assert sum(len(parser.feed(b"data: " + b"x" * 80 + b"\n\n")) for _ in range(50)) == 50
    assert sum(len(parser.feed(piece)) for _ in range(50) for piece in (b"data: " + b"x" * 40, b"x" * 40 + b"\n\n")) == 50


def test_recorded_raw_streams(cases: list[dict]) -> None:
    raw = [case for case in cases if case["kind"] == "stream_parsing" and case["input"].get("protocol") == "raw_sse"]
    assert raw
    for case in raw:
        expected = [(event["event"], event["data"]) for event in case["expected"]["events"]]
        stream = [base64.b64decode(chunk) for chunk in case["input"]["chunks_b64"]]
        assert pairs(*stream) == expected, case["id"]
        assert pairs(*(bytes([byte]) for byte in b"".join(stream))) == expected, case["id"]
