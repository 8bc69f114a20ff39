"""Loading: local JSONL, CSV and Parquet files and Hub names, all by the same config."""

from __future__ import annotations

import os
import random
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, Message, Problem
from ttc_eval.resources import resource_path

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
        if problem.problem_id in seen:
            raise UserError(f"dataset={dataset.name}: two rows have the identifier {problem.problem_id!r}; name another dataset.id_column")
        seen.add(problem.problem_id)
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
        rows: Iterable[Mapping[str, Any]] = load_dataset(builder, data_files=str(path), split="train")
    except (DatasetGenerationError, ValueError, OSError) as error:
        raise UserError(f"dataset.path={dataset.path}: {path} cannot be read as {builder}: {_first_line(error)}") from None
    return rows


def _load_hub(dataset: Dataset, source_split: str) -> Iterable[Mapping[str, Any]]:
    import socket

    assert dataset.hub is not None
    hint = f"download it and give the file: dataset.path=FILE dataset.split={dataset.split}"
    if not os.environ.get("HF_HUB_OFFLINE"):
        endpoint = os.environ.get("HF_ENDPOINT", "huggingface.co").removeprefix("https://").removeprefix("http://").split("/")[0]
        # The library retries an unreachable Hub for half a minute; one look-up tells at once.
        try:
            socket.create_connection((endpoint.split(":")[0], int(endpoint.partition(":")[2] or 443)), timeout=5).close()
        except OSError:
            os.environ["HF_HUB_OFFLINE"] = "1"
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


def _quiet() -> None:
    from datasets.utils import disable_progress_bars

    disable_progress_bars()


def _check_columns(dataset: Dataset, first: tuple[int, Mapping[str, Any]]) -> None:
    wanted = {name for _, name, _, _ in string.Formatter().parse(dataset.prompt) if name}
    wanted |= {column for column in (dataset.reference, dataset.difficulty, dataset.id_column) if column}
    missing = sorted(wanted - set(first[1]))
    if missing:
        raise UserError(f"dataset={dataset.name}: there is no column {', '.join(missing)}; the columns are {', '.join(sorted(first[1]))}")


def _problem(dataset: Dataset, index: int, row: Mapping[str, Any]) -> Problem:
    identifier = str(index if dataset.id_column is None else row[dataset.id_column])
    reference = "" if row[dataset.reference] is None else str(row[dataset.reference])
    if dataset.reference_after is not None:
        reference = reference.rpartition(dataset.reference_after)[2]
    reference = reference.strip()
    if not reference:
        raise UserError(f"dataset={dataset.name}: row {index} has no reference in column {dataset.reference!r}")
    turns = [Message("system", dataset.system)] if dataset.system else []
    for example in dataset.examples:
        turns += [Message("user", example.user), Message("assistant", example.assistant)]
    # Only the row's own columns are put in: a brace in a value is text, never a template.
    turns.append(Message("user", dataset.prompt.format_map(row)))
    return Problem(
        problem_id=f"{dataset.name}/{dataset.split}/{identifier}",
        dataset=dataset.name,
        split=dataset.split,
        messages=tuple(turns),
        reference=reference,
        contract=dataset.answer,
        difficulty=None if dataset.difficulty is None else str(row[dataset.difficulty]),
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
