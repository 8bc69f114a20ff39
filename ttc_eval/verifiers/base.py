"""The seam of a verifier that asks a model: it words the request and reads the reply; the session spends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from ttc_eval.records import Message, Question, ScoreKind


@dataclass(frozen=True, slots=True)
class Reading:
    """What a verifier's reply says: a score in [0, 1], or None with the reason why it is not valid.

    `steps` are the scores of the candidate's steps, for a verifier of the process.
    """

    score: float | None
    rationale: str | None = None
    problem: str | None = None
    steps: tuple[float, ...] = ()


class Verifier(Protocol):
    """Scores one candidate of one question.

    `evidence` says what it has that the generator lacks; without any, a verifier only repeats the generator's opinion.
    """

    kind: ClassVar[ScoreKind]
    evidence: ClassVar[str]

    @property
    def name(self) -> str:
        """The name that tables and figures show."""
        ...

    @property
    def answer_tokens(self) -> int:
        """Room for the reply, in tokens."""
        ...

    @property
    def temperature(self) -> float | None:
        """Temperature of the request; None leaves the provider's default, for models that take none."""
        ...

    def messages(self, question: Question, text: str, thinking: str | None = None) -> tuple[Message, ...]:
        """The request that asks for a score of the candidate `text`, which `thinking` preceded."""
        ...

    def read(self, reply: str) -> Reading:
        """The score in a reply. What is malformed or out of range is invalid, and never becomes 0 or 1."""
        ...
