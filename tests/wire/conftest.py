"""Recorded cases for the wire tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cases(shared: Path) -> list[dict]:
    """All recorded cases, one object each."""
    with (shared / "cases" / "cases.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
