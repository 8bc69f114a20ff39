r"""What an answer is: a value, a list, a tuple or interval, a set, an equation, a matrix, words.

`parse_answer` splits the cleaned text at its top level and leaves the expressions to `expression`. `\pm` stands for
two values and becomes a list of both. What is not understood stays `Opaque`, text that only equals itself here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ttc_eval.answers.expression import MAX_LENGTH, parse_expression
from ttc_eval.answers.latex import plain_words
from ttc_eval.answers.nodes import Node, TooLarge, Unsupported, number
from ttc_eval.answers.units import unit_name


@dataclass(frozen=True, slots=True)
class Value:
    """An expression."""

    node: Node


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, lower case."""

    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """Mathematics that this package does not read."""

    text: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with a unit; `%`, currencies, degrees and number bases are units too."""

    value: Shape
    unit: str


@dataclass(frozen=True, slots=True)
class Group:
    """Several answers. `kind`: `list` (no brackets), `set`, `union`, `matrix`, `row`, or the brackets, as in `(]`."""

    kind: str
    items: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    r"""`name = value`, `name \in value`, or a one-sided inequality of `name` as its interval."""

    name: str
    value: Shape


@dataclass(frozen=True, slots=True)
class Relation:
    """An equation or a chain of inequalities: one more side than operators."""

    operators: tuple[str, ...]
    sides: tuple[Node, ...]


Shape = Value | Words | Opaque | Measured | Group | Assigned | Relation

_LETTERS = re.compile(r"[A-Za-z]+(?:[ ']+[A-Za-z]*|-[A-Za-z]{3,})*")
_PRODUCT = re.compile(r"[A-Za-z](?: [A-Za-z])*|[abc]{2,3}|[b-df-hj-np-tv-z]{2,3}|pi")
_OPEN, _CLOSE = "([{", ")]}"
_OPERATOR = re.compile(r"<=|>=|!=|[=<>]|\\(?:le|ge|ne|in)(?![A-Za-z])")
_OPERATORS = {"<=": r"\le", ">=": r"\ge", "!=": r"\ne", "<": "<", ">": ">"}
_COMMA = re.compile(r",")
_AND_OR = re.compile(r",?(?:\\text\{(?:and|or)\}| ?(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]) ?)|,|;")
_OR = re.compile(r"\\cup(?![A-Za-z])|\\text\{or\}| ?(?<![A-Za-z\\])or(?![A-Za-z]) ?")
_MATRIX = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[clr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_LETTER = r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|theta|lambda|mu|phi|rho|omega))(?:_\{?[A-Za-z0-9]\}?)?"
_NAME = re.compile(rf"{_LETTER}(?:\([a-z]\))?'?|\({_LETTER}(?:,{_LETTER}){{1,4}}\)")
_BASE = re.compile(r"([0-9]+)_(?:\{([0-9]{1,2})\}|([0-9]))")
_MONEY = re.compile(r"(-?)(\\\$|[€£¥₹])(-?.*)", re.DOTALL)
_TEXT_UNIT = re.compile(r"(.*?[^\\{])\\text\{([A-Za-z][A-Za-z ./-]*)\}((?:\^\{?[0-9]\}?)?)", re.DOTALL)
_WORD_UNIT = re.compile(
    r"(.*[0-9})]) ?((?<![A-Za-z\\])(?:[A-Za-z]{3,}|cm|mm|km|ft|kg|lb|mL|in|yd|mi|hr)(?: [A-Za-z]+){0,3})((?:\^\{?[0-9]\}?)?)", re.DOTALL
)
_NO_UNIT = frozenset(
    (
        "and", "or", "sin", "cos", "tan", "cot", "sec", "csc", "log", "sqrt", "exp", "abs", "arcsin", "arccos", "arctan", "sinh",
        "cosh", "tanh",
    )
)  # fmt: skip
_FUNCTION = re.compile(r"(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_BUILDER = re.compile(rf" ?{_LETTER} ?[|:]")
_MAX_ITEMS = 64
INFINITY = Node("const", name="inf")


def parse_answer(text: str) -> Shape:
    """The shape of an answer that has been through `latex.clean`. Never fails: the last resort is `Opaque`."""
    if len(text) > MAX_LENGTH:
        return Opaque(text)
    try:
        return _answer(text, 0)
    except TooLarge:
        return Opaque(text)
    except (Unsupported, RecursionError):
        return Opaque(text) if re.search(r"[\\^_=+<>]", text) else Words(plain_words(text))


def _answer(text: str, depth: int) -> Shape:
    if not text or depth > 8:
        raise Unsupported("empty or nested too deeply")
    if _LETTERS.fullmatch(text) and not _PRODUCT.fullmatch(text):
        return _words(text)
    if r"\pm" in text or r"\mp" in text:
        return _plus_minus(text, depth)
    relational = _OPERATOR.search(text) is not None
    parts = split(text, _OR) if r"\cup" in text or relational else [text]
    if len(parts) > 1:
        return _joined([_answer(part, depth + 1) for part in parts], "union")
    parts = split(text, _COMMA if r"\{" in text and not text.startswith(r"\{") else _AND_OR)
    if len(parts) > 1:
        return _joined([_answer(part, depth + 1) for part in parts], "list")
    if relational and not (text.startswith((r"\{", "(", "[")) and text.endswith((")", "]", r"\}")) and len(split(text, _OPERATOR)) < 2):
        return _relation(text, depth)
    return _single(text, depth)


def _words(text: str) -> Shape:
    parts = [part for part in _AND_OR.split(text) if part.strip()]
    return Words(plain_words(text)) if len(parts) < 2 else Group("list", tuple(Words(plain_words(part)) for part in parts[:_MAX_ITEMS]))


def _plus_minus(text: str, depth: int) -> Shape:
    items = _inside(text, r"\{", r"\}")
    parts = split(text if items is None else items, _AND_OR)
    if len(parts) > 1 or items is not None:
        shapes = [_answer(part, depth + 1) for part in parts]
        return Group("list" if items is None else "set", _flat(shapes))
    upper = text.replace(r"\pm", "+").replace(r"\mp", "-")
    lower = text.replace(r"\pm", "-").replace(r"\mp", "+")
    return _joined([_answer(upper, depth + 1), _answer(lower, depth + 1)], "list")


def _flat(shapes: list[Shape]) -> tuple[Shape, ...]:
    items = [item for shape in shapes for item in (shape.items if isinstance(shape, Group) and shape.kind == "list" else (shape,))]
    if len(items) > _MAX_ITEMS:
        raise Unsupported("too many items")
    return tuple(items)


def _joined(shapes: list[Shape], kind: str) -> Shape:
    """A list or union. `x=1, x=2` and `x=1, 2` assign the list to `x`; `x=2 or x=3` is a list, not a union."""
    names = {shape.name for shape in shapes if isinstance(shape, Assigned)}
    first = shapes[0]
    if len(names) == 1 and isinstance(first, Assigned) and kind == "list" and not any(isinstance(s, Assigned) for s in shapes[1:]):
        return Assigned(first.name, Group(kind, _flat([first.value, *shapes[1:]])))
    if len(names) == 1 and all(isinstance(shape, Assigned) for shape in shapes):
        return Assigned(names.pop(), _joined([shape.value for shape in shapes if isinstance(shape, Assigned)], kind))
    if kind == "union" and not any(isinstance(shape, Group) for shape in shapes):
        kind = "list"
    return Group(kind, _flat(shapes))


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts of `text` between separators that stand outside all brackets. Brackets need not match in kind: `(3,4]`."""
    parts, start, level, i = [], 0, 0, 0
    while i < len(text):
        char = text[i]
        if level == 0 and (match := separator.match(text, i)) and match.end() > i:
            parts.append(text[start:i].strip())
            start = i = match.end()
            continue
        if text.startswith((r"\begin{", r"\langle"), i):
            level += 1
        elif text.startswith((r"\end{", r"\rangle"), i):
            level -= 1
        level += (char in _OPEN) - (char in _CLOSE)
        i += 1
    return [*parts, text[start:].strip()]


