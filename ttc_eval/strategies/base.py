"""What a strategy is: a frozen dataclass, whose fields are its options, with one method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from ttc_eval.records import Solution
from ttc_eval.session import Session
from ttc_eval.thinking import Thinking


@dataclass(frozen=True, slots=True)
class Most:
    """The most that a strategy asks for about one question: draws, and scores of a verifier. A plan is made from it.

    A strategy that changes the thinking asks for as many under each.
    """

    draws: int
    scores: int = 0


class Strategy(Protocol):
    """The policy of one cell.

    `name` is the word that tables and configs use; `label` adds the options that tell two cells apart. One with `asks_verifier = False`
    never calls `session.score`, and a configured verifier is no part of its cells. One that knows what it asks for
    at most says so in a property `most`, so that a plan can bound its cost.
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
