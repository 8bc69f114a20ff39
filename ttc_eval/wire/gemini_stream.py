"""The chunks of a Gemini stream, gathered into a response. Pure.

Parts are kept verbatim and in order, thought signatures included, since a later request has to send them back unchanged. Only parts of
plain text that follow each other and hold nothing else are joined, since a stream cuts one part into as many as it has chunks. A part
marked `thought` is thinking, any other text is answer.

Usage (docs/design.md 3.2). Every chunk's counts are running totals: the last value of each counts, none are added up, and one that a
later chunk leaves out stays. `promptTokenCount` includes the cached part; what tools fed to the model (`toolUsePromptTokenCount`) stands
beside it and is added. `candidatesTokenCount` leaves out thinking, which is added, unless `totalTokenCount` shows that this server counts
it inside. A count of zero is left out of the JSON, so with a total that is the sum of the others, one that is missing is zero.

This API has no terminator. A response is complete when a `finishReason` has come and the stream has ended cleanly, and refused when the
prompt was blocked. `CONTINUATION` means that the provider would go on if it were asked to; that would be another, hidden call, so it is
reported as incomplete and not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ttc_eval.errors import CallFailed
from ttc_eval.records import JSON, CallStop, Response, Timings, Usage
from ttc_eval.wire.counts import checked, is_count
from ttc_eval.wire.failures import RETRYABLE, clean, describe, kind_of
from ttc_eval.wire.logprobs import TokenLogprobs
from ttc_eval.wire.sse import Event

_STOPS = {
    "STOP": CallStop.END,
    "MAX_TOKENS": CallStop.MAX_TOKENS,
    "CONTINUATION": CallStop.INCOMPLETE,
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"), CallStop.REFUSAL),
}
_PLAIN = ({"text"}, {"text", "thought"})
_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount", "totalTokenCount")


def usage(raw: object) -> Usage:
    """Tokens by a `usageMetadata` object, or by the last running totals of a stream; see the module's text for the mapping."""
    if not isinstance(raw, Mapping) or not raw:
        return Usage()
    counts = [raw.get(name) for name in _COUNTS]
    if not all(count is None or is_count(count) for count in counts):
        return Usage(raw=raw)
    prompt, candidates, thoughts, fed, total = (count if is_count(count) else None for count in counts)
    if total is None and (prompt is None or candidates is None):
        return Usage(raw=raw)  # what is missing may be zero or unknown
    entered, written = (prompt or 0) + (fed or 0), (candidates or 0) + (thoughts or 0)
    if thoughts and total is not None and total == entered + (candidates or 0):
        written = candidates or 0
    return checked(raw, entered, written, cached=raw.get("cachedContentTokenCount"), reasoning=thoughts, total=total)


