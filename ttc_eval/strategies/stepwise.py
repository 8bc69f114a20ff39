"""What step-by-step searches share: beams that grow level by level, scored by a verifier of the process.

A level asks for `branching` steps for every place of a beam, spread over the nodes that hold its places, the better ones first; so the
first level asks for all of them from the start. Nodes are scored, and the best hold the places of the next level: a finished one ends there
and takes its place with it, the other open ones are pruned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Score, Solution, StopReason
from ttc_eval.selectors import best_score, valid_scores, weighted_vote
from ttc_eval.session import Ask, Reply, Session
from ttc_eval.steps import Path, Phase, StepOptions, Steps
from ttc_eval.strategies.base import Setting
from ttc_eval.thinking import AtLimit, ThinkingMode


class Select(StrEnum):
    """Which finished candidate is the answer: the one with the best score, or the class whose scores sum up to most."""

    BEST = "best"
    VOTE = "vote"


@dataclass(frozen=True, slots=True)
class Node:
    """A path, and the candidate that it is; None for the start."""

    path: Path
    candidate: Candidate | None = None


@dataclass(slots=True)
class Beam:
    """A beam of a search: so many places, and the nodes that hold them."""

    places: int
    nodes: list[Node]


@dataclass(slots=True)
class Found:
    """What a search has found: finished candidates, the scores that were asked for, and the score of each finished candidate by position.

    A candidate that repeats another one word for word has the score of that one, which is not asked for twice.
    """

    finished: list[Candidate] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    weights: dict[int, float] = field(default_factory=dict)


def check_sizes(max_step_tokens: int | None, **sizes: int) -> None:
    """Raise `UserError` for an option of a search that is below 1."""
    for name, value in {**sizes, "max_step_tokens": 1 if max_step_tokens is None else max_step_tokens}.items():
        if value < 1:
            raise UserError(f"strategy.{name}={value}: give 1 or more")


def steps_of(session: Session, options: StepOptions, max_step_tokens: int | None) -> Steps:
    """How paths grow in the session's cell. Raises `RuntimeError` where `check_search` would have refused it."""
    if session.steps is None:
        raise RuntimeError("this cell's model does not continue a given text")
    return Steps.of(options.over(session.steps), session.thinking, session.answer_tokens, max_step_tokens)


async def search(
    session: Session, steps: Steps, beams: Sequence[Beam], *, branching: int, max_depth: int, parallel: int, select: Select
) -> Solution:
    """Grow all beams until none has an open node (`exhausted`), down to `max_depth` (`depth_limit`), or until a limit is used up.

    Beams share nothing but the levels: they do not compete for places. What is still open when a search ends is never an answer.
    """
    found, drawn = Found(), Counter[str]()
    stop = StopReason.DEPTH_LIMIT
    for depth in range(1, max_depth + 1):
        ended_by = await _level(session, steps, beams, branching, depth, parallel, found, drawn)
        if ended_by is not None or not any(beam.nodes for beam in beams):
            stop = ended_by or StopReason.EXHAUSTED
            break
    chosen = best_score(found.finished, found.scores) if select is Select.BEST else weighted_vote(found.finished, found.weights)
    return session.solution(chosen, stop)


async def _level(
    session: Session, steps: Steps, beams: Sequence[Beam], branching: int, depth: int, parallel: int, found: Found, drawn: Counter[str]
) -> StopReason | None:
    """Make all beams one step longer. Returns the limit that ended it, if one did."""
    asked: list[tuple[Beam, Node, Ask]] = []
    for beam in beams:
        for node in _spread(beam, branching):
            # The same text so far means the same request: its draws are counted over all beams, so that none is made twice.
            ask = steps.ask(node.path, session.question.messages, 0, depth)
            asked.append((beam, node, replace(ask, draw=drawn[ask.prefix])))
            drawn[ask.prefix] += 1
    replies = await session.ask_all([ask for _, _, ask in asked], parallel=parallel)
    grown: list[tuple[Beam, Node]] = []
    for (beam, node, ask), reply in zip(asked, replies.found, strict=False):
        grown.append((beam, await _node(session, steps, node, ask, reply, depth)))
    distinct = _distinct(session, grown)
    wanted = [node for _, node, _ in distinct if node.path.goes_on or _votes(node)]
    if replies.ended_by is not None:
        wanted = [node for node in wanted if _votes(node)]
    scored = await session.score_all([node.candidate for node in wanted if node.candidate is not None], parallel=parallel)
    found.scores += scored.found
    values = valid_scores(scored.found)
    for _, node, repeats in distinct:
        for one in (node, *repeats):
            if _votes(one) and one.candidate is not None:
                found.finished.append(one.candidate)
                if _position(node) in values:
                    found.weights[one.candidate.position] = values[_position(node)]
    if replies.ended_by is not None or scored.ended_by is not None:
        return replies.ended_by or scored.ended_by
    for beam in beams:
        _keep_best(session, beam, [node for owner, node, _ in distinct if owner is beam], values)
    return None


