"""What has a threshold that can be tuned: each family of policies over one pool or one cell, and what it comes to at each threshold.

| family | its parameter | from |
|---|---|---|
| `all`, `locked_plurality` | draws at most | stopping rules over random orders of a pool (`stopping`) |
| `early_stopping` | window of equal answers | the same |
| `adaptive_consistency` | confidence | the same |
| `first_accepted` | score at which a draw is taken | the same, over the scores of a pool; the verifier is charged |
| `cascade`, `route`, `verify_selectively` | threshold of the signal | the strategy itself over stored draws (`ttc_eval.replay`) |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ttc_eval.analysis.frames import LABELS, Floats, solved_cells
from ttc_eval.analysis.pools import Pool, first_draws, pools
from ttc_eval.analysis.stopping import Setting, run, settings
from ttc_eval.errors import UserError
from ttc_eval.variants import policy_keys

if TYPE_CHECKING:
    from ttc_eval.replay.thresholds import ThresholdPolicy, ThresholdReplays
    from ttc_eval.study import Study

STOPPING = ("all", "locked_plurality", "early_stopping", "adaptive_consistency", "first_accepted")
SECOND_STAGE = ("cascade", "route", "verify_selectively")
FAMILIES = (*STOPPING, *SECOND_STAGE)

_REQUEST = ("model", "thinking", "sampling", "answer_tokens", "dataset")
_OF_A_CELL = ("split", "seed", "variant")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy comes to on one split: values per problem, the mean over seeds. NaN: unknown.

    Attributes:
        success: in [0, 1]; tokens: output tokens; usd; latency_s: seconds, unknown for rules over random orders.
        error: Monte-Carlo error of mean success; 0 for what is exact. method: how it was worked out. seeds: how many.
    """

    success: Floats
    tokens: Floats
    usd: Floats
    latency_s: Floats
    error: float
    method: str
    seeds: int


@dataclass(frozen=True, slots=True)
class Tunable:
    """A family of policies that differ in one parameter.

    Attributes:
        labels: those of its first cell on the split that it is tuned on, without what belongs to a split or a seed.
        parameters: those to try; whatever the values on the other split are, they come from the one that it is tuned on.
        splits: where it can be worked out; on: its outcome on one of them at a parameter. Raises `UserError` for what is not stored.
        draws: of a stopping rule, at most; None for a strategy.
    """

    labels: Mapping[str, Any]
    family: str
    parameters: tuple[float, ...]
    splits: frozenset[str]
    on: Callable[[str, float], Outcome]
    draws: int | None = None

    @property
    def name(self) -> str:
        """The family and where it is, in words."""
        what = str(self.labels["strategy_label"]) if self.draws is None else self.family
        verifier = self.labels.get("verifier")
        scored = f" ({verifier})" if isinstance(verifier, str) else ""
        return " · ".join(str(part) for part in (self.labels["model"], self.labels["thinking_label"], what + scored))

    def named(self, parameter: float) -> str:
        """One of its policies in words."""
        if self.draws is None:
            return f"{self.name} at threshold {parameter:g}"
        if self.family in ("all", "locked_plurality"):
            return f"{self.name}, {parameter:g} draws"
        return f"{self.name} at {parameter:g}, at most {self.draws} draws"


def tunables(
    study: Study,
    *,
    dataset: str,
    tuned_on: str,
    measured_on: str,
    families: Sequence[str] | None = None,
    permutations: int = 200,
    seed: int = 0,
) -> list[Tunable]:
    """Every family that a study holds the draws of on `tuned_on`.

    Args:
        families: some of `FAMILIES`; None: all. A stopping rule draws at most as often as every problem of both splits was drawn under
            some seed; seeds with fewer draws are left out.
        permutations, seed: of the orders of a pool.

    Raises `UserError` for a family that is not known.
    """
    wanted = FAMILIES if families is None else families
    unknown = [name for name in wanted if name not in FAMILIES]
    if unknown:
        raise UserError(f"tune={unknown[0]}: there is no such family; there are: {', '.join(FAMILIES)}")
    splits, found = (tuned_on, measured_on), list[Tunable]()
    if set(wanted) & set(STOPPING):
        found += _stopping(study, dataset, splits, wanted, permutations, seed)
    if set(wanted) & set(SECOND_STAGE):
        found += _second_stages(study, dataset, splits, wanted)
    return found


def _stopping(study: Study, dataset: str, splits: tuple[str, str], wanted: Sequence[str], permutations: int, seed: int) -> list[Tunable]:
    found: list[Tunable] = []
    for by_split in _matched(study, [one for one in _pools(study) if one.labels["dataset"] == dataset and one.labels["split"] in splits]):
        if splits[0] not in by_split:
            continue
        # A seed that was drawn less often than another, say by a cascade alone, would cost the others their draws.
        n = min(max(pool.n for pool in held) for held in by_split.values())
        cut = {split: [first_draws(pool, n) for pool in held if pool.n >= n] for split, held in by_split.items()}
        for rule, choices in _by_rule(n).items():
            verifiers = set.intersection(*(set(pool.scores) for held in cut.values() for pool in held))
            for verifier in sorted(verifiers) if choices[0].scored else [None]:
                taken = cut if verifier is None else _judged(cut, verifier)
                if rule in wanted and taken is not None:
                    on = partial(_stopped, taken, {one.parameter: one for one in choices}, verifier, permutations, seed)
                    labels = {name: value for name, value in by_split[splits[0]][0].labels.items() if name not in _OF_A_CELL}
                    parameters = tuple(one.parameter for one in choices)
                    found.append(
                        Tunable({**labels, "verifier": verifier}, rule, parameters, frozenset(cut), on, next(iter(taken.values()))[0].n)
                    )
    return found


