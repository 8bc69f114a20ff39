"""Checks of what a request may spend: caps, stop sequences, budgets, and how a used-up budget is told. No I/O."""

from __future__ import annotations

from collections.abc import Callable

from ttc_eval.protocol.conformance.findings import Finding, Observations, each, failed, passed, unseen
from ttc_eval.protocol.conformance.reading import WAIT, Reply

CHARS_PER_TOKEN = 64  # no tokenizer's average is near: a longer text was not made of that few tokens
MIN_THINKING = 8  # thinking tokens without a tight budget, from which on a budget of 1 must run out


def max_tokens_text(seen: Observations) -> Finding:
    """Text keeps to `max_tokens` in every reply."""

    def wrong(reply: Reply) -> str | None:
        tokens, most = reply.count("output_tokens"), reply.sent["max_tokens"]
        return f"{tokens} output tokens with max_tokens {most}" if tokens is not None and tokens > most else None

    return each(seen.finals, wrong, "output_tokens at most max_tokens")


def max_tokens_distinct(seen: Observations) -> Finding:
    """With `max_tokens` 1, thinking is not cut to one token."""
    short, free = seen.short.count("thinking_tokens"), seen.roomy.count("thinking_tokens")
    if short is None or free is None:
        return unseen("no thinking_tokens in usage", seen.short)
    if short > seen.short.sent["max_tokens"]:
        return passed(f"{short} thinking tokens with max_tokens 1", seen.short)
    if free < MIN_THINKING:
        return unseen(f"the question takes only {free} thinking tokens; give a harder --prompt", seen.roomy)
    return failed(f"{short} thinking tokens with max_tokens 1, {free} with more", seen.short, seen.roomy)


def stop_text(seen: Observations) -> Finding:
    """A stop sequence ends the text before it, and is named as what ended it."""
    for reply in seen.stop_in_text:
        stops, text = reply.sent["stop_sequences"], reply.text_of("text")
        held = [stop for stop in stops if stop in text]
        if held:
            return failed(f"the text holds the stop sequence {held[0]!r}", reply)
        if reply.stop_reason == "stop_sequence" and not reply.last_thinking().endswith(WAIT):
            return passed(f"the text ends before any of {''.join(stops)!r}", reply)
    if not seen.stop_in_text:
        return unseen("no reply had a text to take a stop sequence from")
    return unseen("no stop sequence was generated", *seen.stop_in_text)


def stop_thinking(seen: Observations) -> Finding:
    """Thinking goes on past a stop sequence."""
    tried = tuple(reply for reply in seen.stop_in_thinking if reply.streamed)
    if not tried:
        return unseen("no reply showed enough thinking to take a stop sequence from")
    stop = tried[0].sent["stop_sequences"][0]
    for reply in tried:
        if stop in reply.text_of("thinking"):
            return passed(f"the thinking goes on past {stop!r}", reply)
    return failed(f"the thinking never holds {stop!r}, its most common character without the stop sequence", *tried)


def budget_enforced(seen: Observations) -> Finding:
    """Thinking keeps to its budget, as the server counts."""

    def wrong(reply: Reply) -> str | None:
        tokens, budget = reply.count("thinking_tokens"), reply.budget
        over = tokens is not None and budget is not None and tokens > budget + seen.slack
        return f"{tokens} thinking tokens with a budget of {budget}" if over else None

    return each(_budgeted(seen), wrong, f"thinking_tokens within the budget, slack {seen.slack}")


def budget_ceases(seen: Observations) -> Finding:
    """Thinking keeps to its budget, as its length shows."""

    def wrong(reply: Reply) -> str | None:
        size = len(reply.text_of("thinking").removesuffix(WAIT))
        most = CHARS_PER_TOKEN * ((reply.budget or 0) + seen.slack)
        return f"{size} characters of thinking with a budget of {reply.budget} tokens" if size > most else None

    return each(_budgeted(seen), wrong, "the thinking is no longer than its budget can explain")


def _budgeted(seen: Observations) -> tuple[Reply, ...]:
    return tuple(reply for reply in seen.finals if reply.budget is not None)


def _form(reply: Reply) -> str | None:
    """How a reply claims that its budget ran out: `budget_exceeded`, `wait`, or not at all (None)."""
    if reply.stop_reason == "budget_exceeded":
        return "budget_exceeded"
    unasked = reply.stop_reason == "stop_sequence" and not reply.has_text_block()
    return "wait" if unasked or WAIT in reply.text_of("thinking") else None


def _must_run_out(seen: Observations) -> bool:
    tight, free = seen.tight.count("thinking_tokens"), seen.roomy.count("thinking_tokens")
    return tight is not None and free is not None and free >= MIN_THINKING and tight >= (seen.tight.budget or 0)


def terminates(seen: Observations) -> Finding:
    """A budget of 1 that was used up is followed by no answer."""
    reply = seen.tight
    if reply.final is None:
        return unseen("no final message", reply)
    if _form(reply) is not None or not reply.has_text_block():
        return passed(f"the request ended with {reply.stop_reason}", reply)
    if not _must_run_out(seen):
        return unseen("the budget of 1 was not used up, or the question needs no thinking; give a harder --hard-prompt", reply, seen.roomy)
    return failed(f"answered after its budget, with {reply.stop_reason}; with room it thinks more", reply, seen.roomy)


def signalled(seen: Observations) -> Finding:
    """A request that was ended at its budget says so, in either form."""
    reply = seen.tight
    if _form(reply) is not None:
        return passed(f"by {'[WAIT] and stop_sequence' if _form(reply) == 'wait' else 'budget_exceeded'}", reply)
    if reply.final is None or reply.has_text_block():
        return unseen("the request was not terminated at its budget", reply)
    return failed(f"terminated with stop_reason {reply.stop_reason}", reply)


def in_form(form: str, check: Callable[[Reply], Finding]) -> Callable[[Observations], Finding]:
    """`check` of the reply whose budget ran out, when the server tells that in this form."""

    def run(seen: Observations) -> Finding:
        found = _form(seen.tight)
        if found is None:
            return unseen("no budget ran out", seen.tight)
        return check(seen.tight) if found == form else unseen(f"the server uses the other form, {found}", seen.tight)

    return run


def no_text(reply: Reply) -> Finding:
    """There is no text, streamed or assembled."""
    return failed("a text block", reply) if reply.has_text_block() else passed("no text", reply)


def not_below(reply: Reply) -> Finding:
    """The budget that is called used up was used up."""
    tokens = reply.count("thinking_tokens")
    if tokens is None:
        return unseen("no thinking_tokens in usage", reply)
    words = f"{tokens} thinking tokens with a budget of {reply.budget}"
    return failed(words, reply) if tokens < (reply.budget or 0) else passed(words, reply)


def wait_at_end(reply: Reply) -> Finding:
    """The last thinking block ends with the marker."""
    end = reply.last_thinking()[-40:]
    return (passed if end.endswith(WAIT) else failed)(f"the thinking ends with {end!r}", reply)


def wait_stop_reason(reply: Reply) -> Finding:
    """The marker comes with `stop_sequence`."""
    return (passed if reply.stop_reason == "stop_sequence" else failed)(f"stop_reason is {reply.stop_reason}", reply)
