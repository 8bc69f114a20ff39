"""What the server makes of a model's responses, and how its stream ends, with a model whose responses are listed."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import pytest

from ttc_eval.models.base import ForcedThinking, ModelInfo
from ttc_eval.protocol.server.events import Messages
from ttc_eval.protocol.server.generate import End, Piece, answer
from ttc_eval.protocol.server.intake import Call
from ttc_eval.protocol.server.refusals import Refused
from ttc_eval.protocol.server.service import Bounds, Service
from ttc_eval.protocol.server.stream import Answer, Desk
from ttc_eval.records import UNKNOWN_USAGE, CallStop, Message, Request, Response, Sampling, Timings, Usage, UsageSource
from ttc_eval.thinking import AtLimit, ThinkingMode, ThinkingSupport

SUPPORT = ThinkingSupport((ThinkingMode.OFF, ThinkingMode.BUDGET), reports_reasoning_tokens=True)
NATIVE = Service(ModelInfo("m", "e", SUPPORT))
FORCED = Service(ModelInfo("m", "e", replace(SUPPORT, forced_by_prefix=True), ForcedThinking("<t>", "</t>", "<s>", ("</t>",))))
CALL = Call((Message("user", "q"),), 8, 10, (), Sampling(), None)
SEED = 1


def response(text: str, tokens: int, stop: CallStop = CallStop.END, thinking: str | None = None, thought: int | None = None) -> Response:
    usage = Usage(5, tokens, reasoning_tokens=thought, source=UsageSource.COUNTED)
    return Response(text, stop, usage, Timings(0.0, 0.0, 0.0), thinking)


class Listed:
    """A connection that gives listed responses and keeps the requests."""

    def __init__(self, *responses: Response) -> None:
        self.left = list(responses)
        self.requests: list[Request] = []

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        self.requests.append(request)
        return self.left.pop(0)


def answered(service: Service, line: Listed, call: Call = CALL) -> tuple[list[tuple[str, str]], str, list[int]]:
    """Pieces, stop reason and counts of one answer."""

    async def scenario() -> list[Piece | End]:
        return [part async for part in answer(line, service, call, SEED)]

    *pieces, end = asyncio.run(scenario())
    assert isinstance(end, End)
    return [(one.kind, one.text) for one in pieces if isinstance(one, Piece)], end.stop_reason, list(end.counts.usage().values())


def refused(service: Service, line: Listed, call: Call = CALL) -> str:
    with pytest.raises(Refused) as caught:
        answered(service, line, call)
    return caught.value.refusal.code


def test_a_native_budget_is_asked_to_fail_and_its_tokens_are_told_apart() -> None:
    line = Listed(response("42", 9, thinking="hm", thought=6))
    assert answered(NATIVE, line) == ([("thinking", "hm"), ("text", "42")], "end_turn", [5, 3, 6, 0])
    assert line.requests[0].thinking.at_limit is AtLimit.FAIL
    assert (line.requests[0].max_output_tokens, line.requests[0].answer_tokens) == (18, 8)


def test_a_native_budget_that_ran_out_brings_no_text_in_either_form() -> None:
    for stop in (CallStop.BUDGET_EXCEEDED, CallStop.MAX_TOKENS):
        ran_out = response("", 11, stop, "hm", 10)
        assert answered(NATIVE, Listed(ran_out)) == ([("thinking", "hm")], "budget_exceeded", [5, 0, 10, 0])
        waited = replace(NATIVE, wait_form=True)
        assert answered(waited, Listed(ran_out)) == ([("thinking", "hm"), ("thinking", "[WAIT]")], "stop_sequence", [5, 0, 10, 0])


def test_a_model_that_ends_exactly_at_its_budget_may_answer_unless_it_was_made_to() -> None:
    exact = response("42", 12, thinking="hm", thought=10)
    assert answered(NATIVE, Listed(exact))[1] == "end_turn"
    assert answered(replace(NATIVE, fails_at_budget=False), Listed(exact)) == ([("thinking", "hm")], "budget_exceeded", [5, 0, 10, 0])


def test_what_breaks_the_protocol_is_an_error_and_not_passed_on() -> None:
    assert refused(NATIVE, Listed(response("42", 20, thinking="hm", thought=12))) == "budget_overrun"
    assert refused(NATIVE, Listed(response("", 5, CallStop.CONTEXT_FULL, "hm", 4))) == "context_full"
    assert refused(NATIVE, Listed(response("no", 9, CallStop.REFUSAL, "hm", 4))) == "refusal"
    assert refused(NATIVE, Listed(replace(response("42", 9), usage=UNKNOWN_USAGE))) == "usage_unknown"
    assert refused(NATIVE, Listed(response("42", 9, thinking="hm"))) == "usage_unknown", "thinking that was not counted"


def test_text_that_takes_what_thinking_left_is_made_again_with_a_lower_cap() -> None:
    long = response("a long answer", 14, CallStop.MAX_TOKENS, "hm", 4)
    line = Listed(long, response("a long", 12, CallStop.MAX_TOKENS, "hm", 4))
    assert answered(NATIVE, line) == ([("thinking", "hm"), ("text", "a long")], "max_tokens", [5, 8, 4, 0])
    assert [one.max_output_tokens for one in line.requests] == [18, 12]
    assert refused(NATIVE, Listed(long, long, long)) == "max_tokens_overrun"


def test_a_marker_that_the_model_writes_itself_is_a_hard_stop_in_the_fallback_form() -> None:
    waited = replace(NATIVE, wait_form=True)
    own = response("42", 9, thinking="a [WAIT] b", thought=6)
    assert answered(waited, Listed(own)) == ([("thinking", "a "), ("thinking", "[WAIT]")], "stop_sequence", [5, 0, 6, 0])
    forced = replace(FORCED, wait_form=True)
    assert answered(forced, Listed(response("a [WAIT] b", 6)))[:2] == ([("thinking", "a "), ("thinking", "[WAIT]")], "stop_sequence")
    assert answered(NATIVE, Listed(own))[1] == "end_turn"


def test_a_forced_budget_takes_two_requests_and_stops_apply_to_the_second() -> None:
    call = replace(CALL, stops=("#",))
    line = Listed(response("hm", 6), response("42", 3, CallStop.END), response("42# and more", 8, CallStop.MAX_TOKENS))
    assert answered(FORCED, line, call) == ([("thinking", "hm"), ("text", "42")], "stop_sequence", [5, 3, 6, 0])
    assert [one.sampling.stop for one in line.requests] == [("</t>",), ("\n", "#"), ("\n",)]
    assert [one.prefix for one in line.requests] == ["<t>", "<t>hm</t>", "<t>hm</t>"]
    natural = Listed(response("hm", 6), response("42", 3, CallStop.END), response("42", 3, CallStop.END))
    assert answered(FORCED, natural, call)[1] == "end_turn"


def test_a_forced_budget_ends_at_its_last_token_and_a_full_context_is_not_called_that() -> None:
    ran_out = Listed(response("hm", 10, CallStop.MAX_TOKENS))
    assert answered(FORCED, ran_out) == ([("thinking", "hm")], "budget_exceeded", [5, 0, 10, 0])
    assert ran_out.requests[0].max_output_tokens == 10
    assert refused(FORCED, Listed(response("hm", 7, CallStop.MAX_TOKENS))) == "context_full"
    assert refused(FORCED, Listed(response("hm", 7, CallStop.CONTEXT_FULL))) == "context_full"


def test_an_ordinary_call_shows_no_thinking_and_counts_none_of_it_as_text() -> None:
    call = replace(CALL, budget=None)
    line = Listed(response("42", 9, thinking="hm", thought=6))
    assert answered(NATIVE, line, call) == ([("text", "42")], "end_turn", [5, 3, 0, 0])
    assert line.requests[0].thinking.mode is ThinkingMode.OFF
    assert line.requests[0].max_output_tokens == 8


def test_a_silent_model_is_covered_by_comments_and_its_call_ends_when_the_client_leaves() -> None:
    class Silent:
        cancelled = False

        async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            raise AssertionError

    async def scenario() -> tuple[bool, bytes, int]:
        line, sent, beats, left = Silent(), bytearray(), asyncio.Event(), asyncio.Event()
        desk = Desk(replace(NATIVE, bounds=Bounds(heartbeat_s=0.01)), line)

        async def receive() -> MutableMapping[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.extend(message.get("body", b""))
            if sent.count(b": waiting") >= 3:
                beats.set()

        reply = Answer(desk, CALL, Messages, asyncio.get_running_loop().time() + 60, "/v1/messages")
        task = asyncio.create_task(reply({}, receive, send))
        await asyncio.wait_for(beats.wait(), 30)
        left.set()
        await asyncio.wait_for(task, 30)
        return line.cancelled, bytes(sent), desk.in_flight

    cancelled, sent, in_flight = asyncio.run(scenario())
    assert (cancelled, in_flight) == (True, 0)
    assert sent.startswith(b"event: message_start\n")
    assert b"message_stop" not in sent


def test_a_defect_is_told_to_the_client_without_its_text_and_to_the_log_without_the_request(caplog: pytest.LogCaptureFixture) -> None:
    words = "planted words of the request"

    class Broken:
        async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
            raise KeyError(words)

    sent: list[MutableMapping[str, Any]] = []

    async def scenario() -> None:
        async def receive() -> MutableMapping[str, Any]:
            await asyncio.sleep(3600)
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await Answer(Desk(NATIVE, Broken()), CALL, Messages, asyncio.get_running_loop().time() + 60, "/v1/messages")({}, receive, send)

    with caplog.at_level("INFO", "ttc_eval.serve"):
        asyncio.run(scenario())
    assert sent[0]["status"] == 500
    assert b"internal_error" in sent[1]["body"]
    assert "KeyError" in caplog.text
    assert "planted" not in caplog.text + repr(sent)
