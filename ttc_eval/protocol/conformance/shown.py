"""The report for a reader: a table a surface, then what failed, with its sentence and its evidence."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ttc_eval.protocol.conformance.findings import Finding, Verdict
from ttc_eval.protocol.conformance.requirements import REQUIREMENTS
from ttc_eval.protocol.conformance.suite import Report, SurfaceReport, plain_reply

_STYLES = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.WARNING: "yellow", Verdict.NOT_OBSERVABLE: "dim"}
_EVIDENCE_CHARS = 600


def show(report: Report, console: Console) -> None:
    """Print the report."""
    for one in report.surfaces:
        console.print(Group(_table(one, report.model), *_details(one)))
    failed = sum(one.counts[Verdict.FAILED.value] for one in report.surfaces)
    console.print("conforms to TTC-v2, as far as it can be seen" if report.conforms else f"does not conform to TTC-v2: {failed} failed")


def _table(one: SurfaceReport, model: str) -> Table:
    title = Text(f"\n{one.surface}: {one.url}, model {model}")
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="bold", pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("seen")
    for name, finding in one.findings.items():
        # What comes from a server is text, never markup or control codes.
        verdict = Text(finding.verdict.value, style=_STYLES[finding.verdict])
        table.add_row(name, REQUIREMENTS[name].level.value, verdict, Text(_printable(finding.reason)))
    table.caption = ", ".join(f"{count} {verdict}" for verdict, count in one.counts.items() if count)
    table.caption_justify = "left"
    return table


def _details(one: SurfaceReport) -> Iterator[RenderableType]:
    for name, finding in one.findings.items():
        if finding.verdict in (Verdict.FAILED, Verdict.WARNING):
            yield Text(f"\n{name} ({REQUIREMENTS[name].level.value})", style=_STYLES[finding.verdict])
            yield Text(f"  required: {REQUIREMENTS[name].sentence}")
            yield Text(f"  seen: {_printable(finding.reason)}")
            yield from _evidence(finding)


def _evidence(finding: Finding) -> Iterator[RenderableType]:
    for reply in finding.evidence:
        plain = plain_reply(reply)
        sent = orjson.dumps(plain["sent"]).decode()
        came = orjson.dumps(plain["final_message"]).decode() if plain["final_message"] is not None else str(plain["body"])
        yield Text(f"  sent: {_printable(sent)[:_EVIDENCE_CHARS]}")
        yield Text(f"  came: status {reply.status}, {reply.content_type or 'no content type'}: {_printable(came)[:_EVIDENCE_CHARS]}")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