def _relation(text: str, depth: int) -> Shape:
    parts = split(text, _OPERATOR)
    operators, at = [], 0
    for part in parts[:-1]:
        at = text.index(part, at) + len(part)
        match = _OPERATOR.search(text, at)
        operators.append(match.group() if match else "=")
        at = match.end() if match else at
    operators = [_OPERATORS.get(operator, operator) for operator in operators]
    if not operators:
        return _single(text, depth)
    if len(operators) == 1 and operators[0] in ("=", r"\in") and _NAME.fullmatch(parts[0]):
        return Assigned(parts[0], _answer(parts[1], depth + 1))
    if r"\in" in operators:
        raise Unsupported("membership")
    if len(operators) > 1 and set(operators) == {"="} and _NAME.fullmatch(parts[0]):
        return Assigned(parts[0], _answer(parts[-1], depth + 1))  # x = 3+4 = 7 gives the value last
    relation = Relation(tuple(operators), tuple(parse_expression(part) for part in parts))
    return _interval(relation) or relation


def _interval(relation: Relation) -> Shape | None:
    """`x < 2` as `x` in (-oo, 2), `1 <= x < 2` as `x` in [1, 2); None for any other relation."""
    operators, sides = relation.operators, relation.sides
    if any(op in (">", r"\ge") for op in operators):
        operators = tuple({">": "<", r"\ge": r"\le", "<": ">", r"\le": r"\ge"}.get(op, op) for op in reversed(operators))
        sides = tuple(reversed(sides))
    if any(op not in ("<", r"\le") for op in operators):
        return None
    if len(sides) == 2:
        below = sides[0].op == "sym"
        sides = (Node("neg", (INFINITY,)), *sides) if below else (*sides, INFINITY)
        operators = ("<", *operators) if below else (*operators, "<")
    if len(sides) != 3 or sides[1].op != "sym" or sides[0].op == "sym" or sides[2].op == "sym":
        return None
    kind = ("[" if operators[0] == r"\le" else "(") + ("]" if operators[1] == r"\le" else ")")
    return Assigned(sides[1].name, Group(kind, (Value(sides[0]), Value(sides[2]))))


