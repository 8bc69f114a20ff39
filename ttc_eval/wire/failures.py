"""What a reply that is not an answer means: its kind, whether to try again, and when. Pure functions.

The kinds are those of `CallFailed.kind`. A provider says what went wrong in three places that may disagree: the HTTP status, a type and
a code. A word that names one cause (`insufficient_quota`) outranks the status, since the status may be shared by causes that need
opposite reactions (429 is both "wait" and "pay"); the status outranks the catch-all words (DeepSeek sends 402 with
`invalid_request_error`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import orjson

from ttc_eval.errors import CallFailed
from ttc_eval.records import NOTHING_USED

MESSAGE_CHARS = 300

RETRYABLE = frozenset(
    {"rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete", "invalid_response"}
    | {"connect_timeout", "first_token_timeout", "idle_timeout", "total_timeout"}
)

_SPECIFIC = {
    "rate_limited": "rate_limit_exceeded rate_limit_error rate_limit ratelimiterror too_many_requests slow_down ramp_limit_exceeded",
    "overloaded": "overloaded_error overloaded server_is_overloaded engine_overloaded unavailable_error service_unavailable",
    "credit": "insufficient_quota credit_balance_exhausted billing_hard_limit_reached billing_error insufficient_balance payment_required"
    " contract_spend_limit_reached enforced_spend_limit_reached",  # 429s that no waiting helps
    "authentication": "invalid_api_key authentication_error authenticationerror permission_error permission_denied unauthorized"
    " organization_on_hold",
    "refused": "content_filter content_policy_violation content_policy bio_policy misalignment_policy_violation"
    " image_content_policy_violation",
    "model_not_found": "model_not_found",
    "context_full": "context_length_exceeded exceed_context_size_error",
    "timeout": "timeout timeout_error request_timeout",
}
_CATCH_ALL = {
    "invalid_request": "invalid_request_error badrequesterror bad_request not_found_error notfounderror"
    " invalid_prompt data_residency_mismatch",
    "server_error": "server_error api_error internal_error internal_server_error internalservererror",
}
_SPECIFIC_KIND = {word: kind for kind, words in _SPECIFIC.items() for word in words.split()}
_CATCH_ALL_KIND = {word: kind for kind, words in _CATCH_ALL.items() for word in words.split()}
_STATUS_KIND = {
    401: "authentication",
    402: "credit",
    403: "authentication",
    408: "timeout",
    409: "server_error",
    425: "server_error",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}
# The headers of what remains of a limit and of its reset, by limit.
_RESETS = (
    *((f"x-ratelimit-remaining{limit}", f"x-ratelimit-reset{limit}") for limit in ("-requests", "-tokens", "")),
    *(
        (f"anthropic-ratelimit-{limit}-remaining", f"anthropic-ratelimit-{limit}-reset")
        for limit in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
)
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|h|m|s|d)")
_UNIT_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def kind_of_status(status: int) -> str:
    """The kind that an HTTP status alone tells."""
    return _STATUS_KIND.get(status, "server_error" if status >= 500 else "invalid_request")


def kind_of(status: int, words: Iterable[object]) -> str:
    """The kind that a status and the words of an error object (its code, its type, in that order) tell together.

    `status` is 200 for an error inside a stream; then a number among `words` stands for the status.
    """
    known = [word.strip().lower() if isinstance(word, str) else word for word in words]
    for word in known:
        if word in _SPECIFIC_KIND:
            return _SPECIFIC_KIND[str(word)]
    if status >= 300:
        return kind_of_status(status)
    for word in known:
        code = int(word) if isinstance(word, str) and word.isascii() and word.isdigit() and len(word) == 3 else word
        if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600:
            return kind_of_status(code)
    return next((_CATCH_ALL_KIND[str(word)] for word in known if word in _CATCH_ALL_KIND), "server_error")


def describe(error: object) -> tuple[str, tuple[object, ...]]:
    """The message of an error object in any of the shapes servers send, and its words (code, type).

    Shapes: `{"error": {"message", "type", "code"}}`, `{"error": "text"}`, `{"message", "type", "code"}`, `{"detail": …}`, and a list
    of one of these.
    """
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict) and error.get("error") is not None:
        error = error["error"]
    if not isinstance(error, dict):
        return str(error), ()
    message = next((error[name] for name in ("message", "detail", "msg") if error.get(name)), error)
    details = error.get("details")
    # Anthropic names the cause in details.error_code, beside a type that several causes share.
    named = [details.get("error_code") if isinstance(details, dict) else None, *(error.get(name) for name in ("code", "type", "status"))]
    return str(message), tuple(word for word in named if isinstance(word, str | int))


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` fit for a message: secrets replaced, then white space collapsed, then cut to 300 characters, so that no half secret stays."""
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_CHARS else text[:MESSAGE_CHARS] + "…"


