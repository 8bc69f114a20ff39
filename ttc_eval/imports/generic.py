"""`jsonl`: this program's own, documented format (docs/imports.md). One sample a line; only `problem` and `text` are needed.

| field | meaning |
|---|---|
| `problem` | name of the problem; samples of one problem share it, in any order |
| `text` | what was written |
| `prompt` | a text, or turns with `role` and `content`; enough on the first of a problem's lines, as `reference` and `difficulty` are |
| `draw` | index from 0 in the problem's pool; without it the samples are numbered as they come |
| `model`, `seed` | who answered, and which pool; one cell each |
| `answer` | the final answer; without it, it is looked for in `text` where `--answer` says what it is, else the sample stands for itself |
| `correct` | the label |
| `reference`, `difficulty` | of the problem |
| `scores` | object: verifier's name to number |
| `score_usage` | object: verifier's name to usage |
| `usage` | `input_tokens` (cached included), `output_tokens` (reasoning included), `cached_input_tokens`, `cache_write_tokens`,
  `reasoning_tokens`, `usd` |
| `latency_s`, `started_at` | seconds, Unix seconds |
| `thinking`, `complete`, `stop_reason` | thinking text; false: it was cut; why it ended |
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import COUNTS, count, lines, may, name_of, need, note_ignored, number, seconds, turns_of, usage_of, usd_of
from ttc_eval.imports.samples import Contents, Options, Sample, Tally
from ttc_eval.records import UNKNOWN_USAGE

SUMMARY = "one sample a line, see docs/imports.md; works for any tool"
FIELDS = (
    "problem",
    "text",
    "prompt",
    "draw",
    "model",
    "seed",
    "answer",
    "correct",
    "reference",
    "difficulty",
    "scores",
    "score_usage",
    "usage",
    "latency_s",
    "started_at",
    "thinking",
    "complete",
    "stop_reason",
)


def read(path: Path, options: Options) -> Contents:
    """The samples of a file. Raises `UserError`, also while they are read."""
    tally = Tally()
    return Contents(options.dataset or path.stem, options.split or "test", _samples(path, options, tally), tally)


def _samples(path: Path, options: Options, tally: Tally) -> Iterator[Sample]:
    for where, row in lines(path):
        note_ignored(tally, row, FIELDS)
        usage = may(row, "usage", dict, where) or {}
        scores, score_usage = may(row, "scores", dict, where) or {}, may(row, "score_usage", dict, where) or {}
        note_ignored(tally, usage, (*COUNTS, "usd"), "usage.")
        if not all(name.strip() for name in (*scores, *score_usage)):
            raise UserError(f"{where}: a score has an empty name")
        complete, seed, given = (
            may(row, "complete", bool, where),
            count(row, "seed", where),
            may(row, "reference", (str, int, float), where),
        )
        answer = may(row, "answer", (str, int, float), where)
        difficulty = may(row, "difficulty", (str, int, float), where)
        yield Sample(
            problem=name_of(row, "problem", where),
            where=where,
            system=options.model or may(row, "model", str, where) or path.stem,
            text=need(row, "text", str, where),
            seed=(options.seed or 0) if seed is None else seed,
            draw=count(row, "draw", where),
            messages=() if row.get("prompt") is None else turns_of(row["prompt"], where),
            reference=None if given is None else str(given),
            difficulty=None if difficulty is None else str(difficulty),
            answer=None if answer is None else str(answer),
            correct=may(row, "correct", bool, where),
            thinking=may(row, "thinking", str, where),
            complete=True if complete is None else complete,
            stop=may(row, "stop_reason", str, where),
            scores={name: value for name in scores if (value := number(scores, name, where)) is not None},
            score_usage={name: usage_of(need(score_usage, name, dict, where), where) for name in score_usage},
            usage=usage_of(usage, where) if usage else UNKNOWN_USAGE,
            usd=usd_of(usage, "usd", where),
            latency_s=seconds(row, "latency_s", where),
            started_at=number(row, "started_at", where),
        )
