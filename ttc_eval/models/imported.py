"""A model whose samples another tool has drawn. It stands for who answered; nothing is ever sent to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ttc_eval.errors import CallFailed, UserError
from ttc_eval.models.base import Connection, ModelInfo, PriceRef
from ttc_eval.records import NOTHING_USED, Request, Response


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """Who answered, or scored, in an imported file.

    `source` is the id of the import: the draws of two files are never mixed up. `price` prices the tokens that the file tells, in a replay.
    """

    name: str
    source: str
    price: PriceRef = field(default_factory=PriceRef)

    def __post_init__(self) -> None:
        if not self.source:
            raise UserError("model.source: it is empty; samples come in by ttc-eval import")

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the import. How it was told to think is not known, so only the form `off` is taken."""
        return ModelInfo(self.name, f"imported:{self.source}", price=self.price)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield Nobody(self.name)


@dataclass(frozen=True, slots=True)
class Nobody:
    """A connection that sends nothing and says so."""

    name: str

    async def respond(self, request: Request, *, attempt: int = 1, timeout: float | None = None) -> Response:
        """Raises `CallFailed`, always."""
        said = f"{self.name} was imported and cannot be asked; its samples are replayed with ttc-eval replay"
        raise CallFailed("not_sendable", said, retryable=False, usage=NOTHING_USED)
