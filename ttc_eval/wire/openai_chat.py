"""Chat Completions, as OpenAI and the servers that follow it speak it. Pure: a request to JSON, events to a response.

What differs between servers is data, one `Dialect` each, in `dialects.py`. A mode of thinking that a dialect has no words for is refused
before anything is sent.

Usage (docs/design.md 3.2). `prompt_tokens` includes the cached part and `completion_tokens` includes reasoning, so both are taken as they
stand. Where a server counts reasoning beside the completion (xAI), `total_tokens` shows it, and reasoning is added to the output. Counts
that contradict each other (a part larger than its whole, a total that is neither sum, a negative or fractional count) are not repaired:
which of them is wrong is not known, so the usage is marked unknown and the provider's object is kept. Reasoning that was not reported
stays None.

A response needs a `finish_reason` and the `[DONE]` line. A stream that ends without them was cut, however cleanly it closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import orjson

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import JSON, UNKNOWN_USAGE, CallStop, Message, Request, Response, Timings, Usage, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.base import WireFormat
from ttc_eval.wire.dialects import BUDGET, DIALECTS, EFFORT, GENERIC, Dialect
from ttc_eval.wire.failures import RETRYABLE, clean, describe, failure_of_reply, kind_of
from ttc_eval.wire.logprobs import TokenLogprobs
from ttc_eval.wire.sse import Event
from ttc_eval.wire.think_tags import TagSplitter, ThinkTags

_MAX_COUNT = 2**53
_WRITTEN = frozenset({"model", "messages", "stream", "stream_options", "temperature", "top_p", "stop", "logprobs"})


_STOPS = {
    "stop": CallStop.END,
    "length": CallStop.MAX_TOKENS,
    "content_filter": CallStop.REFUSAL,
    "tool_calls": CallStop.TOOL_USE,
    "function_call": CallStop.TOOL_USE,
}
# Words that say that the server gave up: OpenRouter; vLLM and SGLang; DeepSeek.
_FAILED = {"error": "server_error", "abort": "server_error", "insufficient_system_resource": "overloaded"}


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Chat Completions in one dialect, as a `WireFormat`. `think_tags` splits thinking off that comes inside the content."""

    dialect: Dialect = GENERIC
    think_tags: ThinkTags | None = None

    @property
    def identity(self) -> str:
        """The dialect's name."""
        return self.dialect.name

    @property
    def continues(self) -> bool:
        """Whether the server continues a last assistant message."""
        return self.dialect.continues

    @property
    def keep_alive(self) -> bool:
        """Whether a connection can be used again after a stream."""
        return self.dialect.keep_alive

    def path(self, model: str) -> str:
        """The same for every model, which the body names."""
        return "/chat/completions"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The key as a bearer token."""
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """See `request_body`."""
        return request_body(request, self.dialect, support)

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """See the function of that name."""
        return what_was_sent(body)

    def stream(self, secrets: Iterable[str]) -> ChatStream:
        """A fresh `ChatStream`."""
        return ChatStream(self.dialect, secrets, self.think_tags)

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """See the function of that name."""
        return error(status, headers, body, now, secrets)


def with_options(wire: WireFormat, forms: Mapping[ThinkingMode, JSON], think_tags: ThinkTags | None) -> ChatFormat:
    """`wire` with some of its dialect's forms of thinking replaced, and tags to split thinking off by.

    Raises `UserError` when `wire` is not Chat Completions: the other formats have one way to ask and to answer.
    """
    if not isinstance(wire, ChatFormat):
        raise UserError(f"model.forms and model.think_tags belong to wire=openai_chat, not to {wire.identity!r}")
    return ChatFormat(replace(wire.dialect, forms={**wire.dialect.forms, **forms}), think_tags)


def request_body(request: Request, dialect: Dialect, support: ThinkingSupport | None = None) -> dict[str, Any]:
    """The JSON to post for `request`.

    The cap sent is `max_output_tokens`, or `answer_tokens` for a budget that `support` says is outside the provider's cap. A budget
    that is enforced here by continuing a prefix (`support.forced_by_prefix`) is not sent; the server is told not to think by itself.

    Args:
        support: what the model accepts; None takes the dialect alone, for a model that thinks within its cap.

    Raises `UserError` for a form of thinking or a prefix that the dialect cannot express, or a budget that leaves no room under the cap.
    """
    thinking = request.thinking
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _messages(request.messages, request.prefix, dialect),
        dialect.cap: _cap(request, support),
        "stream": True,
        **dialect.ask_usage,
    }
    sampling = request.sampling
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.logprobs is not None:
        body["logprobs"] = True
        body["top_logprobs"] = max(sampling.logprobs, dialect.min_top_logprobs)
    if dialect.seed is not None:
        body[dialect.seed] = request.sampling_seed
    if request.prefix:
        body |= dialect.continue_body
    return {**body, **thinking_fields(thinking, dialect, support), **dialect.extra}


def thinking_fields(thinking: Thinking, dialect: Dialect, support: ThinkingSupport | None = None) -> dict[str, Any]:
    """The fields that ask for `thinking` in this dialect. Raises `UserError` naming the forms that it can express."""
    mode = thinking.mode
    if mode is ThinkingMode.BUDGET and support is not None and support.forced_by_prefix:
        mode = ThinkingMode.OFF
    if mode is ThinkingMode.OFF and not dialect.off_for_all and support is not None and set(support.accepts) <= {ThinkingMode.OFF}:
        return {}  # a model that cannot think has no switch, and some endpoints refuse the field
    form = dialect.forms.get(mode)
    if form is None:
        able = ", ".join(known.value for known in dialect.forms)
        raise UserError(f"thinking={mode.value}: dialect {dialect.name!r} cannot express it; it can: {able}")
    if mode is ThinkingMode.ADAPTIVE and thinking.effort is not None:
        raise UserError(f"thinking.effort={thinking.effort}: dialect {dialect.name!r} has no effort beside 'adaptive'; use thinking=effort")
    return {name: _filled(value, thinking) for name, value in form.items()}


def what_was_sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a body that the user did not write in so many words, for the record: cap, budget, seed, switches."""
    return {name: value for name, value in body.items() if name not in _WRITTEN}


