"""A model that gives listed replies, for documentation, demonstrations and tests. Draw *i* gets reply *i*."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Connection, ModelInfo, PriceRef
from ttc_eval.records import UNKNOWN_USAGE, CallStop, Request, Response, Timings, Usage, UsageSource, digest
from ttc_eval.thinking import ThinkingMode, ThinkingSupport


@dataclass(frozen=True, slots=True)
class Reply:
    """One listed reply; what is None comes from the model's defaults.

    `complete=False` is a reply that was cut; `usage_known=False` reports no usage; `error` fails the call with that
    text and is not retried.
    """

    text: str = ""
    output_tokens: int | None = None
    complete: bool = True
    usage_known: bool = True
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """Replies from a list. A plain string stands for a complete reply with the default token counts.

    A draw beyond the list fails. Token counts are reported as they are listed, even above the cap of a call: that is
    how the ledger's refusal of such usage is shown.
    """

    replies: tuple[str | int | float | Reply, ...]
    output_tokens: int = 1
    input_tokens: int = 1
    latency_s: float = 0.0
    name: str = "scripted"
    max_concurrency: int = 64
    price: PriceRef = field(default_factory=PriceRef)

    def __post_init__(self) -> None:
        if self.output_tokens < 0 or self.input_tokens < 0 or not 0 <= self.latency_s < math.inf:
            raise UserError("model: output_tokens, input_tokens and latency_s must be 0 or more")
        if not self.replies:
            raise UserError("model.replies: the list is empty; give at least one reply, for example 'model.replies=[\"42\"]'")

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of its script: another script never shares draws."""
        script = [[reply.text, reply.output_tokens, reply.complete, reply.usage_known, reply.error] for reply in map(_reply, self.replies)]
        identity = digest([script, self.output_tokens, self.input_tokens, self.latency_s])
        support = ThinkingSupport(accepts=(ThinkingMode.OFF,))
        return ModelInfo(self.name, f"scripted:{identity}", support, max_concurrency=self.max_concurrency, simulated=True, price=self.price)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield _Script(self)


@dataclass(frozen=True, slots=True)
class _Script:
    model: ScriptedModel

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        if request.draw >= len(self.model.replies):
            raise CallFailed("no_reply", f"draw {request.draw}: the script has {len(self.model.replies)} replies", retryable=False)
        reply = _reply(self.model.replies[request.draw])
        output = self.model.output_tokens if reply.output_tokens is None else reply.output_tokens
        usage = (
            Usage(self.model.input_tokens, output, reasoning_tokens=0, source=UsageSource.COUNTED) if reply.usage_known else UNKNOWN_USAGE
        )
        if reply.error is not None:
            raise CallFailed("scripted_error", reply.error, retryable=False, usage=usage if reply.output_tokens is not None else None)
        stop = CallStop.END if reply.complete else CallStop.MAX_TOKENS
        return Response(reply.text, stop, usage, Timings(time.time(), self.model.latency_s, self.model.latency_s))


def _reply(entry: str | int | float | Reply) -> Reply:
    return entry if isinstance(entry, Reply) else Reply(str(entry))
