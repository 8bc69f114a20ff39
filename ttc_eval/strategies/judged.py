"""Draws with a judgement on each: in turn, or side by side where no limit can tell the difference."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Score, StopReason
from ttc_eval.session import LimitReached, Session, Taken
from ttc_eval.strategies.base import Setting
from ttc_eval.verifiers import LocalVerifier

_T = TypeVar("_T")


class Otherwise(StrEnum):
    """What is selected when a strategy's own rule has nothing to go by; the solution says that it was used."""

    UNRESOLVED = "unresolved"
    PLURALITY = "plurality"


@dataclass(frozen=True, slots=True)
class Judged(Generic[_T]):
    """Candidates in draw order, the judgements on those that may vote, in the same order, and the limit that ended it, if one did."""

    candidates: tuple[Candidate, ...]
    judgements: tuple[_T, ...]
    ended_by: StopReason | None


async def draw_and_judge(
    session: Session,
    count: int,
    one: Callable[[Candidate], Awaitable[_T]],
    several: Callable[[Sequence[Candidate]], Awaitable[Taken[_T]]],
    *,
    parallel: int,
    max_output_tokens: int | None,
) -> Judged[_T]:
    """`count` draws and a judgement on each that may vote, until a limit is used up.

    With `parallel` above 1 all draws are made and then all judgements, which the caller may ask for only where `Session.fits` says that
    no limit can refuse one of them. What comes back and what is charged is then what it would be in turn.
    """
    if parallel > 1:
        async with session.draws(count, parallel=parallel, max_output_tokens=max_output_tokens) as draws:
            candidates = [candidate async for candidate in draws]
        taken = await several([candidate for candidate in candidates if candidate.votes])
        return Judged(tuple(candidates), taken.found, draws.ended_by or taken.ended_by)
    drawn: list[Candidate] = []
    judgements: list[_T] = []
    async with session.draws(count, max_output_tokens=max_output_tokens) as draws:
        async for candidate in draws:
            drawn.append(candidate)
            if not candidate.votes:
                continue
            try:
                judgements.append(await one(candidate))
            except LimitReached as limit:
                return Judged(tuple(drawn), tuple(judgements), limit.stop_reason)
    return Judged(tuple(drawn), tuple(judgements), draws.ended_by)


async def draw_and_score(session: Session, count: int, *, parallel: int, max_output_tokens: int | None) -> Judged[Score]:
    """`draw_and_judge` with the scores of the cell's verifier."""
    together = parallel if parallel > 1 and session.fits(count, scored=True, max_output_tokens=max_output_tokens) else 1
    return await draw_and_judge(
        session,
        count,
        session.score,
        lambda candidates: session.score_all(candidates, parallel=together),
        parallel=together,
        max_output_tokens=max_output_tokens,
    )


def check_scores(name: str, setting: Setting) -> None:
    """Raise `UserError` when the cell's verifier gives no scores of single candidates."""
    verifier = setting.verifier
    if verifier is not None and not isinstance(verifier, LocalVerifier) and not hasattr(verifier, "messages"):
        raise UserError(f"strategy={name}: verifier={verifier.name} compares candidates and scores none; take for example verifier=outcome")


def check_counts(**counts: int | None) -> None:
    """Raise `UserError` for an option of a strategy that is a number below 1."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise UserError(f"strategy.{name}={value}: give 1 or more")
