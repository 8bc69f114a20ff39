"""The official SDK as an oracle: the same local server, the same replies, and what both make of them.

Where the two differ, the difference is a choice of ours, named in the test: see the tests whose names say "where the SDK".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.servers.anthropic import LIMITED, OVERLOADED, MessagesServer, Reply, call, redacted, say, think
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.history import ToolResult, history_of
from ttc_eval.models.http import HttpConnection, HttpModel, Timeouts
from ttc_eval.records import Message, Request, Response, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

anthropic = pytest.importorskip("anthropic", reason="the oracle is in the extra dev")

KEY = "sk-ant-planted-0123456789"
SUPPORT = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), min_budget=1024)
TOOL = {"name": "double", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def request(**changes: Any) -> Request:
    messages = (Message("system", "Be brief."), Message("user", "2 to the 10th?"))
    thinking = Thinking(ThinkingMode.BUDGET, budget=2048)
    return replace(Request("claude-haiku-4-5", "e", messages, thinking, Sampling(stop=("END",)), 2048, 4096, tools=(TOOL,)), **changes)


def arguments(asked: Request) -> dict[str, Any]:
    """The same request in the SDK's words."""
    return {
        "model": asked.model,
        "max_tokens": asked.max_output_tokens,
        "system": asked.messages[0].content,
        "messages": [{"role": turn.role, "content": list(turn.blocks) or turn.content} for turn in asked.messages[1:]],
        "thinking": {"type": "enabled", "budget_tokens": asked.thinking.budget},
        "stop_sequences": list(asked.sampling.stop),
        "tools": [dict(tool) for tool in asked.tools],
    }


def both(reply: Reply, use: Callable[[MessagesServer, HttpConnection, Any], Awaitable[None]], *, times: int = 2) -> None:
    async def main() -> None:
        async with MessagesServer([reply] * times, key=KEY) as server:
            model = HttpModel("claude", server.url, "claude-haiku-4-5", wire="anthropic", thinking=SUPPORT, timeouts=Timeouts(5, 5, 5, 10))
            async with (
                replace(model, headers={"Authorization": f"Bearer {KEY}"}).connect() as connection,
                anthropic.AsyncAnthropic(api_key=KEY, base_url=server.root, max_retries=0, timeout=10) as client,
            ):
                await use(server, connection, client)

    asyncio.run(asyncio.wait_for(main(), 60))


async def theirs(client: Any, asked: Request) -> Any:
    async with client.messages.stream(**arguments(asked)) as stream:
        return await stream.get_final_message()


def agree(ours: Response, message: Any) -> None:
    blocks = message.to_dict()["content"]
    assert [{name: block[name] for name in given} for block, given in zip(blocks, ours.blocks, strict=True)] == list(ours.blocks)
    assert ours.text == "".join(block.text for block in message.content if block.type == "text")
    assert (ours.stop_raw or "").split("/")[0] == message.stop_reason
    used = message.usage
    cached, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
    assert ours.usage.input_tokens == used.input_tokens + cached + written
    assert ours.usage.output_tokens == used.output_tokens
    assert ours.usage.reasoning_tokens == (used.output_tokens_details.thinking_tokens if used.output_tokens_details else None)


REPLIES = [
    Reply([say("four")]),
    Reply([think("two and two"), say("four is it")]),
    Reply([think("a b c"), say("four")], omit=True),
    Reply([think("so"), redacted(), say("Doubling."), call("t1", "double", x=2, note="naïve 漢字 🙂"), call("t2", "double")]),
    Reply([think("why " * 30), say("so " * 5000)]),
    Reply([say("no")], stop="refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": None}),
    Reply([say("x")], stop="stop_sequence"),
    Reply([say("x")], stop="model_context_window_exceeded"),
    Reply([say("x")], start_usage={"cache_creation_input_tokens": 70, "cache_read_input_tokens": 20}),
    Reply([think("a"), say("x")], usage={"input_tokens": 40, "cache_read_input_tokens": 7}, details=False),
]


@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
def test_what_is_sent_and_what_is_made_of_the_reply_agree(reply: Reply) -> None:
    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        ours, message = await connection.respond(request()), await theirs(client, request())
        agree(ours, message)
        assert server.bodies[0] == server.bodies[1]
        headers = [{name: given[name] for name in ("anthropic-version", "authorization", "content-type")} for given in server.headers]
        assert headers[0] == headers[1]

    both(reply, use)


