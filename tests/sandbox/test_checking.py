"""Verdicts: right programs pass, wrong ones do not, what is passed over the boundary is data, and what cannot be judged says so."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, OrderedDict, deque
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.conftest import SMALL, Ran
from ttc_eval.errors import UserError
from ttc_eval.sandbox import Checker, Job, Limits, Sandbox, SandboxFailed, probe, run, syscalls
from ttc_eval.sandbox.inside.values import NotPlain, dump, load

# What crosses the boundary.

numbers = st.integers() | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False) | st.fractions() | st.decimals(allow_nan=False)
leaves = (
    st.none()
    | st.booleans()
    | numbers
    | st.text()
    | st.binary()
    | st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9))
)
hashable = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4), max_leaves=8)
values = st.recursive(
    hashable | st.sets(hashable, max_size=4) | st.binary().map(bytearray),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(hashable, inner, max_size=4),
    max_leaves=16,
)


tags = st.recursive(
    st.none() | st.integers() | st.floats() | st.sampled_from("ifcltszdbBrqxgKVI"), lambda inner: st.lists(inner, max_size=4), max_leaves=12
).map(json.dumps)


@given(values)
def test_plain_data_arrives_as_it_was(value: Any) -> None:
    arrived = load(dump(value))
    assert arrived == value
    assert type(arrived) is type(value)


@given(st.text() | st.binary() | tags)
def test_anything_else_is_refused_and_runs_nothing(text: str | bytes) -> None:
    try:
        load(text)
    except NotPlain:
        return


class Point(NamedTuple):
    x: int


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (Liar(3), 3),
        (Point(1), (1,)),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        ({1: 2}.keys(), {1}),
        ({1: 2}.items(), {(1, 2)}),
        (-(10**400), -(10**400)),
        (math.inf, math.inf),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("1.50"), Decimal("1.5")),
        ("\ud800", "\ud800"),
    ],
)
def test_a_subclass_arrives_as_its_base(value: Any, arrives: Any) -> None:
    arrived = load(dump(value))
    assert arrived == arrives
    assert type(arrived).__module__ in ("builtins", "decimal", "fractions")


def test_iterators_are_read_to_their_end_and_equal_nothing() -> None:
    assert list(load(dump(x * x for x in range(4)))) == [0, 1, 4, 9]
    assert list(load(dump({1: 2}.values()))) == [2]
    assert load(dump(iter([1]))) != [1]
    assert math.isnan(load(dump(math.nan)))


@pytest.mark.parametrize("value", [object(), len, lambda: 0, deque([1]), int, iter(lambda: 0, 1)])
def test_what_is_no_data_is_not_sent(value: Any) -> None:
    with pytest.raises(NotPlain):
        dump(value)
    held: list[Any] = []
    held.append(held)
    with pytest.raises(NotPlain):
        dump(held)


# Verdicts.


def test_recorded_cases(ran: Ran, shared: Path) -> None:
    cases = [json.loads(line) for line in (shared / "cases" / "cases.jsonl").read_text().splitlines()]
    chosen = [case for case in cases if case["kind"] == "code_sandbox" and "code" in case["input"]]
    assert len(chosen) >= 3
    for case in chosen:
        asked, expected = case["input"], case["expected"]["passed"]
        programs, wanted = (asked["code"], expected) if isinstance(expected, list) else ([asked["code"]], [expected])
        passed = [ran(one, asked["test"] + "\ncheck(candidate)", entry_point=asked["entry_point"]).passed for one in programs]
        assert passed == wanted, case["id"]


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("def f(l): l.sort()", "x = [3, 1, 2]\ncandidate(x)\nassert x == [1, 2, 3]"),
        ("def f(l): l[0].append(9)", "x = [[1], [2]]\ninner = x[0]\ncandidate(x)\nassert x == [[1, 9], [2]] and inner == [1, 9]"),
        ("def f(d): d.update(a=1)", "x = {}\ncandidate(x)\nassert x == {'a': 1}"),
        ("def f(d): d.clear(); d.extend([1])", "x = [5, 6]\ncandidate(x)\nassert x == [1]"),
        ("def f(x, *, y=1): return x + y", "assert candidate(1, y=2) == 3\nassert f(1) == 2"),
        (
            "def f(x): raise ValueError('no ' + x)",
            "try:\n    candidate('way')\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'no way'",
        ),
        (
            "class Own(Exception): pass\ndef f(): raise Own('x')",
            "try:\n    candidate()\nexcept Exception as e:\n    assert str(e) == 'Own: x'",
        ),
        ("n = 0\ndef f():\n    global n\n    n += 1\n    return n", "assert [candidate(), candidate()] == [1, 2]"),
        ("def f(x):\n    print('talks', x)\n    return (i for i in range(x))", "assert list(candidate(3)) == [0, 1, 2]"),
        ("def f(x): return {x: {1.5, None}}", "assert candidate((1, 'a')) == {(1, 'a'): {1.5, None}}"),
        ("import math, re, json, random, collections\ndef f(): return math.pi", "import math\nassert abs(candidate() - math.pi) < 1e-9"),
        ("f = lambda x: x", "assert candidate(True) is True and candidate(None) is None"),
    ],
)
def test_right_programs_pass(ran: Ran, program: str, test: str) -> None:
    verdict = ran(program, test)
    assert verdict.passed, verdict.why


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("def g(): pass", "it defines no function f"),
        ("f = 3", "it defines no function f"),
        ("def f(:", "SyntaxError"),
        ("import numpy\ndef f(x): return 4", "ModuleNotFoundError"),
        ("def f(x): return object()", "cannot be sent: a value of type object"),
        ("def f(x): return f", "cannot be sent"),
        ("def f(x):\n    while True: pass", "the time of a test is used up"),
        ("def f(x): return f(x)", "RecursionError"),
        ("def f(x): return 5", "assertion failed"),
        ("import os\ndef f(x): os._exit(0)", "ended"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_wrong_programs_fail_and_it_is_said_why(ran: Ran, program: str, why: str) -> None:
    verdict = ran(program, "assert candidate(2) == 4", limits=replace(SMALL, test_seconds=0.3))
    assert not verdict.passed
    assert why in str(verdict.why)


def test_each_test_runs_on_its_own(ran: Ran) -> None:
    tests = (
        "x = 1\nassert candidate(1) == 1",
        "assert 'x' not in globals()",
        "syntax error",
        "assert candidate(2) == 3",
        "assert helper(2) == 4",
    )
    verdict = ran("def f(x): return x", *tests, preamble="def helper(x): return x * x\n\ndef f(x):\n    # the prompt ends here")
    assert [outcome.passed for outcome in verdict.outcomes] == [True, True, False, False, True]


def test_no_tests_are_no_pass(ran: Ran) -> None:
    assert not ran("def f(): return 1").passed


def test_a_verdict_is_remembered(sandbox: Sandbox) -> None:
    started: list[str] = []

    class Counting:
        name = "counting"

        def start(self, part: Any, *rest: Any) -> Any:
            started.append(part)
            return sandbox.start(part, *rest)

    checker = Checker(Counting(), workers=2)
    job = Job("def f(): return 1", "f", ("assert candidate() == 1",))

    async def both() -> list[bool]:
        await checker.check(job, SMALL)
        found = await asyncio.gather(checker.check(job, SMALL), checker.check(replace(job, tests=("assert candidate() == 2",)), SMALL))
        return [verdict.passed for verdict in found]

    assert asyncio.run(both()) == [True, False]
    assert sorted(started) == ["candidate", "candidate", "tester", "tester"]


# The sandbox itself.


def test_a_sandbox_that_does_not_work_is_no_verdict() -> None:
    from ttc_eval.sandbox.bubblewrap import Bubblewrap

    for path in ("/bin/true", "/bin/false", "/no/such/program"):
        with pytest.raises(SandboxFailed):
            run(Job("def f(): return 1", "f", ("assert candidate() == 1",)), Bubblewrap(path, user_namespace=True), SMALL)
        assert probe.holds(Bubblewrap(path, user_namespace=True)) is not None


def test_without_a_sandbox_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe.look() == probe.Found(None, probe.look().said)
    assert "apt install bubblewrap" in probe.look().said
    monkeypatch.setattr(probe, "find", probe.look)
    with pytest.raises(UserError, match="no sandbox to run code in: bubblewrap is not there"):
        probe.require()
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert "none for Darwin" in probe.look().said


def test_a_sandbox_that_leaks_is_not_used(sandbox: Sandbox) -> None:
    """Run without its limits, the probe's program says which wall is missing."""

    class Wide:
        name = "wide"

        def start(self, part: Any, task: Any, descriptors: Any, limits: Limits) -> Any:
            return sandbox.start(part, task, descriptors, replace(limits, processes=12))

    assert "processes are not limited" in str(probe.holds(Wide()))


def test_the_filter_is_made_for_known_processors_only() -> None:
    assert syscalls.program("x86_64") != syscalls.program("aarch64")
    assert syscalls.program("riscv64") is None


@pytest.mark.parametrize(
    "options", [{"cpu_seconds": 0}, {"wall_seconds": math.inf}, {"memory_mb": 1}, {"processes": 1}, {"disk_mb": 0}, {"files": 0}]
)
def test_senseless_limits_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Limits(**options)
