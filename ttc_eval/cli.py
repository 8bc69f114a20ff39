"""The command line: `ttc-eval COMMAND`. Heavy imports wait until their command runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from ttc_eval.errors import UserError

_HYDRAS = {"sweep": "ttc_eval.sweep.app", "plan": "ttc_eval.commands.plan"}

# Each is a module of `ttc_eval.commands`; no module can be called `import`.
_MODULES = {"import": "imports"}
COMMANDS = {
    "report": "figures and tables of a study, as files",
    "cells": "the table of a study's cells",
    "plan": "what a sweep would send and could cost; sends nothing",
    "import": "samples of another tool, into a study",
    "replay": "a study under other strategies or prices; makes no call",
    "recommend": "the cheapest policy of a study that reaches a target",
    "show": "one problem, solution, candidate or call of a study",
    "doctor": "what works on this machine",
    "verify": "score the traces that a study has stored",
    "serve": "a configured model as a TTC-v2 server",
    "conformance": "check a server against TTC-v2",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (2 for a mistake in the command)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _HYDRAS:
        # Everything after these words is Hydra's.
        whole: Callable[[Sequence[str]], int] = import_module(_HYDRAS[given[0]]).main
        with _closed_pipes_allowed():
            return whole(given[1:])
    parser = _parser(given[0] if given else None)
    options = parser.parse_args(given)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        parser.print_help()
        return 0
    try:
        with _closed_pipes_allowed():
            return run(options)
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


def _parser(command: str | None) -> argparse.ArgumentParser:
    from ttc_eval import __version__

    parser = argparse.ArgumentParser(prog="ttc-eval", description="Measure what test-time compute buys, and what it costs.")
    parser.add_argument("--version", action="version", version=f"ttc-eval {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    commands.add_parser("sweep", help="run a sweep: ttc-eval sweep [-m] KEY=VALUE… (ttc-eval sweep --help lists the keys)", add_help=False)
    for name, summary in COMMANDS.items():
        known = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        # Only the command that was asked for is imported: `ttc-eval --help` answers at once.
        if name == command:
            module = import_module(f"ttc_eval.commands.{_MODULES.get(name, name)}")
            module.add_arguments(known)
            known.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
