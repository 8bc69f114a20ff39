"""What a strategy is: a frozen dataclass, whose fields are its options, with one method."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ttc_eval.records import Solution
from ttc_eval.session import Session


class Strategy(Protocol):
    """The policy of one cell.

    `name` is the word that tables and configs use; `label` adds the options that tell two cells apart.
    """

    name: ClassVar[str]

    @property
    def label(self) -> str:
        """A short name for tables and figures, such as `self_consistency@8`."""
        ...

    async def solve(self, session: Session) -> Solution:
        """Spend through `session` on its question and return the solution. Unresolved is an outcome, not an error."""
        ...
