"""Arithmetic as models write it: the four operations, brackets and whole numbers, worked out exactly. Nothing is ever evaluated as code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_MAX_LENGTH = 400
_MAX_NUMBERS = 32
_MAX_DEPTH = 24
_TOKEN = re.compile(r"\s*(?:(\d{1,12})(?!\d)|([-+*/()]))", re.ASCII)
_SIGNS = str.maketrans({"×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-", "—": "-"})
_LETTER = re.compile(r"(?<=[\d)])\s{0,3}[xX]\s{0,3}(?=[\d(])")
_COMMANDS = {r"\times": "*", r"\cdot": "*", r"\div": "/", r"\left": "", r"\right": ""}


class NotArithmetic(ValueError):
    """A text is no expression of the four operations, or divides by zero."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number, as it stands in the expression."""

    value: int


@dataclass(frozen=True, slots=True)
class Chain:
    """A sum (`product` False) or a product of parts; a part that is `undone` is subtracted or divided by."""

    product: bool
    parts: tuple[tuple[bool, Node], ...]


Node = Number | Chain


def plain_signs(text: str) -> str:
    """`text` with the many signs for the four operations written as `+ - * /`."""
    for command, sign in _COMMANDS.items():
        text = text.replace(command, sign)
    return _LETTER.sub("*", text.translate(_SIGNS))


def parse(text: str) -> Node:
    """The expression that `text` is. Raises `NotArithmetic` when it is anything else, or too long to be one."""
    if len(text) > _MAX_LENGTH:
        raise NotArithmetic("it is too long to be an expression")
    tokens, place = [], 0
    text = plain_signs(text).strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise NotArithmetic("it is not an expression of the four operations")
        tokens.append(found[1] or found[2])
        place = found.end()
    reader = _Reader(tokens)
    node = reader.sum(0)
    if reader.place != len(tokens) or len(numbers(node)) > _MAX_NUMBERS:
        raise NotArithmetic("it is not an expression of the four operations")
    return node


@dataclass(slots=True)
class _Reader:
    tokens: list[str]
    place: int = 0

    def sum(self, depth: int) -> Node:
        """Terms with `+` and `-` between them."""
        return self._chain(depth, product=False)

    def _chain(self, depth: int, *, product: bool) -> Node:
        signs = ("*", "/") if product else ("+", "-")
        parts = [(False, self._part(depth, product))]
        while self._next() in signs:
            undone = self._take() == signs[1]
            parts.append((undone, self._part(depth, product)))
        return parts[0][1] if len(parts) == 1 else Chain(product, tuple(parts))

    def _part(self, depth: int, product: bool) -> Node:
        return self._factor(depth) if product else self._chain(depth, product=True)

    def _factor(self, depth: int) -> Node:
        token = self._take()
        if depth > _MAX_DEPTH:
            raise NotArithmetic("it is nested too deeply")
        if token == "-":
            return Chain(False, ((True, self._factor(depth + 1)),))
        if token == "(":
            inside = self.sum(depth + 1)
            if self._take() != ")":
                raise NotArithmetic("a bracket is not closed")
            return inside
        if token is None or not token.isdigit():
            raise NotArithmetic("it is not an expression of the four operations")
        return Number(int(token))

    def _next(self) -> str | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def _take(self) -> str | None:
        self.place += 1
        return self.tokens[self.place - 1] if self.place <= len(self.tokens) else None


def value(node: Node) -> Fraction:
    """What an expression comes to. Raises `NotArithmetic` when it divides by zero."""
    if isinstance(node, Number):
        return Fraction(node.value)
    total = Fraction(1 if node.product else 0)
    for undone, part in node.parts:
        worth = value(part)
        if not node.product:
            total += -worth if undone else worth
        elif not undone:
            total *= worth
        elif worth == 0:
            raise NotArithmetic("it divides by zero")
        else:
            total /= worth
    return total


def numbers(node: Node) -> list[int]:
    """The numbers that an expression is made of, in its order."""
    return [node.value] if isinstance(node, Number) else [found for _, part in node.parts for found in numbers(part)]


def spelled(node: Node) -> str:
    """One spelling for expressions that differ in order and needless brackets only. It has the same numbers and the same value."""
    return _spelled(_flat(node))


def _flat(node: Node) -> Node:
    """`node` with sums inside sums and products inside products opened up, each in one order."""
    if isinstance(node, Number):
        return node
    parts: list[tuple[bool, Node]] = []
    for undone, part in ((undone, _flat(part)) for undone, part in node.parts):
        if isinstance(part, Chain) and part.product == node.product:
            parts += [(undone != inner_undone, inner) for inner_undone, inner in part.parts]
        else:
            parts.append((undone, part))
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    return Chain(node.product, tuple(sorted(parts, key=lambda one: (one[0], _order(one[1])))))


def _order(node: Node) -> tuple[int, int, str]:
    return (0, node.value, "") if isinstance(node, Number) else (1, 0, _spelled(node))


def _spelled(node: Node) -> str:
    if isinstance(node, Number):
        return str(node.value)
    done, undone = ("*", "/") if node.product else ("+", "-")
    texts = []
    for place, (is_undone, part) in enumerate(node.parts):
        # A minus binds to the number after it, so a product that is subtracted from nothing needs brackets.
        bare = isinstance(part, Number) or (part.product and not node.product and not (is_undone and place == 0))
        text = _spelled(part) if bare else f"({_spelled(part)})"
        sign = undone if is_undone else done
        texts.append((f"-{text}" if is_undone else text) if place == 0 else f" {sign} {text}")
    return "".join(texts)
