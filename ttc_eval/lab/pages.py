"""The cache of keys and values: fixed pages, so that every row is computed in the same shapes whatever it is batched with.

A row owns as many pages of `PAGE` tokens as it needs. Pages are dense: when a row leaves, the last pages move into its
place, so that one matrix product over all used pages wastes nothing. Page 0 belongs to nobody and stays masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.weights import Floats, Weights

PAGE = 64

Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class KeysValues:
    """Keys and values of the first tokens of a sequence, each `(layers, tokens, head_width)`."""

    keys: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.keys[0])


class PagedCache:
    """Keys and values of up to `max_rows` rows of up to `context` tokens; rows 0 to `rows - 1` are in use.

    A value has one more element than the head, which is 1: its weighted sum is the softmax's denominator. `mask` is 0
    where a token was written and minus infinity elsewhere, for all layers alike.
    """

    def __init__(self, weights: Weights, max_rows: int) -> None:
        layers, width, context = len(weights.layers), weights.head_width, weights.position.shape[0]
        self._per_row = -(-context // PAGE)
        self.keys = np.zeros((layers, 1, width, PAGE), np.float32)
        self.values = np.ones((layers, 1, PAGE, width + 1), np.float32)
        self.mask = np.full((1, PAGE), -np.inf, np.float32)
        self.rows, self.pages = 0, 1
        self.lengths = np.zeros(max_rows, np.intp)
        self.table = np.zeros((max_rows, self._per_row), np.intp)
        self.owner = np.zeros(1, np.intp)
        self._place = np.zeros(1, np.intp)

    @property
    def depth(self) -> int:
        """Pages of the longest row."""
        return -(-int(self.lengths[: self.rows].max(initial=0)) // PAGE)

    def join(self, known: KeysValues) -> int:
        """Give a new row, with the tokens that it starts from; returns its number."""
        row, self.rows = self.rows, self.rows + 1
        self.lengths[row], self.table[row] = len(known), 0
        for start in range(0, len(known), PAGE):
            page, tokens = self._claim(row, start // PAGE), slice(start, start + PAGE)
            size = len(known.keys[0, tokens])
            self.keys[:, page, :, :size] = known.keys[:, tokens].transpose(0, 2, 1)
            self.values[:, page, :size, :-1] = known.values[:, tokens]
            self.mask[page, :size] = 0
        return row

    def leave(self, row: int) -> None:
        """Free a row; the last row takes its number, and the last pages the place of its pages."""
        # From the last page down, so that no page that is about to go is moved first.
        for page in sorted(self.table[row][: self._held(row)].tolist(), reverse=True):
            self._release(page)
        last = self.rows = self.rows - 1
        if row != last:
            self.lengths[row], self.table[row] = self.lengths[last], self.table[last]
            self.owner[self.table[row][: self._held(row)]] = row
        self.lengths[last], self.table[last] = 0, 0

    def grow(self) -> tuple[Ints, Ints]:
        """Make room for one more token of every row; returns its page and its place in the page, each `(rows,)`."""
        lengths = self.lengths[: self.rows]
        places = lengths % PAGE
        for row in np.flatnonzero(places == 0).tolist():
            self._claim(row, int(lengths[row]) // PAGE)
        pages = self.table[np.arange(self.rows), lengths // PAGE]
        self.mask[pages, places] = 0
        lengths += 1
        return pages, places

    def _held(self, row: int) -> int:
        return -(-int(self.lengths[row]) // PAGE)

    def _claim(self, row: int, place: int) -> int:
        if self.pages == len(self.owner):
            self._enlarge()
        page, self.pages = self.pages, self.pages + 1
        # What another row left in the page is finite, and weighs nothing while it is masked.
        self.mask[page] = -np.inf
        self.table[row, place], self.owner[page], self._place[page] = page, row, place
        return page

    def _release(self, page: int) -> None:
        last = self.pages = self.pages - 1
        if page == last:
            return
        self.keys[:, page], self.values[:, page] = self.keys[:, last], self.values[:, last]
        self.mask[page] = self.mask[last]
        row, place = self.owner[last], self._place[last]
        self.table[row, place], self.owner[page], self._place[page] = page, row, place

    def _enlarge(self) -> None:
        extra = max(8, self.pages // 2)
        layers, _, width, _ = self.keys.shape
        self.keys = np.concatenate([self.keys, np.zeros((layers, extra, width, PAGE), np.float32)], axis=1)
        self.values = np.concatenate([self.values, np.ones((layers, extra, PAGE, width + 1), np.float32)], axis=1)
        self.mask = np.concatenate([self.mask, np.full((extra, PAGE), -np.inf, np.float32)])
        self.owner = np.concatenate([self.owner, np.zeros(extra, np.intp)])
        self._place = np.concatenate([self._place, np.zeros(extra, np.intp)])
