"""The rows that are being generated together: each is a draw, which joins, takes a token a step, and leaves when it ends."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ttc_eval.lab.network import decode_step, prefill
from ttc_eval.lab.pages import KeysValues, PagedCache
from ttc_eval.lab.sampling import draw, log_softmax, stream, uniforms
from ttc_eval.lab.turn import Rules, Turn
from ttc_eval.lab.weights import Weights
from ttc_eval.records import CallStop

_KEPT_PREFILLS = 256


@dataclass(frozen=True, slots=True)
class Job:
    """One draw to make.

    Attributes:
        before: tokens that stand before the output: the question, and what is given of the turn.
        rules: what bounds it.
        seed: what its randomness follows from.
        temperature: 0 is greedy; top_p: share of mass kept, 1 keeps all.
        logprobs: whether the log-probabilities of the output are wanted; top: of how many of the likeliest tokens in each place, too.
    """

    before: tuple[int, ...]
    rules: Rules
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    logprobs: bool = False
    top: int = 0


@dataclass(frozen=True, slots=True)
class Generated:
    """A draw that has ended. `logprobs` are the model's own, before temperature and top-p, one an output token.

    `top_logprobs` are those of the likeliest tokens in each place, in falling order, the sampled one among them or not.
    """

    tokens: tuple[int, ...]
    thinking: str
    text: str
    stop: CallStop
    thought_tokens: int
    logprobs: tuple[float, ...] | None
    top_logprobs: tuple[tuple[float, ...], ...] | None = None


@dataclass(slots=True, eq=False)
class _Row:
    job: Job
    turn: Turn
    logprobs: list[float]
    top_logprobs: list[tuple[float, ...]]

    def generated(self) -> Generated:
        turn = self.turn
        assert turn.stop is not None
        logprobs = tuple(self.logprobs) if self.job.logprobs else None
        top = tuple(self.top_logprobs) if self.job.logprobs and self.job.top else None
        return Generated(tuple(turn.output), turn.thinking, turn.text, turn.stop, turn.thought_tokens, logprobs, top)


class Batch:
    """Up to `max_rows` draws in progress. Rows are 0 to `len(batch) - 1`; when one leaves, the last takes its number."""

    def __init__(self, weights: Weights, max_rows: int) -> None:
        self._weights, self.max_rows = weights, max_rows
        self._cache = PagedCache(weights, max_rows)
        self._rows: list[_Row] = []
        self._prefills: OrderedDict[tuple[int, ...], KeysValues] = OrderedDict()
        self._tokens, self._places = np.zeros(max_rows, np.intp), np.zeros(max_rows, np.intp)
        self._temperature, self._top_p = np.ones(max_rows), np.ones(max_rows)
        self._streams = np.zeros(max_rows, np.uint64)
        self._written = np.zeros(max_rows, np.intp)

    def __len__(self) -> int:
        return len(self._rows)

    def join(self, job: Job) -> int:
        """Start a draw in a free row; returns its number. Raises ValueError when what stands before it fills the context."""
        turn = Turn(job.before, job.rules)
        row = self._cache.join(self._known(job.before[:-1]))
        self._tokens[row], self._places[row] = job.before[-1], turn.position
        self._temperature[row], self._top_p[row] = job.temperature, job.top_p
        self._streams[row], self._written[row] = stream(job.seed), 0
        self._rows.append(_Row(job, turn, [], []))
        return row

    def step(self) -> dict[int, Generated]:
        """Write one token in every row; returns the rows that ended. They stay until `leave` is called for them."""
        rows = len(self)
        logits = decode_step(self._weights, self._cache, self._tokens[:rows], self._places[:rows])
        logs = log_softmax(logits)
        written = self._written[:rows]
        numbers = uniforms(self._streams[:rows], written)
        sampled = draw(logs, self._temperature[:rows], self._top_p[:rows], numbers)
        ranked = -np.sort(-logs, axis=1) if any(row.job.top for row in self._rows) else logs
        tokens: list[int] = []
        ended: list[int] = []
        for place, (row, choice) in enumerate(zip(self._rows, sampled.tolist(), strict=True)):
            token = row.turn.take(choice)
            tokens.append(token or 0)
            if row.job.logprobs and token is not None:
                row.logprobs.append(float(logs[place, token]))
                if row.job.top:
                    row.top_logprobs.append(tuple(ranked[place, : row.job.top].tolist()))
            if row.turn.stop is not None:
                ended.append(place)
        self._tokens[:rows] = tokens
        self._places[:rows] = [row.turn.position for row in self._rows]
        written += 1
        return {place: self._rows[place].generated() for place in ended}

    def leave(self, row: int) -> None:
        """Free a row."""
        last = len(self) - 1
        self._cache.leave(row)
        for values in (self._tokens, self._places, self._temperature, self._top_p, self._streams, self._written):
            values[row] = values[last]
        self._rows[row] = self._rows[last]
        self._rows.pop()

    def emptied(self) -> Batch:
        """A batch of the same network and size without rows."""
        return Batch(self._weights, self.max_rows)

    def _known(self, tokens: tuple[int, ...]) -> KeysValues:
        """Keys and values of `tokens`; those of the last questions are kept, for a question has many draws."""
        known = self._prefills.get(tokens)
        if known is None:
            known = self._prefills[tokens] = prefill(self._weights, tokens)
            if len(self._prefills) > _KEPT_PREFILLS:
                self._prefills.popitem(last=False)
        self._prefills.move_to_end(tokens)
        return known


def generate_all(weights: Weights, jobs: Sequence[Job], max_rows: int = 128) -> list[Generated]:
    """All of `jobs`, up to `max_rows` side by side, in their order. Raises ValueError as `Batch.join` does."""
    batch, rows = Batch(weights, max_rows), list[int]()
    made: dict[int, Generated] = {}
    left = iter(enumerate(jobs))
    while len(made) < len(jobs):
        for place, job in islice(left, max_rows - len(rows)):
            batch.join(job)
            rows.append(place)
        ended = batch.step()
        for row in sorted(ended, reverse=True):
            made[rows[row]] = ended[row]
            batch.leave(row)
            rows[row] = rows[-1]
            rows.pop()
    return [made[place] for place in range(len(jobs))]
