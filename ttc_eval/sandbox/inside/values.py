"""Plain data across a boundary of trust: JSON with a tag for what JSON lacks. Reading builds data and nothing else.

| tag | value | tag | value |
|---|---|---|---|
| `i` | an integer too large for JSON | `z` | frozenset |
| `f` | float, infinities and NaN as well | `d` | dict, as pairs |
| `c` | complex | `b`, `B` | bytes, bytearray |
| `l` | list | `r` | range |
| `t` | tuple | `q`, `x` | Fraction, Decimal |
| `s` | set | `g` | iterator, read to its end |
| | | `K`, `V`, `I` | views of a dict: keys, values, items |

A subclass travels as its base: what arrives has the equality of plain data, whatever the class of the sender said.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

_PLAIN_INTEGER = 1 << 53
_MOST_ITEMS = 100_000


class NotPlain(Exception):
    """A value that cannot be sent, or bytes that are no value."""


def dump(value: Any) -> str:
    """`value` as one line of text. Raises `NotPlain` for what is no plain data."""
    try:
        return json.dumps(_out(value), allow_nan=False)
    except RecursionError:
        raise NotPlain("a value that holds itself, or is nested too deeply") from None


def load(text: str | bytes) -> Any:
    """The value that `dump` wrote. Raises `NotPlain` for anything else."""
    try:
        return _in(json.loads(text))
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RecursionError, MemoryError):
        raise NotPlain("not a value") from None


def _out(value: Any) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__index__(value)
        return number if -_PLAIN_INTEGER < number < _PLAIN_INTEGER else ["i", hex(number)]
    if isinstance(value, float):
        return ["f", float.hex(value)]
    if isinstance(value, complex):
        return ["c", float.hex(value.real), float.hex(value.imag)]
    if isinstance(value, bytes | bytearray):
        return ["B" if isinstance(value, bytearray) else "b", value.hex()]
    if isinstance(value, range):
        return ["r", *(_out(part) for part in (value.start, value.stop, value.step))]
    if isinstance(value, dict):
        return ["d", *([_out(key), _out(item)] for key, item in value.items())]
    for kind, tag in ((list, "l"), (tuple, "t"), (set, "s"), (frozenset, "z"), (KeysView, "K"), (ValuesView, "V"), (ItemsView, "I")):
        if isinstance(value, kind):
            return [tag, *(_out(item) for item in value)]
    if isinstance(value, Iterator):
        items = [_out(item) for item in itertools.islice(value, _MOST_ITEMS + 1)]
        if len(items) > _MOST_ITEMS:
            raise NotPlain(f"an iterator of more than {_MOST_ITEMS} items")
        return ["g", *items]
    return _number(value)


def _number(value: Any) -> Any:
    from decimal import Decimal
    from fractions import Fraction

    if isinstance(value, Fraction):
        return ["q", _out(value.numerator), _out(value.denominator)]
    if isinstance(value, Decimal):
        return ["x", str(value)]
    raise NotPlain(f"a value of type {type(value).__name__}")


def _in(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if not isinstance(value, list):
        raise NotPlain("not a value")
    tag, *rest = value
    if tag in _LEAVES:
        return _LEAVES[tag](*rest)
    if tag == "d":
        return {_in(key): _in(item) for key, item in rest}
    return _COLLECTIONS[tag]([_in(item) for item in rest])


def _fraction(numerator: Any, denominator: Any) -> Any:
    from fractions import Fraction

    return Fraction(_in(numerator), _in(denominator))


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


_LEAVES: dict[str, Any] = {
    "i": lambda text: int(text, 16),
    "f": float.fromhex,
    "c": lambda real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "b": bytes.fromhex,
    "B": bytearray.fromhex,
    "r": lambda *parts: range(*(_in(part) for part in parts)),
    "q": _fraction,
    "x": _decimal,
}
_COLLECTIONS: dict[str, Any] = {
    "l": list,
    "t": tuple,
    "s": set,
    "z": frozenset,
    "g": iter,
    "K": lambda items: dict.fromkeys(items).keys(),
    "V": lambda items: dict(enumerate(items)).values(),
    "I": lambda items: dict(items).items(),
}
