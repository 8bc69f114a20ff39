"""What a study holds draws of: its pools, with their problems and the verifiers whose scores are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ttc_eval.errors import UserError
from ttc_eval.records import JSON, Problem, digest
from ttc_eval.replay.shared_usage import SharedUsage, shared_usage
from ttc_eval.replay.stored import StoredCalls
from ttc_eval.store import reading
from ttc_eval.verify.traces import stored_problems

# What may be filtered by, and the column of `cells` that it is.
FILTERS = {"model": "model", "dataset": "dataset", "split": "split", "seed": "seed", "thinking": "thinking_label"}
_DRAWN_UNDER = ("model", "thinking", "sampling", "answer_tokens", "seed")


@dataclass(frozen=True, slots=True)
class StoredVerifier:
    """A verifier of the study and its judge, as configs."""

    name: str
    verifier: JSON = field(hash=False)
    judge: JSON | None = field(hash=False)


@dataclass(frozen=True, slots=True)
class Pool:
    """All cells of a study that draw from one request configuration, about one data set.

    Attributes:
        config: that of the first of them; endpoint: identity of its model.
        problems: all that one of them has solved.
        verifiers, larger: what scores, and which larger models, their cells used; without repetition.
    """

    config: JSON
    endpoint: str
    label: str
    problems: tuple[Problem, ...]
    verifiers: tuple[StoredVerifier, ...]
    larger: tuple[JSON, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of the answers of a study.

    Attributes:
        answers: answer and its class, by the calls that brought a candidate.
        grades: rows of `grades`, by problem and class.
        shared: usage that calls share, by call id.
    """

    answers: Mapping[tuple[str, ...], tuple[str | None, str | None]]
    grades: Mapping[str, Mapping[str, Mapping[str, Any]]]
    shared: Mapping[str, SharedUsage]


def pools_of(database: Path, wanted: Mapping[str, Sequence[str]]) -> list[Pool]:
    """The pools of a study, in the order of their first cells.

    Args:
        wanted: values to keep, by a name of `FILTERS`. Raises `UserError` when one of them, or all together, match nothing.
    """
    known = {problem.problem_id: problem for problem in stored_problems(database)}
    columns = ", ".join(f"c.{column}" for column in FILTERS.values())
    query = f"""
        SELECT c.cell_id, c.config, c.endpoint, {columns} FROM cells c LEFT JOIN sweeps w USING (sweep_id)
        ORDER BY w.started_at, c.ordinal"""
    with reading(database) as connection:
        cells = connection.execute(query).fetchall()
        solved: dict[str, list[str]] = {}
        for cell_id, problem_id in connection.execute("SELECT cell_id, problem_id FROM solutions ORDER BY problem_id").fetchall():
            solved.setdefault(cell_id, []).append(problem_id)
    names = [dict(zip(FILTERS, map(str, row[3:]), strict=True)) for row in cells]
    for name, values in wanted.items():
        missing = sorted(set(values) - {one[name] for one in names})
        if missing:
            raise UserError(f"{name}={missing[0]}: the study has none; it has: {', '.join(sorted({one[name] for one in names}))}")
    groups: dict[str, list[tuple[str, JSON, str]]] = {}
    for (cell_id, config, endpoint, *_), one in zip(cells, names, strict=True):
        if cell_id in solved and all(one[name] in values for name, values in wanted.items()):
            plain = orjson.loads(config)
            key = digest([endpoint, *(plain.get(part) for part in _DRAWN_UNDER), one["dataset"], one["split"]])
            groups.setdefault(key, []).append((cell_id, plain, endpoint))
    if not groups:
        raise UserError(
            f"{database}: no solved cell matches {' '.join(f'{name}={chr(44).join(values)}' for name, values in wanted.items())}"
        )
    return [_pool(group, solved, known) for group in groups.values()]


def _pool(group: Sequence[tuple[str, JSON, str]], solved: Mapping[str, Sequence[str]], known: Mapping[str, Problem]) -> Pool:
    configs = [config for _, config, _ in group]
    ids = dict.fromkeys(problem_id for cell_id, _, _ in group for problem_id in solved[cell_id])
    first = configs[0]
    named = f"{first['model'].get('name')}, {first['dataset']['name']}, seed {first['seed']}"
    return Pool(
        config=first,
        endpoint=group[0][2],
        label=named,
        problems=tuple(known[problem_id] for problem_id in ids if problem_id in known),
        verifiers=_verifiers(configs),
        larger=_distinct(config.get("larger_model") for config in configs),
    )


def _verifiers(configs: Iterable[JSON]) -> tuple[StoredVerifier, ...]:
    pairs = [{"verifier": config.get("verifier"), "verifier_model": config.get("verifier_model")} for config in configs]
    # An imported file brings scores that no strategy has asked for.
    pairs += [pair for config in configs for pair in config.get("stored_verifiers") or ()]
    found = _distinct(pair for pair in pairs if pair["verifier"])
    return tuple(StoredVerifier(_name(pair["verifier"]), pair["verifier"], pair["verifier_model"]) for pair in found)


def _name(verifier: JSON) -> str:
    from ttc_eval.sweep.config import build

    return str(build(verifier, "verifier").name)


def _distinct(values: Iterable[JSON | None]) -> tuple[JSON, ...]:
    return tuple({digest(value): value for value in values if value}.values())


def stored_calls(database: Path) -> tuple[StoredCalls, dict[str, SharedUsage]]:
    """All calls of a study, and the usage that some of them share."""
    query = "SELECT * EXCLUDE (request, usage_raw, sent), usage_raw FROM calls ORDER BY started_at, attempt"
    with reading(database) as connection:
        found = connection.execute(query)
        names = [column[0] for column in found.description or ()]
        rows = [dict(zip(names, values, strict=True)) for values in found.fetchall()]
    shared: dict[str, SharedUsage] = {}
    for row in rows:
        raw = row.pop("usage_raw")
        for name in ("blocks", "token_logprobs", "top_logprobs"):
            row[name] = None if row[name] is None else orjson.loads(row[name])
        # Only an import shares usage, and reading every provider's object would cost more than all the rest.
        if raw is not None and '"shared_by"' in raw and (usage := shared_usage(orjson.loads(raw))) is not None:
            shared[row["call_id"]] = usage
    return StoredCalls(rows), shared


def recorded(database: Path, shared: Mapping[str, SharedUsage]) -> Recorded:
    """The answers and grades of a study."""
    # A text that two cells read in two ways is read again; so is what a strategy put together itself.
    query = """
        SELECT call_ids, any_value(answer), any_value(answer_class) FROM candidates
        WHERE NOT coalesce("partial", false) AND parent IS NULL AND content IS NULL AND call_ids <> '[]'
        GROUP BY call_ids HAVING count(DISTINCT coalesce(answer_class, '')) = 1 AND count(DISTINCT coalesce(answer, '')) = 1"""
    grades: dict[str, dict[str, dict[str, Any]]] = {}
    with reading(database) as connection:
        answers = {tuple(orjson.loads(ids)): (answer, name) for ids, answer, name in connection.execute(query).fetchall()}
        columns = "problem_id, answer_class, correct, grader, how"
        for row in connection.execute(f"SELECT {columns} FROM grades ORDER BY problem_id, answer_class").fetchall():
            grades.setdefault(row[0], {})[row[1]] = dict(zip(columns.split(", "), row, strict=True))
    return Recorded(answers, grades, shared)
