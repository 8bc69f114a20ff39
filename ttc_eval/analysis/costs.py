"""What was paid for what: every token and every dollar of a cell in exactly one part."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ttc_eval import prices
from ttc_eval.analysis.frames import described, labels_of, solved_cells
from ttc_eval.models.base import PriceRef
from ttc_eval.records import Usage
from ttc_eval.replay.prices import stored_refs
from ttc_eval.shown import unknown

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

# In the order in which a figure stacks them. The first five are the parts of calls that a selector could use.
PARTS = (
    "prompt",
    "cached",
    "cache_write",
    "reasoning",
    "answer",
    "output",
    "reserved",
    "verifier",
    "pruned",
    "retried",
    "failed",
    "overshoot",
)

_CALLS = """
    SELECT c.cell_id, c.call_id, c.model, c.role, c.status, c.overshoot, c.pruned, k.started_at,
           c.attempt < max(c.attempt) OVER (PARTITION BY c.key, c.sweep_id) AS tried_again,
           c.input_tokens, c.cached_input_tokens, c.cache_write_tokens, c.output_tokens, c.reasoning_tokens,
           c.charged_calls, c.charged_input_tokens, c.charged_output_tokens, c.charged_usd,
           c.billed_calls, c.billed_input_tokens, c.billed_output_tokens, c.billed_usd
    FROM call_costs c JOIN calls k USING (call_id) WHERE c.cell_id IS NOT NULL"""


def decomposition(study: Study) -> pd.DataFrame:
    """What each cell was charged and billed, by what it went to.

    One row per cell × `basis` (charged, billed) × `part`, with `calls`, `tokens`, `usd`, and these per problem and per correct answer
    (`usd_per_problem`, `usd_per_correct`, `tokens_per_problem`, `tokens_per_correct`; NaN per correct answer where none was). The parts are
    disjoint and sum to the ledger's totals:

    | part | tokens of |
    |---|---|
    | prompt, cached, cache_write | the input of draws that were kept, by how it is priced |
    | reasoning, answer | their output: reported as reasoning, and the rest, which may hold tokens that nobody sees |
    | output | output of which nobody reported how much was reasoning |
    | reserved | calls whose usage is unknown: their whole reservation |
    | verifier | verifier calls, input and output |
    | pruned | calls that made nothing but candidates which were given up |
    | retried, failed | attempts that came to nothing: tried again, and not |
    | overshoot | calls beyond the stopping point: billed, never charged |

    A part's USD is what its tokens cost by the price of the call, scaled so that the parts make the call's recorded cost. NaN without a
    price; such cells are named in `attrs["excluded"]`. Tokens are NaN where an imported sample's are unknown.
    """
    import pandas as pd

    cells = solved_cells(study)
    refs = stored_refs(study.sql("SELECT cell_id, config FROM cells"))
    sums: dict[tuple[str, str, str], list[float]] = {}
    for row in study.sql(_CALLS).to_dict("records"):
        parts = _parts(row, refs.get((row["cell_id"], row["model"]), PriceRef()))
        for basis in ("charged", "billed"):
            if not row[f"{basis}_calls"]:
                continue
            taken = _number(row[f"{basis}_input_tokens"]) + _number(row[f"{basis}_output_tokens"])
            usd = _number(row[f"{basis}_usd"])
            for place, (part, tokens, share) in enumerate(parts):
                one = sums.setdefault((row["cell_id"], basis, part), [0.0, 0.0, 0.0])
                one[0] += place == 0
                one[1] += taken if tokens is None else tokens
                one[2] += usd * share
    frame = pd.DataFrame([(*key, *values) for key, values in sums.items()], columns=["cell_id", "basis", "part", "calls", "tokens", "usd"])
    sizes = cells.set_index("cell_id")[["n_problems", "n_correct"]].astype(float)
    for unit in ("tokens", "usd"):
        frame[f"{unit}_per_problem"] = frame[unit] / frame["cell_id"].map(sizes["n_problems"])
        frame[f"{unit}_per_correct"] = frame[unit] / frame["cell_id"].map(sizes["n_correct"].where(sizes["n_correct"] > 0))
    order = {part: place for place, part in enumerate(PARTS)}
    found = labels_of(cells).merge(frame, on="cell_id", how="inner")
    found = found.sort_values(["basis", "part"], key=lambda column: column.map(order) if column.name == "part" else column, kind="stable")
    places = {cell_id: place for place, cell_id in enumerate(cells["cell_id"])}
    found = found.sort_values("cell_id", key=lambda column: column.map(places), kind="stable").reset_index(drop=True)
    unpriced = set(found.loc[found["usd"].isna(), "cell_id"])
    found.attrs["excluded"] = [described(row) for _, row in cells[cells["cell_id"].isin(unpriced)].iterrows()]
    return found


def _whole_part(row: Mapping[Any, Any]) -> str | None:
    """The part that a whole call belongs to; None for a draw that was kept, whose tokens are told apart."""
    if row["overshoot"]:
        return "overshoot"
    if row["status"] != "ok":
        return "retried" if row["tried_again"] else "failed"
    if row["pruned"]:
        return "pruned"
    if row["role"] == "verify":
        return "verifier"
    return "reserved" if unknown(row["input_tokens"]) or unknown(row["output_tokens"]) else None


def _parts(row: Mapping[Any, Any], ref: PriceRef) -> list[tuple[str, float | None, float]]:
    """(part, tokens, share of the call's USD) of one call, the prompt first; tokens None: all that it took."""
    whole = _whole_part(row)
    if whole is not None:
        return [(whole, None, 1.0)]
    cached, written = int(_or_zero(row["cached_input_tokens"])), int(_or_zero(row["cache_write_tokens"]))
    size, out = int(row["input_tokens"]), int(row["output_tokens"])
    counts = {"prompt": size - cached - written, "cached": cached, "cache_write": written}
    if unknown(row["reasoning_tokens"]):
        counts["output"] = out
    else:
        counts |= {"reasoning": int(row["reasoning_tokens"]), "answer": out - int(row["reasoning_tokens"])}
    counts = {part: count for part, count in counts.items() if count or part == "prompt"}
    rates = {part: _rate(part, count, ref, row["started_at"]) for part, count in counts.items()}
    # Tiers and fees make a whole dearer than its parts, which share it as they are listed, or by size where nothing is listed.
    weights = rates if any(rates.values()) else {part: float(count) for part, count in counts.items()}
    total = sum(weights.values()) or 1.0
    return [(part, float(count), weights[part] / total) for part, count in counts.items()]


def _rate(part: str, count: int, ref: PriceRef, at: float) -> float:
    """USD of that many tokens of one kind alone, by the price of the call; 0 where there is none."""
    if ref.own is None and ref.model is None:
        return 0.0
    kind = part if part in ("prompt", "cached", "cache_write") else "output"
    # A price of one's own has no date, and one of the book holds for minutes at least.
    return _listed(kind, count, ref, 0 if ref.own is not None else int(at // 60))


@lru_cache(maxsize=65_536)
def _listed(kind: str, count: int, ref: PriceRef, minute: int) -> float:
    usage = {
        "prompt": Usage(count, 0),
        "cached": Usage(count, 0, cached_input_tokens=count),
        "cache_write": Usage(count, 0, cache_write_tokens=count),
        "output": Usage(0, count),
    }[kind]
    found = prices.cost(ref, usage, 60.0 * minute)
    return float(found if found is not None else Decimal(0))


def _number(value: Any) -> float:
    return float("nan") if unknown(value) else float(value)


def _or_zero(value: Any) -> float:
    # A provider that reports no cache has none that is priced.
    return 0.0 if unknown(value) else float(value)
