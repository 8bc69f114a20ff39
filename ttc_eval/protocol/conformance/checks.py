"""Every requirement with its check, and the verdicts on all of them. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ttc_eval.protocol.conformance import message, spending
from ttc_eval.protocol.conformance.findings import Finding, Observations, Verdict, each, failed, passed, unseen
from ttc_eval.protocol.conformance.reading import WAIT, Reply
from ttc_eval.protocol.conformance.requirements import REQUIREMENTS, Level, Requirement
from ttc_eval.protocol.schemas import Schema, violation


def judge(seen: Observations) -> dict[str, Finding]:
    """A finding for every requirement, in their order."""
    return {name: _judge(requirement, seen) for name, requirement in REQUIREMENTS.items()}


def _judge(requirement: Requirement, seen: Observations) -> Finding:
    if requirement.unobservable is not None:
        return Finding(Verdict.NOT_OBSERVABLE, requirement.unobservable)
    finding = CHECKS[requirement.name](seen)
    if finding.verdict is Verdict.FAILED and requirement.level is Level.SHOULD:
        return Finding(Verdict.WARNING, finding.reason, finding.evidence)
    return finding


def _accepted(seen: Observations) -> Finding:
    def wrong(reply: Reply) -> str | None:
        return None if reply.status == 200 else reply.problem or f"status {reply.status}"

    return each(tuple(reply for reply in seen.answers if "thinking" in reply.sent), wrong, "status 200")


def _ordinary(seen: Observations) -> Finding:
    reply = seen.ordinary
    if reply.status != 200:
        return failed(reply.problem or f"status {reply.status}", reply)
    if not reply.streamed:
        return unseen("it came as no complete stream", reply)
    return _without_thinking(reply)


def _thinking_type(seen: Observations) -> Finding:
    reply = seen.other_type
    if 400 <= reply.status < 500:
        return passed(f"refused with status {reply.status}", reply)
    return _without_thinking(reply) if reply.streamed else unseen(reply.problem or f"status {reply.status}", reply)


def _without_thinking(reply: Reply) -> Finding:
    if any(kind == "thinking" for kind, _ in (*reply.deltas, *(reply.blocks or ()))):
        return failed("a thinking block", reply)
    if reply.count("thinking_tokens"):
        return failed(f"usage.thinking_tokens is {reply.count('thinking_tokens')}", reply)
    return passed("no thinking", reply)


def _stream_events(seen: Observations) -> Finding:
    answered = tuple(reply for reply in seen.answers if reply.status == 200)

    def wrong(reply: Reply) -> str | None:
        if reply.content_type != "text/event-stream":
            return f"the content type is {reply.content_type or 'missing'}"
        if reply.problem is not None:
            return reply.problem
        return f"an event that is no JSON object: {reply.foreign[0][:80]!r}" if reply.foreign else None

    return each(answered, wrong, "event streams of JSON objects")


def _final_message(seen: Observations) -> Finding:
    def wrong(reply: Reply) -> str | None:
        if reply.final is None:
            return "no final message"
        return None if reply.objects[-1] is reply.final else "objects follow the final message"

    return each(seen.streams, wrong, "the stream ends with a final message")


def _predictable(seen: Observations) -> Finding:
    def wrong(reply: Reply) -> str | None:
        if not 400 <= reply.status < 500:
            return reply.problem or f"status {reply.status} for budget_tokens {reply.budget!r}"
        return None if _is_object(reply.body) else "the body is no JSON object"

    return each(seen.invalid, wrong, "refused, with a JSON object")


def _is_object(body: bytes) -> bool:
    return body.lstrip()[:1] == b"{" and _parsed(body) is not None


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _too_large(seen: Observations) -> Finding:
    reply = seen.too_large
    if reply.status == 200:
        return unseen("the server has no maximum, or none that is told by status", reply)
    if reply.status != 400:
        return failed(reply.problem or f"status {reply.status}", reply)
    broken = violation(Schema.BUDGET_EXCEEDED_ERROR, _parsed(reply.body))
    return passed("status 400 with the error object", reply) if broken is None else failed(f"the error object: {broken}", reply)


CHECKS: Mapping[str, Callable[[Observations], Finding]] = {
    "request.accepted": _accepted,
    "request.ordinary": _ordinary,
    "request.thinking_type": _thinking_type,
    "stream.events": _stream_events,
    "stream.final_message": _final_message,
    "max_tokens.text": spending.max_tokens_text,
    "max_tokens.distinct": spending.max_tokens_distinct,
    "stop_sequences.text": spending.stop_text,
    "stop_sequences.not_thinking": spending.stop_thinking,
    "budget.enforced": spending.budget_enforced,
    "budget.ceases": spending.budget_ceases,
    "exhaustion.terminates": spending.terminates,
    "exhaustion.signalled": spending.signalled,
    "exhaustion.stop_reason": spending.in_form("budget_exceeded", lambda reply: passed("stop_reason is budget_exceeded", reply)),
    "exhaustion.no_text": spending.in_form("budget_exceeded", spending.no_text),
    "exhaustion.thinking_tokens": spending.in_form("budget_exceeded", spending.not_below),
    "wait.at_end": spending.in_form("wait", spending.wait_at_end),
    "wait.hard_stop": spending.in_form("wait", spending.no_text),
    "wait.stop_reason": spending.in_form("wait", spending.wait_stop_reason),
    "content.types": message.content_types,
    "content.order": message.content_order,
    "content.blocks": message.valid_property("content"),
    "content.assembled": message.content_assembled,
    "final.type": message.valid_property("type"),
    "final.id": message.valid_property("id"),
    "final.id_unique": message.id_unique,
    "final.model": message.valid_property("model"),
    "final.stop_reason": message.valid_property("stop_reason"),
    "usage.present": message.valid_property("usage"),
    "usage.input_tokens": message.valid_count("input_tokens", lambda _, tokens: None if tokens else "input_tokens is 0"),
    "usage.output_tokens": message.valid_count("output_tokens", message.wrong_output),
    "usage.thinking_tokens": message.valid_count(
        "thinking_tokens",
        lambda reply, tokens: "thinking_tokens is 0 with thinking" if reply.text_of("thinking").removesuffix(WAIT) and not tokens else None,
    ),
    "usage.cache_creation_input_tokens": message.valid_count("cache_creation_input_tokens", message.wrong_cache),
    "usage.cache_zero_if_unused": message.cache_zero,
    "errors.predictable": _predictable,
    "errors.budget": _too_large,
}
