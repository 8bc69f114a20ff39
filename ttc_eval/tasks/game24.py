"""Game of 24: make 24 from four numbers, each used once, with the four operations (Yao et al., arXiv 2305.10601).

A state is the numbers that are left. A move takes two of them and puts back what they make: `10 - 4 = 6`. All arithmetic is exact, so
8 / (3 - 8 / 3) is 24 and 23.9999 is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import JSON
from ttc_eval.tasks import arithmetic
from ttc_eval.tasks.arithmetic import NotArithmetic
from ttc_eval.tasks.base import IllegalMove, Verdict

TARGET = 24
_MOST_NUMBERS = 6
_LEFT = "Numbers left:"
_NUMBER = r"\(?(-?\d{1,9}(?:[./]\d{1,9})?)\)?"
_MOVE = re.compile(rf"{_NUMBER}\s*([-+*/])\s*{_NUMBER}\s*=\s*{_NUMBER}\s*(?:\(.*)?", re.ASCII)
# An expression at the beginning of a text, before what it is said to come to, the end of its sentence or prose.
_EXPRESSION = re.compile(r"([-+*/()\d\s]*[\d)])\s*(?=$|=|[.,;:](?:\s|$)|\s[A-Za-z(])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Left:
    """A number that is left: its value, and the expression of the given numbers that makes it."""

    value: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class Game24State:
    """The numbers that are left."""

    left: tuple[Left, ...]

    @property
    def key(self) -> str:
        """The values that are left, sorted."""
        return " ".join(str(value) for value in sorted(one.value for one in self.left))

    @property
    def moves_left(self) -> int:
        """Every move leaves one number less."""
        return len(self.left) - 1

    @property
    def terminal(self) -> bool:
        """Whether one number is left."""
        return len(self.left) == 1

    @property
    def solved(self) -> bool:
        """Whether that is 24."""
        return self.terminal and self.left[0].value == TARGET

    def moves(self) -> Iterator[tuple[str, Game24State]]:
        """`a op b = c` for every pair of values, either way round where that makes a difference."""
        seen: set[str] = set()
        for i, j in combinations(range(len(self.left)), 2):
            rest = tuple(one for place, one in enumerate(self.left) if place not in (i, j))
            for a, sign, b in _ways(self.left[i], self.left[j]):
                made = _made(a.value, sign, b.value)
                move = f"{a.value} {sign} {b.value} = {made}"
                if made is not None and move not in seen:
                    seen.add(move)
                    yield move, _after(rest, a, sign, b, made)

    def play(self, move: str) -> Game24State:
        """The state after `a op b = c`; what follows in brackets (`left: …`) is the model's own note and is not read."""
        found = _MOVE.fullmatch(arithmetic.plain_signs(move).strip())
        if found is None:
            raise IllegalMove("a move is written a op b = c, with op one of + - * /")
        first, sign, second, result = _exact(found[1]), found[2], _exact(found[3]), _exact(found[4])
        a, rest = _taken(self.left, first, found[1])
        b, rest = _taken(rest, second, found[3])
        made = _made(a.value, sign, b.value)
        if made is None:
            raise IllegalMove("it divides by zero")
        if made != result:
            raise IllegalMove(f"{found[1]} {sign} {found[3]} is {made}, not {found[4]}")
        return _after(rest, a, sign, b, made)

    def bound(self) -> str | None:
        """No bound is known that is cheaper than trying the moves."""
        return None

    def render(self) -> str:
        """`Numbers left: 4 5 24/5`."""
        return f"{_LEFT} {self.key}"

    def answer(self) -> str:
        """The expression that makes the last number."""
        return arithmetic.spelled(arithmetic.parse(self.left[-1].text))


