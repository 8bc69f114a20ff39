"""Which answers of an imported file are the same, and which are right.

| the file gives | class of the answer | grade of the class |
|---|---|---|
| an answer, or a text that has one | the answer's, by the contract or as published | the label; without it, by the reference |
| an answer, and labels within its class disagree | the class is split in two, named by their labels | each its label |
| no answer that can be read, labelled right | one of its own | the label |
| no answer that can be read, otherwise | none: it is unparsed | |
| a sample that was cut | none: it never votes, whatever its label | |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ttc_eval.answers import AnswerClasses, canonical, extract, same_answer
from ttc_eval.imports.samples import Classes, Grades, Options, Sample
from ttc_eval.records import AnswerContract, ContractKind, Problem

_LABELLED = {True: " [labelled right]", False: " [labelled wrong]"}
_SHOWN = 200
Answer = tuple[str | None, str | None]


@dataclass(slots=True)
class Verdicts:
    """Whether the answer classes of a study are right, by problem and class; what is new also with how that is known."""

    known: dict[str, dict[str, bool]] = field(default_factory=dict)
    fresh: dict[str, dict[str, tuple[bool, str]]] = field(default_factory=dict)

    def of(self, problem_id: str) -> dict[str, bool]:
        """Those of a problem."""
        return self.known.setdefault(problem_id, {})

    def add(self, problem_id: str, name: str, correct: bool, how: str) -> None:
        """A new one."""
        self.of(problem_id)[name] = correct
        self.fresh.setdefault(problem_id, {})[name] = (correct, how)


class Classing:
    """Sorts the samples of one file into classes and grades those."""

    def __init__(
        self, format_name: str, contract: AnswerContract | None, options: Options, verdicts: Verdicts, *, extracts: bool, comparable: bool
    ) -> None:
        """`contract` None: nothing says what an answer is, so that a sample without one stands for itself."""
        self._format = format_name
        self._rule = contract or AnswerContract(ContractKind.TEXT)
        self._reads = contract is not None
        self._extracts = extracts and contract is not None and options.classes is Classes.CONTRACT
        self._comparable = comparable and contract is not None
        self._options = options
        self._verdicts = verdicts
        self._classes: dict[str, AnswerClasses] = {}
        self._own: dict[tuple[str, str], bool] = {}
        self._compared = self._disagreed = 0
        self._counts: Counter[str] = Counter()

    @property
    def contract(self) -> AnswerContract:
        """The contract of the problems as stored: the published strings are texts."""
        return AnswerContract(ContractKind.TEXT) if self._options.classes is Classes.PUBLISHED else self._rule

    def reference(self, given: str | None) -> str:
        """The reference as an answer: where the file gives a whole solution, what it ends with. Empty: there is none."""
        if given is None:
            return ""
        if not self._comparable or canonical(given, self._rule) is not None:
            return given
        return extract(given, self._rule).answer or given

    def place(self, problem: Problem, sample: Sample, own_name: str) -> Answer:
        """The answer of a sample and the name of its class. `own_name` is that of a class of its own, unique in the problem."""
        if not sample.complete:
            self._counts["samples that were cut and never vote, though the file calls them right"] += sample.correct is True
            return None, None
        answer = sample.answer
        if answer is None and self._extracts:
            answer = extract(sample.text, self._rule).answer
        name = None if answer is None else self._name(problem.problem_id, answer)
        if name is None and (sample.correct is True or not self._reads):
            self._counts["samples without an answer that can be read, each of which stands for itself and agrees with no other"] += 1
            return self._graded(problem, answer or sample.text[:_SHOWN] or own_name, own_name, sample, None)
        if name is None or answer is None:
            return None, None
        return self._graded(problem, answer, name, sample, self._compare(problem, answer, name))

    def notes(self) -> Iterator[str]:
        """What a reader of the numbers must know."""
        if self._disagreed:
            kept = "the labels are" if self._options.grades is Grades.LABEL else "our comparison is"
            yield (
                f"labels and our own comparison with the reference disagree on {self._disagreed} of {self._compared} samples; {kept} kept "
                "(--grades)"
            )
        for said, count in self._counts.items():
            if count:
                yield f"{said}: {count}"

    def _name(self, problem_id: str, answer: str) -> str | None:
        if self._options.classes is Classes.PUBLISHED:
            return answer
        if problem_id not in self._classes:
            plain = [name for name in self._verdicts.of(problem_id) if not name.endswith(tuple(_LABELLED.values()))]
            self._classes[problem_id] = AnswerClasses(self._rule, plain)
        return self._classes[problem_id].classify(answer)

    def _compare(self, problem: Problem, answer: str, name: str) -> bool | None:
        """Our own verdict by the reference; None where the reference is no answer."""
        if not self._comparable or not problem.reference:
            return None
        key = problem.problem_id, name
        if key not in self._own:
            self._own[key] = same_answer(answer, problem.reference, self._rule)
        return self._own[key]

    def _graded(self, problem: Problem, answer: str, name: str, sample: Sample, own: bool | None) -> Answer:
        label = sample.correct
        if label is not None and own is not None:
            self._compared += 1
            self._disagreed += label != own
        by_label = label is not None and (own is None or self._options.grades is Grades.LABEL)
        wanted = label if by_label else own
        if wanted is None:
            return answer, name
        how = "label" if by_label else "reference"
        have = self._verdicts.of(problem.problem_id).get(name)
        if have is not None and have != wanted and by_label:
            self._counts["samples whose answer equals one with the other label, kept apart from it as a class of its own"] += 1
            name += _LABELLED[wanted]
            have = self._verdicts.of(problem.problem_id).get(name)
        if have is None:
            self._verdicts.add(problem.problem_id, name, wanted, how)
        return answer, name
