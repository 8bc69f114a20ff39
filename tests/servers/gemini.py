"""A Gemini server on loopback: it streams as the API does, and refuses what the API refuses.

It signs its function calls, remembers what it wrote, and answers 400 to a history in which a signature is missing or a call has no
response. What it says is up to the caller; counts of zero are left out of its JSON, as the API leaves them out.

In a test::

    async with GeminiServer([Reply([think("why"), say("4")])]) as server:
        ...  # server.url with /v1, server.bodies, server.refusals
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.servers.plain import PlainServer, Sent, pieces_of

FIELDS = {"contents", "generationConfig", "systemInstruction", "tools"}
CONFIG = {"maxOutputTokens", "temperature", "topP", "stopSequences", "seed", "responseLogprobs", "logprobs", "thinkingConfig"}
FADING = ("thoughtsTokenCount", "cachedContentTokenCount")
LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")

Fault = Literal[
    "",
    "reset",  # the connection is reset before a byte of the reply
    "hang",  # no reply at all
    "cut",  # the connection is cut after half of the chunks
    "close",  # the stream closes cleanly after half of the chunks
    "stall",  # nothing comes after half of the chunks
    "error_event",  # an error object after half of the chunks
    "garbage",  # a chunk that is not JSON after half of the chunks
    "no_finish",  # everything but the finishReason
    "torn",  # everything, and then a chunk that the end of the stream tears
]


def think(text: str) -> dict[str, Any]:
    """A part that is a summary of thinking."""
    return {"text": text, "thought": True}


def say(text: str, **more: Any) -> dict[str, Any]:
    """A part of the answer."""
    return {"text": text, **more}


def call(name: str, **given: Any) -> dict[str, Any]:
    """A call of a function; the server signs it."""
    return {"functionCall": {"name": name, "args": given}}


def result(name: str, **given: Any) -> dict[str, Any]:
    """What a function gave, as a part of a user's turn."""
    return {"functionResponse": {"name": name, "response": given}}


@dataclass(frozen=True)
class Reply:
    """One reply. `thought` is its thinking tokens; `usage` replaces counts, None leaves usage out; `fading` drops counts at the end."""

    parts: Sequence[Mapping[str, Any]] = ()
    finish: str | None = "STOP"
    blocked: str | None = None
    thought: int = 7
    usage: Mapping[str, Any] | None = field(default_factory=dict)
    inclusive: bool = False
    fading: bool = False
    http: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    fault: Fault = ""
    chunk: int = 5


_RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39s"}
_BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
LIMITED = Reply(http=429, error={"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [_RETRY]})
OVERLOADED = Reply(http=503, error={"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"})

Answer = Callable[[dict[str, Any], int], Reply]


class GeminiServer(PlainServer):
    """The server; `script` are the replies that go first, `answer` gives the others. `refusals` are the messages of the 400s."""

    def __init__(self, script: Sequence[Reply] = (), answer: Answer | None = None, *, key: str | None = None) -> None:
        super().__init__()
        self.script, self.key = list(script), key
        self.answer: Answer = answer or (lambda body, number: Reply([say("ok")]))
        self.refusals: list[str] = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{self.root}/v1"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any], number: int) -> Sent:
        if self.key is not None and headers.get("x-goog-api-key") != self.key:
            message = f"API key not valid: {headers.get('x-goog-api-key')}"
            return _error(400, {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": [_BAD_KEY]})
        known = path.startswith("/v1/models/") and path.endswith(":streamGenerateContent?alt=sse")
        refusal = _wrong(body) if known else f"no such path: {path}"
        if refusal:
            self.refusals.append(refusal)
            return _error(400, {"code": 400, "message": refusal, "status": "INVALID_ARGUMENT"})
        reply = self.script.pop(0) if self.script else self.answer(body, number)
        if reply.http != 200:
            return _error(reply.http, dict(reply.error or {}), reply.headers)
        fault, chunks = reply.fault, [_chunk(chunk) for chunk in _chunks(reply, number)]
        if fault in ("cut", "close", "stall", "error_event", "garbage"):
            chunks = chunks[: (len(chunks) + 1) // 2]
        if fault == "error_event":
            chunks.append(_chunk({"error": dict(OVERLOADED.error or {})}))
        if fault == "garbage":
            chunks.append(b"data: {oops\r\n\r\n")
        if fault == "torn":
            chunks.append(b'data: {"candidates": [{"content": {"parts": [{"text": "LOST"}]')
        end = fault if fault in ("cut", "stall", "reset", "hang") else ""
        return Sent(chunks, headers=reply.headers, end=end)  # type: ignore[arg-type]


def _wrong(body: dict[str, Any]) -> str:
    config = body.get("generationConfig") or {}
    unknown = sorted((body.keys() - FIELDS) | (config.keys() - CONFIG))
    if unknown:
        return f"Invalid JSON payload received. Unknown name {unknown[0]!r}"
    thinking = config.get("thinkingConfig") or {}
    if {"thinkingBudget", "thinkingLevel"} <= thinking.keys():
        return "You can only set one of thinking budget and thinking level."
    if thinking.get("thinkingLevel", "LOW") not in LEVELS:
        return f"Invalid value at thinkingLevel: {thinking['thinkingLevel']!r}"
    contents = body.get("contents") or []
    if not contents or any(content.get("role") not in ("user", "model") for content in contents):
        return "Please use a valid role: user, model."
    waiting = 0
    for content in contents:
        answers = sum("functionResponse" in part for part in content["parts"])
        if answers != waiting:
            return "the number of function response parts is not that of the function call parts of the turn before"
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            return f"Function call is missing a thought_signature in functionCall parts: {calls[0]['functionCall'].get('name')}"
        waiting = len(calls)
    return ""


def _error(status: int, error: dict[str, Any], headers: Mapping[str, str] | None = None) -> Sent:
    return Sent([json.dumps([{"error": error}]).encode()], status, headers or {}, "application/json; charset=UTF-8")


def _chunks(reply: Reply, number: int) -> list[dict[str, Any]]:
    base = {"modelVersion": "gemini-x", "responseId": f"r{number}"}
    prompt = {"promptTokenCount": 20, "cachedContentTokenCount": 4}
    if reply.blocked:
        return [base | {"promptFeedback": {"blockReason": reply.blocked}, "usageMetadata": {"promptTokenCount": 20, "totalTokenCount": 20}}]
    parts = [
        piece
        for place, part in enumerate(reply.parts)
        for piece in _pieces(part, reply.chunk, base64.b64encode(b"sign %d %d" % (number, place)).decode())
    ]
    words, chunks = 0, []
    for part in parts:
        words += len(str(part.get("text", "call")).split()) if not part.get("thought") else 0
        counts = _counts({**prompt, "candidatesTokenCount": words, "thoughtsTokenCount": reply.thought}, reply)
        chunks.append(base | {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "usageMetadata": counts})
    last = chunks[-1] if chunks else base | {"candidates": [{"index": 0}], "usageMetadata": _counts({**prompt}, reply)}
    chunks = [*chunks[:-1], last]
    if reply.finish is not None and reply.fault != "no_finish":
        last["candidates"][0]["finishReason"] = reply.finish
    if reply.usage is None:
        for chunk in chunks:
            del chunk["usageMetadata"]
    elif reply.fading:
        last["usageMetadata"] = {name: count for name, count in last["usageMetadata"].items() if name not in FADING}
    return chunks


def _counts(counts: dict[str, Any], reply: Reply) -> dict[str, Any]:
    if reply.inclusive:
        counts["candidatesTokenCount"] += counts["thoughtsTokenCount"]
    whole = counts["promptTokenCount"] + counts.get("candidatesTokenCount", 0)
    total = whole + (0 if reply.inclusive else counts.get("thoughtsTokenCount", 0))
    return {name: count for name, count in {**counts, "totalTokenCount": total, **(reply.usage or {})}.items() if count}


def _pieces(part: Mapping[str, Any], size: int, signature: str) -> list[dict[str, Any]]:
    if "functionCall" in part:
        return [{**part, "thoughtSignature": signature}]
    if part.keys() - {"text", "thought"}:
        return [dict(part)]
    return [{**part, "text": piece} for piece in pieces_of(part["text"], size)]


def _chunk(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n".encode()
