"""The sandbox by bubblewrap: own namespaces, no network, an empty file system with Python's library in it, resource limits, a filter.

Started by root, it makes its namespaces as root and then runs as a user that nobody else has, so that limits on processes bind, and count
this run alone. Started by anybody else, it needs a user namespace. See docs/sandbox.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ttc_eval.sandbox import inside, syscalls
from ttc_eval.sandbox.base import Limits, Part, SandboxFailed

_START_S = 30.0
_END_S = 30.0
_SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/nix/store", "/gnu/store")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_PYTHON, _SCRIPTS = "/python", "/inside"
_FOLDERS = ("/usr", "/nix", "/gnu", "/dev", _PYTHON, f"{_PYTHON}/bin", _SCRIPTS, f"{_SCRIPTS}/ttc_eval", f"{_SCRIPTS}/ttc_eval/sandbox")
_RUN = (
    "import sys; sys.path.insert(0, {!r}); from ttc_eval.sandbox.inside.confine import leave_if_alone; leave_if_alone(int(sys.argv[1])); "
    "from ttc_eval.sandbox.inside.{} import main; main(*map(int, sys.argv[2:]))"
)


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Runs by `path`, the bwrap program. With `user_namespace` it starts from one of those, as anybody but root must."""

    path: str
    user_namespace: bool
    name: str = "bubblewrap"

    def start(self, part: Part, task: dict[str, object], descriptors: Sequence[int], limits: Limits) -> Confined:
        """See `Sandbox.start`."""
        uid = None if self.user_namespace else _any_uid()
        given = _memory(json.dumps({**task, "limits": _resources(limits), "uid": uid}).encode())
        rules = _memory(syscalls.program() or b"")
        complaints = _memory(b"")
        told, tells = os.pipe()
        alive, lives = os.pipe()
        command = [
            *(self.path, *self._walls(limits), "--seccomp", str(rules), "--info-fd", str(tells)),
            *(
                f"{_PYTHON}/bin/python",
                "-s",
                "-P",
                "-S",
                "-B",
                "-W",
                "ignore",
                "-c",
                _RUN.format(_SCRIPTS, part),
                str(alive),
                *map(str, descriptors),
            ),
        ]
        try:
            process = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=(*descriptors, rules, tells, alive),
                env={},
                cwd="/",
            )
            os.close(tells)
            tells = -1
            return Confined(process, _first_process(told), (complaints, lives), limits)
        except OSError as error:
            os.close(complaints)
            os.close(lives)
            raise SandboxFailed(f"bwrap does not start: {error}") from None
        finally:
            for descriptor in (given, rules, told, alive, *((tells,) if tells >= 0 else ())):
                os.close(descriptor)

    def _walls(self, limits: Limits) -> list[str]:
        apart = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        if self.user_namespace:
            apart += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
        else:
            apart += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return [
            *(*apart, "--die-with-parent", "--new-session", "--hostname", "sandbox"),
            *("--clearenv", "--setenv", "PYTHONHASHSEED", "0", "--setenv", "LD_LIBRARY_PATH", f"{_PYTHON}/lib"),
            *_mounts(),
            *("--perms", "1777", "--size", str(limits.disk_mb << 20), "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/"),
        ]


class Confined:
    """A process that bwrap runs, and all that it starts.

    `pid` is that of the first process of their namespace, whose end is the end of them all; None when bwrap started none. `held` are the
    file of bwrap's complaints, and the end of a pipe that shows, for as long as it is open, that this process lives.
    """

    def __init__(self, process: subprocess.Popen[bytes], pid: int | None, held: tuple[int, int], limits: Limits) -> None:
        self.pid = pid
        self._process = process
        self._first = None if pid is None else _opened(pid)
        self._held = held
        self._limits = limits

    def overfull(self) -> bool:
        """See `Running.overfull`. No limit of a process counts empty files, and bwrap gives a tmpfs no number of them."""
        if self.pid is None:
            return False
        try:
            disk = os.statvfs(f"/proc/{self.pid}/root/tmp")
        except OSError:  # it has ended
            return False
        # Until it has changed its root, the folder is that of this machine.
        is_its_own = disk.f_blocks * disk.f_frsize == self._limits.disk_mb << 20
        return is_its_own and disk.f_files - disk.f_ffree > self._limits.files

    def stop(self) -> str:
        """See `Running.stop`. Raises `SandboxFailed` when something is left after all."""
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        else:
            self._process.kill()
        try:
            self._process.wait(_END_S)
            # bwrap may end before what it started; the first process ends after everything else in its namespace.
            if self._first is not None and not _readable(self._first, _END_S):
                raise SandboxFailed("a process of the sandbox does not end")
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise SandboxFailed("bwrap does not end") from None
        finally:
            said = os.pread(self._held[0], 2000, 0).decode(errors="replace").strip()
            for descriptor in (*self._held, *(() if self._first is None else (self._first,))):
                os.close(descriptor)
        return said


