"""Attempts to escape. Each is a program that would say so if it got out; none does, and none leaves a process behind."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.conftest import SMALL, Ran, namespace, stat
from ttc_eval.sandbox import OUT_OF_TIME, Sandbox, syscalls
from ttc_eval.sandbox.checking import ENDED, OVERFULL

FREE = "import ctypes, os, resource, signal, socket, subprocess, sys, threading, time\n"


def attempt(body: str) -> str:
    """A program whose function makes an attempt and returns `escaped` or how it failed."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    caught = "    except BaseException as error:\n        return type(error).__name__\n    return 'escaped'\n"
    return f"{FREE}def f(*args):\n    try:\n{lines}{caught}"


# Reaching out.


@pytest.mark.parametrize("filtered", [True, False], ids=["filter", "no-filter"])
@pytest.mark.parametrize(
    "body",
    [
        "socket.create_connection(('127.0.0.1', PORT), 1)",
        "socket.create_connection(('192.0.2.1', 80), 1)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))\nraise OSError('nothing can tell')",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 53))",
        "socket.getaddrinfo('example.com', 80)",
        "socket.socket(socket.AF_UNIX).connect(PATH)",
        "socket.socket(socket.AF_UNIX).connect('\\0' + NAME)",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    ],
    ids=["tcp", "tcp-out", "udp", "udp-out", "udp6", "dns", "unix", "abstract", "raw", "packet"],
)
def test_nothing_is_reached(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, filtered: bool) -> None:
    """Neither through the filter, which knows no sockets, nor without it: the namespaces hold by themselves."""
    if not filtered:
        allow = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
        monkeypatch.setattr(syscalls, "program", lambda: allow)
    path, name = str(tmp_path / "socket"), f"ttc-eval-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(tcp.getsockname())
        udp.settimeout(0)
        with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as abstract:
            for one, address in ((unix, path), (abstract, f"\0{name}")):
                one.bind(address)
                one.listen()
                one.settimeout(0)
            tcp.settimeout(0)
            head = f"PORT, PATH, NAME = {tcp.getsockname()[1]}, {path!r}, {name!r}\n"
            verdict = ran(head + attempt(body), "assert candidate() != 'escaped', candidate()")
            for one in (tcp, unix, abstract):
                with pytest.raises(BlockingIOError):
                    one.accept()
            with pytest.raises(BlockingIOError):
                udp.recv(1)
    assert verdict.passed, verdict.why


@pytest.mark.parametrize("family", [1, 2, 10, 16, 38, 40], ids=["unix", "ip", "ip6", "netlink", "crypto", "vsock"])
def test_there_are_no_sockets_but_pairs(ran: Ran, family: int) -> None:
    verdict = ran(attempt(f"socket.socket({family}, socket.SOCK_SEQPACKET)"), "assert candidate() == 'PermissionError', candidate()")
    assert verdict.passed, verdict.why
    assert ran(attempt("socket.socketpair()"), "assert candidate() == 'escaped'").passed, "event loops need them"


@pytest.mark.parametrize(
    "body",
    [
        "open('/etc/passwd').read()",
        "open('/etc/hostname').read()",
        "os.listdir(HOME)",
        "os.listdir(CHECKOUT)",
        "open('/proc/self/environ').read()",
        "os.listdir('/proc/1')",
        "os.listdir('/sys')",
        "os.listdir('/run')",
        "os.symlink(HOME, '/tmp/way')\nos.listdir('/tmp/way')",
        "os.symlink('/proc/1/root/etc/passwd', '/tmp/way')\nopen('/tmp/way').read()",
        "os.symlink('../../../../../etc/passwd', '/tmp/way')\nopen('/tmp/way').read()",
        "os.link('/inside/ttc_eval/sandbox/inside/tester.py', '/tmp/way')",
        "open('/dev/kmsg').read(1)",
        "open('/dev/mem', 'rb').read(1)",
        "open('/dev/tty').read(1)",
        "os.chroot('/tmp')",
        "os.mknod('/tmp/disk', 0o60666, os.makedev(8, 0))",
        "import pip",
        "import numpy",
    ],
)
def test_nothing_of_the_machine_is_seen(ran: Ran, body: str) -> None:
    head = f"HOME, CHECKOUT = {str(Path.home())!r}, {str(Path(__file__).parents[2])!r}\n"
    verdict = ran(head + attempt(body), "assert candidate() != 'escaped', candidate()")
    assert verdict.passed, verdict.why


