"""Drawing tokens: the number behind a token follows from the draw's seed and the token's place in the output alone.

So a draw is the same whatever it was batched with, and the same draw with a larger budget begins with the same tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.pages import Ints
from ttc_eval.lab.weights import Floats

Doubles = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def stream(seed: int) -> np.uint64:
    """The start of the numbers of the draw with this seed. Neighbouring seeds must not start shifted copies of one stream."""
    return np.uint64(_mixed(np.array([seed & (2**64 - 1)], np.uint64) + _GOLDEN)[0])


def uniforms(streams: NDArray[np.uint64], places: Ints) -> Doubles:
    """Numbers in [0, 1) for the tokens at `places` (0 is the first) of draws that start at `streams` (SplitMix64), `(rows,)`."""
    bits = _mixed(streams + (places + 1).astype(np.uint64) * _GOLDEN) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


def log_softmax(logits: Floats) -> Doubles:
    """The model's own log-probabilities, in double precision, `(rows, vocabulary)`."""
    shifted: Doubles = logits.astype(np.float64) - logits.max(1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(1, keepdims=True))
    return shifted


def draw(logs: Doubles, temperature: Doubles, top_p: Doubles, numbers: Doubles) -> Ints:
    """One token a row, by inverting the distribution function in the order of token ids, `(rows,)`.

    Args:
        logs: log-probabilities, `(rows, vocabulary)`.
        temperature: 0 takes the likeliest token, the lowest id among equals; `(rows,)`.
        top_p: the likeliest tokens whose mass reaches this share stay, 1 keeps all; `(rows,)`.
        numbers: in [0, 1), `(rows,)`.
    """
    greedy = temperature == 0
    weights = np.exp((logs - logs.max(1, keepdims=True)) / np.where(greedy, 1.0, temperature)[:, None])
    cut = np.flatnonzero(top_p < 1)
    if len(cut):
        weights[cut] *= _nucleus(weights[cut], top_p[cut])
    reached = weights.cumsum(1)
    total = reached[:, -1]
    # A product that rounds up to the total would lie beyond the last token.
    target = np.minimum(numbers * total, np.nextafter(total, 0.0))
    drawn: Ints = np.where(greedy, logs.argmax(1), (reached <= target[:, None]).sum(1))
    return drawn


def _nucleus(weights: Doubles, top_p: Doubles) -> NDArray[np.bool_]:
    order = np.argsort(-weights, axis=1, kind="stable")
    ordered = np.take_along_axis(weights, order, 1)
    before = ordered.cumsum(1) - ordered
    kept = np.empty(weights.shape, np.bool_)
    np.put_along_axis(kept, order, before < (top_p * weights.sum(1))[:, None], 1)
    return kept
