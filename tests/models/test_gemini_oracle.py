"""The official Google SDK as an oracle: the same local Gemini server, the same replies, and what both make of them.

Where the two differ, the difference is a choice of ours, named in the test: see the tests whose names say "where the SDK". The SDK's own
continuation, which sends hidden requests, is off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.servers.gemini import LIMITED, OVERLOADED, GeminiServer, Reply, call, result, say, think
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.http import HttpConnection, HttpModel, Timeouts
from ttc_eval.records import CallStop, Message, Request, Response, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

genai = pytest.importorskip("google.genai", reason="the oracle is in the extra dev")

# The SDK's own use of aiohttp.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

KEY = "AIza-planted-0123456789"
SUPPORT = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), min_budget=0, display="thoughts")
TOOL = {"functionDeclarations": [{"name": "double", "parameters": {"type": "OBJECT", "properties": {"x": {"type": "INTEGER"}}}}]}


def request(**changes: Any) -> Request:
    messages = (Message("system", "Be brief."), Message("user", "2 to the 10th?"))
    thinking = Thinking(ThinkingMode.BUDGET, budget=512)
    sampling = Sampling(temperature=0.5, top_p=0.75, stop=("END",))
    return replace(Request("gemini-x", "e", messages, thinking, sampling, 2048, 4096, tools=(TOOL,)), **changes)


def arguments(asked: Request) -> dict[str, Any]:
    """The same request in the SDK's words."""
    turns = [
        {"role": "model" if turn.role == "assistant" else "user", "parts": list(turn.blocks) or [{"text": turn.content}]}
        for turn in asked.messages[1:]
    ]
    config = {
        "system_instruction": {"parts": [{"text": asked.messages[0].content}]},
        "max_output_tokens": asked.max_output_tokens,
        "temperature": asked.sampling.temperature,
        "top_p": asked.sampling.top_p,
        "stop_sequences": list(asked.sampling.stop),
        "seed": asked.sampling_seed,
        "thinking_config": genai.types.ThinkingConfig(thinking_budget=asked.thinking.budget, include_thoughts=True),
        "tools": [dict(tool) for tool in asked.tools],
        "automatic_continuation": False,
        "automatic_function_calling": {"disable": True},
    }
    return {"model": asked.model, "contents": turns, "config": config}


