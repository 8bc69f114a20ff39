"""Train the lab model and its verifier from a seed: `python -m ttc_eval.lab.train OUT [--seed N]` (extra `train`).

`OUT` gets `generator.pt`, the learning curves as CSV, and `weights.npz`, which is what the package ships; its hash goes to
`ttc_eval.lab.weights`. A generator that is already there is not trained again. One thread and a fixed order of operations
make a rerun on the same kind of machine the same to the bit; on another kind, rounding leads elsewhere, to a model that is
about as good. docs/lab-model.md has the card.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from ttc_eval.lab.training.generator import Checkpoint, Recipe, train_generator
from ttc_eval.lab.training.network import LabNetwork, arrays_of
from ttc_eval.lab.training.verifier import VerifierRecipe, train_verifier
from ttc_eval.lab.weights import file_identity, weights_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Train both networks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ttc_eval.lab.train", description="Train the lab model and its verifier from a seed.")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = _generator(options.out, options.seed)
    arrays = arrays_of(generator)
    verifier = _verifier(options.out, options.seed, generator, arrays)
    arrays |= {f"verifier.{name}": array for name, array in arrays_of(verifier).items()}
    path = options.out / "weights.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    _say(f"{path}: sha256 {file_identity(path)}")
    return 0


def _generator(out: Path, seed: int) -> LabNetwork:
    path, network = out / "generator.pt", LabNetwork()
    if path.exists():
        network.load_state_dict(torch.load(path))
        return network
    curve: list[Checkpoint] = []

    def report(point: Checkpoint) -> None:
        curve.append(point)
        _say(f"step {point.steps}, {point.seconds:.0f} s: loss {point.loss:.3f}, step accuracy {point.step_accuracy:.3f}")

    network = train_generator(Recipe(seed=seed), report)
    torch.save(network.state_dict(), path)
    with (out / "generator.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(curve[0])))
        writer.writeheader()
        writer.writerows({name: round(value, 4) for name, value in asdict(point).items()} for point in curve)
    return network


def _verifier(out: Path, seed: int, generator: LabNetwork, arrays: dict[str, np.ndarray]) -> LabNetwork:
    with (out / "verifier.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("steps", "loss"))

        def report(step: int, steps: int, loss: float) -> None:
            writer.writerow((step, round(loss, 4)))
            _say(f"verifier: step {step} of {steps}, loss {loss:.3f}")

        return train_verifier(generator, weights_of(arrays), VerifierRecipe(seed=seed), report)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
