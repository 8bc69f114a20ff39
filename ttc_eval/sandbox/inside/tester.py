"""The process that holds the tests and gives the verdict. It runs no code of the candidate: its function is asked through a pipe.

So equality is that of plain data here, an `assert` is this process's own, and the verdict leaves by a pipe that the candidate does not
have.
"""

from __future__ import annotations

import builtins
import json
import signal
from typing import Any

from ttc_eval.sandbox.inside.confine import confine, read_line, write_line
from ttc_eval.sandbox.inside.values import NotPlain, dump, load

_GRACE_S = 1.0
_GONE = "the program ended, or used up its time, before it answered"
_LATE = "the time of a test is used up"
# In the middle of a loop these are its regular end: `all(map(test, cases))` would take them for success.
_ENDINGS = (StopIteration, StopAsyncIteration)


class _Gone(BaseException):
    """The candidate's process does not answer any more, or not as it should."""


class _TimeUp(BaseException):
    """The time of a test is used up."""


class _Unanswered(BaseException):
    """A call that brought no value. No test can take it for an exception of the candidate's."""


class CandidateError(Exception):
    """Stands for an exception of the candidate that is none of Python's own."""


def main(requests: int, replies: int, verdicts: int) -> None:
    """Run every test of the task, write its outcome to the pipe `verdicts`, one line each, in order, and wait to be ended."""
    task = confine((requests, replies, verdicts))
    write_line(verdicts, json.dumps({"started": True}))
    program = _Program(requests, replies, task["reply_bytes"], task["test_seconds"])
    signal.signal(signal.SIGALRM, program.time_is_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, task["wall_seconds"])
        if not _flag(program.next_reply(), "started"):
            return
        write_line(verdicts, json.dumps({"candidate_started": True}))
        loaded = program.next_reply()
        why = None if _flag(loaded, "loaded") else str(loaded.get("why"))[:200]
    except (_Gone, _TimeUp):
        why = _GONE
    scope = {} if why else _scope(task["preamble"])
    for test in task["tests"]:
        why = why or program.gone
        said = why or _outcome(test, dict(scope), program, task["entry_point"])
        write_line(verdicts, json.dumps({"passed": said is None, "why": said}))
    while True:
        signal.pause()  # one that is ended from outside is also cleared away from there


def _flag(reply: dict[str, Any], name: str) -> bool:
    return reply.get(name) is True


def _scope(preamble: str) -> dict[str, Any]:
    """What the problem defines before its function: imports and helpers that its tests may use."""
    for text in (preamble, f"{preamble}\n    pass\n"):
        scope: dict[str, Any] = {"__name__": "tests"}
        try:
            exec(compile(text, "problem", "exec"), scope)
        except Exception:
            continue
        return scope
    return {"__name__": "tests"}


def _outcome(test: str, scope: dict[str, Any], program: _Program, entry_point: str) -> str | None:
    """Why the test failed; None when it passed."""
    scope["candidate"] = scope[entry_point] = program.call
    program.start_test()
    try:
        why = _raised(test, scope)
    except _TimeUp:
        why = _LATE
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    # A test with a bare `except` swallows what says that there was no answer. It has not passed for that.
    return program.failed or why


def _raised(test: str, scope: dict[str, Any]) -> str | None:
    """What a test raised, in words; None for nothing."""
    try:
        exec(compile(test, "test", "exec"), scope)
    except AssertionError as error:
        return f"assertion failed: {_message(error)}"[:200] if error.args else "assertion failed"
    except BaseException as error:
        return f"{type(error).__name__}: {_message(error)}"[:200]
    return None


def _message(error: BaseException) -> str:
    # It may hold what the candidate returned: an integer too large to print, say.
    try:
        return str(error)
    except Exception:
        return "(cannot be printed)"


class _Program:
    """The candidate's function, as the tests call it.

    `gone` says why it will not answer any more; `failed` why the test that runs has failed, whatever it makes of that.
    """

    def __init__(self, requests: int, replies: int, most: int, test_seconds: float) -> None:
        self._requests = requests
        self._replies = replies
        self._most = most
        self._test_seconds = test_seconds
        self._held = bytearray()
        self._calls = 0
        self.waiting = False
        self.gone: str | None = None
        self.failed: str | None = None

    def start_test(self) -> None:
        """Give a test its time. The candidate measures it by its CPU, so this clock leaves room for a busy machine."""
        self.failed = None
        signal.setitimer(signal.ITIMER_REAL, 4 * self._test_seconds + _GRACE_S)

    def time_is_up(self, *_: object) -> None:
        """End the test that runs, or the wait for the program to load."""
        if self.waiting:
            self.gone = self.gone or _GONE
        self.failed = self.gone or _LATE
        raise _TimeUp

    def next_reply(self) -> dict[str, Any]:
        """The next line of the candidate. Raises `_Gone` when it is not what it should be."""
        self.waiting = True
        line = read_line(self._replies, self._held, self._most)
        try:
            reply = json.loads(line) if line is not None else None
        except (ValueError, RecursionError, MemoryError):
            reply = None
        self.waiting = False
        if not isinstance(reply, dict):
            raise self._lost(_GONE if line is None and len(self._held) <= self._most else "its answer is too long, or no answer")
        return reply

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What the candidate's function returns for these arguments; what it did to a list, dict or set among them is done here too."""
        try:
            reply = self._ask({"args": dump(args), "kwargs": dump(kwargs), "seconds": self._test_seconds})
            if "raised" in reply:
                raise _error(str(reply["raised"]), str(reply.get("said"))[:200])
            if "value" not in reply:
                raise self._unanswered(str(reply.get("unanswered"))[:200])
            if "args" in reply:
                changed = load(str(reply["args"]))
                for mine, theirs in zip(args, changed if isinstance(changed, tuple) else (), strict=False):
                    _write_back(mine, theirs)
            return load(str(reply["value"]))
        except NotPlain as error:
            raise self._unanswered(f"cannot be sent: {error}") from None

    def _lost(self, why: str) -> _Gone:
        self.gone = self.failed = why
        return _Gone()

    def _unanswered(self, why: str) -> _Unanswered:
        self.failed = self.failed or why
        return _Unanswered(why)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        try:
            self.waiting = True
            write_line(self._requests, json.dumps({"id": self._calls, **request}))
        except OSError:
            raise self._lost(_GONE) from None
        reply = self.next_reply()
        if reply.get("id") != self._calls:
            raise self._lost("it answered what it was not asked")
        return reply


def _error(name: str, said: str) -> Exception:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _ENDINGS):
        try:
            return kind(said)
        except TypeError:
            pass
    return CandidateError(f"{name}: {said}")


def _write_back(mine: Any, theirs: Any) -> None:
    """Give `mine` the contents of `theirs`, where it is of a kind that a function can change in place."""
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list):
        if len(mine) == len(theirs):
            for place, item in enumerate(theirs):
                if isinstance(item, list | dict | set) and type(item) is type(mine[place]):
                    _write_back(mine[place], item)
                else:
                    mine[place] = item
        else:
            mine[:] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)
    elif isinstance(mine, bytearray):
        mine[:] = theirs
