"""The transport over real sockets: faults, timeouts, cancellation, keys, concurrency."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.servers.openai_chat import BROKEN, LIMITED, OVERLOADED, ChatServer, Reply
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Model
from ttc_eval.models.http import HttpConnection, HttpModel, Timeouts
from ttc_eval.records import CallStop, Message, Request, Sampling, UsageSource
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

KEY = "sk-planted-0123456789"
FAST = Timeouts(connect_s=5, first_token_s=5, idle_s=5, total_s=10)


def request(draw: int = 0, content: str = "2+2?", **changes: Any) -> Request:
    return replace(Request("m", "e", (Message("user", content),), Thinking(), Sampling(), 32, 96, draw=draw), **changes)


def model(url: str, **fields: Any) -> HttpModel:
    return HttpModel(**{"name": "local", "base_url": url, "model": "m", "timeouts": FAST, **fields})


def talk(server: ChatServer, use: Callable[[HttpConnection, ChatServer], Awaitable[None]], **fields: Any) -> None:
    async def main() -> None:
        async with server, model(server.url, **fields).connect() as connection:
            await use(connection, server)

    asyncio.run(asyncio.wait_for(main(), 60))


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


def fails(reply: Reply, **fields: Any) -> CallFailed:
    failures = []

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        with pytest.raises(CallFailed) as failed:
            await connection.respond(request())
        failures.append(failed.value)
        # The line is still good for the next request.
        assert (await connection.respond(request())).text == "ok"
        assert server.count == 2

    talk(ChatServer(script=[reply]), use, **fields)
    return failures[0]


def test_a_response_with_its_usage_timings_and_what_was_sent() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        response = await connection.respond(request())
        assert (response.text, response.thinking, response.stop) == ("four is it", "two and two", CallStop.END)
        assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.reasoning_tokens) == (10, 6, 3)
        assert response.usage.source is UsageSource.PROVIDER
        assert response.timings.first_token_s is not None
        assert 0.02 <= response.timings.first_token_s < response.timings.latency_s
        assert response.timings.started_at > 1.7e9
        assert response.sent == {"max_tokens": 96, "seed": request().sampling_seed}
        assert server.bodies[0]["messages"] == [{"role": "user", "content": "2+2?"}]

    talk(ChatServer(script=[Reply(text="four is it", thinking="two and two", latency_s=0.02, gap_s=0.005)]), use)


def test_connections_are_used_again() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        for draw in range(5):
            await connection.respond(request(draw))
        assert server.connections == 1

    talk(ChatServer(), use)


def test_a_server_that_closes_after_every_stream_is_given_a_new_connection_each_time() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        for draw in range(5):
            await connection.respond(request(draw))
        assert server.connections == 5

    talk(ChatServer(), use, dialect="llama_cpp")


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "status"),
    [
        (LIMITED, "rate_limited", True, 429),
        (OVERLOADED, "overloaded", True, 503),
        (BROKEN, "server_error", True, 500),
        (Reply(status=302, headers={"location": "http://127.0.0.1:1/"}), "invalid_request", False, 302),
        (Reply(body=b'{"error":{"type":"overloaded_error","message":"x"}}'), "overloaded", True, 200),
        (Reply(body=b"<html>login</html>"), "invalid_response", False, 200),
        (Reply(fault="reset"), "connection", True, None),
        (Reply(text="abcdef", chunks=6, fault="cut"), "connection", True, 200),
        (Reply(text="abcdef", chunks=6, fault="close"), "incomplete", True, 200),
        (Reply(text="abcdef", chunks=6, fault="no_done"), "incomplete", True, 200),
        (Reply(text="abcdef", chunks=6, fault="no_finish"), "incomplete", True, 200),
        (Reply(text="abcdef", chunks=6, fault="error_event"), "overloaded", True, 200),
        (Reply(text="abcdef", chunks=6, fault="garbage"), "invalid_response", True, 200),
    ],
    ids=lambda value: value.fault or str(value.status) if isinstance(value, Reply) else None,
)
def test_every_fault_is_one_failed_call_of_its_kind(reply: Reply, kind: str, retryable: bool, status: int | None) -> None:
    failure = fails(reply)
    assert (failure.kind, failure.retryable, failure.http_status) == (kind, retryable, status)
    assert reply.text.startswith(failure.partial_text)
    if reply.fault in ("cut", "close", "error_event", "garbage"):
        assert failure.partial_text
    if status == 200 and reply.fault not in ("no_done", "no_finish"):
        assert failure.usage is None


def test_retry_after_is_passed_on() -> None:
    assert fails(replace(LIMITED, headers={"retry-after-ms": "20"})).retry_after == pytest.approx(0.02)
    limits = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "30ms"}
    assert fails(replace(LIMITED, headers=limits)).retry_after == pytest.approx(0.03)


def test_missing_usage_is_unknown_and_content_after_the_end_does_not_count() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        assert (await connection.respond(request())).usage.source is UsageSource.UNKNOWN
        assert (await connection.respond(request())).text == "ok"

    talk(ChatServer(script=[Reply(usage=None), Reply(fault="late")]), use)


def test_a_reply_that_never_ends_after_its_terminator_is_complete() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        assert (await connection.respond(request())).text == "ok"
        assert (await connection.respond(request())).text == "ok"

    talk(ChatServer(script=[Reply(fault="keep_open")]), use)


def test_a_stale_connection_is_a_failure_to_retry() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        await connection.respond(request())
        with pytest.raises(CallFailed) as failed:
            await connection.respond(request())
        assert (failed.value.kind, failed.value.retryable) == ("connection", True)
        assert server.connections == 1
        await connection.respond(request())

    talk(ChatServer(script=[Reply(), Reply(fault="reset")]), use)


def test_no_server_is_a_failure_that_used_nothing() -> None:
    async def main() -> None:
        async with ChatServer() as server:
            url = server.url
        async with model(url).connect() as connection:
            with pytest.raises(CallFailed) as failed:
                await connection.respond(request())
        assert (failed.value.kind, failed.value.retryable) == ("connection", True)
        assert failed.value.usage is not None
        assert failed.value.usage.output_tokens == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "timeouts", "kind"),
    [
        (Reply(fault="hang"), replace(FAST, first_token_s=0.1), "first_token_timeout"),
        (Reply(text="abcdef", chunks=6, fault="stall"), replace(FAST, idle_s=0.1), "idle_timeout"),
        (Reply(text="abcdef" * 50, chunks=300, gap_s=0.02), replace(FAST, idle_s=5, total_s=0.3), "total_timeout"),
    ],
    ids=["first token", "idle", "total"],
)
def test_each_timeout_has_its_kind(reply: Reply, timeouts: Timeouts, kind: str) -> None:
    failure = fails(reply, timeouts=timeouts)
    assert (failure.kind, failure.retryable) == (kind, True)
    assert bool(failure.partial_text) is (kind != "first_token_timeout")


def test_a_slow_stream_that_keeps_coming_is_not_idle() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        assert (await connection.respond(request())).text == "abcdef" * 3

    talk(ChatServer(script=[Reply(text="abcdef" * 3, chunks=18, gap_s=0.03)]), use, timeouts=replace(FAST, idle_s=0.3))


def test_connecting_has_a_timeout_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import aiohttp

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", never)
        with pytest.raises(CallFailed) as failed:
            await connection.respond(request())
        assert (failed.value.kind, failed.value.retryable) == ("connect_timeout", True)
        assert failed.value.usage is not None

    talk(ChatServer(), use, timeouts=replace(FAST, connect_s=0.1))


def test_the_callers_own_time_bounds_the_exchange_and_is_no_reason_to_retry() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        with pytest.raises(CallFailed) as failed:
            await connection.respond(request(), timeout=0.1)
        assert (failed.value.kind, failed.value.retryable) == ("total_timeout", False)
        connection.window.leave(await connection.window.enter(), _refused(), 30.0)
        with pytest.raises(CallFailed) as failed:
            await connection.respond(request(), timeout=0.1)
        assert (failed.value.kind, server.count) == ("total_timeout", 1)
        assert failed.value.usage is not None

    talk(ChatServer(script=[Reply(fault="hang")]), use)


def _refused() -> Any:
    from ttc_eval.models.rate import Outcome

    return Outcome.REFUSED


def test_cancelling_closes_the_connection_and_frees_the_place() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        task = asyncio.create_task(connection.respond(request()))
        await until(lambda: server.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.aborted == 1)
        assert connection.window.in_flight == 0
        assert (await connection.respond(request())).text == "ok"

    for fault in ("hang", "stall"):
        talk(ChatServer(script=[Reply(fault=fault)]), use, max_concurrency=1)


def test_a_refusal_narrows_the_window_and_what_is_refused_once_goes_through_later() -> None:
    limit = 8

    def answer(body: dict[str, Any], number: int) -> Reply | str:
        return replace(LIMITED, headers={"retry-after-ms": "5"}, latency_s=0.0) if server.in_flight > limit else "ok"

    server = ChatServer(answer, latency_s=0.005)

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        async def insist(draw: int) -> int:
            for refusals in range(100):
                try:
                    assert (await connection.respond(request(draw))).text == "ok"
                except CallFailed as failure:
                    assert failure.kind == "rate_limited"
                    await asyncio.sleep(failure.retry_after or 0)
                else:
                    return refusals
            raise AssertionError("never answered")

        refusals = sum(await asyncio.gather(*(insist(draw) for draw in range(300))))
        assert refusals < 300
        assert connection.window.size < 64

    talk(server, use, max_concurrency=64)


def test_300_streams_at_once() -> None:
    def answer(body: dict[str, Any], number: int) -> Reply:
        return Reply(text=body["messages"][0]["content"], chunks=4, gap_s=0.01)

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        asked = [f"text number {draw} é🙂" for draw in range(300)]
        responses = await asyncio.gather(*(connection.respond(request(draw, text)) for draw, text in enumerate(asked)))
        assert [response.text for response in responses] == asked
        assert server.max_in_flight > 100
        assert connection.window.in_flight == 0

    talk(ChatServer(answer), use, max_concurrency=300)


def test_no_more_than_max_concurrency_are_in_flight() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        await asyncio.gather(*(connection.respond(request(draw)) for draw in range(20)))
        assert (server.max_in_flight, server.connections) == (4, 4)

    talk(ChatServer(latency_s=0.005), use, max_concurrency=4)


def test_a_body_of_more_than_a_megabyte_goes_through() -> None:
    async def use(connection: HttpConnection, server: ChatServer) -> None:
        await connection.respond(request(content="x" * 3_000_000))
        assert len(server.bodies[0]["messages"][0]["content"]) == 3_000_000

    talk(ChatServer(), use)


def test_what_a_model_cannot_do_is_refused_before_anything_is_sent() -> None:
    budget = Thinking(ThinkingMode.BUDGET, budget=8)

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        with pytest.raises(UserError, match="it takes: off"):
            await connection.respond(request(thinking=budget))
        with pytest.raises(UserError, match="cannot continue"):
            await connection.respond(request(prefix="So"))
        assert (server.count, connection.window.in_flight) == (0, 0)

    talk(ChatServer(), use)

    async def generic(connection: HttpConnection, server: ChatServer) -> None:
        with pytest.raises(UserError, match="cannot express it; it can: off, effort"):
            await connection.respond(request(thinking=budget))
        assert server.count == 0

    talk(ChatServer(), generic, thinking=ThinkingSupport(accepts=(ThinkingMode.BUDGET,)))


# Keys


def test_the_key_goes_out_as_a_header_and_shows_nowhere_else(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    echo = f'{{"error":{{"message":"bad key {KEY} and {"x" * 270}{KEY}"}}}}'.encode()
    script = [
        Reply(status=401, body=echo),
        Reply(status=500, body=f"Authorization: Bearer {KEY}".encode()),
        Reply(body=echo),
        Reply(fault="reset"),
        Reply(fault="cut"),
        Reply(fault="garbage"),
        Reply(status=302),
        Reply(status=99),
    ]
    seen: list[str] = []

    async def use(connection: HttpConnection, server: ChatServer) -> None:
        for _ in script.copy():
            try:
                await connection.respond(request())
            except CallFailed as failure:
                seen.append(f"{failure!r} {failure} {failure.__dict__} {''.join(traceback.format_exception(failure))}")
        seen.append(f"{connection!r} {connection.window!r}")
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}

    fields = {"api_key_env": "PLANTED_KEY", "headers": {"X-Secret": f"{KEY}-other"}}
    talk(ChatServer(script=script), use, **fields)
    built = model("http://localhost/v1", **fields)
    seen.append(f"{built!r} {built.info!r}")
    assert len(seen) == len(script) + 2
    assert KEY not in "".join(seen) + caplog.text
    assert "planted" not in "".join(seen) + caplog.text
    assert "[redacted]" in "".join(seen)


def test_a_missing_key_names_the_variable_or_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def open_(**fields: Any) -> None:
        async with model("http://localhost/v1", **fields).connect():
            pass

    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(UserError, match="NO_SUCH_KEY"):
        asyncio.run(open_(api_key_env="NO_SUCH_KEY"))
    with pytest.raises(UserError, match=r"missing\.txt"):
        asyncio.run(open_(api_key_file=str(tmp_path / "missing.txt")))
    file = tmp_path / "key.txt"
    for content, usable in ((f" {KEY}\n", True), ("", False), (f"{KEY}\nsecond line", False), (f"{KEY}é", False)):
        file.write_text(content, encoding="utf-8")
        if usable:
            asyncio.run(open_(api_key_file=str(file)))
            continue
        with pytest.raises(UserError) as refusal:
            asyncio.run(open_(api_key_file=str(file)))
        assert KEY not in str(refusal.value)


# Configuration


def test_the_endpoint_is_host_and_path_and_may_be_named() -> None:
    assert model("https://api.example.com:8443/v1/?api-version=2").endpoint == "api.example.com/v1"
    named = model("http://localhost:8000/v1", endpoint="lab a").info.endpoint
    assert named.startswith("lab a#generic")
    assert model("http://localhost:8000/v1", endpoint="lab a", dialect="vllm").info.endpoint != named, "another request, another draw"
    built: Model = model("http://localhost/v1", max_concurrency=7)
    assert (built.info.name, built.info.max_concurrency, built.info.simulated) == ("local", 7, False)


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://x/v1", "http:///v1", "http://user:pass-word@host/v1", "http://host:port/v1", "http://h/v1?api_key=pass-word"],
)
def test_an_unusable_base_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UserError) as refusal:
        model(url)
    assert "base_url" in str(refusal.value)
    assert "pass-word" not in str(refusal.value)


def test_unusable_fields_are_refused() -> None:
    with pytest.raises(UserError, match="dialect=nope"):
        model("http://localhost/v1", dialect="nope")
    with pytest.raises(UserError, match="max_concurrency"):
        model("http://localhost/v1", max_concurrency=0)
    with pytest.raises(UserError, match="idle_s"):
        Timeouts(idle_s=0)


def test_a_query_in_the_base_url_is_kept() -> None:
    async def main() -> None:
        async with ChatServer() as server, model(server.url + "/?api-version=1").connect() as connection:
            assert (await connection.respond(request())).text == "ok"
            assert server.paths == ["/v1/chat/completions?api-version=1"]

    asyncio.run(main())


def test_importing_the_module_does_not_import_the_client() -> None:
    code = "import sys, ttc_eval.models.http; assert 'aiohttp' not in sys.modules and 'yarl' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_the_server_runs_by_itself() -> None:
    command = [sys.executable, "-m", "tests.servers.openai_chat", "--port", "0", "--text", "hello"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        async def main() -> None:
            async with model(url).connect() as connection:
                assert (await connection.respond(request())).text == "hello"

        asyncio.run(main())
        process.communicate()
    assert process.returncode == 0
