"""The records of an experiment: frozen dataclasses, no I/O.

Data flows one way: a `Problem` becomes a `Question`, a strategy turns that into `Request`s, a model answers with
`Response`s, each response becomes a `Candidate`, and the strategy returns a `Solution`. The words are those of the
glossary in `docs/words.md`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

import orjson

from ttc_eval.errors import UserError
from ttc_eval.thinking import Thinking

JSON = Mapping[str, Any]


class ContractKind(StrEnum):
    """What counts as an answer, and when two answers are the same."""

    INTEGER = "integer"
    NUMBER = "number"
    CHOICE = "choice"
    TEXT = "text"
    MATH = "math"
    CODE = "code"
    STATE = "state"


class Extraction(StrEnum):
    """Where the answer stands: `final` finds the final answer in prose, `whole` takes the whole text or nothing."""

    FINAL = "final"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class AnswerContract:
    """The rule that one data set sets for its answers.

    `rel_tol` and `abs_tol` widen `number` and `math` equality; both zero means exact. `choices` are the letters that
    `choice` allows. `task` names the checkable task (`ttc_eval.tasks`) whose end states `state` allows; `code` is a program, which is right
    when it passes the reference's tests.
    """

    kind: ContractKind = ContractKind.TEXT
    extraction: Extraction = Extraction.FINAL
    rel_tol: float = 0.0
    abs_tol: float = 0.0
    choices: str = "ABCDE"
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    `blocks` are the turn's content blocks in the provider's own form, for turns that are more than text: an assistant's
    thinking and tool use, to be sent back verbatim, or the results of tools. `content` is then the text among them.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    blocks: tuple[JSON, ...] = field(default=(), hash=False)

    def plain(self) -> list[Any]:
        """This turn as JSON values, for the store and for keys."""
        return [self.role, self.content, list(self.blocks)] if self.blocks else [self.role, self.content]


@dataclass(frozen=True, slots=True)
class Question:
    """A problem without its reference: all that a strategy or a verifier ever sees of it.

    `given` is what the problem states in a form that a program can check: the numbers of a puzzle, the public tests of a function.
    """

    problem_id: str
    messages: tuple[Message, ...]
    contract: AnswerContract
    given: JSON = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Problem:
    """One item of a data set, with its reference answer."""

    problem_id: str
    dataset: str
    split: str
    messages: tuple[Message, ...]
    reference: str
    contract: AnswerContract
    difficulty: str | None = None
    given: JSON = field(default_factory=dict, hash=False)

    def question(self) -> Question:
        """This problem without its reference."""
        return Question(self.problem_id, self.messages, self.contract, self.given)


class Role(StrEnum):
    """What a call is for."""

    GENERATE = "generate"
    VERIFY = "verify"
    REVISE = "revise"
    STEP = "step"
    CRITIC = "critic"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; None leaves the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UserError(f"sampling.temperature={self.temperature}: give 0 or more, or null for the provider's default")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"sampling.top_p={self.top_p}: give a share above 0 and at most 1, or null")
        if self.logprobs is not None and self.logprobs < 0:
            raise UserError(f"sampling.logprobs={self.logprobs}: give 0 or more, or null")


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model, in no provider's format.

    Attributes:
        model: the model's name at its endpoint.
        endpoint: identity of the endpoint; two endpoints never share draws.
        thinking: what the user asked for.
        answer_tokens: room for the visible answer, in tokens.
        max_output_tokens: upper bound of all output of this request, reasoning included; it is what gets reserved.
        prefix: assistant text that the model continues; its own output does not repeat it.
        segment: place of this request among the requests that make one draw (0 for the first).
        seed: the pool seed; draw: index of the draw in its pool.
        tools: definitions of the tools that the model may call, in the provider's own form.
    """

    model: str
    endpoint: str
    messages: tuple[Message, ...]
    thinking: Thinking
    sampling: Sampling
    answer_tokens: int
    max_output_tokens: int
    role: Role = Role.GENERATE
    prefix: str = ""
    segment: int = 0
    seed: int = 0
    draw: int = 0
    tools: tuple[JSON, ...] = field(default=(), hash=False)

    def payload(self) -> dict[str, Any]:
        """This request as plain JSON values, for the store and for its key."""
        return {
            "model": self.model,
            "endpoint": self.endpoint,
            "messages": [message.plain() for message in self.messages],
            "thinking": [
                self.thinking.mode.value,
                self.thinking.budget,
                self.thinking.effort,
                self.thinking.at_limit.value,
                self.thinking.max_extensions,
            ],
            "sampling": [self.sampling.temperature, self.sampling.top_p, list(self.sampling.stop), self.sampling.logprobs],
            "answer_tokens": self.answer_tokens,
            "max_output_tokens": self.max_output_tokens,
            "role": self.role.value,
            "prefix": self.prefix,
            "segment": self.segment,
            "seed": self.seed,
            "draw": self.draw,
            **({"tools": list(self.tools)} if self.tools else {}),
        }

    @property
    def key(self) -> str:
        """The address of this request's outcome: a hash of everything that shapes it (docs/design.md 3.4), 32 hex digits."""
        return digest(self.payload())

    @property
    def sampling_seed(self) -> int:
        """The seed sent to a provider that takes one: a hash of pool seed, question, draw and segment, below 2**31.

        It differs between questions, whose draws are independent, and does not depend on caps or budgets, so that a cut
        trace is a prefix of the same trace uncut. The steps of a search draw anew after each prefix, or every step of a path would be
        drawn with the same chance.
        """
        turns = [message.plain() for message in self.messages]
        after = [self.prefix] if self.role is Role.STEP else []
        return int(digest([self.seed, turns, self.draw, self.segment, *after])[:8], 16) >> 1