def installed() -> list[Bubblewrap]:
    """The ways in which bwrap could work here, the better one first; none where it is not installed."""
    path = shutil.which("bwrap")
    if path is None:
        return []
    return [Bubblewrap(path, user_namespace) for user_namespace in ((False, True) if os.geteuid() == 0 else (True,))]


def _memory(content: bytes) -> int:
    """A file in memory that holds `content`, read from its start."""
    descriptor = os.memfd_create("ttc-eval", os.MFD_CLOEXEC)
    with open(os.dup(descriptor), "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _first_process(told: int) -> int | None:
    """The process that bwrap says it has started; None when it started none."""
    said = b""
    deadline = time.monotonic() + _START_S
    while _readable(told, deadline - time.monotonic()) and (chunk := os.read(told, 4096)):
        said += chunk
    try:
        return int(json.loads(said)["child-pid"])
    except (ValueError, KeyError):
        return None


def _opened(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:  # it has ended already, and been waited for
        return None


def _readable(descriptor: int, seconds: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0.0, seconds) * 1000))


def _resources(limits: Limits) -> dict[str, int]:
    return {
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_AS": limits.memory_mb << 20,
        "RLIMIT_FSIZE": limits.disk_mb << 20,
        "RLIMIT_NPROC": limits.processes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_STACK": 8 << 20,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 64,
        "RLIMIT_NICE": 0,
        "RLIMIT_RTPRIO": 0,
    }


def _any_uid() -> int:
    """A user that nobody else has: from the high end of those that this process can become."""
    extents = [[int(part) for part in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first, _, count = max(extents, key=lambda extent: extent[2])
    end = min(first + count, 2**31 - 1)
    start = max(first + (end - first) // 2, end - 100_000_000)
    return start + secrets.randbelow(end - start)


@cache
def _mounts() -> tuple[str, ...]:
    """What there is to see: shared libraries of the system, Python with its library but no packages, and our own scripts. All read-only."""
    # Folders that bwrap would make by itself are closed to the user that the program runs as.
    mounts = [one for folder in _FOLDERS for one in ("--perms", "0755", "--dir", folder)]
    for folder in _SYSTEM_LIBRARIES:
        path = Path(folder)
        if path.is_symlink():
            mounts += ["--symlink", str(path.readlink()), folder]
        elif path.is_dir():
            mounts += ["--ro-bind", folder, folder]
    base = Path(sys.base_prefix).resolve()
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(base)}))
    whole = library if base == Path("/usr") else library.parent  # elsewhere the folder holds shared libraries of its own
    mounts += ["--ro-bind", str(Path(getattr(sys, "_base_executable", sys.executable)).resolve()), f"{_PYTHON}/bin/python"]
    mounts += ["--ro-bind", str(whole), f"{_PYTHON}/{whole.relative_to(base)}"]
    for name in ("site-packages", "dist-packages"):
        if (library / name).is_dir():
            mounts += ["--tmpfs", f"{_PYTHON}/{library.relative_to(base) / name}"]
            mounts += ["--remount-ro", f"{_PYTHON}/{library.relative_to(base) / name}"]
    scripts = Path(inside.__file__).parent
    mounts += ["--ro-bind", str(scripts), f"{_SCRIPTS}/ttc_eval/sandbox/inside"]
    return (*mounts, *(one for device in _DEVICES for one in ("--dev-bind", device, device)))
