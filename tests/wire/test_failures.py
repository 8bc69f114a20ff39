"""Kinds of failure, and how long a reply asks to wait."""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.wire.failures import RETRYABLE, clean, describe, duration, failure_of_reply, kind_of, reset_after, retry_after

NOW = parsedate_to_datetime("Mon, 30 Nov 2026 12:00:00 GMT").timestamp()


def test_recorded_waits(cases: list[dict]) -> None:
    seen = 0
    for case in (case for case in cases if case["kind"] == "rate_limit" and "status" in case["input"]):
        now = parsedate_to_datetime(case["input"]["now"]).timestamp()
        if "headers" in case["input"]:
            assert retry_after(case["input"]["headers"], now) == case["expected"]["wait_seconds"], case["id"]
        for value in case["input"].get("header_values", []):
            assert retry_after({"retry-after": value}, now) is None, case["id"]
        seen += 1
    assert seen


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "30"}, 30.0),
        ({"RETRY-AFTER-MS": "1500", "retry-after": "30"}, 1.5),
        ({"retry-after-ms": "nan", "retry-after": "30"}, 30.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1_0"}, None),
        ({"retry-after": "1e3"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:42 GMT"}, 42.0),
        ({"retry-after": "Monday, 30-Nov-26 12:00:42 GMT"}, 42.0),
        ({"retry-after": "Mon Nov 30 12:00:42 2026"}, 42.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:59:59 GMT"}, None),
        ({"retry-after": "Mon, 99 Nov 2026 12:00:42 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after(headers, NOW) == wait


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False, min_value=0, max_value=1e11))
def test_any_header_gives_a_finite_wait_or_none(first: str, second: str, now: float) -> None:
    for wait in (
        retry_after({"retry-after-ms": first, "retry-after": second}, now),
        reset_after({"x-ratelimit-reset-requests": first, "x-ratelimit-reset": second}, now),
    ):
        assert wait is None or (math.isfinite(wait) and wait >= 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m30s", 90.0),
        ("6ms", 0.006),
        ("2.5s", 2.5),
        ("1h0m1s", 3601.0),
        ("90", None),
        ("", None),
        ("1m 30s", None),
        ("-1s", None),
        ("1s!", None),
    ],
)
def test_duration(text: str, seconds: float | None) -> None:
    assert duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ratelimit-reset-requests": "1m30s"}, 90.0),
        ({"x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-tokens": "6ms"}, 0.006),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "2s"}, 2.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "1"}, None),
        ({"x-ratelimit-reset": str(int((NOW + 5) * 1000))}, 5.0),
        ({"x-ratelimit-reset": str(int(NOW + 5))}, 5.0),
        ({"x-ratelimit-reset": str(int(NOW - 5))}, None),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({}, None),
    ],
)
def test_reset_of_a_limit_that_is_used_up(headers: dict[str, str], wait: float | None) -> None:
    assert reset_after(headers, NOW) == (None if wait is None else pytest.approx(wait, abs=1e-3))


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, b'{"error":{"message":"bad","type":"invalid_request_error"}}', "invalid_request", False),
        (400, b'{"error":{"code":400,"type":"exceed_context_size_error","message":"too long"}}', "context_full", False),
        (400, b'{"error":{"code":"content_filter","message":"no"}}', "refused", False),
        (401, b'{"error":{"code":"invalid_api_key","type":"invalid_request_error"}}', "authentication", False),
        (402, b'{"error":{"type":"unknown_error","code":"invalid_request_error","message":"Insufficient Balance"}}', "credit", False),
        (404, b"<html>", "invalid_request", False),
        (408, b"", "timeout", True),
        (422, b'{"detail":[{"loc":["body"],"msg":"field required"}]}', "invalid_request", False),
        (429, b'{"error":{"code":"rate_limit_exceeded"}}', "rate_limited", True),
        (429, b'{"error":{"code":"insufficient_quota"}}', "credit", False),
        (429, b'{"error":{"code":"credit_balance_exhausted"}}', "credit", False),
        (500, b"", "server_error", True),
        (503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', "overloaded", True),
        (529, b"[]", "overloaded", True),
        (301, b"", "invalid_request", False),
        (200, b'{"error":{"message":"x","code":502}}', "server_error", True),
    ],
)
def test_kind_and_retry_of_a_reply(status: int, body: bytes, kind: str, retryable: bool) -> None:
    failure = failure_of_reply(status, {}, body, NOW)
    assert (failure.kind, failure.retryable, failure.http_status) == (kind, retryable, status)


def test_a_request_that_was_turned_away_used_nothing_and_other_failures_are_unknown() -> None:
    limited = failure_of_reply(429, {}, b"", NOW).usage
    assert limited is not None
    assert (limited.input_tokens, limited.output_tokens) == (0, 0)
    assert failure_of_reply(500, {}, b"", NOW).usage is None
    assert failure_of_reply(408, {}, b"", NOW).usage is None


def test_the_server_may_overrule_whether_to_retry_but_not_for_credit() -> None:
    assert failure_of_reply(500, {"X-Should-Retry": "false"}, b"", NOW).retryable is False
    assert failure_of_reply(400, {"x-should-retry": "true"}, b"", NOW).retryable is True
    assert failure_of_reply(429, {"x-should-retry": "true"}, b'{"error":{"code":"insufficient_quota"}}', NOW).retryable is False


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("overloaded_error",), "overloaded"),
        (("BadRequestError", 400), "invalid_request"),
        (("500", "InternalServerError"), "server_error"),
        ((429,), "rate_limited"),
        ((), "server_error"),
        (("new_word",), "server_error"),
    ],
)
def test_kind_of_an_error_inside_a_stream(words: tuple[object, ...], kind: str) -> None:
    assert kind_of(200, words) == kind


def test_messages_are_cut_after_redaction_so_that_no_half_of_a_secret_stays() -> None:
    secret = "sk-" + "a" * 40
    for padding in range(250, 310):
        assert "aaa" not in clean("x" * padding + secret, [secret])
    assert len(clean("y" * 1000)) == 301


@given(st.integers(100, 999), st.binary(), st.dictionaries(st.text(), st.text()))
def test_any_reply_gives_a_failure(status: int, body: bytes, headers: dict[str, str]) -> None:
    failure = failure_of_reply(status, headers, body, NOW)
    assert failure.kind
    assert len(str(failure)) < 330


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "detail"]), inner),
    )
)
def test_any_error_object_can_be_described(error: object) -> None:
    message, words = describe(error)
    assert isinstance(message, str)
    assert kind_of(200, words)
    assert "timeout" in RETRYABLE