def failure_of_reply(status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str] = ()) -> CallFailed:
    """What a reply with an error status, or with no stream, amounts to. `now` is in Unix seconds; `secrets` never show in the message.

    Usage is known to be nothing for a request that was turned away (4xx but 408 and 409), and unknown otherwise.
    """
    try:
        error = orjson.loads(body)
    except orjson.JSONDecodeError:
        error = body.decode("utf-8", "replace")
    message, words = describe(error)
    kind = kind_of(status, words)
    retryable = kind in RETRYABLE
    advice = {name.lower(): value for name, value in headers.items()}.get("x-should-retry", "").lower()
    if advice in ("true", "false") and kind != "credit":
        retryable = advice == "true"
    return CallFailed(
        kind,
        f"HTTP {status}: {clean(message, secrets) or 'empty reply'}",
        retryable=retryable,
        retry_after=wait_asked(status, headers, now),
        usage=NOTHING_USED if 400 <= status < 500 and status not in (408, 409, 499) else None,
        http_status=status,
    )


def wait_asked(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Seconds a reply asks to wait: its Retry-After, or for a 429 without one the reset of the limit that is used up."""
    asked = retry_after(headers, now)
    return reset_after(headers, now) if asked is None and status == 429 else asked


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `retry-after-ms`, else by `retry-after` (seconds, or an HTTP date against `now`, Unix seconds).

    None when neither holds a usable value: NaN, infinity, a negative number, a date that has passed or anything else.
    """
    values = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(values.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = values.get("retry-after", "")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now)


def reset_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the limits that are used up are reset, by `x-ratelimit-reset-{requests,tokens}` (`1m30s`) and `x-ratelimit-reset`,
    and by `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-reset` (a moment by RFC 3339).

    A limit with something remaining does not count; the longest of the others does. The form without a name is a duration, seconds, or
    a moment in Unix seconds or milliseconds (OpenRouter). None when nothing usable is there.
    """
    values = {name.lower(): value.strip() for name, value in headers.items()}
    resets = [(values.get(remaining, "0"), values.get(reset, "")) for remaining, reset in _RESETS]
    waits = [_reset(reset, now) for remaining, reset in resets if remaining in ("0", "")]
    return max((wait for wait in waits if wait is not None), default=None)


def used_up_for(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until a limit that a reply says is used up (0 remaining) is reset; None when it says so of none.

    For replies that succeeded, where a limit that is not mentioned is not used up.
    """
    values = {name.lower(): value.strip() for name, value in headers.items()}
    waits = [_reset(values.get(reset, ""), now) for remaining, reset in _RESETS if values.get(remaining) == "0"]
    return max((wait for wait in waits if wait), default=None)


def duration(text: str) -> float | None:
    """Seconds in a duration such as `1m30s`, `6ms` or `2.5s`; None when `text` is not one."""
    total, end = 0.0, 0
    for match in _DURATION.finditer(text):
        if match.start() != end:
            return None
        total += float(match[1]) * _UNIT_S[match[2]]
        end = match.end()
    return total if end and end == len(text) and math.isfinite(total) else None


def _reset(text: str, now: float) -> float | None:
    number = _number(text)
    if number is None:
        return duration(text) if "T" not in text else _until_rfc3339(text, now)
    if number < 1e8:  # no moment of this century is as small, no wait as large
        return number
    moment = number / 1000 if number > 1e11 else number
    return moment - now if moment >= now else None


def _until_rfc3339(text: str, now: float) -> float | None:
    try:
        wait = datetime.fromisoformat(text).astimezone(UTC).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return wait if wait >= 0 else None


def _number(text: str) -> float | None:
    # float() also takes "nan", "inf", "1_0" and digits of other scripts
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _until(text: str, now: float) -> float | None:
    try:
        moment: datetime = parsedate_to_datetime(text)
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return wait if math.isfinite(wait) and wait >= 0 else None
