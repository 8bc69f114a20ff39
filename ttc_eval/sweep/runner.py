"""The runner: all cells of a sweep in one process and one event loop, sharing models, ledger, journal and draws."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ttc_eval import prices
from ttc_eval.answers import AnswerClasses
from ttc_eval.errors import UserError
from ttc_eval.exchange import Exchange, SweepLimitReached, Tally
from ttc_eval.grading import grade
from ttc_eval.ledger import Account, Ledger, OverReservation, Scope
from ttc_eval.models.base import Model, ModelInfo
from ttc_eval.records import Problem, StopReason
from ttc_eval.session import DrawFailed, Session
from ttc_eval.store import Journal, JournalFailed
from ttc_eval.store.loader import DatabaseBusy, load
from ttc_eval.store.lock import only_here
from ttc_eval.sweep import rows
from ttc_eval.sweep.history import History, read_history
from ttc_eval.sweep.prepare import Plan
from ttc_eval.sweep.state import CellState, SweepState

# Errors that every other call of the model would meet as well: they end the cell.
FATAL_KINDS = ("authentication", "credit", "model_not_found", "not_sendable", "budget_refused", "defect")
_LOAD_EVERY_S = 2.0
_OURS = (UserError, OverReservation, DrawFailed)


@dataclass(frozen=True, slots=True)
class _Work:
    """One problem for one worker, in one or several cells, one after another. `exchanges` are all of the sweep, by model."""

    problem: Problem
    states: tuple[CellState, ...]
    exchange: Exchange
    exchanges: Mapping[int, Exchange]


def _silent(_: str) -> None:
    """Say nothing."""


async def run(
    plan: Plan, watch: Callable[[SweepState], contextlib.AbstractContextManager[object]], say: Callable[[str], None] = _silent
) -> SweepState:
    """Run a plan to its end and load everything into the study's database.

    Args:
        watch: opens the progress display for the time of the run.
        say: told at once what the sweep waits for.

    Cancelling the task stops the sweep cleanly: calls in flight are cancelled and stored as such, what was received is
    kept, and the same command goes on from there.

    Raises `UserError` when the same sweep is running elsewhere, or the database is open in another process.
    """
    try:
        await asyncio.to_thread(load, plan.paths, on_wait=say)
    except (duckdb.Error, OSError) as error:
        raise UserError(f"{plan.paths.database} cannot be written: {str(error).splitlines()[0][:200]}") from None
    except DatabaseBusy as busy:
        raise UserError(f"{busy}; what earlier sweeps stored cannot be looked up: close it there and run again") from None
    with only_here(plan.paths.journals, plan.sweep_hash):
        return await _run(plan, watch, say)


async def _run(
    plan: Plan, watch: Callable[[SweepState], contextlib.AbstractContextManager[object]], say: Callable[[str], None]
) -> SweepState:
    history = read_history(plan)
    state = _state(plan, history)
    state.notes += [f"{ref}: the price book does not list it; cost is unknown" for ref in _unlisted(plan)]
    limits = plan.cells[0].config.limits.sweep
    wallet = Account(Scope.SWEEP, limits, history.billed)
    deadline = None if limits.wall_seconds is None else time.monotonic() + limits.wall_seconds
    stop = asyncio.Event()
    async with Journal(plan.paths.journals) as journal:
        await journal.append(rows.opening(plan, state, history))
        loader = asyncio.create_task(_keep_loading(plan, stop))
        try:
            with watch(state):
                await _run_cells(state, history, journal, Ledger(), wallet, deadline)
        except asyncio.CancelledError:
            state.stopped_by = "interrupted"
        finally:
            stop.set()
            await loader
            for cell_state in state.cells.values():
                _close(cell_state, state)
            with contextlib.suppress(JournalFailed):
                await journal.append(rows.closing(state, history))
    try:
        await asyncio.to_thread(load, plan.paths, on_wait=say)
    except DatabaseBusy as busy:
        state.notes.append(f"{busy}: everything is safe in {plan.paths.journals} and is loaded when the file is next read")
        state.database = plan.paths.journals / f"snapshot-{os.getpid()}.duckdb"
        await asyncio.to_thread(load, plan.paths, target=state.database)
    except (duckdb.Error, OSError) as error:
        state.notes.append(f"{plan.paths.database} cannot be written: {str(error).splitlines()[0][:200]}; the journals are kept")
    return state


def _state(plan: Plan, history: History) -> SweepState:
    cells = {}
    for cell in plan.cells:
        done = len(history.solved[cell.cell_id])
        account = Account(Scope.CELL, cell.config.limits.cell, history.charged[cell.cell_id])
        errors = history.errors[cell.cell_id]
        cells[cell.cell_id] = CellState(cell, account, len(cell.problems) - done, done, done, errors)
    return SweepState(plan, history.sweep_id, cells, Tally(), database=plan.paths.database)


def _unlisted(plan: Plan) -> list[str]:
    """References to the price book that it does not know."""
    refs = {model.info.price for cell in plan.cells for model in cell.models}
    return sorted(
        f"model.price.model={ref.model}" for ref in refs if ref.own is None and ref.model is not None and not prices.has_price(ref)
    )


def _close(cell_state: CellState, state: SweepState) -> None:
    if cell_state.status != "running":
        return
    if cell_state.left == 0:
        cell_state.status = "finished"
    else:
        cell_state.status, cell_state.error = "stopped", state.stopped_by


async def _keep_loading(plan: Plan, stop: asyncio.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOAD_EVERY_S)
        if not stop.is_set():
            # What does not work now is done, or told of, when the sweep ends.
            with contextlib.suppress(DatabaseBusy, duckdb.Error, OSError):
                await asyncio.to_thread(load, plan.paths, wait_seconds=0.2)


async def _run_cells(
    state: SweepState, history: History, journal: Journal, ledger: Ledger, wallet: Account, deadline: float | None
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        exchanges: dict[int, Exchange] = {}
        for model, info in _distinct_models(state):
            users = [cell_state for cell_state in state.cells.values() if _uses(cell_state, model)]
            try:
                connection = await stack.enter_async_context(model.connect())
            except Exception as error:
                # One model that does not start takes its own cells down, and no others.
                for cell_state in users:
                    cell_state.status, cell_state.error = "failed", _said(error)
                continue
            exchange = Exchange(
                info=info,
                connection=connection,
                journal=journal,
                ledger=ledger,
                wallet=wallet,
                sweep_id=state.sweep_id,
                retry=users[0].cell.config.retry,
                tally=state.tally,
                deadline=deadline,
            )
            exchange.remember(history.calls(pool for cell_state in users for pool in cell_state.cell.draw.all_pools))
            exchanges[id(model)] = exchange
        classes: dict[str, AnswerClasses] = {}
        work = _ordered(state, history, exchanges)
        # Twice as many workers as calls in flight, since some wait for draws that others have dispatched.
        workers = sum(exchange.info.max_concurrency * (1 if exchange.info.one_by_one else 2) for exchange in exchanges.values())
        tasks = [asyncio.create_task(_worker(work, state, history, journal, ledger, classes)) for _ in range(max(1, workers))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _uses(cell_state: CellState, model: Model) -> bool:
    return any(model is one for one in cell_state.cell.models)


def _distinct_models(state: SweepState) -> Iterable[tuple[Any, ModelInfo]]:
    models = {id(model): model for cell_state in state.cells.values() if cell_state.left for model in cell_state.cell.models}
    return [(model, model.info) for model in models.values()]


def _ordered(state: SweepState, history: History, exchanges: dict[int, Exchange]) -> Iterator[_Work]:
    """Work in an order that lets cells share: draws within a pool, and the prompt's cache within a question.

    All cells of a pool meet at one problem, then at the next, so that they find each other's draws. Where a model's
    requests about one question should follow each other, one worker does them all.
    """
    groups: dict[tuple[int, str], list[CellState]] = defaultdict(list)
    for cell_state in state.cells.values():
        if cell_state.status == "running" and cell_state.left:
            cell, exchange = cell_state.cell, exchanges[id(cell_state.cell.model)]
            groups[id(cell.model), "" if exchange.info.one_by_one else cell.draw.pool].append(cell_state)
    for group in groups.values():
        exchange = exchanges[id(group[0].cell.model)]
        problems = {problem.problem_id: problem for cell_state in group for problem in cell_state.cell.problems}
        asked = {cell_state.cell.cell_id: {problem.problem_id for problem in cell_state.cell.problems} for cell_state in group}
        for problem_id, problem in problems.items():
            open_states = tuple(
                cell_state
                for cell_state in group
                if problem_id in asked[cell_state.cell.cell_id] and problem_id not in history.solved[cell_state.cell.cell_id]
            )
            if exchange.info.one_by_one:
                yield _Work(problem, open_states, exchange, exchanges)
            else:
                yield from (_Work(problem, (cell_state,), exchange, exchanges) for cell_state in open_states)


async def _worker(
    work: Iterator[_Work], state: SweepState, history: History, journal: Journal, ledger: Ledger, classes: dict[str, AnswerClasses]
) -> None:
    for item in work:
        known = history.classes.get(item.problem.problem_id, ())
        shared = classes.setdefault(item.problem.problem_id, AnswerClasses(item.problem.contract, known))
        for cell_state in item.states:
            # A cell that has failed meanwhile is not worked on any more.
            if cell_state.status != "running":
                continue
            try:
                await _solve(cell_state, item, journal, ledger, shared)
            except (SweepLimitReached, JournalFailed) as limit:
                # Calls in flight are paid for and go on; what still fits may be finished.
                state.stopped_by = str(limit)
                return
            except Exception as error:
                # A defect of one strategy, or usage beyond its cap, is that cell's end and no other's.
                cell_state.status, cell_state.error = "failed", _said(error)


async def _solve(cell_state: CellState, item: _Work, journal: Journal, ledger: Ledger, classes: AnswerClasses) -> None:
    cell, problem = cell_state.cell, item.problem
    session = Session(
        question=problem.question(),
        config=cell.draw,
        exchange=item.exchange,
        verifier=None if cell.verifier_model is None else item.exchanges[id(cell.verifier_model)],
        larger=None if cell.larger_model is None else item.exchanges[id(cell.larger_model)],
        ledger=ledger,
        problem=Account(Scope.PROBLEM, cell.config.limits.problem),
        cell=cell_state.account,
        classes=classes,
    )
    failure: Exception | None = None
    try:
        solution = await cell.config.strategy.solve(session)
    except (DrawFailed, OverReservation) as error:
        failure, solution = error, session.failed(str(error))
    grades = await grade(problem, solution, run_code=cell.config.allow_code_execution)
    journal.note(rows.solved(cell.cell_id, problem.problem_id, solution, session, grades))
    cell_state.left -= 1
    cell_state.done += 1
    cell_state.errors += solution.stop_reason is StopReason.ERROR
    cell_state.first_error = cell_state.first_error or (None if failure is None else str(failure)[:200])
    if isinstance(failure, OverReservation) or (isinstance(failure, DrawFailed) and failure.kind in FATAL_KINDS):
        raise failure


def _said(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    # For a defect, where it is; what we raise ourselves says it.
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames and not isinstance(error, _OURS) else ""
    return f"{type(error).__name__}: {error}{where}"[:500]
