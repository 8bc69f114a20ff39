"""Speed of the lab model: tokens (characters) a second by batch, beside a bare loop of the same matrix products.

    python benchmarks/lab.py [--draws 1500] [--batches 1 32 128 512] [--runs 3] [--weights FILE]

Draws of 1 to 12 steps are generated to their ends; rows that have ended leave, and the next ones join. The bare loop
does nothing but the matrix products of as many tokens, in the same blocks and pages; what it reaches is the limit of
this machine. The best of several runs counts, of both, taken in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from ttc_eval.lab import task
from ttc_eval.lab.batch import Generated, Job, generate_all
from ttc_eval.lab.engine import Engine
from ttc_eval.lab.network import BLOCK
from ttc_eval.lab.pages import PAGE
from ttc_eval.lab.tokens import encode
from ttc_eval.lab.turn import Rules
from ttc_eval.lab.weights import Weights, load_weights


def jobs(count: int) -> list[Job]:
    """`count` draws: eight of each of as many questions as that takes."""
    rng = np.random.default_rng(0)
    found = []
    for place in range(count):
        if place % 8 == 0:
            steps = tuple((task.OPERATORS[rng.integers(3)], int(rng.integers(2, 10))) for _ in range(1 + place // 8 % task.MAX_STEPS))
            question = tuple(encode(f"{task.Chain(int(rng.integers(task.MODULUS)), steps)}="))
        found.append(Job(question, Rules(400), seed=place))
    return found


def generate(weights: Weights, wanted: Sequence[Job], rows: int) -> tuple[float, list[Generated]]:
    """Tokens a second, and the draws."""
    started = time.perf_counter()
    found = generate_all(weights, wanted, rows)
    return sum(len(one.tokens) for one in found) / (time.perf_counter() - started), found


def pages_a_token(wanted: Sequence[Job], found: Iterable[Generated]) -> float:
    """Pages of keys that a token attends to, on average, taking every question to be of the mean length."""
    before = round(float(np.mean([len(job.before) for job in wanted])))
    return float(np.concatenate([np.ceil((before + np.arange(len(one.tokens))) / PAGE) for one in found]).mean())


def products_only(weights: Weights, rows: int, pages: float, seconds: float = 0.5) -> float:
    """Tokens a second of the matrix products of a decode step alone."""
    blocks, paged = -(-rows // BLOCK), max(1, round(rows * pages)) + 1
    layer, width = weights.layers[0], weights.head_width
    narrow = np.ones((blocks, BLOCK, weights.width), np.float32)
    wide = np.ones((blocks, BLOCK, layer.up.shape[1]), np.float32)
    # Every layer has keys of its own, which do not stay in the cache of the core.
    keys = np.ones((len(weights.layers), paged, width, PAGE), np.float32)
    values = np.ones((len(weights.layers), paged, PAGE, width + 1), np.float32)
    query, scores = np.ones((paged, weights.heads, width), np.float32), np.ones((paged, weights.heads, PAGE), np.float32)
    outs = [np.empty((blocks, BLOCK, matrix.shape[1]), np.float32) for matrix in (layer.query_key_value, layer.out, layer.up, layer.down)]
    mixed, logits = np.empty((paged, weights.heads, width + 1), np.float32), np.empty((blocks, BLOCK, weights.head.shape[1]), np.float32)
    started, steps = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for place, one in enumerate(weights.layers):
            np.matmul(narrow, one.query_key_value, out=outs[0])
            np.matmul(query, keys[place], out=scores)
            np.matmul(scores, values[place], out=mixed)
            np.matmul(narrow, one.out, out=outs[1])
            np.matmul(narrow, one.up, out=outs[2])
            np.matmul(wide, one.down, out=outs[3])
        np.matmul(narrow, weights.head, out=logits)
        steps += 1
    return steps * rows / (time.perf_counter() - started)


async def through_engine(weights: Weights, wanted: Sequence[Job], rows: int) -> float:
    """Tokens a second as a caller meets them: all requests at once, through the engine's thread."""
    with Engine(weights, rows) as engine:
        started = time.perf_counter()
        found = await asyncio.gather(*(engine.generate(job) for job in wanted))
        return sum(len(one.generated.tokens) for one in found) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1500)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 64, 128, 256, 512])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    weights = load_weights(options.weights)
    best = (0.0, 0)
    print("batch   tokens/s   products alone   ratio")
    for rows in options.batches:
        # A small batch would take long for draws that tell nothing more.
        wanted = jobs(min(options.draws, 24 + 24 * rows))
        reached = limit = 0.0
        for _ in range(options.runs):
            speed, found = generate(weights, wanted, rows)
            reached = max(reached, speed)
            limit = max(limit, products_only(weights, rows, pages_a_token(wanted, found)))
        best = max(best, (reached, rows))
        print(f"{rows:5d} {reached:10,.0f} {limit:16,.0f} {reached / limit:7.2f}")
    print(f"best at {best[1]}; through the engine: {asyncio.run(through_engine(weights, jobs(options.draws), best[1])):,.0f} tokens/s")


if __name__ == "__main__":
    main()
