"""Sweeps with the shipped OpenAI and Gemini configs against local servers: what was sent, used and paid is in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers import gemini, openai_responses
from tests.servers.plain import in_thread
from tests.sweep.conftest import Sweep

CONFIGS = Path(__file__).parents[2] / "configs" / "model"
KEY = "planted-0123456789"
OPENAI = sorted(path.stem for path in CONFIGS.glob("openai_gpt_*.yaml"))
GEMINI = sorted(path.stem for path in CONFIGS.glob("gemini_*.yaml"))
FORMS = {
    "gemini_2_5_flash": (["thinking=budget", "thinking.budget=512"], {"thinkingBudget": 512}, 768),
    "gemini_2_5_pro": (["thinking=adaptive"], {"thinkingBudget": -1}, 256),
    "gemini_3_8_flash": (["thinking=effort", "thinking.effort=high"], {"thinkingLevel": "HIGH"}, 256),
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)


def arguments(server: Any, model: str) -> list[str]:
    base = [f"model={model}", f"model.base_url={server.url}", "dataset=one_question", "sampling.temperature=null"]
    return [*base, "strategy=single", "retry.first_wait_s=0.001", "answer_tokens=256"]


@pytest.mark.parametrize("model", OPENAI)
def test_an_effort_is_sent_used_and_paid_for(sweep: Sweep, model: str) -> None:
    answer = openai_responses.Reply([openai_responses.reason("six times seven"), openai_responses.say("42")], thought=40)
    server = openai_responses.ResponsesServer([openai_responses.OVERLOADED, answer], key=KEY)
    with in_thread(server):
        outcome = sweep(*arguments(server, model), "thinking=effort", "thinking.effort=low")
        assert outcome.code == 0, outcome.out
    body = server.bodies[-1]
    assert (body["max_output_tokens"], body["reasoning"], body["store"]) == (256, {"effort": "low"}, False)
    calls = outcome.study.sql("SELECT * FROM calls ORDER BY attempt")
    assert calls["error_kind"].tolist()[0] == "overloaded"
    last = calls.iloc[-1]
    assert (last["thinking_text"], last["reasoning_tokens"], last["output_tokens"]) == ("six times seven", 40, 41)
    assert float(last["cost_usd"]) > 0
    assert outcome.one("SELECT * FROM solutions")["answer"] == "42"
    assert KEY.encode() not in outcome.path.read_bytes() + outcome.out.encode() + outcome.err.encode()


@pytest.mark.parametrize("model", GEMINI)
def test_each_form_of_thinking_is_sent_used_and_paid_for(sweep: Sweep, model: str) -> None:
    thinking, sent, cap = FORMS[model]
    answer = gemini.Reply([gemini.say("42")], thought=40)
    server = gemini.GeminiServer([gemini.OVERLOADED, answer], key=KEY)
    with in_thread(server):
        outcome = sweep(*arguments(server, model), *thinking)
        assert outcome.code == 0, outcome.out
    config = server.bodies[-1]["generationConfig"]
    assert (config["maxOutputTokens"], config["thinkingConfig"]) == (cap, sent)
    calls = outcome.study.sql("SELECT * FROM calls ORDER BY attempt")
    assert calls["error_kind"].tolist()[0] == "overloaded"
    last = calls.iloc[-1]
    assert (last["reasoning_tokens"], last["output_tokens"], last["cached_input_tokens"]) == (40, 41, 4)
    assert float(last["cost_usd"]) > 0
    assert outcome.one("SELECT * FROM solutions")["answer"] == "42"
    assert KEY.encode() not in outcome.path.read_bytes() + outcome.out.encode() + outcome.err.encode()


@pytest.mark.parametrize(
    ("model", "thinking", "says"),
    [
        ("openai_gpt_5_5", ["thinking=budget", "thinking.budget=1024"], "it takes: off, effort (low, medium, high, xhigh)"),
        ("openai_gpt_6_1_sol", ["thinking=off"], "it takes: effort (low, medium, high, xhigh, max)"),
        ("gemini_2_5_pro", ["thinking=off"], "it takes: budget (from 128 tokens), adaptive"),
        ("gemini_3_8_flash", ["thinking=effort", "thinking.effort=minimal"], "takes: low, medium, high"),
    ],
)
def test_a_form_that_the_model_does_not_take_is_a_mistake_of_the_user(sweep: Sweep, model: str, thinking: list[str], says: str) -> None:
    with in_thread(server := openai_responses.ResponsesServer()):
        outcome = sweep(*arguments(server, model), *thinking)
    assert (outcome.code, server.count) == (2, 0)
    assert says in outcome.out + outcome.err
