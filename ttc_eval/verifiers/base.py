"""The seams of verifiers: one that asks a model words the request and reads the reply; one that runs here checks by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from ttc_eval.records import Candidate, Message, Preferred, Question, ScoreKind


@dataclass(frozen=True, slots=True)
class Reading:
    """What a verifier says: a score in [0, 1], or None with the reason why it is not valid.

    `steps` are the scores of the candidate's steps, for a verifier of the process.
    """

    score: float | None
    rationale: str | None = None
    problem: str | None = None
    steps: tuple[float, ...] = ()


class Judge(Protocol):
    """What every verifier that asks a model has.

    `evidence` says what it has that the generator lacks; without any, a verifier only repeats the generator's opinion. One with
    `simulated = True` knows the references, and what it scores is marked so.
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


class Verifier(Judge, Protocol):
    """Asks a model for a score of one candidate of one question.

    One with `scores_partial = True` also scores a candidate that is still thinking.
    """

    def messages(self, question: Question, text: str | None, thinking: str | None = None) -> tuple[Message, ...]:
        """The request that asks for a score of the candidate `text`, which `thinking` preceded; None: it is still thinking."""
        ...

    def read(self, reply: str) -> Reading:
        """The score in a reply. What is malformed or out of range is invalid, and never becomes 0 or 1."""
        ...


@runtime_checkable
class PairwiseVerifier(Judge, Protocol):
    """Asks a model which of two candidates is the better one. The session asks in both orders."""

    def pair_messages(self, question: Question, first: str, second: str) -> tuple[Message, ...]:
        """The request that asks for a choice between two texts, shown in this order."""
        ...

    def read_preference(self, reply: str) -> Preferred | None:
        """The choice in a reply; None when it is malformed."""
        ...


@runtime_checkable
class LocalVerifier(Protocol):
    """Checks a candidate here, without a model: by a rule, or by running it."""

    kind: ClassVar[ScoreKind]
    evidence: ClassVar[str]

    @property
    def name(self) -> str:
        """The name that tables and figures show."""
        ...

    async def check(self, question: Question, candidate: Candidate) -> Reading:
        """The score of a candidate. What it cannot judge is invalid; it never raises for what a candidate contains."""
        ...


@runtime_checkable
class ChecksQuestion(Protocol):
    """A verifier that cannot judge every question, and says so before any call."""

    def check_question(self, question: Question) -> None:
        """Raise `UserError`, with what to change, when it could not judge candidates of `question`."""
        ...
