"""The seam behind which a model answers.

A `Model` is a frozen description, built from `configs/model/*.yaml`. `connect()` opens what it needs (a connection
pool, a local server) for as long as the context lasts, and gives a `Connection` that answers requests, one attempt
each. Retries, limits and storage are the session's business, never the model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol, Self, runtime_checkable

from ttc_eval.errors import UserError
from ttc_eval.records import Problem, Request, Response
from ttc_eval.thinking import ThinkingSupport


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens, stated by the user; None means that this part has no price of its own.

    `cached_input` and `cache_write` fall back to `input`.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        for value in (self.input, self.output, self.cached_input, self.cache_write):
            if value is not None and not (value.is_finite() and value >= 0):
                raise UserError(f"model.price.own: {value} is no price; give USD per million tokens, 0 or more")


@dataclass(frozen=True, slots=True)
class PriceRef:
    """Where the pinned price book lists a model, or the user's own price. Neither means no price: cost is NULL."""

    provider: str | None = None
    model: str | None = None
    own: Price | None = None


@dataclass(frozen=True, slots=True)
class ForcedThinking:
    """How a budget is forced on a model that only continues a prefix.

    The assistant turn is `open`, then thinking, then `close`, then the answer; with a budget of 0 it is `skip`, then the
    answer. `close_markers` are the strings that the model writes when it ends its thinking by itself. `wait` is appended
    to make it go on. `answer_stop` ends the answer.
    """

    open: str = "Thinking:"
    close: str = "\nAnswer:"
    skip: str = "Answer:"
    close_markers: tuple[str, ...] = ("\nAnswer:",)
    wait: str = " Wait,"
    answer_stop: tuple[str, ...] = ("\n",)


@dataclass(frozen=True, slots=True)
class StepFormat:
    """How a model that continues a given assistant text writes its reasoning in steps.

    Its turn is `opening`, then steps that each end with `boundary`, then `closing` and the answer, which `answer_stop` ends; without a
    `closing` the answer stands in the last steps. `apart`: what comes before the closing is returned as thinking and not as text, and the
    closing itself in neither. `tells_stop`: it says when one of the stop strings ended its output, and not only that its output ended.
    """

    opening: str = ""
    boundary: str = "\n\n"
    closing: str = ""
    answer_stop: tuple[str, ...] = ()
    apart: bool = False
    tells_stop: bool = True


def step_format(forced: ForcedThinking | None, *, tells_stop: bool) -> StepFormat:
    """The steps of a model that continues a prefix: a line each where its thinking is forced, otherwise a paragraph of its text each."""
    if forced is None:
        return StepFormat(tells_stop=tells_stop)
    return StepFormat(forced.open, "\n", forced.close, forced.answer_stop, tells_stop=tells_stop)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the rest of the program may know of a model.

    Attributes:
        name: the name that tables and figures show.
        model: its name at the endpoint, where that differs.
        endpoint: identity of what answers, part of every draw's address. It does not hold a port or a key.
        max_concurrency: how many requests may be in flight at once.
        simulated: whether its answers are invented; such rows are marked wherever they are shown.
        one_by_one: whether the requests about one question should follow each other, so that the prompt of the last is
            still in the cache of the slot that the next one gets.
        steps: how it writes its reasoning in steps; None for a model that does not continue a given assistant text.
    """

    name: str
    endpoint: str
    thinking: ThinkingSupport = field(default_factory=ThinkingSupport)
    forced: ForcedThinking | None = None
    model: str | None = None
    max_concurrency: int = 16
    simulated: bool = False
    one_by_one: bool = False
    price: PriceRef = field(default_factory=PriceRef)
    steps: StepFormat | None = None

    def __post_init__(self) -> None:
        if self.max_concurrency < 1:
            raise UserError(f"model.max_concurrency={self.max_concurrency}: give 1 or more")
        if not self.name:
            raise UserError("model.name: it is empty; tables and figures need a name")


class Connection(Protocol):
    """An open line to a model."""

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        """Send one request once and return its response.

        Args:
            attempt: 1 for the first time that this request is sent, 2 for its first retry, and so on.
            timeout: seconds that bound the whole exchange.

        Raises `CallFailed` for every failure of the exchange, and nothing else that is not a defect.
        """
        ...


class Model(Protocol):
    """A model that can be connected to."""

    @property
    def info(self) -> ModelInfo:
        """What is known of the model without connecting."""
        ...

    def connect(self) -> AbstractAsyncContextManager[Connection]:
        """Open the line; leaving the context closes everything that was opened. Raises `UserError` when it cannot."""
        ...


@runtime_checkable
class NeedsAnswers(Protocol):
    """A simulated model, which cannot invent right and wrong answers without the references."""

    def with_answers(self, problems: Sequence[Problem]) -> Self:
        """The same model, knowing the references of `problems`."""
        ...


@runtime_checkable
class ChecksItself(Protocol):
    """A model that can tell, without sending anything, that it could not be connected to."""

    def check(self) -> None:
        """Raise `UserError` when a key, a file or an engine is missing."""
        ...


@runtime_checkable
class WritesRequests(Protocol):
    """A model whose requests can be seen before they are sent."""

    def body(self, request: Request) -> Mapping[str, Any]:
        """The JSON that would be posted for `request`. Raises `UserError` when it could not be sent."""
        ...
