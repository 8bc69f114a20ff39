"""One name for each unit, however it is abbreviated."""

from __future__ import annotations

import re

_UNIT_NAMES = {
    "cm": "centimeter", "mm": "millimeter", "km": "kilometer", "m": "meter", "ft": "foot", "feet": "foot", "in": "inch",
    "inches": "inch", "kg": "kilogram", "g": "gram",
    "lb": "pound", "lbs": "pound", "mL": "milliliter", "yd": "yard", "mi": "mile", "hr": "hour", "hrs": "hour", "h": "hour",
    "min": "minute", "s": "second", "sec": "second",
    "metre": "meter", "centimetre": "centimeter", "kilometre": "kilometer", r"\$": "dollar", "€": "euro", "£": "pound sterling",
    "¥": "yen", "₹": "rupee", "percent": "%",
    "percentage": "%", "deg": "degree",
}  # fmt: skip


def unit_name(unit: str) -> str:
    """One name for a unit: singular, unabbreviated, `square` and `cubic` as powers."""
    power = re.search(r"\^\{?([0-9])\}?$", unit)
    words = re.sub(r"\^.*", "", unit).replace(".", " ").split()
    degree = power.group(1) if power else "1"
    if words and words[0].lower() in ("square", "sq", "cubic"):
        degree = "3" if words.pop(0).lower() == "cubic" else "2"
    names = []
    for word in words:
        name = _UNIT_NAMES.get(word) or _UNIT_NAMES.get(word.lower()) or word.lower()
        singular = name[:-1] if len(name) > 3 and name.endswith("s") and not name.endswith("ss") else name
        names.append(_UNIT_NAMES.get(singular, singular))
    return " ".join(names) + (f"^{degree}" if degree != "1" else "")
