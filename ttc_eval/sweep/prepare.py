"""From configs to cells: everything that can be refused is refused here, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from ttc_eval import prices, sandbox
from ttc_eval.asking import Ask, DrawConfig, ask_request, draw_request, judge_request
from ttc_eval.datasets import Dataset, load
from ttc_eval.errors import UserError
from ttc_eval.forcing import next_segment
from ttc_eval.models.base import ChecksItself, Model, ModelInfo, NeedsAnswers, WritesRequests
from ttc_eval.records import ContractKind, Message, Problem, Request, ScoreKind, digest, json_keys
from ttc_eval.store import StudyPaths
from ttc_eval.strategies import ChangesThinking, ChecksSetting, HasSecondStage, Setting
from ttc_eval.sweep.config import CellConfig, parse
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import ChecksQuestion, Judge, LocalVerifier, PairwiseVerifier, Verifier


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the sweep, ready to run. `cell_id` is a hash of its config and of its problems."""

    cell_id: str
    config: CellConfig
    model: Model
    verifier_model: Model | None
    larger_model: Model | None
    problems: tuple[Problem, ...]
    draw: DrawConfig

    @property
    def models(self) -> tuple[Model, ...]:
        """Every model that it may ask: the one that answers, the judge, the larger one."""
        return tuple(model for model in (self.model, self.verifier_model, self.larger_model) if model is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one invocation will do: its cells, in order and each once, and where they are stored."""

    paths: StudyPaths
    cells: tuple[Cell, ...]
    overrides: tuple[str, ...]
    sweep_hash: str


def prepare(composed: Sequence[Mapping[str, Any]], overrides: Sequence[str] = (), *, to_run: bool = True) -> Plan:
    """Check all composed configs of one invocation. Raises `UserError` for the first that cannot be run.

    `to_run` also makes the folder of the journals; without it nothing is written.
    """
    configs = [_without_idle_parts(parse(config)) for config in composed]
    first = configs[0]
    for name in ("search_nodes", "search_depth"):
        if getattr(first.limits.sweep, name) is not None:
            raise UserError(f"limits.sweep.{name}: a search is bounded where it is charged: limits.problem.{name}, limits.cell.{name}")
    for config in configs:
        if _of_the_sweep(config) != _of_the_sweep(first):
            raise UserError("study, results_dir, limits.sweep and retry belong to the whole sweep; they cannot be swept over")
        _check_code(config, to_run=to_run)
    problems = _load_all([config.dataset for config in configs])
    models = _models(configs, problems)
    cells: dict[str, Cell] = {}
    for config in configs:
        cell = _cell(config, models, problems[_dataset_key(config.dataset)])
        cells.setdefault(cell.cell_id, cell)
    for model in models.values():
        if isinstance(model, ChecksItself):
            model.check()
    paths = StudyPaths.of(first.results_dir, first.study)
    try:
        if to_run:
            paths.journals.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"results_dir={first.results_dir}: it cannot be written to: {error.strerror}") from None
    sweep_hash = digest([sorted(cells), {name: str(value) for name, value in first.plain["limits"]["sweep"].items()}])
    return Plan(paths, tuple(cells.values()), tuple(_without_headers(overrides)), sweep_hash)


def cell_of(config: CellConfig, problems: tuple[Problem, ...]) -> Cell:
    """One cell whose problems are given, as those of a stored study are. Raises `UserError` as `prepare` does."""
    config = _without_idle_parts(config)
    _check_code(config, to_run=True)
    return _cell(config, _models([config], {_dataset_key(config.dataset): problems}), problems)


def _without_idle_parts(config: CellConfig) -> CellConfig:
    """A verifier or a model that the strategy never asks is no part of the cell: it would only make two cells of one."""
    idle = [] if getattr(config.strategy, "asks_larger_model", False) else ["larger_model"]
    if config.verifier is None or not getattr(config.strategy, "asks_verifier", True):
        idle += ["verifier", "verifier_model"]
    nothing: dict[str, Any] = dict.fromkeys(idle)
    return replace(config, **nothing, plain={**config.plain, **nothing})


def _check_code(config: CellConfig, *, to_run: bool) -> None:
    """Raise `UserError` for a cell that would run programs of a model where that was not asked for, or where there is no sandbox."""
    graded = config.dataset.answer.kind is ContractKind.CODE
    scored = config.verifier is not None and config.verifier.kind is ScoreKind.CODE
    if not graded and not scored:
        return
    if not config.allow_code_execution:
        who = f"dataset={config.dataset.name}" if graded else f"verifier={config.verifier.name}"  # type: ignore[union-attr]
        raise UserError(
            f"code_execution_not_enabled: {who} runs programs that a model wrote; "
            "to allow that, in a sandbox, add allow_code_execution=true (docs/sandbox.md)"
        )
    if to_run:
        sandbox.require()


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
        known = problems[_dataset_key(config.dataset)]
        named = (("model", config.model), ("verifier_model", config.verifier_model), ("larger_model", config.larger_model))
        for name, configured in named:
            if configured is not None:
                key = _model_key(config, name)
                model = models.get(key, configured)
                models[key] = model.with_answers(known) if isinstance(model, NeedsAnswers) else model
    return models


def _cell(config: CellConfig, models: Mapping[str, Model], problems: tuple[Problem, ...]) -> Cell:
    model = models[_model_key(config, "model")]
    judge, larger = (
        None if configured is None else models[_model_key(config, name)]
        for name, configured in (("verifier_model", config.verifier_model), ("larger_model", config.larger_model))
    )
    if isinstance(config.verifier, LocalVerifier):
        judge = None
    info = model.info
    info.thinking.check(config.thinking, info.name)
    if getattr(config.strategy, "needs_verifier", False) and config.verifier is None:
        raise UserError(f"strategy={config.strategy.name}: it needs a verifier; add for example verifier=outcome")
    cap, budget = getattr(config.strategy, "max_output_tokens", None), config.thinking.budget or 0
    if cap is not None and not budget < cap < 2**31:
        raise UserError(f"strategy.max_output_tokens={cap}: it must leave room for an answer beside thinking.budget={budget}")
    infos = [one.info for one in (model, judge, larger) if one is not None]
    unpriced = [one.name for one in infos if not prices.has_price(one.price)]
    limited = [scope for scope in ("sweep", "cell", "problem") if getattr(config.limits, scope).usd is not None]
    if limited and unpriced:
        raise UserError(
            f"limits.{limited[0]}.usd: model {unpriced[0]!r} has no price, so a USD limit cannot be kept; "
            "set model.price.own.input and model.price.own.output (USD per million tokens), or limit tokens"
        )
    shape = {key: config.identity[key] for key in ("thinking", "sampling", "answer_tokens", "seed")}
    contents = digest(
        [[p.problem_id, [[m.role, m.content] for m in p.messages], p.reference, *([p.given] if p.given else [])] for p in problems]
    )
    first, others = config.thinking, [one for one in main_thinkings(config) if one != config.thinking]
    draw = _draw_config(config, info, shape, first, others)
    if larger is not None:
        if isinstance(config.strategy, HasSecondStage):
            first, others = config.strategy.then_thinking(first), []
        larger.info.thinking.check(first, larger.info.name)
        draw = replace(draw, larger=_draw_config(config, larger.info, shape, first, others))
    for asked, asked_draw in ((model, draw), (larger, draw.larger)):
        if isinstance(asked, WritesRequests) and asked_draw is not None:
            # What its API cannot express is refused now, not by the first call.
            asked.body(first_request(asked_draw, asked.info, problems[0], cap_of(config, asked_draw.thinking)))
    if config.verifier is not None and not isinstance(config.verifier, LocalVerifier):
        _check_judge(config.verifier, judge or model, problems[0], config.seed)
    if isinstance(config.verifier, ChecksQuestion):
        config.verifier.check_question(problems[0].question())
    if isinstance(config.strategy, ChecksSetting):
        config.strategy.check(
            Setting(
                model=info,
                larger=None if larger is None else larger.info,
                verifier=config.verifier,
                thinking=config.thinking,
                sampling=config.sampling,
                answer_tokens=config.answer_tokens,
                question=problems[0].question(),
                try_out=_trying(model, draw, cap_of(config)),
            )
        )
    identity = {**config.identity, "endpoint": info.endpoint, "problems": contents}
    for name, one in (("verifier_endpoint", judge), ("larger_endpoint", larger)):
        if one is not None:
            identity[name] = one.info.endpoint
    return Cell(digest(json_keys(identity))[:16], config, model, judge, larger, problems, draw)


def _trying(model: Model, draw: DrawConfig, cap: int) -> Callable[[Ask], None]:
    """Tells whether the API of `model` can express a request; nothing is sent."""

    def try_out(ask: Ask) -> None:
        if isinstance(model, WritesRequests):
            model.body(ask_request(ask, draw, model.info, ask.max_output_tokens or cap))

    return try_out


def _draw_config(
    config: CellConfig, info: ModelInfo, shape: Mapping[str, Any], thinking: Thinking, others: Sequence[Thinking]
) -> DrawConfig:
    """What all draws of the cell from the model of `info` share. Raises `UserError` when it does not take one of the other thinkings."""
    for other in others:
        try:
            info.thinking.check(other, info.name)
        except UserError as error:
            raise UserError(f"strategy={config.strategy.name}: it may ask for {other.label}; {error}") from None
    named = [info.endpoint, info.model or info.name]
    pools = {other: digest([*named, {**shape, "thinking": _plain(other)}]) for other in (thinking, *others)}
    return DrawConfig(thinking, config.sampling, config.answer_tokens, config.seed, pools.pop(thinking), config.verifier, pools)


def _check_judge(verifier: Judge, judge: Model, problem: Problem, seed: int) -> None:
    """Raise `UserError` when the model that scores could not be asked: its draws would be paid for before that shows."""
    info = judge.info
    try:
        info.thinking.check(Thinking(), info.name)
        if isinstance(judge, WritesRequests):
            judge.body(judge_request(verifier, info, first_judged(verifier, problem), seed=seed))
    except UserError as error:
        raise UserError(f"verifier={verifier.name}: {info.name!r} cannot be asked for scores: {error}") from None


def main_thinkings(config: CellConfig) -> list[Thinking]:
    """The thinkings that the cell's strategy may ask the first model for. Raises `UserError` when it cannot run under the cell's own."""
    strategy, first = config.strategy, config.thinking
    found = list(strategy.thinkings(first)) if isinstance(strategy, ChangesThinking) else [first]
    if isinstance(strategy, HasSecondStage) and config.larger_model is None:
        found.append(strategy.then_thinking(first))
    return list(dict.fromkeys(found))


def _plain(thinking: Thinking) -> dict[str, object]:
    """A thinking as its config states it, so that every cell that thinks so names the same pool."""
    return {name: value.value if isinstance(value, StrEnum) else value for name, value in asdict(thinking).items()}


def cap_of(config: CellConfig, thinking: Thinking | None = None) -> int:
    """Tokens for all output of one draw of the cell: its strategy's cap, or else the thinking budget and the room for the answer.

    `thinking` is another than the cell's own, for which a strategy has no cap.
    """
    cap: int | None = getattr(config.strategy, "max_output_tokens", None)
    if cap is None or thinking not in (None, config.thinking):
        return ((thinking or config.thinking).budget or 0) + config.answer_tokens
    return cap


def first_request(draw: DrawConfig, info: ModelInfo, problem: Problem, cap: int) -> Request:
    """The first request that draw 0 about `problem` makes, with `cap` tokens for all output of the draw."""
    request = draw_request(draw, info, problem.messages, 0, cap)
    segment = None if info.forced is None or request.thinking.budget is None else next_segment(request, info.forced, [])
    return request if segment is None else segment.request


def first_judged(verifier: Judge, problem: Problem) -> tuple[Message, ...]:
    """What the verifier would ask about an empty candidate."""
    if isinstance(verifier, PairwiseVerifier):
        return verifier.pair_messages(problem.question(), "", "")
    asked: Verifier = verifier  # type: ignore[assignment]
    return asked.messages(problem.question(), "", None)


def _model_key(config: CellConfig, name: str) -> str:
    return digest(json_keys(config.plain[name]))


def _dataset_key(dataset: Dataset) -> str:
    return repr(dataset)


def _without_headers(overrides: Sequence[str]) -> list[str]:
    return [override.split("=")[0] + "=***" if "headers" in override else override for override in overrides]
