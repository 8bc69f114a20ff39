"""The lab model: a small reasoning model that was really trained and really samples, and runs inside this process.

See docs/lab-model.md for what it is good for and what it is not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ttc_eval.errors import CallFailed
from ttc_eval.lab import task
from ttc_eval.lab.batch import Job
from ttc_eval.lab.engine import Engine, Timed
from ttc_eval.lab.tokens import CLOSE, CONTEXT, THINK, encode
from ttc_eval.lab.turn import Rules
from ttc_eval.lab.weights import load_weights, weights_identity
from ttc_eval.models.base import Connection, ModelInfo, PriceRef, StepFormat
from ttc_eval.records import NOTHING_USED, Message, Request, Response, Timings, Usage, UsageSource
from ttc_eval.thinking import ThinkingMode, ThinkingSupport


@dataclass(frozen=True, slots=True)
class LabModel:
    """The model that this package brings. `max_concurrency` requests are generated side by side, in one batch.

    It reads the last chain of the last user message (`ttc_eval.lab.task`) and nothing else of the conversation.
    """

    name: str = "lab"
    max_concurrency: int = 128
    price: PriceRef = field(default_factory=PriceRef)

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of its weights. Raises `UserError` when they are missing or changed."""
        support = ThinkingSupport(
            accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET, ThinkingMode.ADAPTIVE),
            min_budget=0,
            max_budget=CONTEXT,
            budget_inside_max_tokens=True,
            reports_reasoning_tokens=True,
            extends=True,
        )
        endpoint = f"lab:{weights_identity()[:16]}"
        steps = StepFormat(THINK, ";", CLOSE, apart=True)
        return ModelInfo(self.name, endpoint, support, max_concurrency=self.max_concurrency, price=self.price, steps=steps)

    def check(self) -> None:
        """Raise `UserError` when the weights are missing or changed."""
        weights_identity()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Start the engine. Raises `UserError` as `check` does."""
        with Engine(load_weights(), self.max_concurrency) as engine:
            yield _Line(engine)


@dataclass(frozen=True, slots=True)
class _Line:
    engine: Engine

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        started = time.time()
        try:
            job = job_of(request)
            async with asyncio.timeout(timeout):
                timed = await self.engine.generate(job)
        except ValueError as error:
            raise CallFailed("invalid_request", str(error), retryable=False, usage=NOTHING_USED) from None
        except TimeoutError:
            raise CallFailed("timeout", f"the lab model took more than {timeout} s", retryable=True) from None
        return _response(timed, len(job.before), started)


def job_of(request: Request) -> Job:
    """The draw that a request asks for. Raises ValueError when it holds no chain or a prefix that is no text of the model."""
    sampling, thinking = request.sampling, request.thinking
    return Job(
        before=(*encode(f"{task.parse(_last_question(request.messages))}="), *encode(_given(request))),
        rules=Rules(
            max_output=request.max_output_tokens,
            budget=0 if thinking.mode is ThinkingMode.OFF else thinking.budget,
            at_limit=thinking.at_limit,
            max_extensions=thinking.max_extensions,
            stops=sampling.stop,
        ),
        seed=request.sampling_seed,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        logprobs=sampling.logprobs is not None,
        top=sampling.logprobs or 0,
    )


def _last_question(messages: tuple[Message, ...]) -> str:
    found = [message.content for message in messages if message.role == "user"]
    if not found:
        raise ValueError("the lab model needs a user message with a chain such as 37+8-5*3")
    return found[-1]


def _given(request: Request) -> str:
    """What is given of the assistant's turn: the prefix, after thinking that is closed at once when it is off."""
    closed = request.thinking.mode is ThinkingMode.OFF and THINK not in request.prefix
    return f"{THINK}{CLOSE}{request.prefix}" if closed else request.prefix


def _response(timed: Timed, input_tokens: int, started: float) -> Response:
    generated = timed.generated
    return Response(
        text=generated.text,
        thinking=generated.thinking or None,
        stop=generated.stop,
        usage=Usage(input_tokens, len(generated.tokens), reasoning_tokens=generated.thought_tokens, source=UsageSource.COUNTED),
        timings=Timings(started, timed.first_token_s, timed.latency_s),
        token_logprobs=generated.logprobs,
        top_logprobs=generated.top_logprobs,
    )
