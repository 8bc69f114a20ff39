"""The command line: `ttc-eval COMMAND`. Heavy imports wait until their command runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ttc_eval.errors import UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (2 for a mistake in the command)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["sweep"]:
        # Everything after `sweep` is Hydra's.
        from ttc_eval.sweep.app import main as sweep

        with _closed_pipes_allowed():
            return sweep(given[1:])
    parser = _parser()
    options = parser.parse_args(given)
    command: Callable[[argparse.Namespace], int] | None = getattr(options, "command", None)
    if command is None:
        parser.print_help()
        return 0
    try:
        with _closed_pipes_allowed():
            return command(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


@contextlib.contextmanager
def _closed_pipes_allowed() -> Iterator[None]:
    """A reader that has seen enough (`| head`) ends the command quietly."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try to flush once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def _parser() -> argparse.ArgumentParser:
    from ttc_eval import __version__

    parser = argparse.ArgumentParser(prog="ttc-eval", description="Measure what test-time compute buys, and what it costs.")
    parser.add_argument("--version", action="version", version=f"ttc-eval {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    commands.add_parser("sweep", help="run a sweep: ttc-eval sweep [-m] KEY=VALUE… (ttc-eval sweep --help lists the keys)", add_help=False)
    report = commands.add_parser("report", help="figures and tables of a study, as files")
    report.add_argument(
        "database", nargs="?", type=Path, help="the study's DuckDB file, or its name in results/; by default the newest there"
    )
    report.add_argument("--out", type=Path, default=None, help="folder to write to (default: beside the database, <study>-report)")
    report.set_defaults(command=_report)
    cells = commands.add_parser("cells", help="the table of a study's cells")
    cells.add_argument(
        "database", nargs="?", type=Path, help="the study's DuckDB file, or its name in results/; by default the newest there"
    )
    cells.set_defaults(command=_cells)
    return parser


def _database(given: Path | None) -> Path | None:
    """A study by its file, or by its name in `results`."""
    if given is None or given.exists() or given.suffix:
        return given
    return Path("results") / f"{given}.duckdb"


def _report(options: argparse.Namespace) -> int:
    from ttc_eval.report import write_report
    from ttc_eval.study import newest_study, open_study

    study = open_study(_database(options.database) or newest_study())
    for path in write_report(study, options.out):
        print(path)
    return 0


def _cells(options: argparse.Namespace) -> int:
    from ttc_eval.study import newest_study, open_study
    from ttc_eval.sweep.summary import output_console, table

    study = open_study(_database(options.database) or newest_study())
    console = output_console()
    console.print(table(study.cells(), console.width))
    return 0


if __name__ == "__main__":
    sys.exit(main())
