"""The Hydra application `ttc-eval sweep`, and what it says of a user's mistakes."""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from ttc_eval.errors import UserError
from ttc_eval.resources import share

if TYPE_CHECKING:
    from ttc_eval.sweep.state import SweepState

GROUPS = ("model", "thinking", "strategy", "verifier", "dataset", "limits", "experiment")

_OPTIONS_WITH_VALUES = ("--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp", "--cfg", "-c", "--package", "-p")

# Hydra only composes: what it composed is collected here and run when it has returned, so that its job log, its error
# texts and its exit codes stay out of the way.
_composed: list[DictConfig] = []


def main(arguments: Sequence[str]) -> int:
    """Run `ttc-eval sweep ARGUMENTS`; returns the exit code.

    0: all cells finished. 1: a cell or a problem failed, or a limit stopped the sweep. 2: a mistake in the command.
    130: interrupted.
    """
    try:
        composed = compose(arguments)
        return run_all([plain(config) for config in composed], arguments) if composed else 0
    except UserError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        Console(stderr=True).print("Stopped before anything was sent.")
        return 130


def compose(arguments: Sequence[str]) -> list[DictConfig]:
    """The configs of all cells that the arguments ask for; none for `--help` and its like. Raises `UserError`."""
    # Hydra then raises its errors instead of printing them and ending the process.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Hydra's sweeper insists on writing the composed config, secrets included, to a folder. The store keeps it without.
    scratch = tempfile.mkdtemp(prefix="ttc-eval-")
    # Its log would show the composed config, the values of headers included, to whoever logs at that level.
    logging.getLogger("hydra").setLevel(logging.WARNING)
    OmegaConf.register_new_resolver("scratch_folder", lambda: scratch, replace=True)
    _composed.clear()
    try:
        sys.argv = ["ttc-eval sweep", *_options_first(_per_choice(arguments))]
        _hydra_main()
        return list(_composed)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(explain(error, arguments)) from None
    finally:
        GlobalHydra.instance().clear()
        shutil.rmtree(scratch, ignore_errors=True)


def _options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments in the order that Hydra's parser takes: it wants all overrides in one run, so not `a=1 -m b=2`."""
    options: list[str] = []
    overrides: list[str] = []
    left = iter(arguments)
    for argument in left:
        (options if argument.startswith("-") else overrides).append(argument)
        if argument in _OPTIONS_WITH_VALUES:
            options.extend(value for value in [next(left, None)] if value is not None)
    return options + overrides


def _per_choice(arguments: Sequence[str]) -> list[str]:
    """The arguments with each key of a swept group as a sweep over its one value.

    Hydra looks up what is not swept in the default choice of the group, which may lack the keys of those that are asked for.
    """
    if not {"-m", "--multirun"} & set(arguments):
        return list(arguments)
    swept = {swept.partition("=")[0].rpartition("@")[2] for swept, _ in _swept_groups(arguments)}
    return [_one_choice(one) if "experiment" in swept or one.partition(".")[0].lstrip("+") in swept else one for one in arguments]


def _one_choice(argument: str) -> str:
    key, equals, value = argument.partition("=")
    if not equals or not value or "." not in key or key.startswith(("-", "~", "hydra.")):
        return argument
    parser, alone = OverridesParser.create(), f"{key}=choice({value})"
    try:
        if parser.parse_override(argument).is_sweep_override() or len(list(parser.parse_override(alone).sweep_string_iterator())) != 1:
            return argument
    except HydraException:
        return argument
    return alone


def collect(config: DictConfig) -> None:
    """Take in one composed config; called by Hydra's single run and by the launcher."""
    _composed.append(config)


@hydra.main(version_base="1.3", config_path=str(share() / "configs"), config_name="sweep")
def _hydra_main(config: DictConfig) -> None:
    collect(config)


def plain(config: DictConfig) -> dict[str, Any]:
    """A composed config as plain values, with everything interpolated and Hydra's own part left out."""
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise UserError(f"{', '.join(missing)}: a value is needed; give {' '.join(f'{key}=…' for key in missing)}")
    try:
        values = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {str(error).splitlines()[0]}") from None
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items() if key != "hydra"}


def run_all(composed: Sequence[Mapping[str, Any]], overrides: Sequence[str]) -> int:
    """Run the cells of one invocation together and show the outcome; returns the exit code."""
    from ttc_eval.sweep.prepare import prepare
    from ttc_eval.sweep.progress import watching
    from ttc_eval.sweep.runner import run
    from ttc_eval.sweep.summary import output_console

    console = output_console()
    plan = prepare(composed, overrides)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(run(plan, lambda state: watching(state, console), console.print))
        stopping: list[int] = []

        def stop() -> None:
            # The first signal stops cleanly; whoever sends a second does not want to wait for that.
            if stopping:
                os._exit(130)
            stopping.append(1)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            state = loop.run_until_complete(task)
        except asyncio.CancelledError:
            return 130
    try:
        return _tell(state, plan.overrides, console)
    finally:
        if state.database != plan.paths.database:
            state.database.unlink(missing_ok=True)


def _tell(state: SweepState, overrides: Sequence[str], console: Console) -> int:
    from ttc_eval.sweep import summary

    summary.tell_failures(state, console)
    if state.stopped_by is not None:
        summary.tell_stopped(state, shlex.join([summary.program(), "sweep", *overrides]), console)
    try:
        cells = summary.cell_metrics(state)
    except UserError as error:
        console.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        return 1
    if cells["n_problems"].sum():
        summary.tell(state, cells, _figures(state, cells), console)
    if state.stopped_by == "interrupted":
        return 130
    if state.status != "finished":
        return 1
    summary.tell_next(state, console)
    return 0


