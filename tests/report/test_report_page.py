"""The report in a real browser, and its tables as files: no network, sorted by keyboard, and what a model wrote stays text."""

from __future__ import annotations

import asyncio
import csv
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.report.chromium import BROWSER, opened
from ttc_eval.cli import main as cli
from ttc_eval.report.tables import Table, share, shown
from ttc_eval.sweep.app import main

EVIL = "<script>window.evil = 1</script>\n$\\frac{1}{2}$ & 100 % #1 \"quoted\" 'too' ümlaut"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study whose model writes what a page must not run."""
    folder = tmp_path_factory.mktemp("report")
    arguments = [
        "-m",
        "model=scripted",
        "model.replies=['<script>window.evil = 1</script>','Answer: 4','<b>Answer: 5</b>','Answer: 5']",
        "model.name='<script>evil</script> & 50 % $x_1$'",
        "strategy=single,self_consistency_4",
        "dataset=quickstart",
        "dataset.limit=6",
        f"results_dir={folder}",
        "study=evil",
    ]
    assert main(arguments) == 0
    assert cli(["report", str(folder / "evil.duckdb"), "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here; `.ci/run` installs it by apt")
def test_in_a_browser(report: Path) -> None:
    async def look() -> None:
        async with opened(report / "report.html") as page:
            assert page.said == []
            assert [one for one in page.asked if not one.startswith(("file:", "data:"))] == []
            assert await page.value("window.evil === undefined")
            assert await page.value("[...document.images].every((image) => image.complete && image.naturalWidth > 100 && image.alt)")
            assert await page.value("document.images.length >= 4")
            assert await page.value("document.querySelectorAll('pre script, td script').length") == 0
            assert "<script>" in await page.value("document.querySelector('main').innerText")
            levels = await page.value("[...document.querySelectorAll('h1, h2, h3')].map((one) => +one.tagName[1])")
            assert levels[0] == 1
            assert all(after <= before + 1 for before, after in pairwise(levels))
            # By keyboard alone: to the first heading of the first table, and sort.
            first = "document.querySelector('table')"
            for _ in range(200):
                await page.press("Tab", 9)
                if await page.value(f"document.activeElement.closest('th') === {first}.tHead.rows[0].cells[2]"):
                    break
            else:
                raise AssertionError("the heading cannot be reached by keyboard")
            cells = f"[...{first}.tBodies[0].rows].map((row) => row.cells[2].textContent)"
            before = await page.value(cells)
            await page.press("Enter", 13, "\r")
            assert await page.value(f"{first}.tHead.rows[0].cells[2].getAttribute('aria-sort')") == "ascending"
            assert await page.value(cells) == sorted(before)
            await page.press("Enter", 13, "\r")
            assert await page.value(cells) == sorted(before, reverse=True)
            assert page.said == []

    asyncio.run(look())


def test_it_is_one_file_that_needs_no_network(report: Path) -> None:
    text = (report / "report.html").read_text("utf-8")
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    for heading in (
        "The question",
        "In short",
        "Figures",
        "Tables",
        "Limits of this study",
        "Set-up",
        "How to reproduce",
        "What went wrong",
    ):
        assert f"<h2>{heading}" in text
    assert "&lt;script&gt;window.evil" in text
    assert "<script>window.evil" not in text


def test_tables_are_files(report: Path) -> None:
    for path in report.glob("*.tex"):
        text = path.read_text("utf-8")
        assert r"\toprule" in text
        rows = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0].strip().splitlines()
        with (report / f"{path.stem}.csv").open(encoding="utf-8", newline="") as file:
            assert len(list(csv.reader(file))) == len(rows) + 1
        assert not any(command in text for command in ("$x_1$", " & 50 % "))
    assert {path.suffix for path in report.iterdir()} == {".html", ".csv", ".tex", ".png", ".pdf", ".svg"}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_reads_the_tables(report: Path, tmp_path: Path) -> None:
    body = "".join(rf"\input{{{path}}}" for path in report.glob("*.tex"))
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\usepackage[utf8]{{inputenc}}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "all.tex").write_text(document)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"], cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_latex_cells_cannot_be_commands() -> None:
    table = Table("t", EVIL, ("a_b", "%"), ((EVIL, "1"), (r"\input{/x}", "2")))
    text = table.latex()
    assert r"\textbackslash{}input\{/x\}" in text
    assert r"100 \% \#1" in text
    assert text.count(" & ") == 3
    assert table.csv().startswith("a_b,%\n")


def test_numbers_are_shown_and_unknown_ones_are_not() -> None:
    assert share(0.735, 0.682, 0.7821) == "73.5 [68.2, 78.2]"
    assert (share(None), share(float("nan")), shown(None), shown(float("nan"))) == ("–", "–", "–", "–")
    assert (shown(3.0), shown(0.123456), shown(True), shown("x")) == ("3", "0.1235", "yes", "x")
