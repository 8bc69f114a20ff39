"""The model behind `verifier=noisy_oracle`: it scores answers of any model, by their references and with the quality that is set.

The score of an answer is the logistic function of a normal variable whose mean is higher for right answers, by the distance that makes the
probability that a right answer scores above a wrong one (AUROC) what was set: sqrt(2) * Phi^-1(auroc), for unit variances. It is
independent between answers with different texts, and the same whenever the same one is scored.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from ttc_eval.answers import extract, same_answer
from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Connection, ModelInfo, PriceRef
from ttc_eval.records import (
    NOTHING_USED,
    CallStop,
    ContractKind,
    Message,
    Problem,
    Request,
    Response,
    Timings,
    Usage,
    UsageSource,
    digest,
)
from ttc_eval.tasks import task_of


@dataclass(frozen=True, slots=True)
class NoisyOracleModel:
    """What is known of it.

    Attributes:
        auroc: probability that a right answer scores above a wrong one, between 0 and 1; 0.5 knows nothing.
        invalid: share of replies that are malformed.
        output_tokens: recorded for each reply, up to its cap; the input is counted at four bytes a token.
        seconds: latency that is recorded; nothing is waited for.
        seed: another one is another judge of the same quality.
    """

    auroc: float = 0.8
    invalid: float = 0.0
    output_tokens: int = 16
    seconds: float = 0.1
    seed: int = 0
    name: str = "noisy-oracle"
    max_concurrency: int = 64
    price: PriceRef = field(default_factory=PriceRef)
    answers: Mapping[tuple[Message, ...], Problem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.auroc < 1 or not 0 <= self.invalid <= 1:
            raise UserError("verifier_model.auroc must lie between 0 and 1, and verifier_model.invalid from 0 to 1")
        if self.output_tokens < 0 or not 0 <= self.seconds < math.inf:
            raise UserError("verifier_model.output_tokens and verifier_model.seconds: give 0 or more")

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of what it simulates: other settings never share scores."""
        identity = digest([self.auroc, self.invalid, self.output_tokens, self.seconds, self.seed])
        return ModelInfo(self.name, f"noisy_oracle:{identity}", max_concurrency=self.max_concurrency, simulated=True, price=self.price)

    def with_answers(self, problems: Sequence[Problem]) -> NoisyOracleModel:
        """The same model, knowing the references of `problems` beside those it knew."""
        return replace(self, answers={**self.answers, **{problem.messages: problem for problem in problems}})

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield _Line(self)


@dataclass(frozen=True, slots=True)
class _Line:
    model: NoisyOracleModel

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        model, started = self.model, time.time()
        problem = model.answers.get(request.messages[:-1])
        if problem is None:
            said = "the noisy oracle does not know this question; it is asked by verifier=noisy_oracle alone"
            raise CallFailed("invalid_request", said, retryable=False, usage=NOTHING_USED)
        if problem.contract.kind is ContractKind.CODE:
            said = "the noisy oracle compares answers, and whether a program is right shows only when it runs"
            raise CallFailed("invalid_request", said, retryable=False, usage=NOTHING_USED)
        right = await is_right(problem, request.messages[-1].content)
        rng = random.Random(f"{model.seed}/{request.key}")
        text = "It looks right to me."
        if rng.random() >= model.invalid:
            text = json.dumps({"score": noisy_score(rng, model.auroc, right=right), "rationale": "simulated"})
        written = min(model.output_tokens, request.max_output_tokens)
        read = math.ceil(sum(len(turn.content.encode("utf-8", "replace")) for turn in request.messages) / 4)
        usage = Usage(read, written, reasoning_tokens=0, source=UsageSource.COUNTED)
        return Response(text, CallStop.END, usage, Timings(started, model.seconds, model.seconds))


def latent(rng: random.Random, auroc: float, *, right: bool) -> float:
    """A normal variable of variance 1 that separates right from wrong answers with the area under the curve `auroc`."""
    distance = math.sqrt(2) * NormalDist().inv_cdf(auroc)
    return rng.gauss(distance if right else 0.0, 1.0) - distance / 2


def noisy_score(rng: random.Random, auroc: float, *, right: bool) -> float:
    """The logistic function of `latent`, to six digits."""
    return round(1 / (1 + math.exp(-latent(rng, auroc, right=right))), 6)


async def is_right(problem: Problem, text: str) -> bool:
    """Whether the answer in `text` is right, as the grader would say of any but a program; False when it has none."""
    answer = extract(text, problem.contract, complete=True).answer
    if answer is None:
        return False
    if problem.contract.kind is ContractKind.STATE:
        return task_of(problem.contract.task).check(problem.given, answer).valid
    if problem.contract.kind is not ContractKind.MATH:
        return same_answer(answer, problem.reference, problem.contract)
    return await asyncio.to_thread(same_answer, answer, problem.reference, problem.contract)
