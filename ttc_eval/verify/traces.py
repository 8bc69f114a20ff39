"""The stored texts that a verifier scores, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from ttc_eval.records import AnswerContract, ContractKind, Extraction, Message, Problem, Question
from ttc_eval.store import reading

PAGE = 1000


class What(StrEnum):
    """What of a response is scored: its thinking, or its answer when that is complete."""

    THINKING = "thinking"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Trace:
    """One stored text. `trace_id` is the response's own id, or the call's where that has none or one that several share.

    `thinking` is what preceded the text in its response, where the text is an answer.
    """

    call_id: str
    trace_id: str
    text: str
    question: Question
    thinking: str | None = None


_TEXT = {What.THINKING: "thinking_text", What.ANSWER: "CASE WHEN complete THEN answer_text END"}
# The id is that of one response only when no other stored response has it.
_IDENTIFIED = """
    SELECT call_id, started_at, request->'$.messages' AS messages, {text} AS text, thinking_text,
           CASE WHEN response_id <> '' AND count(*) OVER (PARTITION BY response_id) = 1 THEN response_id ELSE call_id END AS trace_id
    FROM calls WHERE status = 'ok' AND role = 'generate'"""
_UNSCORED = """
    SELECT call_id, trace_id, text, messages, thinking_text, started_at FROM ({identified}) t
    WHERE text <> '' AND (started_at, call_id) > (?, ?)
      AND NOT EXISTS (SELECT 1 FROM trace_scores s WHERE s.call_id = t.call_id AND s.verifier = ? AND s.what = ?)
    ORDER BY started_at, call_id LIMIT ?"""


@dataclass(frozen=True, slots=True)
class Place:
    """How far the stored texts have been gone through: the start of a call, in Unix seconds, and its id."""

    started_at: float = -1.0
    call_id: str = ""


def unscored(
    database: Path, verifier: str, what: What, questions: Mapping[tuple[Message, ...], Question], after: Place, most: int = PAGE
) -> tuple[list[Trace], Place | None]:
    """The stored texts after a place that have no score of `verifier`, at most `most`, and where to go on; None at the end.

    `questions` are those of the study, by their messages; a text whose question is not among them gets one without a contract.
    """
    query = _UNSCORED.format(identified=_IDENTIFIED.format(text=_TEXT[what]))
    with reading(database) as connection:
        rows = connection.execute(query, [after.started_at, after.call_id, verifier, what.value, most]).fetchall()
    traces = []
    for call_id, trace_id, text, messages, thinking, _ in rows:
        turns = _turns(orjson.loads(messages))
        question = questions.get(turns) or Question("", turns, AnswerContract())
        traces.append(Trace(call_id, trace_id, text, question, thinking if what is What.ANSWER else None))
    return traces, Place(rows[-1][5], rows[-1][0]) if len(rows) == most else None


def stored_problems(database: Path) -> list[Problem]:
    """The problems of a study, with their references."""
    with reading(database) as connection:
        query = "SELECT problem_id, dataset, split, messages, reference, contract, difficulty, given FROM problems ORDER BY problem_id"
        rows = connection.execute(query).fetchall()
    return [
        Problem(
            problem_id,
            dataset,
            split,
            _turns(orjson.loads(messages)),
            reference,
            _contract(orjson.loads(contract)),
            difficulty,
            {} if given is None else orjson.loads(given),
        )
        for problem_id, dataset, split, messages, reference, contract, difficulty, given in rows
    ]


def texts_of(database: Path, trace_ids: Sequence[str], what: What) -> dict[str, list[tuple[str, str]]]:
    """Call and text of every stored response that each trace id names, by its own id or by that of its call."""
    query = f"""
        SELECT call_id, response_id, coalesce({_TEXT[what]}, '') FROM calls
        WHERE status = 'ok' AND role = 'generate' AND (list_contains($1, response_id) OR list_contains($1, call_id)) ORDER BY started_at"""
    with reading(database) as connection:
        rows = connection.execute(query, [list(trace_ids)]).fetchall()
    found: dict[str, list[tuple[str, str]]] = {}
    wanted = set(trace_ids)
    for call_id, response_id, text in rows:
        for name in {call_id, response_id} & wanted:
            found.setdefault(name, []).append((call_id, text))
    return found


def _turns(turns: list[list[Any]]) -> tuple[Message, ...]:
    return tuple(Message(turn[0], turn[1], tuple(turn[2]) if len(turn) > 2 else ()) for turn in turns)


def _contract(values: dict[str, Any]) -> AnswerContract:
    return AnswerContract(**{**values, "kind": ContractKind(values["kind"]), "extraction": Extraction(values["extraction"])})
