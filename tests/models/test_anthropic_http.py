"""The Messages API over real sockets: responses, faults, keys, and a tool loop ten steps deep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.servers.anthropic import LIMITED, OVERLOADED, MessagesServer, Reply, call, redacted, say, think
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.history import ToolResult, history_of
from ttc_eval.models.base import Price, PriceRef
from ttc_eval.models.http import HttpConnection, HttpModel, Timeouts
from ttc_eval.records import CallStop, Message, Request, Response, Sampling, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.toolloop import ToolRun, costs, run_tools
from ttc_eval.wire.failures import wait_asked

KEY = "sk-ant-planted-0123456789"
FAST = Timeouts(connect_s=5, first_token_s=5, idle_s=5, total_s=10)
SUPPORT = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), min_budget=1024)
ADAPTIVE = ThinkingSupport(accepts=(ThinkingMode.ADAPTIVE,), display="omitted", continues=False)
TOOL = {"name": "double", "description": "twice a number", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}
PRICE = PriceRef(own=Price(Decimal(1), Decimal(5)))


def request(budget: int | None = 2048, cap: int = 4096, **changes: Any) -> Request:
    thinking = Thinking() if budget is None else Thinking(ThinkingMode.BUDGET, budget=budget)
    base = Request("claude-haiku-4-5", "e", (Message("user", "2 to the 10th?"),), thinking, Sampling(), cap, cap)
    return replace(base, **changes)


def talk(server: MessagesServer, use: Callable[[HttpConnection], Awaitable[None]], monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    settings = {"name": "claude", "model": "claude-haiku-4-5", "wire": "anthropic", "api_key_env": "PLANTED_KEY", "thinking": SUPPORT}

    async def main() -> None:
        async with server, HttpModel(**settings | {"base_url": server.url, "timeouts": FAST} | fields).connect() as connection:
            await use(connection)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(("dialect", "header"), [("2026-10-21", "authorization"), ("2023-06-01", "x-api-key")])
def test_a_response_over_a_socket(dialect: str, header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = MessagesServer([Reply([think("two and two"), say("four is it")])], key=KEY)

    async def use(connection: HttpConnection) -> None:
        response = await connection.respond(request())
        assert (response.text, response.thinking, response.stop) == ("four is it", "two and two", CallStop.END)
        assert (response.usage.output_tokens, response.usage.reasoning_tokens) == (6, 3)
        assert response.usage.source is UsageSource.PROVIDER
        assert response.sent == {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}
        assert KEY in server.headers[0][header]
        assert server.headers[0]["anthropic-version"] == dialect

    talk(server, use, monkeypatch, dialect=dialect)


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "status", "wait"),
    [
        (LIMITED, "rate_limited", True, 429, 2.0),
        (replace(LIMITED, error_code="enforced_spend_limit_reached"), "credit", False, 429, 2.0),
        (OVERLOADED, "overloaded", True, 529, None),
        (Reply(status=500), "server_error", True, 500, None),
        (Reply(status=413, error=("request_too_large", "x")), "invalid_request", False, 413, None),
        (Reply(status=402, error=("billing_error", "x")), "credit", False, 402, None),
        (Reply(status=404, error=("not_found_error", "model: x")), "invalid_request", False, 404, None),
        (Reply([say("one two three four")], fault="error_event", error=("overloaded_error", "x")), "overloaded", True, 200, None),
        (Reply([say("one two three four")], fault="cut"), "connection", True, 200, None),
        (Reply([say("one two three four")], fault="close"), "incomplete", True, 200, None),
        (Reply([say("one two three four")], fault="no_stop"), "incomplete", True, 200, None),
        (Reply([say("one two three four")], fault="no_end"), "incomplete", True, 200, None),
        (Reply([say("one two three four")], fault="garbage"), "invalid_response", True, 200, None),
        (Reply(fault="reset"), "connection", True, None, None),
    ],
    ids=lambda value: value.fault or f"{value.status} {value.error_code or ''}" if isinstance(value, Reply) else None,
)
def test_every_fault_is_one_failed_call_of_its_kind(
    reply: Reply, kind: str, retryable: bool, status: int | None, wait: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MessagesServer([reply])

    async def use(connection: HttpConnection) -> None:
        with pytest.raises(CallFailed) as failed:
            await connection.respond(request())
        failure = failed.value
        assert (failure.kind, failure.retryable, failure.http_status, failure.retry_after) == (kind, retryable, status, wait)
        assert "one two three four".startswith(failure.partial_text)
        assert KEY not in str(failure)
        assert (failure.usage is None) == (reply.fault != "no_stop" and (status is None or status == 200 or status >= 500))
        assert (await connection.respond(request())).text == "ok", "the line is still good"

    talk(server, use, monkeypatch)


def test_a_limit_that_is_used_up_says_when_to_come_back() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "3",
        "anthropic-ratelimit-requests-reset": "2099-01-01T00:00:00Z",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2098-01-01T00:00:00Z",
    }
    assert wait_asked(429, headers, 4039372800.0 - 30.0) == pytest.approx(30.0)
    assert wait_asked(429, headers | {"retry-after": "2"}, 4039372800.0 - 30.0) == 2.0
    assert wait_asked(429, {"anthropic-ratelimit-tokens-reset": "2000-01-01T00:00:00Z"}, 1.8e9) is None


def test_what_the_api_refuses_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MessagesServer()

    async def use(connection: HttpConnection) -> None:
        for asked in (
            request(512),
            request(4096),
            request(None, sampling=Sampling(temperature=0.7)),
            request(thinking=Thinking(ThinkingMode.ADAPTIVE)),
            request(None, prefix="It is "),
        ):
            with pytest.raises(UserError):
                await connection.respond(asked)
        assert server.count == 0

    talk(server, use, monkeypatch)


def test_thinking_that_is_omitted_or_redacted_is_not_disclosed_and_is_billed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MessagesServer([Reply([think("a b c d"), say("4")]), Reply([redacted(), say("4")], usage={"output_tokens": 9})])
    adaptive = Thinking(ThinkingMode.ADAPTIVE)

    async def use(connection: HttpConnection) -> None:
        omitted = await connection.respond(request(thinking=adaptive, model="claude-opus-5-5"))
        assert (omitted.thinking, omitted.usage.reasoning_tokens, omitted.usage.output_tokens) == ("", 4, 5)
        assert omitted.blocks[0]["thinking"] == ""
        assert omitted.blocks[0]["signature"]
        sealed = await connection.respond(request(thinking=adaptive, model="claude-opus-5-5"))
        assert (sealed.thinking, sealed.usage.reasoning_tokens, sealed.usage.output_tokens) == ("", None, 9)

    talk(server, use, monkeypatch, thinking=ADAPTIVE)


# Tool loops


def loop(
    server: MessagesServer, monkeypatch: pytest.MonkeyPatch, *, steps: int = 10, asked: Request | None = None, **fields: Any
) -> ToolRun:
    runs: list[ToolRun] = []
    doubled = {"double": lambda given: str(2 * given["x"])}

    async def use(connection: HttpConnection) -> None:
        runs.append(await run_tools(connection.respond, asked or request(tools=(TOOL,)), doubled, max_steps=steps))

    talk(server, use, monkeypatch, **fields)
    return runs[0]


def doubling(body: dict[str, Any], number: int) -> Reply:
    """A model that doubles nine times by its tool, thinking before each call, in every form that thinking has."""
    last = body["messages"][-1]["content"]
    value = 2 if isinstance(last, str) else int(last[0]["content"])
    if number == 9:
        return Reply([think("that is all of it"), say(str(value))])
    thoughts = [think(f"now twice {value} is"), *([redacted()] if number % 3 == 2 else [])]
    said = [say("Doubling.")] if number % 2 else []
    return Reply([*thoughts, *said, call(f"toolu_{number}", "double", x=value)])


@pytest.mark.parametrize("display", [None, "omitted"])
def test_a_tool_loop_ten_steps_deep_pays_for_thinking_at_each_step(display: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    server = MessagesServer(answer=doubling)
    run = loop(server, monkeypatch, thinking=replace(SUPPORT, display=display))
    assert (run.ended_by, run.text, len(run.steps), server.refusals) == ("answer", "1024", 10, [])
    for step, body in zip(run.steps[1:], server.bodies[1:], strict=True):
        before = step.request.messages[-2]
        assert body["messages"][-2]["content"] == list(before.blocks), "verbatim and in order"
        assert before.blocks[0]["type"] == "thinking"
    paid = costs(run, PRICE)
    assert [cost.reasoning_tokens for cost in paid] == [4] * 9 + [5]
    assert all(cost.thinking_usd == Decimal(5 * (cost.reasoning_tokens or 0)) / 1_000_000 for cost in paid)
    inputs = [cost.input_tokens or 0 for cost in paid]
    assert inputs == sorted(set(inputs)), "each step reads all that came before it"
    alone = paid[0].usd
    assert alone is not None
    assert sum(cost.usd or 0 for cost in paid) > 10 * alone


def test_the_server_refuses_what_the_history_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local server stands for the API: each change that `History.check` names would have been a 400."""
    server = MessagesServer(answer=doubling)
    changes: list[Callable[[tuple[Any, ...]], tuple[Any, ...]]] = [
        lambda blocks: blocks[1:],
        lambda blocks: (blocks[0] | {"thinking": "  now"}, *blocks[1:]),
        lambda blocks: (blocks[1], blocks[0]),
    ]

    async def use(connection: HttpConnection) -> None:
        first = await connection.respond(request(tools=(TOOL,)))
        history = history_of(request()).answered(first).with_results([ToolResult("toolu_0", "4")])
        for change in changes:
            turn = replace(history.messages[1], blocks=change(history.messages[1].blocks))
            messages = (history.messages[0], turn, history.messages[2])
            with pytest.raises(UserError, match=r"messages\[1\]: block 0 \(thinking\)"):
                history.next_request(request(), messages)
            with pytest.raises(CallFailed, match="cannot be modified") as failed:
                await connection.respond(request(messages=messages))
            assert (failed.value.kind, failed.value.retryable) == ("invalid_request", False)

    talk(server, use, monkeypatch)
    assert len(server.refusals) == 3


