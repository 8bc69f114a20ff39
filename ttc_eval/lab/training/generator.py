"""Training of the generator on `ttc_eval.lab.corpus`, until a sampled step is as often right as is useful, and no further."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ttc_eval.lab.corpus import Batch, Mix, draw_batch, draw_chains, write
from ttc_eval.lab.task import MAX_STEPS, STEP_TOKENS, Split
from ttc_eval.lab.training.network import LabNetwork
from ttc_eval.lab.training.optimizer import Trainer


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the generator's weights follow from, on one kind of machine.

    Training ends when the step accuracy of the averaged weights reaches `target`, looked at every `check_every` steps, or
    after `max_steps`. So another seed, which learns faster or slower, ends at a model that is about as good.
    """

    seed: int = 0
    target: float = 0.94
    batches_per_step: int = 4
    tokens_per_batch: int = 1024
    max_steps: int = 3000
    check_every: int = 25
    warmup: int = 100
    muon_rate: float = 0.02
    adam_rate: float = 0.003
    averaging: float = 0.98
    mix: Mix = field(default_factory=Mix)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One point of the learning curve. `step_accuracy` is of the averaged weights, on chains that training never draws."""

    steps: int
    tokens: int
    seconds: float
    loss: float
    step_accuracy: float


def train_generator(recipe: Recipe, report: Callable[[Checkpoint], None]) -> LabNetwork:
    """The generator that `recipe` makes; `report` is given the learning curve as it grows."""
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    rates = {"muon_rate": recipe.muon_rate, "adam_rate": recipe.adam_rate}
    trainer = Trainer(LabNetwork(), **rates, warmup=recipe.warmup, averaging=recipe.averaging)
    checks = whole_texts(np.random.default_rng(recipe.seed + 1), 24)
    started, seen, running = time.perf_counter(), 0, 0.0
    for number in range(1, recipe.max_steps + 1):
        batches = [draw_batch(rng, recipe.tokens_per_batch, recipe.mix) for _ in range(recipe.batches_per_step)]
        weight = float(sum(batch.weights[:, 1:].sum() for batch in batches))
        loss = 0.0
        for batch in batches:
            part = _loss(trainer.network, batch) / weight
            part.backward()
            loss += float(part.detach())
        trainer.step()
        seen += sum(batch.tokens.size for batch in batches)
        running = loss if number == 1 else 0.98 * running + 0.02 * loss
        if number % recipe.check_every:
            continue
        reached = step_accuracy(trainer.average, checks)
        report(Checkpoint(number, seen, time.perf_counter() - started, running, reached))
        if reached >= recipe.target:
            break
    return trainer.average


def whole_texts(rng: np.random.Generator, rows: int) -> list[Batch]:
    """Right texts of chains of every length, `rows` each, that belong to the verifier's split."""
    mix = Mix(cut=0, corrected=0)
    return [write(rng, draw_chains(rng, rows, steps, Split.VERIFIER), 1, mix) for steps in range(1, MAX_STEPS + 1)]


@torch.no_grad()
def step_accuracy(network: LabNetwork, texts: Sequence[Batch]) -> float:
    """Mean probability of sampling a step (at temperature 1) exactly, after exact steps; ending in time is part of the last step."""
    shares = []
    for text in texts:
        tokens, positions = torch.from_numpy(text.tokens), torch.from_numpy(text.positions)
        logs = network(tokens[:, :-1], positions[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
        steps = (tokens.shape[1] - 8) // (STEP_TOKENS + 2)
        first, last = 2 * steps + 3, 2 * steps + 3 + STEP_TOKENS * steps
        thinking = logs[:, first:last]
        thinking[:, -1] += logs[:, last]
        shares.append(thinking.reshape(len(tokens), steps, STEP_TOKENS).sum(-1).exp().flatten())
    return float(torch.cat(shares).mean())


def _loss(network: nn.Module, batch: Batch) -> Tensor:
    """The weighted sum of the losses of all tokens."""
    tokens, positions = torch.from_numpy(batch.tokens), torch.from_numpy(batch.positions)
    weights = torch.from_numpy(batch.weights)[:, 1:]
    logits = network(tokens[:, :-1], positions[:, :-1])
    losses = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return (losses * weights.flatten()).sum()
