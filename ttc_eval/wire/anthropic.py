"""Anthropic's Messages API: a request to JSON, and how its replies are read. Pure.

What the API version changes is data, one `ApiVersion` each; what differs between models is data as well, in `ThinkingSupport`. A request
that the API would answer with a 400 is refused before it is sent, by the key that has to change: a budget below 1024 or without room for
an answer, a form of thinking that the model does not take, sampling that the version or thinking forbids, a history in which a tool's
result is missing or a thinking block has lost its signature. That no block of the history was dropped or changed is `ttc_eval.history`'s
part, which knows what was received.

Sources: the `anthropic` SDK 2.14 (`_constants.py`, `types/`), platform.claude.com/docs/en/api/versioning and …/build-with-claude/thinking,
as of 2026-11-30. There is no sampling seed and there are no log-probabilities in this API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.anthropic_stream import CUT_INPUT, MessagesStream
from ttc_eval.wire.failures import failure_of_reply

MIN_BUDGET = 1024  # tokens; the API's own bound
_MIN_TOP_P = 0.95  # the smallest top_p beside thinking
# A turn that the provider's own tools or a compaction interrupted goes back as it stands, and the model goes on with it.
_PAUSING = frozenset({"server_tool_use", "mcp_tool_use", "compaction"})
_WRITTEN = frozenset({"model", "messages", "system", "tools", "stream", "temperature", "top_p", "stop_sequences"})


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """One value of the header `anthropic-version`.

    Attributes:
        bearer: whether the key goes as `Authorization: Bearer`, as the SDK of that time sends it, or else as `x-api-key`.
        sampling: whether temperature and top_p are part of the request at all.
    """

    name: str
    bearer: bool
    sampling: bool


VERSIONS: Mapping[str, ApiVersion] = {
    version.name: version
    for version in (
        # The default: the version that Anthropic recommends, and the only one whose documents are kept up.
        ApiVersion("2026-10-21", bearer=True, sampling=False),
        # For sampling on the models that still take it (up to Claude 4.6), and for other servers that follow the older API.
        ApiVersion("2023-06-01", bearer=False, sampling=True),
    )
}
DEFAULT_VERSION = VERSIONS["2026-10-21"]


def version_named(name: str) -> ApiVersion:
    """The version of that name; `generic` is the default one. Raises `UserError` that lists the versions there are."""
    if name == "generic":
        return DEFAULT_VERSION
    if name not in VERSIONS:
        raise UserError(f"dialect={name}: the Messages API is spoken in these versions: {', '.join(VERSIONS)}")
    return VERSIONS[name]


@dataclass(frozen=True, slots=True)
class MessagesFormat:
    """The Messages API in one version, as a `WireFormat`."""

    version: ApiVersion = DEFAULT_VERSION

    @property
    def identity(self) -> str:
        """The format with its version."""
        return f"anthropic-{self.version.name}"

    @property
    def continues(self) -> bool:
        """Whether a given assistant text can be continued; which models do it is `ThinkingSupport.continues`."""
        return True

    @property
    def keep_alive(self) -> bool:
        """Whether a connection can be used again after a stream."""
        return True

    def path(self, model: str) -> str:
        """The same for every model, which the body names."""
        return "/messages"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The version, and the key in the header that it wants."""
        headers = {"anthropic-version": self.version.name}
        if key is not None:
            headers |= {"Authorization": f"Bearer {key}"} if self.version.bearer else {"x-api-key": key}
        return headers

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """See `request_body`."""
        return request_body(request, support, self.version)

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The cap, and thinking and effort as they were sent."""
        return {name: value for name, value in body.items() if name not in _WRITTEN}

    def stream(self, secrets: Iterable[str]) -> MessagesStream:
        """A fresh `MessagesStream`."""
        return MessagesStream(secrets)

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """What a reply that is not a stream amounts to; `now` in Unix seconds."""
        return failure_of_reply(status, headers, body, now, secrets)


def request_body(request: Request, support: ThinkingSupport, version: ApiVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """The JSON to post for `request`. `max_tokens` is `max_output_tokens`: thinking and answer share it.

    Raises `UserError` for what the API, this version of it or the model would refuse.
    """
    support.check(request.thinking, request.model)
    thinking = request.thinking
    if thinking.mode is ThinkingMode.BUDGET and support.forced_by_prefix:
        thinking = Thinking()
    fields = thinking_fields(thinking, support, request.max_output_tokens)
    sampling = request.sampling
    _check_sampling(sampling, version, thinking.mode)
    _check_history(request.messages)
    system, turns = _split(request.messages)
    if request.prefix or (request.messages and _is_prefill(request.messages[-1])):
        turns = _with_prefix(turns, request.prefix, request.model, thinking.mode, support)
    body: dict[str, Any] = {"model": request.model, "max_tokens": request.max_output_tokens, "stream": True, "messages": turns}
    if system:
        body["system"] = system
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.stop:
        body["stop_sequences"] = list(sampling.stop)
    return body | fields


def thinking_fields(thinking: Thinking, support: ThinkingSupport, max_tokens: int) -> dict[str, Any]:
    """The fields that ask for `thinking`: `thinking` and `output_config`.

    Effort goes with adaptive thinking. On a model that takes no adaptive thinking it stands alone, and then steers all of the output.

    Raises `UserError` for a budget below 1024 tokens or not below `max_tokens`.
    """
    mode, display = thinking.mode, {} if support.display is None else {"display": support.display}
    if mode is ThinkingMode.OFF:
        if support.off_form == "omitted" or set(support.accepts) <= {ThinkingMode.OFF}:
            return {}
        return {"thinking": {"type": support.off_form}}
    if mode is ThinkingMode.BUDGET:
        budget = thinking.budget or 0
        if budget < MIN_BUDGET:
            raise UserError(f"thinking.budget={budget}: the Messages API takes {MIN_BUDGET} tokens or more; thinking=off is for none")
        if budget >= max_tokens:
            raise UserError(
                f"thinking.budget={budget}: it must be below max_tokens, here {max_tokens}, which thinking and answer share; "
                "raise the cap (max_tokens is thinking.budget + answer_tokens)"
            )
        return {"thinking": {"type": "enabled", "budget_tokens": budget, **display}}
    effort = {} if thinking.effort is None else {"output_config": {"effort": thinking.effort}}
    if mode is ThinkingMode.EFFORT and ThinkingMode.ADAPTIVE not in support.accepts:
        return effort
    return {"thinking": {"type": "adaptive", **display}, **effort}


def _check_sampling(sampling: Sampling, version: ApiVersion, mode: ThinkingMode) -> None:
    settings = {"sampling.temperature": sampling.temperature, "sampling.top_p": sampling.top_p}
    given = {key: value for key, value in settings.items() if value is not None}
    if given and not version.sampling:
        raise UserError(
            f"{_named(given)}: anthropic-version {version.name} takes no sampling, whatever the value; set null, "
            "or for a model up to Claude 4.6 model.dialect=2023-06-01"
        )
    forbidden = {key: value for key, value in given.items() if not (value == 1 or (key == "sampling.top_p" and value >= _MIN_TOP_P))}
    if forbidden and mode is not ThinkingMode.OFF:
        raise UserError(f"{_named(forbidden)}: thinking allows temperature 1 and top_p from {_MIN_TOP_P} only; set null, or thinking=off")
    if sampling.temperature is not None and sampling.temperature > 1:
        raise UserError(f"sampling.temperature={sampling.temperature}: the Messages API takes 0 to 1")
    if sampling.logprobs is not None:
        raise UserError(f"sampling.logprobs={sampling.logprobs}: the Messages API gives no log-probabilities; set null")
    if any(not stop.strip() for stop in sampling.stop):
        raise UserError("sampling.stop: the Messages API takes no stop sequence of white space alone")


def _named(values: Mapping[str, object]) -> str:
    return " and ".join(f"{key}={value}" for key, value in values.items())


def _split(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and the turns."""
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for place, message in enumerate(messages):
        if message.role != "system":
            turns.append({"role": message.role, "content": [dict(block) for block in message.blocks] or message.content})
        elif turns:
            raise UserError(f"messages[{place}]: a system message after the first turn cannot be sent; put it before")
        else:
            system.append(message.content)
    return "\n\n".join(system), turns


