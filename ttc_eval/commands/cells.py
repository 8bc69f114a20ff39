"""`ttc-eval cells`: the table of a study's cells."""

from __future__ import annotations

import argparse

from ttc_eval.commands.studies import add_database, chosen
from ttc_eval.sweep.summary import output_console, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_database(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    console = output_console()
    console.print(table(chosen(options.database).cells(), console.width))
    return 0
