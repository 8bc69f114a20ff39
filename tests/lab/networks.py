"""A network of the lab model's shape with random weights: what holds of inference must hold of any weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.tokens import CONTEXT, VOCABULARY
from ttc_eval.lab.weights import Weights, weights_of


def random_arrays(seed: int = 0) -> dict[str, NDArray[np.float16]]:
    rng = np.random.default_rng(seed)

    def draw(scale: float, *shape: int) -> NDArray[np.float16]:
        return (scale * rng.standard_normal(shape)).astype(np.float16)

    width, hidden = 128, 512
    arrays = {"token": draw(0.5, len(VOCABULARY), width), "position": draw(0.5, CONTEXT, width), "verifier.likelihood": draw(0.1, width)}
    for part, layers, outputs in (("", 4, len(VOCABULARY)), ("verifier.", 2, 1)):
        arrays[f"{part}head"] = draw(0.25, width, outputs)
        for layer in range(layers):
            # Queries and keys large enough that scores reach into the tens, as trained ones do.
            own = {"query": draw(0.3, width, width), "key": draw(0.3, width, 32), "value": draw(0.1, width, 32)}
            own |= {"out": draw(0.1, width, width), "up": draw(0.1, width, hidden), "down": draw(0.05, hidden, width)}
            arrays |= {f"{part}{name}.{layer}": array for name, array in own.items()}
    return arrays


def random_weights(seed: int = 0) -> Weights:
    return weights_of(random_arrays(seed))


def sequences(count: int, seed: int = 0, longest: int = 200) -> list[list[int]]:
    """Token sequences of 2 to `longest` tokens with positions inside the context."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 15, int(rng.integers(2, longest + 1))).tolist() for _ in range(count)]
