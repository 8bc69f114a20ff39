"""Make the Game of 24 data sets: 120 solvable puzzles a split, of three difficulties in turn.

Run `python data/game24/make.py` to write `dev.jsonl` and `heldout.jsonl` beside this file, or add `--check` to verify that the files are
exactly what is made. Every puzzle of four numbers from 1 to 13 is worked through, so nothing here was collected from anywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

from ttc_eval.tasks import Game24
from ttc_eval.tasks.game24 import Game24State

SALT = "game24/1"
SPLITS = ("dev", "heldout")
BANDS = ("easy", "medium", "hard")
PER_BAND = 40


def chance(state: Game24State, known: dict[str, Fraction]) -> Fraction:
    """The probability that play which picks uniformly among the legal moves ends in 24."""
    if state.terminal:
        return Fraction(state.solved)
    if state.key not in known:
        chances = [chance(after, known) for _, after in state.moves()]
        known[state.key] = sum(chances, Fraction(0)) / len(chances)
    return known[state.key]


def solution(state: Game24State, known: dict[str, Fraction]) -> str:
    """The expression of the first line of play that ends in 24."""
    while not state.terminal:
        state = next(after for _, after in state.moves() if chance(after, known))
    return state.answer()


def rank(puzzle: tuple[int, ...]) -> str:
    """A hash that orders puzzles, and says by its first digit which split one belongs to."""
    return hashlib.blake2b(f"{SALT}/{puzzle}".encode(), digest_size=8).hexdigest()


def rows() -> dict[str, list[str]]:
    """The lines of each split's file."""
    known: dict[str, Fraction] = {}
    task, chances = Game24(), dict[tuple[int, ...], Fraction]()
    for puzzle in combinations_with_replacement(range(1, 14), 4):
        found = chance(task.start({"numbers": list(puzzle)}), known)
        if found:
            chances[puzzle] = found
    ordered = sorted(chances, key=lambda puzzle: (-chances[puzzle], puzzle))
    band_of = {puzzle: BANDS[place * len(BANDS) // len(ordered)] for place, puzzle in enumerate(ordered)}
    return {split: list(_split(number, chances, band_of, known)) for number, split in enumerate(SPLITS)}


def _split(
    number: int, chances: dict[tuple[int, ...], Fraction], band_of: dict[tuple[int, ...], str], known: dict[str, Fraction]
) -> Iterator[str]:
    mine = sorted((puzzle for puzzle in chances if int(rank(puzzle)[0], 16) % 2 == number), key=rank)
    chosen = [[puzzle for puzzle in mine if band_of[puzzle] == band][:PER_BAND] for band in BANDS]
    for place in range(PER_BAND):
        for band, puzzles in zip(BANDS, chosen, strict=True):
            puzzle = puzzles[place]
            yield json.dumps(
                {
                    "id": f"{SPLITS[number]}-{band}-{place:02d}",
                    "puzzle": " ".join(map(str, puzzle)),
                    "numbers": list(puzzle),
                    "answer": solution(Game24().start({"numbers": list(puzzle)}), known),
                    "random_play": round(float(chances[puzzle]), 6),
                    "difficulty": band,
                }
            )


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
            print(f"{path} is not what is made")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
