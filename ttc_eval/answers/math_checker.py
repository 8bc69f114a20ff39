"""Asks math-verify, in a child process that can be killed, what this package's own reading leaves undecided.

Computer algebra hangs on some inputs and reads others wrongly, so it never runs in this process and never in a
thread; a child that does not answer in time is killed and the next question starts a new one. Whatever goes wrong
means "not shown equal" and is counted in `outcomes`. A question is put only when both sides pass `is_safe`: the
libraries behind it evaluate text, and a model's text is data.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import re
import select
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from typing import Literal

_log = logging.getLogger(__name__)

Outcome = Literal["equal", "different", "timeout", "crash", "refused", "unavailable"]

_MAX_QUESTION = 600
_START_LIMIT = 60.0
_SAFE = re.compile(r"[0-9A-Za-z+\-*/^_=<>(){}\[\]|,.!:;&\\ %]+")
_UNSAFE = re.compile(
    r"__|[A-Za-z_)\]]\s*\.\s*[A-Za-z_]|\.\s*[A-Za-z_]{2}|\\(?:input|include|write|read|open|def|let|csname|catcode)(?![A-Za-z])"
)
_WORD = re.compile(r"\\?[A-Za-z]+")
_PLAIN_WORDS = frozenset(
    (
        "sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "pi", "pmatrix", "bmatrix", "vmatrix", "matrix",
        "array", "cases", "aligned", "infinity",
    )
)  # fmt: skip


def is_safe(text: str) -> bool:
    """Whether a text may be shown to the symbolic parser: known characters, no attribute access, no plain word that is not a function."""
    if not 0 < len(text) <= _MAX_QUESTION or not _SAFE.fullmatch(text) or _UNSAFE.search(text):
        return False
    return all(word[0] == "\\" or len(word) <= 3 or word in _PLAIN_WORDS for word in _WORD.findall(text))


class MathChecker:
    """A few child processes that compare formulas. Thread-safe; children start on first use and die with this process.

    Args:
        time_limit: seconds for one question, after which its child is killed.
        workers: most children at a time; further questions wait.
        memory_mb: address space of a child (RLIMIT_AS).
    """

    def __init__(self, *, time_limit: float = 3.0, workers: int = 1, memory_mb: int = 2048) -> None:
        self.time_limit = time_limit
        self.outcomes: Counter[Outcome] = Counter()
        self._slots: queue.LifoQueue[_Child] = queue.LifoQueue()
        self._children = [_Child(memory_mb) for _ in range(workers)]
        self._count_lock = threading.Lock()
        for child in self._children:
            self._slots.put(child)
        _checkers.add(self)

    def equal(self, a: str, b: str, rel_tol: float = 0.0, abs_tol: float = 0.0) -> bool:
        """Whether two formulas are shown to be equal; False for every other outcome. Never raises."""
        return self.ask(a, b, rel_tol, abs_tol) == "equal"

    def ask(self, a: str, b: str, rel_tol: float = 0.0, abs_tol: float = 0.0) -> Outcome:
        """What came of comparing two formulas. The order of the two does not matter."""
        first, second = sorted((a, b))
        outcome: Outcome
        if not (is_safe(first) and is_safe(second)):
            outcome = "refused"
        else:
            question = {"a": first, "b": second, "rel_tol": rel_tol, "abs_tol": abs_tol, "limit": self.time_limit}
            child = self._slots.get()
            try:
                outcome = child.ask(question, self.time_limit)
            finally:
                self._slots.put(child)
        with self._count_lock:
            self.outcomes[outcome] += 1
        if outcome in ("timeout", "crash"):
            _log.warning("math checker: %s on %.80r and %.80r; taken as not equal", outcome, first, second)
        return outcome

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the children that are running."""
        return tuple(child.process.pid for child in self._children if child.process is not None and child.process.poll() is None)

    def close(self) -> None:
        """Ends all children. The checker can be used again and then starts new ones."""
        for child in self._children:
            child.stop()


class _Child:
    """One child process and its pipes. Used by one thread at a time."""

    def __init__(self, memory_mb: int) -> None:
        self.memory_mb = memory_mb
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = 0
        self.unavailable = False

    def ask(self, question: dict[str, object], limit: float) -> Outcome:
        if self.unavailable:
            return "unavailable"
        if not self._running() and not self._start():
            return "unavailable" if self.unavailable else "crash"
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            self.stop()
            return "crash"
        reply = self._read(limit)
        if isinstance(reply, dict) and isinstance(reply.get("equal"), bool):
            return "equal" if reply["equal"] else "different"
        self.stop()
        return "timeout" if reply == "timeout" else "crash"

    def _running(self) -> bool:
        if self.owner != os.getpid():
            self.process = None  # forked: the child belongs to our parent, and so does its pipe
        return self.process is not None and self.process.poll() is None

    def _start(self) -> bool:
        self.stop()
        self.owner = os.getpid()
        command = [sys.executable, "-m", "ttc_eval.answers.math_worker", str(self.memory_mb)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            _log.warning("math checker: cannot start a process: %s", error)
            return False
        reply = self._read(_START_LIMIT)
        if isinstance(reply, dict) and reply.get("ready") is True:
            return True
        if isinstance(reply, dict):
            self.unavailable = True
            _log.warning("math checker: not available, undecided formulas count as different: %s", reply.get("error"))
        self.stop()
        return False

    def _read(self, limit: float) -> object:
        """The next line of the child as JSON; the word `timeout`; None when the child is gone or wrote nonsense."""
        assert self.process is not None and self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN | select.POLLHUP)
        deadline = time.monotonic() + limit
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poller.poll(left * 1000):
                return "timeout"
            chunk = os.read(descriptor, 65536)
            if not chunk or len(line) > 1_000_000:
                return None
            line += chunk
        try:
            return json.loads(line)
        except ValueError:
            return None

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is None or self.owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


_checkers: weakref.WeakSet[MathChecker] = weakref.WeakSet()
_default: MathChecker | None = None
_default_lock = threading.Lock()


def default_checker() -> MathChecker:
    """The checker that this process shares."""
    global _default  # one checker per process, made on first use
    with _default_lock:
        if _default is None:
            _default = MathChecker()
        return _default


@atexit.register
def _close_all() -> None:
    for checker in list(_checkers):
        checker.close()
