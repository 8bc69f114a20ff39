"""The shipped configs: each can be composed and typed, and lists every key of what it configures."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.config import parse

CONFIGS = Path(__file__).parents[1] / "configs"
NEEDED = {
    "scripted": ["model.replies=[a]"],
    "openai_compatible": ["model.base_url=http://127.0.0.1:1/v1", "model.model=m"],
    "ttc_v2": ["model.base_url=http://127.0.0.1:1/v1", "model.model=m"],
}
EXPERIMENTS = {
    "quickstart": (25, [0, 16, 32, 64, 96]),
    "smollm2": (12, [0, 16, 32, 64]),
    "simulated": (12, [0, 16, 32, 64]),
    "search": (7, [96]),
    "game24": (6, [None]),
}


def names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


@pytest.mark.parametrize(
    ("group", "name"),
    [(group, name) for group in ("model", "strategy", "verifier", "dataset", "thinking", "limits") for name in names(group)],
)
def test_every_shipped_config_is_typed(group: str, name: str) -> None:
    model = [] if group == "model" else ["model=scripted", *NEEDED["scripted"]]
    assert parse(plain(compose([*model, f"{group}={name}", *(NEEDED.get(name, []) if group == "model" else [])])[0]))


@pytest.mark.parametrize(
    "path", sorted((CONFIGS / "model").glob("*.yaml")) + sorted((CONFIGS / "strategy").glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_config_lists_every_key_so_that_each_can_be_overridden(path: Path) -> None:
    listed = OmegaConf.load(path)
    if "_target_" not in listed:
        assert "defaults" in listed, "a variant of another config"
        return
    module, _, attribute = str(listed["_target_"]).rpartition(".")
    target = getattr(__import__(module, fromlist=[attribute]), attribute)
    # What is filled in by the program is no option.
    fields = {entry.name for entry in dataclasses.fields(target)} - {"answers"}
    assert {str(key) for key in listed} - {"_target_"} == fields


@pytest.mark.parametrize("name", names("experiment"))
def test_every_experiment_composes_its_cells(name: str) -> None:
    configs = [parse(plain(config)) for config in compose(["-m", f"experiment={name}"])]
    cells, budgets = EXPERIMENTS[name]
    assert len(configs) == cells
    assert {config.study for config in configs} == {name}
    assert sorted({config.thinking.budget for config in configs}) == budgets  # type: ignore[type-var]
