"""`ttc-eval show`: one problem, solution, candidate or call of a study, to be read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from ttc_eval import inspection
from ttc_eval.commands.studies import add_database, chosen
from ttc_eval.inspection import Found
from ttc_eval.shown import unknown
from ttc_eval.study import Study

_CANDIDATES = """
    SELECT c.position, c.draw, c.answer, c.answer_class, c.complete, c.call_ids, c.complete AND coalesce(g.correct, false) AS correct
    FROM candidates c LEFT JOIN grades g USING (problem_id, answer_class) WHERE cell_id = ? AND problem_id = ? ORDER BY position"""
_SOLUTIONS = """
    SELECT s.cell_id, s.problem_id, s.answer, s.stop_reason, s.attempts, s.valid, s.charged_calls, s.charged_output_tokens, s.charged_usd,
           s.latency_s, s.error, s.signals, o.outcome, o.reference, c.model, c.thinking_label, c.strategy_label
    FROM solutions s JOIN problem_outcomes o USING (cell_id, problem_id) JOIN cells c USING (cell_id)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_database(parser)
    parser.add_argument(
        "id", help="a problem, a solution (cell:problem), a candidate (cell:problem#position) or a call; the beginning of an id will do"
    )


def run(options: argparse.Namespace) -> int:
    """Show it. Raises `UserError` for an id that names nothing, or several things, which are then listed."""
    from ttc_eval.sweep.summary import output_console

    study = chosen(options.database)
    named = inspection.found(study, options.id)
    show = {"problem": _problem, "solution": _solution, "candidate": _candidate, "call": _call}[named.kind]
    _Page(output_console(), study).head(f"{named.kind} {named.id}", lambda page: show(page, named))
    return 0


class _Page:
    """Where it is written: headings, facts and texts. Texts from models are shown as they are, never as markup."""

    def __init__(self, console: Console, study: Study) -> None:
        self.console = console
        self.study = study

    def head(self, title: str, body: Callable[[_Page], None]) -> None:
        self.console.print(Text(title, style="bold"), soft_wrap=True)
        body(self)

    def fact(self, name: str, value: str, style: str = "") -> None:
        self.console.print(Text(f"  {name}: ", style="dim") + Text(value, style=style), soft_wrap=True)

    def text(self, name: str, value: str) -> None:
        self.console.print(Text(f"\n{name}", style="bold"))
        self.console.print(Text(value), soft_wrap=True)

    def rows(self, query: str, parameters: list[Any]) -> list[dict[Any, Any]]:
        return self.study.sql(query, parameters).to_dict("records")


def _problem(page: _Page, named: Found) -> None:
    row = page.rows("SELECT * FROM problems WHERE problem_id = ?", [named.id])[0]
    page.fact("data set", f"{row['dataset']}, split {row['split']}")
    if not unknown(row["difficulty"]):
        page.fact("difficulty", str(row["difficulty"]))
    page.fact("reference", str(row["reference"]))
    page.text("prompt", row["prompt"])
    solutions = page.rows(f"{_SOLUTIONS} WHERE s.problem_id = ? ORDER BY c.ordinal", [named.id])
    page.console.print(Text(f"\n{len(solutions)} solutions", style="bold"))
    for one in solutions:
        page.fact(f"{one['cell_id']}:{one['problem_id']}", f"{_cell(one)}: {_outcome(one)}")


