"""What the lab model can do, measured: `python -m ttc_eval.lab.card [--weights FILE]` prints the tables of docs/lab-model.md.

It samples at temperature 1 on chains of `Split.HELDOUT`, which neither training nor the verifier's training ever drew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttc_eval.lab.batch import Generated, Job, generate_all
from ttc_eval.lab.corpus import draw_chains
from ttc_eval.lab.network import verifier_scores
from ttc_eval.lab.task import MAX_STEPS, STEP_TOKENS, Chain, Split, check_steps
from ttc_eval.lab.tokens import END_ID, IDS, encode
from ttc_eval.lab.turn import Rules
from ttc_eval.lab.weights import Weights, load_weights
from ttc_eval.metrics import auroc, auroc_within, best_of_n_at_k, majority_at_k, pass_at_k
from ttc_eval.thinking import AtLimit

DRAWS = 16
BUDGETS = (0, 16, 32, 64, 96)
FULL = MAX_STEPS * STEP_TOKENS


@dataclass(frozen=True, slots=True)
class Draws:
    """`DRAWS` draws of every chain, in order, and whether each answer is right, `(chains, DRAWS)`."""

    made: tuple[tuple[Generated, ...], ...]
    right: NDArray[np.bool_]

    @property
    def rates(self) -> tuple[float, float, float]:
        """One draw's success, the vote's over all draws (a tie is unresolved), and pass@`DRAWS`, which is an oracle view."""
        classes = np.array([np.unique([made.text for made in row], return_inverse=True)[1] for row in self.made])
        vote = majority_at_k(classes, self.right, DRAWS, ties="unresolved")
        oracle = pass_at_k(DRAWS, self.right.sum(1), DRAWS)
        return float(self.right.mean()), float(vote.mean()), float(np.mean(oracle))


def sample(weights: Weights, chains: Sequence[Chain], rules: Rules, seed: int = 0) -> Draws:
    """Sample every chain `DRAWS` times under `rules`."""
    questions = [tuple(encode(f"{chain}=")) for chain in chains]
    jobs = [Job(tokens, rules, seed + place * DRAWS + draw) for place, tokens in enumerate(questions) for draw in range(DRAWS)]
    made = generate_all(weights, jobs)
    rows = tuple(tuple(made[start : start + DRAWS]) for start in range(0, len(made), DRAWS))
    right = [[draw.text == f"{chain.answer:02d}" for draw in row] for chain, row in zip(chains, rows, strict=True)]
    return Draws(rows, np.array(right))


@dataclass(frozen=True, slots=True)
class Scored:
    """The verifier's verdicts: `steps` (all steps of all draws) with `step_right`, and for each rule a score `(chains, DRAWS)`."""

    steps: NDArray[np.float64]
    step_right: NDArray[np.bool_]
    whole: dict[str, NDArray[np.float64]]


def score(weights: Weights, chains: Sequence[Chain], draws: Draws) -> Scored:
    """Score every draw's steps and answer. A draw that broke off has score 0."""
    steps: list[float] = []
    right: list[bool] = []
    whole = {rule: np.zeros(draws.right.shape) for rule in ("last", "min", "prod", "mean")}
    for place, (chain, row) in enumerate(zip(chains, draws.made, strict=True)):
        question = encode(f"{chain}=")
        turns = [[*question, *made.tokens] for made in row]
        for draw, (made, turn, scores) in enumerate(zip(row, turns, verifier_scores(weights, turns), strict=True)):
            checked = check_steps(chain, made.thinking)
            ends = [at for at, token in enumerate(turn) if token == IDS[";"]]
            if turn[-1] != END_ID or len(ends) != len(checked):
                continue
            own = scores[[*ends, len(turn) - 1]].astype(float)
            steps += own[:-1].tolist()
            right += [step.right for step in checked]
            for rule, value in (("last", own[-1]), ("min", own.min()), ("prod", own.prod()), ("mean", own.mean())):
                whole[rule][place, draw] = value
    return Scored(np.array(steps), np.array(right), whole)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the card's tables; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ttc_eval.lab.card", description="Measure the lab model and its verifier.")
    parser.add_argument("--weights", type=Path, default=None, help="other weights than the shipped ones")
    parser.add_argument("--chains", type=int, default=25, help="chains of every length from 1 to 12 (default 25)")
    options = parser.parse_args(arguments)
    weights = load_weights(options.weights)
    rng = np.random.default_rng(0)
    chains: list[Chain] = []
    for length in range(1, MAX_STEPS + 1):
        drawn = draw_chains(rng, options.chains, length, Split.HELDOUT)
        chains += [drawn.chain(row) for row in range(options.chains)]
    for line in _card(weights, chains):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 0


def _card(weights: Weights, chains: Sequence[Chain]) -> list[str]:
    by_budget = {budget: sample(weights, chains, Rules(budget + 8, budget=budget)) for budget in BUDGETS}
    full = by_budget[FULL]
    scored = score(weights, chains, full)
    lines = [f"Success of one draw by steps and budget, n = {len(chains) // MAX_STEPS} chains a row, {DRAWS} draws each", ""]
    lines += ["| steps | " + " | ".join(f"budget {budget}" for budget in BUDGETS) + " |", "|---" * (len(BUDGETS) + 1) + "|"]
    for length in range(1, MAX_STEPS + 1):
        rows = [place for place, chain in enumerate(chains) if len(chain.steps) == length]
        lines.append(f"| {length} | " + " | ".join(f"{by_budget[budget].right[rows].mean():.2f}" for budget in BUDGETS) + " |")
    lines += ["", f"All lengths, n = {len(chains)}", ""]
    lines += [f"| budget | one draw | majority@{DRAWS} | pass@{DRAWS} (oracle) |", "|---|---|---|---|"]
    for budget, draws in by_budget.items():
        lines.append(f"| {budget} | " + " | ".join(f"{rate:.3f}" for rate in draws.rates) + " |")
    extend = Rules(2 * FULL + 16, budget=2 * FULL + 8, at_limit=AtLimit.EXTEND, max_extensions=1)
    again = sample(weights, chains, extend)
    changed = [f"{(full.right & ~again.right).mean():.3f} right to wrong", f"{(~full.right & again.right).mean():.3f} wrong to right"]
    lines.append(f"| {2 * FULL + 8}, one `Wait` | " + " | ".join(f"{rate:.3f}" for rate in again.rates) + " |")
    lines += ["", f"`Wait` changes of all draws: {', '.join(changed)}.", ""]
    lines += [f"Verifier at budget {FULL}: AUROC of steps {_shown(auroc(scored.steps, scored.step_right))} ({len(scored.steps)} steps, "]
    lines[-1] += f"{scored.step_right.mean():.3f} of them right)"
    lines += ["", f"| rule | AUROC within a chain | chains with both | AUROC pooled | best-of-{DRAWS} |", "|---|---|---|---|---|"]
    for rule, values in scored.whole.items():
        inside = auroc_within(values, full.right)
        shown, chains_with_both = (_shown(None), 0) if inside is None else (_shown(inside.value), inside.n)
        best = best_of_n_at_k(values, full.right, DRAWS).mean()
        lines.append(f"| {rule} | {shown} | {chains_with_both} | {_shown(auroc(values, full.right))} | {best:.3f} |")
    return lines


def _shown(value: float | None) -> str:
    """Three digits; a dash where the number is undefined, because all draws are right or all wrong."""
    return "–" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
