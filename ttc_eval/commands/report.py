"""`ttc-eval report`: figures and tables of a study, as files."""

from __future__ import annotations

import argparse
from pathlib import Path

from ttc_eval.commands.studies import add_database, chosen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_database(parser)
    parser.add_argument("--out", type=Path, default=None, help="folder to write to (default: beside the database, <study>-report)")


def run(options: argparse.Namespace) -> int:
    """Write the report and name its files."""
    from ttc_eval.report import write_report

    for path in write_report(chosen(options.database), options.out):
        print(path)
    return 0
