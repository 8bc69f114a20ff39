"""Which study a command works on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ttc_eval.study import Study, newest_study, open_study


def add_database(parser: argparse.ArgumentParser) -> None:
    """The positional argument that names a study."""
    parser.add_argument(
        "database", nargs="?", type=Path, help="the study's DuckDB file, or its name in results/; by default the newest there"
    )


def chosen(given: Path | None) -> Study:
    """The study that `database` names: a file, a name in `results`, or the newest there. Raises `UserError` when there is none."""
    if given is None:
        return open_study(newest_study())
    named = not given.exists() and not given.suffix
    return open_study(Path("results") / f"{given}.duckdb" if named else given)


def take_options_anywhere(parser: argparse.ArgumentParser) -> None:
    """Let keys stand after options as well as before them: by itself argparse takes a list of words in one run only."""
    plain = parser.parse_known_args

    def intermixed(args: Any = None, namespace: Any = None) -> Any:
        # The mixed form calls the plain one under its own name.
        parser.parse_known_args = plain  # type: ignore[method-assign]
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = intermixed  # type: ignore[method-assign]

    parser.parse_known_args = intermixed  # type: ignore[method-assign]
