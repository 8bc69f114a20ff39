"""Taking files into a study, as a user does it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ttc_eval.cli import main
from ttc_eval.shown import unknown
from ttc_eval.study import Study, open_study


@dataclass(frozen=True)
class Import:
    code: int
    out: str
    err: str
    path: Path

    @property
    def study(self) -> Study:
        return open_study(self.path)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        found = self.study.sql(query).itertuples(index=False, name=None)
        # Unknown values come as NaN or NA, which equal nothing.
        return [tuple(None if unknown(value) else value for value in row) for row in found]


Take = Callable[..., Import]
Lines = Callable[..., Path]


@pytest.fixture
def take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Take:
    def run(*arguments: str | Path, study: str = "i") -> Import:
        path = tmp_path / f"{study}.duckdb"
        code = main(["import", *map(str, arguments), "--db", str(path)])
        said = capsys.readouterr()
        return Import(code, said.out, said.err, path)

    return run


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    def write(rows: Sequence[Mapping[str, Any]], name: str = "samples.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return path

    return write
