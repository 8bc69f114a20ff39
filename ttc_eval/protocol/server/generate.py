"""One answer: the thinking within its budget, then the text, and what ended it. The model is the only I/O.

`Connection.respond` returns whole responses, so a part is there when the model has ended it: thinking and text arrive apart from a
model that is forced by prefix, and together from one that takes a budget itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ttc_eval import forcing
from ttc_eval.forcing import Part
from ttc_eval.models.base import Connection
from ttc_eval.protocol.schemas import WAIT
from ttc_eval.protocol.server.intake import Call
from ttc_eval.protocol.server.refusals import USAGE_UNKNOWN, Refusal, Refused
from ttc_eval.protocol.server.service import Service
from ttc_eval.records import CallStop, Request, Response, Usage
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

Kind = Literal["thinking", "text"]

_STOPS = {
    CallStop.END: "end_turn",
    CallStop.STOP_SEQUENCE: "stop_sequence",
    CallStop.MAX_TOKENS: "max_tokens",
    CallStop.CONTEXT_FULL: "max_tokens",  # the nearest that the protocol has: the text was cut
}
_OVERRUN_TRIES = 3
_PROBE_TOKENS = 16  # more than any stop sequence is likely to have


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the answer, whole or not; pieces of one kind follow each other without a gap."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens in the protocol's own sense: `output` is of the text alone, `cache_creation` a part of `input`."""

    input: int
    output: int
    thinking: int
    cache_creation: int

    def usage(self) -> dict[str, int]:
        """The protocol's usage object."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "thinking_tokens": self.thinking,
            "cache_creation_input_tokens": self.cache_creation,
        }


@dataclass(frozen=True, slots=True)
class End:
    """The end of an answer: its stop reason in the protocol's words, and its tokens."""

    stop_reason: str
    counts: Counts


async def answer(connection: Connection, service: Service, call: Call, seed: int) -> AsyncGenerator[Piece | End, None]:
    """The pieces of one answer in order, and its end.

    Raises `CallFailed` when the model failed, and `Refused` when what it did cannot be told within the protocol.
    """
    info = service.info
    request = Request(
        model=info.model or info.name,
        endpoint=info.endpoint,
        messages=call.messages,
        thinking=Thinking(),
        sampling=call.sampling,
        answer_tokens=call.max_tokens,
        max_output_tokens=call.max_tokens,
        seed=seed,
    )
    if call.budget is None:
        parts = _ordinary(connection, request, call)
    else:
        thinking = Thinking(ThinkingMode.BUDGET, call.budget, at_limit=AtLimit.FAIL)
        draw = replace(request, thinking=thinking, max_output_tokens=call.budget + call.max_tokens)
        parts = _forced(connection, service, draw, call) if info.forced is not None else _native(connection, service, draw, call)
    async for part in parts:
        yield part


async def _ordinary(connection: Connection, request: Request, call: Call) -> AsyncIterator[Piece | End]:
    response, stopped = await _respond(connection, request, call.stops)
    usage = response.usage
    # A model may think unasked; it is an ordinary call, so that is not shown and not called text.
    text_tokens = _known(usage.output_tokens) - (usage.reasoning_tokens or 0)
    yield Piece("text", response.text)
    yield End(_stop_reason(response, stopped), Counts(_known(usage.input_tokens), text_tokens, 0, _cache(usage)))


async def _forced(connection: Connection, service: Service, draw: Request, call: Call) -> AsyncIterator[Piece | End]:
    """A model that continues a prefix: one request thinks, a second answers."""
    forced, parts, stopped, hard_stop = service.info.forced, list[Part](), False, False
    assert forced is not None
    while not hard_stop and (segment := forcing.next_segment(draw, forced, parts)) is not None:
        if segment.thinks:
            part = Part(segment, await connection.respond(segment.request))
            thinking, hard_stop = _until_marker(part.response.text, service)
            if thinking:
                yield Piece("thinking", thinking)
            if not hard_stop:
                _check_room(part)
        else:
            response, stopped = await _respond(connection, segment.request, call.stops)
            part = Part(segment, response)
        parts.append(part)
    thoughts = [part.response.usage for part in parts if part.segment.thinks]
    thinking_tokens = sum(_known(usage.output_tokens) for usage in thoughts)
    input_tokens, last = _known(parts[0].response.usage.input_tokens), parts[-1]
    if last.segment.thinks:
        counts = Counts(input_tokens, 0, thinking_tokens, _cache(thoughts[0]))
        for piece in _exhausted(service, counts):
            yield piece
        return
    yield Piece("text", last.response.text)
    text_tokens = _known(last.response.usage.output_tokens)
    yield End(_stop_reason(last.response, stopped), Counts(input_tokens, text_tokens, thinking_tokens, _cache(thoughts[0])))


