"""How a search asks about states, for moves and for judgements, and how replies are read. The three words are those of arXiv 2305.10601."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from ttc_eval.records import Message, Question
from ttc_eval.tasks.base import State, Task

_STATE, _THEN = "The state now:\n", "\n\n"
_PROPOSE = "Propose {count} that may lead to a solution, one a line, and nothing else."
_JUDGE = (
    "Can this state still lead to a solution? Think briefly, then end with a line that is one word: "
    "sure (it can), likely (it may), or impossible (it cannot)."
)
_BULLET = re.compile(r"^\s*(?:[-*•]\s+|\(?\d{1,2}[.)]\s+|Move(?:\s+\d+)?:\s*)", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)


class Outlook(StrEnum):
    """What a model says of a state."""

    SURE = "sure"
    LIKELY = "likely"
    IMPOSSIBLE = "impossible"


def propose(question: Question, task: Task, state: State, count: int) -> tuple[Message, ...]:
    """The request for up to `count` next moves from `state`."""
    wanted = "one next move" if count == 1 else f"up to {count} different next moves"
    return _about(question, task, state, _PROPOSE.format(count=wanted))


def judge(question: Question, task: Task, state: State) -> tuple[Message, ...]:
    """The request for an `Outlook` on `state`."""
    return _about(question, task, state, _JUDGE)


def _about(question: Question, task: Task, state: State, wanted: str) -> tuple[Message, ...]:
    # The problem's worked examples answer in whole solutions, which is not what is asked for here; its last turn states the problem.
    problem = question.messages[-1].content
    moves = f"The problem is worked on move by move. A move is written {task.moves_are}."
    return (Message("user", f"{problem}{_THEN}{moves}{_THEN}{_STATE}{state.render()}{_THEN}{wanted}"),)


def proposals(reply: str, count: int, *, complete: bool = True) -> list[str]:
    """The first `count` moves of a reply, one a line, without bullets. The last line of a reply that was cut is not read."""
    lines = reply.splitlines()
    if not complete:
        lines = lines[:-1]
    found = [_BULLET.sub("", line).strip().strip("`*$").strip() for line in lines]
    return [line[:200] for line in found if line][:count]


def outlook(reply: str) -> Outlook | None:
    """The judgement on the last line of a reply; None when that is not one of the three words, alone but for punctuation."""
    lines = [line for line in reply.splitlines() if line.strip()]
    words: Sequence[str] = _WORD.findall(lines[-1]) if lines else ()
    return Outlook(words[0].lower()) if len(words) == 1 and words[0].lower() in set(Outlook) else None


def state_shown(asked: str) -> str | None:
    """The rendered state in a request of this module; None for any other request."""
    _, marker, rest = asked.rpartition(_STATE)
    return rest.partition(_THEN)[0] if marker else None


def asks_for_moves(asked: str) -> int | None:
    """How many moves a request of this module asks for; None when it asks for a judgement."""
    last = asked.rpartition(_THEN)[2]
    if last == _JUDGE:
        return None
    found = re.search(r"\d+", last)
    return int(found[0]) if found else 1
