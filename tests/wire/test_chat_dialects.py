"""The dialects by data: each server's switch, cap and seed, and what a config may say otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from ttc_eval.errors import UserError
from ttc_eval.models.http import HttpModel
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.dialects import DIALECTS
from ttc_eval.wire.openai_chat import ChatStream, request_body, usage
from ttc_eval.wire.sse import SSEParser

OFF, EFFORT, ADAPTIVE = Thinking(), Thinking(ThinkingMode.EFFORT, effort="high"), Thinking(ThinkingMode.ADAPTIVE)
BUDGET = Thinking(ThinkingMode.BUDGET, budget=64)
ALL = ThinkingSupport(accepts=tuple(ThinkingMode), efforts=("high",))


def request(thinking: Thinking = OFF, **changes: Any) -> Request:
    return Request("m", "e", (Message("user", "2+2?"),), thinking, Sampling(), 32, 96, **changes)


@pytest.mark.parametrize(
    ("name", "thinking", "fields"),
    [
        ("dashscope", OFF, {"enable_thinking": False}),
        ("dashscope", BUDGET, {"enable_thinking": True, "thinking_budget": 64}),
        ("dashscope", ADAPTIVE, {"enable_thinking": True}),
        ("mistral", OFF, {"reasoning_effort": "none"}),
        ("mistral", EFFORT, {"reasoning_effort": "high"}),
        ("ollama", OFF, {"reasoning": {"effort": "none"}}),
        ("ollama", EFFORT, {"reasoning": {"effort": "high"}}),
        ("fireworks_grammar", BUDGET, {"reasoning_effort": 64}),
        ("fireworks", BUDGET, {"thinking": {"type": "enabled", "budget_tokens": 64}}),
        ("together", ADAPTIVE, {"reasoning": {"enabled": True}}),
        ("xai", EFFORT, {"reasoning_effort": "high"}),
    ],
)
def test_each_server_is_asked_in_its_own_words(name: str, thinking: Thinking, fields: dict[str, Any]) -> None:
    body = request_body(request(thinking), DIALECTS[name], ALL)
    common = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "seed", "random_seed"}
    assert {key: value for key, value in body.items() if key not in common} == fields


def test_every_server_of_the_table_is_there() -> None:
    expected = "generic openai vllm sglang llama_cpp ollama deepseek dashscope openrouter together fireworks fireworks_grammar mistral xai"
    assert set(DIALECTS) == set(expected.split())


def test_mistral_gets_its_own_names_and_no_unknown_field() -> None:
    body = request_body(request(), DIALECTS["mistral"], ALL)
    assert body["random_seed"] == request().sampling_seed
    assert not {"seed", "stream_options"} & body.keys()


def test_mistrals_parts_and_ollamas_reasoning_are_read() -> None:
    stream, parser = ChatStream(DIALECTS["mistral"]), SSEParser()
    parts = b'[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"4"}]'
    for event in parser.feed(b'data: {"choices":[{"index":0,"delta":{"content":' + parts + b"}}]}\n\n"):
        stream.feed(event)
    failure = stream.failure("incomplete", "x")
    assert (failure.thinking_text, failure.partial_text) == ("hm", "4")
    for name in ("reasoning", "reasoning_content"):
        stream = ChatStream(DIALECTS["ollama"])
        for event in SSEParser().feed(b'data: {"choices":[{"index":0,"delta":{"%s":"hm"}}]}\n\n' % name.encode()):
            stream.feed(event)
        assert stream.failure("incomplete", "x").thinking_text == "hm"


def test_recorded_shared_usage_is_one_rows(cases: list[dict]) -> None:
    # One request, several choices: the usage is that of the call, taken once.
    case = next(case for case in cases if case["id"] == "usage_cost-17")
    found = usage(case["input"]["usage"])
    assert (found.input_tokens, found.output_tokens) == (case["expected"]["input_tokens"], case["expected"]["output_tokens"])


# What a config may say


def model(**fields: Any) -> HttpModel:
    return HttpModel(**{"name": "n", "base_url": "http://h/v1", "model": "m", "dialect": "vllm", "thinking": ALL, **fields})


def test_a_form_replaces_the_dialects_and_is_filled_in() -> None:
    changed = model(forms={ThinkingMode.BUDGET: {"reasoning": {"limit": "{budget}"}}})
    body = changed.body(request(BUDGET))
    assert body["reasoning"] == {"limit": 64}
    assert "thinking_token_budget" not in body
    assert changed.body(request(OFF)) == model().body(request(OFF))
    assert changed.info.endpoint != model().info.endpoint, "another request, another draw"


def test_extra_fields_are_added_inside_of_objects_too_and_make_another_endpoint() -> None:
    extra = model(extra_body={"top_k": 20, "chat_template_kwargs": {"language": "en"}})
    body = extra.body(request(BUDGET))
    assert body["top_k"] == 20
    assert body["chat_template_kwargs"] == {"enable_thinking": True, "language": "en"}
    endpoints = {one.info.endpoint for one in (extra, model(), model(extra_body={"top_k": 21}), model(think_tags=_tags()))}
    assert len(endpoints) == 4
    assert model(extra_body={"b": 1, "a": {"c": 2}}).info.endpoint == model(extra_body={"a": {"c": 2}, "b": 1}).info.endpoint


def _tags() -> Any:
    from ttc_eval.wire.think_tags import ThinkTags

    return ThinkTags()


@pytest.mark.parametrize("field", ["messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "n"])
def test_extra_fields_never_replace_what_is_paid_for(field: str) -> None:
    with pytest.raises(UserError, match=rf"extra_body\.{field}"):
        model(extra_body={field: 1})


def test_extra_fields_that_meet_the_thinking_are_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"extra_body\.chat_template_kwargs\.enable_thinking"):
        model(extra_body={"chat_template_kwargs": {"enable_thinking": True}}).body(request(OFF))
    with pytest.raises(UserError, match=r"extra_body\.thinking_token_budget"):
        model(extra_body={"thinking_token_budget": 5}).body(request(BUDGET))


def test_the_options_of_chat_are_refused_elsewhere() -> None:
    with pytest.raises(UserError, match="openai_chat"):
        model(wire="openai_responses", dialect="generic", think_tags=_tags())


def test_a_header_that_cannot_be_sent_is_refused_without_its_value() -> None:
    for headers in ({"x-key": "planted\nsecret"}, {"x key": "planted"}, {"x-key": "plantedé"}):
        with pytest.raises(UserError) as refusal:
            model(headers=headers)
        assert "planted" not in str(refusal.value)
