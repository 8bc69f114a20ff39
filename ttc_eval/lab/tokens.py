"""Tokens and positions of the lab model: one token a character, four special ones, and absolute positions in blocks.

The question has a block of positions, and so has each attempt at thinking: the first begins with `<think>`, each further
one with `Wait`. So a step's position within its attempt does not depend on how long the question was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.task import WAIT

THINK, CLOSE, END = "<think>", "</think>", "<end>"
VOCABULARY = (*"0123456789+-*=;", THINK, CLOSE, WAIT, END)
IDS = {token: place for place, token in enumerate(VOCABULARY)}
THINK_ID, CLOSE_ID, WAIT_ID, END_ID = (IDS[token] for token in (THINK, CLOSE, WAIT, END))

QUESTION_BLOCK = 32
ATTEMPT_BLOCK = 104
MAX_ATTEMPTS = 3
CONTEXT = QUESTION_BLOCK + MAX_ATTEMPTS * ATTEMPT_BLOCK

_TOKEN = re.compile("|".join(re.escape(token) for token in sorted(VOCABULARY, key=len, reverse=True)))


def encode(text: str) -> list[int]:
    """Token ids of `text`. Raises ValueError for a character that the model does not know."""
    ids: list[int] = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"the lab model has no token for {text[place]!r}")
        ids.append(IDS[found[0]])
        place = found.end()
    return ids


def decode(ids: Sequence[int]) -> str:
    """The text of token ids."""
    return "".join(VOCABULARY[token] for token in ids)


def positions(ids: Sequence[int]) -> NDArray[np.intp]:
    """The position of each token, shape `(len(ids),)`. Raises ValueError when the tokens overrun their blocks."""
    found = np.empty(len(ids), np.intp)
    position = -1
    for place, token in enumerate(ids):
        position = next_position(position, token)
        found[place] = position
    return found


def next_position(before: int, token: int) -> int:
    """The position of `token` after a token at position `before` (-1 at the start). Raises ValueError past the context."""
    if token == THINK_ID:
        position = QUESTION_BLOCK
    elif token == WAIT_ID:
        attempt = (before - QUESTION_BLOCK) // ATTEMPT_BLOCK + 1
        position = QUESTION_BLOCK + attempt * ATTEMPT_BLOCK
    else:
        position = before + 1
    if position >= CONTEXT:
        raise ValueError("the lab model's context is full")
    return position
