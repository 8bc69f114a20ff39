"""Exact numbers as people write them. Every function takes microseconds and raises nothing.

What a unit means is decided here, once: a number's unit, currency or percent sign is part of how it is written, not
of its value, since the question states what is asked for. So under `number`, `42 meters`, `$42` and `42 %` are 42,
and `50 %` is 50, never 0.5.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ttc_eval.answers.evaluate import MAX_BITS
from ttc_eval.answers.latex import clean, plain_words
from ttc_eval.answers.nodes import TooLarge, decimal

_INT64 = (-(2**63), 2**63 - 1)
GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Go's `strings.TrimSpace` removes. Python's `str.strip` removes U+001C to U+001F as well."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_PLAIN = re.compile(rf"[+-]?{_DECIMAL}")
_VALUE = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)?\\frac(?:\{{(?P<top>-?{_DECIMAL})\}}|(?P<t1>[0-9]))(?:\{{(?P<bottom>{_DECIMAL})\}}|(?P<b1>[0-9]))"
    rf"|(?P<a>{_DECIMAL})(?:/(?P<b>{_DECIMAL}))?(?:\*10\^(?:\{{(?P<power>-?[0-9]+)\}}|(?P<p1>-?[0-9]+)))?)"
)
_PREFIX = re.compile(r"(?:(?P<name>[A-Za-z])=)?(?P<sign>[+-]?)(?:\\\$|[€£¥₹]|USD |US\\\$)?(?=[-+0-9.\\])")
_UNIT = re.compile(r"(?:%|\^\\circ ?[CF]?|[A-Za-z]+(?:\^\{?[0-9]\}?)?|/(?=[A-Za-z])|[ €£¥₹]|\\\$)*")
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NOT_UNITS = frozenset(
    (
        "and", "or", "to", "because", "since", "plus", "minus", "times", "by", "is", "not", "if", "but", "so", "e", "i", "pi",
        "k", "K", "M", "B",
    )
)  # fmt: skip


def parse_int64(text: str) -> int | None:
    """`strconv.ParseInt(strings.TrimSpace(text), 10, 64)` of Go; None where that is an error.

    Source: the bounded self-consistency controller, see docs/strategies.md.
    """
    text = text.strip(GO_SPACE)
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 19:
        return None
    value = int(digits or "0") * (-1 if text[0] == "-" else 1)
    return value if _INT64[0] <= value <= _INT64[1] else None


def looks_like_integer(text: str) -> bool:
    """Whether the text is digits with an optional sign, of any size."""
    return _INTEGER.fullmatch(text.strip(GO_SPACE)) is not None


def parse_number(text: str) -> Fraction | None:
    """The exact value of one number with its unit, or None.

    Decimals, thousands separators, fractions (`1/2`, `\\frac{1}{2}`), mixed numbers, scientific notation, scale words
    (`5 million`). `nan`, `inf` and numbers of more than about 3,900 digits are not numbers here.
    """
    text = text.strip(GO_SPACE)
    try:
        if _PLAIN.fullmatch(text):
            return _bounded(_signed(text))
        return _bounded(_general(clean(text)))
    except (TooLarge, ZeroDivisionError):
        return None


def _general(text: str) -> Fraction | None:
    prefix = _PREFIX.match(text)
    if not prefix:
        return None
    rest = text[prefix.end() :]
    if rest.startswith("10^"):
        rest = "1*" + rest
    match = _VALUE.match(rest)
    if not match:
        return None
    scale = _scale(rest[match.end() :])
    if scale is None:
        return None
    value = _value(match)
    return None if value is None else value * scale * (-1 if prefix["sign"] == "-" else 1)


def _value(match: re.Match[str]) -> Fraction | None:
    group = match.groupdict()
    top, bottom = group["top"] or group["t1"], group["bottom"] or group["b1"]
    if top is not None and bottom is not None:
        value = _signed(top) / decimal(bottom)
        if group["whole"] is not None:
            if not 0 < value < 1:
                return None  # 3\frac{7}{2} is a product, not a mixed number
            value += decimal(group["whole"])
    else:
        value = decimal(group["a"])
        if group["b"] is not None:
            value /= decimal(group["b"])
        power = group["power"] or group["p1"]
        if power is not None:
            value *= decimal(f"1e{power}")
    return -value if group["sign"] == "-" else value


def _scale(unit: str) -> int | None:
    """The factor of a unit (1, or that of a scale word); None when the text is no unit."""
    if not unit:
        return 1
    unit = unit.replace(r"\text", " ").replace("{", " ").replace("}", " ") if r"\text" in unit else unit
    if len(unit) > 60 or not _UNIT.fullmatch(unit):
        return None
    words = re.findall(r"[A-Za-z]+", unit)
    if len(words) > 4 or any(word in _NOT_UNITS for word in words):
        return None
    return _SCALES.get(plain_words(words[0]), 1) if words else 1


def _signed(token: str) -> Fraction:
    value = decimal(token.lstrip("+-"))
    return -value if token[0] == "-" else value


def _bounded(value: Fraction | None) -> Fraction | None:
    if value is None or max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        return None
    return value
