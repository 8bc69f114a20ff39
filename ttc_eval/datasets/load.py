"""Loading: local JSONL, CSV and Parquet files and Hub names, all by the same config."""

from __future__ import annotations

import csv
import glob
import os
import random
import string
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ttc_eval.answers import canonical
from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, ContractKind, Message, Problem, digest
from ttc_eval.resources import resource_path
from ttc_eval.tasks import task_of

_BUILDERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Example:
    """One worked example that stands before the question in the prompt."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where problems come from and how a row becomes one.

    Attributes:
        name: the name that tables show.
        path: a local file, with `{split}` for the split's name if each split has a file; relative to the working folder
            or to the project. None: from the Hub.
        hub, hub_config, revision: name, config and revision on the Hub, used when `path` is None.
        split: the split to use; it is the split's name at the source unless `splits` says otherwise.
        splits: split name here → split name at the source.
        id_column: column that identifies a row; None numbers the rows.
        prompt: template of the user turn, with `{column}` for a column of the row.
        reference: column of the reference answer; `reference_after` takes what follows the last such marker in it.
        difficulty: column of the difficulty label, if there is one.
        given: columns that a program may check candidates against (a puzzle's numbers, public tests); they are no part of the prompt.
        system, examples: what stands before the question in every prompt.
        answer: the answer contract.
        limit: use the first so many problems; shuffle_seed: shuffle before that.
    """

    name: str
    prompt: str
    reference: str
    answer: AnswerContract
    path: str | None = None
    hub: str | None = None
    hub_config: str | None = None
    revision: str | None = None
    split: str = "test"
    splits: Mapping[str, str] = field(default_factory=dict)
    id_column: str | None = None
    reference_after: str | None = None
    difficulty: str | None = None
    given: tuple[str, ...] = ()
    system: str | None = None
    examples: tuple[Example, ...] = ()
    limit: int | None = None
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        if self.path is None and self.hub is None:
            raise UserError(f"dataset={self.name}: give dataset.path (a local file) or dataset.hub (a name on the Hub)")
        if self.limit is not None and self.limit < 1:
            raise UserError(f"dataset.limit={self.limit}: give 1 or more, or null for all")


def load(dataset: Dataset) -> list[Problem]:
    """The problems of a data set, in order.

    Raises `UserError` when the source cannot be read, a column is missing, a reference is empty, or two rows share an
    identifier.
    """
    rows = list(_rows(dataset))
    if not rows:
        raise UserError(f"dataset={dataset.name}: split {dataset.split!r} has no rows")
    _check_columns(dataset, rows[0])
    if dataset.shuffle_seed is not None:
        random.Random(dataset.shuffle_seed).shuffle(rows)
    problems = [_problem(dataset, index, row) for index, row in rows[: dataset.limit]]
    seen: set[str] = set()
    for problem in problems:
        name = problem.problem_id.rpartition("@")[0]
        if name in seen:
            raise UserError(f"dataset={dataset.name}: two rows have the identifier {name!r}; name another dataset.id_column")
        seen.add(name)
    return problems


def _rows(dataset: Dataset) -> Iterable[tuple[int, Mapping[str, Any]]]:
    source_split = dataset.splits.get(dataset.split, dataset.split)
    loaded = _load_file(dataset, source_split) if dataset.path is not None else _load_hub(dataset, source_split)
    return enumerate(loaded)


def _load_file(dataset: Dataset, source_split: str) -> Iterable[Mapping[str, Any]]:
    assert dataset.path is not None
    path = resource_path(dataset.path.replace("{split}", source_split))
    if not path.is_file():
        raise UserError(f"dataset.path={dataset.path}: {path} does not exist")
    builder = _BUILDERS.get(path.suffix)
    if builder is None:
        raise UserError(f"dataset.path={dataset.path}: give a file that ends in {', '.join(_BUILDERS)}")
    from datasets import load_dataset
    from datasets.exceptions import DatasetGenerationError

    _quiet()
    try:
        options = _as_text(path) if builder == "csv" else {}
        rows: Iterable[Mapping[str, Any]] = load_dataset(builder, data_files=glob.escape(str(path)), split="train", **options)
    except (DatasetGenerationError, ValueError, OSError, StopIteration) as error:
        raise UserError(f"dataset.path={dataset.path}: {path} cannot be read as {builder}: {_first_line(error)}") from None
    return rows


def _as_text(path: Path) -> dict[str, Any]:
    """Options that read a CSV as text: a reference "007" keeps its zeros, and the answer "None" is no gap."""
    from datasets import Features, Value

    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file))
    return {"features": Features({name: Value("string") for name in header}), "keep_default_na": False}


