"""A small TTC-v2 server on loopback that keeps the protocol, or breaks it in one chosen way.

Its "model" thinks in words, a token each, and answers. It is written from the protocol's text and shares nothing with the
real server, so that the suite is not judged by the code it judges.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import count
from typing import Any

THINKING = [f"w{place} " for place in range(24)]
TEXT = ["the ", "answer ", "is ", "42"]
MAX_BUDGET = 100_000
WAIT = "[WAIT]"


@dataclass
class Turn:
    """What one request brings: deltas in order, the blocks of the final message, and its end."""

    thinking: list[str]
    text: list[str] | None
    stop_reason: str
    thinking_tokens: int
    output_tokens: int


class BadServer:
    """The server, as an async context manager. `fault` is one of the names in `test_conformance.py`, or empty for none."""

    def __init__(self, fault: str = "", *, wait_form: bool = False) -> None:
        self.fault = fault
        self.wait_form = wait_form
        self.bodies: list[dict[str, Any]] = []
        self._ids = count()

    async def __aenter__(self) -> BadServer:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0)
            status, kind, payload = self._reply(head.split()[1], await reader.readexactly(length))
            stated = len(payload) + (64 if self.fault == "cut_stream" and status == 200 else 0)
            lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {stated}", "Connection: close"]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _reply(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        if path == "/v1/models":
            return 200, "application/json", b'{"data": [{"id": "words"}]}'
        if path not in ("/v1/messages", "/v1/chat/completions"):
            return 404, "application/json", b"{}"
        given = json.loads(body)
        self.bodies.append(given)
        refusal = self._refusal(given)
        if refusal is not None:
            return refusal
        turn = self._turn(given)
        final = self._final(turn)
        if self.fault == "not_streaming":
            return 200, "application/json", json.dumps(final).encode()
        objects = self._events(path, turn, final)
        if self.fault == "no_final":
            objects = objects[:-1]
        if self.fault == "object_after_final":
            objects.append({"type": "ping"})
        events = [f"data: {json.dumps(one)}\n\n" for one in objects]
        if self.fault == "event_not_json":
            events.insert(1, "data: hello\n\n")
        if path == "/v1/chat/completions":
            events.append("data: [DONE]\n\n")
        kind = "text/plain" if self.fault == "wrong_content_type" else "text/event-stream"
        return 200, kind, "".join(events).encode()

    def _refusal(self, given: dict[str, Any]) -> tuple[int, str, bytes] | None:
        thinking = given.get("thinking")
        if "model" not in given:
            return 400, "application/json", b'{"type": "error"}'
        if thinking is None:
            return None
        if self.fault == "no_thinking_at_all":
            return 501, "application/json", b"{}"
        budget = thinking.get("budget_tokens")
        if type(budget) is not int or budget < 1:
            return (
                (500, "text/html", b"<h1>oops") if self.fault == "crashes_on_invalid" else (400, "application/json", b'{"type": "error"}')
            )
        if thinking["type"] != "enabled" and self.fault != "any_type":
            return 400, "application/json", b'{"type": "error"}'
        if budget <= MAX_BUDGET:
            return None
        param = "budget" if self.fault == "wrong_error_param" else "thinking.budget_tokens"
        error = {"type": "invalid_request_error", "code": "budget_exceeded", "message": "too large", "param": param}
        status = 422 if self.fault == "wrong_error_status" else 400
        return status, "application/json", json.dumps({"type": "error", "error": error}).encode()

    def _turn(self, given: dict[str, Any]) -> Turn:
        fault, asked = self.fault, given.get("thinking")
        if asked is None and fault != "thinks_unasked":
            return self._answer(given, [], 0)
        words = [f"{word.strip()}{'x' * 60} " for word in THINKING] if fault == "hidden_overrun" else THINKING
        budget = asked["budget_tokens"] if asked else 100
        if fault == "shared_max_tokens" and given["max_tokens"] < len(words):
            return Turn(words[: given["max_tokens"]], None, "max_tokens", given["max_tokens"], 0)
        if fault == "stop_applies_to_thinking" and "stop_sequences" in given:
            cut = "".join(words).split(given["stop_sequences"][0])[0]
            return Turn([cut], None, "stop_sequence", 1, 0)
        if budget >= len(words):
            return self._answer(given, words, len(words))
        return self._exhausted(given, words, budget)

    def _exhausted(self, given: dict[str, Any], words: list[str], budget: int) -> Turn:
        fault, thought, reason = self.fault, words[:budget], "budget_exceeded"
        if fault == "overrun":
            return Turn(words, None, reason, len(words), 0)
        if fault == "hidden_overrun":
            return Turn(words, None, reason, budget, 0)
        if fault == "answers_at_budget":
            return self._answer(given, thought, budget)
        if fault == "unsignalled":
            return Turn(thought, None, "end_turn", budget, 0)
        if fault == "stops_early":
            return Turn([], None, reason, budget - 1, 0)
        if fault == "text_after_exhaustion":
            return Turn(thought, TEXT, reason, budget, len(TEXT))
        if not self.wait_form:
            return Turn(thought, None, reason, budget, 0)
        if fault == "wait_not_at_end":
            return Turn([*thought, WAIT, " and more"], None, "stop_sequence", budget, 0)
        if fault == "text_after_wait":
            return Turn([*thought, WAIT], TEXT, "stop_sequence", budget, len(TEXT))
        reason = "end_turn" if fault == "wait_wrong_reason" else "stop_sequence"
        return Turn([*thought, WAIT], None, reason, budget, 0)

    def _answer(self, given: dict[str, Any], thought: list[str], tokens: int) -> Turn:
        most = len(TEXT) if self.fault == "ignores_max_tokens" else given["max_tokens"]
        text, reason = TEXT[:most], "end_turn" if most >= len(TEXT) else "max_tokens"
        stops = [] if self.fault == "ignores_stops" else given.get("stop_sequences", [])
        whole = "".join(text)
        places = [whole.index(stop) for stop in stops if stop in whole]
        if places:
            text, reason = [whole[: min(places)]], "stop_sequence"
        return Turn(thought, text, reason, tokens, len(text))

    def _final(self, turn: Turn) -> dict[str, Any]:
        fault = self.fault
        content = [{"type": "thinking", "text": "".join(turn.thinking)}] if turn.thinking else []
        if turn.text is not None:
            content.append({"type": "text", "text": "".join(turn.text)})
        if fault == "late_thinking" and turn.thinking and turn.text:
            content.append({"type": "thinking", "text": "hm"})
        if fault == "other_block_type":
            content = [{**block, "type": "reasoning" if block["type"] == "thinking" else "text"} for block in content]
        if fault == "content_not_assembled" and content:
            content[-1] = {**content[-1], "text": "…"}
        if fault == "block_without_text":
            content.append({"type": "text"} if turn.text is not None else {"type": "thinking"})
        usage: dict[str, Any] = {
            "input_tokens": 0 if fault == "no_input_tokens" else 9,
            "output_tokens": 0 if fault == "no_output_tokens" else turn.output_tokens,
            "thinking_tokens": 0 if fault == "no_thinking_tokens" else turn.thinking_tokens,
            "cache_creation_input_tokens": {"cache_above_input": 10, "cache_used": 9}.get(fault, 0),
        }
        if fault == "no_cache_count":
            del usage["cache_creation_input_tokens"]
        if fault == "count_of_text":
            usage["input_tokens"] = "9"
        reason = "stop" if fault == "wrong_stop_reason" and turn.stop_reason == "end_turn" else turn.stop_reason
        final = {"type": "message_stop", "id": f"r{next(self._ids)}", "model": "words", "stop_reason": reason}
        final |= {"content": content, "usage": usage}
        final |= {"wrong_type": {"type": "message"}, "same_id": {"id": "r"}, "model_number": {"model": 1}}.get(fault, {})
        missing = {"no_usage": "usage", "no_id": "id"}.get(fault)
        return {name: value for name, value in final.items() if name != missing}

    def _events(self, path: str, turn: Turn, final: dict[str, Any]) -> list[dict[str, Any]]:
        kind = "reasoning" if self.fault == "other_block_type" else "thinking"
        deltas = [(kind, word) for word in turn.thinking] + [("text", word) for word in turn.text or ()]
        if self.fault == "late_thinking" and turn.thinking and turn.text:
            deltas.append(("thinking", "hm"))
        if path == "/v1/messages":
            return [*({"type": "content_block_delta", "delta": {"type": f"{kind}_delta", "text": word}} for kind, word in deltas), final]
        response_id = "other" if self.fault == "chunk_ids_differ" else final.get("id", "r")
        head = {} if self.fault == "no_id" else {"id": response_id}
        return [*({**head, "choices": [{"delta": {"content": word, "content_type": kind}}]} for kind, word in deltas), final]
