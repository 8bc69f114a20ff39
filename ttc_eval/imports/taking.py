"""Taking samples in: files become calls, candidates, grades and cells of a study, as if a sweep had made them.

Everything is written beside the study first and becomes part of it in one step, so that a file with a mistake leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.imports.calls import call_rows
from ttc_eval.imports.cells import cell_lines
from ttc_eval.imports.classing import Verdicts
from ttc_eval.imports.opened import OpenFile, opened, problem_of, system_of
from ttc_eval.imports.reading import source_file
from ttc_eval.imports.samples import Options
from ttc_eval.imports.scales import scale_for
from ttc_eval.records import digest
from ttc_eval.replay.solving import Line
from ttc_eval.store import Journal, StudyPaths, reading
from ttc_eval.store.staging import append_all, staged
from ttc_eval.sweep.history import fresh_id

_ROWS_A_LINE = 50


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of one file. `earlier`: it was taken in before with the same options, and nothing was done."""

    name: str
    earlier: bool
    samples: int = 0
    problems: int = 0
    systems: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def take_in(format_name: str, paths: Sequence[Path], study: StudyPaths, options: Options) -> list[Taken]:
    """Take files of one format into a study, each of them once.

    Raises `UserError` for a file that cannot be read as that format, naming the place; nothing of any file is taken in then.
    """
    sources = [source_file(path) for path in paths]
    known, verdicts = _stored(study)
    sweep_id, taken, files = fresh_id(), [], []
    with staged(study) as folder:
        async with Journal(folder) as journal:
            for source in sources:
                import_id = digest([format_name, source.sha256, asdict(options)])[:16]
                if import_id in known:
                    taken.append(Taken(source.path.name, earlier=True))
                    continue
                known.add(import_id)
                file = opened(format_name, import_id, source, options, verdicts)
                await append_all(journal, _read(file, sweep_id))
                files.append(file)
                taken.append(_told(file))
            if files:
                await append_all(journal, cell_lines(files, study, sweep_id, format_name, options, verdicts))
    return taken


def _stored(study: StudyPaths) -> tuple[set[str], Verdicts]:
    """The imports and the verdicts that a study holds."""
    if not study.database.exists():
        return set(), Verdicts()
    verdicts = Verdicts()
    with reading(study.database) as connection:
        known = {row[0] for row in connection.execute("SELECT import_id FROM imports").fetchall()}
        for problem_id, name, correct in connection.execute("SELECT problem_id, answer_class, correct FROM grades").fetchall():
            verdicts.of(problem_id)[name] = correct
    return known, verdicts


async def _read(file: OpenFile, sweep_id: str) -> AsyncIterator[Line]:
    """The calls of a file as lines of a journal; what its cells need is kept."""
    waiting: list[dict[str, Any]] = []
    for sample in file.contents.samples:
        problem = problem_of(file, sample)
        system = system_of(file, sample, problem)
        waiting += call_rows(file, system, problem, sample, sweep_id)
        if len(waiting) >= _ROWS_A_LINE:
            yield {"calls": waiting}
            waiting = []
    if waiting:
        yield {"calls": waiting}
    if not file.samples:
        raise UserError(f"{file.source.path.name}: there is no sample in it")
    for system in file.systems.values():
        for problem_id, placed in system.placed.items():
            missing = sorted(set(range(len(placed))) - set(placed))
            if missing:
                raise UserError(f"{file.source.path.name}: problem {problem_id} has no draw {missing[0]}, and has draw {max(placed)}")


def _told(file: OpenFile) -> Taken:
    tally = file.contents.tally
    file.notes += [f"{said}: {count}" for said, count in tally.notes.items()]
    file.notes += file.classing.notes()
    if tally.ignored:
        file.notes.append("fields that were not used: " + ", ".join(f"{name} ({count})" for name, count in sorted(tally.ignored.items())))
    counts = {len(placed) for system in file.systems.values() for placed in system.placed.values()}
    if len(counts) > 1:
        file.notes.append(f"problems have from {min(counts)} to {max(counts)} draws")
    for name, values in sorted(file.values.items()):
        file.scales[name], said = scale_for(name, values)
        file.notes += [said] if said else []
    return Taken(
        name=file.source.path.name,
        earlier=False,
        samples=file.samples,
        problems=len(file.problems),
        systems=tuple(dict.fromkeys(system.name for system in file.systems.values())),
        scores=tuple(sorted(file.values)),
        notes=tuple(file.notes),
    )
