"""Checks of what comes: content blocks, the final message, its usage and its id. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastjsonschema

from ttc_eval.protocol.conformance.findings import Finding, Observations, Verdict, each, failed, passed, unseen
from ttc_eval.protocol.conformance.reading import Reply
from ttc_eval.protocol.schemas import Schema, schema


def content_types(seen: Observations) -> Finding:
    """Blocks and deltas are thinking or text."""

    def wrong(reply: Reply) -> str | None:
        kinds = {kind for kind, _ in (*reply.deltas, *(reply.blocks or ()))} - {"thinking", "text"}
        return f"a block of type {min(kinds)}" if kinds else None

    return each(seen.streams, wrong, "thinking and text only")


def content_order(seen: Observations) -> Finding:
    """No thinking follows text."""

    def wrong(reply: Reply) -> str | None:
        for where, parts in (("the stream", reply.deltas), ("the final message", reply.blocks or ())):
            kinds = [kind for kind, _ in parts]
            if "text" in kinds and "thinking" in kinds[kinds.index("text") :]:
                return f"thinking after text in {where}"
        return None

    return each(seen.streams, wrong, "no thinking after text")


def content_assembled(seen: Observations) -> Finding:
    """The final message holds what was streamed, where it holds content."""
    with_content = tuple(reply for reply in seen.finals if reply.blocks is not None)

    def wrong(reply: Reply) -> str | None:
        for kind in ("thinking", "text"):
            streamed = "".join(text for found, text in reply.deltas if found == kind)
            if streamed != "".join(text for found, text in reply.blocks or () if found == kind):
                return f"the {kind} of the final message is not that of the stream"
        return None

    return each(with_content, wrong, "content is what was streamed")


def valid_property(name: str, part: str | None = None) -> Callable[[Observations], Finding]:
    """A property of the final message, against its part of the schema; `part` is a property of usage."""
    whole = schema(Schema.FINAL_MESSAGE)
    owner = whole if part is None else whole["properties"][name]
    wanted = name if part is None else part
    required = wanted in owner["required"]
    rules = dict(owner["properties"][wanted])
    if wanted == "usage":
        rules = {"type": rules["type"]}  # each count has a check of its own
    if wanted == "content":
        block = rules["items"]  # and so have the values of type
        rules = {**rules, "items": {**block, "properties": {name: {"type": "string"} for name in block["required"]}}}
    valid = fastjsonschema.compile(rules, use_default=False)

    def wrong(reply: Reply) -> str | None:
        values: Mapping[str, Any] = (reply.final or {}) if part is None else reply.usage
        if wanted not in values:
            return f"{wanted} is missing" if required else None
        try:
            valid(values[wanted])
        except fastjsonschema.JsonSchemaValueException as error:
            return f"{wanted}{error.message.removeprefix('data')}; it is {str(values[wanted])[:80]!r}"
        return None

    def run(seen: Observations) -> Finding:
        replies = (
            seen.finals if part is None else tuple(reply for reply in seen.finals if isinstance((reply.final or {}).get("usage"), dict))
        )
        return each(replies, wrong, f"{wanted} is valid")

    return run


def valid_count(name: str, wrong: Callable[[Reply, int], str | None]) -> Callable[[Observations], Finding]:
    """A count of usage: valid by the schema, and by `wrong`."""
    by_schema = valid_property("usage", name)

    def run(seen: Observations) -> Finding:
        found = by_schema(seen)
        if found.verdict is not Verdict.PASSED:
            return found
        counted = tuple(reply for reply in seen.finals if reply.count(name) is not None)
        return each(counted, lambda reply: wrong(reply, reply.count(name) or 0), f"{name} fits")

    return run


def wrong_output(reply: Reply, tokens: int) -> str | None:
    """What is wrong with a count of text tokens, beside its type."""
    if reply.text_of("text") and tokens == 0:
        return "output_tokens is 0 with text"
    return None if reply.has_text_block() or tokens == 0 else f"output_tokens is {tokens} without a text block"


def wrong_cache(reply: Reply, tokens: int) -> str | None:
    """What is wrong with a count of the cache pass, beside its type."""
    most = reply.count("input_tokens")
    return f"{tokens} of {most} input tokens" if most is not None and tokens > most else None


def cache_zero(seen: Observations) -> Finding:
    """The cache pass counts 0."""
    counts = [reply.count("cache_creation_input_tokens") for reply in seen.finals]
    if counts and all(count == 0 for count in counts):
        return passed("it is 0", *seen.finals[:1])
    return unseen("it is not 0 everywhere, and whether the pass was made cannot be seen", *seen.finals[:1])


def id_unique(seen: Observations) -> Finding:
    """Ids differ between replies and not within one."""
    owners: dict[str, Reply] = {}
    for reply in seen.finals:
        own = (reply.final or {}).get("id")
        others = {str(found) for found in _ids(reply)} - {str(own)}
        if others:
            return failed(f"the stream names {min(others)}, its final message {own}", reply)
        if isinstance(own, str) and own in owners:
            return failed(f"two replies have the id {own}", owners[own], reply)
        owners[str(own)] = reply
    return passed(f"{len(owners)} replies, {len(owners)} ids", *seen.finals[:1]) if owners else unseen("no reply to look at")


def _ids(reply: Reply) -> Iterator[object]:
    for one in reply.objects:
        message = one.get("message")
        if one.get("type") == "message_start" and isinstance(message, dict) and "id" in message:
            yield message["id"]
        if reply.surface == "chat" and "choices" in one and "id" in one:
            yield one["id"]
