"""The seam of sandboxes: what one must be able to do, and the limits that it must hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ttc_eval.errors import UserError

Part = Literal["candidate", "tester"]


class SandboxFailed(Exception):
    """The sandbox did not do its work: no verdict on the program, which may be right or wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use.

    Attributes:
        cpu_seconds: CPU time of a process, whole seconds.
        wall_seconds: time of the whole run, by the clock on the wall.
        test_seconds: CPU time of one call of the program; a test may take four times that and a second by the clock on the wall.
        memory_mb: address space of a process; processes: how many it may have, threads counted. Their product bounds the memory of all.
        disk_mb: its private file system, in memory; also the size of any one file.
        files: how many files, folders and links it may keep there; counted several times a second.
        open_files: descriptors of a process.
        reply_bytes: the most that it may answer to one call.
    """

    cpu_seconds: int = 4
    wall_seconds: float = 10.0
    test_seconds: float = 4.0
    memory_mb: int = 512
    processes: int = 4
    disk_mb: int = 16
    files: int = 1000
    open_files: int = 32
    reply_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "wall_seconds", "test_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"limits.{name}={getattr(self, name)}: give seconds above 0")
        for name, least in (("memory_mb", 64), ("processes", 2), ("disk_mb", 1), ("files", 1), ("open_files", 16), ("reply_bytes", 1000)):
            if not least <= getattr(self, name) < 2**31:
                raise UserError(f"limits.{name}={getattr(self, name)}: give {least} or more")


class Running(Protocol):
    """A process in its sandbox, for as long as it runs."""

    def overfull(self) -> bool:
        """Whether it keeps more files than it may."""
        ...

    def stop(self) -> str:
        """End it with all that it started, and return when nothing is left. What the sandbox itself complained of."""
        ...


class Sandbox(Protocol):
    """Runs this package's own `inside` scripts, and what they load, where they can reach nothing."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    def start(self, part: Part, task: dict[str, object], descriptors: Sequence[int], limits: Limits) -> Running:
        """Start one part of a run with `task` on its standard input and `descriptors` open, and nothing else of this process.

        Raises `SandboxFailed` when it cannot be started.
        """
        ...
