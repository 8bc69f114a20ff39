"""The trained process verifier of the lab model, asked like any model: it reads a turn and returns the scores of its steps.

The reply is `{"steps": [...]}`: for every step of the thinking the probability that it is right given the steps before
it, then the same for the answer. A turn that is still thinking has no answer, and gets the scores of its steps alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson

from ttc_eval.errors import CallFailed
from ttc_eval.lab import task
from ttc_eval.lab.network import verifier_scores
from ttc_eval.lab.tokens import CLOSE, END, END_ID, IDS, THINK, encode
from ttc_eval.lab.weights import Weights, load_weights, weights_identity
from ttc_eval.models.base import Connection, ModelInfo, PriceRef
from ttc_eval.records import NOTHING_USED, CallStop, Message, Request, Response, Timings, Usage, UsageSource


@dataclass(frozen=True, slots=True)
class LabVerifier:
    """What is known of the verifier. It scores turns of the lab model and no other text."""

    name: str = "lab-verifier"
    max_concurrency: int = 64
    price: PriceRef = field(default_factory=PriceRef)

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of the weights. Raises `UserError` when they are missing or changed."""
        return ModelInfo(self.name, f"lab:{weights_identity()[:16]}", max_concurrency=self.max_concurrency, price=self.price)

    def check(self) -> None:
        """Raise `UserError` when the weights are missing or changed."""
        weights_identity()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Load the weights. Raises `UserError` as `check` does."""
        # One thread of its own: scoring is arithmetic, and the event loop must go on.
        with ThreadPoolExecutor(1, "lab-verifier") as pool:
            yield _Line(load_weights(), pool)


@dataclass(frozen=True, slots=True)
class _Line:
    weights: Weights
    pool: ThreadPoolExecutor

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        started, clock = time.time(), time.perf_counter()
        try:
            tokens = turn_tokens(request.messages)
            steps = await asyncio.get_running_loop().run_in_executor(self.pool, step_scores, self.weights, tokens)
        except ValueError as error:
            raise CallFailed("invalid_request", str(error), retryable=False, usage=NOTHING_USED) from None
        seconds = time.perf_counter() - clock
        usage = Usage(len(tokens), 0, reasoning_tokens=0, source=UsageSource.COUNTED)
        text = orjson.dumps({"steps": steps}).decode()
        return Response(text, CallStop.END, usage, Timings(started, seconds, seconds))


def turn_tokens(messages: tuple[Message, ...]) -> list[int]:
    """Token ids of a whole turn: the question's chain, and the assistant's text after it.

    Raises ValueError when there is no question with a chain, no assistant's turn after it, or text that the model cannot write.
    """
    if len(messages) < 2 or messages[-1].role != "assistant" or messages[-2].role != "user":
        raise ValueError("the lab verifier reads a user's question and the assistant's turn after it")
    turn = messages[-1].content
    ending = "" if THINK in turn and CLOSE not in turn else END
    return encode(f"{task.parse(messages[-2].content)}={turn}{ending}")


def step_scores(weights: Weights, tokens: list[int]) -> list[float]:
    """The probability, for each step and then for the answer, that it is right; `tokens` are those of a turn.

    A turn without its end has no answer yet. Raises ValueError when the tokens overrun the context.
    """
    scores = verifier_scores(weights, [tokens])[0]
    marks = (IDS[";"], END_ID)
    return [float(scores[place]) for place, token in enumerate(tokens) if token in marks]
