"""Data sets: every format gives the same problems, and what is wrong with a source is said in a line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from ttc_eval.datasets import Dataset, load
from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, ContractKind
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.config import parse

ROWS = [
    {"key": "a", "q": "1 {x} + 1?", "ref": "work\n#### 2", "level": "easy"},
    {"key": "b", "q": "2 + 2?", "ref": "#### 5 is wrong\n#### 4", "level": "hard"},
    {"key": "c", "q": "Größe 漢字 3?", "ref": "#### 3", "level": "easy"},
]


def write(folder: Path, kind: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"data.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def dataset(source: Path, /, **changes: Any) -> Dataset:
    settings: dict[str, Any] = {
        "name": "d",
        "path": str(source),
        "prompt": "Q: {q}",
        "reference": "ref",
        "reference_after": "####",
        "id_column": "key",
        "difficulty": "level",
        "split": "dev",
        "answer": AnswerContract(ContractKind.NUMBER),
    }
    return Dataset(**(settings | changes))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_every_format_gives_the_same_problems(tmp_path: Path, kind: str) -> None:
    problems = load(dataset(write(tmp_path, kind, ROWS)))
    assert [problem.problem_id.partition("@")[0] for problem in problems] == ["d/dev/a", "d/dev/b", "d/dev/c"]
    assert [problem.reference for problem in problems] == ["2", "4", "3"]
    assert problems[0].messages[-1].content == "Q: 1 {x} + 1?", "a brace in a value is text"
    assert [problem.difficulty for problem in problems] == ["easy", "hard", "easy"]


def test_a_question_does_not_hold_the_reference(tmp_path: Path) -> None:
    question = load(dataset(write(tmp_path, "jsonl", ROWS)))[0].question()
    assert not hasattr(question, "reference")


def test_a_problem_of_the_same_name_and_other_content_is_another_problem(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", ROWS)
    first = load(dataset(path))[0].problem_id
    assert load(dataset(path, answer=AnswerContract(ContractKind.NUMBER, rel_tol=0.1)))[0].problem_id != first
    assert load(dataset(path, system="Be brief."))[0].problem_id != first
    write(tmp_path, "jsonl", [{**ROWS[0], "ref": "#### 3"}, *ROWS[1:]])
    assert load(dataset(path))[0].problem_id != first


def test_values_keep_their_spelling(tmp_path: Path) -> None:
    rows = [{"key": "001", "q": "?", "ref": "007", "level": "1"}, {"key": "002", "q": "?", "ref": "None", "level": ""}]
    problems = load(dataset(write(tmp_path, "csv", rows), reference_after=None, answer=AnswerContract(ContractKind.TEXT)))
    assert [problem.reference for problem in problems] == ["007", "None"]
    gaps = [{"key": "a", "q": "?", "ref": 7.0, "level": "x"}, {"key": "b", "q": "?", "ref": 8.5, "level": "x"}]
    problems = load(dataset(write(tmp_path, "parquet", gaps), reference_after=None))
    assert [problem.reference for problem in problems] == ["7", "8.5"]


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "d[1] *"
    folder.mkdir()
    assert len(load(dataset(write(folder, "jsonl", ROWS)))) == 3


def test_limit_and_shuffle_are_repeatable(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", ROWS)
    first, again, other = (load(dataset(path, shuffle_seed=seed)) for seed in (1, 1, 4))
    assert first == again
    assert {problem.problem_id for problem in first} == {problem.problem_id for problem in other}
    assert load(dataset(path, limit=2)) == load(dataset(path))[:2]


def test_the_split_is_part_of_the_path_and_may_have_another_name(tmp_path: Path) -> None:
    write(tmp_path, "jsonl", ROWS).rename(tmp_path / "train.jsonl")
    problems = load(dataset(tmp_path / "{split}.jsonl", splits={"dev": "train"}))
    assert problems[0].split == "dev"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt": "{nope}"}, "no column nope; the columns are key, level, q, ref"),
        ({"reference": "answer"}, "no column answer"),
        ({"reference_after": "@@@@"}, "row 0: the reference"),
        ({"answer": AnswerContract(ContractKind.CHOICE)}, "no valid answer of kind choice"),
        ({"prompt": "{q"}, "dataset.prompt"),
        ({"prompt": "{}"}, "dataset.prompt"),
        ({"prompt": "{q!r}"}, "dataset.prompt"),
        ({"prompt": "{q:d}"}, "dataset.prompt"),
        ({"id_column": "level"}, "two rows have the identifier 'd/dev/easy'"),
        ({"limit": 0}, "limit=0"),
        ({"path": None}, "dataset.hub"),
        ({"path": "x.txt"}, "does not exist"),
    ],
)
def test_a_wrong_source_is_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write(tmp_path, "jsonl", ROWS)
    with pytest.raises(UserError) as caught:
        load(dataset(path, **changes))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_reference_and_a_broken_file_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", [*ROWS, {"key": "e", "q": "?", "ref": None, "level": "easy"}])
    with pytest.raises(UserError, match="row 3 has no value in column 'ref'"):
        load(dataset(path))
    path.write_text('{"key": "a"\nnot json')
    with pytest.raises(UserError, match="cannot be read as json"):
        load(dataset(path))


@pytest.mark.parametrize(
    ("name", "file", "count", "reference"),
    [
        ("gsm8k", "gsm8k/test.jsonl", 1319, "18"),
        ("math500", "math/math500_test.jsonl", 500, None),
        ("aime24", "math/aime24_test.jsonl", 30, None),
    ],
)
def test_the_shipped_configs_load_the_published_files(shared: Path, name: str, file: str, count: int, reference: str | None) -> None:
    config = parse(plain(compose(["model=simulated", f"dataset={name}", f"dataset.path={shared / 'data' / file}"])[0]))
    problems = load(config.dataset)
    assert len(problems) == count
    assert reference is None or problems[0].reference == reference
    assert "{problem}" not in problems[0].messages[-1].content


def test_the_quick_start_data_are_what_their_seed_makes_and_splits_do_not_overlap() -> None:
    script = Path(__file__).parents[2] / "data" / "quickstart" / "make.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True, capture_output=True)
    splits = {}
    for split in ("dev", "heldout"):
        config = parse(plain(compose(["model=simulated", "dataset=quickstart", f"dataset.split={split}"])[0]))
        splits[split] = {problem.messages[-1].content for problem in load(config.dataset)}
    assert not splits["dev"] & splits["heldout"]
