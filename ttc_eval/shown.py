"""Numbers as tables show them. Undefined is said, never shown as 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unknown(value: Any) -> bool:
    """Whether a cell of a frame is NULL, which pandas shows as None, NaN or NA, depending on the column."""
    return value is None or str(value) in ("<NA>", "nan", "NaT")


def share(row: Mapping[Any, Any], name: str, interval: str = " [{:.0f}, {:.0f}]") -> str:
    """A share in per cent with its interval, or "undefined"; `interval` is the pattern for the two ends."""
    if unknown(row[name]):
        return "undefined"
    if unknown(row[f"{name}_low"]):
        return f"{100 * row[name]:.1f}"
    return f"{100 * row[name]:.1f}" + interval.format(100 * row[f"{name}_low"], 100 * row[f"{name}_high"])
