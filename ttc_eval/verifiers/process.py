"""A process verifier: a trained model scores every step of a candidate, and a stated rule makes one score of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Message, Question, ScoreKind
from ttc_eval.verifiers.base import Reading
from ttc_eval.verifiers.verdict import last_verdict


class Aggregation(StrEnum):
    """How the scores of the steps make the score of the whole."""

    LAST = "last"
    MIN = "min"
    PROD = "prod"
    MEAN = "mean"


_RULES: Mapping[Aggregation, Callable[[tuple[float, ...]], float]] = {
    Aggregation.LAST: lambda steps: steps[-1],
    Aggregation.MIN: min,
    Aggregation.PROD: math.prod,
    Aggregation.MEAN: lambda steps: math.fsum(steps) / len(steps),
}


@dataclass(frozen=True, slots=True)
class Process:
    """Sends question, thinking and answer to a step scorer, the `verifier_model`, and reads `{"steps": [...]}`.

    Attributes:
        label: the name that tables and figures show.
        aggregation: what the score of the whole is: the last step's, the smallest, their product or their mean.
        open, close: what stands before and after the thinking in the turn that is scored.
        answer_tokens: room for the reply, in tokens.
        temperature: null for a model that takes none.
    """

    kind: ClassVar[ScoreKind] = ScoreKind.PROCESS
    evidence: ClassVar[str] = "the steps of the reasoning, and what the scorer was trained on"
    scores_partial: ClassVar[bool] = True
    label: str = "process"
    aggregation: Aggregation = Aggregation.PROD
    open: str = "<think>"
    close: str = "</think>"
    answer_tokens: int = 1
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.answer_tokens < 1:
            raise UserError(f"verifier.answer_tokens={self.answer_tokens}: give 1 or more")

    @property
    def name(self) -> str:
        """Label and aggregation: `process:prod`. Two rules over the same steps are two verifiers."""
        return f"{self.label}:{self.aggregation.value}"

    def messages(self, question: Question, text: str | None, thinking: str | None = None) -> tuple[Message, ...]:
        """The question's turns, then the assistant's turn that is scored, left open where it is still thinking."""
        ending = "" if text is None else f"{self.close}{text}"
        return (*question.messages, Message("assistant", f"{self.open}{thinking or ''}{ending}"))

    def read(self, reply: str) -> Reading:
        """The steps' scores and what they make. A reply without steps, or with one that is no number in [0, 1], is invalid.

        A scorer that talks is read as a judge is (`verdict`): the last object with `steps` counts. It may also give a `rationale`.
        """
        found = last_verdict(reply, "steps")
        steps = found.value
        if found.problem is not None or type(steps) is not list or not steps:
            return Reading(None, found.rationale, found.problem or "unparsed")
        if not all(_is_number(step) for step in steps):
            return Reading(None, found.rationale, "not_a_number")
        if not all(0 <= step <= 1 for step in steps):
            return Reading(None, found.rationale, "out_of_range")
        scores = tuple(float(step) for step in steps)
        return Reading(_RULES[self.aggregation](scores), found.rationale, steps=scores)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
