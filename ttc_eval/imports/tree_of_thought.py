"""`tree-of-thought`: logs of tree-of-thought-llm, `[{idx, ys, infos: [{r}] or accs, usage_so_far}]`.

`usage_so_far` is a running counter: what a problem cost is its rise. Where it falls the run was started again, and the counter began at 0:
the last row then says less than was paid. The samples of a problem share its usage, since the log does not say what each of them used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import count, name_of, need, note_ignored, usd_of, whole
from ttc_eval.imports.samples import Contents, Options, Sample, Tally
from ttc_eval.records import AnswerContract, ContractKind, Sampling
from ttc_eval.replay.shared_usage import SharedUsage

SUMMARY = "logs of tree-of-thought-llm (ys, infos or accs, usage_so_far)"
_NAME = re.compile(r"(?P<backend>.+?)_(?P<temperature>\d+(?:\.\d+)?)_(?P<method>.+?)(?:_sample_\d+)?(?:_start\d+_end\d+)?$")
_USAGE = ("completion_tokens", "prompt_tokens", "cost")
_USED = ("idx", "ys", "infos", "accs", "usage_so_far")
_Counter = tuple[int, int, Decimal]


def read(path: Path, options: Options) -> Contents:
    """The samples of a log. Backend, temperature and method stand in the file's name. Raises `UserError`, also while they are read."""
    rows = whole(path)
    if not isinstance(rows, list):
        raise UserError(f"{path.name}: a tree-of-thought log is a list of problems")
    named, tally = _NAME.fullmatch(path.stem), Tally()
    return Contents(
        dataset=options.dataset or "game24",
        split=options.split or "test",
        samples=_samples(path, rows, f"{named['backend']} {named['method']}" if named else path.stem, options, tally),
        tally=tally,
        contract=AnswerContract(ContractKind.TEXT),
        comparable=False,
        sampling=Sampling(temperature=float(named["temperature"]) if named else None),
    )


def _samples(path: Path, rows: list[Any], system: str, options: Options, tally: Tally) -> Iterator[Sample]:
    before: _Counter = (0, 0, Decimal(0))
    for place, row in enumerate(rows):
        where = f"{path.name}, problem {place}"
        if not isinstance(row, dict):
            raise UserError(f"{where}: an object is needed")
        note_ignored(tally, row, _USED)
        problem, texts = name_of(row, "idx", where), need(row, "ys", list, where)
        labels = _labels(row, where)
        if len(labels) != len(texts):
            raise UserError(f"{where}: {len(texts)} samples and {len(labels)} labels")
        shared = None
        if row.get("usage_so_far") is not None:
            now = _counter(need(row, "usage_so_far", dict, where), where)
            if now[0] < before[0] or now[1] < before[1] or now[2] < before[2]:
                tally.notes["restarts of the usage counter, whose last row says less than was used"] += 1
                before = (0, 0, Decimal(0))
            shared = SharedUsage(problem, len(texts), now[1] - before[1], now[0] - before[0], now[2] - before[2])
            before = now
        for draw, text in enumerate(texts):
            if not isinstance(text, str):
                raise UserError(f"{where}, sample {draw}: text is needed")
            yield Sample(
                problem=problem,
                where=f"{where}, sample {draw}",
                system=options.model or system,
                text=text,
                seed=options.seed or 0,
                draw=draw,
                answer=expression(text),
                correct=labels[draw],
                shared=shared,
            )


def _labels(row: Mapping[str, Any], where: str) -> list[bool]:
    if "infos" not in row:
        return [bool(label) for label in need(row, "accs", list, where)]
    labels = []
    for place, info in enumerate(need(row, "infos", list, where)):
        here = f"{where}, infos {place}"
        if not isinstance(info, dict):
            raise UserError(f"{here}: an object is needed")
        labels.append(bool(need(info, "r", (int, float, bool), here)))
    return labels


def _counter(usage: Mapping[str, Any], where: str) -> _Counter:
    for name in _USAGE:
        need(usage, name, (int, float), f"{where}, usage_so_far")
    cost = usd_of(usage, "cost", where)
    return count(usage, "completion_tokens", where) or 0, count(usage, "prompt_tokens", where) or 0, cost or Decimal(0)


def expression(text: str) -> str | None:
    """The answer as the repository reads it: the last line, in lower case, after "answer: " and before "="."""
    return text.strip().split("\n")[-1].lower().replace("answer: ", "").split("=")[0].strip() or None
