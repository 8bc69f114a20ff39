"""A verifier whose scores came with imported samples: it reads what the file says of each draw, and asks nobody."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Message, Question, ScoreKind
from ttc_eval.verifiers.base import Reading


class Scale(StrEnum):
    """What makes a score in [0, 1] of the number in the file. Every one keeps the order of the numbers.

    `unit`: the number itself; one outside [0, 1] is invalid. `sigmoid`: 1 / (1 + exp(-x)), as reward models are trained (Bradley and
    Terry): the chance that it beats a candidate of reward 0. `softsign`: (1 + x / (1 + |x|)) / 2, for rewards so large that the sigmoid
    would round several of them to the same score.
    """

    UNIT = "unit"
    SIGMOID = "sigmoid"
    SOFTSIGN = "softsign"


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


_SCALES: Mapping[Scale, Callable[[float], float]] = {
    Scale.UNIT: lambda x: x,
    Scale.SIGMOID: sigmoid,
    Scale.SOFTSIGN: lambda x: (1 + x / (1 + abs(x))) / 2,
}


def scaled(value: float, scale: Scale) -> float:
    """The score that a number of the file makes."""
    return _SCALES[scale](value)


@dataclass(frozen=True, slots=True)
class Imported:
    """The score `label` of an imported file.

    Its scores belong to draws, not to texts: two draws with the same text may have two scores.
    """

    kind: ClassVar[ScoreKind] = ScoreKind.OUTCOME
    evidence: ClassVar[str] = "whatever the scorer of the imported file had"
    by_draw: ClassVar[bool] = True
    label: str = "score"
    scale: Scale = Scale.UNIT
    answer_tokens: int = 1
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not self.label:
            raise UserError("verifier.label: it is empty; give the name of a score of the imported file")
        if self.answer_tokens < 1:
            raise UserError(f"verifier.answer_tokens={self.answer_tokens}: give 1 or more")

    @property
    def name(self) -> str:
        """The name that the file gives the score."""
        return self.label

    def messages(self, question: Question, text: str | None, thinking: str | None = None) -> tuple[Message, ...]:
        """The address of the scores of a question: its turns and the name of the score. The draw is added to it."""
        return (*question.messages, Message("user", f"score: {self.label}"))

    def read(self, reply: str) -> Reading:
        """The number of the file as a score. What is no finite number, or outside [0, 1] on the scale `unit`, is invalid."""
        value = json.loads(reply).get("score")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return Reading(None, problem="not_a_number")
        score = scaled(float(value), self.scale)
        return Reading(score) if 0 <= score <= 1 else Reading(None, problem="out_of_range")
