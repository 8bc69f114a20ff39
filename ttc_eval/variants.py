"""What tells cells apart that share model, thinking, strategy, data set and seed: the keys of their configs that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ttc_eval.records import digest

if TYPE_CHECKING:
    import pandas as pd

_NAMED = ("model", "thinking_label", "strategy_label", "dataset", "split", "seed", "verifier")
# These name a cell already, or do not change what it is.
_LEFT_OUT = (
    "study",
    "results_dir",
    "seed",
    "retry",
    "limits.sweep",
    "thinking",
    "model.name",
    "model.max_concurrency",
    "stored_verifiers",
    "verifier_model.source",
)


# Where the problems of a data set come from, and which of them: not what is asked about them.
_SOURCE = tuple(
    f"dataset.{name}"
    for name in ("path", "hub", "hub_config", "revision", "split", "splits", "id_column", "difficulty", "given", "limit", "shuffle_seed")
)


def policy_key(config: Mapping[str, Any], endpoint: str, without: Sequence[str] = ()) -> str:
    """One key for all cells that are the same policy on whatever problems: cells that differ in split, in which problems, or in seed alone.

    Args:
        config: of the cell, as it is stored, or some of its parts; endpoint: identity of its model.
        without: keys that may differ as well, for example `strategy.threshold`.
    """
    left_out = (*_SOURCE, "model", "allow_code_execution", *without)
    rest = {key: value for key, value in _flat(config, "").items() if not any(key == one or key.startswith(f"{one}.") for one in left_out)}
    return digest([endpoint, config.get("model", {}).get("name"), config.get("thinking"), rest])


def policy_keys(cells: Sequence[tuple[Mapping[str, Any], str, str, int]]) -> list[str]:
    """The `policy_key` of each cell, given as config, endpoint, split and seed.

    The endpoint of imported samples is their file. Files of several splits are one policy; several files of one split are not.
    """
    keys = [policy_key(config, "imported" if endpoint.startswith("imported:") else endpoint) for config, endpoint, *_ in cells]
    files: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for key, (_, endpoint, *where) in zip(keys, cells, strict=True):
        files[(key, *where)].add(endpoint)
    several = {key for (key, *_), endpoints in files.items() if len(endpoints) > 1}
    return [f"{key} {endpoint}" if key in several else key for key, (_, endpoint, *_) in zip(keys, cells, strict=True)]


def with_variants(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells with a column `variant` instead of `config`: the differing keys, such as `temperature=0.2`, or NULL.

    Cells that agree in their names, and in all but the seed of their config, are replicates; others must not look alike.
    """
    import pandas as pd

    configs = [_flat(orjson.loads(text), "") for text in cells["config"]]
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(cells.to_dict("records")):
        groups[tuple(str(row[name]) for name in _NAMED)].append(place)
    variants: list[str | None] = [None] * len(configs)
    for places in groups.values():
        for place, said in zip(places, _differences([configs[place] for place in places]), strict=True):
            variants[place] = said
    return cells.drop(columns="config").assign(variant=pd.Series(variants, index=cells.index, dtype=object))


def _differences(configs: Sequence[Mapping[str, Any]]) -> list[str | None]:
    keys = sorted({key for config in configs for key in config if len({repr(one.get(key)) for one in configs}) > 1})
    return [", ".join(f"{key.rpartition('.')[2]}={config.get(key)}" for key in keys) or None for config in configs]


def _flat(value: Any, where: str) -> dict[str, Any]:
    if where and (where in _LEFT_OUT or where.startswith(tuple(f"{name}." for name in _LEFT_OUT))):
        return {}
    if not isinstance(value, Mapping):
        return {where: value}
    return {key: item for name, part in value.items() for key, item in _flat(part, f"{where}.{name}" if where else str(name)).items()}
