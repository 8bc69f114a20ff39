"""The first thing that a process in the sandbox does: it gives up what it will not need, for good, before it runs any code of others."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Collection
from typing import Any

_HIGHEST = 1 << 20


def confine(keep: Collection[int]) -> dict[str, Any]:
    """Read the task from standard input, close everything but the descriptors `keep`, and take the task's limits and user.

    Standard streams then lead to /dev/null: what the code prints goes nowhere, and costs nothing.
    """
    with os.fdopen(os.dup(0), "rb") as file:
        task: dict[str, Any] = json.loads(file.read())
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    low = 3
    for descriptor in (*sorted(keep), _HIGHEST):
        os.closerange(low, descriptor)
        low = descriptor + 1
    for name, amount in task["limits"].items():
        kind = getattr(resource, name)
        resource.setrlimit(kind, (amount, amount))
    if task["uid"] is not None:
        # Limits on processes do not bind root, and those of a user bind all of its processes together: so a user of this run's own.
        os.setgroups([])
        os.setresgid(task["uid"], task["uid"], task["uid"])
        os.setresuid(task["uid"], task["uid"], task["uid"])
    return task


def leave_if_alone(asking: int) -> None:
    """End this process unless the one that asked for it lives, which holds the other end of the pipe `asking`.

    Later, bwrap's processes end with it. But they bind themselves to it only while they start, and would not notice that it went before.
    """
    os.set_blocking(asking, False)
    try:
        os.read(asking, 1)
    except BlockingIOError:
        return
    os._exit(1)


def read_line(descriptor: int, held: bytearray, most: int) -> bytes | None:
    """The next line from a pipe; None at its end, or when it is longer than `most` bytes. `held` keeps what was read beyond it."""
    seen = 0
    while (end := held.find(b"\n", seen)) < 0:
        seen = len(held)
        if seen > most:
            return None
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return None
        held += chunk
    line = bytes(held[:end])
    del held[: end + 1]
    return line if end <= most else None


def write_line(descriptor: int, text: str) -> None:
    """Write one line to a pipe, whole. Raises `OSError` when nobody reads it any more."""
    data = memoryview(text.encode() + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]
