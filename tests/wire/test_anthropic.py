"""The Messages API: what is sent, and what is refused before it is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ttc_eval.errors import UserError
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.config import parse
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.wire.anthropic import VERSIONS, MessagesFormat, request_body, version_named
from ttc_eval.wire.formats import format_named

OLD, NEW = VERSIONS["2023-06-01"], VERSIONS["2026-10-21"]
OFF, ADAPTIVE = Thinking(), Thinking(ThinkingMode.ADAPTIVE)
BUDGETED = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), min_budget=1024)
EFFORTS = ("low", "medium", "high")
STEERED = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.EFFORT, ThinkingMode.ADAPTIVE), efforts=EFFORTS, continues=False)
ALWAYS = replace(STEERED, accepts=(ThinkingMode.EFFORT, ThinkingMode.ADAPTIVE))


def budget(tokens: int) -> Thinking:
    return Thinking(ThinkingMode.BUDGET, budget=tokens)


def effort(level: str) -> Thinking:
    return Thinking(ThinkingMode.EFFORT, effort=level)


def request(thinking: Thinking = OFF, *messages: Message, cap: int = 4096, **changes: Any) -> Request:
    base = Request("claude-x", "e", messages or (Message("user", "2+2?"),), thinking, Sampling(), 1024, cap)
    return replace(base, **changes)


def configured(name: str) -> ThinkingSupport:
    support = parse(plain(compose([f"model={name}"])[0])).model.thinking
    assert isinstance(support, ThinkingSupport)
    return support


# What is sent


def test_a_request_has_its_system_prompt_apart_and_one_cap_for_thinking_and_answer() -> None:
    asked = request(budget(2048), Message("system", "Be brief."), Message("user", "2+2?"), sampling=Sampling(stop=("END",)))
    body = request_body(asked, BUDGETED)
    assert body == {
        "model": "claude-x",
        "max_tokens": 4096,
        "stream": True,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "2+2?"}],
        "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    }
    sent = MessagesFormat().what_was_sent(body)
    assert sent == {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}


@pytest.mark.parametrize(
    ("thinking", "support", "fields"),
    [
        (OFF, BUDGETED, {"thinking": {"type": "disabled"}}),
        (OFF, replace(STEERED, off_form="between_tools"), {"thinking": {"type": "between_tools"}}),
        (OFF, replace(BUDGETED, off_form="omitted"), {}),
        (OFF, ThinkingSupport(), {}),
        (ADAPTIVE, STEERED, {"thinking": {"type": "adaptive"}}),
        (Thinking(ThinkingMode.ADAPTIVE, effort="low"), STEERED, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (effort("high"), ALWAYS, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        (effort("high"), replace(BUDGETED, accepts=(ThinkingMode.EFFORT,), efforts=EFFORTS), {"output_config": {"effort": "high"}}),
        (ADAPTIVE, replace(STEERED, display="omitted"), {"thinking": {"type": "adaptive", "display": "omitted"}}),
        (
            budget(1024),
            replace(BUDGETED, display="summarized"),
            {"thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"}},
        ),
        (budget(1024), replace(BUDGETED, forced_by_prefix=True), {"thinking": {"type": "disabled"}}),
    ],
)
def test_thinking_is_sent_in_the_form_that_the_model_takes(thinking: Thinking, support: ThinkingSupport, fields: dict[str, Any]) -> None:
    body = request_body(request(thinking), support)
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == fields


def test_the_version_sets_the_header_of_the_key() -> None:
    assert MessagesFormat(NEW).headers("k") == {"anthropic-version": "2026-10-21", "Authorization": "Bearer k"}
    assert MessagesFormat(OLD).headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert MessagesFormat(OLD).headers(None) == {"anthropic-version": "2023-06-01"}


def test_a_version_is_a_dialect_and_part_of_the_identity() -> None:
    assert format_named("anthropic", "generic").identity == format_named("anthropic", "2026-10-21").identity
    assert format_named("anthropic", "2023-06-01").identity != format_named("anthropic", "generic").identity
    assert format_named("anthropic", "generic").path("m") == "/messages"
    with pytest.raises(UserError, match="2026-10-21, 2023-06-01"):
        version_named("2024-01-01")


def test_tools_and_blocks_are_sent_as_they_are() -> None:
    thought = {"type": "thinking", "thinking": "look", "signature": "QUJD"}
    use, tool = {"type": "tool_use", "id": "t1", "name": "calc", "input": {"x": 2}}, {"name": "calc", "input_schema": {"type": "object"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "4"}
    turns = (Message("user", "2+2?"), Message("assistant", "", (thought, use)), Message("user", "4", (result,)))
    body = request_body(request(budget(2048), *turns, tools=(tool,)), BUDGETED)
    assert body["tools"] == [tool]
    assert body["messages"][1:] == [{"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [result]}]


# What is refused, before anything is sent


@pytest.mark.parametrize(
    ("thinking", "cap", "support", "said"),
    [
        (budget(512), 1024, BUDGETED, "1024 tokens or more"),
        (budget(512), 1024, replace(BUDGETED, min_budget=1), "1024 tokens or more"),
        (budget(0), 1024, replace(BUDGETED, min_budget=0), "thinking=off"),
        (budget(8192), 8192, BUDGETED, "below max_tokens, here 8192"),
        (budget(8192), 8192, STEERED, r"does not take it; it takes: off, effort \(low, medium, high\), adaptive"),
        (budget(8192), 8192, ALWAYS, "it takes: effort"),
        (OFF, 1024, ALWAYS, "thinking=off: .* it takes: effort"),
        (ADAPTIVE, 1024, BUDGETED, r"it takes: off, budget \(from 1024 tokens\)"),
        (effort("max"), 1024, STEERED, "takes: low, medium, high"),
    ],
)
def test_a_form_or_a_budget_that_is_not_taken_is_refused(thinking: Thinking, cap: int, support: ThinkingSupport, said: str) -> None:
    with pytest.raises(UserError, match=said) as refusal:
        request_body(request(thinking, cap=cap), support)
    assert str(refusal.value).count("\n") <= 1


def test_recorded_budgets_are_refused_without_a_request(cases: list[dict]) -> None:
    seen = set()
    for case in (case for case in cases if case["kind"] == "thinking_budget" and case["input"].get("api") == "anthropic"):
        given = case["input"]
        sampling = Sampling(temperature=given.get("temperature"), top_p=given.get("top_p"))
        asked = request(budget(given["thinking"]["budget_tokens"]), cap=given["max_tokens"], sampling=sampling)
        for version in (OLD, NEW):
            with pytest.raises(UserError) as refusal:
                request_body(asked, BUDGETED, version)
            assert all(f"sampling.{name}" in str(refusal.value) for name in case["expected"].get("errors", ())), case["id"]
        seen.add(case["id"])
    assert seen == {"thinking_budget-01", "thinking_budget-02", "thinking_budget-12"}


@pytest.mark.parametrize(
    ("sampling", "thinking", "version", "said"),
    [
        (Sampling(temperature=1.0), OFF, NEW, r"sampling.temperature=1.0: anthropic-version 2026-10-21 .* model.dialect=2023-06-01"),
        (Sampling(top_p=0.9), OFF, NEW, "sampling.top_p=0.9"),
        (Sampling(temperature=0.2), budget(2048), OLD, "sampling.temperature=0.2: thinking allows"),
        (Sampling(top_p=0.5), budget(2048), OLD, "sampling.top_p=0.5"),
        (Sampling(temperature=1.5), OFF, OLD, "takes 0 to 1"),
        (Sampling(logprobs=0), OFF, OLD, "no log-probabilities"),
        (Sampling(stop=("a", "\n")), OFF, NEW, "white space"),
    ],
)
def test_sampling_that_would_be_a_400_is_refused_by_its_key(sampling: Sampling, thinking: Thinking, version: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        request_body(request(thinking, sampling=sampling), BUDGETED, version)


def test_sampling_that_is_taken_is_sent() -> None:
    body = request_body(request(sampling=Sampling(temperature=0.7, top_p=0.9)), BUDGETED, OLD)
    assert (body["temperature"], body["top_p"]) == (0.7, 0.9)
    body = request_body(request(budget(2048), sampling=Sampling(temperature=1.0, top_p=0.95)), BUDGETED, OLD)
    assert (body["temperature"], body["top_p"]) == (1.0, 0.95)


@pytest.mark.parametrize(
    ("thinking", "turns", "prefix", "support", "said"),
    [
        (OFF, (), "The answer is", STEERED, "does not continue"),
        (OFF, (Message("assistant", "The answer is"),), "", STEERED, "does not continue"),
        (budget(2048), (), "The answer is", BUDGETED, "with thinking"),
        (OFF, (), "The answer is ", BUDGETED, "white space"),
        (OFF, (Message("system", "late"),), "", BUDGETED, r"messages\[1\]: a system message"),
    ],
)
def test_a_turn_that_cannot_be_continued_is_refused(
    thinking: Thinking, turns: tuple[Message, ...], prefix: str, support: ThinkingSupport, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        request_body(request(thinking, Message("user", "2+2?"), *turns, prefix=prefix), support)


def test_a_prefix_is_the_last_turn() -> None:
    assert request_body(request(prefix="It is"), BUDGETED)["messages"][-1] == {"role": "assistant", "content": "It is"}
    given = request(OFF, Message("user", "2+2?"), Message("assistant", "I say: "), prefix="it is")
    assert request_body(given, BUDGETED)["messages"][-1] == {"role": "assistant", "content": "I say: it is"}
    block = {"type": "text", "text": "I say:"}
    given = request(OFF, Message("user", "2+2?"), Message("assistant", "I say:", (block,)), prefix="it is")
    assert request_body(given, BUDGETED)["messages"][-1]["content"] == [block, {"type": "text", "text": "it is"}]


def test_a_paused_turn_goes_back_and_is_no_prefix() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    body = request_body(request(ADAPTIVE, Message("user", "?"), Message("assistant", "", (search,))), STEERED)
    assert body["messages"][-1] == {"role": "assistant", "content": [search]}


def use(identity: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "calc", "input": {}}


def result(identity: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": "4"}


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([("assistant", [use("a")])], r"messages\[1\]: block 0 \(tool_use\) has no tool_result"),
        ([("assistant", [use("a")]), ("user", [])], "has no tool_result"),
        ([("assistant", [use("a"), use("b")]), ("user", [result("a")])], r"block 1 \(tool_use\)"),
        ([("assistant", [use("a")]), ("user", [{"type": "text", "text": "so"}, result("a")])], "come first"),
        ([("assistant", [use("a")]), ("user", [result("a"), result("c")])], "'c' answers no call"),
        ([("assistant", [use("a")]), ("user", [result("a"), result("a")])], "one for each"),
        ([("assistant", []), ("user", [result("a")])], "'a' answers no call"),
        ([("assistant", [{"type": "thinking", "thinking": "x", "signature": ""}])], r"block 0 \(thinking\) has no signature"),
        ([("assistant", [{"type": "thinking", "thinking": "x", "signature": None}])], "has no signature"),
        ([("assistant", [use("a") | {"partial_json": '{"x'}])], r"block 0 \(tool_use\) was cut"),
    ],
)
def test_a_history_that_is_refused_whoever_made_it_names_the_block(turns: list[Any], said: str) -> None:
    messages = [Message(role, "t", tuple(blocks)) for role, blocks in turns]
    with pytest.raises(UserError, match=said):
        request_body(request(budget(2048), Message("user", "?"), *messages), BUDGETED)


# The shipped configs


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("anthropic_haiku_4_5", [OFF, budget(1024)], [budget(1023), ADAPTIVE, effort("low")]),
        ("anthropic_opus_4_5", [OFF, budget(2048)], [ADAPTIVE]),
        ("anthropic_opus_4_6", [OFF, budget(2048), ADAPTIVE, effort("max")], [effort("xhigh")]),
        ("anthropic_opus_4_8", [OFF, ADAPTIVE, effort("xhigh")], [budget(2048)]),
        ("anthropic_opus_5", [OFF, ADAPTIVE, effort("max")], [budget(2048)]),
        ("anthropic_sonnet_5_5", [OFF, ADAPTIVE, effort("max")], [budget(2048)]),
        ("anthropic_haiku_5_5", [OFF, ADAPTIVE, effort("max")], [budget(2048)]),
        ("anthropic_opus_5_5", [ADAPTIVE, effort("low")], [OFF, budget(2048)]),
    ],
)
def test_every_shipped_model_takes_its_forms_and_has_a_price(name: str, accepted: list[Thinking], refused: list[Thinking]) -> None:
    from ttc_eval.prices import has_price

    model = parse(plain(compose([f"model={name}"])[0])).model
    assert has_price(model.info.price)
    for thinking in accepted:
        assert request_body(request(thinking), model.thinking)
    for thinking in refused:
        with pytest.raises(UserError, match=r"it takes|takes 1024|takes:"):
            request_body(request(thinking), model.thinking)


def test_every_shipped_config_is_tested_here_and_says_where_its_facts_are_from() -> None:
    files = sorted((Path(__file__).parents[2] / "configs" / "model").glob("anthropic_*.yaml"))
    assert len(files) == 8
    assert all("as of 2026-" in file.read_text(encoding="utf-8") for file in files)
