"""What a strategy would have taken: from recorded latencies, as if its draws ran a stated number at a time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """Seconds of all draws (`work`), and until the last of them would have ended (`critical`), from a start at 0.

    It counts recorded latencies, so a stored draw takes as long as it did when it was made.
    """

    work: float = 0.0
    critical: float = 0.0
    _slots: list[float] = field(default_factory=list)

    def barrier(self, parallel: int) -> None:
        """What runs from now on, `parallel` at a time, starts when everything before it has ended."""
        self._slots = [self.critical] * parallel

    def run(self, seconds: float, parallel: int) -> None:
        """Let one draw of `seconds` run in the first of `parallel` slots that is free.

        With one slot it starts when everything before it has ended.
        """
        if parallel == 1:
            self._slots = [self.critical]
        while len(self._slots) < parallel:
            heapq.heappush(self._slots, self.critical)
        end = heapq.heappop(self._slots) + seconds
        heapq.heappush(self._slots, end)
        self.work += seconds
        self.critical = max(self.critical, end)
