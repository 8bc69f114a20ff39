"""What `ttc-eval report` writes: one self-contained HTML page, and its figures and tables as files."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ttc_eval import plots
from ttc_eval.analysis.frames import solved_cells
from ttc_eval.metrics.intervals import wilson
from ttc_eval.report.content import Content, content
from ttc_eval.report.figures import IN_OVERVIEW, drawn
from ttc_eval.study import Study

if TYPE_CHECKING:
    import pandas as pd


# At this size the text of a figure is as large as the page's small print.
_PIXELS_PER_INCH = 112


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of the page: the name of its files, what it shows in words, its width in CSS pixels, and its PNG as base64."""

    name: str
    alt: str
    width: int
    data: str


def write_report(study: Study, folder: Path | None = None) -> list[Path]:
    """Write the report of a study; returns the files written, the HTML page first.

    Args:
        folder: where to; by default `<study>-report` beside the database.

    The page needs no network. Figures are there as PNG, PDF and SVG, tables as CSV and as LaTeX (booktabs); `cells.csv` has every column of
    `Study.cells`. Raises `UserError` when no cell of the study has a solution yet.
    """
    cells = solved_cells(study)
    target = folder or study.path.parent / f"{study.path.stem}-report"
    target.mkdir(parents=True, exist_ok=True)
    written, pictures = [], []
    for name, (alt, figure) in drawn(study, cells, by_difficulty(study)).items():
        saved = plots.save(figure, target / name)
        written += saved
        png = next(path for path in saved if path.suffix == ".png")
        if name not in IN_OVERVIEW:
            width = round(_PIXELS_PER_INCH * float(figure.get_figwidth()))
            pictures.append(Picture(name, alt, width, base64.b64encode(png.read_bytes()).decode("ascii")))
    found = content(study, cells)
    for table in found.tables:
        # The frame of cells has more columns than a page has room for.
        paths = {"csv": target / f"{table.name}.csv", "tex": target / f"{table.name}.tex"}
        paths["csv"].write_text(cells.to_csv(index=False) if table.name == "cells" else table.csv(), "utf-8")
        paths["tex"].write_text(table.latex(), "utf-8")
        written += paths.values()
    page = target / "report.html"
    page.write_text(rendered(found, pictures), "utf-8")
    return [page, *written]


def rendered(found: Content, pictures: list[Picture]) -> str:
    """The page. Every value is escaped: what a model wrote is text, whatever it says."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files("ttc_eval.report") / "page.html.j2").read_text("utf-8"))
    return template.render(content=found, figures=pictures)


def by_difficulty(study: Study) -> pd.DataFrame:
    """Success of single draws by difficulty: rows as `plots.budget_curve` takes them, one line a difficulty, with Wilson intervals."""
    frame = study.sql(
        """SELECT cell_id, difficulty AS strategy_label, m.model, m.dataset, m.split, m.seed, m.simulated, thinking_mode, thinking_budget,
                  thinking_label, count(*) AS n_problems, avg(correct::INTEGER) AS success, count(*) FILTER (correct) AS right_answers
           FROM problem_outcomes JOIN cell_metrics m USING (cell_id)
           WHERE strategy = 'single' AND difficulty IS NOT NULL
           GROUP BY ALL HAVING count(correct) = count(*) ORDER BY ALL"""
    )
    # Cells that differ in a setting alone are policies of their own, not more problems.
    frame = frame.merge(study.cells()[["cell_id", "variant"]], on="cell_id", how="left")
    intervals = [wilson(int(right), int(n)) for right, n in zip(frame["right_answers"], frame["n_problems"], strict=True)]
    frame["success_low"], frame["success_high"] = [one.low for one in intervals], [one.high for one in intervals]
    return frame