def _figures(state: Any, cells: Any) -> list[str]:
    from ttc_eval import plots

    saved = plots.save(plots.overview(cells, interval_method="95 % Wilson intervals"), state.plan.paths.figure("overview"))
    return [str(path) for path in saved]


def explain(error: Exception, arguments: Sequence[str]) -> str:
    """Hydra's complaint in two lines: what was wrong, and the choices."""
    text = str(error)
    missing_choice = re.search(r"Could not find '([\w/]+)/([^'/]+)'", text)
    if missing_choice:
        group, choice = missing_choice[1], missing_choice[2]
        options = _options(group, arguments)
        return f"{group}={choice}: there is no such {group}; {_suggestion(choice, options)}the choices are: {', '.join(options)}"
    wrong_key = re.search(r"Could not override '([^']+)'|Key '([^']+)' is not in struct", text)
    if wrong_key:
        key = wrong_key[1] or wrong_key[2]
        return _explain_key(key, arguments)
    wrong_group = re.search(r"Could not override '(\w+)'\.?\s*No match in the defaults list", text)
    if wrong_group:
        return f"{wrong_group[1]}: there is no such key or group; the groups are: {', '.join(GROUPS)}"
    if "Ambiguous value" in text:
        argument = re.search(r"argument '([^']+)'", text)
        return f"{argument[1] if argument else 'a comma'}: to sweep over several values add -m; for one list write [a,b]"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("Set the environment")]
    merging = re.search(r"Error merging override (.+)", text)
    return f"{merging[1]}: {lines[-1]}" if merging else " ".join(lines[:2])


def _explain_key(key: str, arguments: Sequence[str]) -> str:
    apart = _explain_choices(key, arguments)
    if apart is not None:
        return apart
    parent, _, last = key.rpartition(".")
    keys = _keys_of(parent, key, arguments)
    if not keys and parent:
        return _explain_key(parent, arguments)
    where = f"{parent}." if parent else ""
    if last in keys:
        return f"{key}: it holds no such key yet; to add one write +{key}.NAME=VALUE, or +{key}={{NAME: VALUE}}"
    if not keys:
        return f"{key}: there is no such key"
    return f"{key}: there is no such key; {_suggestion(last, keys, where)}the keys are: {', '.join(keys)}"


def _explain_choices(key: str, arguments: Sequence[str]) -> str | None:
    """What to say of a key that only some of the swept choices of a group have; None where they do not differ."""
    parent, _, last = key.rpartition(".")
    # Other keys of the same part may be as foreign to a choice as this one.
    beside = [one for one in arguments if "=" not in one or one.startswith("-") or not one.startswith(f"{parent}.")]
    for swept, choices in _swept_groups(beside):
        rest = [one for one in beside if one != swept]
        name = swept.partition("=")[0]
        have = {choice: last in _keys_of(parent, key, [*rest, f"{name}={choice}"]) for choice in choices}
        lacking, having = ([choice for choice in choices if have[choice] is wanted] for wanted in (False, True))
        if lacking and having:
            without, with_it = f"{name}={','.join(lacking)}", f"{name}={','.join(having)}"
            return f"{key}: {without} has no such key, {with_it} has; run them apart: {with_it} {key}=…, then {without} without the key"
    return None


def _swept_groups(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The arguments that sweep over configs of a group, each with its choices."""
    overrides = [one for one in arguments if "=" in one and not one.startswith("-")]
    parsed = OverridesParser.create().parse_overrides(overrides)
    return [
        (str(one.input_line), list(one.sweep_string_iterator())) for one in parsed if one.is_sweep_override() and one.key_or_group in GROUPS
    ]


def _suggestion(word: str, choices: Sequence[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean {prefix}{close[0]}? " if close else ""


def _options(group: str, arguments: Sequence[str]) -> list[str]:
    folders = [share() / "configs", *_own_folders(arguments)]
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})


def _own_folders(arguments: Sequence[str]) -> list[Path]:
    """The folders that `--config-dir` names."""
    following = [second for first, second in pairwise(arguments) if first in ("--config-dir", "-cd")]
    return [
        Path(folder).absolute() for folder in (*following, *(one.partition("=")[2] for one in arguments if one.startswith("--config-dir=")))
    ]


def _keys_of(parent: str, wrong: str, arguments: Sequence[str]) -> list[str]:
    """The keys beside a wrong one, from the config composed without the overrides that contain it."""
    kept = [
        one
        for one in arguments
        if "=" in one and not one.startswith("-") and not one.lstrip("+~").startswith((f"{wrong}=", f"{wrong}.", "hydra"))
    ]
    kept = [one.split(",")[0] if not one.split("=", 1)[1].startswith(("[", "{", "'", '"')) else one for one in kept]
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(share() / "configs"), version_base="1.3"):
            own = [f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in _own_folders(arguments))}]"]
            node: Any = hydra.compose("sweep", overrides=[*kept, *own])
            node = OmegaConf.select(node, parent) if parent else node
    except (HydraException, OmegaConfBaseException):
        return []
    return sorted(str(key) for key in node if key != "_target_") if isinstance(node, DictConfig) else []
