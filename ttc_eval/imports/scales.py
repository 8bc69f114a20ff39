"""How numbers of a file become scores in [0, 1] without changing their order."""

from __future__ import annotations

from array import array

from ttc_eval.verifiers.imported import Scale, scaled


def scale_for(name: str, values: array[float]) -> tuple[Scale, str | None]:
    """The scale of a score, and what to say of it: `unit` where every number is in [0, 1], else the first that keeps all of them apart."""
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        return Scale.UNIT, None
    distinct = set(values)
    said = f"score {name!r} goes from {low:g} to {high:g}: it is read through a {{}}, which keeps its order"
    for scale in (Scale.SIGMOID, Scale.SOFTSIGN):
        if len({scaled(value, scale) for value in distinct}) == len(distinct):
            return scale, said.format(scale.value)
    return Scale.SOFTSIGN, said.format(Scale.SOFTSIGN.value) + ", but for numbers too close to be told apart"