@dataclass(frozen=True, slots=True)
class Game24:
    """The task. `given` holds the numbers, as a list or as text, in its one column, or in the one that is called `numbers`."""

    name: ClassVar[str] = "game24"
    moves_are: ClassVar[str] = "a op b = c, where a and b are two of the numbers left, op is one of + - * / and c is what they make"

    def start(self, given: JSON) -> Game24State:
        """The numbers of the puzzle."""
        return Game24State(tuple(Left(Fraction(number), str(number)) for number in _numbers(given)))

    def read(self, given: JSON, shown: str) -> Game24State:
        """The state with the numbers shown; how they were made is not known any more, so `answer` has nothing to say of them."""
        if not shown.startswith(_LEFT):
            raise ValueError("it does not say which numbers are left")
        values = [value for value in map(_exact, shown.removeprefix(_LEFT).split()) if value is not None]
        if not 1 <= len(values) <= len(_numbers(given)):
            raise ValueError("so many numbers cannot be left")
        return Game24State(tuple(Left(value, f"({value})") for value in values))

    def check(self, given: JSON, answer: str) -> Verdict:
        """Whether the expression uses every number once and comes to 24."""
        try:
            node = arithmetic.parse(_left_side(answer))
            made = arithmetic.value(node)
        except NotArithmetic as error:
            return Verdict(False, str(error))
        used, wanted = sorted(arithmetic.numbers(node)), sorted(_numbers(given))
        if used != wanted:
            return Verdict(False, f"it uses {' '.join(map(str, used))}, and the numbers are {' '.join(map(str, wanted))}")
        return Verdict(made == TARGET, f"it makes {made}")

    def canonical(self, answer: str) -> str | None:
        """The expression in one order, without needless brackets and without what it is said to come to."""
        try:
            node = arithmetic.parse(_left_side(answer))
            arithmetic.value(node)
        except NotArithmetic:
            return None
        return arithmetic.spelled(node)

    def find(self, text: str) -> str | None:
        """The expression at the beginning of the first line."""
        line = arithmetic.plain_signs(text.strip().partition("\n")[0][:400])
        found = _EXPRESSION.match(line.strip(" $*_`"))
        return None if found is None else found[1].strip()


def _numbers(given: JSON) -> list[int]:
    stated = given["numbers"] if "numbers" in given else next(iter(given.values()), None) if len(given) == 1 else None
    if isinstance(stated, str):
        stated = re.split(r"[\s,]+", stated.strip())
    try:
        found = [int(number) for number in stated or ()]
    except (TypeError, ValueError):
        found = []
    if not 2 <= len(found) <= _MOST_NUMBERS or any(not 0 <= number < 10**9 for number in found):
        raise UserError(
            f"answer.task=game24: dataset.given must name the column of the numbers, 2 to {_MOST_NUMBERS} whole ones; found {stated!r:.60}"
        )
    return found


def _left_side(answer: str) -> str:
    return answer.partition("=")[0]


def _exact(text: str) -> Fraction | None:
    try:
        return Fraction(text)
    except ZeroDivisionError:
        return None


def _taken(left: tuple[Left, ...], wanted: Fraction | None, written: str) -> tuple[Left, tuple[Left, ...]]:
    for place, one in enumerate(left):
        if one.value == wanted:
            return one, (*left[:place], *left[place + 1 :])
    raise IllegalMove(f"{written} is not left; {' '.join(str(one.value) for one in left) or 'nothing'} is")


def _made(a: Fraction, sign: str, b: Fraction) -> Fraction | None:
    if sign == "/":
        return None if b == 0 else a / b
    return a + b if sign == "+" else a - b if sign == "-" else a * b


def _ways(a: Left, b: Left) -> tuple[tuple[Left, str, Left], ...]:
    return (a, "+", b), (a, "-", b), (b, "-", a), (a, "*", b), (a, "/", b), (b, "/", a)


def _after(rest: tuple[Left, ...], a: Left, sign: str, b: Left, made: Fraction) -> Game24State:
    return Game24State((*rest, Left(made, f"({a.text} {sign} {b.text})")))
