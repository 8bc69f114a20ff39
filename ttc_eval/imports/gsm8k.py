"""`gsm8k-solutions`: example_model_solutions.jsonl of grade-school-math: one line a problem, with one solution of each system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import lines, may, need, note_ignored
from ttc_eval.imports.samples import Contents, Options, Sample, Tally
from ttc_eval.records import AnswerContract, ContractKind, Message

SUMMARY = "example_model_solutions.jsonl of grade-school-math (several systems)"
_MARK = "A:"


def read(path: Path, options: Options) -> Contents:
    """The solutions of all systems; each system is a model of its own. Raises `UserError`, also while they are read."""
    tally = Tally()
    return Contents(
        dataset=options.dataset or "gsm8k",
        split=options.split or "test",
        samples=_samples(path, options, tally),
        tally=tally,
        contract=AnswerContract(ContractKind.NUMBER),
        extracts=False,
    )


def _samples(path: Path, options: Options, tally: Tally) -> Iterator[Sample]:
    for place, (where, row) in enumerate(lines(path)):
        question, truth = need(row, "question", str, where), need(row, "ground_truth", str, where)
        systems = [name for name, value in row.items() if isinstance(value, dict) and "solution" in value]
        if not systems:
            raise UserError(f"{where}: there is no system with a 'solution'")
        note_ignored(tally, row, ("question", "ground_truth", *systems))
        for system in systems:
            here = f"{where}, {system}"
            note_ignored(tally, row[system], ("solution", "is_correct"))
            text = need(row[system], "solution", str, here)
            yield Sample(
                problem=str(place),
                where=here,
                system=system,
                text=text,
                seed=options.seed or 0,
                messages=(Message("user", question),),
                reference=after_mark(truth),
                answer=after_mark(text),
                correct=may(row[system], "is_correct", bool, here),
            )


def after_mark(text: str) -> str | None:
    """What follows the last "A:"; None without one."""
    _, mark, answer = text.rpartition(_MARK)
    return answer.strip() or None if mark else None