def digest(value: Any) -> str:
    """A hash of JSON values that does not depend on key order, 32 hex digits."""
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def json_keys(value: Any) -> Any:
    """`value` with every key as text: YAML's may be numbers (budgets), JSON's cannot."""
    if isinstance(value, Mapping):
        return {str(key): json_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_keys(item) for item in value]
    return value


class UsageSource(StrEnum):
    """Who counted the tokens."""

    PROVIDER = "provider"
    COUNTED = "counted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, in the shape of docs/design.md 3.2. None is unknown, never zero.

    `input_tokens` includes the cached and cache-write parts; `output_tokens` includes reasoning; `reasoning_tokens`
    is None when it was not reported. `raw` is the provider's own object, kept beside.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    source: UsageSource = UsageSource.UNKNOWN
    raw: JSON | None = None

    @property
    def known(self) -> bool:
        """Whether the counts that are charged, input and output, are both known."""
        return self.input_tokens is not None and self.output_tokens is not None


UNKNOWN_USAGE = Usage()
# A request that was refused before any work: its reservation can be given back.
NOTHING_USED = Usage(0, 0, reasoning_tokens=0, source=UsageSource.COUNTED)


class CallStop(StrEnum):
    """Why one response ended, in one vocabulary for all providers."""

    END = "end_turn"
    STOP_SEQUENCE = "stop_sequence"
    MAX_TOKENS = "max_tokens"
    BUDGET_EXCEEDED = "budget_exceeded"
    CONTEXT_FULL = "context_full"
    REFUSAL = "refusal"
    TOOL_USE = "tool_use"
    INCOMPLETE = "incomplete"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Timings:
    """When a call started (Unix seconds) and how long its first token and its end took (seconds)."""

    started_at: float
    first_token_s: float | None
    latency_s: float


@dataclass(frozen=True, slots=True)
class Response:
    """What one request brought.

    Attributes:
        text: visible answer text; the request's prefix is not repeated.
        thinking: thinking text; None when the model showed none.
        stop: why it ended; stop_raw: the provider's own word.
        token_logprobs: log-probability of each output token, when asked for; top_logprobs: those of the likeliest tokens in its place, the
            sampled one among them where the provider counts it.
        blocks: the provider's content blocks, verbatim, when they must be sent back later.
        sent: what was sent that the user did not write (caps, budget as sent), for the record.
    """

    text: str
    stop: CallStop
    usage: Usage
    timings: Timings
    thinking: str | None = None
    stop_raw: str | None = None
    response_id: str | None = None
    token_logprobs: tuple[float, ...] | None = None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None
    blocks: tuple[JSON, ...] = ()
    sent: JSON | None = None

    @property
    def complete(self) -> bool:
        """Whether the response ended by itself. One that was cut is charged and stored, and never votes."""
        return self.stop in (CallStop.END, CallStop.STOP_SEQUENCE)


