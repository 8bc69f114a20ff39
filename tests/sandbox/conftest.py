"""The sandbox of this machine, or none: then these tests skip, except in CI, which installs it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ttc_eval.sandbox import Job, Limits, Sandbox, Verdict, find, run

SMALL = Limits(cpu_seconds=2, wall_seconds=8, test_seconds=2, memory_mb=200, processes=4, disk_mb=4)
"""Limits that an attack meets soon."""


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    found = find()
    if found.sandbox is None and os.environ.get("CI") is None:
        pytest.skip(f"no sandbox: {found.said}")
    assert found.sandbox is not None, found.said
    return found.sandbox


@dataclass
class Watched:
    """A sandbox that notes the process namespaces of all that it starts, and keeps them: numbers are given out again."""

    sandbox: Sandbox
    name: str = "watched"
    held: list[int] = field(default_factory=list)

    def start(self, part: Any, task: Any, descriptors: Sequence[int], limits: Limits) -> Any:
        running: Any = self.sandbox.start(part, task, descriptors, limits)
        self.held.append(os.open(f"/proc/{running.pid}/ns/pid", os.O_RDONLY))
        return running

    @property
    def namespaces(self) -> set[int]:
        """Their numbers."""
        return {os.fstat(descriptor).st_ino for descriptor in self.held}

    def left(self) -> list[str]:
        """Every process that is in one of them and not dead."""
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return [f"{pid} {stat(pid)}" for pid in pids if namespace(pid) in self.namespaces and stat(pid)[-1:] not in ("Z", "X", "")]

    def close(self) -> None:
        for descriptor in self.held:
            os.close(descriptor)


def namespace(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None


def stat(pid: int) -> str:
    """The name of a process and its state; empty when it has gone."""
    try:
        return " ".join(Path(f"/proc/{pid}/stat").read_text().split()[1:3])
    except OSError:
        return ""


Ran = Callable[..., Verdict]


@pytest.fixture
def ran(sandbox: Sandbox) -> Ran:
    """Runs a program against tests, and sees to it that no process of the run is left."""

    def check(program: str, *tests: str, entry_point: str = "f", limits: Limits = SMALL, preamble: str = "") -> Verdict:
        watched = Watched(sandbox)
        with contextlib.closing(watched):
            verdict = run(Job(program, entry_point, tests, preamble), watched, limits)
            assert len(watched.namespaces) == 2, "the program and its tests are apart"
            assert namespace(os.getpid()) not in watched.namespaces
            assert watched.left() == []
        return verdict

    return check
