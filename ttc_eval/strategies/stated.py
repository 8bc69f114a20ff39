"""Stated confidence: after each draw the model is asked how sure it is of it (CISC, arXiv 2502.06233)."""

from __future__ import annotations

from collections.abc import Sequence

from ttc_eval.confidence import STATED_QUESTION, read_stated
from ttc_eval.records import Candidate, Message, Role
from ttc_eval.session import Ask, Reply, Session, Taken
from ttc_eval.strategies.judged import Judged, draw_and_judge

# The position of a candidate, and how sure the model says that it is, in [0, 1]; None for a reply that cannot be read.
Stated = tuple[int, float | None]


async def draw_and_ask(
    session: Session, count: int, *, tokens: int | None, temperature: float | None, parallel: int, max_output_tokens: int | None
) -> Judged[Stated]:
    """`count` draws and a stated confidence about each that may vote, until a limit is used up.

    Args:
        tokens: room for the reply, asked with thinking off; None: asked as a draw is. temperature: None samples as the cell does.
    """

    def ask(candidate: Candidate) -> Ask:
        said = (Message("assistant", candidate.text), Message("user", STATED_QUESTION))
        messages = (*session.question.messages, *said)
        return Ask(messages, Role.VERIFY, max_output_tokens=tokens, temperature=temperature, thinks=tokens is None)

    async def one(candidate: Candidate) -> Stated:
        return _stated(candidate, await session.ask(ask(candidate)))

    async def several(candidates: Sequence[Candidate]) -> Taken[Stated]:
        taken = await session.ask_all([ask(candidate) for candidate in candidates], parallel=together)
        return Taken(tuple(map(_stated, candidates, taken.found)), taken.ended_by)

    together = parallel if parallel > 1 and session.fits(count, asked=ask, max_output_tokens=max_output_tokens) else 1
    return await draw_and_judge(session, count, one, several, parallel=together, max_output_tokens=max_output_tokens)


def _stated(candidate: Candidate, reply: Reply) -> Stated:
    return candidate.position, read_stated(reply.text) if reply.complete else None
