"""When to stop drawing: each rule over random orders of the stored draws, what it saves and what that costs in success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ttc_eval.analysis.pools import Pool, judged, pools
from ttc_eval.metrics import cluster_mean
from ttc_eval.metrics import stopping as rules
from ttc_eval.metrics.stopping import Replay, Selector, StoppingRule, replay

if TYPE_CHECKING:
    import pandas as pd

    from ttc_eval.study import Study


@dataclass(frozen=True, slots=True)
class Setting:
    """A stopping rule with its parameter and the selector that it ends with. `scored`: it needs a verifier's scores."""

    rule: str
    parameter: float
    stops: StoppingRule
    selects: Selector
    scored: bool = False


def settings(n: int) -> list[Setting]:
    """The rules that a pool of n draws can show, each over a range of its parameter.

    `all` draws k and votes; `locked_plurality` of k selects the same for less; `early_stopping` (a window of equal answers);
    `adaptive_consistency` (Beta criterion at a confidence); `first_accepted` (a score at a threshold, else the best one).
    """
    ks = [k for k in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) if k <= n]
    vote = rules.leading()
    found = [Setting("all", k, rules.never(), vote) for k in ks]
    found += [Setting("locked_plurality", k, rules.locked_plurality(), vote) for k in ks if k > 1]
    found += [Setting("early_stopping", window, rules.esc_window(window), vote) for window in (2, 3, 4, 5, 8) if window < n]
    found += [Setting("adaptive_consistency", share, rules.beta_criterion(share), vote) for share in (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)]
    thresholds = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    return found + [
        Setting("first_accepted", level, rules.first_accepted(level), rules.accepted(level, "best"), scored=True) for level in thresholds
    ]


def tradeoff(study: Study, *, permutations: int = 200, seed: int = 0) -> pd.DataFrame:
    """Draws used and success of every rule and parameter over every pool.

    One row per pool × rule × parameter (× verifier): the pool's labels, `rule`, `parameter`, `verifier` (None for a rule without),
    `n_draws` (of the pool), `draws` (mean used), `saved` (1 − draws ÷ n_draws), `success` with `_low` and `_high` (over problems),
    `coverage`, `tokens` and `usd` per problem without the verifier's own cost, `monte_carlo_error` (of success), `n`, `method`.

    Rules are replayed over the same orders, so that their differences are paired. Raises `UserError` when no pool holds two draws of every
    problem.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for pool in pools(study):
        plain = [one for one in settings(pool.n) if not one.scored]
        scored = [one for one in settings(pool.n) if one.scored]
        held = {verifier: cut for verifier in pool.scores if (cut := judged(pool, verifier)) is not None and cut.n > 1}
        runs = [(pool, one, None) for one in plain] + [(cut, one, verifier) for verifier, cut in held.items() for one in scored]
        for cut, setting, verifier in runs:
            found = run(cut, setting, None if verifier is None else cut.scores[verifier], permutations, seed)
            rows.append({**pool.labels, **described(found, cut, setting), "verifier": verifier, "left_out": pool.left_out})
    return pd.DataFrame(rows)


def run(pool: Pool, setting: Setting, scores: Any = None, permutations: int = 200, seed: int = 0) -> Replay:
    """One rule over a pool. `all` and `locked_plurality` take their parameter as the number of draws."""
    limited = setting.rule in ("all", "locked_plurality")
    return replay(
        setting.stops,
        setting.selects,
        pool.classes,
        pool.correct,
        scores=scores,
        costs={"tokens": pool.tokens, "usd": pool.usd},
        at_most=int(setting.parameter) if limited else pool.n,
        permutations=permutations,
        seed=seed,
    )


def described(found: Replay, pool: Pool, setting: Setting) -> Mapping[str, Any]:
    """The numbers of one replay, by the columns of `tradeoff`."""
    success, draws = cluster_mean(found.success.value), float(found.draws.mean)
    return {
        "rule": setting.rule,
        "parameter": setting.parameter,
        "n_draws": pool.n,
        "draws": draws,
        "saved": 1 - draws / pool.n,
        "success": success.value,
        "success_low": success.low,
        "success_high": success.high,
        "coverage": float(found.coverage.mean),
        "tokens": float(np.asarray(found.costs["tokens"].mean)),
        "usd": float(np.asarray(found.costs["usd"].mean)),
        "monte_carlo_error": float(found.success.mean_error),
        "n": success.n,
        "method": f"{success.method}; {found.success.permutations} orders, seed {found.success.seed}",
    }