def test_a_tool_that_fails_or_does_not_exist_tells_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MessagesServer([Reply([think("?"), call("a", "double", y=1), call("b", "halve", x=1)]), Reply([say("I cannot")])])
    run = loop(server, monkeypatch)
    assert run.text == "I cannot"
    assert [(result.failed, result.content) for result in run.steps[0].results] == [
        (True, "KeyError: 'x'"),
        (True, "there is no tool 'halve'; there are: double"),
    ]


def test_a_loop_ends_at_its_limit_at_a_cut_step_at_a_refusal_and_at_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    run = loop(MessagesServer(answer=doubling), monkeypatch, steps=3)
    assert (run.ended_by, len(run.steps), run.text) == ("step_limit", 3, "")

    server = MessagesServer([Reply([think(" ".join(["why"] * 2000)), say(" ".join(["so"] * 3000))])])
    run = loop(server, monkeypatch)
    assert run.ended_by == "cut"
    assert "thinking used 2000 and left 2096 for the answer; raise the cap with answer_tokens" in run.note

    run = loop(MessagesServer([Reply([say("no")], stop="refusal", stop_details={"type": "refusal", "category": "bio"})]), monkeypatch)
    assert (run.ended_by, run.note) == ("stopped", "the model stopped: refusal/bio")

    script = [Reply([think("a"), call("t", "double", x=1)]), OVERLOADED]
    run = loop(MessagesServer(script), monkeypatch)
    assert (run.ended_by, len(run.steps)) == ("failed", 1)
    assert run.failure is not None
    assert run.failure.kind == "overloaded"
    assert costs(run, PRICE)[0].usd is not None, "what was spent before it stays"


def test_a_paused_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    server = MessagesServer([Reply([search], stop="pause_turn"), Reply([say("found")])])
    run = loop(server, monkeypatch, asked=request(None, tools=(TOOL,)))
    assert (run.ended_by, run.text, server.refusals) == ("answer", "found", [])
    assert server.bodies[1]["messages"][-1] == {"role": "assistant", "content": [search]}


def test_costs_without_a_price_or_a_count_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    run = loop(MessagesServer([Reply([think("a"), say("4")], details=False)]), monkeypatch)
    assert costs(run, PriceRef())[0].usd is None
    only = costs(run, PRICE)[0]
    assert (only.reasoning_tokens, only.thinking_usd) == (None, None)
    assert only.usd is not None
    assert isinstance(run.steps[0].response, Response)


def test_a_request_that_cannot_be_sent_ends_the_loop_before_it_is() -> None:
    async def never(_: Request) -> Response:
        raise AssertionError("nothing may be sent")

    with pytest.raises(UserError, match="max_steps=0"):
        asyncio.run(run_tools(never, request(), {}, max_steps=0))
