"""The schemas of TTC-v2 and the rules beside them; each violation names its field."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.protocol.schemas import (
    WAIT,
    Schema,
    answer_text,
    final_message_violation,
    is_exhausted,
    order_violation,
    request_violation,
    schema,
    thinking_text,
    violation,
)

FINAL = {
    "id": "r",
    "type": "message_stop",
    "model": "m",
    "stop_reason": "end_turn",
    "content": [{"type": "thinking", "text": "so"}, {"type": "text", "text": "4"}],
    "usage": {"input_tokens": 3, "output_tokens": 1, "thinking_tokens": 1, "cache_creation_input_tokens": 0},
}
REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "2+2?"}],
    "max_tokens": 8,
    "stream": True,
    "thinking": {"type": "enabled", "budget_tokens": 16},
}
SCORE = {"trace_id": "r", "candidate": "so", "score": 0.5, "rationale": "fine"}
ERROR = {
    "type": "error",
    "error": {"type": "invalid_request_error", "code": "budget_exceeded", "message": "too much", "param": "thinking.budget_tokens"},
}
VALID = {Schema.FINAL_MESSAGE: FINAL, Schema.REQUEST: REQUEST, Schema.VERIFIER_SCORE: SCORE, Schema.BUDGET_EXCEEDED_ERROR: ERROR}


def changed(value: dict[str, Any], path: str, new: Any = ...) -> dict[str, Any]:
    """`value` with the field at `path` replaced, or taken away."""
    out = copy.deepcopy(value)
    *parents, last = path.split(".")
    holder = out
    for name in parents:
        holder = holder[name]
    if new is ...:
        del holder[last]
    else:
        holder[last] = new
    return out


@pytest.mark.parametrize("name", list(Schema))
def test_each_schema_is_a_file_that_accepts_a_valid_object(name: Schema) -> None:
    assert schema(name)["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert violation(name, VALID[name]) is None


@pytest.mark.parametrize("name", list(Schema))
def test_every_required_field_is_missed_by_name(name: Schema) -> None:
    def paths(part: dict[str, Any], prefix: str = "") -> list[str]:
        found = [f"{prefix}{field}" for field in part.get("required", [])]
        for field, inner in part.get("properties", {}).items():
            found += paths(inner, f"{prefix}{field}.") if inner.get("type") == "object" else []
        return found

    for path in paths(dict(schema(name))):
        assert str(violation(name, changed(VALID[name], path))) == f"{path} must be given"


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        ("stream", False, "stream must be true"),
        ("stream", "true", "stream must be boolean"),
        ("max_tokens", 0, "max_tokens must be bigger than or equal to 1"),
        ("max_tokens", 1.5, "max_tokens must be integer"),
        ("thinking.budget_tokens", 0, "thinking.budget_tokens must be bigger than or equal to 1"),
        ("thinking.budget_tokens", True, "thinking.budget_tokens must be integer"),
        ("thinking.type", "adaptive", 'thinking.type must be "enabled"'),
        ("messages", ["hi"], "messages[0] must be object"),
        ("stop_sequences", [5], "stop_sequences[0] must be string"),
    ],
)
def test_a_wrong_request_names_its_field(path: str, new: Any, said: str) -> None:
    assert str(request_violation(changed(REQUEST, path, new))) == said


def test_a_request_without_thinking_is_an_ordinary_call() -> None:
    assert request_violation(changed(REQUEST, "thinking")) is None
    assert str(request_violation([])) == "the object must be object"


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        ("type", "message", 'type must be "message_stop"'),
        ("stop_reason", "stop", "stop_reason must be one of ['end_turn', 'max_tokens', 'stop_sequence', 'budget_exceeded']"),
        ("usage.input_tokens", -1, "usage.input_tokens must be bigger than or equal to 0"),
        ("usage.output_tokens", True, "usage.output_tokens must be integer"),
        ("usage.cache_creation_input_tokens", 4, "usage.cache_creation_input_tokens must be at most usage.input_tokens=3"),
        ("content", [{"type": "image", "text": ""}], "content[0].type must be one of ['thinking', 'text']"),
        ("content", [{"type": "text"}], "content[0].text must be given"),
        (
            "content",
            FINAL["content"] + [{"type": "thinking", "text": ""}],
            "content[2] must not be a thinking block: it follows a text block",
        ),
        ("stop_reason", "budget_exceeded", 'content[1].type must be "thinking"'),
        ("id", "", "id must be longer than or equal to 1 characters"),
    ],
)
def test_a_wrong_final_message_names_its_field(path: str, new: Any, said: str) -> None:
    assert str(final_message_violation(changed(FINAL, path, new))) == said


def test_the_content_may_be_left_out_and_whole_numbers_written_as_decimals() -> None:
    assert final_message_violation(changed(FINAL, "content")) is None
    assert final_message_violation(changed(FINAL, "usage.input_tokens", 3.0)) is None


def test_a_marker_means_the_same_as_the_stop_reason() -> None:
    thought, answer = {"type": "thinking", "text": f"so{WAIT}"}, {"type": "text", "text": "4"}
    assert is_exhausted("budget_exceeded", [])
    assert is_exhausted("stop_sequence", [thought])
    assert not is_exhausted("end_turn", [thought])
    assert not is_exhausted("stop_sequence", [thought, {"type": "thinking", "text": "more"}])
    assert not is_exhausted("stop_sequence", [{"type": "text", "text": WAIT}])
    message = changed(changed(FINAL, "stop_reason", "stop_sequence"), "content", [thought, answer])
    assert str(final_message_violation(message)).startswith("content[1] must not be a text block")


BLOCKS = st.lists(st.fixed_dictionaries({"type": st.sampled_from(["thinking", "text"]), "text": st.text(max_size=3)}), max_size=6)


@given(BLOCKS)
def test_thinking_comes_before_text_and_both_are_whole(blocks: list[dict[str, str]]) -> None:
    kinds = [block["type"] for block in blocks]
    assert (order_violation(blocks) is None) == (kinds == sorted(kinds, reverse=True))
    assert len(thinking_text(blocks)) + len(answer_text(blocks)) == sum(len(block["text"]) for block in blocks)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FINAL, *REQUEST, *SCORE, "error", "code"]), inner, max_size=5)
    ),
    max_leaves=15,
)


@given(JSON)
def test_any_json_is_judged_and_nothing_else_happens(value: Any) -> None:
    before = repr(value)
    judges: list[Callable[[object], object]] = [final_message_violation, request_violation]
    for judge in judges:
        judge(value)
    for name in Schema:
        violation(name, value)
    assert repr(value) == before
