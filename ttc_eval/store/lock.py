"""One live process a sweep: who runs it holds a lock that the system frees however the process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ttc_eval.errors import UserError


@contextmanager
def only_here(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock `name` in `folder` while the context lasts. Raises `UserError` when another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise UserError(f"this sweep is running already, in process {holder}; wait for it, or give another study") from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)
