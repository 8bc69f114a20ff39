"""What a verifier knows: whether its scores tell right candidates from wrong ones, mean what they say, and are worth what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ttc_eval.analysis.frames import Floats, labels_of, rows_or_columns, solved_cells
from ttc_eval.analysis.pools import judged, pools
from ttc_eval.metrics import best_of_n_at_k, cluster_mean, pass_at_k
from ttc_eval.metrics.intervals import Estimate, cluster_ratio
from ttc_eval.metrics.ranking import auroc_pooled, auroc_within, brier
from ttc_eval.metrics.ranking import reliability as bins_of
from ttc_eval.metrics.scaling import doubling

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

# The options by which strategies say above which score a candidate is accepted.
_THRESHOLDS = ("accept_at", "threshold", "min_score")

# Scores of candidates that are meant to be answers; a step's score is no judgement of an answer.
_SCORES = """
    SELECT v.cell_id, v.problem_id, v.position, v.verifier, v.kind, CASE WHEN v.valid THEN v.score END AS score, v.valid, v.correct
    FROM verifier_scores v JOIN candidates c USING (cell_id, problem_id, position)
    WHERE v.what = 'candidate' AND v.correct IS NOT NULL AND NOT coalesce(c."partial", false)
    ORDER BY v.cell_id, v.verifier, v.problem_id, v.position"""

_COSTS = """
    SELECT cell_id, coalesce(sum(tokens) FILTER (role = 'verify'), 0) / sum(tokens) AS cost_share
    FROM (SELECT cell_id, role, charged_output_tokens + charged_input_tokens AS tokens FROM call_costs WHERE NOT overshoot)
    WHERE cell_id IS NOT NULL GROUP BY cell_id"""


_SHARES = ("auroc_within", "auroc_pooled", "brier", "false_accept", "false_reject")
_AUDIT = (
    *("n", "candidates", "invalid_share", "threshold", "regret", "cost_share", "kind"),
    *(f"{name}{end}" for name in _SHARES for end in ("", "_low", "_high")),
)
_RELIABILITY = ("bin_low", "bin_high", "candidates", "score", "right", "right_low", "right_high", "n", "method")


def audit(study: Study) -> pd.DataFrame:
    """One row per cell × verifier that scored its candidates.

    Columns after the labels (`verifier` is the one audited):

    | column | is |
    |---|---|
    | n, candidates, invalid_share | problems and candidates with a score, and the share of scores that are not valid |
    | auroc_within, auroc_pooled | probability that a right candidate scores above a wrong one, in the same problem, and anywhere |
    | brier | mean squared distance of the score from right (1) or wrong (0) |
    | threshold, false_accept, false_reject | the used threshold, or 0.5; wrong candidates at or above it, right ones below it |
    | regret | candidate-set success − success: what a perfect verifier would have added; needs labels |
    | cost_share | tokens of verifier calls ÷ all tokens charged |

    Shares have `_low` and `_high` over problems. NaN where a value is not defined, as an AUROC without both kinds is not.
    """
    cells = solved_cells(study).set_index("cell_id", drop=False)
    costs = dict(study.sql(_COSTS).itertuples(index=False, name=None))
    gaps = dict(zip(cells.index, cells["candidate_success"] - cells["success"], strict=True))
    configs = dict(study.sql("SELECT cell_id, strategy_params FROM cells").itertuples(index=False, name=None))
    rows = []
    for (cell_id, verifier), frame in study.sql(_SCORES).groupby(["cell_id", "verifier"], sort=False):
        if cell_id not in cells.index:
            continue
        threshold = _threshold(orjson.loads(configs[cell_id]))
        scores, correct, given = _matrices(frame)
        used = np.isfinite(scores)
        accepts = used & (np.nan_to_num(scores, nan=-1.0) >= threshold)
        shares: dict[str, Estimate | None] = {
            "auroc_within": auroc_within(scores, correct, invalid="left_out"),
            "auroc_pooled": auroc_pooled(scores, correct, invalid="left_out"),
            "brier": brier(scores, correct),
            "false_accept": _share_of(accepts & ~correct, used & ~correct),
            "false_reject": _share_of(used & ~accepts & correct, used & correct),
        }
        named = {
            "n": len(scores),
            "candidates": int(given.sum()),
            "invalid_share": 1 - float(used.sum()) / float(given.sum()),
            "threshold": threshold,
            "regret": float(gaps[cell_id]),
            "cost_share": costs.get(cell_id),
            "kind": frame["kind"].iloc[0],
        }
        labels = _labels(cells, cell_id)
        rows.append({**labels, "verifier": verifier, **named, **_spread_out(shares)})
    return _in_order(rows_or_columns(rows, _AUDIT), cells)


def reliability(study: Study, *, bins: int = 10) -> pd.DataFrame:
    """How often candidates of about the same score are right: one row per cell × verifier × bin that holds any.

    Columns after the labels: `bin_low`, `bin_high`, `candidates`, `score` (their mean), `right`, `right_low`, `right_high` (over problems),
    `n` problems, `method`. On the diagonal a score can be read as a probability.
    """
    cells = solved_cells(study).set_index("cell_id", drop=False)
    rows = []
    for (cell_id, verifier), frame in study.sql(_SCORES).groupby(["cell_id", "verifier"], sort=False):
        if cell_id not in cells.index:
            continue
        scores, correct, _ = _matrices(frame)
        labels = _labels(cells, cell_id)
        for one in bins_of(scores, correct, bins):
            ends = {"bin_low": one.low, "bin_high": one.high, "candidates": one.draws, "score": one.score}
            right = {"right": one.right.value, "right_low": one.right.low, "right_high": one.right.high}
            rows.append({**labels, "verifier": verifier, **ends, **right, "n": one.right.n, "method": one.right.method})
    return _in_order(rows_or_columns(rows, _RELIABILITY), cells)


def overoptimisation(study: Study) -> pd.DataFrame:
    """Best-of-N as N grows, beside what a perfect verifier would select: one row per pool × verifier × k.

    Columns after the pool's labels: `verifier`, `k`, `success`, `success_low`, `success_high` (exact best-of-N@k, over problems), `oracle`
    (pass@k; needs labels), `gap` (their difference), `selected_score` (mean score of the selected draw), `n`. Success that falls while
    the selected score still rises is a verifier that is being fooled.
    """
    rows: list[dict[str, Any]] = []
    for pool in pools(study):
        for verifier in pool.scores:
            held = judged(pool, verifier)
            if held is None:
                continue
            ks, right = doubling(held.n), held.correct.sum(axis=1)
            usable = np.where(held.classes >= 0, held.scores[verifier], np.nan)
            success = best_of_n_at_k(usable, held.correct & (held.classes >= 0), ks, "unresolved")
            heights = _selected_score(usable, ks)
            for place, k in enumerate(ks.tolist()):
                one = cluster_mean(success[:, place])
                oracle = float(pass_at_k(np.full(len(right), held.n), right, k).mean())
                ends = {"success": one.value, "success_low": one.low, "success_high": one.high, "n": one.n, "method": one.method}
                rest = {"oracle": oracle, "gap": oracle - one.value, "selected_score": float(heights[place])}
                rows.append({**pool.labels, "verifier": verifier, "k": k, **ends, **rest})
    return rows_or_columns(rows, ("k", "success", "success_low", "success_high", "n", "method", "oracle", "gap", "selected_score"))


def order_agreement(study: Study) -> pd.DataFrame:
    """Whether a pairwise verifier says the same when the two candidates change places: one row per cell × verifier.

    Columns after the labels: `comparisons`, `valid_share`, `agreement` with `_low` and `_high` (of the valid ones; over problems),
    `first_share` (of the replies that chose, those that chose the one shown first: ½ without a bias of position), `n` problems.
    """
    cells = solved_cells(study).set_index("cell_id", drop=False)
    frame = study.sql(
        """SELECT cell_id, problem_id, verifier, count(*) AS comparisons, count(*) FILTER (valid) AS valid,
                  count(*) FILTER (valid AND forward = backward) AS agreed,
                  count(*) FILTER (forward = 'first') + count(*) FILTER (backward = 'second') AS shown_first,
                  count(*) FILTER (forward IN ('first', 'second')) + count(*) FILTER (backward IN ('first', 'second')) AS chose
           FROM comparisons GROUP BY ALL ORDER BY ALL"""
    )
    rows = []
    for (cell_id, verifier), one in frame.groupby(["cell_id", "verifier"], sort=False):
        if cell_id not in cells.index:
            continue
        held = one[one["valid"] > 0]
        agreement = cluster_ratio(held["agreed"].to_numpy(), held["valid"].to_numpy()) if len(held) else None
        chose = int(one["chose"].sum())
        named = {
            "comparisons": int(one["comparisons"].sum()),
            "valid_share": float(one["valid"].sum() / one["comparisons"].sum()),
            "first_share": float(one["shown_first"].sum() / chose) if chose else np.nan,
            "n": len(one),
        }
        labels = _labels(cells, cell_id)
        rows.append({**labels, "verifier": verifier, **named, **_spread_out({"agreement": agreement})})
    ends = ("agreement", "agreement_low", "agreement_high")
    return _in_order(rows_or_columns(rows, ("comparisons", "valid_share", "first_share", "n", *ends)), cells)


def _in_order(found: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The rows in the order of the study's cells."""
    places = {cell_id: place for place, cell_id in enumerate(cells.index)}
    return found.sort_values("cell_id", key=lambda column: column.map(places), kind="stable", ignore_index=True) if len(found) else found


