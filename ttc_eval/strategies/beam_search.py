"""Beam search over steps of reasoning: partial solutions grow step by step, and a process verifier says which are worth continuing.

Source: Snell et al., arXiv 2408.03314, section 5 (beam search against a process reward model). Here a finished solution keeps its place,
as in beam search for translation, so that a search ends when all places are taken by finished ones.
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
class BeamSearch:
    """Keeps the `width` best partial solutions of each level; the answer is chosen among the finished ones only.

    Attributes:
        width: places of the beam.
        branching: steps that are asked for each place, at each level.
        max_depth: most levels; the answer is part of the last step, or a level of its own.
        max_step_tokens: cap of one step; None: what the path has left of the thinking budget. A step that is cut before its boundary is
            dead.
        select: `best`, the finished solution with the highest score, or `vote`, the class of answers whose scores sum up to most.
        parallel: steps and scores in flight at once. The solution does not depend on it.
        steps: what a step is; null in it takes what is known of the model.
    """

    name: ClassVar[str] = "beam_search"
    needs_verifier: ClassVar[bool] = True
    width: int = 4
    branching: int = 4
    max_depth: int = 16
    max_step_tokens: int | None = None
    select: Select = Select.BEST
    parallel: int = 1
    steps: StepOptions = field(default_factory=StepOptions)

    def __post_init__(self) -> None:
        sizes = {"width": self.width, "branching": self.branching, "max_depth": self.max_depth, "parallel": self.parallel}
        check_sizes(self.max_step_tokens, **sizes)

    @property
    def label(self) -> str:
        """`beam_search@4x4` for four places and four steps each; `…:vote` for the vote."""
        return f"{self.name}@{self.width}x{self.branching}" + (":vote" if self.select is Select.VOTE else "")

    @property
    def most(self) -> Most:
        """A full beam at every level, each node scored."""
        nodes = self.width * self.branching * self.max_depth
        return Most(0, nodes, asks=nodes)

    def check(self, setting: Setting) -> None:
        """See `check_search`."""
        check_search(self.name, self.steps, setting)

    async def solve(self, session: Session) -> Solution:
        """Grow one beam; see `search` for what stops it."""
        steps = steps_of(session, self.steps, self.max_step_tokens)
        beams = [Beam(self.width, [Node(steps.start)])]
        return await search(
            session, steps, beams, branching=self.branching, max_depth=self.max_depth, parallel=self.parallel, select=self.select
        )