class GeminiStream:
    """Gathers the chunks of one stream into a response.

    Attributes:
        started: whether the model has begun to answer: a first part, or its end. Thinking that is not shown brings none, so it counts as
            waiting.
        done: False to the end, since nothing but the end of the stream ends it.
    """

    __slots__ = ("_blocked", "_finish", "_id", "_logprobs", "_parts", "_pieces", "_secrets", "_usage", "done", "started")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.started = False
        self.done = False
        self._secrets = secrets
        self._parts: list[dict[str, Any]] = []
        self._pieces: list[str] = []  # of the last part, when it is plain text
        self._logprobs = TokenLogprobs()
        self._usage: dict[str, Any] = {}
        self._finish: str | None = None
        self._blocked: str | None = None
        self._id: str | None = None

    def feed(self, event: Event) -> None:
        """Take in one chunk. Raises `CallFailed`, with what had arrived, for an error or a chunk that is not of this format."""
        try:
            data = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            if event.data.strip() in (b"[DONE]", b""):  # gateways add it
                return
            raise self._invalid(f"a chunk that is not JSON: {event.data[:4096].decode('utf-8', 'replace')}") from None
        if isinstance(data, list) and data and isinstance(data[0], dict) and data[0].get("error"):
            data = data[0]
        if not isinstance(data, dict):
            raise self._invalid("a chunk that is not an object")
        if event.event == "error" or data.get("error"):
            message, words = describe(data)
            raise self.failure(kind_of(200, words), f"error inside the stream: {message}")
        counted = data.get("usageMetadata")
        if isinstance(counted, dict):
            self._usage |= {name: value for name, value in counted.items() if value is not None}
        if isinstance(data.get("responseId"), str):
            self._id = data["responseId"]
        feedback = data.get("promptFeedback")
        if isinstance(feedback, dict) and isinstance(feedback.get("blockReason"), str):
            self.started, self._blocked = True, feedback["blockReason"]
        candidates = data.get("candidates")
        if candidates is not None and not isinstance(candidates, list):
            raise self._invalid("candidates is not a list")
        for candidate in candidates or ():
            if not isinstance(candidate, dict):
                raise self._invalid("a candidate is not an object")
            if not candidate.get("index"):  # only one is ever asked for
                self._candidate(candidate)

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The response, once the stream has ended. Raises `CallFailed` when it ended early.

        Its `thinking` is None when there was no thinking, and empty when there was and none of it is shown.
        """
        if self._finish is None and self._blocked is None:
            raise self.failure("incomplete", "the stream ended without a finishReason")
        used, thinking = usage(self._usage), self._text(thought=True)
        thought = thinking or used.reasoning_tokens or any("thoughtSignature" in part for part in self._parts)
        return Response(
            text=self._text(thought=False),
            stop=self._stop(),
            usage=used,
            timings=timings,
            thinking=thinking if thought else None,
            stop_raw=self._finish or f"blocked/{self._blocked}",
            response_id=self._id,
            token_logprobs=self._logprobs.sampled,
            top_logprobs=self._logprobs.top,
            blocks=self._whole(),
            sent=sent,
        )

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed` that carries what had arrived. Its usage is known only when the model had already finished."""
        known = usage(self._usage)
        return CallFailed(
            kind,
            clean(message, self._secrets),
            retryable=kind in RETRYABLE if retryable is None else retryable,
            usage=known if self._finish is not None and known.known else None,
            partial_text=self._text(thought=False),
            thinking_text=self._text(thought=True),
            http_status=200,
        )

    def _invalid(self, message: str) -> CallFailed:
        return self.failure("invalid_response", message)

    def _stop(self) -> CallStop:
        if self._finish is None:
            return CallStop.REFUSAL
        stop = _STOPS.get(self._finish, CallStop.OTHER)
        calls = any("functionCall" in part for part in self._parts)
        return CallStop.TOOL_USE if stop is CallStop.END and calls else stop

    def _text(self, *, thought: bool) -> str:
        texts = (part["text"] for part in self._whole() if bool(part.get("thought")) is thought and isinstance(part.get("text"), str))
        return "".join(texts)

    def _whole(self) -> tuple[dict[str, Any], ...]:
        if not self._pieces:
            return tuple(self._parts)
        return (*self._parts[:-1], {**self._parts[-1], "text": "".join(self._pieces)})

    def _candidate(self, candidate: dict[str, Any]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else content
        if not isinstance(parts, list | None):
            raise self._invalid("content has no list of parts")
        for part in parts or ():
            if not isinstance(part, dict) or not isinstance(part.get("text") or "", str):
                raise self._invalid("a part is not an object, or its text is not text")
            self._take(part)
        result = candidate.get("logprobsResult")
        if isinstance(result, dict):
            # One entry a decoding step in both lists; the second is there when more than the sampled token was asked for.
            steps = _objects(result.get("topCandidates"))
            for place, chosen in enumerate(_objects(result.get("chosenCandidates"))):
                top = _objects(steps[place].get("candidates")) if place < len(steps) else []
                self._logprobs.add(chosen.get("logProbability"), (one.get("logProbability") for one in top))
        finish = candidate.get("finishReason")
        if finish is not None:
            self.started = True
            self._finish = str(finish)

    def _take(self, part: dict[str, Any]) -> None:
        self.started |= bool(part.get("text")) or "functionCall" in part
        plain = part.keys() in _PLAIN and isinstance(part["text"], str)
        last = self._parts[-1] if self._parts else {}
        if plain and self._pieces and last.get("thought") == part.get("thought"):
            self._pieces.append(part["text"])
            return
        self._parts = list(self._whole())
        self._pieces = [part["text"]] if plain else []
        self._parts.append(part)


def _objects(values: object) -> list[dict[str, Any]]:
    """The entries of a list; what is no object keeps its place as an empty one."""
    return [value if isinstance(value, dict) else {} for value in values] if isinstance(values, list) else []
