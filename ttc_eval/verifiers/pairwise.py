"""A pairwise verifier: a model says which of two candidates is the better answer. The session asks in both orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Message, Preferred, Question, ScoreKind
from ttc_eval.verifiers.outcome import judged
from ttc_eval.verifiers.verdict import last_verdict

FIRST, SECOND = "CANDIDATE A", "CANDIDATE B"
_ASK = (
    "Which candidate is the better answer to the question? Length and style do not count, and neither does the order in which they are "
    'shown. Reply with one JSON object and nothing else: {"better": B, "rationale": "one sentence"}, where B is "A", "B" or "tie".'
)
_WORDS = {"a": Preferred.FIRST, "b": Preferred.SECOND, "tie": Preferred.TIE}


@dataclass(frozen=True, slots=True)
class Pairwise:
    """Asks the model that answered, or the `verifier_model`, for a choice between two answers.

    A choice that changes with the order in which they are shown is a tie (`records.Comparison`): position bias is no preference. Source:
    Zheng et al., "Judging LLM-as-a-Judge", arXiv 2306.05685, section 3.4.

    `answer_tokens` is the room for one reply, in tokens. `temperature` is null for a model that takes none.
    """

    name: ClassVar[str] = "pairwise"
    kind: ClassVar[ScoreKind] = ScoreKind.PAIRWISE
    evidence: ClassVar[str] = "the other candidate: a difference may show where neither text alone tells"
    answer_tokens: int = 128
    temperature: float | None = 0.0

    def __post_init__(self) -> None:
        if self.answer_tokens < 1:
            raise UserError(f"verifier.answer_tokens={self.answer_tokens}: give 1 or more")

    def pair_messages(self, question: Question, first: str, second: str) -> tuple[Message, ...]:
        """One user turn with the question and both candidates, each in a block that it cannot leave."""
        return judged("You compare two candidate answers to a question.", question, {FIRST: first, SECOND: second}, _ASK)

    def read_preference(self, reply: str) -> Preferred | None:
        """The judge's last choice: A, B or tie, in any case. None for a reply that is malformed or says anything else."""
        said = last_verdict(reply, "better")
        return _WORDS.get(said.value.strip().casefold()) if said.problem is None and isinstance(said.value, str) else None
