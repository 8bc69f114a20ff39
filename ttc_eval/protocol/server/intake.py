"""From the body of a request to what is asked of the model, or a refusal that names the field. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from ttc_eval.errors import UserError
from ttc_eval.protocol.schemas import request_violation
from ttc_eval.protocol.server.refusals import Refusal, Refused, budget_too_large, invalid
from ttc_eval.protocol.server.service import Service
from ttc_eval.records import Message, Sampling

_ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {"system": "system", "user": "user", "assistant": "assistant"}
_MOST_TOKENS = 2**31 - 1
_MOST_STOPS = 16
_REQUIRED = ("model", "messages", "max_tokens", "stream")
# Fields that have no bearing on the answer are let pass; any other field that is not honoured is refused.
_IGNORED = ("metadata", "stream_options", "user")
_KNOWN = (*_REQUIRED, "stop_sequences", "thinking", "system", "temperature", "top_p", "seed", *_IGNORED)


@dataclass(frozen=True, slots=True)
class Call:
    """What one request asks for. `budget` is None for an ordinary call; `seed` is None when the server chooses."""

    messages: tuple[Message, ...]
    max_tokens: int
    budget: int | None
    stops: tuple[str, ...]
    sampling: Sampling
    seed: int | None


def read(body: bytes, service: Service) -> Call:
    """The call that a body asks for. Raises `Refused` for the first thing that is wrong, naming the field."""
    given = _object(body)
    for name in _REQUIRED:
        if name not in given:
            raise invalid(name, f"{name} is missing.", "missing_field")
    thinking = given.get("thinking")
    if isinstance(thinking, dict):
        for name in ("type", "budget_tokens"):
            if name not in thinking:
                raise invalid(f"thinking.{name}", f"thinking.{name} is missing.", "missing_field")
    broken = request_violation(given)
    if broken is not None:
        raise invalid(broken.field or None, f"{broken}.")
    unknown = sorted(set(given) - set(_KNOWN))
    if unknown:
        raise invalid(unknown[0], f"{unknown[0]} is not a field that this server honours; it knows: {', '.join(_KNOWN)}.", "unknown_field")
    if given["model"] != service.info.name:
        message = f"There is no model {given['model']!r} here; this server has {service.info.name!r}."
        raise Refused(Refusal(404, "not_found_error", "model_not_found", message, "model"))
    return Call(
        messages=_messages(given),
        max_tokens=_tokens(given["max_tokens"], "max_tokens"),
        budget=None if thinking is None else _budget(thinking["budget_tokens"], service),
        stops=_stops(given.get("stop_sequences", [])),
        sampling=_sampling(given, service.sampling),
        seed=_seed(given.get("seed")),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(None, f"The body is not JSON: {error}.", "invalid_json") from None
    if not isinstance(given, dict):
        raise invalid(None, "The body is not a JSON object.", "invalid_json")
    return given


def _tokens(value: int | float, name: str) -> int:
    # JSON Schema takes 8.0 for a whole number.
    if value > _MOST_TOKENS:
        raise invalid(name, f"{name} is larger than {_MOST_TOKENS}.")
    return int(value)


def _budget(value: int | float, service: Service) -> int:
    support, name = service.info.thinking, "thinking.budget_tokens"
    if not service.thinks:
        message = f"Model {service.info.name!r} takes no thinking budget; leave thinking out for an ordinary call."
        raise invalid("thinking", message, "thinking_not_supported")
    most = service.most
    if value > (_MOST_TOKENS if most is None else most):
        raise budget_too_large(int(value), _MOST_TOKENS if most is None else most)
    if value < support.min_budget:
        raise invalid(name, f"{name} is {int(value)}; model {service.info.name!r} takes {support.min_budget} or more.")
    return int(value)


def _messages(given: dict[str, Any]) -> tuple[Message, ...]:
    messages = [_message(entry, f"messages[{place}]") for place, entry in enumerate(given["messages"])]
    if not any(message.role == "user" for message in messages):
        raise invalid("messages", "messages holds no message of role user.")
    system = given.get("system")
    if system is None:
        return tuple(messages)
    return (Message("system", _content(system, "system")), *messages)


def _message(entry: dict[str, Any], where: str) -> Message:
    role = _ROLES.get(str(entry.get("role")))
    if role is None:
        raise invalid(f"{where}.role", f"{where}.role must be one of {', '.join(_ROLES)}.")
    if "content" not in entry:
        raise invalid(f"{where}.content", f"{where}.content is missing.", "missing_field")
    return Message(role, _content(entry["content"], f"{where}.content"))


def _content(value: object, where: str) -> str:
    """The text of a message: a string, or the text blocks of a list. Thinking of earlier turns is not repeated to the model."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise invalid(where, f"{where} must be text or a list of content blocks.")
    texts = []
    for place, block in enumerate(value):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in ("text", "thinking"):
            raise invalid(f"{where}[{place}].type", f"{where}[{place}].type must be text or thinking.")
        if kind == "text":
            if not isinstance(block.get("text"), str):
                raise invalid(f"{where}[{place}].text", f"{where}[{place}].text must be text.")
            texts.append(block["text"])
    return "".join(texts)


def _stops(value: list[str]) -> tuple[str, ...]:
    if len(value) > _MOST_STOPS:
        raise invalid("stop_sequences", f"stop_sequences holds more than {_MOST_STOPS}.")
    for place, stop in enumerate(value):
        if not stop:
            raise invalid(f"stop_sequences[{place}]", f"stop_sequences[{place}] is empty.")
    return tuple(dict.fromkeys(value))


def _sampling(given: dict[str, Any], default: Sampling) -> Sampling:
    sampling = Sampling(default.temperature, default.top_p)
    for name in ("temperature", "top_p"):
        value = given.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(name, f"{name} must be a number.")
        try:
            sampling = replace(sampling, temperature=float(value)) if name == "temperature" else replace(sampling, top_p=float(value))
        except (UserError, OverflowError):
            raise invalid(name, f"{name} is {value}: it is out of range.") from None
    return sampling


def _seed(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise invalid("seed", "seed must be a whole number, 0 or more.")
    return value