def _spread(beam: Beam, branching: int) -> Iterator[Node]:
    """Its nodes as often as each is to be continued: `branching` times for every place, as evenly as can be, the better ones first."""
    wanted, nodes = beam.places * branching, len(beam.nodes)
    for place, node in enumerate(beam.nodes):
        yield from [node] * (wanted // nodes + (place < wanted % nodes))


async def _node(session: Session, steps: Steps, parent: Node, ask: Ask, reply: Reply, depth: int) -> Node:
    """The node that a reply makes of its parent. A dead one is given up at once; an answer that was cut is a candidate that never votes."""
    path = steps.grown(parent.path, ask, reply)
    before, answer = steps.parts(path)
    if path.phase is Phase.ENDED and answer is None:
        candidate = await session.candidate(before, complete=True, parent=parent.candidate, depth=depth, reply=reply)
    elif answer is not None and not path.goes_on:
        ended = path.phase is Phase.ENDED
        candidate = await session.candidate(answer, complete=ended, thinking=before, parent=parent.candidate, depth=depth, reply=reply)
    else:
        candidate = await session.candidate(
            "", complete=False, thinking=before, partial=True, parent=parent.candidate, depth=depth, reply=reply
        )
        if not path.goes_on:
            session.prune(candidate)
    return Node(path, candidate)


def _distinct(session: Session, grown: Sequence[tuple[Beam, Node]]) -> list[tuple[Beam, Node, list[Node]]]:
    """The nodes of each beam that repeat no earlier one of it word for word, each with those that repeat it, which are not continued."""
    first: dict[tuple[int, str, Phase], tuple[Beam, Node, list[Node]]] = {}
    for beam, node in grown:
        key = (id(beam), node.path.turn, node.path.phase)
        if key not in first:
            first[key] = (beam, node, [])
            continue
        first[key][2].append(node)
        if node.path.goes_on and node.candidate is not None:
            session.prune(node.candidate)
    return list(first.values())


def _keep_best(session: Session, beam: Beam, nodes: Sequence[Node], values: dict[int, float]) -> None:
    """Give the places of a beam to its best nodes. One without a valid score holds none: what is not known to be good is not continued."""
    ranked = sorted((node for node in nodes if _position(node) in values), key=lambda node: (-values[_position(node)], _position(node)))
    best = ranked[: beam.places]
    beam.nodes = [node for node in best if node.path.goes_on]
    beam.places -= len(best) - len(beam.nodes)
    for node in nodes:
        if node.path.goes_on and node not in best and node.candidate is not None:
            session.prune(node.candidate)


def _votes(node: Node) -> bool:
    return node.candidate is not None and node.candidate.votes


def _position(node: Node) -> int:
    return -1 if node.candidate is None else node.candidate.position


def check_search(name: str, options: StepOptions, setting: Setting) -> None:
    """Raise `UserError`, with what to change, where a step-by-step search cannot run."""
    model, thinking, verifier = setting.model, setting.thinking, setting.verifier
    if model.steps is None:
        raise UserError(f"strategy={name}: model {model.name!r} does not continue a given text, so it cannot be asked for the next step")
    if verifier is not None and not getattr(verifier, "scores_partial", False):
        raise UserError(
            f"strategy={name}: verifier {verifier.name!r} scores whole answers only; take one that scores steps, for example verifier=lab"
        )
    form = options.over(model.steps)
    off = thinking.mode is ThinkingMode.OFF
    if thinking.budget == 0 or (off and form.apart):
        raise UserError(f"strategy={name}: its steps are those of the thinking, which is off; give thinking=budget thinking.budget=N")
    if not off and not form.closing:
        raise UserError(
            f"strategy={name}: the steps of model {model.name!r} are those of its visible text; give thinking=off, or, where its thinking "
            "is part of the text, strategy.steps.opening and strategy.steps.closing"
        )
    if thinking.mode is ThinkingMode.BUDGET and not form.apart and not model.thinking.forced_by_prefix:
        raise UserError(
            f"strategy={name}: the budget of model {model.name!r} is kept by its server, which a step would begin anew; give thinking=off, "
            "or model.thinking.forced_by_prefix=true, where its thinking is part of the text that it continues"
        )
    if thinking.at_limit is AtLimit.EXTEND:
        raise UserError(f"strategy={name}: thinking.at_limit=extend extends a whole draw; give answer or fail")
    if setting.sampling.stop:
        raise UserError(f"strategy={name}: sampling.stop={list(setting.sampling.stop)}: a search ends its steps itself; leave it out")
    if setting.sampling.temperature == 0:
        raise UserError(f"strategy={name}: at sampling.temperature=0 every continuation is the same; give one above 0")
    steps = Steps.of(form, thinking, setting.answer_tokens, None)
    later = Path(f"{form.opening}1{form.boundary}")
    try:
        for path in (steps.start, later):
            setting.try_out(steps.ask(path, setting.question.messages, 0, 1))
    except UserError as error:
        boundary = f"strategy.steps.boundary={form.boundary!r}"
        raise UserError(f"strategy={name} {boundary}: model {model.name!r} cannot be asked for the next step: {error}") from None
