"""A simulated model with known accuracy, token counts, latency and faults, so that strategies can be tried without a key.

Everything that it draws follows from its seed and the request's address, so a draw is the same whenever it is made. It
knows the references, as no real model does; its rows and figures are marked *simulated*.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import math
import random
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Connection, ModelInfo, PriceRef
from ttc_eval.models.noisy_oracle import latent, noisy_score
from ttc_eval.records import (
    UNKNOWN_USAGE,
    CallStop,
    ContractKind,
    Extraction,
    Message,
    Problem,
    Request,
    Response,
    Role,
    Timings,
    Usage,
    UsageSource,
    digest,
)
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode, ThinkingSupport
from ttc_eval.verifiers.pairwise import FIRST, SECOND
from ttc_eval.verifiers.quoting import shown


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of attempts that fail in each way. They are drawn per attempt, so a retry may succeed.

    `rate_limited` is a 429 with `retry_after_s`; `server_error` a 503; `cut_stream` a stream that ends early, with
    unknown usage. `truncated` responses are cut; `unknown_usage` ones succeed and report nothing.
    """

    rate_limited: float = 0.0
    retry_after_s: float = 0.01
    server_error: float = 0.0
    cut_stream: float = 0.0
    truncated: float = 0.0
    unknown_usage: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.rate_limited, self.server_error, self.cut_stream, self.truncated, self.unknown_usage)
        if not all(0 <= share <= 1 for share in shares):
            raise UserError("model.faults: every share must be between 0 and 1")


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """What is known of the simulated model.

    Attributes:
        accuracy: share of right answers by difficulty label and thinking budget, linear between the listed budgets and
            constant beyond them; thinking off is budget 0. Label `default` serves problems without a listed one.
        wrong_answers: how many different wrong answers a problem has; the first is the most common, each next one half
            as common as the one before, so that wrong answers gather votes too.
        answer_tokens, thinking_tokens: means of the visible answer and of the thinking that the model would do without
            a budget; both vary log-normally with `token_spread` (standard deviation of the logarithm).
        verifier_auroc: quality of its judgements when it is asked as a verifier: the probability that a right candidate
            scores above a wrong one. verifier_invalid: share of judgements that are malformed.
        position_bias: what is added to the latent score (of standard deviation 1) of the candidate that is shown first, when it is asked
            which of two is better.
        revision_repairs, revision_breaks: when it is asked to revise an answer to a known question, the probability that a wrong one
            becomes right, and that a right one becomes wrong.
        logprob_auroc: how much the log-probabilities of a draw's tokens tell, when `sampling.logprobs` asks for them: the probability that
            those of a right draw are above those of a wrong one. All tokens of one draw have the same.
        first_token_s, seconds_per_token: latency that is recorded; `time_scale` times as long is really waited.
    """

    accuracy: Mapping[str, Mapping[int, float]]
    wrong_answers: int = 3
    answer_tokens: float = 8.0
    thinking_tokens: float = 40.0
    token_spread: float = 0.3
    input_tokens: int = 60
    first_token_s: float = 0.2
    seconds_per_token: float = 0.01
    time_scale: float = 0.0
    verifier_auroc: float = 0.8
    verifier_invalid: float = 0.0
    position_bias: float = 0.0
    revision_repairs: float = 0.3
    revision_breaks: float = 0.1
    logprob_auroc: float = 0.7
    faults: Faults = field(default_factory=Faults)
    seed: int = 0
    name: str = "simulated"
    max_concurrency: int = 64
    price: PriceRef = field(default_factory=PriceRef)
    answers: Mapping[tuple[Message, ...], Problem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for label, table in self.accuracy.items():
            if not table or not all(0 <= value <= 1 for value in table.values()):
                raise UserError(f"model.accuracy.{label}: give budgets with accuracies between 0 and 1, for example {{0: 0.3, 64: 0.6}}")
        tokens = (self.answer_tokens, self.thinking_tokens, self.token_spread, self.input_tokens)
        if not all(0 <= value < math.inf for value in (*tokens, self.first_token_s, self.seconds_per_token, self.time_scale)):
            raise UserError("model: token counts, seconds, token_spread and time_scale must be 0 or more")
        if not 0 < self.logprob_auroc < 1:
            raise UserError("model.logprob_auroc must lie between 0 and 1")
        if not 0 < self.verifier_auroc < 1 or not 0 <= self.verifier_invalid <= 1:
            raise UserError("model.verifier_auroc must lie between 0 and 1, and model.verifier_invalid from 0 to 1")
        if not 0 <= self.revision_repairs <= 1 or not 0 <= self.revision_breaks <= 1:
            raise UserError("model.revision_repairs and model.revision_breaks: give probabilities from 0 to 1")
        if not math.isfinite(self.position_bias):
            raise UserError("model.position_bias: give a number; above 0 the candidate that is shown first is favoured")
        if self.wrong_answers < 1:
            raise UserError("model.wrong_answers: give 1 or more")

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of what it simulates: other settings never share draws."""
        accuracy = {label: {str(budget): value for budget, value in table.items()} for label, table in self.accuracy.items()}
        faults = [getattr(self.faults, name) for name in Faults.__dataclass_fields__]
        shape = [
            self.wrong_answers,
            self.answer_tokens,
            self.thinking_tokens,
            self.token_spread,
            self.input_tokens,
            self.verifier_auroc,
            self.verifier_invalid,
        ]
        # What came later counts only where it is not at its default, so that older studies keep their draws.
        later = ("position_bias", "revision_repairs", "revision_breaks", "logprob_auroc")
        defaults = {entry.name: entry.default for entry in fields(self)}
        changed = {name: getattr(self, name) for name in later if getattr(self, name) != defaults[name]}
        identity = digest([accuracy, faults, shape, self.first_token_s, self.seconds_per_token, self.seed, *([changed] if changed else [])])
        support = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), min_budget=0, reports_reasoning_tokens=True)
        return ModelInfo(
            self.name, f"simulated:{identity}", support, max_concurrency=self.max_concurrency, simulated=True, price=self.price
        )

    def with_answers(self, problems: Sequence[Problem]) -> SimulatedModel:
        """The same model, knowing the references of `problems` beside those it knew."""
        return replace(self, answers={**self.answers, **{problem.messages: problem for problem in problems}})

    def accuracy_of(self, difficulty: str | None, thinking: Thinking) -> float:
        """Probability of a right answer. Raises `UserError` when the difficulty is not listed and there is no default."""
        table = self.accuracy.get(difficulty or "default", self.accuracy.get("default"))
        if table is None:
            raise UserError(f"model.accuracy: difficulty {difficulty!r} is not listed; add it, or add 'default'")
        return _interpolated(table, thinking.budget or 0)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield _Simulation(self)


@dataclass(frozen=True, slots=True)
class _Draft:
    """What a response would be without a cap. `exhausted`: its thinking budget was used up before it could answer.

    `right` is None for what is no answer to a known question.
    """

    text: str
    thinking_tokens: int
    answer_tokens: int
    exhausted: bool = False
    right: bool | None = None


@dataclass(frozen=True, slots=True)
class _Simulation:
    model: SimulatedModel

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        rng = random.Random(f"{self.model.seed}/{request.key}")
        draft = self._judged(request, rng) if request.role is Role.VERIFY else self._drawn(request, rng)
        luck = random.Random(f"{self.model.seed}/{request.key}/{attempt}")
        wanted = draft.thinking_tokens + draft.answer_tokens
        output = min(wanted, request.max_output_tokens)
        cut = output < wanted or luck.random() < self.model.faults.truncated
        seconds = self.model.first_token_s + output * self.model.seconds_per_token
        started = time.time()
        # Without a wait the loop must still turn, as it does for every real model.
        await asyncio.sleep(seconds * self.model.time_scale)
        self._fail(luck, draft.text)
        usage = Usage(self.model.input_tokens, output, reasoning_tokens=min(draft.thinking_tokens, output), source=UsageSource.COUNTED)
        if luck.random() < self.model.faults.unknown_usage:
            usage = UNKNOWN_USAGE
        stop = CallStop.MAX_TOKENS if cut else CallStop.BUDGET_EXCEEDED if draft.exhausted else CallStop.END
        ended = stop is CallStop.END
        thinking = None
        if draft.thinking_tokens:
            thinking = f"(simulated thinking, {min(draft.thinking_tokens, output)} tokens)" + (f"\n{draft.text}" if ended else "")
        sampled, top = self._logprobs(request, draft, output)
        text, timings = draft.text if ended else "", Timings(started, self.model.first_token_s, seconds)
        return Response(text, stop, usage, timings, thinking, token_logprobs=sampled, top_logprobs=top)

    def _logprobs(
        self, request: Request, draft: _Draft, output: int
    ) -> tuple[tuple[float, ...] | None, tuple[tuple[float, ...], ...] | None]:
        count = request.sampling.logprobs
        if count is None or draft.right is None or not output:
            return None, None
        rng = random.Random(f"{self.model.seed}/{request.key}/logprobs")
        value = latent(rng, self.model.logprob_auroc, right=draft.right)
        # The sampled token has at least half of the mass, and the others share the rest, so that every measure of confidence grows with it.
        share, others = 0.5 + 0.5 / (1 + math.exp(-value)), max(1, count - 1)
        sampled, other = math.log(share), math.log(0.5 / (1 + math.exp(value)) / others)
        return (sampled,) * output, ((sampled, *(other,) * (count - 1)),) * output if count else None

    def _drawn(self, request: Request, rng: random.Random) -> _Draft:
        problem = self.model.answers.get(request.messages[:-2] if request.role is Role.REVISE else request.messages)
        if problem is None:
            raise CallFailed("invalid_request", "the simulated model does not know this question", retryable=False)
        if request.role is Role.REVISE:
            was_right = _names(problem.reference, request.messages[-2].content)
            chance = 1 - self.model.revision_breaks if was_right else self.model.revision_repairs
        else:
            chance = self.model.accuracy_of(problem.difficulty, request.thinking)
        right = rng.random() < chance
        ranks = range(self.model.wrong_answers)
        rank = rng.choices(ranks, weights=[0.5**place for place in ranks])[0]
        answer = problem.reference if right else wrong_answer(problem, rank)
        text = answer if problem.contract.extraction is Extraction.WHOLE else f"Answer: {answer}"
        budget = request.thinking.budget or 0
        wanted = _tokens(rng, self.model.thinking_tokens, self.model.token_spread)
        answer_tokens = _tokens(rng, self.model.answer_tokens, self.model.token_spread)
        if request.thinking.at_limit is AtLimit.FAIL and budget:
            # What a draw would think does not depend on its budget: with a larger one the same draw may end.
            same = random.Random(f"{self.model.seed}/{request.sampling_seed}")
            wanted = _tokens(same, self.model.thinking_tokens, self.model.token_spread)
            if wanted > budget:
                return _Draft("", budget, 0, exhausted=True, right=right)
        return _Draft(text, min(wanted, budget), answer_tokens, right=right)

    def _judged(self, request: Request, rng: random.Random) -> _Draft:
        asked = request.messages[-1].content
        stated = self.model.answers.get(request.messages[:-2])
        if stated is not None:
            # It is asked about its own answer, which is the turn before: a confidence from 0 to 100.
            score = noisy_score(rng, self.model.verifier_auroc, right=_names(stated.reference, request.messages[-2].content))
            unreadable = rng.random() < self.model.verifier_invalid
            return _Draft("I am quite sure." if unreadable else f"{100 * score:.0f}", 0, 1)
        known = self.model.answers.values()
        # The longest question that is quoted: one question may be the beginning of another.
        problem = max(
            (one for one in known if one.messages[-1].content in asked), key=lambda one: len(one.messages[-1].content), default=None
        )
        if problem is None:
            raise CallFailed("invalid_request", "the simulated model does not know this question", retryable=False)
        first, second = shown(asked, FIRST), shown(asked, SECOND)
        if first is not None and second is not None:
            better = (
                "A" if self._liking(request, problem, first) + self.model.position_bias > self._liking(request, problem, second) else "B"
            )
            verdict: dict[str, object] = {"better": better, "rationale": "simulated"}
        else:
            judged = next((text for name in ("CANDIDATE", "REASONING") if (text := shown(asked, name)) is not None), asked)
            score = noisy_score(rng, self.model.verifier_auroc, right=_names(problem.reference, judged))
            verdict = {"score": score, "rationale": "simulated"}
        tokens = _tokens(rng, self.model.answer_tokens, self.model.token_spread)
        if rng.random() < self.model.verifier_invalid:
            return _Draft("It looks right to me.", 0, tokens)
        return _Draft(json.dumps(verdict), 0, tokens)

    def _liking(self, request: Request, problem: Problem, text: str) -> float:
        """The latent score of one of two candidates: the same beside whatever other one, and in whichever place."""
        rng = random.Random(f"{self.model.seed}/{request.seed}/{digest([turn.plain() for turn in problem.messages])}/{text}")
        return latent(rng, self.model.verifier_auroc, right=_names(problem.reference, text))

    def _fail(self, luck: random.Random, text: str) -> None:
        faults, fate = self.model.faults, luck.random()
        if fate < faults.rate_limited:
            raise CallFailed("rate_limited", "simulated 429", retryable=True, retry_after=faults.retry_after_s, http_status=429)
        fate -= faults.rate_limited
        if fate < faults.server_error:
            raise CallFailed("overloaded", "simulated 503", retryable=True, retry_after=0.0, http_status=503)
        fate -= faults.server_error
        if fate < faults.cut_stream:
            partial = text[: len(text) // 2]
            raise CallFailed("incomplete", "simulated cut stream", retryable=True, retry_after=0.0, partial_text=partial)


def wrong_answer(problem: Problem, rank: int) -> str:
    """The `rank`-th wrong answer to a problem, different from its reference under the problem's contract."""
    if problem.contract.kind is ContractKind.CHOICE:
        others = [letter for letter in problem.contract.choices if letter != problem.reference.strip().upper()]
        return others[rank % len(others)]
    try:
        return str(Decimal(problem.reference.replace(",", "")) + rank + 1)
    except InvalidOperation:
        return f"wrong {rank + 1}"


def _names(reference: str, text: str) -> bool:
    """Whether a line of `text` is a simulated right answer."""
    return re.search(rf"^(Answer: )?{re.escape(reference)}$", text, re.MULTILINE) is not None


def _tokens(rng: random.Random, mean: float, spread: float) -> int:
    if mean <= 0:
        return 0
    return max(1, round(rng.lognormvariate(math.log(mean) - spread**2 / 2, spread)))


def _interpolated(table: Mapping[int, float], budget: int) -> float:
    budgets = sorted(table)
    place = bisect.bisect_right(budgets, budget)
    if place == 0:
        return table[budgets[0]]
    if place == len(budgets):
        return table[budgets[-1]]
    low, high = budgets[place - 1], budgets[place]
    share = (budget - low) / (high - low)
    return table[low] + share * (table[high] - table[low])
