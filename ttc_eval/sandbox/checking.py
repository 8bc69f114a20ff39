"""Runs a program against tests: two sandboxes, one with the program, one with the tests, and a pipe for the calls between them.

The verdict comes from the process of the tests, by a pipe that the program does not have; see docs/sandbox.md for what that guarantees.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from ttc_eval.records import digest
from ttc_eval.sandbox.base import Limits, Running, Sandbox, SandboxFailed

_MOST_VERDICT = 1 << 22
_MOST_WHY = 300
_MOST_KEPT = 20_000
_START_S = 20.0
_LOOK_S = 0.1
OUT_OF_TIME = "the time of the run is used up"
ENDED = "the process of the tests ended before its verdict"
OVERFULL = "it keeps more files than it may"


@dataclass(frozen=True, slots=True)
class Job:
    """A program, the function of it that is asked for, and the tests that ask.

    A test is Python that raises unless the program is right; it knows the function as `candidate` and by its name, and what `preamble`
    defines. Each test runs on its own.
    """

    program: str
    entry_point: str
    tests: tuple[str, ...]
    preamble: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one test. `why` says why it failed; it may quote the program, and is data."""

    passed: bool
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of each test, in their order."""

    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether there was a test, and all were passed."""
        return bool(self.outcomes) and all(outcome.passed for outcome in self.outcomes)

    @property
    def why(self) -> str | None:
        """Why the first test that failed did."""
        return next((outcome.why for outcome in self.outcomes if not outcome.passed), None)


def run(job: Job, sandbox: Sandbox, limits: Limits) -> Verdict:
    """Run `job` and wait for it. When it returns, no process of it is left.

    Raises `SandboxFailed` when the sandbox, and not the program, is why there is no verdict.
    """
    shared: dict[str, object] = {"entry_point": job.entry_point}
    candidate = {**shared, "program": job.program, "load_seconds": limits.test_seconds}
    tester = {**shared, "tests": job.tests, "preamble": job.preamble, **_of_the_tester(limits)}
    running: list[Running] = []
    complaints: list[str] = []
    asked, asks = os.pipe()
    answered, answers = os.pipe()
    told, tells = os.pipe()
    ours = [asked, asks, answered, answers, tells]
    try:
        running.append(sandbox.start("candidate", candidate, (asked, answers), limits))
        running.append(sandbox.start("tester", tester, (asks, answered, tells), limits))
        while ours:
            os.close(ours.pop())
        lines, ended = _lines(told, len(job.tests) + 2, limits.wall_seconds, running)
    finally:
        for descriptor in (*ours, told):
            os.close(descriptor)
        with contextlib.ExitStack() as stack:
            for one in running:
                stack.callback(_stop, one, complaints)
    return _verdict(lines, job, ended, next((text for text in complaints if text), ""))


def _stop(running: Running, complaints: list[str]) -> None:
    complaints.append(running.stop())


def _of_the_tester(limits: Limits) -> dict[str, object]:
    return {name: value for name, value in asdict(limits).items() if name in ("test_seconds", "wall_seconds", "reply_bytes")}


def _lines(told: int, wanted: int, wall_seconds: float, running: Sequence[Running]) -> tuple[list[bytes], str]:
    """The lines of the tester, those that are wanted or fewer when it ends before, takes too long or says too much; and why fewer.

    The time of the run counts from when both processes have started.
    """
    said = bytearray()
    poller = select.poll()
    poller.register(told, select.POLLIN)
    deadline, started = time.monotonic() + _START_S, False
    ended = OUT_OF_TIME
    while (left := deadline - time.monotonic()) > 0 and len(said) <= _MOST_VERDICT and said.count(b"\n") < wanted:
        if started and any(one.overfull() for one in running):
            ended = OVERFULL
            break
        if not poller.poll(min(left, _LOOK_S) * 1000):
            continue
        chunk = os.read(told, 65536)
        if not chunk:
            ended = ENDED
            break
        said += chunk
        if not started and said.count(b"\n") >= 2:
            deadline, started = time.monotonic() + wall_seconds, True
    return bytes(said).split(b"\n")[:-1], ended


def _verdict(lines: Sequence[bytes], job: Job, ended: str, complaint: str) -> Verdict:
    if len(lines) < 2:
        who = "the tests" if not lines else "the program"
        raise SandboxFailed(f"the process of {who} did not start" + (f": {complaint.splitlines()[0][:200]}" if complaint else ""))
    outcomes = [_outcome(line) for line in lines[2:][: len(job.tests)]]
    return Verdict((*outcomes, *(Outcome(False, ended) for _ in job.tests[len(outcomes) :])))


def _outcome(line: bytes) -> Outcome:
    """What a line of the tester says. Tests that a model wrote run beside it, and may have written the line themselves."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return Outcome(False, "the tests wrote over their verdict")
    why = said.get("why")
    # Half of a surrogate pair is no text that can be stored, and a line break or an escape none that can be shown.
    shown = (
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in why[:_MOST_WHY])
        if isinstance(why, str)
        else None
    )
    return Outcome(said.get("passed") is True, shown)


class Checker:
    """Runs jobs side by side, as many as there are cores, and each only once. Thread-safe."""

    def __init__(self, sandbox: Sandbox, workers: int | None = None) -> None:
        self._sandbox = sandbox
        self._pool = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)), thread_name_prefix="sandbox")
        self._known: OrderedDict[str, Verdict] = OrderedDict()
        self._lock = threading.Lock()

    async def check(self, job: Job, limits: Limits) -> Verdict:
        """The verdict on `job`, from this process's memory where it has been asked for before. Raises as `run` does."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.check_now, job, limits)

    def check_now(self, job: Job, limits: Limits) -> Verdict:
        """`check` for a thread that can wait."""
        key = digest([asdict(job), asdict(limits)])
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        verdict = run(job, self._sandbox, limits)
        with self._lock:
            self._known[key] = verdict
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return verdict
