"""Training of the process verifier on turns that the generator sampled itself, labelled by the exact step checker.

The verifier reads the generator's states and is trained on top of them: at the end of every step it says whether the step
is right, and at the end of the turn whether the answer is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from ttc_eval.lab.batch import Job, generate_all
from ttc_eval.lab.corpus import draw_chains
from ttc_eval.lab.task import MAX_STEPS, STEP_TOKENS, Chain, Split, check_steps
from ttc_eval.lab.tokens import END_ID, IDS, encode, positions
from ttc_eval.lab.training.network import LabNetwork, VerifierNetwork
from ttc_eval.lab.training.optimizer import Trainer
from ttc_eval.lab.turn import Rules
from ttc_eval.lab.weights import Weights
from ttc_eval.thinking import AtLimit


@dataclass(frozen=True, slots=True)
class VerifierRecipe:
    """What the verifier's weights follow from, beside the generator's.

    `chains` of every length are drawn, of those that belong to `Split.VERIFIER`, and `draws` turns of each sampled at
    temperatures between 1 and `hottest`, for mistakes to learn from: most of them unbounded, a share `cut` with a random
    budget, a share `extended` with one "Wait".
    """

    seed: int = 0
    chains: int = 200
    draws: int = 4
    hottest: float = 1.6
    cut: float = 0.2
    extended: float = 0.1
    rounds: int = 2
    rows_per_step: int = 48
    warmup: int = 50
    muon_rate: float = 0.02
    adam_rate: float = 0.003
    averaging: float = 0.98


@dataclass(frozen=True, slots=True)
class Labelled:
    """A turn with labels: `places` `(labels,)` in `tokens`, and whether what ends there is `right` `(labels,)`.

    The labels are those of the steps, then the answer's; what follows are the same labels at the last digit of each step,
    which help to learn and are not used.
    """

    tokens: tuple[int, ...]
    places: tuple[int, ...]
    right: tuple[bool, ...]


def train_verifier(
    generator: LabNetwork, weights: Weights, recipe: VerifierRecipe, report: Callable[[int, int, float], None]
) -> VerifierNetwork:
    """The verifier of a generator, whose `weights` sample the turns; `report` gets the step, the number of steps and the loss."""
    turns = sampled_turns(weights, recipe)
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    network = VerifierNetwork(generator)
    rates = {"muon_rate": recipe.muon_rate, "adam_rate": recipe.adam_rate}
    trainer = Trainer(network, **rates, warmup=recipe.warmup, averaging=recipe.averaging)
    # Turns of about one length share a batch, so that little of it is padding.
    order = sorted(range(len(turns)), key=lambda place: len(turns[place].tokens))
    batches = [order[start : start + recipe.rows_per_step] for start in range(0, len(order), recipe.rows_per_step)]
    total, running = recipe.rounds * len(batches), 0.0
    for number in range(1, total + 1):
        place = (number - 1) % len(batches)
        if place == 0:
            rng.shuffle(batches)
        tokens, places, targets, weight = _padded([turns[row] for row in batches[place]])
        logits = trainer.network(tokens, places)
        losses = F.binary_cross_entropy_with_logits(logits, targets, weight=weight, reduction="sum") / weight.sum()
        losses.backward()
        trainer.step()
        running = float(losses.detach()) if number == 1 else 0.98 * running + 0.02 * float(losses.detach())
        if number % 50 == 0 or number == total:
            report(number, total, running)
    return trainer.average


def sampled_turns(weights: Weights, recipe: VerifierRecipe) -> list[Labelled]:
    """The generator's own turns with their labels; those that broke off or lost their form are left out."""
    rng = np.random.default_rng(recipe.seed)
    chains: list[Chain] = []
    for steps in range(1, MAX_STEPS + 1):
        drawn = draw_chains(rng, recipe.chains, steps, Split.VERIFIER)
        chains += [drawn.chain(row) for row in range(recipe.chains) for _ in range(recipe.draws)]
    jobs = [
        Job(tuple(encode(f"{chain}=")), _rules(rng, chain, recipe), int(rng.integers(2**31)), rng.uniform(1, recipe.hottest))
        for chain in chains
    ]
    turns = zip(chains, jobs, generate_all(weights, jobs), strict=True)
    labelled = [labelled_turn(chain, (*job.before, *made.tokens), made.thinking, made.text) for chain, job, made in turns]
    return [turn for turn in labelled if turn is not None]


def labelled_turn(chain: Chain, tokens: tuple[int, ...], thinking: str, answer: str) -> Labelled | None:
    """A turn with the step checker's verdicts and whether its answer is right; None when it is no whole turn."""
    ends = [place for place, token in enumerate(tokens) if token == IDS[";"]]
    steps = check_steps(chain, thinking)
    if tokens[-1] != END_ID or len(ends) != len(steps):
        return None
    verdicts = [step.right for step in steps]
    right = (*verdicts, answer == f"{chain.answer:02d}", *verdicts)
    return Labelled(tokens, (*ends, len(tokens) - 1, *(end - 1 for end in ends)), right)


def _rules(rng: np.random.Generator, chain: Chain, recipe: VerifierRecipe) -> Rules:
    kind, thinking = rng.random(), STEP_TOKENS * len(chain.steps)
    most = 4 * thinking + 32
    if kind < recipe.cut:
        return Rules(most, budget=int(rng.integers(0, thinking)))
    if kind < recipe.cut + recipe.extended:
        return Rules(most, budget=2 * thinking + STEP_TOKENS, at_limit=AtLimit.EXTEND, max_extensions=1)
    return Rules(most)


def _padded(turns: Sequence[Labelled]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    longest = max(len(turn.tokens) for turn in turns)
    tokens, places = np.full((len(turns), longest), END_ID, np.int64), np.zeros((len(turns), longest), np.int64)
    targets, weights = (np.zeros((len(turns), longest), np.float32) for _ in range(2))
    for row, turn in enumerate(turns):
        length = len(turn.tokens)
        tokens[row, :length], places[row, :length] = turn.tokens, positions(turn.tokens)
        targets[row, turn.places], weights[row, turn.places] = turn.right, 1
    return tuple(torch.from_numpy(array) for array in (tokens, places, targets, weights))  # type: ignore[return-value]