def test_a_tool_loop_agrees_turn_by_turn() -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        last = body["messages"][-1]["content"]
        return (
            Reply([think("hm"), say("16")]) if not isinstance(last, str) else Reply([think("look"), redacted(), call("t1", "double", x=8)])
        )

    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        server.answer = reply
        ours, message = await connection.respond(request()), await theirs(client, request())
        agree(ours, message)
        following = history_of(request()).answered(ours).with_results([ToolResult("t1", "16")]).next_request(request())
        with_sdk = arguments(request())
        with_sdk["messages"] += [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "16"}]},
        ]
        second = await connection.respond(following)
        async with client.messages.stream(**with_sdk) as stream:
            agree(second, await stream.get_final_message())
        assert server.refusals == []
        assert server.bodies[2]["messages"] == server.bodies[3]["messages"]

    both(REPLIES[0], use, times=0)


@pytest.mark.parametrize(
    ("reply", "kind", "error"),
    [
        (Reply(status=400, error=("invalid_request_error", "bad")), "invalid_request", "BadRequestError"),
        (Reply(status=401, error=("authentication_error", "who")), "authentication", "AuthenticationError"),
        (Reply(status=402, error=("billing_error", "pay")), "credit", "PaymentRequiredError"),
        (Reply(status=403, error=("permission_error", "no")), "authentication", "PermissionDeniedError"),
        (Reply(status=404, error=("not_found_error", "model: x")), "invalid_request", "NotFoundError"),
        (LIMITED, "rate_limited", "RateLimitError"),
        (replace(LIMITED, error_code="enforced_spend_limit_reached"), "credit", "EnforcedSpendLimitReachedError"),
        (replace(LIMITED, error_code="ramp_limit_exceeded"), "rate_limited", "RampLimitExceededError"),
        (Reply(status=500), "server_error", "InternalServerError"),
        (OVERLOADED, "overloaded", "OverloadedError"),
    ],
)
def test_errors_agree_in_cause_status_and_message(reply: Reply, kind: str, error: str) -> None:
    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        connection.window.close()
        with pytest.raises(anthropic.APIStatusError) as found:
            await theirs(client, request())
        assert type(found.value).__name__ == error
        assert (ours.value.kind, ours.value.http_status) == (kind, found.value.status_code)
        assert reply.error[1] in str(ours.value)
        assert found.value.api_message == reply.error[1]
        assert server.count == 2

    both(reply, use)


def test_an_error_inside_the_stream_agrees_in_type() -> None:
    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        with pytest.raises(anthropic.APIStatusError) as found:
            await theirs(client, request())
        assert (ours.value.http_status, found.value.status_code, found.value.type) == (200, 200, "overloaded_error")
        assert ours.value.kind == "overloaded"
        assert ours.value.partial_text, "ours keeps what had arrived"

    both(Reply([say("one two three four five")], fault="error_event", error=("overloaded_error", "busy")), use)


def test_where_the_sdk_takes_a_stream_without_its_end_for_whole_ours_is_incomplete() -> None:
    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        message = await theirs(client, request())
        assert (message.stop_reason, message.usage.output_tokens) == (None, 1), "a stale count, and no word of the cut"
        assert (ours.value.kind, ours.value.usage) == ("incomplete", None)

    both(Reply([say("one two three four five")], fault="close"), use)


def test_where_the_sdk_repairs_a_cut_input_ours_keeps_its_text() -> None:
    """A number that was cut is another number, so what looks whole is not; the history refuses to send such a call back."""

    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        ours, message = await connection.respond(request()), await theirs(client, request())
        assert message.content[0].input == {"x": [1, 2]}
        assert (ours.blocks[0]["input"], ours.blocks[0]["partial_json"]) == ({}, '{"x": [1, 2')
        assert (ours.stop_raw, message.stop_reason) == ("max_tokens", "max_tokens")
        with pytest.raises(UserError, match=r"block 0 \(tool_use\) was cut inside its input"):
            turn = history_of(request()).answered(ours).with_results([ToolResult("t1", "?")])
            await connection.respond(turn.next_request(request()))

    both(Reply([call("t1", "double") | {"input": '{"x": [1, 2'}], stop="max_tokens"), use)


def test_where_the_sdk_has_no_bound_on_what_it_sends_ours_refuses() -> None:
    """The SDK sends a budget that leaves no room and is told so by the server; ours says it before anything is sent."""

    async def use(server: MessagesServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(UserError, match="below max_tokens"):
            await connection.respond(request(max_output_tokens=2048))
        assert server.count == 0
        with pytest.raises(anthropic.BadRequestError, match="must be greater than"):
            await theirs(client, request(max_output_tokens=2048))

    both(REPLIES[0], use)
