"""What a strategy is: a frozen dataclass, whose fields are its options, with one method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from ttc_eval.records import Question, Sampling, Solution
from ttc_eval.session import Ask, Session
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Judge, LocalVerifier

if TYPE_CHECKING:
    from ttc_eval.models.base import ModelInfo


@dataclass(frozen=True, slots=True)
class Most:
    """The most that a strategy asks for about one question. A plan is made from it.

    A strategy that changes the thinking asks for as many draws under each.

    Attributes:
        draws: draws of the cell's model; scores: scores of a verifier; comparisons: of a pairwise verifier, each in both orders.
        asks: requests that it words itself, each capped at the thinking budget plus the room for the answer; judgements: how many of
            these are of role `verify`, and so verifier calls as well.
        larger_draws: draws of the larger model, or of the second stage of a strategy that has one.
    """

    draws: int
    scores: int = 0
    asks: int = 0
    comparisons: int = 0
    larger_draws: int = 0
    judgements: int = 0


class Strategy(Protocol):
    """The policy of one cell.

    `name` is the word that tables and configs use; `label` adds the options that tell two cells apart. One that knows what it asks for at
    most says so in a property `most`, so that a plan can bound its cost. Class variables say what it makes use of:

    | class variable | default | meaning |
    |---|---|---|
    | `asks_verifier` | True | False: a configured verifier is no part of its cells |
    | `needs_verifier` | False | True: without a verifier it is refused |
    | `asks_larger_model` | False | True: it may draw from the cell's larger model; otherwise that is no part of its cells |
    """

    name: ClassVar[str]

    @property
    def label(self) -> str:
        """A short name for tables and figures, such as `self_consistency@8`."""
        ...

    async def solve(self, session: Session) -> Solution:
        """Spend through `session` on its question and return the solution. Unresolved is an outcome, not an error."""
        ...


@runtime_checkable
class ChangesThinking(Protocol):
    """A strategy that draws under other thinkings than its cell's, and declares them, so that they can be refused before any call."""

    def thinkings(self, first: Thinking) -> Sequence[Thinking]:
        """What it may ask for in a cell that thinks as `first`. Raises `UserError` when it cannot start there."""
        ...


@runtime_checkable
class HasSecondStage(Protocol):
    """A strategy that goes over to the cell's larger model, or without one to another thinking of the same model."""

    def then_thinking(self, first: Thinking) -> Thinking:
        """How the larger model thinks, or without one the same model in its second stage, in a cell that thinks as `first`."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What a strategy would run with in its cell; `question` is the first of the data set.

    `try_out` raises `UserError` for a request that the model's API could not express; nothing is sent.
    """

    model: ModelInfo
    larger: ModelInfo | None
    verifier: Judge | LocalVerifier | None
    thinking: Thinking
    sampling: Sampling
    answer_tokens: int
    question: Question
    try_out: Callable[[Ask], None]


@runtime_checkable
class ChecksSetting(Protocol):
    """A strategy that cannot run everywhere, and says so before any call."""

    def check(self, setting: Setting) -> None:
        """Raise `UserError`, with what to change, when it cannot run with `setting`."""
        ...
