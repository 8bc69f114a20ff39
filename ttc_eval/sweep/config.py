"""Typed configs: composed YAML becomes dataclasses, or an error that names the key and the choices.

A node with `_target_` becomes that dataclass; its fields are the allowed keys and their annotations the types. Nothing
is registered anywhere: a new strategy or model is a dataclass and a YAML file.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ttc_eval.datasets import Dataset
from ttc_eval.errors import UserError
from ttc_eval.exchange import RetryPolicy
from ttc_eval.ledger import Limits
from ttc_eval.models.base import Model
from ttc_eval.records import JSON, Sampling
from ttc_eval.strategies import Strategy
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Judge, LocalVerifier

# Settings of how calls are made, not of what is asked: they do not make another cell.
_NOT_IDENTITY = frozenset({"max_concurrency", "timeouts", "api_key_env", "api_key_file", "headers"})


@dataclass(frozen=True, slots=True)
class AllLimits:
    """Limits of the whole sweep (what is billed), of each cell and of each problem (what is charged)."""

    sweep: Limits = field(default_factory=Limits)
    cell: Limits = field(default_factory=Limits)
    problem: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class CellConfig:
    """One composed config, typed. `plain` is what it was composed from, without anything secret."""

    model: Model
    thinking: Thinking
    strategy: Strategy
    verifier: Judge | LocalVerifier | None
    verifier_model: Model | None
    larger_model: Model | None
    dataset: Dataset
    limits: AllLimits
    sampling: Sampling
    retry: RetryPolicy
    answer_tokens: int
    seed: int
    study: str
    results_dir: str
    allow_code_execution: bool
    plain: JSON

    @property
    def identity(self) -> dict[str, Any]:
        """The part of the config that makes the cell what it is."""
        plain = dict(self.plain)
        model = {key: value for key, value in plain["model"].items() if key not in _NOT_IDENTITY}
        limits = {scope: plain["limits"][scope] for scope in ("cell", "problem")}
        rest = {key: plain[key] for key in ("thinking", "strategy", "verifier", "dataset", "sampling", "answer_tokens", "seed")}
        for name in ("verifier_model", "larger_model"):
            if plain[name] is not None:
                rest[name] = {key: value for key, value in plain[name].items() if key not in _NOT_IDENTITY}
        return {"model": model, "limits": limits, **rest}


def parse(composed: Mapping[str, Any]) -> CellConfig:
    """A composed config as typed objects. Raises `UserError` that names the first wrong key or value."""
    known = {entry.name for entry in dataclasses.fields(CellConfig)} - {"plain"}
    unknown = sorted(set(composed) - known)
    if unknown:
        raise UserError(_unknown_key(unknown[0], sorted(known), ""))
    missing = sorted(known - set(composed))
    if missing:
        raise UserError(f"{missing[0]}: it is missing from the config")
    answer_tokens, seed = composed["answer_tokens"], composed["seed"]
    if not isinstance(answer_tokens, int) or not 1 <= answer_tokens < 2**31:
        raise UserError(f"answer_tokens={answer_tokens}: give 1 or more tokens")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UserError(f"seed={seed}: give a whole number, 0 or more")
    for name in ("study", "results_dir"):
        if not isinstance(composed[name], str | int | float) or isinstance(composed[name], bool):
            raise UserError(f"{name}={composed[name]}: give a name")
    if not isinstance(composed["allow_code_execution"], bool):
        raise UserError(f"allow_code_execution={composed['allow_code_execution']}: give true or false")
    _check_integers(composed, "")
    return CellConfig(
        model=build(composed["model"], "model"),
        thinking=typed(Thinking, composed["thinking"], "thinking"),
        strategy=build(composed["strategy"], "strategy"),
        verifier=None if composed["verifier"] is None else build(composed["verifier"], "verifier"),
        verifier_model=None if composed["verifier_model"] is None else build(composed["verifier_model"], "verifier_model"),
        larger_model=None if composed["larger_model"] is None else build(composed["larger_model"], "larger_model"),
        dataset=typed(Dataset, composed["dataset"], "dataset"),
        limits=typed(AllLimits, composed["limits"], "limits"),
        sampling=typed(Sampling, composed["sampling"], "sampling"),
        retry=typed(RetryPolicy, composed["retry"], "retry"),
        answer_tokens=answer_tokens,
        seed=seed,
        study=str(composed["study"]),
        results_dir=str(composed["results_dir"]),
        allow_code_execution=composed["allow_code_execution"],
        plain=_without_secrets(composed),
    )


def build(node: Any, where: str) -> Any:
    """The object that a node with `_target_` describes."""
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise UserError(f"{where}: it needs a _target_, the dataclass that it configures")
    target = _resolve(str(node["_target_"]), where)
    return typed(target, {key: value for key, value in node.items() if key != "_target_"}, where)


def typed(target: Any, values: Any, where: str) -> Any:
    """`values` as an instance of the dataclass `target`. Raises `UserError` naming the key, its value and its type."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: give keys and values, not {values!r}")
    _check_keys(target, values, where)
    try:
        return _adapter(target).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([where, *(str(part) for part in first["loc"])])
        problem = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{key}={first['input']!r}: {problem[0].lower()}{problem[1:]}") from None


def _check_integers(value: Any, where: str) -> None:
    # The store and JSON hold 64 bits.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UserError(f"{where}={value}: the number is too large")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_integers(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _check_integers(item, f"{where}.{place}")


def _check_keys(target: Any, values: Mapping[str, Any], where: str) -> None:
    fields = {entry.name: entry for entry in dataclasses.fields(target)}
    for key, value in values.items():
        if key not in fields:
            raise UserError(_unknown_key(str(key), sorted(fields), f"{where}."))
        nested = _nested_dataclass(target, key)
        if nested is not None and isinstance(value, Mapping):
            _check_keys(nested, value, f"{where}.{key}")


def _nested_dataclass(target: Any, key: str) -> Any:
    from typing import get_args, get_type_hints

    hint = get_type_hints(target)[key]
    return next((option for option in (hint, *get_args(hint)) if dataclasses.is_dataclass(option)), None)


def _unknown_key(key: str, choices: list[str], prefix: str) -> str:
    close = difflib.get_close_matches(key, choices, n=1)
    hint = f"did you mean {prefix}{close[0]}? " if close else ""
    return f"{prefix}{key}: there is no such key; {hint}The keys are: {', '.join(choices)}"


def _resolve(name: str, where: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        target = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{where}._target_={name}: it cannot be imported: {error}") from None
    if not dataclasses.is_dataclass(target):
        raise UserError(f"{where}._target_={name}: it is not a dataclass")
    return target


@lru_cache(maxsize=256)
def _adapter(target: Any) -> TypeAdapter[Any]:
    return TypeAdapter(target)


def _without_secrets(composed: Mapping[str, Any]) -> dict[str, Any]:
    plain = dict(composed)
    for name in ("model", "verifier_model", "larger_model"):
        model = dict(plain[name] or {})
        if model.get("headers"):
            plain[name] = model | {"headers": dict.fromkeys(model["headers"], "***")}
    return plain
