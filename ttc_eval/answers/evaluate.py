"""Values of expression trees: exact where they are rational, to many digits where they are not.

Two expressions are equal when their exact rational values are, or when they agree to 45 digits and go on agreeing
at 150 (constants), or at several points (free symbols). The error is relative, so that 1/30! and 1/31! differ. Every
operation is bounded before it is carried out, so that no power tower or factorial can take the process with it.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ttc_eval.answers.nodes import Node, TooLarge, Unsupported

MAX_BITS = 13_000
"""Largest numerator or denominator of an exact value; 3,913 decimal digits, below Python's limit for printing."""
MAX_FACTORIAL = 1_000
_MAX_MAGNITUDE = 50_000
_DIGITS, _MORE_DIGITS = 60, 200
_POINTS = 8
_local = threading.local()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart two equal values may be; both zero means exact."""

    rel: float = 0.0
    abs: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether nothing but equality counts."""
        return self.rel <= 0 and self.abs <= 0


EXACT = Tolerance()


def close(a: Fraction, b: Fraction, tolerance: Tolerance) -> bool:
    """Whether two exact values are equal, or within the tolerance. Symmetric: the larger magnitude scales `rel`."""
    if a == b or tolerance.exact:
        return a == b
    return abs(a - b) <= max(Fraction(tolerance.rel) * max(abs(a), abs(b)), Fraction(tolerance.abs))


def rational(node: Node) -> Fraction | None:
    """The exact value when it is rational by plain arithmetic; None when it is not, or is not known to be.

    Raises:
        TooLarge: the value is beyond exact arithmetic.
    """
    if node.op == "num":
        return node.value
    if node.op in ("sym", "const", "degree"):
        return None
    values = [rational(arg) for arg in node.args]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    result: Fraction | None = sum(known, Fraction(0)) if node.op == "add" else None
    if node.op in _RATIONAL:
        result = _RATIONAL[node.op](*known)
    if result is not None and max(result.numerator.bit_length(), result.denominator.bit_length()) > MAX_BITS:
        raise TooLarge(node.op)
    return result


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        root = _root(Fraction(exponent.denominator), base) if exponent.denominator <= 64 else None
        return None if root is None else _power(root, Fraction(exponent.numerator))
    if base == 0 and exponent <= 0:
        return Fraction(1) if exponent == 0 else None
    if abs(base) == 1 or base == 0:
        return base ** (exponent.numerator % 2 or 2)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * bits > 2 * MAX_BITS:
        raise TooLarge("power")
    return base**exponent.numerator


def _root(degree: Fraction, radicand: Fraction) -> Fraction | None:
    if radicand < 0 or degree.denominator != 1 or not 1 <= degree <= 64:
        return None
    n = degree.numerator
    top, bottom = _integer_root(radicand.numerator, n), _integer_root(radicand.denominator, n)
    return None if top is None or bottom is None else Fraction(top, bottom)


