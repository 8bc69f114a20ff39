"""Token counts that a provider reported, judged together. Pure.

Counts that contradict each other (a part larger than its whole, a total that is not the sum, a negative or fractional count) are not
repaired: which of them is wrong is not known, so the usage is marked unknown and the provider's object is kept (docs/design.md 3.2).
"""

from __future__ import annotations

from typing import TypeGuard

from ttc_eval.records import JSON, Usage, UsageSource

_MAX_COUNT = 2**53


def is_count(value: object) -> TypeGuard[int]:
    """Whether `value` can be a number of tokens: an integer that is not negative and that JSON keeps exactly."""
    return type(value) is int and 0 <= value < _MAX_COUNT


def checked(
    raw: JSON,
    input_tokens: object,
    output_tokens: object,
    *,
    cached: object = None,
    written: object = None,
    reasoning: object = None,
    total: object = None,
) -> Usage:
    """The usage that these counts make, all in tokens: `cached` and `written` are parts of the input, `reasoning` of the output.

    None is a part that was not reported. Unknown, with `raw` kept, when input or output is missing or any two counts contradict.
    """
    unknown = Usage(raw=raw)
    if not is_count(input_tokens) or not is_count(output_tokens):
        return unknown
    parts = [part for part in (cached, written, reasoning, total) if part is not None]
    if not all(is_count(part) for part in parts):
        return unknown
    read, wrote, thought = (part if is_count(part) else None for part in (cached, written, reasoning))
    if (read or 0) + (wrote or 0) > input_tokens or (thought or 0) > output_tokens:
        return unknown
    if total is not None and total != input_tokens + output_tokens:
        return unknown
    return Usage(input_tokens, output_tokens, read, wrote, thought, UsageSource.PROVIDER, raw)
