"""Recorded cases and published samples, read from the shared folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np


def case(shared: Path, case_id: str) -> dict[str, Any]:
    for line in (shared / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["id"] == case_id:
            return found
    raise LookupError(case_id)


def crucible(shared: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes, labels and scores, shape (seeds, problems, draws), of the crucible-ttc samples."""
    files = [shared / f"data/crucible/math500-bestofn-seed{seed}.json" for seed in range(3)]
    seeds = [json.loads(file.read_text(encoding="utf-8"))["records"] for file in files]
    answers = [[[final_answer(trace["text"]) for trace in record["traces"]] for record in records] for records in seeds]
    correct = np.array([[[trace["correct"] for trace in record["traces"]] for record in records] for records in seeds])
    scores = np.array([[[trace["prm_score"] for trace in record["traces"]] for record in records] for records in seeds])
    names = {text: number for number, text in enumerate(sorted({a for seed in answers for row in seed for a in row if a is not None}))}
    return np.array([[[-1 if a is None else names[a] for a in row] for row in seed] for seed in answers]), correct, scores


def final_answer(text: str) -> str | None:
    """The string that crucible-ttc 0.1.1 votes on: the last box, else "answer is ...", else the last number."""
    number = r"-?\d+(?:\.\d+)?(?:\s*/\s*-?\d+(?:\.\d+)?)?"
    phrase = r"(?:final\s+answer|answer)\s*(?:(?:is|:|=)\s*|\$?\\?boxed\s*\{?\s*)\$?([^\n.$}]+)"

    def clean(value: str) -> str:
        return value.strip().strip("$").strip().rstrip(".").strip()

    if (boxed := re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)) and clean(boxed[-1]):
        return clean(boxed[-1])
    if (phrases := re.findall(phrase, text, re.IGNORECASE)) and (value := clean(phrases[-1])):
        found = re.search(number, value)
        return found.group().replace(" ", "") if found else value
    numbers = re.findall(number, text)
    return numbers[-1].replace(" ", "") if numbers else None


def pooled(values: np.ndarray) -> np.ndarray:
    return np.concatenate(list(values), axis=1)
