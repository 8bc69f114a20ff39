"""What tells cells apart that share model, thinking, strategy, data set and seed: the keys of their configs that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

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
