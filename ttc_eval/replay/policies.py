"""A study under other strategies: the code of a strategy over stored draws and scores, with no call.

A request that was never made is refused, and then nothing at all is written: an answer from fewer draws than were asked for would be the
answer of another policy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ttc_eval.errors import UserError
from ttc_eval.exchange import Tally
from ttc_eval.ledger import Account, Limits, Scope
from ttc_eval.records import JSON, Problem, Role, digest
from ttc_eval.replay.pools import FILTERS, Pool, Recorded, StoredVerifier, pools_of, recorded, stored_calls
from ttc_eval.replay.solving import Replaying
from ttc_eval.replay.stored import NotStored, StoredCalls
from ttc_eval.store import Journal, StudyPaths, reading
from ttc_eval.store.journal import Rows
from ttc_eval.store.staging import append_all, staged
from ttc_eval.sweep import rows
from ttc_eval.sweep.config import parse
from ttc_eval.sweep.history import History, fresh_id
from ttc_eval.sweep.prepare import Cell, Plan, cell_of
from ttc_eval.sweep.state import CellState, SweepState

# What a replayed cell may have of its own; everything else is as its draws were made.
REPLACED = ("strategy", "verifier", "verifier_model", "larger_model", "limits", "allow_code_execution")
_CALLS_AT_ONCE = 500
_FILTERED = ", ".join(f"{name}=" for name in FILTERS)


@dataclass(frozen=True, slots=True)
class Policy:
    """A strategy to replay.

    Attributes:
        composed: a whole config, as a sweep composes it; of it the keys of `REPLACED` count that are in `given`, and the strategy.
        verifier: name of a stored verifier that scores; None: the one that is stored.
    """

    composed: JSON
    given: frozenset[str]
    verifier: str | None = None


def verifiers_of(database: Path, wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of the verifiers whose scores a study holds, for the pools that are wanted."""
    return list(dict.fromkeys(one.name for pool in pools_of(database, wanted) for one in pool.verifiers))


async def replay(
    source: StudyPaths, target: StudyPaths, policies: Sequence[Policy], wanted: Mapping[str, Sequence[str]], overrides: Sequence[str] = ()
) -> StudyPaths:
    """Run every policy over every wanted pool of a study, into a study of its own.

    Args:
        wanted: values of the pools to take, by a name of `pools.FILTERS`; none: all of them.
        overrides: what the user asked for, for the record.

    Raises `UserError` when a policy cannot run, or asks for something that is not stored; nothing is written then.
    """
    if target.database.exists() or target.journals.exists():
        raise UserError(f"{target.database}: there is such a study already; give the replay another name")
    pools = pools_of(source.database, wanted)
    cells = _cells(pools, policies, target)
    calls, shared = stored_calls(source.database)
    known = recorded(source.database, shared)
    plan = Plan(target, tuple(cell for cell, _ in cells.values()), (f"source={source.database.name}", *overrides), digest(sorted(cells)))
    history = History(target, fresh_id())
    state = _state(plan, history)
    with staged(target) as folder:
        async with Journal(folder) as journal:
            await append_all(journal, _lines(source, list(cells.values()), state, history, calls, known))
    return target


async def _lines(
    source: StudyPaths, cells: Sequence[tuple[Cell, Pool]], state: SweepState, history: History, calls: StoredCalls, known: Recorded
) -> AsyncIterator[Rows]:
    """The replay as lines of a journal. Raises `UserError` for what is not stored."""
    used: set[str] = set()
    yield _marked(rows.opening(state.plan, state, history))
    for cell, pool in cells:
        replaying, cell_state = Replaying.of(cell, calls, known, pool.endpoint), state.cells[cell.cell_id]
        for problem in pool.problems:
            try:
                line = await replaying.solve(problem)
            except NotStored as missing:
                raise UserError(_refusal(missing, cell, problem, pool)) from None
            used.update(use["call_id"] for use in line["uses"])
            cell_state.left -= 1
            cell_state.done += 1
            yield line
        cell_state.status = "finished"
    for batch in _provenance(source.database, used):
        yield batch
    yield _marked(rows.closing(state, history))


def _cells(pools: Sequence[Pool], policies: Sequence[Policy], target: StudyPaths) -> dict[str, tuple[Cell, Pool]]:
    found: dict[str, tuple[Cell, Pool]] = {}
    for pool in pools:
        for policy in policies:
            try:
                cell = cell_of(parse(_config(pool, policy, target)), pool.problems)
            except UserError as error:
                if len(pools) == 1 or pool.label in str(error):
                    raise
                raise UserError(f"{error} (of {len(pools)} pools this is: {pool.label}; {_FILTERED} take some only)") from None
            found.setdefault(cell.cell_id, (cell, pool))
    return found


