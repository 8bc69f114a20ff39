"""What a sample is, whatever tool has drawn it: what the readers of files make, and all that is kept of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from ttc_eval.errors import UserError
from ttc_eval.records import UNKNOWN_USAGE, AnswerContract, ContractKind, Message, Sampling, Usage
from ttc_eval.replay.shared_usage import SharedUsage

# Room for a draw whose cap nobody recorded. It is not stored as one, and bounds no reservation that anything depends on.
UNKNOWN_CAP = 131_072


class Classes(StrEnum):
    """When two answers are the same: by the answer `contract`, or as `published`: the source's own reading, compared as a string."""

    CONTRACT = "contract"
    PUBLISHED = "published"


class Grades(StrEnum):
    """Which verdict is kept where the file's `label` and our own comparison with the `reference` disagree."""

    LABEL = "label"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Options:
    """What the user says of a file.

    Attributes:
        model, dataset, split: names, where the file has none or another is wanted; seed: of the pool, where the file has none.
        answer: the kind of answer, instead of what the format says.
        scorer: which of several labels counts (Inspect's scorers, metrics of lm-eval); filter: which filter of lm-eval.
    """

    model: str | None = None
    dataset: str | None = None
    split: str | None = None
    seed: int | None = None
    answer: ContractKind | None = None
    classes: Classes = Classes.CONTRACT
    grades: Grades = Grades.LABEL
    scorer: str | None = None
    filter: str | None = None

    def __post_init__(self) -> None:
        for name in ("model", "dataset", "split", "scorer", "filter"):
            given = getattr(self, name)
            if given is not None and not given.strip():
                raise UserError(f"--{name}: it is empty; give a name, or leave it out for the file's own")


@dataclass(frozen=True, slots=True)
class Sample:
    """One draw of one system about one problem, as a file tells it. None is unknown.

    Attributes:
        problem: name of the problem in its data set; where: its place in the file, for messages to the user.
        text: what was written; complete: False when it was cut, and then it never votes.
        draw: index in its pool; None: the next one of its problem.
        messages: the prompt; empty where the file does not give it.
        answer: as the file gives it; None where it gives none.
        correct: the file's label.
        scores: of verifiers, by name; score_usage: what each cost.
        shared: usage that is known for several samples together only; usd: cost as logged.
        started_at: Unix seconds.
    """

    problem: str
    where: str
    system: str
    text: str
    seed: int = 0
    draw: int | None = None
    messages: tuple[Message, ...] = ()
    reference: str | None = None
    difficulty: str | None = None
    answer: str | None = None
    correct: bool | None = None
    thinking: str | None = None
    complete: bool = True
    stop: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    score_usage: Mapping[str, Usage] = field(default_factory=dict)
    usage: Usage = UNKNOWN_USAGE
    shared: SharedUsage | None = None
    usd: Decimal | None = None
    latency_s: float | None = None
    started_at: float | None = None


@dataclass(slots=True)
class Tally:
    """What a reader has seen and not used: fields by name, and what else a user must know, each with how often."""

    ignored: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Contents:
    """A file as a reader understands it.

    Attributes:
        contract: what counts as an answer; None: the format does not say, and answers are compared as texts where they are given.
        extracts: whether an answer that is not given is looked for in the text.
        comparable: whether the reference is an answer, so that a label can be checked against it.
        answer_tokens: cap of a draw; None: not recorded.
        judges: names of the models behind scores, where the file has them.
        samples: in the file's order; it may be read only once. tally: complete when they are all read.
    """

    dataset: str
    split: str
    samples: Iterator[Sample]
    tally: Tally
    contract: AnswerContract | None = None
    extracts: bool = True
    comparable: bool = True
    sampling: Sampling = field(default_factory=Sampling)
    answer_tokens: int | None = None
    judges: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to take in."""

    path: Path
    sha256: str
    size: int
