"""A simulated verifier: the reference, seen through noise of a set size. For studies of what a verifier of some quality would be worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import ContractKind, Message, Question, ScoreKind
from ttc_eval.verifiers.base import Reading
from ttc_eval.verifiers.verdict import read_score


@dataclass(frozen=True, slots=True)
class NoisyOracle:
    """Shows question and answer to the `verifier_model`, `ttc_eval.models.noisy_oracle.NoisyOracleModel`, which knows the references.

    No such verifier exists outside of a simulation. Rows and figures that use it are marked simulated, whatever model wrote the answers.

    `answer_tokens` is the room for the reply, in tokens. `temperature` is not used.
    """

    name: ClassVar[str] = "noisy_oracle"
    kind: ClassVar[ScoreKind] = ScoreKind.OUTCOME
    evidence: ClassVar[str] = "the reference answer, through noise: a simulation, which nothing that is deployed can have"
    simulated: ClassVar[bool] = True
    answer_tokens: int = 32
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.answer_tokens < 1:
            raise UserError(f"verifier.answer_tokens={self.answer_tokens}: give 1 or more")

    def check_question(self, question: Question) -> None:
        """Raise `UserError` for a program: whether it is right shows only when it runs."""
        if question.contract.kind is ContractKind.CODE:
            raise UserError("verifier=noisy_oracle: it compares answers with references, and a program has to be run; use verifier=code")

    def messages(self, question: Question, text: str | None, thinking: str | None = None) -> tuple[Message, ...]:
        """The question's turns and the assistant's answer."""
        return (*question.messages, Message("assistant", text or ""))

    def read(self, reply: str) -> Reading:
        """The score in the reply."""
        return read_score(reply)
