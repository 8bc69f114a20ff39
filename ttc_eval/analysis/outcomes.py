"""What came of every problem, and how far truncation leaves success open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttc_eval.analysis.frames import labels_of, solved_cells
from ttc_eval.metrics.intervals import wilson

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

# In the order in which a figure stacks them.
OUTCOMES = ("right", "wrong", "unresolved", "truncated", "unparsed", "refused", "error", "ungraded")


def breakdown(study: Study) -> pd.DataFrame:
    """Each cell's problems by outcome: one row per cell × outcome, zero counts included, which sum to `n`.

    Columns after the labels: `outcome`, `problems`, `share`, `share_low`, `share_high` (Wilson), `n`, `method`.

    | outcome | the problem |
    |---|---|
    | right, wrong | has a selected answer |
    | unresolved | has candidates with answers, and none was selected |
    | truncated | has none: all candidates were cut (by a cap or a budget), or some cut and the others refused |
    | unparsed | has none: at least one candidate ended by itself without an answer |
    | refused | has none: the provider refused all |
    | error | ended in an error |
    | ungraded | has a selected answer without a label, as imported ones may be |
    """
    import pandas as pd

    cells = solved_cells(study)
    counts = study.sql("SELECT cell_id, outcome, count(*) AS problems FROM problem_outcomes GROUP BY ALL")
    known = {(cell_id, outcome): int(problems) for cell_id, outcome, problems in counts.itertuples(index=False, name=None)}
    rows = []
    for cell_id, n in zip(cells["cell_id"], cells["n_problems"].astype(int), strict=True):
        for outcome in OUTCOMES:
            problems = known.get((cell_id, outcome), 0)
            one = wilson(problems, n)
            ends = {"share_low": one.low, "share_high": one.high, "n": n, "method": one.method}
            rows.append({"cell_id": cell_id, "outcome": outcome, "problems": problems, "share": problems / n, **ends})
    return labels_of(cells).merge(pd.DataFrame(rows), on="cell_id")


def bounds(study: Study) -> pd.DataFrame:
    """Success of each cell under two readings of what was cut: one row per cell × `reading`.

    `truncated_wrong` counts a truncated problem as not solved, as `success` does. `truncated_excluded` leaves it out of the problems: what
    success would be if cut problems were solved as often as the others. A cap that cuts hard problems more than easy ones makes the second
    too high, so the truth with a larger cap is expected between the two. Columns after the labels: `reading`, `success`, `success_low`,
    `success_high` (Wilson), `n`, `truncated` (problems), `method`. NaN where nothing is left.
    """
    import pandas as pd

    cells = solved_cells(study)
    wide = breakdown(study).pivot(index="cell_id", columns="outcome", values="problems")
    rows = []
    for cell_id, n in zip(cells["cell_id"], cells["n_problems"].astype(int), strict=True):
        right, truncated = int(wide.loc[cell_id, "right"]), int(wide.loc[cell_id, "truncated"])
        for reading, of in (("truncated_wrong", n), ("truncated_excluded", n - truncated)):
            one = wilson(right, of) if of else None
            values = (np.nan, np.nan, np.nan, "none: every problem was cut") if one is None else (right / of, one.low, one.high, one.method)
            named = dict(zip(("success", "success_low", "success_high", "method"), values, strict=True))
            rows.append({"cell_id": cell_id, "reading": reading, **named, "n": of, "truncated": truncated})
    return labels_of(cells).merge(pd.DataFrame(rows), on="cell_id")
