"""The child process: it answers, is killed when it hangs, and never outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ttc_eval.answers import MathChecker
from ttc_eval.answers.math_checker import is_safe

HANG = (r"9^{9^{9^9}}", "((50)!)!")


@pytest.fixture
def checker() -> Iterator[MathChecker]:
    checker = MathChecker(time_limit=3.0)
    yield checker
    checker.close()
    assert checker.pids == ()


def gone(pid: int, patience: float = 10.0) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = f"/proc/{pid}/stat"
        if os.path.exists(status):  # noqa: PTH110
            try:
                with open(status) as file:  # noqa: PTH123
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        return True
            except OSError:
                return True
        time.sleep(0.05)
    return False


def test_it_starts_on_first_use_and_answers(checker: MathChecker) -> None:
    assert checker.pids == ()
    patient = MathChecker(time_limit=20.0)
    assert patient.ask(r"\int_0^1 x dx", r"\frac{1}{2}") == "equal"
    assert patient.ask(r"\sum_{k=1}^{10} k", "54") == "different"
    assert len(patient.pids) == 1
    patient.close()


@pytest.mark.parametrize(("a", "b"), [(r"\frac{1}{30!}", r"\frac{1}{31!}"), (r"2-\frac{1}{e}", r"2+\frac{1}{e}"), ("6", r"6\sqrt{3}")])
def test_what_math_verify_accepts_wrongly_is_not_confirmed(checker: MathChecker, a: str, b: str) -> None:
    assert not checker.equal(a, b)


def test_a_hang_is_killed_within_the_limit_and_the_next_question_works() -> None:
    checker = MathChecker(time_limit=1.0)
    checker.ask("1", "2")
    (pid,) = checker.pids
    started = time.monotonic()
    assert checker.ask(*HANG) == "timeout"
    assert time.monotonic() - started < 2.5
    assert gone(pid)
    checker.time_limit = 20.0
    assert checker.ask(r"\sum_{k=1}^{3} k", "6") == "equal"
    assert checker.outcomes["timeout"] == 1
    checker.close()


def test_a_killed_child_is_a_crash_and_is_replaced(checker: MathChecker) -> None:
    checker.ask("1", "2")
    (pid,) = checker.pids
    os.kill(pid, 9)
    assert checker.ask(r"\sum_{k=1}^{3} k", "7") in ("crash", "different")
    assert checker.ask(r"\sum_{k=1}^{3} k", "8") == "different"


def test_threads_share_its_children() -> None:
    checker = MathChecker(time_limit=20.0, workers=2)
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda k: checker.equal(rf"\sum_{{j=1}}^{{{k}}} j", str(k * (k + 1) // 2)), range(2, 14)))
    assert all(verdicts)
    assert len(checker.pids) <= 2
    checker.close()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.b",
        "().x",
        "exec(1)",
        "open(x)",
        r"\input{x}",
        "x" * 700,
        "",
        "\n",
        "lambda",
        'f"x"',
        "os.system",
        r"\frac{1}{2}.real",
        "eval(x)",
    ],
)
def test_code_is_never_shown_to_the_symbolic_parser(text: str, checker: MathChecker) -> None:
    assert not is_safe(text)
    assert checker.ask(text, "1") == "refused"
    assert checker.pids == ()


@pytest.mark.parametrize("death", ["return", "os._exit(1)", "os.kill(os.getpid(), 9)"])
@pytest.mark.parametrize("busy", [False, True])
def test_no_child_survives_its_parent(death: str, busy: bool) -> None:
    hang = "threading.Thread(target=c.ask, args=(r'9^{9^{9^9}}', '((50)!)!'), daemon=True).start(); time.sleep(0.3)" if busy else "pass"
    ending = "pass" if death == "return" else death
    program = f"""
import os, threading, time
from ttc_eval.answers import MathChecker
c = MathChecker(time_limit=2.0)
c.ask("1", "2")
print(*c.pids, flush=True)
{hang}
{ending}
"""
    result = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, text=True, check=False)
    pids = [int(pid) for pid in result.stdout.split()]
    assert len(pids) == 1
    assert all(gone(pid) for pid in pids)
