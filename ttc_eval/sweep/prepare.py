"""From configs to cells: everything that can be refused is refused here, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttc_eval import prices
from ttc_eval.datasets import Dataset, load
from ttc_eval.errors import UserError
from ttc_eval.models.base import ChecksItself, Model, NeedsAnswers
from ttc_eval.records import Problem, digest, json_keys
from ttc_eval.session import DrawConfig
from ttc_eval.store import StudyPaths
from ttc_eval.strategies import BestOfN
from ttc_eval.sweep.config import CellConfig, parse


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the sweep, ready to run. `cell_id` is a hash of its config and of its problems."""

    cell_id: str
    config: CellConfig
    model: Model
    problems: tuple[Problem, ...]
    draw: DrawConfig


@dataclass(frozen=True, slots=True)
class Plan:
    """What one invocation will do: its cells, in order and each once, and where they are stored."""

    paths: StudyPaths
    cells: tuple[Cell, ...]
    overrides: tuple[str, ...]
    sweep_hash: str


def prepare(composed: Sequence[Mapping[str, Any]], overrides: Sequence[str] = ()) -> Plan:
    """Check all composed configs of one invocation. Raises `UserError` for the first that cannot be run."""
    configs = [parse(config) for config in composed]
    first = configs[0]
    for config in configs:
        if _of_the_sweep(config) != _of_the_sweep(first):
            raise UserError("study, results_dir, limits.sweep and retry belong to the whole sweep; they cannot be swept over")
    problems = _load_all([config.dataset for config in configs])
    models = _models(configs, problems)
    cells: dict[str, Cell] = {}
    for config in configs:
        cell = _cell(config, models[_model_key(config)], problems[_dataset_key(config.dataset)])
        cells.setdefault(cell.cell_id, cell)
    for model in models.values():
        if isinstance(model, ChecksItself):
            model.check()
    paths = StudyPaths.of(first.results_dir, first.study)
    try:
        paths.journals.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"results_dir={first.results_dir}: it cannot be written to: {error.strerror}") from None
    sweep_hash = digest([sorted(cells), {name: str(value) for name, value in first.plain["limits"]["sweep"].items()}])
    return Plan(paths, tuple(cells.values()), tuple(_without_headers(overrides)), sweep_hash)


def _of_the_sweep(config: CellConfig) -> tuple[object, ...]:
    return (config.study, config.results_dir, config.limits.sweep, config.retry)


def _load_all(datasets: Sequence[Dataset]) -> dict[str, tuple[Problem, ...]]:
    loaded: dict[str, tuple[Problem, ...]] = {}
    for dataset in datasets:
        key = _dataset_key(dataset)
        if key not in loaded:
            loaded[key] = tuple(load(dataset))
    return loaded


def _models(configs: Sequence[CellConfig], problems: Mapping[str, tuple[Problem, ...]]) -> dict[str, Model]:
    """One object per model, so that cells share its connection; a simulated one learns every problem it may be asked."""
    models: dict[str, Model] = {}
    for config in configs:
        key = _model_key(config)
        model = models.get(key, config.model)
        models[key] = model.with_answers(problems[_dataset_key(config.dataset)]) if isinstance(model, NeedsAnswers) else model
    return models


def _cell(config: CellConfig, model: Model, problems: tuple[Problem, ...]) -> Cell:
    info = model.info
    info.thinking.check(config.thinking, info.name)
    if isinstance(config.strategy, BestOfN) and config.verifier is None:
        raise UserError("strategy=best_of_n: it needs a verifier; add for example verifier=outcome")
    cap, budget = getattr(config.strategy, "max_output_tokens", None), config.thinking.budget or 0
    if cap is not None and not budget < cap < 2**31:
        raise UserError(f"strategy.max_output_tokens={cap}: it must leave room for an answer beside thinking.budget={budget}")
    limited = [scope for scope in ("sweep", "cell", "problem") if getattr(config.limits, scope).usd is not None]
    if limited and not prices.has_price(info.price):
        raise UserError(
            f"limits.{limited[0]}.usd: model {info.name!r} has no price, so a USD limit cannot be kept; "
            "set model.price.own.input and model.price.own.output (USD per million tokens), or limit tokens"
        )
    shape = {key: config.identity[key] for key in ("thinking", "sampling", "answer_tokens", "seed")}
    pool = digest([info.endpoint, info.model or info.name, shape])
    contents = digest([[p.problem_id, [[m.role, m.content] for m in p.messages], p.reference] for p in problems])
    draw = DrawConfig(config.thinking, config.sampling, config.answer_tokens, config.seed, pool, config.verifier)
    identity = {**config.identity, "endpoint": info.endpoint, "problems": contents}
    return Cell(digest(json_keys(identity))[:16], config, model, problems, draw)


def _model_key(config: CellConfig) -> str:
    return digest(json_keys(config.plain["model"]))


def _dataset_key(dataset: Dataset) -> str:
    return repr(dataset)


def _without_headers(overrides: Sequence[str]) -> list[str]:
    return [override.split("=")[0] + "=***" if "headers" in override else override for override in overrides]
