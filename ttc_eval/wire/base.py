"""The seam of a wire format: pure translation between our records and one provider's JSON and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ttc_eval.errors import CallFailed
from ttc_eval.records import JSON, Request, Response, Timings
from ttc_eval.thinking import ThinkingSupport
from ttc_eval.wire.sse import Event


class Stream(Protocol):
    """Gathers the events of one stream into a response."""

    @property
    def started(self) -> bool:
        """Whether the model has begun to answer: a first token, or its end."""
        ...

    @property
    def done(self) -> bool:
        """Whether the terminator has come; what comes after it does not count."""
        ...

    def feed(self, event: Event) -> None:
        """Take in one event. Raises `CallFailed`, with what had arrived, for an error event or one not of this format."""
        ...

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The response, once the stream has ended. Raises `CallFailed` when it ended early or the server gave up."""
        ...

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed` that carries what had arrived."""
        ...


class WireFormat(Protocol):
    """One provider's API: how a request is written and how its events are read. No I/O.

    One with `whole_body = True` gets its reply as one JSON body instead of a stream, in pieces as they come.

    Attributes:
        identity: name of the format with its dialect, part of the endpoint's identity in every draw's address.
        continues: whether the server continues a given assistant text.
        keep_alive: whether a connection can be used again after a stream.
    """

    @property
    def identity(self) -> str: ...

    @property
    def continues(self) -> bool: ...

    @property
    def keep_alive(self) -> bool: ...

    def path(self, model: str) -> str:
        """What follows the base URL, for the model of that name; it may hold a query."""
        ...

    def headers(self, key: str | None) -> Mapping[str, str]:
        """Headers that every request carries: the key where this format wants it, and the version."""
        ...

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """The JSON to post. Raises `UserError` for what this format cannot express."""
        ...

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a body that the user did not write in so many words, for the record."""
        ...

    def stream(self, secrets: Iterable[str]) -> Stream:
        """A fresh reader of one reply's events; `secrets` are kept out of its messages."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """What a reply that is not a stream amounts to; `now` in Unix seconds."""
        ...