def test_the_environment_is_empty(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    program = FREE + "def f(): return sorted(os.environ)"
    verdict = ran(program, "assert set(candidate()) <= {'PYTHONHASHSEED', 'LD_LIBRARY_PATH', 'PWD', 'LC_CTYPE'}")
    assert verdict.passed, verdict.why


@pytest.mark.parametrize(
    "body",
    [
        "open('/inside/ttc_eval/sandbox/inside/tester.py', 'w')",
        "open('/inside/ttc_eval/sandbox/inside/new.py', 'w')",
        "open('/python/lib/json.py', 'w')",
        "open('/usr/lib/new', 'w')",
        "open('/new', 'w')",
        "open('/dev/new', 'w')",
        "os.mkdir('/dev/shm')",
        "os.chmod('/inside', 0o777)\nopen('/inside/new', 'w')",
        "os.rename('/inside', '/outside')",
    ],
)
def test_nothing_but_its_own_folder_can_be_written(ran: Ran, body: str) -> None:
    verdict = ran(attempt(body), "assert candidate() != 'escaped', candidate()")
    assert verdict.passed, verdict.why


# Using more than it may.


def test_memory_is_limited(ran: Ran) -> None:
    program = attempt("held = [bytearray(1 << 20) for _ in range(400)]\nheld[0][0] = 1")
    assert ran(program, "assert candidate() == 'MemoryError', candidate()").passed


@pytest.mark.parametrize(
    "body",
    [
        "os.memfd_create('x')",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.shmget(0, 1 << 20, 0o1600) >= 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.msgget(0, 0o1600) >= 0",
        "open('/tmp/a', 'w').close()\nos.setxattr('/tmp/a', 'user.a', bytes(60000))",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.syscall(206, 8, ctypes.byref(ctypes.c_ulong(0))) == 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.unshare(0x10000000) == 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.syscall(56, 0x10000011, 0, 0, 0, 0) >= 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.ptrace(16, 1, 0, 0) == 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.syscall(425, 8, 0) >= 0",
        "libc = ctypes.CDLL(None, use_errno=True)\nassert libc.syscall(250, 0, -3, 1) >= 0",
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
        "os.setuid(0)",
        "os.setgid(0)",
        "assert 0 in (os.getuid(), os.geteuid(), os.getgid(), *os.getgroups())",
        "os.nice(-5)",
        "time.clock_settime(0, 0)",
        "socket.sethostname('mine')",
    ],
    ids=lambda body: body.rpartition("\n")[2][:40],
)
def test_what_leads_out_of_the_limits_is_refused(ran: Ran, body: str) -> None:
    verdict = ran(attempt(body), "assert candidate() != 'escaped', candidate()")
    assert verdict.passed, verdict.why


def test_a_program_that_would_be_root_is_not(ran: Ran) -> None:
    body = (
        "[path for folder, _, names in os.walk('/') for name in names if os.stat(path := os.path.join(folder, name)).st_mode & 0o4000][0]"
    )
    assert ran(
        attempt(f"subprocess.run({body})"), "assert candidate() != 'escaped'", limits=replace(SMALL, cpu_seconds=6, test_seconds=6)
    ).passed


def test_the_disk_is_limited(ran: Ran) -> None:
    program = attempt("for name in range(100):\n    open(f'/tmp/{name}', 'wb').write(bytes(1 << 20))")
    assert ran(program, "assert candidate() == 'OSError', candidate()").passed
    program = attempt("signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nopen('/tmp/one', 'wb').write(bytes(64 << 20))")
    assert ran(program, "assert candidate() != 'escaped', candidate()").passed


@pytest.mark.parametrize("make", ["open(name, 'w').close()", "os.mkdir(name)", "os.symlink('/', name)", "os.mknod(name)"])
def test_files_without_content_are_limited(ran: Ran, make: str) -> None:
    """Each takes memory of the kernel that no limit of a process counts."""
    program = f"{FREE}import itertools\ndef f():\n    for n in itertools.count():\n        name = f'/tmp/{{n}}'\n        {make}\n"
    assert ran(program, "assert candidate() is None").why == OVERFULL
    few = f"{FREE}def f():\n    for n in range(500):\n        name = f'/tmp/{{n}}'\n        {make}\n    time.sleep(0.5)\n"
    assert ran(few, "assert candidate() is None").passed


def test_a_fork_bomb_fizzles_out(ran: Ran) -> None:
    program = FREE + "def f():\n    while True:\n        try: os.fork()\n        except OSError: pass\n"
    assert not ran(program, "assert candidate() is None", limits=replace(SMALL, wall_seconds=2)).passed
    program = attempt("for _ in range(50):\n    if os.fork() == 0: time.sleep(60)")
    assert ran(program, "assert candidate() == 'BlockingIOError', candidate()").passed


def test_threads_are_limited(ran: Ran) -> None:
    program = attempt("for _ in range(50): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
    assert ran(program, "assert candidate() == 'RuntimeError', candidate()").passed


def test_open_files_are_limited(ran: Ran) -> None:
    assert ran(attempt("held = [open('/dev/null') for _ in range(1000)]"), "assert candidate() == 'OSError', candidate()").passed


@pytest.mark.parametrize(
    "program",
    [
        "def f():\n    while True: pass",
        "while True: pass\ndef f(): return 1",
        "import time\ndef f(): time.sleep(60)",
        "def f():\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        FREE
        + "signal.setitimer = lambda *a: None\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        + "    except Exception: pass\n"
        + "def f():\n    while True: pass",
        "def f(): return 10 ** 10 ** 10",
    ],
    ids=["loop", "loop-at-load", "sleep", "catches-all", "ignores-signals", "one-operation"],
)
def test_time_is_limited(ran: Ran, program: str) -> None:
    verdict = ran(program, "assert candidate() == 1", limits=replace(SMALL, cpu_seconds=1, test_seconds=0.4, wall_seconds=4))
    assert not verdict.passed


@pytest.mark.parametrize(
    "program",
    [
        "def f():\n    while True: print('x' * 10000)",
        FREE + "def f():\n    while True: os.write(2, b'x' * 100000)",
        "def f(): return 'x' * 50_000_000",
        "def f(): return list(range(1_000_000))",
        "def f():\n    while True: yield 1",
        FREE
        + "def f():\n    for fd in range(3, 32):\n        try:\n"
        + "            while True: os.write(fd, b'x' * 65536)\n        except OSError: pass",
    ],
    ids=["prints", "errors", "answer", "list", "iterator", "channel"],
)
def test_output_is_limited(ran: Ran, program: str) -> None:
    assert not ran(program, "assert list(candidate()) == 1", limits=replace(SMALL, cpu_seconds=1, test_seconds=0.5, wall_seconds=5)).passed


# Staying behind. The fixture looks for what is left, whatever the verdict.


@pytest.mark.parametrize("ending", ["return 1", "os._exit(0)", "os.kill(os.getpid(), 9)", "time.sleep(60)"])
def test_a_daemon_does_not_outlive_the_run(ran: Ran, ending: str) -> None:
    program = f"""{FREE}
def f():
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 32):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        if os.fork() == 0:
            os.closerange(0, 64)
            while True: time.sleep(1)
        os._exit(0)
    {ending}
"""
    verdict = ran(program, "assert candidate() == 1", limits=replace(SMALL, wall_seconds=3, test_seconds=0.3))
    assert verdict.passed == (ending == "return 1")


@pytest.mark.parametrize(
    "body",
    ["os.kill(1, 9)", "os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "os.killpg(0, 9)", "os.killpg(os.getpgid(os.getppid()), 15)"],
)
def test_no_process_outside_can_be_killed(ran: Ran, body: str) -> None:
    verdict = ran(attempt(body), "assert candidate() == 1", limits=replace(SMALL, wall_seconds=3))
    assert not verdict.passed, "and this process is here to say so"


@pytest.mark.parametrize("after", [0.0, 0.5])
def test_a_run_ends_with_the_process_that_asked_for_it(sandbox: Sandbox, after: float) -> None:
    """Killed without warning, it leaves nothing: bwrap and its first process die with their parents."""
    script = (
        "from ttc_eval.sandbox import *\nfound = require()\nprint('tried', flush=True)\n"
        "run(Job('import time\\ntime.sleep(600)', 'f', ('f()',)), found, Limits(wall_seconds=600, test_seconds=600))"
    )
    held: dict[int, int] = {}  # open, since numbers of namespaces are given out again
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == b"tried\n"
        while len(held) < 2 and asking.poll() is None:
            for pid in below(asking.pid):
                number = namespace(pid)
                if number is not None and number not in held and number != namespace(os.getpid()):
                    held[number] = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
        while sum("python" in stat(pid) for pid in below(asking.pid)) < 2 and asking.poll() is None:
            time.sleep(0.001)
        time.sleep(after)
        asking.kill()
    assert len(held) == 2
    deadline = time.monotonic() + 30
    while (
        left := [pid for pid in pids() if namespace(pid) in held and stat(pid)[-1:] not in ("Z", "X", "")]
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    for descriptor in held.values():
        os.close(descriptor)
    assert left == []


def pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def below(pid: int) -> list[int]:
    """The processes that one started, and those that they did."""
    try:
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [one for child in children for one in (child, *below(child))]


# Faking a verdict: each of these programs is wrong, and would have to be called right.

WRONG = {
    "exits": "import sys\nsys.exit(0)\ndef f(x): return 0",
    "exits-hard": "import os\nos._exit(0)\ndef f(x): return 0",
    "exits-when-called": "import os\ndef f(x): os._exit(0)",
    "prints": 'print("passed")\nprint(\'{"passed": true, "why": null}\')\ndef f(x): return 0',
    "writes-everywhere": """
import os
for fd in range(3, 32):
    for line in (b'{"started": true}', b'{"loaded": true}', b'{"passed": true, "why": null}', b'{"candidate_started": true}') * 3:
        try: os.write(fd, line + b"\\n")
        except OSError: pass
def f(x): return 0""",
    "always-equal": """
class Always:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
def f(x): return Always()""",
    "equal-integer": """
class Always(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def f(x): return Always(0)""",
    "equal-string": """
class Always(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def f(x): return Always("")""",
    "builtins": """
import builtins
builtins.AssertionError = type("Quiet", (Exception,), {})
builtins.abs = lambda *a: 0
builtins.len = lambda *a: 0
builtins.exec = builtins.compile = lambda *a, **k: None
def f(x): return 0""",
    "json": """
import json, sys
json.dumps = lambda *a, **k: '{"passed": true}'
for module in list(sys.modules.values()):
    if hasattr(module, "dump"): module.dump = lambda *a: '["l"]'
def f(x): return 0""",
    "raises-passing": "class Passed(BaseException): pass\ndef f(x): raise Passed('passed')",
    "stops": "def f(x): raise StopIteration",
    "generator-exit": "def f(x): raise GeneratorExit",
    "keyboard": "def f(x): raise KeyboardInterrupt",
    "this-package": """
import sys
from ttc_eval.sandbox.inside import candidate, confine, values
values.dump = candidate.dump = lambda *a: "true"
candidate.json.dumps = lambda *a: '{"id": 1, "value": "true", "passed": true}'
def f(x): return 0""",
    "traces": """
import sys, threading
def forge(frame, event, arg):
    for name in list(frame.f_locals):
        if name in ("passed", "said", "why"): frame.f_locals[name] = None
    return forge
for setter in (sys.settrace, sys.setprofile, threading.settrace, threading.setprofile): setter(forge)
frame = sys._getframe()
while frame:
    frame.f_trace = forge
    frame.f_globals["AssertionError"] = frame.f_globals["_Unanswered"] = ValueError
    frame = frame.f_back
def f(x): return 0""",
    "memory": """
import ctypes, gc, os
libc = ctypes.CDLL(None)
def f(x):
    for pid in range(1, 5):
        for path in (f"/proc/{pid}/mem", f"/proc/{pid}/fd/3"):
            try: os.write(os.open(path, os.O_RDWR), b'{"passed": true, "why": null}\\n')
            except OSError: pass
        libc.syscall(311, pid, 0, 1, 0, 1, 0)
        libc.ptrace(16, pid, 0, 0)
    return 0""",
    "closes-all": "import os\nos.closerange(0, 64)\ndef f(x): return 0",
    "at-exit": "import atexit, os\natexit.register(os.write, 1, b'passed')\ndef f(x): raise SystemExit(0)",
    "thread-answers": """
import os, threading, time
def later():
    while True:
        for fd in range(3, 32):
            try: os.write(fd, b'{"passed": true, "why": null}\\n')
            except OSError: pass
        time.sleep(0.01)
threading.Thread(target=later).start()
def f(x): return 0""",
    "never-deleted": """
class Held:
    def __del__(self):
        while True:
            try:
                while True: pass
            except BaseException: pass
def f(x): Held()""",
    "deep": "def f(x):\n    held = []\n    for _ in range(200_000): held = [held]\n    return held",
    "recursion": "import sys\nsys.setrecursionlimit(2**31 - 1)\ndef f(x): return f(x)",
    "surrogate": "def f(x): return '\\ud800'",
    "surrogate-raised": "def f(x): raise ValueError('\\ud800\\x1b[2J\\0')",
    "surrogate-source": "x = '\ud800'\ndef f(x): return x * x",
    "nul-source": "def f(x): return x * x\0",
    "class-lies": "class Lies:\n    __class__ = property(lambda self: int)\ndef f(x): return Lies()",
    "name-lies": "class Kind(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=Kind): pass\ndef f(x): raise E",
    "endless-list": "class Endless(list):\n    def __iter__(self):\n        while True: yield 9\ndef f(x): return Endless()",
    "huge-range": "def f(x): return range(10 ** 18)",
    "huge-decimal": "from decimal import Decimal\ndef f(x): return Decimal('1E+999999999')",
    "nan": "def f(x): return float('nan')",
    "looks-for-tests": """
import gc, glob, inspect
def needle(): return "".join(["candi", "date(3) =="])  # in one piece it would find itself
found = [o for o in gc.get_objects() if isinstance(o, (dict, list, tuple)) and len(o) < 50 and needle() in str(o)]
found += [frame for frame in inspect.stack() if needle() in str(frame.frame.f_locals)]
for name in glob.glob('/tmp/**/*', recursive=True) + glob.glob('/inside/**/*', recursive=True) + glob.glob('/*'):
    try:
        found += [name] if needle() in open(name).read(100000) else []
    except OSError: pass
wanted = 9 if found else 0
def f(x): return wanted""",
    "answers-twice": """
import os
def f(x):
    for fd in range(3, 32):
        try: os.write(fd, b'{"id": 1, "value": "9"}\\n')
        except OSError: pass
    return 0""",
}


@pytest.mark.parametrize("name", sorted(set(WRONG) - {"answers-twice"}))
def test_a_wrong_program_is_not_called_right(ran: Ran, name: str) -> None:
    tests = (
        "assert candidate(3) == 9",
        "def check(candidate):\n    assert candidate(4) == 16\n    assert abs(candidate(5) - 25) < 1e-6\ncheck(candidate)",
    )
    verdict = ran(WRONG[name], *tests, limits=replace(SMALL, cpu_seconds=4, test_seconds=4))
    assert [outcome.passed for outcome in verdict.outcomes] == [False, False], verdict
    assert all(str(outcome.why).isprintable() for outcome in verdict.outcomes), "it is stored and shown"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os\ndef f(x): os._exit(0)", "ended"),
        ("import time\ndef f(x): time.sleep(60)", "ended"),
        ("def f(x): return object()", "cannot be sent"),
        ("def f(x): return '9' * 2_000_000", "too long"),
        (
            "import os\ndef f(x):\n    for fd in range(3, 32):\n        try: os.write(fd, b'nonsense\\n')\n        except OSError: pass",
            "no answer",
        ),
    ],
    ids=["exits", "sleeps", "no-data", "too-long", "nonsense"],
)
def test_no_answer_is_no_success_even_for_a_test_that_catches_everything(ran: Ran, program: str, why: str) -> None:
    for caught in ("except:", "except BaseException:"):
        test = f"try:\n    candidate(-1)\n{caught}\n    pass"
        verdict = ran(program, test, limits=replace(SMALL, test_seconds=0.2))
        assert not verdict.passed
        assert why in str(verdict.why)


def test_a_test_that_takes_too_long_fails_even_when_it_catches_everything(ran: Ran) -> None:
    test = "try:\n    while True: pass\nexcept BaseException: pass"
    verdict = ran("def f(x): return x", test, "assert candidate(1) == 1", limits=replace(SMALL, test_seconds=0.1, cpu_seconds=8))
    assert [outcome.passed for outcome in verdict.outcomes] == [False, True]


@pytest.mark.parametrize("kind", ["StopIteration", "StopAsyncIteration"])
def test_the_end_of_an_iteration_is_not_that_of_the_tests(ran: Ran, kind: str) -> None:
    test = "assert all(map(lambda x: candidate(x) == x * x, range(9)))"
    assert not ran(f"def f(x): raise {kind}", test).passed


def test_what_cannot_be_printed_fails_its_own_test_alone(ran: Ran) -> None:
    tests = (
        "assert candidate() == 9, candidate()",
        "class E(Exception):\n    def __str__(self): return 1\nraise E",
        "assert candidate() > 9",
    )
    verdict = ran("def f(): return 10 ** 5000", *tests)
    assert [outcome.passed for outcome in verdict.outcomes] == [False, False, True]


def test_a_forged_answer_is_only_an_answer(ran: Ran) -> None:
    """Whoever writes to the pipe of the answers gives an answer, as a return does; it has to be right all the same."""
    verdict = ran(WRONG["answers-twice"], "assert candidate(3) == 9", "assert candidate(4) == 16", "assert candidate(3) == 9")
    assert [outcome.passed for outcome in verdict.outcomes] == [True, False, False]


def test_what_the_tests_say_is_limited_too(ran: Ran) -> None:
    """Tests that a model wrote are no more trusted with the machine than programs are."""
    right = "def f(x): return x * x"
    for test in (
        "while True: pass",
        "import os\nos._exit(0)",
        "import os\nwhile True: os.write(1, b'x')",
        "open('/etc/passwd')",
        "bytearray(1 << 30)",
    ):
        verdict = ran(right, test, "assert candidate(2) == 4", limits=replace(SMALL, cpu_seconds=1, test_seconds=0.2, wall_seconds=4))
        assert not verdict.outcomes[0].passed
    verdict = ran(right, "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)", "assert candidate(2) == 4")
    assert [outcome.passed for outcome in verdict.outcomes] == [False, True]


@pytest.mark.parametrize(
    "said",
    ["b'words\\n'", "b'[1]\\n'", "b'null\\n'", "b'[' * 100_000 + b'\\n'", "b'\\xff\\n'", "b'9' * 5000 + b'\\n'", "b'{\"passed\": 1'"],
)
def test_a_test_that_writes_over_the_verdicts_spoils_only_them(ran: Ran, said: str) -> None:
    test = f"import os\nfor fd in range(3, 32):\n    try: os.write(fd, {said})\n    except OSError: pass"
    verdict = ran("def f(x): return x", test, "assert candidate(2) == 2")
    assert len(verdict.outcomes) == 2
    assert verdict.why == "the tests wrote over their verdict"


def test_tests_that_end_themselves_give_no_verdict(ran: Ran) -> None:
    assert ran("def f(x): return x", "import os\nos._exit(0)", "assert candidate(2) == 2").why == ENDED


def test_the_time_of_a_run_is_its_own(ran: Ran) -> None:
    """A program that never ends takes down its own tests, the one that it hung in and those after it, and says why."""
    program = "import time\ndef f(x):\n    while x == 2: time.sleep(1)\n    return x * x"
    tests = [f"assert candidate({x}) == {x * x}" for x in (1, 2, 3)]
    verdict = ran(program, *tests, limits=replace(SMALL, test_seconds=0.2))
    assert [outcome.passed for outcome in verdict.outcomes] == [True, False, False]
    assert ran(program, *tests, limits=replace(SMALL, wall_seconds=1)).outcomes[2].why == OUT_OF_TIME
