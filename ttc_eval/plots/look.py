"""Which colour, marker and dash a line has: the same name looks the same in every panel of a figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ttc_eval.plots.layout import End
from ttc_eval.plots.style import COLOURS, DASHES, MARKERS


@dataclass(frozen=True, slots=True)
class Look:
    """How one line is drawn."""

    label: str
    colour: str
    marker: str
    dash: Any

    def end(self, y: float) -> End:
        """The label beside the line's end at that height."""
        return End(self.label, self.colour, self.marker, y)

    @property
    def line(self) -> dict[str, Any]:
        """The keywords of `Axes.plot` for this line with its markers."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.dash, "markeredgecolor": "white", "markeredgewidth": 0.5}


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label, in the order in which they first come."""
    found: dict[str, Look] = {}
    for label in labels:
        i = len(found)
        if label not in found:
            found[label] = Look(label, COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)])
    return found
