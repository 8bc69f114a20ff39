"""The JSON Schemas of TTC-v2, and what its messages must hold that a schema cannot say.

One set of files serves the client, the server and the conformance suite. Where they differ from the published text, which contradicts
itself, docs/decisions/ttc-v2.md says how and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

import fastjsonschema
import orjson

# The token sequence by which a server that cannot set a stop reason marks the end of its thinking budget.
WAIT = "[WAIT]"


class Schema(StrEnum):
    """The four schemas, by the name of their file."""

    REQUEST = "request"
    FINAL_MESSAGE = "final_message"
    VERIFIER_SCORE = "verifier_score"
    BUDGET_EXCEEDED_ERROR = "budget_exceeded_error"


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with a value: the field (`usage.input_tokens`, `content[1].type`; empty for the whole) and how it must be."""

    field: str
    must: str

    def __str__(self) -> str:
        return f"{self.field or 'the object'} {self.must}"


@cache
def schema(name: Schema) -> Mapping[str, Any]:
    """A schema as it stands in its file."""
    text = files("ttc_eval.protocol").joinpath("schemas", f"{name.value}.json").read_bytes()
    loaded: dict[str, Any] = orjson.loads(text)
    return loaded


def violation(name: Schema, value: object) -> Violation | None:
    """The first thing in `value` that breaks the schema; None when it is valid."""
    try:
        _validator(name)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        return _told(error)
    return None


def request_violation(value: object) -> Violation | None:
    """The first thing in a request body that breaks its schema. A request without `thinking` is an ordinary call, and valid."""
    return violation(Schema.REQUEST, value)


def final_message_violation(value: object) -> Violation | None:
    """The first thing in a final message that breaks its schema, or a rule beside it.

    The rules: the tokens of the cache pass are part of the input; no thinking block follows a text block; after `[WAIT]`, which stands
    for `budget_exceeded`, there is no text.
    """
    broken = violation(Schema.FINAL_MESSAGE, value)
    if broken is not None or not isinstance(value, dict):
        return broken
    usage, content = value["usage"], value.get("content", [])
    if usage["cache_creation_input_tokens"] > usage["input_tokens"]:
        return Violation("usage.cache_creation_input_tokens", f"must be at most usage.input_tokens={usage['input_tokens']}")
    return order_violation(content) or _text_after_wait(value["stop_reason"], content)


def order_violation(content: Iterable[Mapping[str, Any]]) -> Violation | None:
    """The first thinking block after a text block: a response thinks, then answers."""
    answered = False
    for place, block in enumerate(content):
        if answered and block["type"] == "thinking":
            return Violation(f"content[{place}]", "must not be a thinking block: it follows a text block")
        answered = answered or block["type"] == "text"
    return None


def thinking_text(content: Iterable[Mapping[str, Any]]) -> str:
    """The complete, unmodified text of the thinking blocks, one after another with nothing between: a verifier's `candidate`."""
    return "".join(block["text"] for block in content if block["type"] == "thinking")


def answer_text(content: Iterable[Mapping[str, Any]]) -> str:
    """The text of the text blocks, one after another."""
    return "".join(block["text"] for block in content if block["type"] == "text")


def is_exhausted(stop_reason: str, content: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a response ended because its thinking budget was used up.

    That is `budget_exceeded`, or `stop_sequence` with `[WAIT]` at the end of the last thinking block. The answer is not looked at: there
    the characters are the model's own.
    """
    if stop_reason == "budget_exceeded":
        return True
    thoughts = [block["text"] for block in content if block["type"] == "thinking"]
    return stop_reason == "stop_sequence" and bool(thoughts) and thoughts[-1].endswith(WAIT)


def _text_after_wait(stop_reason: str, content: list[Mapping[str, Any]]) -> Violation | None:
    if not is_exhausted(stop_reason, content):
        return None
    place = next((place for place, block in enumerate(content) if block["type"] == "text"), None)
    return None if place is None else Violation(f"content[{place}]", f"must not be a text block: the thinking before it ended with {WAIT}")


@cache
def _validator(name: Schema) -> Callable[[object], object]:
    compiled: Callable[[object], object] = fastjsonschema.compile(dict(schema(name)), use_default=False)
    return compiled


def _told(error: fastjsonschema.JsonSchemaValueException) -> Violation:
    # The library's path starts with the name of the whole.
    path = list(error.path)[1:]
    if error.rule == "required":
        missing = next(name for name in error.rule_definition if name not in error.value)
        return Violation(_field([*path, missing]), "must be given")
    if error.rule == "const":
        return Violation(_field(path), f"must be {orjson.dumps(error.rule_definition).decode()}")
    return Violation(_field(path), error.message.removeprefix(error.name or "").strip() or "is not valid")


def _field(names: Iterable[str | int]) -> str:
    return "".join(f"[{name}]" if str(name).isdigit() else f".{name}" for name in names).removeprefix(".")
