"""`lm-eval`: sample logs of lm-evaluation-harness, `samples_TASK_DATE.jsonl` (doc_id, doc, target, arguments, resps, filtered_resps).

A line is one document under one filter; the same responses come again under the next filter, and one filter is taken. The metric of a line
is about what the filter made of all its responses: it labels a draw only where there is one response. Tokens and seconds are not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import lines, may, name_of, need, note_ignored
from ttc_eval.imports.samples import Contents, Options, Sample, Tally
from ttc_eval.records import AnswerContract, ContractKind, Message

SUMMARY = "sample logs of lm-evaluation-harness (samples_TASK_DATE.jsonl)"
_NAME = re.compile(r"samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?$")
_METRICS = ("exact_match", "acc", "acc_norm", "pass@1", "f1", "em")
_USED = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")


def read(path: Path, options: Options) -> Contents:
    """The samples of a log. The task stands in the file's name. Raises `UserError`, also while they are read."""
    named, tally = _NAME.fullmatch(path.stem), Tally()
    return Contents(
        dataset=options.dataset or (named["task"] if named else path.stem),
        split=options.split or "test",
        samples=_samples(path, options, tally),
        tally=tally,
        contract=AnswerContract(ContractKind.TEXT),
        extracts=False,
        comparable=False,
    )


def _samples(path: Path, options: Options, tally: Tally) -> Iterator[Sample]:
    wanted = options.filter
    for where, row in lines(path):
        name = may(row, "filter", str, where) or "none"
        wanted = wanted or name
        if name != wanted:
            tally.notes[f"lines of other filters than {wanted!r}, left out (--filter takes another)"] += 1
            continue
        responses = _flat(need(row, "resps", list, where))
        filtered = _flat(may(row, "filtered_resps", list, where) or [])
        metric = _metric(row, options, where)
        note_ignored(tally, row, (*_USED, *(may(row, "metrics", list, where) or ()), *((metric,) if metric else ())))
        label = None if metric is None else _label(row[metric])
        if label is None:
            tally.notes["lines without a metric of 0 or 1, and so without a label"] += 1
        if _chosen(responses) is not None:
            yield _sample(row, where, options, path, f"choice {_chosen(responses)}", str(_chosen(responses)), label)
            continue
        texts = [response for response in responses if isinstance(response, str)]
        if not texts:
            raise UserError(f"{where}: 'resps' holds no text")
        if len(texts) > 1 and label is not None:
            tally.notes["lines whose metric is about several responses together, and so no label of any"] += 1
        for draw, text in enumerate(texts):
            # A filter that makes one answer of several responses says nothing of each: what they say is then all that there is.
            answer = filtered[draw] if len(filtered) == len(texts) else None if options.answer else text
            said = str(answer).strip() if isinstance(answer, str | int | float) else ""
            yield _sample(row, where, options, path, text, said or None, label if len(texts) == 1 else None)


def _sample(row: Mapping[str, Any], where: str, options: Options, path: Path, text: str, answer: str | None, label: bool | None) -> Sample:
    target = row.get("target")
    return Sample(
        problem=name_of(row, "doc_id", where),
        where=where,
        system=options.model or _model(path),
        text=text,
        seed=options.seed or 0,
        messages=_prompt(row, where),
        reference=None if target is None else str(target),
        answer=None if answer == "[invalid]" else answer,
        correct=label,
    )


def _model(path: Path) -> str:
    """The harness writes the logs of a model, beside its results, into a folder of that name."""
    return path.parent.name if path.parent.name and any(path.parent.glob("results_*.json")) else "lm-eval"


def _flat(values: Any) -> list[Any]:
    """Responses, which come nested once more for every request of the document."""
    while isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return list(values)


def _chosen(responses: list[Any]) -> int | None:
    """The choice of the largest log-likelihood, where the responses are pairs of one and whether it was greedy; None for texts."""
    if len(responses) == 2 and str(responses[1]) in ("True", "False"):
        # A task with one request a document says only whether its text would have been written.
        return 0
    values = []
    for response in responses:
        pair = response[0] if isinstance(response, list) and len(response) == 1 else response
        if not isinstance(pair, list) or len(pair) != 2:
            return None
        try:
            values.append(float(pair[0]))
        except (TypeError, ValueError):
            return None
    return values.index(max(values)) if values else None


def _metric(row: Mapping[str, Any], options: Options, where: str) -> str | None:
    if options.scorer is not None:
        need(row, options.scorer, (int, float, bool), where)
        return options.scorer
    listed = may(row, "metrics", list, where) or []
    return next((name for name in (*_METRICS, *map(str, listed)) if name in row), None)


def _label(value: object) -> bool | None:
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def _prompt(row: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    """The first request's text; without it, the document."""
    arguments: Any = row.get("arguments")
    while isinstance(arguments, dict | list) and arguments:
        arguments = next(iter(arguments.values())) if isinstance(arguments, dict) else arguments[0]
    if isinstance(arguments, str):
        return (Message("user", arguments),)
    doc = may(row, "doc", dict, where) or {}
    return (Message("user", "\n".join(f"{name}: {value}" for name, value in doc.items())),) if doc else ()
