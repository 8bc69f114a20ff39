"""An Anthropic Messages server on loopback: it streams as the API does, and refuses what the API refuses.

It signs its thinking, remembers every turn that it wrote, and answers 400 to a history in which a thinking, redacted or tool block is
missing, changed or moved. What it says is up to the caller: a list of replies, or a function of the request.

In a test::

    async with MessagesServer([Reply([think("why"), say("4")])]) as server:
        ...  # server.url with /v1, server.root without it, server.bodies, server.refusals
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.servers.anthropic_rules import VERSIONS, bad_fields
from tests.servers.plain import End, PlainServer, Sent, pieces_of

SEALED = ("thinking", "redacted_thinking", "tool_use")

Fault = Literal[
    "",
    "reset",  # the connection is reset before a byte of the reply
    "cut",  # the connection is cut after half of the events
    "close",  # the stream closes cleanly after half of the events
    "error_event",  # an error event after half of the events
    "no_stop",  # everything but message_stop
    "no_end",  # everything but message_delta
    "garbage",  # an event that is not JSON after half of the events
    "stall",  # nothing comes after half of the events
]


def think(text: str) -> dict[str, Any]:
    """A thinking block; the server signs it."""
    return {"type": "thinking", "thinking": text}


def redacted(data: str = "c2VhbGVk") -> dict[str, Any]:
    """A redacted thinking block."""
    return {"type": "redacted_thinking", "data": data}


def say(text: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": text}


def call(identity: str, name: str, **given: Any) -> dict[str, Any]:
    """A call of a tool."""
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


@dataclass(frozen=True)
class Reply:
    """One reply. Tokens are words, thinking among them; `usage` replaces counts of the last event, None in it leaves one out.

    `stop` None follows from the blocks and the cap: what is beyond `max_tokens` words is cut off.
    """

    blocks: Sequence[Mapping[str, Any]] = ()
    stop: str | None = None
    stop_details: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    start_usage: Mapping[str, Any] = field(default_factory=dict)
    details: bool = True
    omit: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: tuple[str, str] = ("api_error", "oops")
    error_code: str | None = None
    fault: Fault = ""
    chunk: int = 7


OVERLOADED = Reply(status=529, error=("overloaded_error", "Overloaded"))
LIMITED = Reply(status=429, error=("rate_limit_error", "too many"), headers={"retry-after": "2"})

_ENDS: Mapping[Fault, End] = {"reset": "reset", "cut": "cut", "stall": "stall"}

Answer = Callable[[dict[str, Any], int], Reply]


class MessagesServer(PlainServer):
    """The server, as an async context manager.

    Args:
        script: replies that go first, in order; `answer` gives the others: body and number of the request to a reply.

    Attributes:
        bodies, headers: of all requests; refusals: the messages of the 400s; count: requests so far.
    """

    def __init__(self, script: Sequence[Reply] = (), answer: Answer | None = None, *, key: str | None = None) -> None:
        super().__init__()
        self.script, self.answer, self.key = list(script), answer, key
        self.refusals: list[str] = []
        self._written: list[list[dict[str, Any]]] = []
        self._secret = b"only this server signs"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any], number: int) -> Sent:
        refusal = self._refusal(path.split("?")[0], headers, body)
        if refusal is not None:
            status, kind, message = refusal
            self.refusals.append(message)
            return _plain(Reply(status=status, error=(kind, message)))
        reply = self.script.pop(0) if self.script else self.answer(body, number) if self.answer else Reply([say("ok")])
        return self._stream(reply, body) if reply.status == 200 else _plain(reply)

    def _stream(self, reply: Reply, body: Mapping[str, Any]) -> Sent:
        blocks, cut = self._blocks(reply, body)
        events = _events(reply, body, blocks, cut, f"msg_{self.count}")
        if not reply.fault:
            self._written.append(blocks)
        half, end = len(events) // 2, _ENDS.get(reply.fault, "")
        match reply.fault:
            case "no_stop":
                events = events[:-1]
            case "no_end":
                events = [event for event in events if not event.startswith(b"event: message_delta")]
            case "error_event":
                problem = {"type": "error", "error": {"type": reply.error[0], "message": reply.error[1]}, "request_id": "req_1"}
                events = [*events[:half], _event("error", problem)]
            case "garbage":
                events = [*events[:half], b"event: content_block_delta\ndata: {nope\n\n"]
            case "cut" | "close" | "stall":
                events = events[:half]
            case _:
                pass
        return Sent(events, headers={"request-id": "req_1"}, end=end)

    def _blocks(self, reply: Reply, body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bool]:
        """The blocks as sent, signed and cut at the cap, and whether they were cut."""
        left, cut, blocks = int(body["max_tokens"]), False, list[dict[str, Any]]()
        omit = reply.omit or body.get("thinking", {}).get("display") == "omitted"
        for given in reply.blocks:
            block = dict(given)
            if cut:
                break
            kind = block["type"]
            if kind in ("text", "thinking"):
                words = block[kind].split(" ")
                cut, left = len(words) > left, left - len(words)
                block[kind] = " ".join(words[: left + len(words)]) if cut else block[kind]
            if kind == "thinking":
                block["signature"] = "" if cut else self._sign(block["thinking"])
                block["thinking"] = "" if omit else block["thinking"]
            blocks.append(block)
        return blocks, cut

    def _sign(self, text: str) -> str:
        return base64.b64encode(hmac.digest(self._secret, text.encode(), hashlib.sha256)).decode()

    def _refusal(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, str, str] | None:
        bad = "invalid_request_error"
        if path != "/v1/messages":
            return 404, "not_found_error", f"Not found: {path}"
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not given or (self.key is not None and given != self.key):
            return 401, "authentication_error", "invalid x-api-key"
        if headers.get("anthropic-version") not in VERSIONS:
            return 400, bad, "anthropic-version: not a valid version"
        message = bad_fields(body, headers["anthropic-version"]) or self._bad_history(body["messages"])
        return None if message is None else (400, bad, message)

    def _bad_history(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        called: list[str] = []
        for place, message in enumerate(messages):
            blocks = message["content"] if isinstance(message["content"], list) else [say(message["content"])]
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if called and (
                message["role"] != "user" or [block["type"] for block in blocks[: len(called)]] != ["tool_result"] * len(called)
            ):
                return f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {called}"
            if sorted(results) != sorted(called):
                return f"messages.{place}.content: unexpected `tool_use_id` found in `tool_result` blocks: {results}"
            called = [block["id"] for block in blocks if block["type"] == "tool_use"] if message["role"] == "assistant" else []
            if message["role"] == "assistant" and not self._is_own(blocks):
                return f"messages.{place}.content.0: `thinking` or `redacted_thinking` blocks in an assistant message cannot be modified"
        return f"messages: `tool_use` ids without `tool_result`: {called}" if called else None

    def _is_own(self, blocks: Sequence[Mapping[str, Any]]) -> bool:
        """Whether an assistant turn is one that this server wrote, verbatim; one without sealed blocks may be anything."""
        calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
        own = [turn for turn in self._written if calls & {block["id"] for block in turn if block["type"] == "tool_use"}]
        if own:
            return list(blocks) in own
        if any(block["type"] in SEALED for block in blocks):
            return list(blocks) in self._written
        return True


def _events(reply: Reply, body: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], cut: bool, identity: str) -> list[bytes]:
    spoken = [block["thinking"] for block in reply.blocks if block["type"] == "thinking"]
    thinking_tokens = min(sum(len(text.split(" ")) for text in spoken), body["max_tokens"])
    said = sum(len(block["text"].split(" ")) for block in blocks if block["type"] == "text")
    called = sum(10 for block in blocks if block["type"] == "tool_use")
    start = {"input_tokens": len(json.dumps([body["messages"], body.get("system"), body.get("tools")])) // 4, "output_tokens": 1}
    end: dict[str, Any] = {"output_tokens": max(1, thinking_tokens + said + called)}
    if reply.details and spoken:
        end["output_tokens_details"] = {"thinking_tokens": thinking_tokens}
    end |= reply.usage
    tools = any(block["type"] == "tool_use" for block in blocks)
    stop = "max_tokens" if cut else reply.stop or ("tool_use" if tools else "end_turn")
    message = {"id": identity, "type": "message", "role": "assistant", "model": body["model"], "content": [], "stop_reason": None}
    out = [_event("message_start", {"type": "message_start", "message": message | {"usage": start | reply.start_usage}})]
    for index, block in enumerate(blocks):
        out += [_event(kind, {"type": kind, "index": index, **fields}) for kind, fields in _block_events(block, reply.chunk)]
        out += [_event("ping", {"type": "ping"})] if index == 0 else []
    delta: dict[str, Any] = {"stop_reason": stop, "stop_sequence": None}
    if reply.stop_details is not None:
        delta["stop_details"] = dict(reply.stop_details)
    counted = {name: value for name, value in end.items() if value is not None}
    out.append(_event("message_delta", {"type": "message_delta", "delta": delta, "usage": counted}))
    out.append(_event("message_stop", {"type": "message_stop"}))
    return out


def _block_events(block: Mapping[str, Any], size: int) -> list[tuple[str, dict[str, Any]]]:
    kind, out = block["type"], list[tuple[str, dict[str, Any]]]()
    empty = dict(block) | ({kind: ""} if kind in ("text", "thinking") else {}) | ({"signature": ""} if kind == "thinking" else {})
    out.append(("content_block_start", {"content_block": empty | ({"input": {}} if kind == "tool_use" else {})}))
    deltas: list[dict[str, Any]] = []
    if kind in ("text", "thinking"):
        deltas = [{"type": f"{kind}_delta", kind: piece} for piece in pieces_of(block[kind], size)]
    if kind == "thinking" and block["signature"]:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    if kind == "tool_use" and block["input"]:
        whole = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])  # a text is one that was cut
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces_of(whole, size))]
    out += [("content_block_delta", {"delta": delta}) for delta in deltas]
    return [*out, ("content_block_stop", {})]


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def _plain(reply: Reply) -> Sent:
    error: dict[str, Any] = {"type": reply.error[0], "message": reply.error[1]}
    if reply.error_code is not None:
        error["details"] = {"error_code": reply.error_code}
    body = json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()
    return Sent([body], reply.status, {"request-id": "req_1", **reply.headers}, "application/json")
