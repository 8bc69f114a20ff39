"""The process that runs a program: it answers calls of one function, and knows nothing of the tests but the arguments it is given.

All that it sends is data (see `values`). It runs what it is told to in this very interpreter, so nothing that it says is trusted.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

from ttc_eval.sandbox.inside.confine import confine, read_line, write_line
from ttc_eval.sandbox.inside.values import NotPlain, dump, load

_MOST_REQUEST = 1 << 24


class _TimeUp(BaseException):
    """The CPU time of a call is used up."""


def main(requests: int, replies: int) -> None:
    """Load the program and serve calls from the pipe `requests` until it ends."""
    task = confine((requests, replies))
    send = write_line
    send(replies, json.dumps({"started": True}))
    signal.signal(signal.SIGPROF, _time_is_up)
    found, why = _load(task["program"], task["entry_point"], task["load_seconds"])
    send(replies, json.dumps({"loaded": found is not None, "why": why}))
    held = bytearray()
    while (line := read_line(requests, held, _MOST_REQUEST)) is not None:
        request = json.loads(line)
        send(replies, json.dumps({"id": request["id"], **_called(found, request)}))


def _time_is_up(*_: object) -> None:
    raise _TimeUp


def _timed(seconds: float, work: Callable[[], Any]) -> Any:
    # It goes off again, for a program that catches it.
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _load(program: str, entry_point: str, seconds: float) -> tuple[Any, str | None]:
    scope: dict[str, Any] = {"__name__": "candidate"}
    try:
        _timed(seconds, lambda: exec(compile(program, "candidate", "exec"), scope))
    except BaseException as error:
        return None, _said(error)
    found = scope.get(entry_point)
    return (found, None) if callable(found) else (None, f"it defines no function {entry_point}")


def _called(found: Any, request: dict[str, Any]) -> dict[str, Any]:
    def call() -> dict[str, Any]:
        arguments, named = load(request["args"]), load(request["kwargs"])
        reply = {"value": dump(found(*arguments, **named))}
        left = dump(arguments)
        return reply if left == request["args"] else {**reply, "args": left}

    try:
        return dict(_timed(request["seconds"], call))
    except NotPlain as error:
        return {"unanswered": f"cannot be sent: {error}"[:200]}
    except _TimeUp:
        return {"unanswered": "the time of a test is used up"}
    except BaseException as error:
        return {"raised": type(error).__name__[:100], "said": _message(error)}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {_message(error)}"[:200]


def _message(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except BaseException:
        return ""
