"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recorded cases and published data: `TTC_EVAL_SHARED`, else `../shared` beside the checkout."""
    folder = Path(os.environ.get("TTC_EVAL_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no recorded cases at {folder}; set TTC_EVAL_SHARED to their folder")
    return folder