def usage(raw: object, dialect: Dialect = GENERIC) -> Usage:
    """A provider's usage object in our shape; see the module's text for the mapping and for what makes it unknown."""
    if not isinstance(raw, dict):
        return UNKNOWN_USAGE
    unknown = Usage(raw=raw)
    prompt, completion, total = raw.get("prompt_tokens"), raw.get("completion_tokens"), raw.get("total_tokens")
    reasoning, cached = _first(raw, dialect.reasoning_tokens), _first(raw, dialect.cached_tokens)
    written = _first(raw, (("prompt_tokens_details", "cache_write_tokens"),))
    if not (_is_count(prompt) and _is_count(completion)):
        return unknown
    if any(part is not None and not _is_count(part) for part in (total, reasoning, cached, written)):
        return unknown
    output = completion
    if reasoning and (dialect.reasoning_outside if total is None else total == prompt + completion + reasoning):
        output = completion + reasoning
    if total is not None and total != prompt + output:
        return unknown
    if (reasoning or 0) > output or (cached or 0) + (written or 0) > prompt:
        return unknown
    return Usage(prompt, output, cached, written, reasoning, UsageSource.PROVIDER, raw)


def error(status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str] = ()) -> CallFailed:
    """What a reply that is not a stream amounts to; `now` in Unix seconds, `secrets` are kept out of the message."""
    return failure_of_reply(status, headers, body, now, secrets)


