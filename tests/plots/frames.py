"""Made-up frames with the columns that the functions of `ttc_eval.analysis` return, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

STRATEGIES = ("single", "self_consistency@8", "best_of_n@8")
THINKINGS = ("budget 512", "budget 2048")


def labels(strategy: str, thinking: str, **others: Any) -> dict[str, Any]:
    where = {"model": "small-model", "dataset": "gsm8k", "split": "heldout", "seed": 0, "simulated": False}
    verifier = "prm" if strategy.startswith("best") else None
    return (
        {"cell_id": f"{strategy}/{thinking}", "strategy_label": strategy, "thinking_label": thinking, "verifier": verifier} | where | others
    )


def cells() -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(labels(strategy, thinking) for thinking in THINKINGS for strategy in STRATEGIES)


def ends(name: str, value: float, half: float = 0.05) -> dict[str, float]:
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def frontier() -> pd.DataFrame:
    rows = []
    for i, label in cells():
        success, cost = 0.5 + 0.06 * i, 100.0 * (1 + i) ** 2
        steps = {"on_frontier": i != 2, "on_hull": i in (0, 3, 5), "frontier_probability": (1.0, 0.8, 0.02, 0.9, 0.4, 0.97)[i]}
        rows.append(label | ends("cost", cost, 0.1 * cost) | ends("success", success) | steps | {"n": 200, "method": "success: Wilson"})
    frame = pd.DataFrame(rows)
    frame.attrs["cost"] = "tokens"
    return frame


def equal_cost() -> pd.DataFrame:
    rows = [
        {"cost": cost} | ends("difference", 0.02 * i - 0.03) | {"n": 200, "method": "bootstrap"}
        for i, cost in enumerate((100.0, 200.0, 400.0, 900.0))
    ]
    frame = pd.DataFrame(rows)
    frame.attrs.update(a="best_of_n", b="single", cost="tokens", simulated=True, dataset="gsm8k", split="heldout", model="small-model")
    return frame


def sampling(thinkings: tuple[str, ...] = THINKINGS) -> pd.DataFrame:
    rows = []
    for t, thinking in enumerate(thinkings):
        for s, (selector, verifier) in enumerate((("random_pick", None), ("majority", None), ("best_of_n", "prm"), ("oracle", None))):
            for k in (1, 2, 4, 8, 16):
                value = 0.4 + 0.1 * t + 0.03 * s * np.log2(k)
                row = labels("", thinking) | {
                    "selector": selector,
                    "verifier": verifier,
                    "k": k,
                    "n_draws": 16,
                    "n": 200,
                    "method": "t over problems",
                }
                rows.append(row | ends("value", value) | {"oracle": selector == "oracle"})
    return pd.DataFrame(rows)


def coverage(extrapolated: bool = True) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for t, thinking in enumerate(THINKINGS):
        base = labels("", thinking) | {"n": 200, "n_draws": 16, "oracle": True}
        rows += [
            base | ends("pass_at_k", 0.3 + 0.2 * t + 0.08 * np.log2(k)) | {"fit": "exact", "role": "measured", "k": k}
            for k in (1, 2, 4, 8, 16)
        ]
        for f, fit in enumerate(("power", "beta_binomial")):
            known = {"fit": fit, "pass_at_k_low": None, "pass_at_k_high": None}
            rows += [base | known | {"role": "fitted", "k": k, "pass_at_k": 0.31 + 0.2 * t + 0.079 * np.log2(k)} for k in (1, 2, 4, 8, 16)]
            rows += [
                base | known | {"role": "checked", "k": k, "pass_at_k": 0.28 + 0.2 * t + 0.09 * np.log2(k) + 0.02 * f} for k in (8, 16)
            ]
            rows += [base | known | {"role": "extrapolated", "k": 32, "pass_at_k": 0.7 + 0.2 * t - 0.02 * f}] * extrapolated
    return pd.DataFrame(rows).assign(method="t over problems")


def stopping() -> pd.DataFrame:
    rows = []
    for thinking in THINKINGS:
        for r, rule in enumerate(("all", "early_stopping", "adaptive_consistency")):
            for i, draws in enumerate((1.5, 3.0, 6.0, 12.0)):
                row = {"rule": rule, "parameter": i, "draws": draws + r, "n_draws": 16, "n": 200, "method": "t; 50 orders, seed 0"}
                rows.append(labels("", thinking) | row | ends("success", 0.5 + 0.02 * r + 0.05 * i))
    return pd.DataFrame(rows)


def outcomes() -> pd.DataFrame:
    names = ("right", "wrong", "unresolved", "truncated", "unparsed", "refused", "error")
    rows = []
    for i, label in cells():
        counts = (90 + 10 * i, 60 - 8 * i, 20 - i, 15 - 2 * i, 8, 4)
        counts = (*counts, 200 - sum(counts))
        rows += [label | {"outcome": name, "problems": n, "share": n / 200, "n": 200} for name, n in zip(names, counts, strict=True)]
    return pd.DataFrame(rows)


def costs() -> pd.DataFrame:
    parts = ("prompt", "cached", "reasoning", "answer", "verifier", "pruned", "retried", "failed", "overshoot")
    rows = []
    for i, label in cells():
        for p, part in enumerate(parts):
            for basis in ("charged", "billed"):
                tokens = 0.0 if (part == "overshoot") == (basis == "charged") else 40.0 * (1 + (i + p) % 4)
                unpriced = i == 0
                rows.append(
                    label
                    | {"basis": basis, "part": part, "tokens_per_problem": tokens, "usd_per_problem": np.nan if unpriced else tokens * 1e-6}
                )
    return pd.DataFrame(rows)


def heat() -> pd.DataFrame:
    rows = []
    for i, label in cells():
        for problem in range(24):
            share = None if problem == 23 and i == 0 else max(0.0, min(1.0, 1.1 - problem / 24 + 0.05 * i))
            rows.append(label | {"problem_id": f"p{problem:02}", "right_share": share, "correct": float(problem < 12 + i)})
    return pd.DataFrame(rows)


def latency() -> pd.DataFrame:
    rows = [label | {"p50_s": 1.0 + i, "p95_s": 3.0 + 2 * i, "work_s": 2.0 * (1 + i), "n": 200} for i, label in cells()]
    rows[0] |= {"p50_s": np.nan, "p95_s": np.nan, "work_s": np.nan}
    return pd.DataFrame(rows)


def policy(oracle: bool = False) -> pd.DataFrame:
    rows = []
    for i, spent in enumerate((100.0, 300.0, 900.0)):
        found = {
            "spent": spent * 1.1,
            "fixed_spent": spent,
            "by": "success" if oracle else "agreement",
            "bins": 4,
            "oracle": oracle,
            "n": 200,
        }
        said = {"tuned_on": "dev, the other of 2 folds", "measured_on": "dev, each fold in turn", "method": "cross-fitted"}
        rows.append(labels("", "") | found | said | ends("success", 0.6 + 0.1 * i) | ends("fixed", 0.5 + 0.1 * i) | {"split": "dev"})
    return pd.DataFrame(rows)


def reliability() -> pd.DataFrame:
    rows = []
    for thinking in THINKINGS:
        for i in range(10):
            score = 0.05 + 0.1 * i
            ends_ = {"right": score**0.8, "right_low": score**0.8 - 0.04, "right_high": score**0.8 + 0.04}
            rows.append(
                labels("best_of_n@8", thinking) | {"score": score, "candidates": 4 if i == 5 else 40 * (1 + i % 4), "n": 150} | ends_
            )
    return pd.DataFrame(rows)


def overoptimisation() -> pd.DataFrame:
    rows = []
    for thinking in THINKINGS:
        for i, k in enumerate((1, 2, 4, 8)):
            row = labels("", thinking) | {"verifier": "prm", "k": k, "oracle": 0.5 + 0.1 * i, "n": 200}
            rows.append(row | ends("success", 0.5 + 0.06 * i - 0.012 * i * i))
    return pd.DataFrame(rows)