def _is_prefill(last: Message) -> bool:
    return last.role == "assistant" and not any(block.get("type") in _PAUSING for block in last.blocks)


def _with_prefix(
    turns: list[dict[str, Any]], prefix: str, model: str, mode: ThinkingMode, support: ThinkingSupport
) -> list[dict[str, Any]]:
    """`turns` that end in assistant text for the model to continue."""
    if not support.continues:
        raise UserError(f"model {model!r} does not continue a given assistant text: the last turn must be the user's, with no prefix")
    if mode is not ThinkingMode.OFF:
        raise UserError(f"thinking={mode.value}: an assistant text cannot be continued with thinking; use thinking=off")
    if turns[-1]["role"] == "assistant":
        *turns, last = turns
        content = last["content"]
    else:
        content = ""
    if isinstance(content, str):
        content += prefix
        text = content
    else:
        content = [*content, {"type": "text", "text": prefix}] if prefix else content
        text = str(content[-1].get("text", ""))
    if text != text.rstrip():
        raise UserError("the assistant text to continue ends in white space, which the Messages API refuses; leave it out")
    return [*turns, {"role": "assistant", "content": content}]


def _check_history(messages: Sequence[Message]) -> None:
    """Raise `UserError` for a history that the API refuses whoever made it, naming the block by its place, index and type."""
    called: dict[str, str] = {}
    for place, message in enumerate(messages):
        results = [str(block.get("tool_use_id")) for block in message.blocks if block.get("type") == "tool_result"]
        first = [block.get("type") for block in message.blocks[: len(results)]]
        for identity, name in called.items():
            if message.role != "user" or identity not in results:
                raise UserError(f"{name} has no tool_result in the turn that follows; each call of a tool needs one")
        if results and (set(first) != {"tool_result"} or set(results) != set(called) or len(set(results)) < len(results)):
            wrong = next((f" ({identity!r} answers no call of the turn before)" for identity in results if identity not in called), "")
            raise UserError(f"messages[{place}]: tool_result blocks come first in their turn, one for each tool_use before it{wrong}")
        called = {}
        for index, block in enumerate(message.blocks):
            kind, name = block.get("type"), f"messages[{place}]: block {index} ({block.get('type')})"
            if kind == "thinking" and not block.get("signature"):
                raise UserError(f"{name} has no signature, so it cannot be sent back; it was cut, or comes from elsewhere")
            if CUT_INPUT in block:
                raise UserError(f"{name} was cut inside its input; raise answer_tokens, and ask again")
            if kind == "tool_use":
                called[str(block.get("id"))] = name
    for name in called.values():
        raise UserError(f"{name} has no tool_result in the turn that follows; each call of a tool needs one")
