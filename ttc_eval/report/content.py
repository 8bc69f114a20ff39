"""What a report says about a study, as plain data: found here, laid out by the page's template."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import orjson

from ttc_eval.analysis.audit import audit
from ttc_eval.analysis.comparisons import equal_cost, pairwise
from ttc_eval.analysis.costs import decomposition
from ttc_eval.analysis.frames import solved_cells
from ttc_eval.analysis.outcomes import OUTCOMES, breakdown
from ttc_eval.analysis.sampling import curves
from ttc_eval.errors import UserError
from ttc_eval.report.split import deciding
from ttc_eval.report.tables import Table, joined, of_frame, share, shown
from ttc_eval.shown import unknown

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study

# Characters of a transcript; a report is read, not searched.
_MOST = 4_000
_TRANSCRIPTS = 4
_PAIRS = 20
_STRATEGIES = 6


@dataclass(frozen=True, slots=True)
class Transcript:
    """One call with what became of it. `cut`: characters that are not shown."""

    heading: str
    prompt: str
    thinking: str
    answer: str
    reference: str
    cut: int


@dataclass(frozen=True, slots=True)
class Content:
    """A report's parts, in the order of the page. `notes` are what a reader has to keep in mind: the limits of the study."""

    title: str
    question: str
    headline: tuple[str, ...]
    setup: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    left_out: tuple[str, ...]
    transcripts: tuple[Transcript, ...]
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    simulated: bool


def content(study: Study, cells: pd.DataFrame) -> Content:
    """What a study says. `cells` are those with a solution, as `Study.cells` gives them."""
    tables, left_out = _tables(study, cells)
    sweeps = study.sql("SELECT * FROM sweeps ORDER BY started_at")
    thinkings, strategies = joined(cells["thinking_label"].tolist()), joined(cells["strategy_label"].tolist())
    models = joined(cells["model"].tolist())
    data = joined([f"{row['dataset']} ({row['split']})" for _, row in cells.iterrows()])
    return Content(
        title=study.path.stem,
        question=f"On {data}: what do thinking ({thinkings}) and strategies ({strategies}) buy with {models}, and at what cost?",
        headline=_headline(cells),
        setup=_setup(study, cells, sweeps),
        tables=tables,
        left_out=left_out,
        transcripts=_transcripts(study),
        notes=_notes(cells),
        commands=_commands(sweeps, study),
        simulated=bool(cells["simulated"].any()),
    )


def _headline(cells: pd.DataFrame) -> tuple[str, ...]:
    cells = deciding(cells)
    finished = cells[(cells["n_problems"] >= cells["n_planned"]) & cells["success"].notna()]
    cells = finished if len(finished) else cells  # a cell that was stopped early has other problems than the others
    best = cells.sort_values(["success", "mean_output_tokens"], ascending=[False, True]).iloc[0]
    cheap = cells.sort_values("mean_output_tokens").iloc[0]
    lines = []
    for name, row in (("Highest success", best), ("Fewest output tokens", cheap)):
        value = share(row["success"], row["success_low"], row["success_high"])
        cost = "" if unknown(row["mean_output_tokens"]) else f", {row['mean_output_tokens']:.0f} output tokens per problem"
        usd = "" if unknown(row["charged_usd"]) else f", {float(row['charged_usd']) / float(row['n_problems']):.6f} USD per problem"
        policy = f"{row['model']} · {row['thinking_label']} · {row['strategy_label']}"
        lines.append(f"{name}: {policy}, success {value} % of n = {int(row['n_problems'])} ({row['dataset']}, {row['split']}){cost}{usd}.")
    gap = cells.sort_values("selection_gap", ascending=False).iloc[0]
    if not unknown(gap["selection_gap"]) and gap["selection_gap"] > 0:
        where = f"{gap['thinking_label']} · {gap['strategy_label']}"
        lines.append(
            f"Largest selection gap: {share(gap['selection_gap'])} points ({where}): right candidates that were not selected (oracle)."
        )
    return tuple(lines)


