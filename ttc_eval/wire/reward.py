"""Reward models behind HTTP: a conversation in, one number or a few out. Pure; no stream, one JSON body.

What differs between servers is data, one `RewardForm` each. A reply says `{"rewards": [...], "labels": [...]}` to the verifier, with the
numbers as they came and no activation applied, or the body itself where there are none in their place.

Sources, as of 2026-12-01: vLLM's Classification and Pooling APIs (docs.vllm.ai, "Pooling models"; entrypoints/pooling/*/protocol.py: both
take `messages`, and `use_activation: false` asks for raw scores); Text Embeddings Inference `/predict` (docs/openapi.json: `inputs` may be
a pair of texts, `raw_scores` turns the activation off).

Usage (docs/design.md 3.2): vLLM reports `prompt_tokens`, and 0 for the completion; Text Embeddings Inference reports none in its body, so
usage is unknown there and the reservation is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.records import JSON, UNKNOWN_USAGE, CallStop, Message, Request, Response, Role, Timings, Usage
from ttc_eval.thinking import ThinkingSupport
from ttc_eval.wire.counts import checked
from ttc_eval.wire.failures import RETRYABLE, clean, describe, failure_of_reply, kind_of
from ttc_eval.wire.sse import Event, EventTooLarge

_MOST_BYTES = 1024 * 1024
_SHOWN = 2000  # characters of a body without a number that are kept


@dataclass(frozen=True, slots=True)
class RewardForm:
    """How one server is asked for a reward.

    Attributes:
        path: what follows the base URL.
        inputs: the part of the body that holds the conversation and the model's name.
        fixed: fields of every request.
        place: keys and indexes that lead to the list of numbers, or of objects with `score` and `label`.
    """

    name: str
    path: str
    inputs: Callable[[Request], dict[str, Any]]
    fixed: JSON
    place: tuple[str | int, ...]


def _chat(request: Request) -> dict[str, Any]:
    return {"model": request.model, "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages]}


def _pair(request: Request) -> dict[str, Any]:
    """A batch of one pair: everything before the answer, and the answer."""
    *before, answer = request.messages
    return {"inputs": [["\n\n".join(turn.content for turn in before), answer.content]]}


FORMS: Mapping[str, RewardForm] = {
    form.name: form
    for form in (
        RewardForm("vllm_classify", "/classify", _chat, {"use_activation": False}, ("data", 0, "probs")),
        RewardForm("vllm_pooling", "/pooling", _chat, {"use_activation": False}, ("data", 0, "data")),
        RewardForm("tei_predict", "/predict", _pair, {"raw_scores": True}, (0,)),
    )
}


def form_named(name: str) -> RewardForm:
    """The form of that name. Raises `UserError` that lists the names there are."""
    if name not in FORMS:
        raise UserError(f"dialect={name}: reward endpoints are asked in one of these forms: {', '.join(sorted(FORMS))}")
    return FORMS[name]


@dataclass(frozen=True, slots=True)
class RewardFormat:
    """A reward endpoint in one form, as a `WireFormat` that reads a whole body."""

    form: RewardForm
    whole_body: bool = field(default=True, init=False)

    @property
    def identity(self) -> str:
        """`reward` and the form's name."""
        return f"reward.{self.form.name}"

    @property
    def continues(self) -> bool:
        """It writes nothing."""
        return False

    @property
    def keep_alive(self) -> bool:
        """A body that has ended leaves its connection free."""
        return True

    def path(self, model: str) -> str:
        """The form's path; the body names the model."""
        return self.form.path

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The key as a bearer token."""
        return {"Accept": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})

    def body(self, request: Request, support: ThinkingSupport) -> dict[str, Any]:
        """The JSON to post. Raises `UserError` for a request that is not for the score of an answer to a question."""
        if request.role is not Role.VERIFY:
            raise UserError(f"{request.model}: a reward model scores and writes nothing; give it as verifier_model, with verifier=reward")
        if not _is_answered(request.messages):
            raise UserError(
                f"{request.model}: a reward model scores an assistant's turn, and this verifier asks in words; use verifier=reward"
            )
        return {**self.form.inputs(request), **self.form.fixed}

    def what_was_sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The fixed fields."""
        return {name: body[name] for name in self.form.fixed}

    def stream(self, secrets: Iterable[str]) -> RewardBody:
        """A fresh `RewardBody`."""
        return RewardBody(self.form, tuple(secrets))

    def error(self, status: int, headers: Mapping[str, str], body: bytes, now: float, secrets: Iterable[str]) -> CallFailed:
        """See `failures.failure_of_reply`."""
        return failure_of_reply(status, headers, body, now, secrets)