async def _native(connection: Connection, service: Service, draw: Request, call: Call) -> AsyncIterator[Piece | End]:
    """A model that takes a budget itself."""
    response, stopped = await _within_cap(connection, service, draw, call)
    usage, budget = response.usage, call.budget or 0
    input_tokens, thinking_tokens = _known(usage.input_tokens), _known(usage.reasoning_tokens)
    text_tokens = _known(usage.output_tokens) - thinking_tokens
    if thinking_tokens > budget + service.info.thinking.budget_slack:
        message = f"The model thought {thinking_tokens} tokens, beyond its budget of {budget}."
        raise Refused(Refusal(502, "api_error", "budget_overrun", message))
    thinking, hard_stop = _until_marker(response.thinking or "", service)
    if thinking:
        yield Piece("thinking", thinking)
    if hard_stop or _ran_out(response, thinking_tokens, budget, service.fails_at_budget):
        for piece in _exhausted(service, Counts(input_tokens, 0, thinking_tokens, _cache(usage))):
            yield piece
        return
    if response.stop is CallStop.CONTEXT_FULL and not response.text:
        raise _no_room()
    answered = bool(response.text) or response.stop in (CallStop.END, CallStop.STOP_SEQUENCE)
    if answered:
        yield Piece("text", response.text)
    counts = Counts(input_tokens, text_tokens if answered else 0, thinking_tokens, _cache(usage))
    yield End(_stop_reason(response, stopped), counts)


def _exhausted(service: Service, counts: Counts) -> Iterator[Piece | End]:
    if service.wait_form:
        # The marker is the server's word, not the model's, and no token of the thinking.
        yield Piece("thinking", WAIT)
    yield End("stop_sequence" if service.wait_form else "budget_exceeded", counts)


async def _within_cap(connection: Connection, service: Service, draw: Request, call: Call) -> tuple[Response, bool]:
    """A response whose text keeps to `max_tokens`.

    Where thinking and text share one cap, text may take what thinking left. Then the draw is made again with a cap that
    leaves no more than that; whether it thinks as long as before is the model's affair, so the result is checked again.
    """
    request = draw
    for _ in range(_OVERRUN_TRIES):
        response, stopped = await _respond(connection, request, call.stops)
        usage = response.usage
        over = _known(usage.output_tokens) - _known(usage.reasoning_tokens) - call.max_tokens
        if over <= 0 or not response.text or not service.info.thinking.budget_inside_max_tokens:
            break
        request = replace(draw, max_output_tokens=_known(usage.output_tokens) - over)
    else:
        raise Refused(Refusal(502, "api_error", "max_tokens_overrun", "The model did not keep to max_tokens."))
    return response, stopped


async def _respond(connection: Connection, request: Request, stops: tuple[str, ...]) -> tuple[Response, bool]:
    """A response to `request`, and whether one of `stops` ended it. The request's own stop strings are an ordinary end."""
    if not stops:
        return await connection.respond(request), False
    own = request.sampling.stop
    response = await connection.respond(_stopping_at(request, (*own, *stops)))
    place = min((response.text.find(stop) for stop in stops if stop in response.text), default=None)
    if place is not None:  # a model that takes no stop strings; the tokens beyond were generated, and stay counted
        return replace(response, text=response.text[:place], stop=CallStop.STOP_SEQUENCE), True
    if response.stop not in (CallStop.END, CallStop.STOP_SEQUENCE):
        return response, False
    if response.stop is CallStop.STOP_SEQUENCE and not own:
        return response, True
    # Several engines report a stop string as an ordinary end. The same draw without the stops shows what stood there.
    most = request.max_output_tokens if response.usage.output_tokens is None else response.usage.output_tokens + _PROBE_TOKENS
    further = await connection.respond(replace(_stopping_at(request, own), max_output_tokens=min(most, request.max_output_tokens)))
    return response, further.text.startswith(tuple(response.text + stop for stop in stops))


def _stopping_at(request: Request, stops: tuple[str, ...]) -> Request:
    return replace(request, sampling=replace(request.sampling, stop=stops))


def _stop_reason(response: Response, stopped: bool) -> str:
    if response.stop not in _STOPS:
        message = f"The model ended its answer in a way that the protocol has no word for: {response.stop.value}."
        raise Refused(Refusal(502, "api_error", response.stop.value, message))
    if response.stop in (CallStop.END, CallStop.STOP_SEQUENCE):
        return "stop_sequence" if stopped else "end_turn"
    return _STOPS[response.stop]


def _ran_out(response: Response, thinking_tokens: int, budget: int, fails_at_budget: bool) -> bool:
    if response.stop is CallStop.BUDGET_EXCEEDED:
        return True
    if thinking_tokens < budget:
        return False
    # At the budget: without text it was cut there; with text the model moved on by itself, if it could not be made to.
    return not response.text and response.stop is CallStop.MAX_TOKENS if fails_at_budget else True


def _check_room(part: Part) -> None:
    """Raise `Refused` when thinking was cut below its budget: then the context is full, and a larger budget would not help."""
    response, cap = part.response, part.segment.request.max_output_tokens
    cut = response.stop is CallStop.CONTEXT_FULL or (response.stop is CallStop.MAX_TOKENS and _known(response.usage.output_tokens) < cap)
    if cut:
        raise _no_room()


def _no_room() -> Refused:
    message = "The model's context was full before the thinking budget was used up; send less, or think less."
    return Refused(Refusal(400, "invalid_request_error", "context_full", message, "messages"))


def _until_marker(thinking: str, service: Service) -> tuple[str, bool]:
    """Thinking up to a marker that the model wrote itself, and whether it did: a client could not tell that one from ours."""
    if not service.wait_form or WAIT not in thinking:
        return thinking, False
    return thinking[: thinking.index(WAIT)], True


def _known(tokens: int | None) -> int:
    if tokens is None:
        raise Refused(USAGE_UNKNOWN)
    return tokens


def _cache(usage: Usage) -> int:
    # The protocol asks for 0 from those who make no such pass.
    return usage.cache_write_tokens or 0