def _inside(text: str, opener: str, closer: str) -> str | None:
    if not (text.startswith(opener) and text.endswith(closer) and len(text) >= len(opener) + len(closer)):
        return None
    inner = text[len(opener) : len(text) - len(closer)]
    level = 0
    for char in inner:
        level += (char in _OPEN) - (char in _CLOSE)
        if level < 0:
            return None
    return inner


def _single(text: str, depth: int) -> Shape:
    if text in (r"\emptyset", r"\{\}"):
        return Group("set", ())
    if matrix := _MATRIX.fullmatch(text):
        rows = [row.split("&") for row in matrix.group(2).split("\\\\") if row.strip()]
        return Group("matrix", tuple(Group("row", tuple(_answer(cell.strip(), depth + 1) for cell in row)) for row in rows[:_MAX_ITEMS]))
    if text in (r"\mathbb{R}", r"\R"):
        return Group("()", (Value(Node("neg", (INFINITY,))), Value(INFINITY)))
    inner = _inside(text, r"\{", r"\}")
    if inner is not None and (condition := _BUILDER.match(inner)):
        shape = _answer(inner[condition.end() :].strip(), depth + 1)
        if isinstance(shape, Assigned):
            return shape.value
        raise Unsupported("set by a condition")
    if inner is None and "," in text:
        inner = _inside(text, "{", "}")
    if inner is not None:
        return Group("set", _flat([_answer(part, depth + 1) for part in split(inner, _AND_OR)]))
    if text[0] in "([" and text[-1] in ")]" and (inner := _inside(text, text[0], text[-1])) is not None:
        parts = split(inner, _COMMA)
        if len(parts) > 1:
            return Group(text[0] + text[-1], tuple(_answer(part, depth + 1) for part in parts[:_MAX_ITEMS]))
        if _LETTERS.fullmatch(inner):
            return _answer(inner, depth + 1)
    inner = _inside(text, r"\langle", r"\rangle")
    if inner is not None:
        return Group("()", tuple(_answer(part, depth + 1) for part in split(inner, _COMMA)))
    return _measured(text, depth) or Value(parse_expression(text))


def _measured(text: str, depth: int) -> Shape | None:
    if base := _BASE.fullmatch(text):
        return Measured(Value(number(int(base.group(1)[:1000]))), f"base {base.group(2) or base.group(3)}")
    if (money := _MONEY.fullmatch(text)) and money.group(3):
        return Measured(_answer(money.group(1) + money.group(3), depth + 1), unit_name(money.group(2)))
    for suffix, unit in (("%", "%"), (r"^\circ", "degree"), (r"^\circ C", "celsius"), (r"^\circ F", "fahrenheit")):
        if text.endswith(suffix) and len(text) > len(suffix) and not _FUNCTION.search(text):
            return Measured(_answer(text[: -len(suffix)].strip(), depth + 1), unit)
    match = _TEXT_UNIT.fullmatch(text) or _WORD_UNIT.fullmatch(text)
    if match and match.group(2).split()[0] not in _NO_UNIT:
        return Measured(_answer(match.group(1).strip(), depth + 1), unit_name(match.group(2) + match.group(3)))
    return None