class Pieces:
    """Gives the pieces of a body on as they come, in the place of a parser of events."""

    def __init__(self) -> None:
        self._size = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The piece itself. Raises `EventTooLarge` for a body of more than a mebibyte."""
        self._size += len(chunk)
        if self._size > _MOST_BYTES:
            raise EventTooLarge(f"a reply of more than {_MOST_BYTES} bytes")
        return [Event("", chunk)]

    def close(self) -> bool:
        """A body has no unfinished events; one that was cut, the connection tells."""
        return True


class RewardBody:
    """Gathers the pieces of one body into a response, as a `Stream`."""

    def __init__(self, form: RewardForm, secrets: tuple[str, ...]) -> None:
        self._form = form
        self._secrets = secrets
        self._pieces: list[bytes] = []

    @property
    def started(self) -> bool:
        """Whether a first piece has come."""
        return bool(self._pieces)

    @property
    def done(self) -> bool:
        """A body ends with its connection's word, not with its own."""
        return False

    def feed(self, event: Event) -> None:
        """Take in one piece."""
        self._pieces.append(event.data)

    def finish(self, timings: Timings, *, sent: JSON | None = None) -> Response:
        """The rewards, as JSON. Raises `CallFailed` for a body that is not JSON, or is an error object."""
        try:
            body = json.loads(b"".join(self._pieces))  # unlike orjson it reads NaN, which is then invalid by name
        except (ValueError, RecursionError):
            raise self.failure("invalid_response", "the reply is not JSON") from None
        if isinstance(body, dict) and body.get("error") is not None:
            message, words = describe(body)
            raise self.failure(kind_of(200, words), message)
        return Response(
            reply_text(body, self._form),
            CallStop.END,
            usage_of(body),
            timings,
            response_id=body["id"] if isinstance(body, dict) and isinstance(body.get("id"), str) else None,
            sent=sent,
        )

    def failure(self, kind: str, message: str, *, retryable: bool | None = None) -> CallFailed:
        """A `CallFailed`; what it used is not known."""
        return CallFailed(kind, clean(message, self._secrets), retryable=kind in RETRYABLE if retryable is None else retryable)


def reply_text(body: Any, form: RewardForm) -> str:
    """`{"rewards": …, "labels": …}` with what stands in the form's place, or the body where nothing does."""
    found = body
    for step in form.place:
        if isinstance(found, dict) and isinstance(step, str):
            found = found.get(step)
        elif isinstance(found, list) and isinstance(step, int) and len(found) > step:
            found = found[step]
        else:
            found = None
    if not isinstance(found, list):
        return json.dumps(body)[:_SHOWN]
    rewards = [one.get("score") if isinstance(one, dict) else one for one in found]
    labels = [one.get("label") if isinstance(one, dict) else None for one in found]
    return json.dumps({"rewards": rewards, **({"labels": labels} if any(label is not None for label in labels) else {})})


def usage_of(body: Any) -> Usage:
    """The usage that a body reports; unknown when it reports none."""
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return UNKNOWN_USAGE
    read, total = usage.get("prompt_tokens"), usage.get("total_tokens")
    # Where only the total is told beside what was read, a reward model has written the rest: nothing.
    written = usage.get("completion_tokens")
    return checked(usage, read, 0 if written is None and total is not None and total == read else written, total=total)


def _is_answered(messages: tuple[Message, ...]) -> bool:
    return len(messages) > 1 and messages[-1].role == "assistant"
