"""All or nothing: journals are written beside a study first, and become part of it in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ttc_eval.errors import UserError
from ttc_eval.store.journal import Journal, Rows
from ttc_eval.store.loader import DatabaseBusy, load
from ttc_eval.store.paths import StudyPaths

# So much may wait in memory for the disk.
_LINES_A_FLUSH = 200


@contextmanager
def staged(paths: StudyPaths) -> Iterator[Path]:
    """A folder for journals. When the context ends without an error they are moved to the study and loaded; otherwise nothing is kept.

    Raises `UserError` when the study's folder cannot be written to, or its database stays open elsewhere; the journals are then in
    place, and are loaded when the study is next read.
    """
    folder = paths.database.with_suffix(f".staging-{os.getpid()}")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{folder.parent}: it cannot be written to: {error.strerror}") from None
    try:
        yield folder
        paths.journals.mkdir(parents=True, exist_ok=True)
        for journal in sorted(folder.glob("*.jsonl")):
            if journal.stat().st_size:
                journal.replace(paths.journals / journal.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        load(paths)
    except DatabaseBusy as busy:
        raise UserError(f"{busy}; everything is safe in {paths.journals} and is loaded when the study is next read") from None


async def append_all(journal: Journal, lines: AsyncIterable[Rows]) -> None:
    """Append many lines to a staged journal. None of them counts before all are there, so the disk is waited for now and then only."""
    count = 0
    async for line in lines:
        count += 1
        if count % _LINES_A_FLUSH:
            journal.note(line)
        else:
            await journal.append(line)