def _pools(study: Study) -> list[Pool]:
    try:
        return pools(study)
    except UserError:  # a study of single draws has no stopping rule to tune, and may have a cascade
        return []


def _matched(study: Study, held: Sequence[Pool]) -> list[dict[str, list[Pool]]]:
    """The pools of each request configuration, by split; one for each seed."""
    stored = study.sql("SELECT cell_id, config, endpoint FROM cells").set_index("cell_id")
    cells = []
    for pool in held:
        config, endpoint = stored.loc[pool.labels["cell_id"], ["config", "endpoint"]]
        plain = orjson.loads(config)
        cells.append(({name: plain.get(name) for name in _REQUEST}, endpoint, str(pool.labels["split"]), int(pool.labels["seed"])))
    groups: dict[str, dict[str, list[Pool]]] = {}
    for key, pool in zip(policy_keys(cells), held, strict=True):
        groups.setdefault(key, {}).setdefault(str(pool.labels["split"]), []).append(pool)
    return list(groups.values())


def _by_rule(n: int) -> dict[str, list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for one in settings(n):
        found.setdefault(one.rule, []).append(one)
    return found


def _judged(held: Mapping[str, Sequence[Pool]], verifier: str) -> dict[str, list[Pool]] | None:
    """The pools with the draws that the verifier was asked about in every problem; None where those are fewer than two."""
    n = min(pool.asked[verifier] for each in held.values() for pool in each)
    return {split: [first_draws(pool, n) for pool in each] for split, each in held.items()} if n > 1 else None


def _stopped(
    held: Mapping[str, Sequence[Pool]],
    choices: Mapping[float, Setting],
    verifier: str | None,
    permutations: int,
    seed: int,
    split: str,
    parameter: float,
) -> Outcome:
    """A stopping rule over the pools of a split, one for each seed."""
    shared = sorted(set.intersection(*(set(pool.problems) for pool in held[split])))
    found = []
    for pool in held[split]:
        charged = pool
        if verifier is not None:
            charged = replace(pool, tokens=pool.tokens + pool.score_tokens[verifier], usd=pool.usd + pool.score_usd[verifier])
        scores = None if verifier is None else pool.scores[verifier]
        found.append((run(charged, choices[parameter], scores, permutations, seed), [pool.problems.index(one) for one in shared]))
    success = np.mean([one.success.value[rows] for one, rows in found], axis=0)
    tokens, usd = (np.mean([one.costs[name].value[rows] for one, rows in found], axis=0) for name in ("tokens", "usd"))
    error = float(np.sqrt(sum(float(one.success.mean_error) ** 2 for one, _ in found)) / len(found))
    method = f"{permutations} orders of the pool, seed {seed}"
    return Outcome(success, tokens, usd, np.full(len(shared), np.nan), error, method, len(found))


def _second_stages(study: Study, dataset: str, splits: tuple[str, str], wanted: Sequence[str]) -> list[Tunable]:
    # Only this needs the code of strategies: a study without second stages is read without it.
    cells = solved_cells(study)
    cells = cells[cells["strategy"].isin([name for name in SECOND_STAGE if name in wanted]) & (cells["dataset"] == dataset)]
    if cells.empty:
        return []
    from ttc_eval.replay.thresholds import ThresholdReplays

    replays, rows = ThresholdReplays(study.path), cells.set_index("cell_id", drop=False)
    groups: dict[str, dict[str, ThresholdPolicy]] = {}
    for policy in replays.policies:
        if policy.cell_ids[0] in rows.index and policy.split in splits:
            groups.setdefault(policy.key, {})[policy.split] = policy
    found: list[Tunable] = []
    for by_split in groups.values():
        if splits[0] in by_split:
            policy = by_split[splits[0]]
            row = rows.loc[policy.cell_ids[0]]
            labels = {name: row[name] for name in LABELS if name in row and name not in _OF_A_CELL}
            on = partial(_replayed, replays, by_split)
            found.append(Tunable(labels, str(row["strategy"]), policy.thresholds(), frozenset(by_split), on))
    return found


def _replayed(replays: ThresholdReplays, held: Mapping[str, ThresholdPolicy], split: str, parameter: float) -> Outcome:
    policy = held[split]
    found = replays.outcome(policy, parameter)
    method = "replay of the strategy over stored draws"
    return Outcome(found.correct, found.tokens, found.usd, found.latency_s, 0.0, method, len(policy.runs))
