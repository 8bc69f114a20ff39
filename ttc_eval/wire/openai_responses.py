"""OpenAI's Responses API: a request to JSON, and how its replies are read. Pure.

There is no token budget in this API: how much a model thinks is a level of effort, so a budget is refused. Nothing is kept at the
provider (`store: false`), and the reasoning of a model that thinks is asked for in encrypted form, so that a loop with tools can send it
back: the blocks of an assistant's turn are the output items as they came, and those of a user's turn are items such as
`function_call_output`. What the API would answer with a 400 because of such a history is refused before it is sent.

Sources: the `openai` SDK 3.57 (`types/responses/`, `types/shared/reasoning.py`), as of 2026-11-30. There is no sampling seed and there are
no stop sequences in this API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.failures import failure_of_reply
from ttc_eval.wire.openai_responses_stream import ResponsesStream

SUMMARIES = ("auto", "concise", "detailed")
_WRITTEN = frozenset({"model", "input", "tools", "stream", "temperature", "top_p"})


@dataclass(frozen=True, slots=True)
class ResponsesFormat:
    """The Responses API, as a `WireFormat`."""

    @property
    def identity(self) -> str:
        """The format; it has no dialects."""
        return "openai_responses"

    @property
    def continues(self) -> bool:
        """A given assistant text cannot be continued."""
        return False

    @property
    def keep_alive(self) -> bool:
        """Whether a connection can be used again after a stream."""
        return True

    def path(self, model: str) -> str:
        """The same for every model, which the body names."""
        return "/responses"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The key as a bearer token."""
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """See `request_body`."""
        return request_body(request, support)

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The cap, the effort as it was sent, and what is asked for beside the text."""
        return {name: value for name, value in body.items() if name not in _WRITTEN}

    def stream(self, secrets: Iterable[str]) -> ResponsesStream:
        """A fresh `ResponsesStream`."""
        return ResponsesStream(secrets)

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """What a reply that is not a stream amounts to; `now` in Unix seconds."""
        if status == 200 and _is_whole_response(body):
            return CallFailed(
                "invalid_response", "expected an event stream, got a whole response; check base_url", retryable=False, http_status=200
            )
        return failure_of_reply(status, headers, body, now, secrets)


def request_body(request: Request, support: ThinkingSupport) -> dict[str, Any]:
    """The JSON to post for `request`. `max_output_tokens` bounds reasoning and answer together.

    Raises `UserError` for what the API or the model would refuse: a budget, a prefix, stop sequences, a broken history.
    """
    support.check(request.thinking, request.model)
    if request.prefix:
        raise UserError("the Responses API cannot continue a given assistant text; wire=openai_chat can, with a server that does")
    sampling, thinks = request.sampling, set(support.accepts) != {ThinkingMode.OFF}
    if sampling.stop:
        raise UserError(f"sampling.stop={list(sampling.stop)}: the Responses API takes no stop sequences; wire=openai_chat does")
    _check_history(request.messages)
    include = ["reasoning.encrypted_content"] if thinks else []  # a model that cannot think answers 400 to it
    body: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
        "max_output_tokens": request.max_output_tokens,
        "store": False,
        "stream": True,
        **thinking_fields(request.thinking, support),
        **_sampling_fields(sampling),
    }
    if sampling.logprobs is not None:
        include.append("message.output_text.logprobs")
    if include:
        body["include"] = include
    if request.tools:
        body["tools"] = list(request.tools)
    return body


def thinking_fields(thinking: Thinking, support: ThinkingSupport) -> dict[str, Any]:
    """The fields that ask for `thinking`. Raises `UserError` naming the forms that the API has words for."""
    if support.display is not None and support.display not in SUMMARIES:
        raise UserError(f"thinking.display={support.display}: the Responses API shows summaries: {', '.join(SUMMARIES)}; or give null")
    if thinking.mode is ThinkingMode.OFF:
        if support.off_form == "omitted" or set(support.accepts) == {ThinkingMode.OFF}:
            return {}
        return {"reasoning": {"effort": "none"}}
    if thinking.mode is not ThinkingMode.EFFORT:
        what = f"{thinking.mode.value}={thinking.budget}" if thinking.budget is not None else thinking.mode.value
        levels = f" ({', '.join(support.efforts)})" if support.efforts else ""
        raise UserError(f"thinking={what}: the Responses API cannot express it; it takes: off, effort{levels}")
    summary = {} if support.display is None else {"summary": support.display}
    return {"reasoning": {"effort": thinking.effort, **summary}}


def _sampling_fields(sampling: Sampling) -> dict[str, Any]:
    fields = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_logprobs": sampling.logprobs}
    return {name: value for name, value in fields.items() if value is not None}


def _items(message: Message) -> list[Any]:
    if message.blocks:
        return list(message.blocks)
    return [{"role": message.role, "content": message.content}]


def _check_history(messages: tuple[Message, ...]) -> None:
    """Raise `UserError` for reasoning that cannot be sent back, and for calls and outputs that do not belong together."""
    called: dict[str, str] = {}
    for place, message in enumerate(messages):
        for index, item in enumerate(message.blocks):
            kind = str(item.get("type", "message"))
            name = f"messages[{place}]: item {index} ({kind})"
            if kind == "reasoning":
                if not item.get("encrypted_content"):
                    raise UserError(f"{name} has no encrypted_content, so it cannot be sent back; it was cut, or comes from elsewhere")
                if index + 1 == len(message.blocks):
                    raise UserError(f"{name} is not followed by the item that it led to; send the turn back as it came, or without it")
            if kind.endswith("_call") and isinstance(item.get("call_id"), str):
                called[item["call_id"]] = name
            if kind.endswith("_call_output") and called.pop(str(item.get("call_id")), None) is None:
                raise UserError(f"{name} answers {item.get('call_id')!r}, which no call before it has as its call_id")
        if message.role == "user" and called:
            raise UserError(f"{next(iter(called.values()))} has no output in the turn that follows; each call of a tool needs one")
    if called:
        raise UserError(f"{next(iter(called.values()))} has no output in a turn that follows; each call of a tool needs one")


def _is_whole_response(body: bytes) -> bool:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and value.get("error") is None
