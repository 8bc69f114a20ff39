"""What `ttc-eval report` writes: figures, the table of cells as CSV, and one self-contained HTML page."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttc_eval import plots
from ttc_eval.errors import UserError
from ttc_eval.metrics.intervals import wilson
from ttc_eval.shown import share, unknown
from ttc_eval.study import Study

if TYPE_CHECKING:
    import pandas as pd

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
table { border-collapse: collapse; font-size: 13px } th, td { padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: right }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } figure { margin: 2rem 0 } img { max-width: 100% }
.mark { background: #ffe08a; padding: .2rem .5rem } @media print { figure { break-inside: avoid } }
"""
_SHARES = {
    "coverage": "coverage",
    "selected_accuracy": "selected-answer accuracy",
    "success": "success",
    "candidate_success": "candidate-set success (oracle)",
    "selection_gap": "selection gap",
}
_FIGURES = {
    "overview": plots.overview,
    "budget-curve": plots.budget_curve,
    "selection-gap": plots.selection_gap,
    "cost-curve": plots.cost_curve,
}


def write_report(study: Study, folder: Path | None = None) -> list[Path]:
    """Write the report of a study; returns the files written, the HTML page first.

    Args:
        folder: where to; by default `<study>-report` beside the database.

    Raises `UserError` when no cell of the study has a solution yet.
    """
    cells = study.cells()
    cells = cells[cells["n_problems"] > 0]
    if cells.empty:
        raise UserError(f"{study.path}: no problem has been solved yet; run a sweep to its end first")
    target = folder or study.path.parent / f"{study.path.stem}-report"
    target.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Path] = {}
    written: list[Path] = []
    drawn = {name: draw(cells, interval_method="95 % Wilson intervals") for name, draw in _FIGURES.items()}
    difficulties = by_difficulty(study)
    if difficulties["strategy_label"].nunique() > 1:
        drawn["budget-curve-by-difficulty"] = plots.budget_curve(difficulties, interval_method="one draw; 95 % Wilson intervals")
    for name, figure in drawn.items():
        files = plots.save(figure, target / name)
        written += files
        figures[name] = next(path for path in files if path.suffix == ".png")
    table = target / "cells.csv"
    cells.to_csv(table, index=False)
    page = target / "report.html"
    page.write_text(_page(study, cells, figures), "utf-8")
    return [page, table, *written]


def by_difficulty(study: Study) -> pd.DataFrame:
    """Success of single draws by difficulty: rows as `plots.budget_curve` takes them, one line a difficulty, with Wilson intervals."""
    frame = study.sql(
        """SELECT difficulty AS strategy_label, model, dataset, split, seed, simulated, thinking_mode, thinking_budget, thinking_label,
                  count(*) AS n_problems, avg(correct::INTEGER) AS success, count(*) FILTER (correct) AS right_answers
           FROM problem_outcomes JOIN cell_metrics USING (cell_id)
           WHERE strategy = 'single' AND difficulty IS NOT NULL
           GROUP BY ALL ORDER BY ALL"""
    )
    intervals = [wilson(int(right), int(n)) for right, n in zip(frame["right_answers"], frame["n_problems"], strict=True)]
    frame["success_low"], frame["success_high"] = [one.low for one in intervals], [one.high for one in intervals]
    return frame


def _page(study: Study, cells: pd.DataFrame, figures: Mapping[str, Path]) -> str:
    sweeps = study.sql("SELECT overrides, git_revision, price_version, versions, host FROM sweeps ORDER BY started_at").to_dict("records")
    stops = study.sql("SELECT thinking_label, strategy_label, stop_reason, problems, selected FROM stop_reasons ORDER BY ALL")
    title = html.escape(study.path.stem)
    mark = '<p class="mark">Simulated: the answers of these cells were invented.</p>' if cells["simulated"].any() else ""
    pictures = "".join(
        f'<figure><img alt="{name}" src="data:image/png;base64,{_encoded(path)}"></figure>' for name, path in figures.items()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>
<h1>Study {title}</h1>{mark}
<p>Shares in %, with 95 % Wilson intervals over problems. Candidate-set success needs labels: an oracle view, not deployable accuracy.
Costs are what each strategy would have cost alone (charged), and what was really paid after draws were shared (billed).</p>
{_table(cells)}
{pictures}
<h2>Why strategies stopped</h2>{stops.to_html(index=False, border=0)}
<h2>How it was made</h2><ul>{"".join(_made(sweep) for sweep in sweeps)}</ul>
</body></html>
"""


def _table(cells: pd.DataFrame) -> str:
    head = [
        "model",
        "thinking",
        "strategy",
        "dataset",
        "n",
        *_SHARES.values(),
        "output tokens per problem",
        "calls charged",
        "calls billed",
        "USD",
    ]
    lines = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"]
    for row in cells.to_dict("records"):
        shown = [row["model"], row["thinking_label"], row["strategy_label"], f"{row['dataset']}/{row['split']}", row["n_problems"]]
        shown += [share(row, name) for name in _SHARES]
        usd = "no price" if unknown(row["charged_usd"]) else f"{row['charged_usd']:.4f}"
        shown += [f"{row['mean_output_tokens']:.1f}", f"{row['charged_calls']:.0f}", f"{row['billed_calls']:.0f}", usd]
        lines.append("<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in shown) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _made(sweep: Mapping[Any, Any]) -> str:
    parts = [
        f"overrides {sweep['overrides']}",
        f"revision {sweep['git_revision']}",
        f"prices {sweep['price_version']}",
        f"versions {sweep['versions']}",
    ]
    return f"<li>{html.escape('; '.join(parts))}</li>"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