def _setup(study: Study, cells: pd.DataFrame, sweeps: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    prompt = study.sql("SELECT messages FROM problems ORDER BY problem_id LIMIT 1")["messages"]
    models = study.sql("SELECT DISTINCT model, endpoint, config FROM cells ORDER BY model").drop_duplicates("model")
    lines = [("models", joined([f"{row['model']} ({str(row['endpoint'])[:60]})" for _, row in models.iterrows()]))]
    priced = [f"{row['model']}: {_price(orjson.loads(row['config']))}" for _, row in models.iterrows()]
    lines += [
        ("data", joined([f"{row['dataset']}/{row['split']}, n = {int(row['n_problems'])}" for _, row in cells.iterrows()])),
        ("prices", joined([*priced, *(f"book {one}" for one in sweeps["price_version"].dropna())])),
        ("seeds", joined([str(seed) for seed in sorted(set(cells["seed"]))])),
        ("started (UTC)", joined([_moment(one) for one in sweeps["started_at"]])),
        ("revision", joined([str(one) for one in sweeps["git_revision"].dropna()])),
        ("versions", joined([", ".join(f"{k} {v}" for k, v in orjson.loads(one).items()) for one in sweeps["versions"].dropna()])),
    ]
    if len(prompt):
        turns = "\n".join(f"[{turn[0]}] {turn[1]}" for turn in orjson.loads(prompt.iloc[0]))
        lines.append(("prompt of the first problem", turns[:_MOST]))
    return tuple((name, text) for name, text in lines if text)


def _price(config: Any) -> str:
    price = (config.get("model") or {}).get("price") or {}
    own = price.get("own")
    if own:
        return f"own price {own.get('input')} in, {own.get('output')} out, USD per million tokens"
    return f"{price.get('provider') or ''} {price['model']}".strip() if price.get("model") else "no price"


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(float(seconds), tz=UTC).strftime("%Y-%m-%d %H:%M")


def _tables(study: Study, cells: pd.DataFrame) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    made = [_cells(cells), _outcomes(study)]
    left_out = []
    for what, make in (
        ("cost by part", _costs),
        ("strategies at equal cost", _equal_cost),
        ("pairs of cells", _pairs),
        ("verifier audit", _audits),
        ("curves over k", _curves),
    ):
        try:
            table = make(study)
        except UserError as reason:
            left_out.append(f"{what}: {str(reason).partition(': ')[2] or reason}")
            continue
        if table is None:
            left_out.append(f"{what}: this study has nothing for it")
        else:
            made.append(table)
    return tuple(made), tuple(left_out)


def _cells(cells: pd.DataFrame) -> Table:
    names = ("coverage", "selected_accuracy", "success", "candidate_success", "selection_gap")
    rows = []
    for row in cells.to_dict("records"):
        usd = "no price" if unknown(row["charged_usd"]) else f"{float(row['charged_usd']):.4f}"
        shares = [share(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in names]
        strategy = row["strategy_label"] if unknown(row.get("variant")) else f"{row['strategy_label']} ({row['variant']})"
        label = [row["model"], row["thinking_label"], strategy, f"{row['dataset']}/{row['split']}"]
        costs = [shown(row[name]) for name in ("mean_output_tokens", "charged_calls", "billed_calls", "p95_latency_s")]
        rows.append((*map(str, label), shown(row["n_problems"]), *shares, *costs, usd))
    heads = ("coverage", "selected-answer accuracy", "success", "candidate-set success (oracle)", "selection gap")
    columns = (
        "model",
        "thinking",
        "strategy",
        "data",
        "n",
        *heads,
        "output tokens per problem",
        "calls charged",
        "calls billed",
        "p95 s",
        "USD",
    )
    caption = "Cells. Shares in % of the problems with 95 % Wilson intervals; charged is what a strategy would have cost alone."
    return Table("cells", caption, columns, tuple(rows), 4)


def _outcomes(study: Study) -> Table:
    found = breakdown(study)
    told, rows = _telling(found), []
    for _, group in found.groupby("cell_id", sort=False):
        first, counts = group.iloc[0], dict(zip(group["outcome"], group["problems"], strict=True))
        rows.append((*(shown(first[name]) for name in told), *(str(counts[name]) for name in OUTCOMES), str(first["n"])))
    columns = (*told.values(), *OUTCOMES, "n")
    return Table("outcomes", "What came of every problem; the counts sum to n.", columns, tuple(rows), len(told))


def _telling(frame: pd.DataFrame) -> dict[str, str]:
    """The columns that tell the rows of a table apart, with their headings: whatever else it holds several of."""
    others = [name for name in ("model", "dataset", "split", "seed", "variant") if name in frame and frame[name].nunique(dropna=False) > 1]
    kept = [*others, "thinking_label", *(["strategy_label"] if "strategy_label" in frame else [])]
    headings = {"dataset": "data", "thinking_label": "thinking", "strategy_label": "strategy"}
    return {name: headings.get(name, name) for name in kept}


def _costs(study: Study) -> Table | None:
    parts = decomposition(study)
    charged = parts[parts["basis"] == "charged"]
    names = list(dict.fromkeys(charged["part"]))
    told, rows = _telling(charged), []
    for _, group in charged.groupby("cell_id", sort=False):
        first, tokens = group.iloc[0], dict(zip(group["part"], group["tokens_per_problem"], strict=True))
        rows.append((*(shown(first[name]) for name in told), *(shown(tokens.get(name, 0.0)) for name in names)))
    caption = "Tokens per problem, charged, by what they went to."
    return Table("costs", caption, (*told.values(), *names), tuple(rows), len(told))


def _equal_cost(study: Study) -> Table | None:
    cells = deciding(solved_cells(study))
    if len(cells[["dataset", "split", "model"]].drop_duplicates()) > 1:
        raise UserError("several data sets, splits or models; compare the cells of one of each with analysis.comparisons.equal_cost")
    split = cells["split"].iloc[0]
    labels = cells.groupby("strategy_label")["success"].max().sort_values(ascending=False, kind="stable").index[:_STRATEGIES]
    rows = []
    for a, b in combinations(labels, 2):
        try:
            one = equal_cost(study, a, b, split=split)
        except UserError:
            continue  # their costs do not overlap, or are not known
        value = share(one.difference.value, one.difference.low, one.difference.high)
        rows.append((a, b, shown(one.at), share(one.success_a), share(one.success_b), value, shown(one.difference.n), one.verdict))
    if not rows:
        return None
    columns = ("A", "B", "output tokens per problem", "success of A, %", "success of B, %", "A − B", "n", "verdict")
    caption = (
        "Strategies at equal cost, the largest that both reach: each by its best mixture that costs no more, paired by problem; "
        f"bootstrap over problems, 95 %, not adjusted for the number of pairs; split {split}."
    )
    return Table("equal-cost", caption, columns, tuple(rows), 2)


def _pairs(study: Study) -> Table | None:
    pairs = pairwise(study)
    if pairs.empty:
        return None
    order = pairs["difference"].abs().sort_values(ascending=False, kind="stable").index
    rows = []
    for _, row in pairs.loc[order].head(_PAIRS).iterrows():
        value = share(row["difference"], row["difference_low"], row["difference_high"])
        rows.append((str(row["a"]), str(row["b"]), shown(row["n"]), value, shown(row["holm_p"]), shown(row["needed"])))
    more = f" The {_PAIRS} largest of {len(pairs)}." if len(pairs) > _PAIRS else ""
    caption = f"Success of A minus B in points, paired by problem; exact McNemar p adjusted over all pairs (Holm).{more}"
    return Table("pairs", caption, ("A", "B", "n", "A − B", "p (Holm)", "problems needed"), tuple(rows), 2)


def _audits(study: Study) -> Table | None:
    found = audit(study)
    if found.empty:
        return None
    found = found.assign(
        within=[share(row["auroc_within"], row["auroc_within_low"], row["auroc_within_high"]) for _, row in found.iterrows()],
        pooled=[share(row["auroc_pooled"], row["auroc_pooled_low"], row["auroc_pooled_high"]) for _, row in found.iterrows()],
    )
    columns = {
        **_telling(found),
        "verifier": "verifier",
        "candidates": "candidates",
        "within": "AUROC within problems, %",
        "pooled": "AUROC pooled, %",
        "brier": "Brier",
        "false_accept": "false accepts",
        "false_reject": "false rejects",
        "regret": "regret (oracle)",
        "cost_share": "share of tokens",
    }
    return of_frame(
        "verifiers",
        "What the verifier knows; false accepts and rejects at the used threshold, or 0.5.",
        found,
        columns,
        len(_telling(found)) + 1,
    )


def _curves(study: Study) -> Table | None:
    found = curves(study, permutations=50)
    found = found.assign(
        shown=[share(row["value"], row["value_low"], row["value_high"]) for _, row in found.iterrows()],
        named=[f"{row['selector']}{' (oracle)' if row['oracle'] else ''}" for _, row in found.iterrows()],
    )
    columns = {
        **_telling(found),
        "named": "selector",
        "verifier": "verifier",
        "k": "k",
        "shown": "success, %",
        "tokens": "output tokens",
    }
    out = int(found["left_out"].max())
    missing = (
        f" Left out: up to {out} problems that ended in an error before they had draws; cells count those as not solved." if out else ""
    )
    caption = f"What k of the stored draws would have given, over all subsets; the verifier's own cost is apart.{missing}"
    return of_frame("curves", caption, found, columns, len(columns) - 3)


def _transcripts(study: Study) -> tuple[Transcript, ...]:
    rows = study.sql(
        """SELECT o.outcome, c.strategy_label, c.thinking_label, p.prompt, p.reference, o.answer, o.error, k.thinking_text, k.answer_text
           FROM problem_outcomes o JOIN cells c USING (cell_id) JOIN problems p USING (problem_id)
           LEFT JOIN candidates a ON a.cell_id = o.cell_id AND a.problem_id = o.problem_id AND a.position = 0
           LEFT JOIN calls k ON k.call_id = a.call_ids->>'$[0]'
           WHERE o.outcome <> 'right' QUALIFY row_number() OVER (PARTITION BY o.outcome ORDER BY c.ordinal, o.problem_id) = 1
           ORDER BY o.outcome LIMIT ?""",
        [_TRANSCRIPTS],
    )
    found = []
    for row in rows.to_dict("records"):
        texts = ["" if unknown(row[name]) else str(row[name]) for name in ("prompt", "thinking_text", "answer_text")]
        answer = "none" if unknown(row["answer"]) else row["answer"]
        error = "" if unknown(row["error"]) else f"; {row['error']}"
        heading = f"{row['outcome']}: {row['strategy_label']}, {row['thinking_label']}; selected answer {answer}{error}"
        cut = sum(max(0, len(text) - _MOST) for text in texts)
        found.append(Transcript(heading[:500], texts[0][:_MOST], texts[1][:_MOST], texts[2][:_MOST], str(row["reference"])[:500], cut))
    return tuple(found)


def _notes(cells: pd.DataFrame) -> tuple[str, ...]:
    smallest = int(cells["n_problems"].min())
    notes = [f"The smallest cell has {smallest} problems; intervals hold for problems like these and say nothing of others."]
    if set(cells["split"]) != {"heldout"}:
        notes.append(f"Splits: {joined(sorted(set(cells['split'])))}. A setting that was tuned on a split looks better there than it is.")
    if cells["simulated"].any():
        notes.append("Simulated: answers, verdicts and latencies of these cells were invented.")
    if cells["charged_usd"].isna().any():
        notes.append("Cells without a price have no cost in USD: unknown, not free. They are missing from figures in USD.")
    truncated = cells[cells["truncated_share"].fillna(0) > 0.02]
    if len(truncated):
        notes.append(
            f"In {len(truncated)} of {len(cells)} cells more than 2 % of the candidates were cut by their cap; they count as not solved."
        )
    if cells["error_share"].fillna(0).gt(0).any():
        notes.append(f"Errors ended up to {share(cells['error_share'].max())} % of a cell's problems; they count as not solved.")
    if cells["unknown_usage_calls"].fillna(0).gt(0).any():
        notes.append("Calls whose usage is unknown are charged their whole reservation.")
    if (cells["status"] == "imported").any():
        notes.append("Imported: these samples were drawn by another tool; what it did not record is unknown here.")
    unfinished = cells[cells["n_problems"] < cells["n_planned"]]
    if len(unfinished):
        notes.append(f"{len(unfinished)} cells are not finished: their shares are over the problems that were solved.")
    notes.append("Candidate-set success and coverage over k need labels: oracle views, never an accuracy that could be deployed.")
    return tuple(notes)


def _commands(sweeps: pd.DataFrame, study: Study) -> tuple[str, ...]:
    made = []
    for one in sweeps["overrides"].dropna():
        words = [str(word) for word in orjson.loads(one)]
        many = any("," in word for word in words)
        made.append(" ".join(["ttc-eval sweep", *(["-m"] if many else []), *words]))
    return (*dict.fromkeys(made), f"ttc-eval report {study.path.name}")
