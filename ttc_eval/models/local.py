"""A GGUF model that runs here: llama.cpp's own server on loopback, inside this process, spoken to like any other server.

The server is a thread of this process and ends with it, however it ends. See docs/models.md for what holds of "a draw
does not depend on what it was batched with".
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ttc_eval.errors import UserError
from ttc_eval.models.base import Connection, ForcedThinking, ModelInfo, step_format
from ttc_eval.models.http import HttpModel
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport

if TYPE_CHECKING:
    import xllamacpp


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A GGUF file, run in process.

    Attributes:
        name: the name that tables and figures show.
        weights: path of the GGUF file, or `package:NAME/FILE` for a file that a Python package brings.
        sha256: what the weights must hash to; null accepts any file. The hash is part of every draw's address.
        forced: how a thinking budget is forced by continuing a prefix.
        context_tokens: room for prompt and output of one request.
        threads: of computation; 0 takes the cores that this process may use.
        max_concurrency: requests answered in parallel, each in a slot of its own.
    """

    name: str
    weights: str
    forced: ForcedThinking
    sha256: str | None = None
    context_tokens: int = 512
    threads: int = 0
    max_concurrency: int = 8

    def __post_init__(self) -> None:
        if self.context_tokens < 64 or self.max_concurrency < 1 or self.threads < 0:
            raise UserError("model: context_tokens must be 64 or more, max_concurrency 1 or more, threads 0 or more")

    @property
    def info(self) -> ModelInfo:
        """Its endpoint is the hash of its weights."""
        return ModelInfo(
            name=self.name,
            endpoint=f"local:{file_sha256(weights_path(self.weights))[:16]}",
            thinking=self._support,
            forced=self.forced,
            max_concurrency=self.max_concurrency,
            one_by_one=True,
            steps=step_format(self.forced, tells_stop=False),
        )

    @property
    def _support(self) -> ThinkingSupport:
        return ThinkingSupport(
            accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET),
            min_budget=0,
            max_budget=self.context_tokens - 1,
            forced_by_prefix=True,
            reports_reasoning_tokens=True,
        )

    def check(self) -> None:
        """Raise `UserError` when the engine is missing, or the weights are or are not those expected."""
        if find_spec("xllamacpp") is None:
            raise UserError("model: the engine of local models is not installed; run: make setup (or pip install 'ttc_eval[local]')")
        path = weights_path(self.weights)
        found = file_sha256(path)
        if self.sha256 is not None and found != self.sha256:
            raise UserError(f"model.weights={self.weights}: {path} has sha256 {found[:16]}…, expected {self.sha256[:16]}…; run: make setup")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Start the server and open the line to it. Raises `UserError` as `check` does."""
        self.check()
        path = weights_path(self.weights)
        server = await asyncio.to_thread(_start, path, self.context_tokens, self.threads, self.max_concurrency)
        try:
            line = HttpModel(
                name=self.name,
                model=self.name,
                base_url=f"{server.listening_address}/v1",
                endpoint=self.info.endpoint,
                dialect="llama_cpp",
                max_concurrency=self.max_concurrency,
                thinking=self._support,
                forced=self.forced,
            )
            async with line.connect() as connection:
                # The first request pays for what the engine sets up; it is no draw and is not stored.
                await connection.respond(Request(self.name, "", (Message("user", "1"),), Thinking(), Sampling(), 1, 1))
                yield connection
        finally:
            del server
            # The server stops when its object is freed, and nothing else holds it.
            await asyncio.to_thread(gc.collect)


def weights_path(weights: str) -> Path:
    """The file that `weights` names. Raises `UserError` when it is not there."""
    if not weights.startswith("package:"):
        path = Path(weights).expanduser()
        if not path.is_file():
            raise UserError(f"model.weights={weights}: there is no such file")
        return path
    package, _, name = weights.removeprefix("package:").partition("/")
    # The package is located, not imported: its own code wants an engine that is not used here.
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise UserError(f"model.weights={weights}: the package {package} is not installed; run: make setup")
    path = Path(next(iter(found.submodule_search_locations))) / name
    if not path.is_file():
        raise UserError(f"model.weights={weights}: {path} does not exist; run: make setup")
    return path


@lru_cache(maxsize=8)
def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _start(path: Path, context_tokens: int, threads: int, slots: int) -> xllamacpp.Server:
    # Without this, threads that wait for each other burn the cores: on a busy machine that costs a factor of ten. OpenMP
    # reads it once, when the engine is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_parallel = slots
    parameters.n_ctx = context_tokens * slots
    parameters.n_batch, parameters.n_ubatch = 2048, 512
    parameters.kv_unified = False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads or _cores()
    parameters.n_threads_http = slots + 4
    parameters.verbosity = -1
    parameters.warmup = False
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    parameters.ui = False
    return xllamacpp.Server(parameters)


def _cores() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # llama.cpp gains nothing from more threads on models small enough to run in process, and loses when cores are shared.
    return max(1, min(available, 8))
