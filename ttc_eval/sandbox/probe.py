"""Whether there is a sandbox here that holds: it is tried, limits and all, before it is relied on. What does not hold is not used."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache

from ttc_eval.errors import UserError
from ttc_eval.sandbox import syscalls
from ttc_eval.sandbox.base import Limits, Sandbox, SandboxFailed
from ttc_eval.sandbox.bubblewrap import installed
from ttc_eval.sandbox.checking import Checker, Job, run

_LIMITS = Limits(cpu_seconds=5, wall_seconds=20, test_seconds=5, memory_mb=256, processes=4, disk_mb=4)
_PROGRAM = """
import ctypes, os, socket, sys, time

def try_(what):
    return globals()[what]()

def computes():
    return 6 * 7

def memory():
    try:
        return len(bytearray(300 << 20))
    except MemoryError:
        return None

def disk():
    written = 0
    try:
        for number in range(8):
            with open(f"/tmp/{number}", "wb") as file:
                written += file.write(bytes(1 << 20))
    except OSError:
        pass
    return written >> 20

def processes():
    pids = []
    try:
        for _ in range(16):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            pids.append(pid)
    except OSError:
        pass
    for pid in pids:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(pids)

def network():
    for family, address in ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9))):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.connect(address)
            return "reached"
        except OSError:
            continue
    return None

def files():
    return [path for path in ("/etc", "/home", "/root", "/proc", "/sys", "/usr/bin", "/bin/sh") if os.path.exists(path)]

def writes():
    try:
        open("/here", "w").close()
        return "wrote"
    except OSError:
        return None

def environment():
    return sorted(set(os.environ) - {"PYTHONHASHSEED", "LD_LIBRARY_PATH", "PWD", "LC_CTYPE"})

def root():
    return os.getuid() == 0 or os.geteuid() == 0

def namespace():
    return ctypes.CDLL(None).unshare(0x10000000)
"""
_TESTS = {
    "a program does not run": "assert candidate('computes') == 42",
    "memory is not limited": "assert candidate('memory') is None",
    "the file system is not limited": "assert candidate('disk') < 5",
    "processes are not limited": "assert candidate('processes') < 4",
    "there is a network": "assert candidate('network') is None",
    "files of this machine are seen": "assert candidate('files') == []",
    "the root of the file system can be written to": "assert candidate('writes') is None",
    "the environment is seen": "assert candidate('environment') == []",
    "programs run as root": "assert candidate('root') is False",
    "namespaces can be made": "assert candidate('namespace') == -1",
}
_GET = "install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"


@dataclass(frozen=True, slots=True)
class Found:
    """A sandbox that holds; or none, and why."""

    sandbox: Sandbox | None
    said: str


@cache
def find() -> Found:
    """The sandbox of this machine, tried once in the life of a process."""
    return look()


def look() -> Found:
    """The sandbox of this machine, tried now."""
    if platform.system() != "Linux":
        return Found(None, f"there is none for {platform.system()}: run it on Linux, with bubblewrap, or in a virtual machine")
    if syscalls.program() is None:
        return Found(None, f"there is none for processors of type {platform.machine()}")
    ways = installed()
    if not ways:
        return Found(None, f"bubblewrap is not there: {_GET}")
    said = ""
    for sandbox in ways:
        why = holds(sandbox)
        if why is None:
            return Found(sandbox, "bubblewrap, without a network, files, memory or processes beyond its limits")
        said = said or why
    return Found(None, f"bubblewrap does not hold: {said}")


def holds(sandbox: Sandbox) -> str | None:
    """Why a sandbox does not hold what it should; None when it does. It runs a harmless program that tries each wall once."""
    try:
        verdict = run(Job(_PROGRAM, "try_", tuple(_TESTS.values())), sandbox, _LIMITS)
    except SandboxFailed as error:
        return str(error)
    failed = [f"{name} ({outcome.why})" for name, outcome in zip(_TESTS, verdict.outcomes, strict=True) if not outcome.passed]
    return failed[0] if failed else None


def require() -> Sandbox:
    """The sandbox of this machine. Raises `UserError`, with how to get one, where there is none: code never runs without."""
    found = find()
    if found.sandbox is None:
        raise UserError(f"no sandbox to run code in: {found.said}. See docs/sandbox.md")
    return found.sandbox


@cache
def checker() -> Checker:
    """The checker that this process shares. Raises `UserError` where there is no sandbox."""
    return Checker(require())
