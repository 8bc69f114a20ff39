"""What a strategy is: a frozen dataclass, whose fields are its options, with one method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from ttc_eval.records import Question, Sampling, Solution
from ttc_eval.session import Session
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Judge, LocalVerifier

if TYPE_CHECKING:
    from ttc_eval.models.base import ModelInfo


@dataclass(frozen=True, slots=True)
class Most:
    """The most that a strategy asks for about one question. A plan is made from it.

    A strategy that changes the thinking asks for as many draws under each.

    Attributes:
        draws: draws; scores: scores of a verifier; comparisons: of a pairwise verifier, each in both orders.
        asks: requests that it words itself, each capped at the thinking budget plus the room for the answer.
        larger_draws: draws of the larger model.
    """

    draws: int
    scores: int = 0
    asks: int = 0
    comparisons: int = 0
    larger_draws: int = 0


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
        """What it may ask for in a cell that thinks as `first`, which is one of them. Raises `UserError` when it cannot start there."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What a strategy would run with in its cell; `question` is the first of the data set."""

    model: ModelInfo
    larger: ModelInfo | None
    verifier: Judge | LocalVerifier | None
    thinking: Thinking
    sampling: Sampling
    answer_tokens: int
    question: Question


@runtime_checkable
class ChecksSetting(Protocol):
    """A strategy that cannot run everywhere, and says so before any call."""

    def check(self, setting: Setting) -> None:
        """Raise `UserError`, with what to change, when it cannot run with `setting`."""
        ...
