"""Diverse verifier tree search: independent subtrees, each of which greedily continues its best step.

Source: Beeching, Tunstall and Rush, "Scaling test-time compute with open models" (Hugging Face, 2024): splitting the beam keeps one early
favourite of the verifier from taking all places, which matters the more, the larger the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ttc_eval.records import Solution
from ttc_eval.session import Session
from ttc_eval.steps import StepOptions
from ttc_eval.strategies.base import Most, Setting
from ttc_eval.strategies.stepwise import Beam, Node, Select, check_search, check_sizes, search, steps_of


@dataclass(frozen=True, slots=True)
class Dvts:
    """Grows `subtrees` beams of one place each; the answer is chosen among the finished solutions of all of them.

    Attributes:
        subtrees: how many trees; their samples are independent, also where they come to the same text.
        branching: steps that each asks for at each level, of which it continues the best.
        max_depth, max_step_tokens, select, parallel, steps: as in `BeamSearch`.
    """

    name: ClassVar[str] = "dvts"
    needs_verifier: ClassVar[bool] = True
    subtrees: int = 4
    branching: int = 4
    max_depth: int = 16
    max_step_tokens: int | None = None
    select: Select = Select.BEST
    parallel: int = 1
    steps: StepOptions = field(default_factory=StepOptions)

    def __post_init__(self) -> None:
        sizes = {"subtrees": self.subtrees, "branching": self.branching, "max_depth": self.max_depth, "parallel": self.parallel}
        check_sizes(self.max_step_tokens, **sizes)

    @property
    def label(self) -> str:
        """`dvts@4x4` for four subtrees and four steps each; `…:vote` for the vote."""
        return f"{self.name}@{self.subtrees}x{self.branching}" + (":vote" if self.select is Select.VOTE else "")

    @property
    def most(self) -> Most:
        """All subtrees at every level, each node scored."""
        nodes = self.subtrees * self.branching * self.max_depth
        return Most(0, nodes, asks=nodes)

    def check(self, setting: Setting) -> None:
        """See `check_search`."""
        check_search(self.name, self.steps, setting)

    async def solve(self, session: Session) -> Solution:
        """Grow all subtrees side by side; see `search` for what stops them."""
        steps = steps_of(session, self.steps, self.max_step_tokens)
        beams = [Beam(1, [Node(steps.start)]) for _ in range(self.subtrees)]
        return await search(
            session, steps, beams, branching=self.branching, max_depth=self.max_depth, parallel=self.parallel, select=self.select
        )
