"""What the checks look at and what they say. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ttc_eval.protocol.conformance.reading import Reply


class Verdict(StrEnum):
    """What a check found. A SHOULD that is not kept is a warning."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class Finding:
    """Verdict, the reason, and the replies that it rests on."""

    verdict: Verdict
    reason: str
    evidence: tuple[Reply, ...] = ()


@dataclass(frozen=True, slots=True)
class Observations:
    """The replies to all probes of one surface.

    Attributes:
        roomy: a budget with room; tight: budget 1; short: max_tokens 1; ordinary: no thinking object.
        other_type: thinking.type is not `enabled`; too_large: a budget beyond any maximum; invalid: budgets that are none.
        stop_in_thinking, stop_in_text: stop sequences taken from earlier replies; empty when nothing could be taken.
        slack: tokens by which a budget may be overrun ("slightly greater").
    """

    roomy: Reply
    tight: Reply
    short: Reply
    ordinary: Reply
    other_type: Reply
    too_large: Reply
    invalid: tuple[Reply, ...]
    stop_in_thinking: tuple[Reply, ...]
    stop_in_text: tuple[Reply, ...]
    slack: int

    @property
    def answers(self) -> tuple[Reply, ...]:
        """The replies to requests that are valid, and so must be answered."""
        return (self.roomy, self.tight, self.short, self.ordinary, *self.stop_in_thinking, *self.stop_in_text)

    @property
    def streams(self) -> tuple[Reply, ...]:
        """Those that came as streams."""
        return tuple(reply for reply in self.answers if reply.streamed)

    @property
    def finals(self) -> tuple[Reply, ...]:
        """Those that have a final message."""
        return tuple(reply for reply in self.streams if reply.final is not None)


def passed(reason: str, *evidence: Reply) -> Finding:
    """A finding of that verdict."""
    return Finding(Verdict.PASSED, reason, evidence)


def failed(reason: str, *evidence: Reply) -> Finding:
    """A finding of that verdict."""
    return Finding(Verdict.FAILED, reason, evidence)


def unseen(reason: str, *evidence: Reply) -> Finding:
    """What this server gave no occasion to see."""
    return Finding(Verdict.NOT_OBSERVABLE, reason, evidence)


def each(replies: tuple[Reply, ...], wrong: Callable[[Reply], str | None], right: str) -> Finding:
    """Failed by the first reply in which something is wrong; passed when nothing is in any."""
    for reply in replies:
        found = wrong(reply)
        if found is not None:
            return failed(found, reply)
    return passed(f"{right}, in {len(replies)} replies", *replies[:1]) if replies else unseen("no reply to look at")
