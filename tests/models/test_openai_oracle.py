"""The official OpenAI SDK as an oracle: the same local Responses server, the same replies, and what both make of them.

Where the two differ, the difference is a choice of ours, named in the test: see the tests whose names say "where the SDK".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.servers.openai_responses import LIMITED, NO_CREDIT, OVERLOADED, SLOW_DOWN, Reply, ResponsesServer, call, reason, refuse, say
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import PriceRef
from ttc_eval.models.http import HttpConnection, HttpModel, Timeouts
from ttc_eval.prices import cost
from ttc_eval.records import CallStop, Message, Request, Response, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

openai = pytest.importorskip("openai", reason="the oracle is in the extra dev")

KEY = "sk-planted-0123456789"
SUPPORT = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.EFFORT), efforts=("low", "high"), display="auto")
TOOL = {"type": "function", "name": "double", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def request(**changes: Any) -> Request:
    messages = (Message("system", "Be brief."), Message("user", "2 to the 10th?"))
    thinking = Thinking(ThinkingMode.EFFORT, effort="high")
    return replace(Request("gpt-x", "e", messages, thinking, Sampling(), 2048, 4096, tools=(TOOL,)), **changes)


def arguments(asked: Request) -> dict[str, Any]:
    """The same request in the SDK's words."""
    items: list[Any] = []
    for turn in asked.messages:
        items += list(turn.blocks) or [{"role": turn.role, "content": turn.content}]
    return {
        "model": asked.model,
        "input": items,
        "max_output_tokens": asked.max_output_tokens,
        "store": False,
        "reasoning": {"effort": asked.thinking.effort, "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "tools": [dict(tool) for tool in asked.tools],
    }


def talk(server: ResponsesServer, use: Callable[[ResponsesServer, HttpConnection, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        server.key = KEY
        async with server:
            limits = Timeouts(5, 5, 5, 10)
            model = HttpModel("gpt", server.url, "gpt-x", wire="openai_responses", thinking=SUPPORT, timeouts=limits)
            async with (
                replace(model, headers={"Authorization": f"Bearer {KEY}"}).connect() as connection,
                openai.AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0, timeout=10) as client,
            ):
                await use(server, connection, client)

    asyncio.run(asyncio.wait_for(main(), 60))


async def theirs(client: Any, asked: Request) -> Any:
    """The response that ends the SDK's stream; None when none did."""
    end = None
    async for event in await client.responses.create(**arguments(asked), stream=True):
        if event.type in ("response.completed", "response.incomplete", "response.failed"):
            end = event.response
    return end


def agree(ours: Response, whole: Any) -> None:
    assert list(ours.blocks) == whole.to_dict()["output"]
    assert ours.text == whole.output_text
    reason_ = whole.incomplete_details.reason if whole.incomplete_details else None
    assert ours.stop_raw == (f"{whole.status}/{reason_}" if reason_ else whole.status)
    assert ours.response_id is not None
    used = whole.usage
    if used is None:
        assert not ours.usage.known
        return
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (used.input_tokens, used.output_tokens)
    assert ours.usage.cached_input_tokens == used.input_tokens_details.cached_tokens
    assert ours.usage.cache_write_tokens == used.input_tokens_details.cache_write_tokens
    assert ours.usage.reasoning_tokens == used.output_tokens_details.reasoning_tokens
    assert used.total_tokens == used.input_tokens + used.output_tokens


REPLIES = [
    Reply([say("four")], thought=0),
    Reply([reason("two and two", "makes"), say("four is it")]),
    Reply([reason(), say("four")]),
    Reply([reason("so"), say("Doubling.", "commentary"), call("c1", "double", x=2, note="naïve 漢字 🙂"), call("c2", "double")]),
    Reply([reason("why " * 30), say("so " * 3000)], chunk=400),
    Reply([refuse("I cannot.")]),
    Reply([reason("a"), say("x")], status="incomplete", reason="max_output_tokens"),
    Reply([reason()], status="incomplete", reason="max_output_tokens", thought=4096),
    Reply([say("x")], status="incomplete", reason="content_filter"),
    Reply([say("x")], usage={"input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 11}}),
    Reply([say("x")], usage=None),
]


@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
def test_what_is_sent_and_what_is_made_of_the_reply_agree(reply: Reply) -> None:
    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        ours, whole = await connection.respond(request()), await theirs(client, request())
        # The server numbers its items by the request.
        renumbered = [{**block, "id": block["id"].replace("_0_", "_1_")} for block in ours.blocks]
        sealed = [
            {**block, "encrypted_content": f"gAAAA1{n}=="} if "encrypted_content" in block else block for n, block in enumerate(renumbered)
        ]
        agree(replace(ours, blocks=tuple(sealed)), whole)
        assert server.bodies[0] == server.bodies[1]
        assert server.paths[0] == server.paths[1] == "/v1/responses"
        assert [headers["authorization"] for headers in server.headers] == [f"Bearer {KEY}"] * 2

    talk(ResponsesServer([reply] * 2), use)


def test_a_tool_loop_of_ten_turns_goes_through_and_bills_the_reasoning_of_each() -> None:
    def answer(body: dict[str, Any], number: int) -> Reply:
        if number == 10:
            return Reply([reason("done"), say("1024")])
        return Reply([reason(f"step {number}"), call(f"c{number}", "double", x=2**number)], thought=5 + number)

    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        asked, spent = request(), 0
        for step in range(10):
            found = await connection.respond(asked)
            assert (found.stop, found.thinking, found.usage.reasoning_tokens) == (CallStop.TOOL_USE, f"step {step}", 5 + step)
            assert (cost(PriceRef("openai", "gpt-5.5"), found.usage, 1.7e9) or 0) > 0
            spent += found.usage.output_tokens or 0
            outputs = tuple(
                {"type": "function_call_output", "call_id": item["call_id"], "output": str(2 ** (step + 1))}
                for item in found.blocks
                if item["type"] == "function_call"
            )
            asked = replace(asked, messages=(*asked.messages, Message("assistant", found.text, found.blocks), Message("user", "", outputs)))
        assert (await connection.respond(asked)).text == "1024"
        assert (server.refusals, spent) == ([], sum(range(5, 15)))
        # The SDK sends the same history, and the server, which knows what it wrote, takes it from both.
        assert (await theirs(client, asked)).output_text == "ok"
        assert server.bodies[10] == server.bodies[11]
        dropped = replace(asked.messages[2], blocks=asked.messages[2].blocks[1:])
        with pytest.raises(CallFailed) as failed:
            await connection.respond(replace(asked, messages=(*asked.messages[:2], dropped, *asked.messages[3:])))
        assert failed.value.kind == "invalid_request"

    def answered(body: dict[str, Any], number: int) -> Reply:
        return answer(body, number) if number <= 10 else Reply([say("ok")])

    talk(ResponsesServer(answer=answered), use)


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "wait", "error"),
    [
        (LIMITED, "rate_limited", True, 2.0, "RateLimitError"),
        (SLOW_DOWN, "rate_limited", True, 90.0, "RateLimitError"),
        (NO_CREDIT, "credit", False, None, "RateLimitError"),
        (OVERLOADED, "overloaded", True, None, "InternalServerError"),
        (Reply(http=400, error={"message": "no", "type": "invalid_request_error"}), "invalid_request", False, None, "BadRequestError"),
        (Reply(http=401, error={"message": "no", "code": "invalid_api_key"}), "authentication", False, None, "AuthenticationError"),
        (Reply(http=403, error={"message": "no"}), "authentication", False, None, "PermissionDeniedError"),
        (Reply(http=404, error={"message": "no", "code": "model_not_found"}), "model_not_found", False, None, "NotFoundError"),
        (Reply(http=500, error={"message": "no"}), "server_error", True, None, "InternalServerError"),
    ],
    ids=lambda value: str(value.http) if isinstance(value, Reply) else None,
)
def test_errors_are_the_same_ones(reply: Reply, kind: str, retryable: bool, wait: float | None, error: str) -> None:
    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        with pytest.raises(openai.APIStatusError) as other:
            await theirs(client, request())
        assert type(other.value).__name__ == error
        assert (ours.value.kind, ours.value.retryable, ours.value.http_status) == (kind, retryable, other.value.status_code)
        assert ours.value.retry_after == (None if wait is None else pytest.approx(wait))
        assert (reply.error or {})["message"] in str(ours.value)
        assert server.count == 2, "neither tried again"

    talk(ResponsesServer([reply] * 2), use)


@pytest.mark.parametrize("fault", ["reset", "cut", "garbage", "error_event"])
def test_a_broken_stream_is_an_error_to_both(fault: Any) -> None:
    kinds = {"reset": "connection", "cut": "connection", "garbage": "invalid_response", "error_event": "overloaded"}

    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable, ours.value.usage) == (kinds[fault], True, None)
        assert "abcdefghij".startswith(ours.value.partial_text)
        if fault == "error_event":
            return  # see below
        with pytest.raises(Exception):  # noqa: B017 - the SDK has no one error for these
            await theirs(client, request())

    talk(ResponsesServer([Reply([reason("a"), say("abcdefghij")], chunk=1, fault=fault)] * 2), use)


@pytest.mark.parametrize("fault", ["close", "no_end", "error_event"])
def test_where_the_sdk_says_nothing_of_a_stream_that_was_cut_or_gave_up_ours_is_a_failed_call(fault: Any) -> None:
    """The SDK ends normally for a clean close, and hands an `error` event on as an event like others."""

    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        assert await theirs(client, request()) is None
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable) == ("overloaded" if fault == "error_event" else "incomplete", True)

    talk(ResponsesServer([Reply([reason("a"), say("abcdefghij")], chunk=1, fault=fault)] * 2), use)


def test_where_the_sdk_returns_a_response_that_failed_ours_is_a_failed_call_with_its_usage() -> None:
    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        whole = await theirs(client, request())
        assert (whole.status, whole.error.code) == ("failed", "rate_limit_exceeded")
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable, ours.value.partial_text) == ("rate_limited", True, "half")
        assert ours.value.usage is not None
        assert ours.value.usage.output_tokens == whole.usage.output_tokens

    error = {"code": "rate_limit_exceeded", "message": "later"}
    talk(ResponsesServer([Reply([say("half")], fault="failed", error=error)] * 2), use)


