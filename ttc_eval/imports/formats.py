"""The formats that can be taken in, by the name that the command line uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ttc_eval.imports import crucible, generic, gsm8k, inspect_logs, lm_eval, qwen_rm, tree_of_thought
from ttc_eval.imports.samples import Contents, Options


@dataclass(frozen=True, slots=True)
class Format:
    """How one kind of file is read. `read` raises `UserError`, also while the samples are taken from what it returns."""

    summary: str
    read: Callable[[Path, Options], Contents]


FORMATS: Mapping[str, Format] = {
    "jsonl": Format(generic.SUMMARY, generic.read),
    "crucible": Format(crucible.SUMMARY, crucible.read),
    "tree-of-thought": Format(tree_of_thought.SUMMARY, tree_of_thought.read),
    "gsm8k-solutions": Format(gsm8k.SUMMARY, gsm8k.read),
    "qwen-rm": Format(qwen_rm.SUMMARY, qwen_rm.read),
    "inspect": Format(inspect_logs.SUMMARY, inspect_logs.read),
    "lm-eval": Format(lm_eval.SUMMARY, lm_eval.read),
}
