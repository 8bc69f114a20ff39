"""Asking for the scores that are missing: every call through an exchange with a ledger of its own, every score on disk before it counts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import duckdb

from ttc_eval import prices
from ttc_eval.asking import score_request
from ttc_eval.errors import UserError
from ttc_eval.exchange import Exchange, SweepLimitReached, Tally
from ttc_eval.forcing import Segment
from ttc_eval.ledger import Account, Ledger, Scope
from ttc_eval.models.base import ModelInfo
from ttc_eval.protocol.verifier_score import read_reply
from ttc_eval.records import Amounts
from ttc_eval.store import Journal, JournalFailed, load, reading
from ttc_eval.store.loader import DatabaseBusy
from ttc_eval.store.lock import only_here
from ttc_eval.sweep.history import History, billed, fresh_id, unfinished
from ttc_eval.sweep.rows import git_revision, versions
from ttc_eval.sweep.runner import FATAL_KINDS
from ttc_eval.verifiers import Reading
from ttc_eval.verify.job import Job
from ttc_eval.verify.traces import Place, Trace, stored_problems, unscored

_LOOK_AGAIN_S = 2.0


@dataclass(slots=True)
class Progress:
    """How far a run is: what the display shows and the summary is made from."""

    job: Job
    sweep_id: str
    tally: Tally = field(default_factory=Tally)
    valid: int = 0
    total: float = 0.0
    invalid: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    first_error: str | None = None
    stopped_by: str | None = None
    failed: str | None = None
    waiting: bool = False
    started: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)

    @property
    def scored(self) -> int:
        """Traces that got a score, or a reply that is none."""
        return self.valid + sum(self.invalid.values())

    @property
    def halted(self) -> bool:
        """Whether nothing new is begun: a limit was met, or every other call would fail as one did."""
        return self.stopped_by is not None or self.failed is not None

    @property
    def status(self) -> str:
        """`stopped` by a limit or by the user, `failed` when a call came to nothing, else `finished`."""
        if self.stopped_by is not None:
            return "stopped"
        return "failed" if self.failed or self.errors else "finished"


def _silent(_: str) -> None:
    """Say nothing."""


async def run(
    job: Job, watch: Callable[[Progress], AbstractContextManager[object]], *, follow: bool = False, say: Callable[[str], None] = _silent
) -> Progress:
    """Score every trace of the study that has no score of this verifier yet, and load the scores into its database.

    Args:
        watch: opens the progress display for the time of the run.
        follow: go on looking for new traces while a sweep of the study is running.
        say: told at once what the run waits for.

    Cancelling the task stops cleanly: what was received is kept, and the same command goes on from there.

    Raises `UserError` when the same job is running elsewhere, or the database is open in another process.
    """
    await _load(job, say)
    with only_here(job.paths.journals, f"verify-{job.hash}"):
        with reading(job.paths.database) as connection:
            found = unfinished(connection, job.hash)
            sweep_id, started_at = found or (fresh_id(), time.time())
            spent = billed(connection, sweep_id) if found else Amounts()
        progress = Progress(job, sweep_id)
        wallet, limit = Account(Scope.SWEEP, job.limits, spent), job.limits.wall_seconds
        deadline = None if limit is None else time.monotonic() + limit
        info = job.model.info
        if info.price.model is not None and info.price.own is None and not prices.has_price(info.price):
            progress.notes.append(f"model.price.model={info.price.model}: the price book does not list it; cost is unknown")
        async with Journal(job.paths.journals) as journal:
            await journal.append({"sweeps": [_row(job, progress, started_at, "running")]})
            try:
                with watch(progress):
                    async with job.model.connect() as connection_to_judge:
                        exchange = Exchange(
                            info=info,
                            connection=connection_to_judge,
                            journal=journal,
                            ledger=Ledger(),
                            wallet=wallet,
                            sweep_id=sweep_id,
                            retry=job.retry,
                            tally=progress.tally,
                            deadline=deadline,
                        )
                        exchange.remember(History(job.paths, sweep_id).calls([job.pool]))
                        await _score_all(job, progress, exchange, journal, follow)
            except asyncio.CancelledError:
                progress.stopped_by = "interrupted"
            finally:
                with contextlib.suppress(JournalFailed):
                    await journal.append({"sweeps": [_row(job, progress, started_at, progress.status)]})
    try:
        await asyncio.to_thread(load, job.paths, on_wait=say)
    except (DatabaseBusy, duckdb.Error, OSError) as error:
        progress.notes.append(
            f"{str(error).splitlines()[0]}: the scores are safe in {job.paths.journals} and are loaded when it is next read"
        )
    return progress


async def _load(job: Job, say: Callable[[str], None]) -> None:
    try:
        await asyncio.to_thread(load, job.paths, on_wait=say)
    except (duckdb.Error, OSError) as error:
        raise UserError(f"{job.paths.database} cannot be written: {str(error).splitlines()[0][:200]}") from None
    except DatabaseBusy as busy:
        raise UserError(f"{busy}; close it there and run again") from None


async def _score_all(job: Job, progress: Progress, exchange: Exchange, journal: Journal, follow: bool) -> None:
    seen: set[str] = set()
    while not progress.halted:
        before = len(seen)
        await _one_round(job, progress, exchange, journal, seen)
        if progress.halted:
            return
        if len(seen) == before:
            if not (follow and await asyncio.to_thread(_sweep_is_running, job)):
                return
            progress.waiting = True
            await asyncio.sleep(_LOOK_AGAIN_S)
            progress.waiting = False
        # A sweep beside this run has stored more meanwhile; while it has the file, what is not loaded yet is found the next time.
        with contextlib.suppress(DatabaseBusy, duckdb.Error, OSError):
            await asyncio.to_thread(load, job.paths, wait_seconds=5.0)


async def _one_round(job: Job, progress: Progress, exchange: Exchange, journal: Journal, seen: set[str]) -> None:
    """Go through the stored texts once, a page at a time. What has been `seen` in this run is not asked for again."""
    problems = await asyncio.to_thread(stored_problems, job.paths.database)
    questions = {problem.messages: problem.question() for problem in problems}
    place: Place | None = Place()
    while place is not None and not progress.halted:
        page, place = await asyncio.to_thread(unscored, job.paths.database, job.label, job.what, questions, place)
        traces = [trace for trace in page if trace.call_id not in seen]
        seen.update(trace.call_id for trace in traces)
        left = iter(traces)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(exchange.info.max_concurrency, len(traces))):
                group.create_task(_worker(job, progress, exchange, journal, left))


async def _worker(job: Job, progress: Progress, exchange: Exchange, journal: Journal, traces: Iterator[Trace]) -> None:
    for trace in traces:
        # Calls in flight are paid for and go on; nothing new is begun.
        if progress.halted:
            return
        try:
            await _score(job, progress, exchange, journal, trace)
        except (SweepLimitReached, JournalFailed) as limit:
            progress.stopped_by = str(limit)


async def _score(job: Job, progress: Progress, exchange: Exchange, journal: Journal, trace: Trace) -> None:
    request = score_request(job.verifier, exchange.info, trace.question, trace.text, trace.thinking, seed=job.seed)
    attempts = await exchange.fetch(Segment(request), job.pool, lambda: None)
    last = attempts[-1]
    if last.response is None:
        said = f"{last.row['error_kind']}: {last.row['error']}"
        progress.errors += 1
        progress.first_error = progress.first_error or said
        if last.row["error_kind"] in (*FATAL_KINDS, "over_reservation"):
            progress.failed = said
        return
    reply = last.response
    found = Reading(None, problem="truncated")
    if reply.complete:
        found = read_reply(reply.text, trace.trace_id, trace.text, job.verifier.read(reply.text))
    await journal.append({"trace_scores": [_score_row(job, trace, found, exchange.info, last.row["call_id"])]})
    if found.score is None:
        progress.invalid[found.problem or "invalid"] += 1
    else:
        progress.valid += 1
        progress.total += found.score


def _score_row(job: Job, trace: Trace, found: Reading, info: ModelInfo, judge_call_id: str) -> dict[str, Any]:
    """A row of `trace_scores`."""
    return {
        "trace_id": trace.trace_id,
        "call_id": trace.call_id,
        "verifier": job.label,
        "kind": job.verifier.kind.value,
        "what": job.what.value,
        "score": found.score,
        "valid": found.score is not None,
        "reason": found.problem,
        "steps": list(found.steps) or None,
        "rationale": found.rationale,
        "source": "asked",
        "model": info.name,
        "judge_call_id": judge_call_id,
        "scored_at": time.time(),
    }


def _sweep_is_running(job: Job) -> bool:
    query = "SELECT count(*) FROM sweeps WHERE status = 'running' AND json_array_length(cell_ids) > 0"
    with reading(job.paths.database) as connection:
        found = connection.execute(query).fetchone()
    return found is not None and found[0] > 0


def _row(job: Job, progress: Progress, started_at: float, status: str) -> dict[str, Any]:
    return {
        "sweep_id": progress.sweep_id,
        "study": job.paths.study,
        "status": status,
        "started_at": started_at,
        "ended_at": None if status == "running" else time.time(),
        "overrides": ["verify", f"what={job.what.value}", *job.overrides],
        # It judges what cells have made, and has none of its own.
        "cell_ids": [],
        "limits": {**job.limits_given, "sweep_hash": job.hash},
        "git_revision": git_revision(),
        "versions": versions(),
        "price_version": prices.book_version(),
        "host": socket.gethostname(),
        "error": progress.failed or progress.stopped_by or progress.first_error,
    }
