"""A verifier that asks a trained reward model: the conversation goes in as it is, and a number comes back."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Message, Question, ScoreKind
from ttc_eval.verifiers.base import Reading
from ttc_eval.verifiers.quoting import without_tokens
from ttc_eval.verifiers.verdict import number


class Squash(StrEnum):
    """How a reward becomes a score in [0, 1]."""

    SIGMOID = "sigmoid"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Reward:
    """Sends the question and the answer, as a conversation, to the `verifier_model`, a reward endpoint (`ttc_eval.wire.reward`).

    Special tokens of chat templates inside the answer are taken apart, so that it cannot end its own turn.

    Attributes:
        squash: `sigmoid` for a model that gives a number of any size; `none` for one that gives a score from 0 to 1, where another number
            is invalid.
        pick: which number is the reward where the model gives several: its place from 0, or its label. None: it gives one.
        answer_tokens: room for the reply, in tokens; a reward model writes nothing.
        temperature: null for a model that takes none.
    """

    kind: ClassVar[ScoreKind] = ScoreKind.OUTCOME
    evidence: ClassVar[str] = "what the reward model was trained on: judgements that the generator has not seen"
    squash: Squash = Squash.SIGMOID
    pick: int | str | None = None
    answer_tokens: int = 1
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.answer_tokens < 1:
            raise UserError(f"verifier.answer_tokens={self.answer_tokens}: give 1 or more")
        if isinstance(self.pick, int) and self.pick < 0:
            raise UserError(f"verifier.pick={self.pick}: give a place from 0, a label, or null")

    @property
    def name(self) -> str:
        """`reward`, with what is picked and how it is squashed where that is not the default: `reward:1`, `reward:none`."""
        squash = [] if self.squash is Squash.SIGMOID else [self.squash.value]
        return ":".join(["reward", *([] if self.pick is None else [str(self.pick)]), *squash])

    def messages(self, question: Question, text: str | None, thinking: str | None = None) -> tuple[Message, ...]:
        """The question's turns and the assistant's answer."""
        return (*question.messages, Message("assistant", without_tokens(text or "")))

    def read(self, reply: str) -> Reading:
        """The squashed reward. Invalid when there is none, or several and nothing picks one, or when it is no finite number."""
        try:
            found = json.loads(reply)
        except (ValueError, RecursionError):
            return Reading(None, problem="unparsed")
        rewards = found.get("rewards") if isinstance(found, dict) else None
        if not isinstance(rewards, list) or not rewards:
            return Reading(None, problem="unparsed")
        if self.pick is None and len(rewards) > 1:
            return Reading(None, problem="ambiguous")
        place = self._place(found.get("labels"))
        if place is None or place >= len(rewards):
            return Reading(None, problem="unknown_label")
        value = number(rewards[place])
        if value is None:
            return Reading(None, problem="not_a_number")
        said = f"reward {value:g}"
        if self.squash is Squash.SIGMOID:
            return Reading(_sigmoid(value), said)
        return Reading(value, said) if 0 <= value <= 1 else Reading(None, said, "out_of_range")

    def _place(self, labels: object) -> int | None:
        if not isinstance(self.pick, str):
            return self.pick or 0
        return labels.index(self.pick) if isinstance(labels, list) and labels.count(self.pick) == 1 else None


def _sigmoid(value: float) -> float:
    # Of the two forms, the one whose exponential cannot overflow.
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))