def talk(server: GeminiServer, use: Callable[[GeminiServer, HttpConnection, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        server.key = KEY
        async with server:
            model = HttpModel("gemini", server.url, "gemini-x", wire="gemini", thinking=SUPPORT, timeouts=Timeouts(5, 5, 5, 10))
            client = genai.Client(api_key=KEY, http_options={"base_url": server.root, "timeout": 10_000})
            try:
                async with replace(model, headers={"x-goog-api-key": KEY}).connect() as connection:
                    await use(server, connection, client)
            finally:
                await client.aio.aclose()
                client.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def theirs(client: Any, asked: Request) -> list[Any]:
    """The chunks of the SDK's stream."""
    return [one async for one in await client.aio.models.generate_content_stream(**arguments(asked))]


def agree(ours: Response, chunks: list[Any]) -> None:
    parts = [
        part
        for one in chunks
        for part in ((one.candidates or [None])[0].content.parts if one.candidates and one.candidates[0].content else [])
    ]
    assert ours.text == "".join(part.text or "" for part in parts if not part.thought)
    assert (ours.thinking or "") == "".join(part.text or "" for part in parts if part.thought)
    calls = [part.function_call for part in parts if part.function_call]
    given = [part["functionCall"] for part in ours.blocks if "functionCall" in part]
    assert [(one.name, one.args) for one in calls] == [(one["name"], one["args"]) for one in given]
    last = chunks[-1]
    if last.candidates:
        assert ours.stop_raw == last.candidates[0].finish_reason.value
    else:
        assert ours.stop_raw == f"blocked/{last.prompt_feedback.block_reason.value}"
    used = last.usage_metadata
    if used is None:
        assert not ours.usage.known
        return
    assert ours.usage.input_tokens == used.prompt_token_count
    assert ours.usage.cached_input_tokens == used.cached_content_token_count
    assert ours.usage.input_tokens + (ours.usage.output_tokens or 0) == used.total_token_count


REPLIES = [
    Reply([say("four")], thought=0),
    Reply([think("two and two"), say("four is it")]),
    Reply([think("so"), say("Doubling."), call("double", x=2, note="naïve 漢字 🙂"), call("double")]),
    Reply([think("why " * 30), say("so " * 3000)], chunk=400),
    Reply([say("x"), say("y", thoughtSignature="c2ln")]),
    Reply([say("x")], finish="MAX_TOKENS"),
    Reply([], finish="MAX_TOKENS", usage={"thoughtsTokenCount": 4096, "totalTokenCount": 4116}),
    Reply([say("x")], finish="SAFETY"),
    Reply([say("x")], finish="RECITATION"),
    Reply([say("x")], finish="CONTINUATION"),
    Reply(blocked="PROHIBITED_CONTENT"),
    Reply([think("a"), say("x")], inclusive=True),
    Reply([say("x")], usage=None),
]


@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
def test_what_is_sent_and_what_is_made_of_the_reply_agree(reply: Reply) -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        ours, chunks = await connection.respond(request()), await theirs(client, request())
        agree(ours, chunks)
        assert normal(server.bodies[0]) == normal(server.bodies[1])
        assert server.paths[0] == server.paths[1] == "/v1/models/gemini-x:streamGenerateContent?alt=sse"
        assert [headers["x-goog-api-key"] for headers in server.headers] == [KEY, KEY]
        assert server.count == 2, "neither asked for more"

    talk(GeminiServer([reply] * 2), use)


def normal(value: Any) -> Any:
    """JSON with every name in one of the two spellings that this API takes: the SDK writes those inside `thinkingConfig` in the other."""
    if isinstance(value, dict):
        return {re.sub("_([a-z])", lambda found: found[1].upper(), name): normal(inner) for name, inner in value.items()}
    return [normal(inner) for inner in value] if isinstance(value, list) else value


def test_a_tool_loop_of_ten_turns_goes_through_with_its_signatures() -> None:
    def answer(body: dict[str, Any], number: int) -> Reply:
        if number == 10:
            return Reply([say("1024")])
        return Reply([think(f"step {number}"), call("double", x=2**number)], thought=5 + number) if number < 10 else Reply([say("ok")])

    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        asked = request()
        for step in range(10):
            found = await connection.respond(asked)
            assert (found.stop, found.thinking, found.usage.reasoning_tokens) == (CallStop.TOOL_USE, f"step {step}", 5 + step)
            turn = Message("assistant", found.text, found.blocks)
            asked = replace(asked, messages=(*asked.messages, turn, Message("user", "", (result("double", y=2 ** (step + 1)),))))
        assert (await connection.respond(asked)).text == "1024"
        assert server.refusals == []
        await theirs(client, asked)
        assert normal(server.bodies[10]) == normal(server.bodies[11])
        part = {name: value for name, value in asked.messages[2].blocks[-1].items() if name != "thoughtSignature"}
        unsigned = replace(asked.messages[2], blocks=(*asked.messages[2].blocks[:-1], part))
        with pytest.raises(CallFailed, match="thought_signature") as failed:
            await connection.respond(replace(asked, messages=(*asked.messages[:2], unsigned, *asked.messages[3:])))
        assert failed.value.kind == "invalid_request"

    talk(GeminiServer(answer=answer), use)


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "wait"),
    [
        (LIMITED, "rate_limited", True, 39.0),
        (OVERLOADED, "overloaded", True, None),
        (Reply(http=400, error={"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}), "invalid_request", False, None),
        (Reply(http=403, error={"code": 403, "message": "no", "status": "PERMISSION_DENIED"}), "authentication", False, None),
        (Reply(http=404, error={"code": 404, "message": "no", "status": "NOT_FOUND"}), "invalid_request", False, None),
        (Reply(http=500, error={"code": 500, "message": "no", "status": "INTERNAL"}), "server_error", True, None),
    ],
    ids=lambda value: str(value.http) if isinstance(value, Reply) else None,
)
def test_errors_are_the_same_ones(reply: Reply, kind: str, retryable: bool, wait: float | None) -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        with pytest.raises(genai.errors.APIError) as other:
            await theirs(client, request())
        assert (ours.value.kind, ours.value.retryable, ours.value.http_status) == (kind, retryable, other.value.code)
        assert ours.value.retry_after == wait
        assert other.value.message in str(ours.value)
        assert server.count == 2, "neither tried again"

    talk(GeminiServer([reply] * 2), use)


@pytest.mark.parametrize(("fault", "kind"), [("cut", "connection"), ("garbage", "invalid_response"), ("error_event", "overloaded")])
def test_a_broken_stream_is_an_error_to_both(fault: Any, kind: str) -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable, ours.value.usage) == (kind, True, None)
        assert "abcdefghij".startswith(ours.value.partial_text)
        with pytest.raises(Exception):  # noqa: B017 - the SDK has no one error for these
            await theirs(client, request())

    talk(GeminiServer([Reply([think("a"), say("abcdefghij")], chunk=1, fault=fault)] * 2), use)


def test_where_the_sdk_sends_a_request_again_after_a_reset_ours_is_one_failed_call() -> None:
    """With no retries asked for, the SDK still opens another connection and sends the request a second time."""

    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable, server.count) == ("connection", True, 1)
        server.script = [Reply(fault="reset"), Reply([say("ok")])]
        await theirs(client, request())
        assert server.count == 3

    talk(GeminiServer([Reply(fault="reset")]), use)


@pytest.mark.parametrize("fault", ["close", "no_finish"])
def test_where_the_sdk_says_nothing_of_a_stream_that_was_cut_ours_is_a_failed_call(fault: Any) -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        assert (await theirs(client, request()))[-1].candidates[0].finish_reason is None
        with pytest.raises(CallFailed) as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable, ours.value.usage) == ("incomplete", True, None)

    talk(GeminiServer([Reply([say("abcdefghij")], chunk=1, fault=fault)] * 2), use)


def test_a_chunk_torn_by_the_end_of_the_stream_makes_it_incomplete() -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        with pytest.raises(CallFailed, match="inside an event") as ours:
            await connection.respond(request())
        assert (ours.value.kind, ours.value.retryable, ours.value.partial_text) == ("incomplete", True, "four")

    talk(GeminiServer([Reply([say("four")], fault="torn")]), use)


def test_where_the_sdk_shows_the_last_chunks_counts_ours_keep_one_that_vanished() -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        used = (await theirs(client, request()))[-1].usage_metadata
        assert (used.candidates_token_count, used.thoughts_token_count, used.cached_content_token_count) == (1, None, None)
        assert used.total_token_count == 28
        found = (await connection.respond(request())).usage
        assert (found.input_tokens, found.output_tokens, found.reasoning_tokens, found.cached_input_tokens) == (20, 8, 7, 4)

    talk(GeminiServer([Reply([think("a"), say("four")], fading=True)] * 2), use)


def test_where_the_sdk_by_default_asks_again_ours_reports_a_continuation_and_stops() -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        found = await connection.respond(request())
        assert (found.stop, found.complete, found.stop_raw, server.count) == (CallStop.INCOMPLETE, False, "CONTINUATION", 1)

    talk(GeminiServer([Reply([say("half of")], finish="CONTINUATION")]), use)


def test_timeouts_have_their_kind_after_a_finish_too() -> None:
    async def main() -> None:
        async with GeminiServer([Reply([say("abcdef")], chunk=1, fault="stall"), Reply(fault="hang")]) as server:
            limits = Timeouts(5, 0.1, 0.1, 10)
            model = HttpModel("gemini", server.url, "gemini-x", wire="gemini", thinking=SUPPORT, timeouts=limits)
            async with model.connect() as connection:
                for kind in ("idle_timeout", "first_token_timeout"):
                    with pytest.raises(CallFailed) as failed:
                        await connection.respond(request())
                    assert (failed.value.kind, failed.value.retryable) == (kind, True)

    asyncio.run(main())


def test_what_the_api_cannot_do_is_refused_before_anything_is_sent() -> None:
    async def use(server: GeminiServer, connection: HttpConnection, client: Any) -> None:
        for wrong in (request(thinking=Thinking(ThinkingMode.EFFORT, effort="low")), request(prefix="So"), request(max_output_tokens=512)):
            with pytest.raises(UserError):
                await connection.respond(wrong)
        assert server.count == 0

    talk(GeminiServer(), use)


def test_the_key_is_sent_in_its_header_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "AIza-wrong-planted-123"
    monkeypatch.setenv("PLANTED_GEMINI_KEY", wrong)

    async def main() -> None:
        async with GeminiServer(key=KEY) as server:
            model = HttpModel("gemini", server.url, "gemini-x", wire="gemini", api_key_env="PLANTED_GEMINI_KEY", thinking=SUPPORT)
            async with model.connect() as connection:
                with pytest.raises(CallFailed) as failed:
                    await connection.respond(request())
            assert (failed.value.kind, server.headers[0]["x-goog-api-key"]) == ("authentication", wrong)
            assert wrong not in f"{failed.value!r} {failed.value} {failed.value.__dict__} {model!r} {model.info!r} {server.paths}"
            assert "[redacted]" in str(failed.value)

    asyncio.run(main())
