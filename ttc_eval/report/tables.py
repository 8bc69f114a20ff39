"""Tables of a report: text in every cell, for the page, for a spreadsheet and for a paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ttc_eval.shown import unknown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption. `text_columns` of its first columns are words, the others numbers."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1

    def csv(self) -> str:
        """The table as CSV."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.rows])
        return out.getvalue()

    def latex(self) -> str:
        r"""The table as LaTeX with booktabs; every cell is escaped, so that a label cannot be a command."""
        aligned = "l" * self.text_columns + "r" * (len(self.columns) - self.text_columns)
        lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in (self.columns, *self.rows)]
        body = "\n".join(
            [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"]
        )
        return (
            f"% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n\\caption{{{_tex(self.caption)}}}\n{body}\n\\end{{table}}\n"
        )


def of_frame(name: str, caption: str, frame: pd.DataFrame, columns: dict[str, str], text_columns: int = 1) -> Table:
    """A table of some columns of a frame, under other names. Shares and costs are shown to four significant digits."""
    rows = tuple(tuple(shown(value) for value in row) for row in frame[list(columns)].itertuples(index=False, name=None))
    return Table(name, caption, tuple(columns.values()), rows, text_columns)


def share(value: Any, low: Any = None, high: Any = None) -> str:
    """A share in per cent with its interval: `73.5 [68.2, 78.2]`. An undefined one is a dash."""
    if unknown(value):
        return "–"
    ends = "" if unknown(low) or unknown(high) else f" [{100 * float(low):.1f}, {100 * float(high):.1f}]"
    return f"{100 * float(value):.1f}{ends}"


def shown(value: Any) -> str:
    """Any value of a frame as text. Unknown is a dash, never 0."""
    if isinstance(value, str):
        return value
    if unknown(value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = float(value)
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else f"{number:.4g}"


_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "−": r"$-$",
    "×": r"$\times$",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in " ".join(text.split()))


def joined(parts: Sequence[str]) -> str:
    """Names in one line, each once, in their order."""
    return ", ".join(dict.fromkeys(part for part in parts if part))