def _load_hub(dataset: Dataset, source_split: str) -> Iterable[Mapping[str, Any]]:
    assert dataset.hub is not None
    hint = f"download it and give the file: dataset.path=FILE dataset.split={dataset.split}"
    if not _hub_answers():
        _go_offline()
    from datasets import load_dataset

    _quiet()
    try:
        rows: Iterable[Mapping[str, Any]] = load_dataset(dataset.hub, dataset.hub_config, split=source_split, revision=dataset.revision)
    except ConnectionError:
        raise UserError(
            f"dataset={dataset.name}: the Hub cannot be reached for {dataset.hub!r} and it is not in the local cache; {hint}"
        ) from None
    except (ValueError, FileNotFoundError) as error:
        raise UserError(f"dataset={dataset.name}: {_first_line(error)}") from None
    return rows


def _hub_answers() -> bool:
    """Whether the Hub can be connected to. The library would retry an unreachable one for half a minute."""
    import socket
    from urllib.request import getproxies

    if os.environ.get("HF_HUB_OFFLINE") or getproxies():
        return not os.environ.get("HF_HUB_OFFLINE")
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        port = endpoint.port or (80 if endpoint.scheme == "http" else 443)
        socket.create_connection((endpoint.hostname or "", port), timeout=5).close()
    except (OSError, ValueError):
        return False
    return True


def _go_offline() -> None:
    # The libraries read the variable when they are imported, which may have been long ago.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets
    import huggingface_hub

    datasets.config.HF_HUB_OFFLINE = True
    huggingface_hub.constants.HF_HUB_OFFLINE = True


def _quiet() -> None:
    import datasets
    from datasets.utils import disable_progress_bars

    disable_progress_bars()
    # It would report every load, of a local file as well, and wait for the network to do so.
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False


def _check_columns(dataset: Dataset, first: tuple[int, Mapping[str, Any]]) -> None:
    wanted = set(_prompt_columns(dataset))
    wanted |= {column for column in (dataset.reference, dataset.difficulty, dataset.id_column, *dataset.given) if column}
    missing = sorted(wanted - set(first[1]))
    if missing:
        raise UserError(f"dataset={dataset.name}: there is no column {', '.join(missing)}; the columns are {', '.join(sorted(first[1]))}")


def _prompt_columns(dataset: Dataset) -> list[str]:
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in string.Formatter().parse(dataset.prompt) if name is not None]
    except ValueError as error:
        raise UserError(f"dataset.prompt: {error}; write {{{{ and }}}} for braces that are text") from None
    if any(not name.isidentifier() or spec or conversion for name, spec, conversion in fields):
        raise UserError("dataset.prompt: write {column} with a plain column name, and {{ and }} for braces that are text")
    return [name for name, _, _ in fields]


def _text(dataset: Dataset, index: int, column: str, value: Any) -> str:
    """A cell of a row as text. A whole number stays one, also where a gap elsewhere made its column a float."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, str | int | float) and value == value:
        return str(value)
    said = "no value" if value is None or value != value else f"a {type(value).__name__}"
    raise UserError(f"dataset={dataset.name}: row {index} has {said} in column {column!r}; text or a number is needed")


def _problem(dataset: Dataset, index: int, row: Mapping[str, Any]) -> Problem:
    identifier = str(index if dataset.id_column is None else row[dataset.id_column])
    reference = _text(dataset, index, dataset.reference, row[dataset.reference])
    if dataset.reference_after is not None:
        reference = reference.rpartition(dataset.reference_after)[2]
    reference = reference.strip()
    if not reference:
        raise UserError(f"dataset={dataset.name}: row {index} has no reference in column {dataset.reference!r}")
    if canonical(reference, dataset.answer) is None:
        kind = dataset.answer.kind.value
        raise UserError(
            f"dataset={dataset.name}: row {index}: the reference {reference[:60]!r} is no valid answer of kind {kind}; set dataset.answer"
        )
    given = {name: row[name] for name in dataset.given}
    if dataset.answer.kind is ContractKind.STATE:
        # Raises for a row that states no problem of the task: every candidate would be judged by it.
        task_of(dataset.answer.task).start(given)
    turns = [Message("system", dataset.system)] if dataset.system else []
    for example in dataset.examples:
        turns += [Message("user", example.user), Message("assistant", example.assistant)]
    # Only the row's own columns are put in: a brace in a value is text, never a template.
    columns = {name: _text(dataset, index, name, row[name]) for name in _prompt_columns(dataset)}
    turns.append(Message("user", dataset.prompt.format_map(columns)))
    rule = [str(value) for value in astuple(dataset.answer)]
    contents = digest([[[turn.role, turn.content] for turn in turns], reference, rule, *([given] if given else [])])
    return Problem(
        # What is stored about a problem must not meet another problem of the same name: its content is part of its identity.
        problem_id=f"{dataset.name}/{dataset.split}/{identifier}@{contents[:8]}",
        dataset=dataset.name,
        split=dataset.split,
        messages=tuple(turns),
        reference=reference,
        contract=dataset.answer,
        difficulty=None if dataset.difficulty is None else str(row[dataset.difficulty]),
        given=given,
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
