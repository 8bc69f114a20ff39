"""Recorded cases as parameters: a test that asks for `equivalence_case` or `vote_case` runs once for each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

KINDS = {"equivalence_case": "answer_equivalence", "vote_case": "majority_vote"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in KINDS.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, _cases(KINDS[name]))


def _cases(kind: str) -> list[object]:
    folder = Path(os.environ.get("TTC_EVAL_SHARED") or Path(__file__).parents[3] / "shared")
    file = folder / "cases" / "cases.jsonl"
    if not file.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded cases at {folder}; set TTC_EVAL_SHARED"))]
    cases = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [pytest.param(case, id=case["id"]) for case in cases if case["kind"] == kind]
