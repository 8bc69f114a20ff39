"""Make the lab data sets: chained arithmetic modulo 100, 300 problems a split.

Run `python data/lab/make.py` to write `dev.jsonl` and `heldout.jsonl` beside this file, or add `--check` to verify that the
files are exactly what the seed makes. A chain's own hash says which split it belongs to (`ttc_eval.lab.task`), so no problem
here can ever have been drawn for training.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from ttc_eval.lab.task import MAX_STEPS, OPERATORS, Chain, Split

SEED = 20261130
PER_LENGTH = 25
BAND = 3


def chains(split: Split) -> Iterator[Chain]:
    """`PER_LENGTH` different chains of every length that belong to `split`, lengths in turn."""
    rng = random.Random(f"{SEED}/{split.value}")
    seen: set[Chain] = set()
    for _ in range(PER_LENGTH):
        for length in range(1, MAX_STEPS + 1):
            chain = _drawn(rng, length)
            while chain.split is not split or chain in seen:
                chain = _drawn(rng, length)
            seen.add(chain)
            yield chain


def _drawn(rng: random.Random, length: int) -> Chain:
    operators = [rng.choice(OPERATORS) for _ in range(length)]
    return Chain(rng.randrange(100), tuple((operator, rng.randint(2 if operator == "*" else 1, 9)) for operator in operators))


def rows(split: Split) -> Iterator[str]:
    """The lines of a split's file."""
    for number, chain in enumerate(chains(split)):
        length = len(chain.steps)
        first = (length - 1) // BAND * BAND + 1
        yield json.dumps(
            {
                "id": f"{split.value}-{number:03d}",
                "chain": str(chain),
                "answer": str(chain.answer),
                "steps": length,
                "difficulty": f"{first:02d}-{first + BAND - 1:02d} steps",
            }
        )


def main() -> int:
    """Write the files, or check them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    for split in (Split.DEV, Split.HELDOUT):
        path = Path(__file__).with_name(f"{split.value}.jsonl")
        text = "".join(row + "\n" for row in rows(split))
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what the seed makes")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
