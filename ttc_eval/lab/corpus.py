"""Training text of the lab model: batches of chains with their scratchpads, as token arrays.

Three kinds of text, all of chains that `task.Split.TRAIN` owns:

- whole: question, complete scratchpad, answer;
- cut: the scratchpad is closed at a random place (or at once) and the right answer follows, so that the model learns to
  answer with what it has when its thinking budget is used up;
- corrected: one or two attempts, half of them with wrong results, each followed by `Wait`, then a right attempt.

A weight of 0 keeps out of the loss what the model must not learn to do by itself: wrong results, closing early, `Wait`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.task import MAX_STEPS, MODULUS, STEP_TOKENS, Chain, Split
from ttc_eval.lab.tokens import ATTEMPT_BLOCK, CLOSE_ID, END_ID, IDS, MAX_ATTEMPTS, QUESTION_BLOCK, THINK_ID, WAIT_ID

_OPERATOR_IDS = np.array([IDS[operator] for operator in "+-*"])
_EQUALS, _SEMICOLON = IDS["="], IDS[";"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the kinds of text; what remains is whole.

    `cut_at_once`, `cut_last` and `cut_late` are shares of the cut texts: without any thinking, without its last step, and
    without at most two steps of it, which is about what the model can do in its head; the rest is cut anywhere. `answer` is
    the weight of a cut text's answer in the loss. `corrected` is a share of all tokens, `twice` of the corrected texts: those
    with two `Wait`. `wrong_steps` is the chance of a wrong result, by step, in a wrong attempt.
    """

    cut: float = 0.4
    cut_at_once: float = 0.15
    cut_last: float = 0.4
    cut_late: float = 0.25
    answer: float = 3.0
    corrected: float = 0.5
    twice: float = 0.25
    wrong_attempts: float = 0.5
    wrong_steps: float = 0.15


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens, positions and loss weights, each `(rows, length)`; the weight of a token is that of predicting it."""

    tokens: Ints
    positions: Ints
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of one length as arrays: start `(rows,)`, operators (0 to 2) and operands `(rows, steps)`."""

    start: Ints
    operators: Ints
    operands: Ints

    def chain(self, row: int) -> Chain:
        """One of them as a `Chain`."""
        pairs = zip(self.operators[row], self.operands[row], strict=True)
        return Chain(int(self.start[row]), tuple(("+-*"[operator], int(operand)) for operator, operand in pairs))  # type: ignore[misc]


def draw_chains(rng: np.random.Generator, rows: int, steps: int, split: Split) -> Chains:
    """`rows` random chains of `steps` steps that belong to `split`: operators uniform, operands 1 to 9, 2 to 9 for `*`."""
    kept: list[Chains] = []
    missing = rows
    while missing > 0:
        count = missing * (2 if split is Split.TRAIN else 24) + 8
        start, operators = rng.integers(0, MODULUS, count), rng.integers(0, 3, (count, steps))
        operands = rng.integers(1 + (operators == 2), 10)
        drawn = Chains(start, operators, operands)
        own = [row for row in range(count) if drawn.chain(row).split is split][:missing]
        kept.append(Chains(start[own], operators[own], operands[own]))
        missing -= len(own)
    return Chains(
        np.concatenate([chains.start for chains in kept]),
        np.concatenate([chains.operators for chains in kept]),
        np.concatenate([chains.operands for chains in kept]),
    )