def _config(pool: Pool, policy: Policy, target: StudyPaths) -> dict[str, Any]:
    """The config of a replayed cell: the pool's, under the policy's strategy, verifier and limits."""
    composed = policy.composed
    # A study of an older version lacks keys that were added since; they have their defaults.
    plain = {key: pool.config.get(key, composed[key]) for key in composed}
    plain |= {
        "strategy": composed["strategy"],
        "limits": composed["limits"],
        "study": target.study,
        "results_dir": str(target.database.parent),
    }
    plain |= dict.fromkeys(("verifier", "verifier_model", "larger_model"))
    plain |= {key: composed[key] for key in REPLACED if key in policy.given}
    if policy.verifier is not None or "verifier" not in policy.given:
        stored = _stored_verifier(pool, policy)
        plain |= {"verifier": stored and stored.verifier, "verifier_model": stored and stored.judge}
    if "larger_model" not in policy.given and pool.larger:
        if len(pool.larger) > 1:
            raise UserError(f"{pool.label}: the study has several larger models; say which with model@larger_model=…")
        plain["larger_model"] = pool.larger[0]
    return plain


def _stored_verifier(pool: Pool, policy: Policy) -> StoredVerifier | None:
    names = [one.name for one in pool.verifiers]
    if policy.verifier is not None:
        if policy.verifier not in names:
            raise UserError(f"verifier={policy.verifier}: {pool.label} has no such scores; it has: {', '.join(names) or 'none'}")
        return pool.verifiers[names.index(policy.verifier)]
    if len(names) > 1 and _asks_verifier(policy):
        raise UserError(f"{pool.label} has scores of several verifiers; add verifier=NAME with one of: {', '.join(names)}")
    return pool.verifiers[0] if names else None


def _asks_verifier(policy: Policy) -> bool:
    from ttc_eval.sweep.config import build

    return bool(getattr(build(policy.composed["strategy"], "strategy"), "asks_verifier", True))


def _state(plan: Plan, history: History) -> SweepState:
    cells = {cell.cell_id: CellState(cell, Account(Scope.CELL, Limits()), len(cell.problems)) for cell in plan.cells}
    return SweepState(plan, history.sweep_id, cells, Tally(), database=plan.paths.database)


def _marked(line: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    return {**line, "sweeps": [{**row, "kind": "replay"} for row in line["sweeps"]]}


def _refusal(missing: NotStored, cell: Cell, problem: Problem, pool: Pool) -> str:
    """Which request is missing, for which problem, and what there is instead."""
    request, label = missing.request, cell.config.strategy.label
    where = f"problem {problem.problem_id} ({pool.label})"
    if request.role is Role.VERIFY and cell.config.verifier is not None:
        name = cell.config.verifier.name
        names = ", ".join(one.name for one in pool.verifiers) or "none"
        return f"strategy {label} asks {name} for a score that is not stored, of {where}; verifiers with stored scores: {names}"
    if request.role is not Role.GENERATE:
        return f"strategy {label} words requests of its own ({request.role.value}), and this one was never made: {where}"
    most = getattr(cell.config.strategy, "most", None)
    asked = request.draw + 1 if most is None else max(request.draw + 1, most.draws)
    if missing.drawn:
        return f"strategy {label} asks for k={asked} draws, {missing.drawn} were drawn for {where}; a replay draws nothing"
    return (
        f"strategy {label} asks for a draw with thinking {request.thinking.label} and at most {request.max_output_tokens} tokens, "
        f"and none was drawn so for {where}"
    )


def _provenance(database: Path, used: set[str]) -> Iterable[dict[str, Any]]:
    """The calls that the replay used, and where they were imported from, as lines of a journal."""
    ids = sorted(used)
    with reading(database) as connection:
        for start in range(0, len(ids), _CALLS_AT_ONCE):
            yield {"calls": _rows(connection, "SELECT * FROM calls WHERE list_contains(?, call_id)", [ids[start : start + _CALLS_AT_ONCE]])}
        imports = _rows(connection, "SELECT * FROM imports", [])
    if imports:
        yield {"imports": imports}


def _rows(connection: Any, query: str, values: list[Any]) -> list[dict[str, Any]]:
    found = connection.execute(query, values)
    columns = [(column[0], str(column[1]) == "JSON") for column in found.description]
    return [
        {
            name: orjson.Fragment(value) if is_json and value is not None else value
            for (name, is_json), value in zip(columns, row, strict=True)
        }
        for row in found.fetchall()
    ]
