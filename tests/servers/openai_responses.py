"""A Responses server on loopback: it streams as the API does, and refuses what the API refuses.

It seals its reasoning, remembers every item that it wrote, and answers 400 to a history in which one of them is missing, changed or
moved, in which a call has no output, or in which reasoning stands without the item that it led to. What it says is up to the caller.

In a test::

    async with ResponsesServer([Reply([reason("why"), say("4")])]) as server:
        ...  # server.url with /v1, server.bodies, server.refusals
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.servers.plain import PlainServer, Sent, pieces_of

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
FIELDS = {"model", "input", "instructions", "max_output_tokens", "store", "stream", "reasoning", "include", "temperature", "top_p"}
FIELDS |= {"top_logprobs", "tools"}

Fault = Literal[
    "",
    "reset",  # the connection is reset before a byte of the reply
    "hang",  # no reply at all
    "cut",  # the connection is cut after half of the events
    "close",  # the stream closes cleanly after half of the events
    "stall",  # nothing comes after half of the events
    "error_event",  # an error event after half of the events
    "garbage",  # an event that is not JSON after half of the events
    "no_end",  # everything but the event that ends the response
    "failed",  # the response fails at its end
]


def reason(*summary: str) -> dict[str, Any]:
    """Reasoning, with the parts of its summary; the server seals it."""
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": part} for part in summary]}


def say(text: str, phase: str = "final_answer") -> dict[str, Any]:
    """A message."""
    content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
    return {"type": "message", "role": "assistant", "content": content, "phase": phase}


def refuse(text: str) -> dict[str, Any]:
    """A message that is a refusal."""
    return {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": text}]}


def call(identity: str, name: str, **given: Any) -> dict[str, Any]:
    """A call of a function."""
    return {"type": "function_call", "call_id": identity, "name": name, "arguments": json.dumps(given, ensure_ascii=False)}


@dataclass(frozen=True)
class Reply:
    """One reply. `thought` is its reasoning tokens; `usage` replaces counts of the last event, None leaves usage out."""

    items: Sequence[Mapping[str, Any]] = ()
    status: str = "completed"
    reason: str | None = None
    thought: int = 7
    usage: Mapping[str, Any] | None = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    http: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = ""
    chunk: int = 5


LIMITED = Reply(http=429, headers={"retry-after": "2"}, error={"message": "too fast", "type": "requests", "code": "rate_limit_exceeded"})
SLOW_DOWN = Reply(http=429, headers={"x-ratelimit-reset-tokens": "1m30s"}, error={"message": "ramping", "code": "slow_down"})
NO_CREDIT = Reply(http=429, error={"message": "pay", "type": "insufficient_quota", "code": "credit_balance_exhausted"})
OVERLOADED = Reply(http=503, error={"message": "later", "type": "server_error", "code": "server_is_overloaded"})

Answer = Callable[[dict[str, Any], int], Reply]


class ResponsesServer(PlainServer):
    """The server; `script` are the replies that go first, `answer` gives the others. `refusals` are the messages of the 400s."""

    def __init__(self, script: Sequence[Reply] = (), answer: Answer | None = None, *, key: str | None = None) -> None:
        super().__init__()
        self.script, self.key = list(script), key
        self.answer: Answer = answer or (lambda body, number: Reply([say("ok")]))
        self.refusals: list[str] = []
        self._written: list[list[dict[str, Any]]] = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{self.root}/v1"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any], number: int) -> Sent:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, {"message": f"Incorrect API key provided: {headers.get('authorization')}", "code": "invalid_api_key"})
        refusal = f"no such path: {path}" if path != "/v1/responses" else _wrong(body) or self._broken(body["input"])
        if refusal:
            self.refusals.append(refusal)
            return _error(400, {"message": refusal, "type": "invalid_request_error", "param": None, "code": None})
        reply = self.script.pop(0) if self.script else self.answer(body, number)
        if reply.http != 200:
            return _error(reply.http, dict(reply.error or {}), reply.headers)
        items = [_whole(item, number, index) for index, item in enumerate(reply.items)]
        self._written.append(items)
        events = [_event(event, place) for place, event in enumerate(_events(reply, items, body, number))]
        fault = reply.fault
        if fault == "no_end":
            events = events[:-1]
        if fault in ("cut", "close", "stall", "error_event", "garbage"):
            events = events[: (len(events) + 1) // 2]
        if fault == "error_event":
            events.append(_event({"type": "error", "code": "server_is_overloaded", "message": "engine died", "param": None}, len(events)))
        if fault == "garbage":
            events.append(b"event: response.output_text.delta\ndata: {oops\n\n")
        end = fault if fault in ("cut", "stall", "reset", "hang") else ""
        return Sent(events, headers={"x-request-id": f"req_{number}", **reply.headers}, end=end)  # type: ignore[arg-type]

    def _broken(self, history: list[dict[str, Any]]) -> str:
        """What is wrong with a history: items of ours that were dropped, changed or moved, and calls without their output."""
        for place, item in enumerate(history):
            if item.get("type") == "reasoning" and not item.get("encrypted_content"):
                return f"input[{place}]: item {item.get('id')!r} not found; items are not persisted when store is false"
        for items in self._written:
            places = [place for place, item in enumerate(history) if item.get("id") in {item["id"] for item in items}]
            if places and [history[place] for place in places] != items:
                return f"input[{places[0]}]: reasoning was provided without its required following item, or was changed"
        called = [item["call_id"] for item in history if item.get("type") == "function_call"]
        answered = [item["call_id"] for item in history if item.get("type") == "function_call_output"]
        missing = next((identity for identity in called if identity not in answered), None)
        return f"No tool output found for function call {missing}." if missing else ""


def _wrong(body: dict[str, Any]) -> str:
    unknown = body.keys() - FIELDS
    if unknown:
        return f"Unknown parameter: {sorted(unknown)[0]!r}."
    if not body.get("stream"):
        return "this server only streams"
    effort = (body.get("reasoning") or {}).get("effort")
    if effort is not None and effort not in EFFORTS:
        return f"Invalid value: {effort!r}."
    return "" if isinstance(body.get("input"), list) and body.get("model") else "Missing required parameter."


def _error(status: int, error: dict[str, Any], headers: Mapping[str, str] | None = None) -> Sent:
    body = json.dumps({"error": error}).encode()
    return Sent([body], status, {"x-request-id": "req_e", **(headers or {})}, "application/json")


def _whole(item: Mapping[str, Any], number: int, index: int) -> dict[str, Any]:
    kind = str(item["type"])
    whole = {"id": f"{kind[:2]}_{number}_{index}", **item}
    if kind == "reasoning":
        return whole | {"encrypted_content": f"gAAAA{number}{index}=="}
    return whole | {"status": "completed"}


def _events(reply: Reply, items: list[dict[str, Any]], body: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    base = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": body["model"], "output": [], "error": None}
    base |= {"incomplete_details": None, "usage": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    running = base | {"status": "in_progress"}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": running},
        {"type": "response.in_progress", "response": running},
    ]
    for index, item in enumerate(items):
        events += _item_events(item, index, reply.chunk)
    status, error = (
        ("failed", reply.error or {"code": "server_error", "message": "it broke"}) if reply.fault == "failed" else (reply.status, None)
    )
    details = {"reason": reply.reason} if reply.reason else None
    end = base | {"status": status, "output": items, "error": error, "incomplete_details": details, "usage": _usage(reply, items)}
    return [*events, {"type": f"response.{status}", "response": end}]


def _item_events(item: dict[str, Any], index: int, chunk: int) -> list[dict[str, Any]]:
    place = {"output_index": index, "item_id": item["id"]}
    events: list[dict[str, Any]] = []
    emptied = item | {name: [] for name in ("content", "summary") if name in item}
    if item["type"] == "function_call":
        emptied |= {"arguments": "", "status": "in_progress"}
        pieces = pieces_of(item["arguments"], chunk)
        events += [{"type": "response.function_call_arguments.delta", "delta": piece, **place} for piece in pieces]
        events.append({"type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"], **place})
    for number, part in enumerate(item.get("summary", ())):
        at = {**place, "summary_index": number}
        events.append({"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}, **at})
        events += [{"type": "response.reasoning_summary_text.delta", "delta": piece, **at} for piece in pieces_of(part["text"], chunk)]
        events.append({"type": "response.reasoning_summary_text.done", "text": part["text"], **at})
        events.append({"type": "response.reasoning_summary_part.done", "part": part, **at})
    for number, part in enumerate(item.get("content", ())):
        at = {**place, "content_index": number}
        name = "text" if part["type"] == "output_text" else "refusal"
        event = "output_text" if name == "text" else "refusal"
        more = {"logprobs": []} if name == "text" else {}
        events.append({"type": "response.content_part.added", "part": part | {name: ""}, **at})
        events += [{"type": f"response.{event}.delta", "delta": piece, **at, **more} for piece in pieces_of(part[name], chunk)]
        events.append({"type": f"response.{event}.done", name: part[name], **at, **more})
        events.append({"type": "response.content_part.done", "part": part, **at})
    start = {"type": "response.output_item.added", "output_index": index, "item": emptied}
    return [start, *events, {"type": "response.output_item.done", "output_index": index, "item": item}]


def _usage(reply: Reply, items: list[dict[str, Any]]) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    words = sum(len(part.get("text", part.get("refusal", "")).split()) for item in items for part in item.get("content", ()))
    counts: dict[str, Any] = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": words + reply.thought,
        "output_tokens_details": {"reasoning_tokens": reply.thought},
        **reply.usage,
    }
    return {"total_tokens": counts["input_tokens"] + counts["output_tokens"], **counts}


def _event(event: dict[str, Any], number: int) -> bytes:
    data = json.dumps(event | {"sequence_number": number}, ensure_ascii=False)
    return f"event: {event['type']}\ndata: {data}\n\n".encode()
