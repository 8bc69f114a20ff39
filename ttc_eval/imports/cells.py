"""The sweep that an import is: a cell for each system and pool, solved over all its draws, and where it came from."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ttc_eval.exchange import Tally
from ttc_eval.imports.calls import AS_LOGGED
from ttc_eval.imports.classing import Verdicts
from ttc_eval.imports.opened import OpenFile, Placed, System, composed, config_of, model_of
from ttc_eval.imports.samples import Options
from ttc_eval.ledger import Account, Limits, Scope
from ttc_eval.records import Score
from ttc_eval.replay.pools import Recorded
from ttc_eval.replay.solving import Line, Replaying
from ttc_eval.replay.stored import StoredCalls
from ttc_eval.store import StudyPaths
from ttc_eval.strategies import SelfConsistency
from ttc_eval.sweep import rows
from ttc_eval.sweep.config import build
from ttc_eval.sweep.history import History
from ttc_eval.sweep.prepare import Cell, Plan, cell_of
from ttc_eval.sweep.state import CellState, SweepState
from ttc_eval.verifiers.imported import Imported


async def cell_lines(
    files: Sequence[OpenFile], study: StudyPaths, sweep_id: str, format_name: str, options: Options, verdicts: Verdicts
) -> AsyncIterator[Line]:
    """The sweep that an import is: its cells, their solutions, and where they came from, as lines of a journal."""
    cells = [(file, system, _cell(file, system, study)) for file in files for system in file.systems.values()]
    plan = Plan(study, tuple(cell for *_, cell in cells), (f"import={format_name}",), sweep_id)
    states = {cell.cell_id: CellState(cell, Account(Scope.CELL, Limits()), 0, len(cell.problems), status="finished") for *_, cell in cells}
    state, history = SweepState(plan, sweep_id, states, Tally(), database=study.database), History(study, sweep_id)
    opening = rows.opening(plan, state, history)
    yield {**opening, "sweeps": [{**row, "kind": "import"} for row in opening["sweeps"]], "grades": list(_grades(verdicts, format_name))}
    for file, system, cell in cells:
        async for line in _solutions(file, system, cell):
            yield line
    closing = rows.closing(state, history)
    yield {**closing, "sweeps": [{**row, "kind": "import"} for row in closing["sweeps"]]}
    yield {"imports": [_import(file, sweep_id, format_name, options) for file in files]}


def _cell(file: OpenFile, system: System, study: StudyPaths) -> Cell:
    """The cell of a system: self-consistency over all its draws, or the only one, so that every draw is a candidate with its grade."""
    most = max(len(placed) for placed in system.placed.values())
    strategy = {**file.base["strategy"], "max_attempts": most, "early_stop": False}
    if most == 1:
        strategy = composed("single")["strategy"]
    config = config_of(file, study, system.name, system.seed, {"strategy": strategy})
    verifiers = [
        {"verifier": _verifier(file, name), "verifier_model": model_of(file, file.contents.judges.get(name, name))} for name in file.values
    ]
    config = replace(config, plain={**config.plain, "stored_verifiers": verifiers})
    return cell_of(config, tuple(problem for problem in file.problems.values() if problem.problem_id in system.placed))


def _verifier(file: OpenFile, name: str) -> dict[str, Any]:
    verifier = Imported(name, file.scales[name])
    return {
        "_target_": "ttc_eval.verifiers.imported.Imported",
        "label": name,
        "scale": verifier.scale.value,
        "answer_tokens": verifier.answer_tokens,
        "temperature": None,
    }


def _grades(verdicts: Verdicts, format_name: str) -> Iterator[dict[str, Any]]:
    for problem_id, found in verdicts.fresh.items():
        for name, (correct, how) in found.items():
            yield {
                "problem_id": problem_id,
                "answer_class": name,
                "correct": correct,
                "grader": format_name if how == "label" else "contract",
                "how": how,
            }


async def _solutions(file: OpenFile, system: System, cell: Cell) -> AsyncIterator[Line]:
    calls = StoredCalls()
    replaying = Replaying.of(cell, calls, Recorded({}, {}, {}))
    strategy = cell.config.strategy
    verifiers: list[Imported] = [build(_verifier(file, name), "verifier") for name in file.values]
    for problem in cell.problems:
        placed = sorted(system.placed[problem.problem_id].values(), key=lambda one: one.draw)
        calls.only(_attempt(one) for one in placed)
        known = Recorded(
            answers={(one.call_id,): one.answer for one in placed},
            # They are stored already, and a class without one is not to be graded here: nothing is known of it.
            grades={problem.problem_id: {name: {} for one in placed if (name := one.answer[1]) is not None}},
            shared={one.call_id: one.shared for one in placed if one.shared is not None},
        )
        fitting = replace(strategy, max_attempts=len(placed)) if isinstance(strategy, SelfConsistency) else strategy
        line = await replace(replaying, known=known).solve(problem, fitting, tuple(_scores(placed, verifiers)))
        line["grades"] = []
        yield line


def _attempt(one: Placed) -> dict[str, Any]:
    """A call without its texts, which nothing reads again: its answer is known."""
    return {
        "call_id": one.call_id,
        "key": one.key,
        "sweep_id": "",
        "status": "ok",
        "answer_text": "",
        "thinking_text": None,
        "stop_reason": one.stop.value,
        "usage_source": one.usage.source.value,
        "input_tokens": one.usage.input_tokens,
        "output_tokens": one.usage.output_tokens,
        "cost_usd": one.usd,
        "price_version": None if one.usd is None else AS_LOGGED,
        "started_at": one.started_at,
        "latency_s": one.latency_s,
    }


def _scores(placed: Iterable[Placed], verifiers: Sequence[Imported]) -> Iterator[Score]:
    for position, one in enumerate(placed):
        for verifier in verifiers:
            if verifier.label in one.scores:
                value, call_id = one.scores[verifier.label]
                reading_of = verifier.read(f'{{"score": {value!r}}}')
                yield Score(position, verifier.name, verifier.kind, reading_of.score, reading_of.problem, call_id=call_id)


def _import(file: OpenFile, sweep_id: str, format_name: str, options: Options) -> dict[str, Any]:
    return {
        "import_id": file.import_id,
        "sweep_id": sweep_id,
        "format": format_name,
        "path": file.source.path.name,
        "sha256": file.source.sha256,
        "bytes": file.source.size,
        "rows": file.samples,
        "problems": len(file.problems),
        "options": {name: value for name, value in asdict(options).items() if value is not None},
        "imported_at": time.time(),
        "notes": file.notes,
    }