@dataclass(frozen=True, slots=True)
class Amounts:
    """Quantities that limits bind and reservations hold."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal = Decimal(0)
    wall_seconds: float = 0.0
    verifier_calls: int = 0
    search_nodes: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete or partial solution: what a strategy may select, or grows into that.

    Attributes:
        draw: the draw it came from; position: its place in the strategy's run.
        text: the text it stands in; answer: as extracted from it, None when there is none.
        answer_class: name of the set of equal answers that it belongs to; None when it has no answer.
        complete: False when the text was cut; such a candidate never votes.
        call_ids: the calls that made it.
        stop: why its text ended.
        thinking: the reasoning before its text; None when none was shown.
        parent: position of the candidate that it grew from; depth: how many steps it is from the start of its search.
        partial: a node of a search that is not meant to be an answer yet; it never votes. pruned: it was given up for others.
        content: what a node holds, where that is not what a call said.
        token_logprobs, top_logprobs: as in `Response`, of all that the model wrote.
        output_tokens: tokens of all output that made it, reasoning included; None when they are not known.
    """

    position: int
    draw: int
    text: str
    answer: str | None
    answer_class: str | None
    complete: bool
    call_ids: tuple[str, ...] = ()
    parent: int | None = None
    depth: int = 0
    stop: CallStop | None = None
    thinking: str | None = None
    partial: bool = False
    pruned: bool = False
    content: str | None = None
    token_logprobs: tuple[float, ...] | None = None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None
    output_tokens: int | None = None

    @property
    def votes(self) -> bool:
        """Whether a selector may count this candidate."""
        return self.complete and self.answer_class is not None and not self.partial


class ScoreKind(StrEnum):
    """What a verifier looked at."""

    OUTCOME = "outcome"
    PROCESS = "process"
    PAIRWISE = "pairwise"
    RULE = "rule"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Score:
    """A verifier's output for one candidate. `value` is in [0, 1], or None when the output was not valid.

    `call_id` is the call that brought it; None for a verifier that runs here, which took `latency_s` seconds.
    """

    position: int
    verifier: str
    kind: ScoreKind
    value: float | None
    rationale: str | None = None
    steps: tuple[float, ...] = ()
    call_id: str | None = None
    latency_s: float | None = None


class Preferred(StrEnum):
    """Which of two candidates a verifier preferred, in the order in which they were shown."""

    FIRST = "first"
    SECOND = "second"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A verifier's choice between two candidates, asked for in both orders.

    Attributes:
        first, second: positions of the candidates.
        forward, backward: what it said with `first` shown first, and with `second` shown first, each already in terms of `first` and
            `second`; None where the reply was not valid.
    """

    first: int
    second: int
    verifier: str
    forward: Preferred | None
    backward: Preferred | None
    call_ids: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether both replies could be read."""
        return self.forward is not None and self.backward is not None

    @property
    def winner(self) -> int | None:
        """Position of the one that was preferred in both orders; None for a tie: a choice that depends on the order is no preference."""
        if self.forward is not self.backward or self.forward is None or self.forward is Preferred.TIE:
            return None
        return self.first if self.forward is Preferred.FIRST else self.second


class StopReason(StrEnum):
    """Why a strategy stopped. A closed set (docs/design.md 3.5)."""

    LOCKED_PLURALITY = "locked_plurality"
    ACCEPTED = "accepted"
    ATTEMPT_LIMIT = "attempt_limit"
    CALL_BUDGET = "call_budget"
    INPUT_BUDGET = "input_budget"
    OUTPUT_BUDGET = "output_budget"
    COST_BUDGET = "cost_budget"
    TIME_BUDGET = "time_budget"
    DEPTH_LIMIT = "depth_limit"
    NODE_LIMIT = "node_limit"
    EXHAUSTED = "exhausted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Solution:
    """What a strategy returns for one question: a selected answer, or unresolved.

    `attempts` counts the draws that the strategy consumed, `valid` those that could vote. `signals` are the values that it decided by, such
    as the agreement of its first draws; None is one that was not known.
    """

    stop_reason: StopReason
    attempts: int
    valid: int
    candidates: tuple[Candidate, ...]
    answer: str | None = None
    answer_class: str | None = None
    scores: tuple[Score, ...] = field(default=())
    comparisons: tuple[Comparison, ...] = ()
    error: str | None = None
    signals: Mapping[str, float | None] = field(default_factory=dict, hash=False)

    @property
    def selected(self) -> bool:
        """Whether an answer was selected."""
        return self.answer_class is not None
