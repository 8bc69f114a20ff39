"""A sweep as a user runs it, in this process, with its study."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str
    path: Path

    @property
    def study(self) -> Study:
        return open_study(self.path)

    def one(self, query: str) -> dict[str, Any]:
        rows = self.study.sql(query).to_dict("records")
        assert len(rows) == 1, rows
        return {str(key): value for key, value in rows[0].items()}


Sweep = Callable[..., Outcome]


@pytest.fixture
def sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweep:
    def run(*arguments: str, study: str = "t") -> Outcome:
        code = main([f"results_dir={tmp_path}", f"study={study}", *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path / f"{study}.duckdb")

    return run


Spawn = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts sweeps as processes of their own; whatever still runs when the test ends, ends with it."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ttc_eval.sweep", *arguments, f"results_dir={folder}", "study=s"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
