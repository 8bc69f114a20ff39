"""Monte Carlo tree search over explicit states: UCB1 decides where to look next, never what is right.

Visits say where the search has spent, and values what it made of it. Neither is a probability of anything, and neither is stored or
reported as one; what is returned is an end that the task's own check accepts, or nothing. Source: Kocsis and Szepesvári 2006 (UCT).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Solution, StopReason
from ttc_eval.session import Session
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.states import Node, Tree, check_counts, check_state_search, mean_worth
from ttc_eval.tasks.prompts import Outlook

WORTH = {Outlook.SURE: 1.0, Outlook.LIKELY: 0.5, Outlook.IMPOSSIBLE: 0.0}


class Value(StrEnum):
    """What a new state is worth: what the model says of it, or how far a line of play from it gets."""

    MODEL = "model"
    ROLLOUT = "rollout"


@dataclass(slots=True, eq=False)
class _Branch:
    """A node of the tree with what the search has made of it. `open`: something below it is left to look at."""

    node: Node
    children: list[_Branch] | None = None
    visits: int = 0
    total: float = 0.0
    tried: bool = False
    open: bool = True


@dataclass(frozen=True, slots=True)
class MCTS:
    """In each iteration goes down by UCB1, asks for the moves from the state it comes to, values the first new one, and tells the path.

    A state that is provably lost (`verifier=rule`) or an end that is not valid leaves the tree at once. A judgement that cannot be read
    tells nothing.

    Attributes:
        iterations: how often; each asks for the moves from one state at most.
        exploration: weight of the second term of UCB1, mean worth + exploration · sqrt(ln(visits of the parent) / visits).
        moves, samples, value_samples, max_nodes, parallel: as in `tree_of_thoughts`.
        value: `model` counts sure as 1, likely as 1/2 and impossible as 0. `rollout` plays on from the state, one move asked for at a time:
            1 for a valid end, which is then the answer, else the moves that it got through, as a share of one more than there are.
    """

    name: ClassVar[str] = "mcts"
    iterations: int = 30
    exploration: float = 1.0
    moves: int = 8
    samples: int = 1
    value: Value = Value.MODEL
    value_samples: int = 1
    max_nodes: int = 100
    parallel: int = 1

    def __post_init__(self) -> None:
        check_counts(
            iterations=self.iterations,
            moves=self.moves,
            samples=self.samples,
            value_samples=self.value_samples,
            max_nodes=self.max_nodes,
            parallel=self.parallel,
        )
        if not 0 <= self.exploration < math.inf:
            raise UserError(f"strategy.exploration={self.exploration}: give 0 or more")

    @property
    def label(self) -> str:
        """`mcts@30` for thirty iterations; `…:rollout` when lines of play value the states."""
        return f"{self.name}@{self.iterations}" + (":rollout" if self.value is Value.ROLLOUT else "")

    @property
    def most(self) -> Most:
        """Every request for moves takes a node, of a rollout as well; each iteration judges one state."""
        judged = min(self.iterations, self.max_nodes) * self.value_samples if self.value is Value.MODEL else 0
        return Most(0, self.max_nodes, asks=self.max_nodes + judged, judgements=judged)

    def check(self, setting: Setting) -> None:
        """See `check_state_search`."""
        check_state_search(self.name, setting)

    async def solve(self, session: Session) -> Solution:
        """Stops by `accepted`; `exhausted` when no state is left; `attempt_limit` after the iterations; or a limit in its name."""
        tree = Tree(session, self.moves, self.samples, self.parallel, self.max_nodes)
        root = _Branch(tree.start())
        for _ in range(self.iterations):
            path = _chosen(root, self.exploration)
            worth = await self._looked(tree, path)
            if tree.accepted is not None:
                return session.solution(tree.accepted, StopReason.ACCEPTED)
            if tree.ended_by is not None:
                return session.solution(None, tree.ended_by)
            _tell(path, worth)
            if not root.open:
                return session.solution(None, tree.nothing_left)
        return session.solution(None, StopReason.ATTEMPT_LIMIT)

    async def _looked(self, tree: Tree, path: list[_Branch]) -> float | None:
        """Go one step beyond the path's last state, or value it where that was not done; what that is worth, None if nobody can say."""
        leaf = path[-1]
        if leaf.tried or len(path) == 1:
            leaf.children = [_Branch(node) for node in await tree.grow([leaf.node])]
            if tree.accepted is not None or tree.ended_by is not None:
                return None
            if not leaf.children:
                return 0.0
            path.append(leaf.children[0])
        path[-1].tried = True
        if self.value is Value.ROLLOUT:
            return await self._played_on(tree, path[-1].node)
        [said] = await tree.outlooks([path[-1].node], self.value_samples)
        return mean_worth(said, WORTH)

    async def _played_on(self, tree: Tree, node: Node) -> float:
        made, passed, whole = 0, list[Candidate](), node.state.moves_left
        at: Node | None = node
        while at is not None:
            at = await tree.follow(at)
            if at is not None and at.candidate is not None:
                made += 1
                passed.append(at.candidate)
        if tree.accepted is not None:
            return 1.0
        for candidate in passed:
            tree.session.prune(candidate)
        return made / (whole + 1)


def _chosen(root: _Branch, exploration: float) -> list[_Branch]:
    """The path from the root to the state to look at: down the open branches, one that was not tried first, else the highest by UCB1."""
    path = [root]
    while path[-1].children is not None:
        parent = path[-1]
        among = [child for child in parent.children or () if child.open]
        path.append(next((child for child in among if not child.tried), None) or max(among, key=lambda one: ucb1(one, parent, exploration)))
    return path


def ucb1(child: _Branch, parent: _Branch, exploration: float) -> float:
    """Mean worth, and what is to be gained by looking where little was looked. A branch that was told nothing counts as its parent does."""
    of = child if child.visits else parent
    mean = of.total / of.visits if of.visits else 0.0
    return mean + exploration * math.sqrt(math.log(max(parent.visits, 1)) / max(child.visits, 1))


def _tell(path: list[_Branch], worth: float | None) -> None:
    """Count a look at the end of the path all the way up, and close what has nothing left below it."""
    for branch in reversed(path):
        if worth is not None:
            branch.visits += 1
            branch.total += worth
        if branch.children is not None and not any(child.open for child in branch.children):
            branch.open = False
