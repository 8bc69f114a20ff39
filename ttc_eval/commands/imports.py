"""`ttc-eval import`: samples of another tool, into a study."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ttc_eval.store import StudyPaths, load

if TYPE_CHECKING:
    from ttc_eval.imports import Taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    from ttc_eval.imports import FORMATS, Classes, Grades
    from ttc_eval.records import ContractKind

    known = "\n".join(f"  {name:16} {found.summary}" for name, found in FORMATS.items())
    # A mistake in the command is then told in two lines.
    parser.usage = "ttc-eval import FORMAT PATH… --db DB [OPTION…]"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"Take the samples of another tool into a study; the same file changes nothing.\n\nformats:\n{known}"
    parser.epilog = "Then: ttc-eval cells DB, ttc-eval replay DB strategy=… Guide: docs/imports.md"
    parser.add_argument("format", choices=tuple(FORMATS), metavar="FORMAT", help="one of those above")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="the files")
    parser.add_argument(
        "--db", required=True, type=Path, help="the study's DuckDB file, or its name in results/; it is made where there is none"
    )
    parser.add_argument("--model", default=None, help="who answered, where the file does not say")
    parser.add_argument("--dataset", default=None, help="name of the data set (default: the file's)")
    parser.add_argument("--split", default=None, help="its split (default: test)")
    parser.add_argument("--seed", type=int, default=None, help="pool of the draws, where the file names none (default: 0)")
    # A state or a program is graded by its task or its tests, which a file of samples does not bring.
    kinds = [kind.value for kind in ContractKind if kind not in (ContractKind.CODE, ContractKind.STATE)]
    parser.add_argument("--answer", choices=kinds, default=None, help="what an answer is (default: the format's)")
    parser.add_argument(
        "--classes",
        choices=[one.value for one in Classes],
        default=Classes.CONTRACT.value,
        help="which answers are the same: by the answer kind, or as the source itself reads them, as strings (default: contract)",
    )
    parser.add_argument(
        "--grades",
        choices=[one.value for one in Grades],
        default=Grades.LABEL.value,
        help="which verdict is kept where the file's label and the reference disagree (default: label)",
    )
    parser.add_argument("--scorer", default=None, help="which label counts: a scorer of Inspect, a metric of lm-eval (default: the first)")
    parser.add_argument("--filter", default=None, help="which filter of lm-eval counts (default: the first)")


def run(options: argparse.Namespace) -> int:
    """Take the files in and say what came of each."""
    from ttc_eval.imports import Classes, Grades, Options, take_in
    from ttc_eval.records import ContractKind
    from ttc_eval.sweep.summary import output_console

    paths = StudyPaths.of("results", str(options.db)) if not options.db.suffix and not options.db.exists() else StudyPaths(options.db)
    if paths.database.exists():
        load(paths)
    said = Options(
        model=options.model,
        dataset=options.dataset,
        split=options.split,
        seed=options.seed,
        answer=None if options.answer is None else ContractKind(options.answer),
        classes=Classes(options.classes),
        grades=Grades(options.grades),
        scorer=options.scorer,
        filter=options.filter,
    )
    console = output_console()
    for taken in asyncio.run(take_in(options.format, options.paths, paths, said)):
        for line in _lines(taken):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(f"study: {paths.database}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _lines(taken: Taken) -> list[str]:
    if taken.earlier:
        return [f"{taken.name}: it is in the study already, with the same options; nothing was changed"]
    scores = f"; scores: {', '.join(taken.scores)}" if taken.scores else ""
    said = f"{taken.name}: {taken.samples} samples of {taken.problems} problems by {', '.join(taken.systems)}{scores}"
    return [said, *(f"  {note}" for note in taken.notes)]
