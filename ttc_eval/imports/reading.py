"""Reading values out of other tools' files: every mistake names the file, the place and what is missing."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from ttc_eval.errors import UserError
from ttc_eval.imports.samples import SourceFile, Tally
from ttc_eval.records import Message, Usage, UsageSource

_ROLES = ("system", "user", "assistant")
COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")


def source_file(path: Path) -> SourceFile:
    """A file's size and hash. Raises `UserError` when it cannot be read."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise UserError(f"{path}: it cannot be read: {error.strerror}") from None
    return SourceFile(path, digest.hexdigest(), size)


def lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, one at a time, each with its place. Empty lines are left out."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path.name}, line {number}"
            value = _parsed(line, where)
            if not isinstance(value, dict):
                raise UserError(f"{where}: a JSON object is needed, not {_kind(value)}")
            yield where, value


def whole(path: Path) -> Any:
    """A file that is one JSON value."""
    return _parsed(path.read_bytes(), path.name)


def parsed(data: bytes, where: str) -> Any:
    """A JSON value from bytes."""
    return _parsed(data, where)


def _parsed(data: bytes, where: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            # Python's own writer makes NaN and Infinity, which are no JSON.
            return json.loads(data)
        except (ValueError, RecursionError):
            raise UserError(f"{where}: it is no JSON: {error}") from None


def need(row: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """A field that must be there and of a type."""
    if name not in row:
        raise UserError(f"{where}: there is no field {name!r}; the fields are: {', '.join(sorted(map(str, row))) or 'none'}")
    return may(row, name, kind, where, needed=True)


def may(row: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str, *, needed: bool = False) -> Any:
    """A field of a type, or None where it is missing or null."""
    value = row.get(name)
    if value is None and not needed:
        return None
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join(_NAMES.get(one, one.__name__) for one in kinds)
        raise UserError(f"{where}: {name!r} must be {names}, not {_kind(value)}")
    return value


_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


def _kind(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def name_of(row: Mapping[str, Any], name: str, where: str) -> str:
    """A field that names something: a text, or a whole number."""
    value = str(need(row, name, (str, int), where)).strip()
    if not value:
        raise UserError(f"{where}: {name!r} is empty")
    return value


def number(row: Mapping[str, Any], name: str, where: str) -> float | None:
    """A finite number, or None where it is missing, null, NaN or infinite."""
    value = may(row, name, (int, float), where)
    try:
        return None if value is None or not math.isfinite(value) else float(value)
    except OverflowError:
        raise UserError(f"{where}: {name!r} has {len(str(value))} digits, more than a number can hold") from None


def seconds(row: Mapping[str, Any], name: str, where: str) -> float | None:
    """Seconds, 0 or more, or None where they are missing or null."""
    value = number(row, name, where)
    if value is not None and value < 0:
        raise UserError(f"{where}: {name!r} must be 0 or more seconds, not {value:g}")
    return value


def count(row: Mapping[str, Any], name: str, where: str) -> int | None:
    """A whole number of 0 or more, or None where it is missing or null."""
    value = may(row, name, int, where)
    if value is not None and not 0 <= value < 2**63:
        raise UserError(f"{where}: {name!r} must be 0 or more, not {value}")
    return None if value is None else int(value)


def usage_of(row: Mapping[str, Any], where: str) -> Usage:
    """Usage in this program's own shape (docs/design.md 3.2): cached parts inside the input, reasoning inside the output."""
    size, output, cached, written, reasoning = (count(row, name, where) for name in COUNTS)
    parts = (("cached_input_tokens", cached, size), ("cache_write_tokens", written, size), ("reasoning_tokens", reasoning, output))
    for name, part, whole_count in parts:
        if part is not None and whole_count is not None and part > whole_count:
            raise UserError(f"{where}: {name!r} is {part}, more than the {whole_count} tokens that it is a part of")
    known = size is not None or output is not None
    return Usage(size, output, cached, written, reasoning, UsageSource.PROVIDER if known else UsageSource.UNKNOWN)


def usd_of(row: Mapping[str, Any], name: str, where: str) -> Decimal | None:
    """US dollars, 0 or more, or None."""
    value = number(row, name, where)
    if value is not None and value < 0:
        raise UserError(f"{where}: {name!r} must be 0 or more, not {value}")
    return None if value is None else Decimal(str(value))


def turns_of(value: Any, where: str) -> tuple[Message, ...]:
    """A prompt: a text, or a list of turns with `role` and `content`."""
    if isinstance(value, str):
        return (Message("user", value),)
    if not isinstance(value, list) or not value:
        raise UserError(f"{where}: a prompt is a text or a list of turns, not {_kind(value)}")
    turns = []
    for turn in value:
        if not isinstance(turn, dict) or turn.get("role") not in _ROLES or not isinstance(turn.get("content"), str):
            raise UserError(f"{where}: every turn of a prompt has a role ({', '.join(_ROLES)}) and a content that is text")
        turns.append(Message(turn["role"], turn["content"]))
    return tuple(turns)


def note_ignored(tally: Tally, row: Mapping[str, Any], used: Iterable[str], under: str = "") -> None:
    """Count the fields that a reader does not use. `under` goes before their names: the object that holds them, and a dot."""
    tally.ignored.update(f"{under}{name}" for name in set(map(str, row)) - set(used))
