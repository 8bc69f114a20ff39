"""TTC-v2 verifier objects in JSON lines: those made elsewhere come in, checked against the stored text, and ours go out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from ttc_eval.errors import UserError
from ttc_eval.protocol.verifier_score import ScoreRefused, VerifierScore, parse, reading
from ttc_eval.records import ScoreKind
from ttc_eval.store import Journal, StudyPaths
from ttc_eval.store import reading as open_study_file
from ttc_eval.verifiers import Reading
from ttc_eval.verify.traces import What, texts_of

_LINES = 500


@dataclass(slots=True)
class Taken:
    """What came of the lines of a file. `refused` are line number and reason; those that name a trace are stored as invalid."""

    accepted: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


async def take_in(paths: StudyPaths, file: Path, verifier: str, what: What = What.THINKING) -> Taken:
    """Store the verifier objects in `file`, one a line, as scores of `verifier`; the caller loads the journal.

    An object that is not valid, names no stored trace, or whose candidate is not the stored text, is refused; it is stored as invalid, with
    the reason, unless the trace has a valid score of that verifier already. Blank lines are passed over.

    Raises `UserError` when the file cannot be read.
    """
    taken, known = Taken(), _valid(paths, verifier, what)
    try:
        lines = file.open("rb")
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    with lines:
        async with Journal(paths.journals) as journal:
            numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
            while page := list(islice(numbered, _LINES)):
                rows = await asyncio.to_thread(_checked, paths, page, verifier, what, taken, known)
                if rows:
                    await journal.append({"trace_scores": rows})
    return taken


def give_out(paths: StudyPaths, file: Path, verifier: str, what: What = What.THINKING) -> int:
    """Write the valid scores of `verifier` to `file` as verifier objects, one a line; returns their number.

    A score without a rationale has an empty one there, since the protocol wants a text. Raises `UserError` when the file cannot be written.
    """
    text = "thinking_text" if what is What.THINKING else "answer_text"
    query = f"""
        SELECT trace_id, {text}, score, rationale FROM trace_scores JOIN calls USING (call_id)
        WHERE valid AND verifier = ? AND what = ? ORDER BY calls.started_at, call_id"""
    with open_study_file(paths.database) as connection:
        rows = connection.execute(query, [verifier, what.value]).fetchall()
    try:
        with file.open("wb") as out:
            for trace_id, candidate, score, rationale in rows:
                out.write(VerifierScore(trace_id, candidate, score, rationale or "").encode() + b"\n")
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from None
    return len(rows)


def _checked(
    paths: StudyPaths, page: Sequence[tuple[int, bytes]], verifier: str, what: What, taken: Taken, known: set[str]
) -> list[dict[str, Any]]:
    """Rows for a page of numbered lines; what came of each is added to `taken`, and traces with a valid score to `known`."""
    named = [(number, line, _named(line)) for number, line in page]
    stored = texts_of(paths.database, sorted({trace_id for _, _, trace_id in named if trace_id}), what)
    rows: dict[str, dict[str, Any]] = {}
    for number, line, trace_id in named:
        call_id, found = _judged(line, stored.get(trace_id or "", []))
        if found.score is None:
            taken.refused.append((number, found.problem or "invalid"))
        else:
            taken.accepted += 1
        if trace_id is None or (found.score is None and trace_id in known):
            continue
        if found.score is not None:
            known.add(trace_id)
        rows[trace_id] = {
            "trace_id": trace_id,
            "call_id": call_id,
            "verifier": verifier,
            "kind": (ScoreKind.PROCESS if what is What.THINKING else ScoreKind.OUTCOME).value,
            "what": what.value,
            "score": found.score,
            "valid": found.score is not None,
            "reason": found.problem,
            "steps": None,
            "rationale": found.rationale,
            "source": "imported",
            "model": None,
            "judge_call_id": None,
            "scored_at": time.time(),
        }
    return list(rows.values())


def _judged(line: bytes, stored: Sequence[tuple[str, str]]) -> tuple[str | None, Reading]:
    """The call that a line is about, None when that is not known, and what the line says of it."""
    try:
        given = parse(line)
    except ScoreRefused as refused:
        return (stored[0][0] if len(stored) == 1 else None), Reading(None, problem=str(refused))
    if not stored:
        return None, Reading(None, given.rationale, "trace_id names no stored response")
    if len(stored) == 1:
        return stored[0][0], reading(given, stored[0][1])
    # A server that gives one id to several responses: the text tells which of them is meant, when it does.
    same = [call_id for call_id, text in stored if text == given.candidate]
    if len(same) == 1:
        return same[0], Reading(given.score, given.rationale)
    which = "several of them have this text" if same else "none of them has this text"
    return None, Reading(None, given.rationale, f"trace_id names {len(stored)} stored responses, and {which}")


def _named(line: bytes) -> str | None:
    """The trace that a line names, when it says that much."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    trace_id = value.get("trace_id") if isinstance(value, dict) else None
    return trace_id if isinstance(trace_id, str) and trace_id else None


def _valid(paths: StudyPaths, verifier: str, what: What) -> set[str]:
    with open_study_file(paths.database) as connection:
        query = "SELECT trace_id FROM trace_scores WHERE valid AND verifier = ? AND what = ?"
        return {row[0] for row in connection.execute(query, [verifier, what.value]).fetchall()}


def lines_of(refused: Sequence[tuple[int, str]], most: int = 5) -> Iterator[str]:
    """The first refused lines, as text."""
    for number, reason in refused[:most]:
        yield f"line {number}: {reason}"
    if len(refused) > most:
        yield f"and {len(refused) - most} more"
