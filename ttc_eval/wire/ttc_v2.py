"""TTC-v2: a thinking budget that the server enforces, apart from the room for the answer. Pure: a request to JSON, events to a response.

The protocol, both its surfaces and what its text leaves open are in docs/ttc-v2.md. A response that breaks the protocol is refused with
the name of the field and is not sent again: the server would break it again, and every attempt is billed.

Usage (docs/design.md 3.2). `output_tokens` there counts the text only, so our output is `output_tokens + thinking_tokens`, of which
`thinking_tokens` are reasoning; the tokens of the cache pass are the part of the input that was written to a cache. Counts that
contradict each other, or that deny tokens to text that came, leave the usage unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.protocol.schemas import Schema, violation
from ttc_eval.records import NOTHING_USED, UNKNOWN_USAGE, Message, Request, Usage, UsageSource
from ttc_eval.thinking import ThinkingMode, ThinkingSupport
from ttc_eval.wire.failures import clean, failure_of_reply
from ttc_eval.wire.ttc_v2_stream import TTCStream

BUDGET_REFUSED = "budget_refused"

_WRITTEN = frozenset({"model", "messages", "stream", "temperature", "top_p", "stop_sequences"})
_MAX_COUNT = 2**53


class Surface(StrEnum):
    """Where requests go, and whose base protocol they follow. Replies are understood in either form on both."""

    MESSAGES = "messages"
    CHAT = "chat"


_PATHS = {Surface.MESSAGES: "/messages", Surface.CHAT: "/chat/completions"}


def surface_named(dialect: str) -> Surface:
    """The surface of that name; `generic`, the default of every model, is `messages`. Raises `UserError` that lists the names there are."""
    if dialect == "generic":
        return Surface.MESSAGES
    if dialect not in tuple(Surface):
        raise UserError(f"dialect={dialect}: ttc_v2 has the surfaces: {', '.join(Surface)}")
    return Surface(dialect)


@dataclass(frozen=True, slots=True)
class TTCFormat:
    """TTC-v2 on one of its surfaces, as a `WireFormat`."""

    surface: Surface = Surface.MESSAGES

    @property
    def identity(self) -> str:
        """The protocol with its surface."""
        return f"ttc_v2-{self.surface.value}"

    @property
    def continues(self) -> bool:
        """The protocol has no way to continue a given text."""
        return False

    @property
    def keep_alive(self) -> bool:
        """A stream ends with its final message, and the connection can be used again."""
        return True

    def path(self, model: str) -> str:
        """The surface's own path."""
        return _PATHS[self.surface]

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The key as a bearer token; the protocol says nothing of keys."""
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """See `request_body`."""
        return request_body(request, self.surface)

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a body that the user did not write in so many words, for the record: cap, budget, seed."""
        return {name: value for name, value in body.items() if name not in _WRITTEN}

    def stream(self, secrets: Iterable[str]) -> TTCStream:
        """A fresh `TTCStream`."""
        return TTCStream(usage, secrets)

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """See the function of that name."""
        return error(status, headers, body, now, secrets)


def request_body(request: Request, surface: Surface = Surface.MESSAGES) -> dict[str, Any]:
    """The JSON to post for `request`.

    `max_tokens` is the room for the answer alone, at most what the request's cap leaves beside the budget. Without thinking, or with a
    budget of 0, there is no `thinking` object. The seed goes to the chat surface only, whose base protocol has one.

    Raises `UserError` for what the protocol cannot express: effort, adaptive thinking, a prefix, log-probabilities, tools, and a cap that
    leaves no room for an answer.
    """
    thinking, sampling = request.thinking, request.sampling
    if thinking.mode not in (ThinkingMode.OFF, ThinkingMode.BUDGET):
        raise UserError(f"thinking={thinking.mode.value}: TTC-v2 cannot express it; it can: off, budget")
    for name, given in (("prefix", request.prefix), ("sampling.logprobs", sampling.logprobs), ("tools", request.tools)):
        if given:
            raise UserError(f"{name}: TTC-v2 has no such thing; leave it out, or use another wire format")
    budget = thinking.budget or 0
    room = min(request.answer_tokens, request.max_output_tokens - budget)
    if room < 1:
        raise UserError(f"thinking.budget={budget}: it must be below the cap of all output, which is {request.max_output_tokens} tokens")
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message) for message in request.messages],
        "max_tokens": room,
        "stream": True,
    }
    if budget:
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    if sampling.stop:
        body["stop_sequences"] = list(sampling.stop)
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if surface is Surface.CHAT:
        body["seed"] = request.sampling_seed
    return body


def usage(raw: object) -> Usage:
    """A TTC-v2 usage object in our shape; see the module's text for the mapping and for what makes it unknown."""
    if not isinstance(raw, dict):
        return UNKNOWN_USAGE
    counts = [_count(raw.get(name)) for name in ("input_tokens", "output_tokens", "thinking_tokens", "cache_creation_input_tokens")]
    given, text, thinking, cache = counts
    if given is None or text is None or thinking is None or cache is None or cache > given:
        return Usage(raw=raw)
    return Usage(given, text + thinking, None, cache, thinking, UsageSource.PROVIDER, raw)


def error(status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str] = ()) -> CallFailed:
    """What a reply that is not a stream amounts to; `now` in Unix seconds, `secrets` are kept out of the message.

    A 400 with the protocol's own error object refuses the budget: it is above the server's maximum, since a budget that was *used up*
    is told in the stream and this client never asks for anything but a stream. Its kind is `budget_refused`; nothing was used.
    """
    if status == 400:
        try:
            told = orjson.loads(body)
        except orjson.JSONDecodeError:
            told = None
        if told is not None and violation(Schema.BUDGET_EXCEEDED_ERROR, told) is None:
            message = f"the server refuses this thinking budget (HTTP 400): {clean(told['error']['message'], secrets)}"
            return CallFailed(BUDGET_REFUSED, message, retryable=False, usage=NOTHING_USED, http_status=400)
    return failure_of_reply(status, headers, body, now, secrets)


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": list(message.blocks) if message.blocks else message.content}


def _count(value: object) -> int | None:
    # JSON has one kind of number: 12.0 is a whole one.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        return None
    return value
