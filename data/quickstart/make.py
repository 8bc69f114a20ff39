"""Make the quick-start data set: products of two small numbers, asked in three ways.

Run `python data/quickstart/make.py` to write `dev.jsonl` and `heldout.jsonl` beside this file, or add `--check`
to verify that the files are exactly what the seed makes. Standard library only; the same seed gives the same bytes.

Every problem is one multiplication, so every answer is one integer. Difficulty says how much has to be read and
restated before the multiplication can be written down:

    easy    What is 6 * 9?
    medium  6 boxes, 9 pens in each. How many pens?
    hard    Ann has 6 boxes. Each box holds 9 pens. How many pens does Ann have?
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from itertools import chain, combinations_with_replacement
from pathlib import Path

SEED = 20261130
PER_DIFFICULTY = 40
FACTORS = range(3, 13)
DIFFICULTIES = ("easy", "medium", "hard")

# The worked examples in the prompt show these products, so no problem may ask for them.
SHOWN_IN_PROMPT = {(3, 5), (4, 7), (5, 7)}

# container, containers, what one container does, contents
THINGS = (
    ("box", "boxes", "holds", "pens"),
    ("bag", "bags", "holds", "apples"),
    ("shelf", "shelves", "holds", "books"),
    ("room", "rooms", "has", "chairs"),
    ("car", "cars", "has", "seats"),
    ("tray", "trays", "holds", "cups"),
    ("jar", "jars", "holds", "coins"),
    ("tree", "trees", "has", "birds"),
)
NAMES = ("Ann", "Ben", "Eva", "Leo", "Mia", "Sam", "Tom", "Zoe")

Pair = tuple[int, int]
Row = dict[str, str]


def split_pairs(rng: random.Random) -> dict[str, list[Pair]]:
    """Deal unordered pairs to the splits, so that no multiplication fact (6 * 9 or 9 * 6) is in both."""
    pairs = [pair for pair in combinations_with_replacement(FACTORS, 2) if pair not in SHOWN_IN_PROMPT]
    rng.shuffle(pairs)
    half = len(pairs) // 2
    return {"dev": pairs[:half], "heldout": pairs[half:]}


def both_orders(pairs: list[Pair]) -> list[Pair]:
    """All ordered pairs; a square has only one order."""
    return sorted({order for a, b in pairs for order in ((a, b), (b, a))})


def ask(difficulty: str, a: int, b: int, rng: random.Random) -> str:
    """Word one question."""
    one, many, has, contents = rng.choice(THINGS)
    name = rng.choice(NAMES)
    if difficulty == "easy":
        return f"What is {a} * {b}?"
    if difficulty == "medium":
        return f"{a} {many}, {b} {contents} in each. How many {contents}?"
    return f"{name} has {a} {many}. Each {one} {has} {b} {contents}. How many {contents} does {name} have?"


def rows_of(split: str, pairs: list[Pair], rng: random.Random) -> Iterator[Row]:
    """Rows of one split, difficulties in turn, so that the first n rows are always a balanced mixture."""
    ordered = both_orders(pairs)
    drawn = {difficulty: rng.sample(ordered, PER_DIFFICULTY) for difficulty in DIFFICULTIES}
    for number in range(PER_DIFFICULTY):
        for difficulty in DIFFICULTIES:
            a, b = drawn[difficulty][number]
            yield {
                "id": f"{split}-{difficulty}-{number:03d}",
                "question": ask(difficulty, a, b, rng),
                "answer": str(a * b),
                "difficulty": difficulty,
            }


def make() -> dict[str, str]:
    """File name to file text."""
    rng = random.Random(SEED)
    splits = {split: list(rows_of(split, pairs, rng)) for split, pairs in split_pairs(rng).items()}
    questions = [row["question"] for row in chain.from_iterable(splits.values())]
    if len(set(questions)) != len(questions):
        raise ValueError("a question occurs twice")
    return {f"{split}.jsonl": "".join(json.dumps(row) + "\n" for row in rows) for split, rows in splits.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the quick-start data set.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs from what the seed makes")
    options = parser.parse_args(arguments)
    folder = Path(__file__).resolve().parent
    different = []
    for name, text in make().items():
        path = folder / name
        if not options.check:
            path.write_bytes(text.encode())
        elif not path.is_file() or path.read_bytes() != text.encode():
            different.append(name)
    if different:
        print(f"differs from what the seed makes: {', '.join(different)}", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
