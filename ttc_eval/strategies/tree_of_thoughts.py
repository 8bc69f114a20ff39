"""Tree of thoughts: search over explicit states, by moves that the model proposes and judgements of where they lead.

In the paper a state is text, and the model's own words say what is legal. Here the task says (`ttc_eval.tasks`): only legal moves make
states, equal states are one, and only an end that the task's check accepts is an answer. What the model judges is the rest: which states
are promising. Source: Yao et al., arXiv 2305.10601.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Solution, StopReason
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.states import Node, Tree, check_counts, check_state_search, mean_worth
from ttc_eval.tasks.prompts import Outlook

# The weights of the paper's Game of 24, as shares of the largest.
WORTH = {Outlook.SURE: 1.0, Outlook.LIKELY: 1 / 20, Outlook.IMPOSSIBLE: 0.001 / 20}


class Order(StrEnum):
    """Which states go on first: all that are kept of one depth, or the best one found last."""

    BREADTH = "breadth"
    DEPTH = "depth"


class Value(StrEnum):
    """What ranks states: what the model says of them, or the order in which they were proposed."""

    MODEL = "model"
    PROPOSED = "proposed"


@dataclass(frozen=True, slots=True)
class TreeOfThoughts:
    """Searches until an end is valid, a limit is used up, or no state is left.

    With `verifier=rule` a state that is provably lost is given up before the model is asked about it.

    Attributes:
        order: breadth-first keeps the `width` best states of each depth; depth-first keeps the `width` best moves of each state, takes the
            best, and comes back to the others.
        width: see `order`. Ties go to what was proposed first; a state without a valid judgement ranks last.
        moves: moves that one request asks for.
        samples: requests for moves from one state, each an independent draw.
        value: see `Value`; value_samples: how often the model is asked about a state. Its mean worth counts sure as 1, likely as 1/20 and
            impossible as 1/20,000.
        prune_below: a state of less mean worth is given up, whatever the width; 0 gives up none, as breadth-first in the paper.
        max_nodes: most nodes; `limits.problem.search_nodes` and `search_depth` bind as well.
        parallel: requests in flight at once. The solution does not depend on it.
    """

    name: ClassVar[str] = "tree_of_thoughts"
    order: Order = Order.BREADTH
    width: int = 5
    moves: int = 8
    samples: int = 1
    value: Value = Value.MODEL
    value_samples: int = 3
    prune_below: float = 0.01
    max_nodes: int = 100
    parallel: int = 1

    def __post_init__(self) -> None:
        check_counts(
            width=self.width,
            moves=self.moves,
            samples=self.samples,
            value_samples=self.value_samples,
            max_nodes=self.max_nodes,
            parallel=self.parallel,
        )
        if not 0 <= self.prune_below <= 1:
            raise UserError(f"strategy.prune_below={self.prune_below}: give a worth between 0 and 1")

    @property
    def label(self) -> str:
        """`tree_of_thoughts@5x8` for width 5 and 8 moves; `…:depth` for depth-first, `…:proposed` without judgements."""
        order = "" if self.order is Order.BREADTH else ":depth"
        value = "" if self.value is Value.MODEL else ":proposed"
        return f"{self.name}@{self.width}x{self.moves}{order}{value}"

    @property
    def most(self) -> Most:
        """Every request for moves takes a node, and no node is judged twice."""
        judged = self.max_nodes * self.value_samples if self.value is Value.MODEL else 0
        return Most(0, self.max_nodes, asks=self.max_nodes + judged, judgements=judged)

    def check(self, setting: Setting) -> None:
        """See `check_state_search`."""
        check_state_search(self.name, setting)

    async def solve(self, session: Session) -> Solution:
        """Stops by `accepted`; `exhausted` when no state is left; `node_limit`, `depth_limit` or the limit that was used up."""
        tree = Tree(session, self.moves, self.samples, self.parallel, self.max_nodes)
        open_nodes = [tree.start()]
        while open_nodes:
            chosen, rest = (open_nodes, []) if self.order is Order.BREADTH else (open_nodes[:1], open_nodes[1:])
            grown = await tree.grow(chosen)
            if tree.accepted is not None:
                return session.solution(tree.accepted, StopReason.ACCEPTED)
            ranked = grown if tree.ended_by is not None else await self._ranked(tree, grown)
            if tree.ended_by is not None:
                return session.solution(None, tree.ended_by)
            for node in ranked[self.width :]:
                _prune(session, node)
            open_nodes = ranked[: self.width] + rest
        return session.solution(None, tree.nothing_left)

    async def _ranked(self, tree: Tree, nodes: Sequence[Node]) -> list[Node]:
        """The states that are worth it, the best first."""
        if self.value is Value.PROPOSED or not nodes:
            return list(nodes)
        worths = [mean_worth(said, WORTH) for said in await tree.outlooks(nodes, self.value_samples)]
        order = sorted(range(len(nodes)), key=lambda place: (worths[place] is None, -(worths[place] or 0.0)))
        kept: list[Node] = []
        for place in order:
            worth = worths[place]
            if worth is not None and worth < self.prune_below:
                _prune(tree.session, nodes[place])
            else:
                kept.append(nodes[place])
        return kept


def _prune(session: Session, node: Node) -> None:
    if node.candidate is not None:
        session.prune(node.candidate)
