"""One file while it is read: its problems, its systems, and what is kept of every sample."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from ttc_eval.asking import DrawConfig
from ttc_eval.errors import UserError
from ttc_eval.imports.classing import Answer, Classing, Verdicts
from ttc_eval.imports.formats import FORMATS
from ttc_eval.imports.samples import UNKNOWN_CAP, Contents, Options, Sample, SourceFile
from ttc_eval.models.base import ModelInfo
from ttc_eval.records import AnswerContract, CallStop, Message, Problem, Usage, digest
from ttc_eval.replay.shared_usage import SharedUsage
from ttc_eval.store import StudyPaths
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.config import CellConfig, parse
from ttc_eval.sweep.prepare import cell_of
from ttc_eval.verifiers.imported import Scale


@dataclass(frozen=True, slots=True)
class Placed:
    """What is kept of a sample while its file is read: everything but its texts."""

    call_id: str
    key: str
    draw: int
    answer: Answer
    stop: CallStop
    usage: Usage
    shared: SharedUsage | None
    usd: float | None
    latency_s: float | None
    started_at: float
    scores: Mapping[str, tuple[float, str]]


@dataclass(slots=True)
class System:
    """One cell in the making: who answered, from which pool. `placed`: its samples by problem and draw."""

    name: str
    seed: int
    info: ModelInfo
    draw: DrawConfig
    placed: dict[str, dict[int, Placed]] = field(default_factory=dict)


@dataclass(slots=True)
class OpenFile:
    """One file while it is read.

    Attributes:
        base: what the configs of its cells have in common.
        problems, told: by the file's names; what was first told of each.
        prompts: problems by their prompts; systems: by name and seed; values, scales: of scores, by name.
    """

    import_id: str
    source: SourceFile
    contents: Contents
    classing: Classing
    base: Mapping[str, Any]
    problems: dict[str, Problem] = field(default_factory=dict)
    told: dict[str, tuple[tuple[Message, ...], str | None]] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    systems: dict[tuple[str, int], System] = field(default_factory=dict)
    values: dict[str, array[float]] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    samples: int = 0

    def note(self, said: str) -> None:
        """Add something that a reader of the numbers must know, once."""
        if said not in self.notes:
            self.notes.append(said)


def opened(format_name: str, import_id: str, source: SourceFile, options: Options, verdicts: Verdicts) -> OpenFile:
    """A file that is about to be read. Raises `UserError` when it is not of the format."""
    contents = FORMATS[format_name].read(source.path, options)
    contract = contents.contract
    if options.answer is not None:
        contract = replace(contract or AnswerContract(), kind=options.answer)
        contents = replace(contents, extracts=True, comparable=True)
    classing = Classing(format_name, contract, options, verdicts, extracts=contents.extracts, comparable=contents.comparable)
    base = composed("self_consistency") | {
        "dataset": {
            "name": contents.dataset,
            "split": contents.split,
            "path": source.path.name,
            "prompt": "",
            "reference": "",
            "answer": asdict(classing.contract),
        },
        "sampling": {**asdict(contents.sampling), "stop": list(contents.sampling.stop)},
        "answer_tokens": contents.answer_tokens or UNKNOWN_CAP,
    }
    return OpenFile(import_id, source, contents, classing, base)


@cache
def _composed(strategy: str) -> dict[str, Any]:
    return plain(compose([f"strategy={strategy}"])[0])


def composed(strategy: str) -> dict[str, Any]:
    """A whole config with the strategy and everything else as it is by default."""
    return dict(_composed(strategy))


def model_of(file: OpenFile, name: str) -> dict[str, Any]:
    """The config of a model of the file: of who answered, or who scored."""
    price = {"provider": None, "model": None, "own": None}
    return {"_target_": "ttc_eval.models.imported.ImportedModel", "name": name, "source": file.import_id, "price": price}


def config_of(file: OpenFile, study: StudyPaths | None, system: str, seed: int, changes: Mapping[str, Any]) -> CellConfig:
    """The config of the cell of a system; `study` is where it is stored."""
    where = {} if study is None else {"study": study.study, "results_dir": str(study.database.parent)}
    return parse({**file.base, **where, "model": model_of(file, system), "seed": seed, **changes})


def problem_of(file: OpenFile, sample: Sample) -> Problem:
    """The problem of a sample, as it was first told. Raises `UserError` when the sample tells it otherwise."""
    known = file.problems.get(sample.problem)
    if known is not None:
        _check_same(file, sample)
        return known
    file.told[sample.problem] = sample.messages, sample.reference
    turns = sample.messages or (Message("user", sample.problem),)
    if not sample.messages:
        file.note("the file gives no prompts: the names of the problems stand for them")
    said = digest([turn.plain() for turn in turns])
    if file.prompts.setdefault(said, sample.problem) != sample.problem:
        # Two problems with one prompt would have one pool of draws.
        file.note("problems with the same prompt have their names before it, to be told apart")
        turns = (Message("system", f"problem {sample.problem}"), *turns)
    contract, reference = file.classing.contract, file.classing.reference(sample.reference)
    rule = [str(value) for value in asdict(contract).values()]
    contents = digest([[[turn.role, turn.content] for turn in turns], reference, rule])
    dataset, split = file.contents.dataset, file.contents.split
    name = f"{dataset}/{split}/{sample.problem}@{contents[:8]}"
    file.problems[sample.problem] = Problem(name, dataset, split, turns, reference, contract, sample.difficulty)
    return file.problems[sample.problem]


def _check_same(file: OpenFile, sample: Sample) -> None:
    """Raise `UserError` when a sample says something else of its problem than an earlier one did."""
    turns, reference = file.told[sample.problem]
    if sample.messages and sample.messages != turns:
        raise UserError(f"{sample.where}: problem {sample.problem!r} had another prompt, or none, where it came first")
    if sample.reference is not None and sample.reference != reference:
        raise UserError(f"{sample.where}: problem {sample.problem!r} had another reference, or none, where it came first")


def system_of(file: OpenFile, sample: Sample, problem: Problem) -> System:
    """The system that drew a sample."""
    key = sample.system, sample.seed
    if key not in file.systems:
        cell = cell_of(config_of(file, None, *key, {}), (problem,))
        file.systems[key] = System(*key, cell.model.info, cell.draw)
    return file.systems[key]
