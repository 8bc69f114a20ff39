"""Google's Gemini API: a request to JSON, and how its replies are read. Pure.

How much a model thinks is `thinkingBudget` up to Gemini 2.5 (0 is off, -1 leaves it to the model) and `thinkingLevel` from Gemini 3 on;
a model takes one of them, and which one is data (`ThinkingSupport.accepts`). Thinking counts towards `maxOutputTokens`. The blocks of an
assistant's turn are the parts as they came, thought signatures included, and those of a user's turn are parts such as `functionResponse`.

Sources: the `google-genai` SDK 3.6 (`types.py`, `errors.py`), as of 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.failures import duration, failure_of_reply
from ttc_eval.wire.gemini_stream import GeminiStream

THOUGHTS = "thoughts"  # the word for `ThinkingSupport.display` that asks for summaries of the thinking
_WRITTEN_SAMPLING = frozenset({"temperature", "topP", "stopSequences", "responseLogprobs", "logprobs"})


@dataclass(frozen=True, slots=True)
class GeminiFormat:
    """The Gemini API, as a `WireFormat`."""

    @property
    def identity(self) -> str:
        """The format; it has no dialects."""
        return "gemini"

    @property
    def continues(self) -> bool:
        """A given assistant text cannot be continued."""
        return False

    @property
    def keep_alive(self) -> bool:
        """Whether a connection can be used again after a stream."""
        return True

    def path(self, model: str) -> str:
        """The model's own stream, in the form of events. A name with a collection (`tunedModels/x`) stands as it is."""
        name = quote(model if "/" in model else f"models/{model}", safe="/")
        return f"/{name}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The key in the header that this API has for it, never in the query."""
        return {} if key is None else {"x-goog-api-key": key}

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """See `request_body`."""
        return request_body(request, support)

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The cap, the seed and thinking as they were sent."""
        return {name: value for name, value in body["generationConfig"].items() if name not in _WRITTEN_SAMPLING}

    def stream(self, secrets: Iterable[str]) -> GeminiStream:
        """A fresh `GeminiStream`."""
        return GeminiStream(secrets)

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """See the function of that name."""
        return error(status, headers, body, now, secrets)


def request_body(request: Request, support: ThinkingSupport) -> dict[str, Any]:
    """The JSON to post for `request`; the model is named by the path.

    Raises `UserError` for what the API or the model would refuse: a form of thinking, a budget without room for an answer, a prefix, a
    system turn that is not at the start, a call of a function without its response.
    """
    support.check(request.thinking, request.model)
    if request.prefix:
        raise UserError("the Gemini API cannot continue a given assistant text; wire=openai_chat can, with a server that does")
    system, turns = _split(request.messages)
    _check_history(request.messages)
    config: dict[str, Any] = {
        "maxOutputTokens": _cap(request, support),
        "seed": request.sampling_seed,
        **_sampling_fields(request.sampling),
    }
    thinking = thinking_config(request.thinking, support)
    if thinking:
        config["thinkingConfig"] = thinking
    body: dict[str, Any] = {"contents": [_content(message) for message in turns], "generationConfig": config}
    if system:
        body["systemInstruction"] = {"parts": [{"text": message.content} for message in system]}
    if request.tools:
        body["tools"] = list(request.tools)
    return body


def thinking_config(thinking: Thinking, support: ThinkingSupport) -> dict[str, Any]:
    """The `thinkingConfig` that asks for `thinking`; empty when the field is to be left out. Raises `UserError` for a wrong word."""
    if support.display not in (None, THOUGHTS):
        raise UserError(f"thinking.display={support.display}: the Gemini API shows {THOUGHTS!r} (summaries), or nothing; give that or null")
    if thinking.mode is ThinkingMode.OFF:
        never = set(support.accepts) == {ThinkingMode.OFF}
        return {} if never or support.off_form == "omitted" else {"thinkingBudget": 0}
    shown: dict[str, Any] = {} if support.display is None else {"includeThoughts": True}
    if thinking.mode is ThinkingMode.BUDGET:
        return {"thinkingBudget": thinking.budget, **(shown if thinking.budget else {})}
    if thinking.mode is ThinkingMode.EFFORT:
        return {"thinkingLevel": str(thinking.effort).upper(), **shown}
    if thinking.effort is not None:
        raise UserError(f"thinking.effort={thinking.effort}: the Gemini API has no effort beside 'adaptive'; use thinking=effort")
    return {"thinkingBudget": -1, **shown}


def error(status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str] = ()) -> CallFailed:
    """What a reply that is not a stream amounts to; `now` in Unix seconds, `secrets` are kept out of the message.

    The wait that a 429 asks for stands in its `RetryInfo`, as a duration; a bad key comes as a 400 whose `ErrorInfo` says so.
    """
    failure = failure_of_reply(status, headers, body, now, secrets)
    details = _details(body)
    if failure.retry_after is None and failure.retryable:
        waits = [duration(text) for detail in details if isinstance(text := detail.get("retryDelay"), str)]
        failure.retry_after = max((wait for wait in waits if wait is not None), default=None)
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        failure.kind, failure.retryable = "authentication", False
    return failure


def _details(body: bytes) -> list[dict[str, Any]]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []
    value = value[0] if isinstance(value, list) and value else value
    found = value.get("error") if isinstance(value, dict) else None
    details = found.get("details") if isinstance(found, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


def _cap(request: Request, support: ThinkingSupport) -> int:
    budget = request.thinking.budget
    if budget is None:
        return request.max_output_tokens
    if not support.budget_inside_max_tokens:
        return request.answer_tokens
    if budget >= request.max_output_tokens:
        raise UserError(f"thinking.budget={budget}: it must be below the cap of all output, which is {request.max_output_tokens} tokens")
    return request.max_output_tokens


def _sampling_fields(sampling: Sampling) -> dict[str, Any]:
    fields: dict[str, Any] = {"temperature": sampling.temperature, "topP": sampling.top_p, "stopSequences": list(sampling.stop) or None}
    if sampling.logprobs is not None:
        # The chosen token's alone needs no number of others.
        fields |= {"responseLogprobs": True, "logprobs": sampling.logprobs or None}
    return {name: value for name, value in fields.items() if value is not None}


def _split(messages: tuple[Message, ...]) -> tuple[list[Message], list[Message]]:
    """The system turns at the start, and the turns after them."""
    start = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    late = next((place for place, message in enumerate(messages) if message.role == "system" and place > start), None)
    if late is not None:
        raise UserError(f"messages[{late}]: the Gemini API takes system text at the start of a conversation only")
    return list(messages[:start]), list(messages[start:])


def _content(message: Message) -> dict[str, Any]:
    parts: list[Any] = list(message.blocks) or [{"text": message.content}]
    return {"role": "model" if message.role == "assistant" else "user", "parts": parts}


def _check_history(messages: tuple[Message, ...]) -> None:
    """Raise `UserError` unless every turn that calls functions is followed by one with as many responses, and no other turn has any."""
    waiting, name = 0, ""
    for place, message in enumerate(messages):
        answers = sum("functionResponse" in part for part in message.blocks)
        if answers != waiting:
            where = name or f"messages[{place}]"
            raise UserError(
                f"{where}: {waiting} functionCall parts and {answers} functionResponse parts in the turn after; give one for each"
            )
        waiting = sum("functionCall" in part for part in message.blocks)
        name = f"messages[{place}]"
    if waiting:
        raise UserError(f"{name}: {waiting} functionCall parts and no turn after; give one functionResponse part for each")
