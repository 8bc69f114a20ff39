"""The wire formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ttc_eval.errors import UserError
from ttc_eval.wire.anthropic import MessagesFormat, version_named
from ttc_eval.wire.base import WireFormat
from ttc_eval.wire.dialects import dialect_named
from ttc_eval.wire.gemini import GeminiFormat
from ttc_eval.wire.openai_chat import ChatFormat
from ttc_eval.wire.openai_responses import ResponsesFormat
from ttc_eval.wire.reward import RewardFormat, form_named
from ttc_eval.wire.ttc_v2 import TTCFormat, surface_named

# Chat Completions is spoken in dialects, the Messages API in versions, TTC-v2 on two surfaces and reward endpoints in several forms, which
# are their dialects here; the others have one owner each.
FORMATS: Mapping[str, Callable[[str], WireFormat]] = {
    "openai_chat": lambda dialect: ChatFormat(dialect_named(dialect)),
    "anthropic": lambda dialect: MessagesFormat(version_named(dialect)),
    "openai_responses": lambda dialect: _of_one_form(ResponsesFormat(), dialect),
    "gemini": lambda dialect: _of_one_form(GeminiFormat(), dialect),
    "reward": lambda dialect: RewardFormat(form_named(dialect)),
    "ttc_v2": lambda dialect: TTCFormat(surface_named(dialect)),
}


def format_named(name: str, dialect: str) -> WireFormat:
    """The wire format of that name, in that dialect. Raises `UserError` that lists the names there are."""
    if name not in FORMATS:
        raise UserError(f"wire={name}: there is no such wire format; there are: {', '.join(sorted(FORMATS))}")
    return FORMATS[name](dialect)


def _of_one_form(wire: WireFormat, dialect: str) -> WireFormat:
    if dialect != "generic":
        raise UserError(f"dialect={dialect}: the wire format {wire.identity!r} has no dialects; leave it at 'generic'")
    return wire
