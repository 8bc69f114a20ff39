"""What the server says instead of an answer: one error object, whatever went wrong. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttc_eval.errors import CallFailed


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as the client sees it: an HTTP reply, or an event once the stream has begun.

    Attributes:
        status: of the HTTP reply; type: the category; code: the precise cause; message: for a reader.
        param: the field of the request that is to blame, for example `thinking.budget_tokens`; None when there is none.
        headers: of the HTTP reply.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    def body(self) -> dict[str, Any]:
        """The error object, in the shape that TTC-v2 gives for `budget_exceeded`."""
        error = {"type": self.type, "code": self.code, "message": self.message, "param": self.param}
        return {"type": "error", "error": error}


class Refused(Exception):
    """A request is not answered; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def invalid(param: str | None, message: str, code: str = "invalid_value") -> Refused:
    """A field of the request does not hold what it must."""
    return Refused(Refusal(400, "invalid_request_error", code, message, param))


def budget_too_large(budget: int, most: int) -> Refused:
    """A budget above the server's maximum, as the protocol's own error object."""
    message = f"thinking.budget_tokens is {budget}; this server allows {most} at most."
    return invalid("thinking.budget_tokens", message, "budget_exceeded")


def busy(in_flight: int) -> Refusal:
    """All places are taken."""
    message = f"{in_flight} requests are being answered, which is as many as this server takes at once; try again."
    return Refusal(429, "rate_limit_error", "too_many_requests", message, headers={"Retry-After": "1"})


SHUTTING_DOWN = Refusal(503, "overloaded_error", "shutting_down", "This server is shutting down.", headers={"Retry-After": "5"})
UNAUTHORIZED = Refusal(
    401, "authentication_error", "invalid_token", "Send the token as Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"}
)
DEFECT = Refusal(500, "api_error", "internal_error", "The server failed to answer; its log tells more.")
USAGE_UNKNOWN = Refusal(
    502, "api_error", "usage_unknown", "The model did not report its token counts, and the protocol leaves no way to say that."
)

# The model's own failures by kind, as status, type and code. What is not listed is the model's fault and not described:
# its words may tell what is behind this server.
_FAILURES: Mapping[str, tuple[int, str, str]] = {
    "rate_limited": (429, "rate_limit_error", "model_rate_limited"),
    "overloaded": (503, "overloaded_error", "model_overloaded"),
    "refused": (400, "invalid_request_error", "refused"),
}
_OF_THE_MESSAGES = ("invalid_request", "context_full")


def of_failure(failure: CallFailed) -> Refusal:
    """What a failed call of the model amounts to for the client."""
    if failure.kind in _OF_THE_MESSAGES:
        return Refusal(400, "invalid_request_error", failure.kind, str(failure), "messages")
    if failure.kind.endswith("timeout"):
        return Refusal(504, "timeout_error", "model_timeout", "The model took too long.")
    status, kind, code = _FAILURES.get(failure.kind, (502, "api_error", "model_failed"))
    wait = {} if failure.retry_after is None else {"Retry-After": str(max(1, round(failure.retry_after)))}
    return Refusal(status, kind, code, f"The model behind this server failed: {failure.kind}.", headers=wait)


def out_of_time(seconds: float) -> Refusal:
    """The time that one request may take is used up."""
    return Refusal(504, "timeout_error", "request_timeout", f"The request was not finished within {seconds:g} seconds.")


def too_large(limit: int) -> Refusal:
    """The body of the request is larger than the server takes."""
    return Refusal(413, "invalid_request_error", "body_too_large", f"The body is larger than {limit} bytes.")
