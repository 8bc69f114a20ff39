"""Models and strategies with defects, for tests; configs name them by `_target_`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

from ttc_eval.models.base import Connection, ModelInfo
from ttc_eval.records import Request, Response, Solution
from ttc_eval.session import Session


@dataclass(frozen=True)
class DefectiveModel:
    name: str = "defective"

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(self.name, "defective")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        yield self

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        raise ZeroDivisionError("a defect")


@dataclass(frozen=True)
class DefectiveStrategy:
    name: ClassVar[str] = "defective"
    label: ClassVar[str] = "defective"

    async def solve(self, session: Session) -> Solution:
        raise ZeroDivisionError("a defect")