def test_where_the_sdk_takes_counts_that_contradict_each_other_ours_are_unknown() -> None:
    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        assert (await theirs(client, request())).usage.total_tokens == 5
        found = await connection.respond(request())
        assert (found.usage.known, (found.usage.raw or {})["total_tokens"]) == (False, 5)

    talk(ResponsesServer([Reply([say("x")], usage={"total_tokens": 5})] * 2), use)


def test_what_the_api_cannot_do_is_refused_before_anything_is_sent() -> None:
    async def use(server: ResponsesServer, connection: HttpConnection, client: Any) -> None:
        for wrong in (
            request(thinking=Thinking(ThinkingMode.BUDGET, budget=1024)),
            request(thinking=Thinking(ThinkingMode.EFFORT, effort="max")),
            request(sampling=Sampling(stop=("END",))),
            request(prefix="So"),
        ):
            with pytest.raises(UserError):
                await connection.respond(wrong)
        assert server.count == 0

    talk(ResponsesServer(), use)


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "sk-wrong-planted-123"
    monkeypatch.setenv("PLANTED_OPENAI_KEY", wrong)

    async def main() -> None:
        async with ResponsesServer(key=KEY) as server:
            model = HttpModel("gpt", server.url, "gpt-x", wire="openai_responses", api_key_env="PLANTED_OPENAI_KEY", thinking=SUPPORT)
            async with model.connect() as connection:
                with pytest.raises(CallFailed) as failed:
                    await connection.respond(request())
            assert (failed.value.kind, server.headers[0]["authorization"]) == ("authentication", f"Bearer {wrong}")
            assert wrong not in f"{failed.value!r} {failed.value} {failed.value.__dict__} {model!r} {model.info!r}"
            assert "[redacted]" in str(failed.value)

    asyncio.run(main())