class ChatStream:
    """Gathers the events of one stream into a response.

    Attributes:
        started: whether the model has begun to answer (a first token, or its end).
        done: whether the terminator has come; what comes after it does not count.
    """

    __slots__ = (
        "_detail",
        "_dialect",
        "_finish",
        "_id",
        "_logprobs",
        "_refusal",
        "_secrets",
        "_splitter",
        "_text",
        "_thinking",
        "_usage",
        "done",
        "started",
    )

    def __init__(self, dialect: Dialect = GENERIC, secrets: Iterable[str] = (), think_tags: ThinkTags | None = None) -> None:
        self.started = False
        self.done = False
        self._dialect = dialect
        self._secrets = secrets
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._splitter = None if think_tags is None else TagSplitter(think_tags)
        self._refusal: list[str] = []
        self._logprobs = TokenLogprobs()
        self._finish: str | None = None
        self._detail: object = None
        self._usage: Usage = UNKNOWN_USAGE
        self._id: str | None = None

    def feed(self, event: Event) -> None:
        """Take in one event. Raises `CallFailed`, with what had arrived, for an error event or one that is not of this format."""
        if self.done:
            return
        data = event.data
        if len(data) < 16 and data.strip() in (b"[DONE]", b""):
            self.done = data.strip() != b""
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise self.failure("invalid_response", f"an event that is not JSON: {_excerpt(data)}") from None
        if not isinstance(chunk, dict):
            raise self.failure("invalid_response", f"an event that is not an object: {_excerpt(data)}")
        if event.event == "error" or chunk.get("error"):
            message, words = describe(chunk)
            raise self.failure(kind_of(200, words), f"error inside the stream: {message}")
        choices = chunk.get("choices")
        if choices:
            self._choices(choices)
        raw = chunk.get("usage")
        if raw is not None:
            self._usage = usage(raw, self._dialect)  # a running total where there are several: the last counts
        if self._id is None and isinstance(chunk.get("id"), str):
            self._id = chunk["id"]

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The response, once the stream has ended. Raises `CallFailed` when it ended early or the server gave up."""
        finish = self._finish
        if finish is None or not self.done:
            missing = "its terminator [DONE]" if finish else "a finish_reason"
            raise self.failure("incomplete", f"the stream ended without {missing}")
        if finish in _FAILED:
            raise self.failure(_FAILED[finish], f"the server ended the stream with finish_reason {finish!r}")
        stop = _STOPS.get(finish, CallStop.OTHER)
        if stop is CallStop.END and isinstance(self._detail, str):
            stop = CallStop.STOP_SEQUENCE
        self._split(complete=stop in (CallStop.END, CallStop.STOP_SEQUENCE))
        blocks: tuple[JSON, ...] = ()
        if self._refusal:
            stop, blocks = CallStop.REFUSAL, ({"type": "refusal", "refusal": "".join(self._refusal)},)
        return Response(
            text="".join(self._text),
            stop=stop,
            usage=self._usage,
            timings=timings,
            thinking="".join(self._thinking) or None,
            stop_raw=finish,
            response_id=self._id,
            token_logprobs=self._logprobs.sampled,
            top_logprobs=self._logprobs.top,
            blocks=blocks,
            sent=sent,
        )

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed` that carries what had arrived. Its usage is known only when the model had already finished."""
        self._split(complete=False)
        return CallFailed(
            kind,
            clean(message, self._secrets),
            retryable=kind in RETRYABLE if retryable is None else retryable,
            usage=self._usage if self._finish is not None and self._usage.known else None,
            partial_text="".join(self._text),
            thinking_text="".join(self._thinking),
            http_status=200,
        )

    def _split(self, *, complete: bool) -> None:
        """Move what the splitter found to its places; it is done once."""
        if self._splitter is not None:
            self._splitter.end(complete=complete)
            self._thinking += self._splitter.thinking
            self._text += self._splitter.text
            self._splitter = None

    def _said(self, text: str) -> None:
        if self._splitter is None:
            self._text.append(text)
        else:
            self._splitter.feed(text)

    def _choices(self, choices: object) -> None:
        if not isinstance(choices, list):
            raise self.failure("invalid_response", "choices is not a list")
        for choice in choices:
            if not isinstance(choice, dict):
                raise self.failure("invalid_response", "a choice is not an object")
            if not choice.get("index"):  # only one choice is ever asked for
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta)
        elif delta is not None:
            raise self.failure("invalid_response", "a delta is not an object")
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            self._logprobs.add_openai(logprobs.get("content"))
        finish = choice.get("finish_reason")
        if finish is not None:
            self.started = True
            self._finish = str(finish)
            if self._dialect.stop_string is not None:
                self._detail = choice.get(self._dialect.stop_string)

    def _delta(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        if content:
            self.started = True
            if isinstance(content, str):
                self._said(content)
            else:
                self._parts(content)
        for name in self._dialect.reasoning:
            reasoning = delta.get(name)
            if reasoning:
                if not isinstance(reasoning, str):
                    raise self.failure("invalid_response", f"{name} is not text")
                self.started = True
                self._thinking.append(reasoning)
                break
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.started = True
            self._refusal.append(refusal)

    def _parts(self, parts: object) -> None:
        # Mistral: a list of text parts and thinking parts, the latter with text parts of their own.
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise self.failure("invalid_response", "content is neither text nor a list of parts")
        for part in parts:
            if isinstance(part.get("text"), str):
                self._said(part["text"])
            inner = part.get("thinking")
            if isinstance(inner, list):
                self._thinking.extend(item["text"] for item in inner if isinstance(item, dict) and isinstance(item.get("text"), str))
            elif isinstance(inner, str):
                self._thinking.append(inner)


def _messages(messages: tuple[Message, ...], prefix: str, dialect: Dialect) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = [{"role": message.role, "content": message.content} for message in messages]
    if not prefix:
        return sent
    if not dialect.continues:
        able = ", ".join(name for name, known in DIALECTS.items() if known.continues)
        raise UserError(f"dialect {dialect.name!r} cannot continue a given assistant text; these can: {able}")
    if sent and sent[-1]["role"] == "assistant":
        prefix = sent.pop()["content"] + prefix
    return [*sent, {"role": "assistant", "content": prefix, **dialect.continue_message}]


def _cap(request: Request, support: ThinkingSupport | None) -> int:
    budget = request.thinking.budget
    if budget is None or (support is not None and support.forced_by_prefix):
        return request.max_output_tokens
    if support is not None and not support.budget_inside_max_tokens:
        return request.answer_tokens
    if budget >= request.max_output_tokens:
        raise UserError(f"thinking.budget={budget}: it must be below the cap of all output, which is {request.max_output_tokens} tokens")
    return request.max_output_tokens


def _excerpt(data: bytes) -> str:
    # Longer than a message may be, so that a secret in it is seen whole and redacted.
    return data[:4096].decode("utf-8", "replace")


def _filled(value: Any, thinking: Thinking) -> Any:
    if value == BUDGET:
        return thinking.budget
    if value == EFFORT:
        return thinking.effort
    if isinstance(value, Mapping):
        return {name: _filled(inner, thinking) for name, inner in value.items()}
    return value


def _first(raw: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> Any:
    for path in paths:
        value: Any = raw
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _MAX_COUNT
