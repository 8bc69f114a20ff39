"""`ttc-eval verify`: score the traces that a study has stored, or take in scores made elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ttc_eval import prices
from ttc_eval.commands.studies import take_options_anywhere
from ttc_eval.errors import UserError
from ttc_eval.store import StudyPaths, load, reading
from ttc_eval.sweep.summary import output_console
from ttc_eval.verify import Job, Progress, What, compose, give_out, lines_of, prepare, stored_problems, study_paths, take_in
from ttc_eval.verify import run as run_job

_PLAIN_EVERY_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Score the traces that a study has stored and that the verifier has not scored yet; beside a running sweep or later. "
        "Keys as in a sweep: model=…, verifier=trace|outcome, what=thinking|answer, limits.sweep.usd=…, seed=…, retry.max_attempts=…"
    )
    parser.add_argument("database", type=Path, help="the study's DuckDB file, or its name in results/")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="for example model=simulated verifier=trace limits.sweep.calls=100"
    )
    parser.add_argument("--config-dir", type=Path, default=None, help="a folder of your own configs")
    parser.add_argument("--as", dest="name", default=None, help="the verifier's name in the store (default: its own and the judge's)")
    parser.add_argument("--follow", action="store_true", help="go on while a sweep of the study is running")
    parser.add_argument(
        "--import", dest="source", type=Path, default=None, help="take in TTC-v2 verifier objects, one a line; asks no model"
    )
    parser.add_argument(
        "--export", dest="target", type=Path, default=None, help="write the verifier's valid scores as such objects, at the end"
    )
    take_options_anywhere(parser)


def run(options: argparse.Namespace) -> int:
    """Score, or import, and say what came of it.

    Returns 0 when every trace has a score or a reply that is none; 1 when a call came to nothing, an object was refused, or a limit
    stopped the run; 130 when it was interrupted.
    """
    console, paths = output_console(), study_paths(options.database)
    load(paths, wait_seconds=60.0)
    if options.source is not None:
        return _import(options, paths, console)
    config = compose(options.overrides, options.config_dir)
    job = prepare(config, paths, stored_problems(paths.database), options.overrides, options.name)
    try:
        progress = asyncio.run(_run(job, options.follow, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    _tell(progress, console)
    if options.target is not None:
        _export(paths, options.target, job.label, job.what, console)
    if progress.stopped_by == "interrupted":
        return 130
    return 0 if progress.status == "finished" else 1


async def _run(job: Job, follow: bool, console: Console) -> Progress:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # The first signal stops cleanly; a second one is the system's own again.
        loop.add_signal_handler(number, lambda number=number: (loop.remove_signal_handler(number), task.cancel()))  # type: ignore[misc]
    return await run_job(job, lambda progress: _watching(progress, console), follow=follow, say=console.print)


@contextlib.contextmanager
def _watching(progress: Progress, console: Console) -> Iterator[None]:
    if console.is_terminal:
        with Live(get_renderable=lambda: Text(_headline(progress)), console=console, refresh_per_second=4, transient=True):
            yield
        return

    async def tell() -> None:
        while True:
            await asyncio.sleep(_PLAIN_EVERY_S)
            console.print(_headline(progress), highlight=False, soft_wrap=True)

    teller = asyncio.get_running_loop().create_task(tell())
    try:
        yield
    finally:
        teller.cancel()


def _headline(progress: Progress) -> str:
    """One line: traces, calls in flight, tokens, USD against the limit, what went wrong."""
    tally, elapsed, limit = progress.tally, time.monotonic() - progress.started, progress.job.limits.usd
    invalid = sum(progress.invalid.values())
    parts = [
        f"{progress.scored} traces scored ({progress.scored / elapsed:.1f}/s)" if elapsed > 0 else "",
        f"{invalid} invalid" if invalid else "",
        f"{tally.in_flight} in flight",
        f"{tally.calls} calls",
        f"{tally.output_tokens} output tokens",
        f"${tally.usd:.4f}" + (f" of ${limit}" if limit is not None else "") if tally.usd or limit is not None else "",
        f"{progress.errors} errors" if progress.errors else "",
        "waiting for the sweep" if progress.waiting else "",
    ]
    return " · ".join(part for part in parts if part)


def _tell(progress: Progress, console: Console) -> None:
    job, tally = progress.job, progress.tally
    if job.model.info.simulated:
        _line(console, "Simulated: these scores were invented, see docs/models.md.", "bold yellow")
    if not progress.scored and not progress.errors and not progress.halted:
        _line(console, f"Nothing to score: no stored {job.what.value} is without a score of {job.label}.")
    else:
        mean = f", mean {progress.total / progress.valid:.3f}" if progress.valid else ""
        _line(console, f"{job.label}, {job.what.value}: {progress.valid} traces scored{mean}; {_said(progress)}")
    usd = f"${tally.usd:.6f}" if prices.has_price(job.model.info.price) else "no price"
    _line(
        console,
        f"this run: {tally.calls} calls, {tally.reused} reused, {tally.output_tokens} output tokens, {usd}; study: {job.paths.database}",
    )
    for row in _by_grade(progress):
        _line(console, row)
    if progress.errors:
        _line(console, f"{progress.errors} traces without a score, for example: {progress.first_error}; run again to try them again", "red")
    if progress.stopped_by is not None:
        how = "The same command" if progress.stopped_by == "interrupted" else "The same command with a higher limit"
        _line(console, f"Stopped: {progress.stopped_by}. {how} goes on from here.", "yellow")
    for note in progress.notes:
        _line(console, note, "yellow")


def _said(progress: Progress) -> str:
    if not progress.invalid:
        return "no invalid reply"
    reasons = ", ".join(f"{reason} {count}" for reason, count in progress.invalid.most_common())
    return f"{sum(progress.invalid.values())} invalid replies ({reasons})"


def _by_grade(progress: Progress) -> list[str]:
    """How the verifier's scores differ between right and wrong candidates; nothing where none of them is graded."""
    if not progress.job.paths.database.exists():
        return []
    query = """SELECT correct, count(*), avg(score) FROM verifier_scores WHERE verifier = ? AND what = ? AND valid AND complete
               GROUP BY correct ORDER BY correct DESC"""
    with contextlib.suppress(UserError), reading(progress.job.paths.database) as connection:
        rows = connection.execute(query, [progress.job.label, progress.job.what.value]).fetchall()
        parts = [f"{'right' if correct else 'wrong'} candidates {mean:.3f} (of {count})" for correct, count, mean in rows]
        return [f"mean score of all it has scored: {', '.join(parts)}"] if parts else []
    return []


def _import(options: argparse.Namespace, paths: StudyPaths, console: Console) -> int:
    keys = [one for one in options.overrides if not one.startswith("what=")]
    if keys:
        raise UserError(f"{keys[0]}: --import asks no model and takes no such key; give what=thinking or what=answer")
    given = [one.partition("=")[2] for one in options.overrides]
    if given and given[-1] not in tuple(What):
        raise UserError(f"what={given[-1]}: give one of: {', '.join(What)}")
    what, name = What(given[-1]) if given else What.THINKING, options.name or "imported"
    taken = asyncio.run(take_in(paths, options.source, name, what))
    load(paths, wait_seconds=60.0)
    _line(console, f"{options.source}: {taken.accepted} scores of {name} taken in, {len(taken.refused)} refused; study: {paths.database}")
    for line in lines_of(taken.refused):
        _line(console, line, "yellow")
    if options.target is not None:
        _export(paths, options.target, name, what, console)
    return 1 if taken.refused else 0


def _export(paths: StudyPaths, target: Path, name: str, what: What, console: Console) -> None:
    written = give_out(paths, target, name, what)
    _line(console, f"{target}: {written} verifier objects of {name}")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