def draw_batch(rng: np.random.Generator, tokens: int, mix: Mix) -> Batch:
    """A batch of about `tokens` tokens: chains of one random length, either corrected texts or whole and cut ones mixed."""
    steps = int(rng.integers(1, MAX_STEPS + 1))
    attempts = (MAX_ATTEMPTS if rng.random() < mix.twice else 2) if rng.random() < mix.corrected else 1
    rows = max(1, tokens // (2 * steps + 8 + attempts * (STEP_TOKENS * steps + 1)))
    return write(rng, draw_chains(rng, rows, steps, Split.TRAIN), attempts, mix)


def write(rng: np.random.Generator, chains: Chains, attempts: int, mix: Mix) -> Batch:
    """The texts of `chains`, each with `attempts` attempts at thinking; single attempts may be cut."""
    rows, steps = chains.operands.shape
    parts = [(*_question(chains), np.zeros((rows, 2 * steps + 3), np.float32))]
    for attempt in range(attempts):
        spoilt: NDArray[np.bool_] = rng.random((rows, 1)) < mix.wrong_attempts
        wrong = spoilt & (rng.random((rows, steps)) < mix.wrong_steps) & (attempt < attempts - 1)
        tokens, weights = _attempt(rng, chains, wrong, WAIT_ID if attempt else THINK_ID)
        # The first token of a further attempt is forced on the model, never chosen by it.
        weights[:, 0] = attempt == 0
        places = QUESTION_BLOCK + attempt * ATTEMPT_BLOCK + np.arange(tokens.shape[1])
        parts.append((tokens, np.broadcast_to(places, tokens.shape), weights))
    last = parts[-1][1][:, -1:] + 1 + np.arange(4)
    final = _values(chains)[:, -1]
    ending = np.stack([np.full(rows, CLOSE_ID), final // 10, final % 10, np.full(rows, END_ID)], axis=1)
    parts.append((ending, last, np.ones((rows, 4), np.float32)))
    tokens, positions, weights = (np.concatenate([part[place] for part in parts], axis=1) for place in range(3))
    batch = Batch(tokens, positions, weights.astype(np.float32))
    return _cut(rng, batch, mix, 2 * steps + 4, STEP_TOKENS * steps) if attempts == 1 else batch


def _cut(rng: np.random.Generator, batch: Batch, mix: Mix, thinking_starts: int, thinking: int) -> Batch:
    tokens, positions, weights = batch.tokens.copy(), batch.positions.copy(), batch.weights.copy()
    shares = (mix.cut_at_once, mix.cut_last, mix.cut_late, 1 - mix.cut_at_once - mix.cut_last - mix.cut_late)
    for row in np.flatnonzero(rng.random(len(tokens)) < mix.cut):
        late = min(thinking, 2 * STEP_TOKENS)
        places = (0, thinking - STEP_TOKENS, thinking - int(rng.integers(1, late + 1)), int(rng.integers(0, thinking)))
        kept = places[rng.choice(len(places), p=shares)]
        place = thinking_starts + kept
        tokens[row, place : place + 4] = batch.tokens[row, -4:]
        tokens[row, place + 4 :] = END_ID
        positions[row, place:] = np.minimum(positions[row, place:], positions[row, place] + 3)
        weights[row, place] = 0
        weights[row, place + 1 : place + 3] = mix.answer
        weights[row, place + 3] = 1
        weights[row, place + 4 :] = 0
    return Batch(tokens, positions, weights)


def _question(chains: Chains) -> tuple[Ints, Ints]:
    rows, steps = chains.operands.shape
    tokens = np.empty((rows, 2 * steps + 3), np.int64)
    tokens[:, 0], tokens[:, 1] = chains.start // 10, chains.start % 10
    tokens[:, 2:-1:2], tokens[:, 3:-1:2] = _OPERATOR_IDS[chains.operators], chains.operands
    tokens[:, -1] = _EQUALS
    return tokens, np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)


def _attempt(rng: np.random.Generator, chains: Chains, wrong: NDArray[np.bool_], first: int) -> tuple[Ints, NDArray[np.float32]]:
    rows, steps = chains.operands.shape
    tokens = np.empty((rows, 1 + STEP_TOKENS * steps), np.int64)
    weights = np.ones(tokens.shape, np.float32)
    tokens[:, 0] = first
    value = chains.start
    for step in range(steps):
        result = _apply(value, chains.operators[:, step], chains.operands[:, step])
        # Half of the wrong results have one wrong digit, as the model's own have; the rest are anything else.
        other = np.where(rng.random(rows) < 0.5, _other_digit(rng, result), (result + rng.integers(1, MODULUS, rows)) % MODULUS)
        result = np.where(wrong[:, step], other, result)
        at = 1 + STEP_TOKENS * step
        written = (value // 10, value % 10, _OPERATOR_IDS[chains.operators[:, step]], chains.operands[:, step], _EQUALS)
        for place, token in enumerate((*written, result // 10, result % 10, _SEMICOLON)):
            tokens[:, at + place] = token
        weights[wrong[:, step], at + 5 : at + 7] = 0
        value = result
    return tokens, weights


def _other_digit(rng: np.random.Generator, value: Ints) -> Ints:
    tens = rng.random(len(value)) < 0.5
    shift = rng.integers(1, 10, len(value))
    return np.where(tens, (value + 10 * shift) % MODULUS, value // 10 * 10 + (value % 10 + shift) % 10)


def _values(chains: Chains) -> Ints:
    values = np.empty(chains.operands.shape, np.int64)
    value = chains.start
    for step in range(chains.operands.shape[1]):
        value = values[:, step] = _apply(value, chains.operators[:, step], chains.operands[:, step])
    return values


def _apply(value: Ints, operator: Ints, operand: Ints) -> Ints:
    return np.choose(operator, (value + operand, value - operand, value * operand)) % MODULUS
