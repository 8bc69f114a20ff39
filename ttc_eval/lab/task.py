"""The task of the lab model: chained arithmetic modulo 100, evaluated from left to right.

A problem is a chain such as `37+8-5*3`; its difficulty is its number of steps, 1 to 12. The answer is exact, and so is the
check of every step of a scratchpad. Which split a chain belongs to follows from a hash of the chain itself, so that
training can never meet a problem of `dev` or `heldout`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Operator = Literal["+", "-", "*"]
OPERATORS: tuple[Operator, ...] = ("+", "-", "*")
MODULUS = 100
MAX_STEPS = 12
STEP_TOKENS = 8
WAIT = "Wait"

_CHAIN = re.compile(r"(?<![\d+*-])(\d{2})((?:[+*-]\d){1,12})(?![\d+*-])")
_STEP = re.compile(r"(\d{2})([+*-])(\d)=(\d{2});")


class Split(StrEnum):
    """Who may see a chain."""

    TRAIN = "train"
    VERIFIER = "verifier"
    DEV = "dev"
    HELDOUT = "heldout"


@dataclass(frozen=True, slots=True)
class Chain:
    """A starting value in [0, 100) and the steps taken from it, each an operator and a digit."""

    start: int
    steps: tuple[tuple[Operator, int], ...]

    def __post_init__(self) -> None:
        if not 0 <= self.start < MODULUS or not 1 <= len(self.steps) <= MAX_STEPS:
            raise ValueError(f"no chain: it starts in [0, {MODULUS}) and has 1 to {MAX_STEPS} steps")
        if any(operator not in OPERATORS or not 0 <= operand <= 9 for operator, operand in self.steps):
            raise ValueError("no chain: a step is one of + - * and a digit")

    def __str__(self) -> str:
        return f"{self.start:02d}" + "".join(f"{operator}{operand}" for operator, operand in self.steps)

    @property
    def values(self) -> tuple[int, ...]:
        """The value after each step; the last is the answer."""
        values = []
        value = self.start
        for operator, operand in self.steps:
            value = apply(value, operator, operand)
            values.append(value)
        return tuple(values)

    @property
    def answer(self) -> int:
        """The value after the last step."""
        return self.values[-1]

    @property
    def split(self) -> Split:
        """Where this chain belongs, by a hash of its text: 5 % dev, 5 % heldout, 10 % verifier training, the rest training."""
        share = int.from_bytes(hashlib.blake2b(str(self).encode(), digest_size=4).digest()) % 20
        return (Split.DEV, Split.HELDOUT, Split.VERIFIER, Split.VERIFIER)[share] if share < 4 else Split.TRAIN


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """One written step. `right`: it takes up the value before it, does what the chain says, and its result is exact."""

    text: str
    right: bool


def apply(value: int, operator: Operator, operand: int) -> int:
    """`value` after one step, modulo 100."""
    if operator == "+":
        return (value + operand) % MODULUS
    if operator == "-":
        return (value - operand) % MODULUS
    return value * operand % MODULUS


def parse(text: str) -> Chain:
    """The last chain in `text`. Raises ValueError when there is none."""
    found = _CHAIN.findall(text)
    if not found:
        raise ValueError(f"no chain of 1 to {MAX_STEPS} steps such as 37+8-5*3 in {text!r}")
    start, steps = found[-1]
    return Chain(int(start), tuple((steps[i], int(steps[i + 1])) for i in range(0, len(steps), 2)))


def scratchpad(chain: Chain) -> str:
    """The exact scratchpad of a chain, eight characters a step: `37+8=45;45-5=40;40*3=20;`."""
    before = (chain.start, *chain.values)
    return "".join(
        f"{value:02d}{operator}{operand}={result:02d};"
        for value, (operator, operand), result in zip(before, chain.steps, chain.values, strict=False)
    )


def check_steps(chain: Chain, written: str) -> tuple[CheckedStep, ...]:
    """Each step of a written scratchpad with its verdict, given the value that the step before it wrote.

    A step is judged on its own: one that goes on rightly from a wrong value is right. Steps that are not written as steps,
    or that go beyond the chain, are wrong; an unfinished last step is left out. After `Wait` the chain begins anew.
    """
    return tuple(step for attempt in written.split(WAIT) for step in _checked(chain, attempt))


def _checked(chain: Chain, written: str) -> Iterator[CheckedStep]:
    value = chain.start
    for place, text in enumerate(written.split(";")[:-1]):
        found = _STEP.fullmatch(text + ";")
        if found is None:
            yield CheckedStep(text + ";", False)
            continue
        before, result = int(found[1]), int(found[4])
        known = place < len(chain.steps)
        right = known and before == value and (found[2], int(found[3])) == chain.steps[place]
        yield CheckedStep(text + ";", right and result == apply(before, *chain.steps[place]))
        value = result