def _labels(cells: pd.DataFrame, cell_id: Any) -> dict[str, Any]:
    row = labels_of(cells.loc[[cell_id]]).iloc[0]
    return {str(name): value for name, value in row.items()}


def _threshold(params: dict[str, Any]) -> float:
    found = [params[name] for name in _THRESHOLDS if isinstance(params.get(name), int | float)]
    return float(found[0]) if found else 0.5


def _matrices(frame: pd.DataFrame) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Scores, labels, and where there is a score at all, of shape (problems, most candidates of one)."""
    place = frame.groupby("problem_id").cumcount()
    row = frame["problem_id"].astype("category").cat.codes
    shape = (int(row.max()) + 1, int(place.max()) + 1)
    scores, correct, given = np.full(shape, np.nan), np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    scores[row, place] = frame["score"].astype(float)
    correct[row, place] = frame["correct"].astype(bool)
    given[row, place] = True
    return scores, correct, given


def _share_of(part: np.ndarray, whole: np.ndarray) -> Estimate | None:
    counts = whole.sum(axis=1)
    here = counts > 0
    return cluster_ratio(part.sum(axis=1)[here], counts[here]) if here.any() else None


def _spread_out(shares: dict[str, Estimate | None]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, one in shares.items():
        values = (np.nan, np.nan, np.nan) if one is None else (one.value, one.low, one.high)
        found |= dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
    return found


def _selected_score(scores: Floats, ks: np.ndarray) -> Floats:
    """Mean over problems of the highest score among k draws, over all subsets; problems with a draw without a score are left out."""
    kept = scores[np.isfinite(scores).all(axis=1)]
    if not len(kept):
        return np.full(len(ks), np.nan)
    ranked = np.sort(kept, axis=1)
    n = kept.shape[1]
    # P(the i-th smallest is the largest of k) = C(i − 1, k − 1) / C(n, k), as a difference of pass@k at successive counts.
    found = []
    for k in ks.tolist():
        below = np.array([float(pass_at_k(n, count, k)) for count in range(n + 1)])
        weight = np.diff(below)[::-1]
        found.append(float((ranked * weight).sum(axis=1).mean()))
    return np.array(found)
