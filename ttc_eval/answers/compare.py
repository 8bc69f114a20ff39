"""When two answers of kind `math` are the same. Pure functions over shapes; symmetric by construction.

Units. An answer with a unit equals the same value without one, since the question states what is asked for; two
different units are two different answers. A per cent sign is such a unit, and it has a meaning of its own: `50 %`
equals `50` and equals `0.5`, while `50` and `0.5` differ. Equality is therefore not transitive where a unit is left
out, and `AnswerClasses` lets an answer into a class only when it equals every member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from ttc_eval.answers.evaluate import EXACT, Tolerance, numeric, same_value, sample_point, symbols
from ttc_eval.answers.nodes import Node, TooLarge, Unsupported, number
from ttc_eval.answers.shapes import Assigned, Group, Measured, Opaque, Relation, Shape, Value, Words

_UNORDERED = ("list", "set", "union")


def same_shape(a: Shape, b: Shape, tolerance: Tolerance = EXACT) -> bool | None:
    """Whether two answers are the same; None when that is beyond this package's own reading."""
    try:
        return _same(a, b, tolerance)
    except TooLarge:
        return False  # not shown equal; a slower tool would only hang on it
    except Unsupported:
        return None


def _same(a: Shape, b: Shape, tolerance: Tolerance) -> bool:
    if a == b:
        return True
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        raise Unsupported("opaque")
    if isinstance(a, Measured) or isinstance(b, Measured):
        return _same_measured(a, b, tolerance)
    if isinstance(a, Assigned) or isinstance(b, Assigned):
        return _same_assigned(a, b, tolerance)
    if isinstance(a, Relation) and isinstance(b, Relation):
        return _same_relation(a, b)
    if isinstance(a, Group) and isinstance(b, Group):
        return _same_group(a, b, tolerance)
    if isinstance(a, Value) and isinstance(b, Value):
        return same_value(a.node, b.node, tolerance)
    return False


def _same_measured(a: Shape, b: Shape, tolerance: Tolerance) -> bool:
    if isinstance(a, Measured) and isinstance(b, Measured):
        return a.unit == b.unit and _same(a.value, b.value, tolerance)
    measured, bare = (a, b) if isinstance(a, Measured) else (b, a)
    if not isinstance(measured, Measured) or isinstance(bare, Words):
        return False
    if _same(measured.value, bare, tolerance):
        return True
    if measured.unit == "%" and isinstance(measured.value, Value) and isinstance(bare, Value):
        return same_value(Node("div", (measured.value.node, number(100))), bare.node, tolerance)
    return False


def _same_assigned(a: Shape, b: Shape, tolerance: Tolerance) -> bool:
    if isinstance(a, Assigned) and isinstance(b, Assigned):
        if a.name == b.name:
            return _same(a.value, b.value, tolerance)
        return _same_relation(as_equation(a), as_equation(b)) if _is_equation(a) and _is_equation(b) else False
    assigned, other = (a, b) if isinstance(a, Assigned) else (b, a)
    if not isinstance(assigned, Assigned):
        return False
    if isinstance(other, Relation):
        return _is_equation(assigned) and _same_relation(as_equation(assigned), other)
    return _same(assigned.value, other, tolerance)


def _is_equation(a: Assigned) -> bool:
    return isinstance(a.value, Value) and len(a.name) == 1


def as_equation(a: Assigned) -> Relation:
    """`y = 2x + 3` as an equation of two sides."""
    assert isinstance(a.value, Value)
    return Relation(("=",), (Node("sym", name=a.name), a.value.node))


def _same_relation(a: Relation, b: Relation) -> bool:
    """Equations and inequalities are the same when their difference of sides is the same up to a factor (positive for an inequality)."""
    if len(a.operators) != len(b.operators):
        return False
    a, b = _ascending(a), _ascending(b)
    if a.operators != b.operators:
        return False
    signed = a.operators[0] not in ("=", r"\ne")
    return all(
        _proportional(_difference(left), _difference(right), positive=signed)
        for left, right in zip(pairwise(a.sides), pairwise(b.sides), strict=True)
    )


def _ascending(relation: Relation) -> Relation:
    flip = {">": "<", r"\ge": r"\le"}
    if not any(op in flip for op in relation.operators):
        return relation
    return Relation(tuple(flip.get(op, op) for op in reversed(relation.operators)), tuple(reversed(relation.sides)))


def _difference(sides: tuple[Node, Node]) -> Node:
    return Node("add", (sides[0], Node("neg", (sides[1],))))


def _proportional(f: Node, g: Node, *, positive: bool) -> bool:
    names = sorted(symbols(f) | symbols(g))
    if not names:
        return same_value(f, g)
    ratios = []
    for i in range(0, 12, 2):  # the even points are positive, so that roots stay real
        try:
            point = sample_point(names, i)
            f_at, g_at = numeric(f, point), numeric(g, point)
        except TooLarge:
            raise
        except Unsupported:
            continue
        if f_at == 0 or g_at == 0:
            if f_at != g_at:
                return False
            continue
        ratios.append(f_at / g_at)
    if len(ratios) < 3:
        raise Unsupported("defined at too few points")
    first = ratios[0]
    if positive and not (first.imag == 0 and first.real > 0):
        return False
    return all(abs(ratio - first) <= abs(first) * Fraction(1, 10**40) for ratio in ratios[1:])


def _same_group(a: Group, b: Group, tolerance: Tolerance) -> bool:
    same: Callable[[Shape, Shape], bool] = lambda x, y: _same(x, y, tolerance)  # noqa: E731
    if a.kind in _UNORDERED and b.kind in _UNORDERED:
        if a.kind == b.kind == "list":
            return len(a.items) == len(b.items) and _same_counts(a.items, b.items, same)
        if "union" in (a.kind, b.kind) and a.kind != b.kind:
            return False
        return _all_found(a.items, b.items, same) and _all_found(b.items, a.items, same)
    if a.kind != b.kind and not (_is_sequence(a) and _is_sequence(b)):
        return False
    return len(a.items) == len(b.items) and all(same(x, y) for x, y in zip(a.items, b.items, strict=True))


def _is_sequence(group: Group) -> bool:
    """Whether the brackets hold a sequence. Of three items or more they cannot be an interval, and their shape says nothing."""
    return group.kind in ("()", "[]") and len(group.items) > 2


def _all_found(items: Sequence[Shape], among: Sequence[Shape], same: Callable[[Shape, Shape], bool]) -> bool:
    return all(any(same(item, other) for other in among) for item in items)


def _same_counts(a: Sequence[Shape], b: Sequence[Shape], same: Callable[[Shape, Shape], bool]) -> bool:
    return all(sum(same(item, x) for x in a) == sum(same(item, x) for x in b) for item in (*a, *b))
