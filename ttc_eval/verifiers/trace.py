"""A verifier of reasoning: the model judges a thinking trace and returns a JSON object with `score` and `rationale` (docs/ttc-v2.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Message, Question, ScoreKind
from ttc_eval.verifiers.base import Reading
from ttc_eval.verifiers.outcome import judged
from ttc_eval.verifiers.verdict import read_score

_ASK = (
    "Judge the quality, the correctness and the efficiency of the reasoning. Reply with one JSON object and nothing else: "
    '{"score": S, "rationale": "the main flaw or strength, in one sentence"}, where S is a number from 0 (unacceptable) to 1 (perfect).'
)


@dataclass(frozen=True, slots=True)
class TraceJudge:
    """Asks a model to judge reasoning as TTC-v2 defines the score, by default at temperature 0.

    `answer_tokens` is the room for the reply, in tokens. `temperature` is null for a model that takes none.
    """

    name: ClassVar[str] = "trace"
    kind: ClassVar[ScoreKind] = ScoreKind.PROCESS
    evidence: ClassVar[str] = "the reasoning, where the generator had it too: a second look at how the answer came about"
    answer_tokens: int = 128
    temperature: float | None = 0.0

    def __post_init__(self) -> None:
        if self.answer_tokens < 1:
            raise UserError(f"verifier.answer_tokens={self.answer_tokens}: give 1 or more")

    def messages(self, question: Question, text: str | None, thinking: str | None = None) -> tuple[Message, ...]:
        """One user turn with the question and the trace, each in a block that it cannot leave."""
        return judged("You check how a question was reasoned about.", question, {"REASONING": text or ""}, _ASK)

    def read(self, reply: str) -> Reading:
        """The judge's last verdict, as `verdict.read_score` reads it."""
        return read_score(reply)
