"""The wire formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ttc_eval.errors import UserError
from ttc_eval.wire.base import WireFormat
from ttc_eval.wire.dialects import dialect_named
from ttc_eval.wire.openai_chat import ChatFormat

# Only Chat Completions is spoken in dialects; the other formats have one owner each.
FORMATS: Mapping[str, Callable[[str], WireFormat]] = {
    "openai_chat": lambda dialect: ChatFormat(dialect_named(dialect)),
}


def format_named(name: str, dialect: str) -> WireFormat:
    """The wire format of that name, in that dialect. Raises `UserError` that lists the names there are."""
    if name not in FORMATS:
        raise UserError(f"wire={name}: there is no such wire format; there are: {', '.join(sorted(FORMATS))}")
    return FORMATS[name](dialect)
