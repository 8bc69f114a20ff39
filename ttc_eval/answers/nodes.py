"""The tree of an expression, and the exact value of a numeral."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

MAX_EXPONENT_DIGITS = 3_900
"""Decimal exponents beyond this are too large for exact arithmetic (and for Python's own int-to-str limit)."""


class Unsupported(Exception):
    """The text is no expression that this parser knows."""


class TooLarge(Unsupported):
    """The expression is understood, and its value is too large to be computed."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of an expression tree.

    `op` is `num` (with `value`), `sym` or `const` (with `name`), or an operation on `args`: `add`, `mul`, `div`, `neg`,
    `pow`, `fact`, `abs`, `floor`, `ceil`, `binom`, `root` (degree, radicand), `log` (base, argument), or a function's name.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: Fraction = Fraction(0)
    name: str = ""


def number(value: int | Fraction) -> Node:
    """A number as a tree."""
    return Node("num", value=Fraction(value))


def decimal(token: str) -> Fraction:
    """The exact value of an unsigned or signed decimal literal, with or without an exponent.

    Raises:
        TooLarge: the exponent or the digits are beyond what is computed exactly.
    """
    mantissa, _, exponent = token.replace("E", "e").partition("e")
    if len(mantissa) > MAX_EXPONENT_DIGITS or len(exponent) > 12 or abs(int(exponent or 0)) > MAX_EXPONENT_DIGITS:
        raise TooLarge(token[:20])
    return Fraction(mantissa) * Fraction(10) ** int(exponent or 0)
