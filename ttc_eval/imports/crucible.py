"""`crucible`: fixtures of crucible-ttc, `{meta, records: [{problem_id, gold, difficulty, traces: [{text, tokens, correct, prm_score}]}]}`.

`tokens` are those of the text; the prompt and its tokens are not in the file. `prm_score` is in [0, 1]; a process reward model writes
nothing, so that its scores cost no output, and how much input they cost is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import count, may, name_of, need, note_ignored, number, whole
from ttc_eval.imports.samples import Classes, Contents, Options, Sample, Tally
from ttc_eval.records import AnswerContract, ContractKind, Sampling, Usage, UsageSource

SUMMARY = "fixtures of crucible-ttc (text, tokens, correct, prm_score)"
SCORE = "prm"
_NO_OUTPUT = Usage(None, 0, source=UsageSource.COUNTED)
_KINDS = {"gsm8k": ContractKind.NUMBER}


def read(path: Path, options: Options) -> Contents:
    """The samples of a fixture. Raises `UserError`, also while they are read."""
    data = whole(path)
    if not isinstance(data, dict) or "records" not in data or "meta" not in data:
        raise UserError(f"{path.name}: a crucible fixture is an object with 'meta' and 'records'")
    meta, where, tally = need(data, "meta", dict, path.name), f"{path.name}, meta", Tally()
    dataset = options.dataset or name_of(meta, "dataset", where)
    return Contents(
        dataset=dataset,
        split=options.split or "test",
        samples=_samples(path, data, meta, options, tally),
        tally=tally,
        contract=AnswerContract(_KINDS.get(dataset, ContractKind.MATH)),
        sampling=Sampling(temperature=number(meta, "temperature", where)),
        answer_tokens=count(meta, "max_tokens", where),
        judges={SCORE: may(meta, "prm", str, where) or SCORE},
    )


def _samples(path: Path, data: Mapping[str, Any], meta: Mapping[str, Any], options: Options, tally: Tally) -> Iterator[Sample]:
    system = options.model or meta.get("model") or meta.get("policy") or path.stem
    seed = meta.get("seed") if options.seed is None else options.seed
    captured = _time(meta.get("captured"))
    for place, record in enumerate(need(data, "records", list, path.name)):
        where = f"{path.name}, record {place}"
        note_ignored(tally, record, ("problem_id", "gold", "difficulty", "traces"))
        for draw, trace in enumerate(need(record, "traces", list, where)):
            here = f"{where}, trace {draw}"
            note_ignored(tally, trace, ("text", "tokens", "correct", "prm_score"))
            text, score = need(trace, "text", str, here), number(trace, "prm_score", here)
            tokens = count(trace, "tokens", here)
            yield Sample(
                problem=name_of(record, "problem_id", where),
                where=here,
                system=str(system),
                text=text,
                seed=seed or 0,
                draw=draw,
                reference=str(need(record, "gold", (str, int, float), where)),
                difficulty=may(record, "difficulty", str, where),
                answer=published_answer(text) if options.classes is Classes.PUBLISHED else None,
                correct=may(trace, "correct", bool, here),
                scores={} if score is None else {SCORE: score},
                score_usage={SCORE: _NO_OUTPUT},
                usage=Usage(None, tokens, source=UsageSource.UNKNOWN if tokens is None else UsageSource.PROVIDER),
                started_at=captured,
            )


def _time(stamp: object) -> float | None:
    try:
        found = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_SAID = re.compile(r"answer\s*(?:(?:is|:|=)\s*|\$?\\?boxed\s*\{?\s*)\$?([^\n.$}]+)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:\s*/\s*-?\d+(?:\.\d+)?)?")


def published_answer(text: str) -> str | None:
    """The answer as crucible reads it: the last box, else the number or text after the last "answer is", else the last number."""
    boxes, said, numbers = _BOX.findall(text), _SAID.findall(text), _NUMBER.findall(text)
    if boxes and (box := _bare(boxes[-1])):
        return box
    if said and (phrase := _bare(said[-1])):
        found = _NUMBER.search(phrase)
        return found.group().replace(" ", "") if found else phrase
    return numbers[-1].replace(" ", "") if numbers else None


def _bare(text: str) -> str:
    return text.strip().strip("$").strip().rstrip(".").strip()
