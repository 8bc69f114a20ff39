"""Inference of the lab model in NumPy: prefill, a decode step over many rows, and the scores of the verifier.

What one row computes never depends, in any bit, on the rows beside it. A matrix product rounds differently when its
shape differs, so every product here has a shape that depends on nothing but the row itself: weights are multiplied by
blocks of `BLOCK` tokens, and attention goes page by page (docs/decisions/lab-inference.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.pages import PAGE, Ints, KeysValues, PagedCache
from ttc_eval.lab.sampling import log_softmax
from ttc_eval.lab.tokens import positions
from ttc_eval.lab.weights import Floats, Layer, Weights

# OpenBLAS computes products of this size without packing and without threads: that is fastest, and wakes no other core.
BLOCK = 4

# What a token's log-probability is at least, as the verifier reads it.
LEAST_LOG = -10.0

_EPSILON = np.float32(np.finfo(np.float32).eps)


def decode_step(weights: Weights, cache: PagedCache, tokens: Ints, places: Ints) -> Floats:
    """Feed one token to every row of the cache and return the logits of the next, `(rows, vocabulary)`.

    Args:
        tokens: the token of each row, `(rows,)`; places: its position, `(rows,)`.
    """
    rows, width = cache.rows, weights.head_width
    x = _padded(weights.token[tokens] + weights.position[places])
    pages, offsets = cache.grow()
    owner, depth, mask = cache.owner[: cache.pages], cache.depth, cache.mask[: cache.pages, None]
    table = np.ascontiguousarray(cache.table[:rows, :depth].T)
    mixed = np.zeros((len(x), weights.heads * width), np.float32)
    for place, layer in enumerate(weights.layers):
        query, key, value = _split(_product(_normed(x), layer.query_key_value), width)
        keys, values = cache.keys[place], cache.values[place]
        keys[pages, :, offsets] = key[:rows]
        values[pages, offsets, :width] = value[:rows]
        scores = np.matmul(query.take(owner, axis=0), keys[: cache.pages])
        scores += mask
        parts = np.matmul(_exp(scores, owner, table), values[: cache.pages])
        total = parts.take(table[0], axis=0)
        for later in table[1:]:
            total += parts.take(later, axis=0)
        np.divide(total[..., :width], total[..., width:], out=mixed[:rows].reshape(rows, -1, width))
        x += _product(mixed, layer.out)
        x += _feed_forward(x, layer)
    return _product(_normed(x), weights.head)[:rows]


def prefill(weights: Weights, tokens: Sequence[int]) -> KeysValues:
    """Keys and values of `tokens`, from which decoding goes on. Raises ValueError when they overrun the context."""
    return _run(weights, tokens, keys_only=True)[0]


def next_logits(weights: Weights, tokens: Sequence[int]) -> Floats:
    """The outputs at each of `tokens`: the logits of the token after it, `(len(tokens), outputs)`. Raises ValueError past the context."""
    _, state = _run(weights, tokens)
    return _product(_normed(state), weights.head)[: len(tokens)]


def verifier_scores(weights: Weights, sequences: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
    """The verifier's probability at each token of each sequence, a list of `(len(sequence),)`.

    A sequence is a whole turn, from the question's first token on; a score depends on what stands before it only, and
    not on the other sequences. Raises ValueError when a sequence overruns the context or the weights hold no verifier.
    """
    return [_verified(weights, sequence) for sequence in sequences]


def _verified(weights: Weights, tokens: Sequence[int]) -> NDArray[np.float32]:
    verifier, count = weights.verifier, len(tokens)
    if verifier is None:
        raise ValueError("these weights of the lab model hold no verifier")
    _, x = _run(weights, tokens)
    x = _normed(x)
    logs = log_softmax(_product(x, weights.head)[: count - 1])
    written = logs[np.arange(count - 1), list(tokens[1:])].astype(np.float32)
    x[1:count] += np.maximum(written, np.float32(LEAST_LOG))[:, None] * verifier.likelihood
    _, x = _through(verifier.layers, x, count, weights.head_width)
    logits = (_normed(x)[:count] * verifier.head).sum(1)
    return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


def _run(weights: Weights, tokens: Sequence[int], keys_only: bool = False) -> tuple[KeysValues, Floats]:
    """Keys and values of one sequence, and the last state of its tokens, padded. With `keys_only` the last layer stops at its keys."""
    x = _padded(weights.token[list(tokens)] + weights.position[positions(tokens)])
    return _through(weights.layers, x, len(tokens), weights.head_width, keys_only)


def _through(layers: Sequence[Layer], x: Floats, count: int, width: int, keys_only: bool = False) -> tuple[KeysValues, Floats]:
    """The first `count` rows of `x` through `layers`: keys and values, and the states after the last."""
    future = np.triu(np.full((count, count), -np.inf, np.float32), 1)[:, None]
    keys: list[Floats] = []
    values: list[Floats] = []
    for place, layer in enumerate(layers):
        query, key, value = _split(_product(_normed(x), layer.query_key_value), width)
        keys.append(key[:count])
        values.append(value[:count])
        if keys_only and place == len(layers) - 1:
            break
        # A token at a time (heads, width) @ (width, tokens): small products, which depend on this sequence's length only.
        scores = np.matmul(query[:count], np.ascontiguousarray(key[:count].T))
        scores += future
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.zeros((len(x), len(layer.out)), np.float32)
        np.matmul(scores, np.ascontiguousarray(value[:count]), out=mixed[:count].reshape(count, -1, width))
        x = x + _product(mixed, layer.out)
        x += _feed_forward(x, layer)
    return KeysValues(np.stack(keys), np.stack(values)), x


def _exp(scores: Floats, owner: Ints, table: Ints) -> Floats:
    """`scores` `(pages, heads, PAGE)`, less the largest of their row and head, exponentiated in place."""
    # `reduceat` over the flat array finds the largest of short runs twice as fast as `max(-1)`.
    largest = np.maximum.reduceat(scores.reshape(-1), np.arange(0, scores.size, PAGE)).reshape(scores.shape[:2])
    top = largest[table].max(0)
    scores -= top[owner][:, :, None]
    return np.exp(scores, out=scores)


def _feed_forward(x: Floats, layer: Layer) -> Floats:
    hidden = _product(_normed(x), layer.up)
    # Against a row of zeros: NumPy's loop over two arrays is four times as fast as that against a number.
    np.maximum(hidden, np.zeros(hidden.shape[1], np.float32), out=hidden)
    np.square(hidden, out=hidden)
    return _product(hidden, layer.down)


def _split(projected: Floats, width: int) -> tuple[Floats, Floats, Floats]:
    """Query `(tokens, heads, width)`, key and value `(tokens, width)`."""
    return projected[:, : -2 * width].reshape(len(projected), -1, width), projected[:, -2 * width : -width], projected[:, -width:]


def _normed(x: Floats) -> Floats:
    squares: Floats = np.einsum("ij,ij->i", x, x)
    scale: Floats = np.sqrt(squares / np.float32(x.shape[1]) + _EPSILON)
    return x / scale[:, None]


def _padded(x: Floats) -> Floats:
    """`x` with as many rows of zeros as make whole blocks."""
    missing = -len(x) % BLOCK
    return np.concatenate([x, np.zeros((missing, x.shape[1]), np.float32)]) if missing else x


def _product(x: Floats, weight: Floats) -> Floats:
    """`x @ weight`, block by block."""
    product: Floats = np.matmul(x.reshape(-1, BLOCK, x.shape[1]), weight)
    return product.reshape(len(x), -1)