def _integer_root(value: int, n: int) -> int | None:
    low, high = 0, 1 << (value.bit_length() // n + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**n <= value else (low, middle - 1)
    return low if low**n == value else None


def _factorial(n: Fraction) -> Fraction | None:
    if n.denominator != 1 or n < 0:
        return None
    if n > MAX_FACTORIAL:
        raise TooLarge("factorial")
    return Fraction(math.factorial(n.numerator))


def _binomial(n: Fraction, k: Fraction) -> Fraction | None:
    if n.denominator != 1 or k.denominator != 1 or n < 0 or k < 0:
        return None
    if n > MAX_FACTORIAL:
        raise TooLarge("binomial")
    return Fraction(math.comb(n.numerator, k.numerator))


_RATIONAL: Mapping[str, Any] = {
    "neg": lambda a: -a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else None,
    "pow": _power,
    "root": _root,
    "fact": _factorial,
    "binom": _binomial,
    "abs": abs,
    "floor": lambda a: Fraction(math.floor(a)),
    "ceil": lambda a: Fraction(math.ceil(a)),
}


def symbols(node: Node) -> frozenset[str]:
    """The free symbols of an expression."""
    if node.op == "sym":
        return frozenset((node.name,))
    return frozenset().union(*(symbols(arg) for arg in node.args))


def same_value(a: Node, b: Node, tolerance: Tolerance = EXACT) -> bool:
    """Whether two expressions have the same value, for every value of their symbols.

    Raises:
        TooLarge, Unsupported: a value cannot be computed.
    """
    if a == b:
        return True
    exact_a, exact_b = rational(a), rational(b)
    if exact_a is not None and exact_b is not None:
        return close(exact_a, exact_b, tolerance)
    names = sorted(symbols(a) | symbols(b))
    if not names:
        return _agree(a, b, {}, tolerance)
    tried = 0
    for i in range(_POINTS):
        point = sample_point(names, i)
        try:
            if not _agree(a, b, point, tolerance):
                return False
            tried += 1
        except _OutOfDomain:
            continue
    if tried < 3:
        raise Unsupported("defined at too few points")
    return True


def sample_point(names: list[str], index: int) -> dict[str, Fraction]:
    """Values for the symbols, the same in every process: positive at even indices, of mixed sign at odd ones."""
    point = {}
    for name in names:
        bits = zlib.crc32(f"{name}:{index}".encode())
        value = Fraction(30_000 + bits % 270_007, 100_003)
        point[name] = -value if index % 2 and bits & (1 << 20) else value
    return point


def _agree(left: Node, right: Node, point: Mapping[str, Fraction], tolerance: Tolerance) -> bool:
    a, b = numeric(left, point, _DIGITS), numeric(right, point, _DIGITS)
    ctx = _context(_DIGITS)
    if ctx.isinf(a) or ctx.isinf(b):
        return bool(a == b)
    gap, scale = abs(a - b), max(abs(a), abs(b))
    if not tolerance.exact and gap <= max(ctx.mpf(tolerance.rel) * scale, ctx.mpf(tolerance.abs)):
        return True
    if gap > scale * ctx.mpf(10) ** -45 and scale > ctx.mpf(10) ** -45:
        return False
    fine_a, fine_b = numeric(left, point, _MORE_DIGITS), numeric(right, point, _MORE_DIGITS)
    fine = _context(_MORE_DIGITS)
    fine_gap, fine_scale = abs(fine_a - fine_b), max(abs(fine_a), abs(fine_b))
    # The second test is for values that are zero by cancellation: what is left shrinks as the digits grow.
    return bool(fine_gap <= fine_scale * fine.mpf(10) ** -150 or fine_gap <= fine.mpf(gap) * fine.mpf(10) ** -100)


class _OutOfDomain(Unsupported):
    """A real function met a point where it has no real value."""


def _context(digits: int) -> Any:
    """This thread's arithmetic of that many digits. mpmath's own global context is shared by all threads."""
    contexts = _local.__dict__.setdefault("contexts", {})
    if digits not in contexts:
        from mpmath.ctx_mp import MPContext  # here, since most answers never need it

        contexts[digits] = MPContext()
        contexts[digits].dps = digits
    return contexts[digits]


def numeric(node: Node, point: Mapping[str, Fraction], digits: int = _DIGITS) -> Any:
    """The value at a point, as an mpmath number of that many digits; complex values included.

    Raises:
        TooLarge: the value, or one on the way to it, is beyond bounds.
        Unsupported: it has no value there.
    """
    ctx = _context(digits)
    try:
        return _numeric(node, point, ctx)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _OutOfDomain(str(error)) from None


def _numeric(node: Node, point: Mapping[str, Fraction], ctx: Any) -> Any:
    op = node.op
    if op == "num":
        return ctx.mpf(node.value.numerator) / node.value.denominator
    if op == "sym":
        value = point[node.name]
        return ctx.mpf(value.numerator) / value.denominator
    if op == "const":
        return {"pi": +ctx.pi, "e": +ctx.e, "i": ctx.mpc(0, 1), "inf": ctx.inf}[node.name]
    args = [_numeric(arg, point, ctx) for arg in node.args]
    if op in ("root", "pow", "ln", "log", "arcsin", "arccos") and point:
        _stay_real(op, args, bool(symbols(node)))
    result = _apply(op, args, ctx)
    if ctx.isnan(result):
        raise _OutOfDomain("no value")
    if not ctx.isinf(result) and result != 0 and abs(ctx.mag(result)) > _MAX_MAGNITUDE:
        raise TooLarge(op)
    return result


def _stay_real(op: str, args: list[Any], depends: bool) -> None:
    """Rejects a point where a root, power or logarithm of a symbol leaves the reals: sqrt(a)sqrt(b) is sqrt(ab) where both exist."""
    inside = args[1] if op in ("root", "log") else args[0]
    whole = op == "pow" and args[1] == int(args[1].real)
    if depends and not whole and inside.imag == 0 and (inside.real < 0 or (op.startswith("arc") and abs(inside.real) > 1)):
        raise _OutOfDomain(op)


def _apply(op: str, args: list[Any], ctx: Any) -> Any:
    first = args[0]
    if op == "add":
        return sum(args[1:], first)
    if op == "pow":
        base, exponent = args
        if base != 0 and abs(exponent) * max(1, abs(ctx.mag(base))) > _MAX_MAGNITUDE:
            raise TooLarge(op)
        return base**exponent
    if op in ("fact", "exp", "sinh", "cosh", "tanh") and abs(first) > 20_000:
        raise TooLarge(op)
    if op == "root":
        return ctx.root(args[1], int(first)) if first == int(first.real) and first.real > 0 else args[1] ** (1 / first)
    if op == "log":
        return ctx.log(args[1]) / ctx.log(first)
    if op == "binom" and max(abs(args[0]), abs(args[1])) > 20_000:
        raise TooLarge(op)
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](*args)
    return getattr(ctx, _MPMATH_NAMES.get(op, op))(*args)  # sin, exp, floor, ... have the same name there


_ARITHMETIC: Mapping[str, Any] = {
    "neg": lambda a: -a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "abs": abs,
}
_MPMATH_NAMES = {
    "fact": "factorial", "binom": "binomial", "degree": "radians", "ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan"
}  # fmt: skip
