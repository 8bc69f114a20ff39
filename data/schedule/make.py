"""Make the scheduling data sets: 120 solvable problems a split, of three difficulties in turn.

Run `python data/schedule/make.py` to write `dev.jsonl` and `heldout.jsonl` beside this file, or add `--check` to verify that the files are
exactly what the seed makes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttc_eval.tasks import Schedule
from ttc_eval.tasks.schedule import ScheduleState

SEED = 20261130
SPLITS = ("dev", "heldout")
BANDS = ("easy", "medium", "hard")
PER_BAND = 40
POOL = 800
TOO_EASY = 0.5
FEATURES = ("crane", "oven", "press")


def drawn(rng: random.Random) -> dict[str, Any]:
    """A problem that has a solution, because its machines' hours are those of one, with a few hours to spare."""
    jobs = [
        {"name": "ABCDEFG"[place], "hours": rng.randint(1, 6), "needs": [rng.choice(FEATURES)] if rng.random() < 0.4 else []}
        for place in range(rng.randint(5, 7))
    ]
    machines = [{"name": f"M{place + 1}", "hours": 0, "has": []} for place in range(rng.randint(2, 3))]
    pairs = []
    for job in jobs:
        machine = rng.choice(machines)
        machine["hours"] += job["hours"]
        machine["has"] = sorted({*machine["has"], *job["needs"]})
        pairs.append(f"{job['name']} -> {machine['name']}")
    for machine in machines:
        machine["hours"] += rng.choice((0, 0, 0, 1))
    rng.shuffle(jobs)
    return {"jobs": jobs, "machines": machines, "answer": Schedule().canonical(", ".join(pairs))}


def chance(state: ScheduleState, known: dict[str, float]) -> float:
    """The probability that play which picks uniformly among the legal moves assigns every job."""
    if state.terminal:
        return 1.0
    if state.key not in known:
        chances = [chance(after, known) for _, after in state.moves()]
        known[state.key] = sum(chances) / len(chances) if chances else 0.0
    return known[state.key]


def rows() -> dict[str, list[str]]:
    """The lines of each split's file."""
    rng = random.Random(SEED)
    problems = [problem for problem in (drawn(rng) for _ in range(POOL)) if all(machine["hours"] for machine in problem["machines"])]
    for problem in problems:
        problem["random_play"] = round(chance(Schedule().start(problem), {}), 6)
    problems = [problem for problem in problems if problem["random_play"] <= TOO_EASY]
    easiest_first = sorted(problems, key=lambda problem: -problem["random_play"])
    for place, problem in enumerate(easiest_first):
        problem["difficulty"] = BANDS[place * len(BANDS) // len(easiest_first)]
    return {split: list(_split(split, problems[number :: len(SPLITS)])) for number, split in enumerate(SPLITS)}


def _split(split: str, problems: list[dict[str, Any]]) -> Iterator[str]:
    chosen = [[problem for problem in problems if problem["difficulty"] == band][:PER_BAND] for band in BANDS]
    for place in range(PER_BAND):
        for band, among in zip(BANDS, chosen, strict=True):
            yield json.dumps({"id": f"{split}-{band}-{place:02d}", "problem": text_of(among[place]), **among[place]})


def text_of(problem: dict[str, Any]) -> str:
    """The problem in words."""
    jobs = "; ".join(f"{job['name']} {job['hours']} h" + "".join(f", needs {word}" for word in job["needs"]) for job in problem["jobs"])
    machines = "; ".join(
        f"{one['name']} {one['hours']} h" + (", has " + " and ".join(one["has"]) if one["has"] else "") for one in problem["machines"]
    )
    return f"Jobs: {jobs}.\nMachines: {machines}."


def main() -> int:
    """Write the files, or check them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    for split, lines in rows().items():
        path = Path(__file__).with_name(f"{split}.jsonl")
        text = "".join(line + "\n" for line in lines)
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what the seed makes")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
