"""Where the files of a study are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ttc_eval.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class StudyPaths:
    """The files of one study, named after its DuckDB file."""

    database: Path

    @classmethod
    def of(cls, results_dir: str | Path, study: str) -> StudyPaths:
        """The paths of study `study` in `results_dir`. Raises `UserError` when the name cannot be a file name."""
        if not _NAME.fullmatch(study):
            raise UserError(f"study={study}: use letters, digits, '.', '_' and '-' (the name becomes a file name)")
        return cls(Path(results_dir) / f"{study}.duckdb")

    @property
    def study(self) -> str:
        """The study's name."""
        return self.database.stem

    @property
    def journals(self) -> Path:
        """The folder of the journals."""
        return self.database.with_suffix(".journal")

    def figure(self, name: str) -> Path:
        """Path of a figure, without its ending."""
        return self.database.parent / f"{self.study}-{name}"