def _solution(page: _Page, named: Found) -> None:
    where = [named.cell_id, named.problem_id]
    row = page.rows(f"{_SOLUTIONS} WHERE s.cell_id = ? AND s.problem_id = ?", where)[0]
    page.fact("cell", _cell(row))
    page.fact("outcome", _outcome(row), "green" if row["outcome"] == "right" else "yellow")
    page.fact("stopped by", f"{row['stop_reason']}, after {row['attempts']} draws of which {row['valid']} could vote")
    usd = "no price" if unknown(row["charged_usd"]) else f"${row['charged_usd']:.6f}"
    written = "unknown" if unknown(row["charged_output_tokens"]) else f"{row['charged_output_tokens']:,}"
    lasted = "unknown seconds" if unknown(row["latency_s"]) else f"{row['latency_s']:.3f} s"
    page.fact("charged", f"{row['charged_calls']} calls, {written} output tokens, {usd}, {lasted}")
    if not unknown(row["signals"]):
        page.fact("decided by", str(row["signals"]))
    if not unknown(row["error"]):
        page.fact("note", str(row["error"]), "red")
    for one in page.rows(_CANDIDATES, where):
        answer = "no answer" if unknown(one["answer"]) else repr(one["answer"])
        judged = ("right" if one["correct"] else "wrong") if one["complete"] else "cut, does not vote"
        page.fact(f"{named.cell_id}:{named.problem_id}#{one['position']}", f"draw {one['draw']}: {answer}, {judged}")
        _cuts(page, inspection.ids(one["call_ids"]))


def _candidate(page: _Page, named: Found) -> None:
    row = next(one for one in page.rows(_CANDIDATES, [named.cell_id, named.problem_id]) if one["position"] == named.position)
    page.fact("draw", str(row["draw"]))
    page.fact("answer", "none" if unknown(row["answer"]) else f"{row['answer']!r} (class {row['answer_class']!r})")
    page.fact("complete", "yes" if row["complete"] else "no: it does not vote")
    page.fact("correct", "yes" if row["correct"] else "no")
    query = "SELECT * FROM scores WHERE cell_id = ? AND problem_id = ? AND position = ?"
    for score in page.rows(query, [named.cell_id, named.problem_id, named.position]):
        value = "not valid" if unknown(score["score"]) else f"{score['score']:.3f}"
        page.fact(f"score by {score['verifier']}", value + ("" if unknown(score["rationale"]) else f": {score['rationale']}"))
    for call_id in inspection.ids(row["call_ids"]):
        page.console.print()
        page.head(f"call {call_id}", lambda page, call_id=call_id: _call(page, Found("call", call_id)))  # type: ignore[misc]


def _call(page: _Page, named: Found) -> None:
    row = page.rows("SELECT * FROM calls WHERE call_id = ?", [named.id])[0]
    page.fact("model", f"{row['model']}, for {row['role']}, draw {row['draw']}, segment {row['segment']}, attempt {row['attempt']}")
    if row["status"] == "ok":
        raw = "" if unknown(row["stop_reason_raw"]) or row["stop_reason_raw"] == row["stop_reason"] else f" ({row['stop_reason_raw']})"
        page.fact("stopped by", f"{row['stop_reason']}{raw}")
    else:
        status = "" if unknown(row["http_status"]) else f", HTTP {int(row['http_status'])}"
        page.fact(row["status"], f"{row['error_kind']}{status}: {row['error']}", "red")
    for name, text in inspection.usage_lines(row):
        page.fact(name, text)
    if not unknown(row["sent"]):
        page.fact("sent beside the conversation", str(row["sent"]))
    advice = inspection.cut_advice(row)
    if advice is not None:
        page.fact("cut", advice, "yellow")
    for role, content in inspection.conversation(row):
        page.text(role, content)
    page.text("thinking", inspection.thinking_of(row))
    page.text("answer", "none" if unknown(row["answer_text"]) else row["answer_text"])


def _cuts(page: _Page, call_ids: Any) -> None:
    if not call_ids:
        return
    for call in page.rows("SELECT * FROM calls WHERE list_contains(?, call_id) ORDER BY segment", [list(call_ids)]):
        advice = inspection.cut_advice(call)
        if advice is not None:
            page.fact("  cut", advice, "yellow")


def _cell(row: Mapping[Any, Any]) -> str:
    return f"{row['model']}, {row['thinking_label']}, {row['strategy_label']}"


def _outcome(row: Mapping[Any, Any]) -> str:
    answer = "no answer" if unknown(row["answer"]) else repr(row["answer"])
    return f"{row['outcome']}: {answer}, reference {row['reference']!r}"
