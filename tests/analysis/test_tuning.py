"""Tuning under a cap: the choice and its held-out numbers are those of an enumeration by hand, and none is made where it is measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ttc_eval.analysis.pools import pools
from ttc_eval.analysis.stopping import run, settings
from ttc_eval.analysis.tuning import tuned
from ttc_eval.errors import UserError
from ttc_eval.metrics import majority_at_k
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main

PROBLEMS = 40
SECOND = ["strategy.then_budget=64"]


def sweep(folder: Path, study: str, *arguments: str, splits: str = "dev,heldout") -> Study:
    for split, start in (("dev", 0), ("heldout", 1000)):
        rows = [
            {
                "id": start + i,
                "q": f"What is {start + i} plus 1{' in all' * (i % 4)}?",
                "a": start + i + 1,
                "level": ("easy", "hard")[i % 2],
            }
            for i in range(PROBLEMS)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = [
        "-m",
        "model=simulated",
        "model.price.own={input: 1, output: 4}",
        "model.accuracy={easy: {0: 0.6, 64: 0.95}, hard: {0: 0.3, 64: 0.8}, default: {0: 0.5}}",
        "dataset.name=sums",
        f"dataset.path='{folder}/{{split}}.jsonl'",
        "dataset.prompt='{q}'",
        "dataset.reference=a",
        "dataset.id_column=id",
        "dataset.difficulty=level",
        "dataset.examples=[]",
        f"dataset.split={splits}",
        "thinking=budget",
        "thinking.budget=16",
    ]
    assert main([*base, *arguments, f"results_dir={folder}", f"study={study}"]) == 0
    return open_study(folder / f"{study}.duckdb")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("tuned")
    sweep(folder, "t", "strategy=best_of_n_8", "verifier=outcome")
    sweep(folder, "t", "strategy=cascade", *SECOND, "strategy.threshold=0.5,0.75,1", "seed=0,1")
    sweep(folder, "t", "strategy=route", "strategy.signal=length", *SECOND, "strategy.threshold=2,1000")
    return sweep(folder, "t", "strategy=verify_selectively", "verifier=outcome", "strategy.agreement_draws=3", "strategy.threshold=0.4,1")


def cell(study: Study, split: str, strategy: str, threshold: float, seed: int = 0) -> pd.DataFrame:
    """The problems of one cell, by id."""
    return study.sql(
        """SELECT o.problem_id, o.correct::DOUBLE AS correct, o.charged_output_tokens AS tokens, o.charged_usd AS usd,
                  list_extract(map_values(CAST(s.signals AS MAP(VARCHAR, DOUBLE))), 1) AS signal, p.prompt
           FROM problem_outcomes o JOIN cells c USING (cell_id) JOIN solutions s USING (cell_id, problem_id)
           JOIN problems p USING (problem_id)
           WHERE c.split = ? AND c.strategy = ? AND c.seed = ? AND (c.strategy_params->>'threshold')::DOUBLE = ? ORDER BY problem_id""",
        [split, strategy, seed, threshold],
    ).set_index("problem_id")


def stage_one(study: Study, split: str, seed: int) -> pd.DataFrame:
    """What four cheap draws come to alone: the unique plurality and their tokens, counted by hand."""
    rows = study.sql(
        """SELECT DISTINCT x.problem_id, x.draw, x.answer_class, g.correct, k.output_tokens AS tokens FROM candidates x
           JOIN cells c USING (cell_id) JOIN calls k ON k.call_id = x.call_ids->>'$[0]'
           LEFT JOIN grades g ON g.problem_id = x.problem_id AND g.answer_class = x.answer_class
           WHERE c.strategy = 'cascade' AND c.split = ? AND c.seed = ? AND k.requested_budget = 16 AND x.draw < 4""",
        [split, seed],
    )
    found: dict[str, dict[str, Any]] = {}
    for problem, one in rows.groupby("problem_id"):
        top = Counter(one["answer_class"]).most_common(2)
        unique = len(top) == 1 or top[0][1] > top[1][1]
        right = unique and bool(one.set_index("answer_class")["correct"].to_dict()[top[0][0]])
        found[str(problem)] = {"unique": unique, "share": top[0][1] / 4, "right": float(right), "tokens": one["tokens"].sum()}
    return pd.DataFrame.from_dict(found, orient="index").sort_index()


def cascaded(study: Study, split: str, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Success and tokens of each problem, mean of both seeds, put together from stage one and the cell that nearly always goes on."""
    sides = []
    for seed in (0, 1):
        cheap, on = stage_one(study, split, seed), cell(study, split, "cascade", 1, seed)
        keeps = (cheap["unique"] & (cheap["share"] >= threshold)).to_numpy()
        assert (cheap["share"] == on["signal"]).all()
        sides.append((np.where(keeps, cheap["right"], on["correct"]), np.where(keeps, cheap["tokens"], on["tokens"])))
    return np.mean([side[0] for side in sides], axis=0), np.mean([side[1] for side in sides], axis=0)


def by_hand(options: dict[float, tuple[float, float]], cap: float) -> float | None:
    """The best parameter of {parameter: (success, cost)} within a cap; of equals the cheapest, then the smallest."""
    within = [(-round(success, 9), cost, parameter) for parameter, (success, cost) in options.items() if cost <= cap]
    return min(within)[2] if within else None


@pytest.mark.parametrize("cap", [80, 95, 110, 125, 1000])
def test_a_cascade_is_tuned_as_by_hand(study: Study, cap: float) -> None:
    shares = sorted({share for seed in (0, 1) for share in stage_one(study, "dev", seed)["share"]} | {1.0})
    options = {one: tuple(float(part.mean()) for part in cascaded(study, "dev", one)) for one in shares}
    found = tuned(study, cap=cap, families=["cascade"])
    best = by_hand(options, cap)  # type: ignore[arg-type]
    if best is None:
        assert found.empty
        assert "its cheapest parameter costs" in found.attrs["excluded"][0]
        return
    row = found.iloc[0]
    right, tokens = cascaded(study, "heldout", best)
    assert (len(found), row["parameter"], row["seeds"], row["n"], row["dev_n"]) == (1, best, 2, PROBLEMS, PROBLEMS)
    assert (row["dev_success"], row["dev_cost"]) == pytest.approx(options[best])
    assert (row["success"], row["cost"]) == pytest.approx((right.mean(), tokens.mean()))
    assert row["dev_cost"] <= cap
    assert row["cap_held"] == (tokens.mean() <= cap)
    assert row["success_low"] < row["success"] < row["success_high"]
    assert (row["tuned_on"], row["measured_on"], row["branded"], row["monte_carlo_error"]) == ("dev", "heldout", False, 0)


@pytest.mark.parametrize("cap", [30, 40, 50, 1000])
def test_a_route_is_tuned_as_by_hand(study: Study, cap: float) -> None:
    def at(split: str, threshold: float) -> tuple[float, float]:
        hard, easy = cell(study, split, "route", 2), cell(study, split, "route", 1000)
        goes_on = hard["prompt"].str.len() >= threshold
        return float(hard["correct"].where(goes_on, easy["correct"]).mean()), float(hard["tokens"].where(goes_on, easy["tokens"]).mean())

    lengths = set(cell(study, "dev", "route", 2)["prompt"].str.len())
    options = {float(one): at("dev", one) for one in (*lengths, min(lengths) - 1, max(lengths) + 1, 2, 1000)}
    row = tuned(study, cap=cap, families=["route"]).iloc[0]
    best = by_hand(options, cap)
    assert best is not None
    assert (row["parameter"], row["tried"]) == (best, len(options))
    assert (row["success"], row["cost"]) == pytest.approx(at("heldout", best))


def test_selective_verification_comes_to_what_it_came_to_live(study: Study) -> None:
    dev = {one: cell(study, "dev", "verify_selectively", one) for one in (0.4, 1)}
    for name, unit in (("tokens", "tokens"), ("usd", "usd")):
        for threshold, live in dev.items():
            row = tuned(study, cap=float(live[name].mean()), unit=unit, families=["verify_selectively"]).iloc[0]  # type: ignore[arg-type]
            assert row["dev_cost"] <= live[name].mean() * (1 + 1e-9)
            assert row["dev_success"] >= live["correct"].mean() - 1e-12
            # A threshold between two values of the signal is the same policy as the next value.
            ran = min((one for one in dev if one >= row["parameter"]), default=threshold)
            there = cell(study, "heldout", "verify_selectively", ran)
            if set(there["signal"].dropna()) == set(dev[ran]["signal"].dropna()) and row["parameter"] in dev:
                assert (row["success"], row["cost"]) == pytest.approx((there["correct"].mean(), there[name].mean()))
    free = tuned(study, cap=1e9, families=["verify_selectively"]).iloc[0]
    assert free["dev_success"] >= max(float(live["correct"].mean()) for live in dev.values())


@pytest.mark.parametrize("cap", [60, 120, 400])
def test_stopping_rules_are_tuned_as_by_hand(study: Study, cap: float) -> None:
    found = tuned(study, cap=cap, permutations=40).set_index("family")
    held = {str(pool.labels["split"]): pool for pool in pools(study) if pool.n == 8}
    for family in ("all", "locked_plurality", "early_stopping", "adaptive_consistency"):
        choices = {one.parameter: one for one in settings(8) if one.rule == family}
        options = {}
        for parameter, one in choices.items():
            replayed = run(held["dev"], one, None, 40, 0)
            options[parameter] = (float(replayed.success.mean), float(replayed.costs["tokens"].mean))
        best = by_hand(options, cap)
        assert (family in found.index) == (best is not None)
        if best is not None:
            there = run(held["heldout"], choices[best], None, 40, 0)
            assert found.loc[family, "parameter"] == best
            assert found.loc[family, "success"] == pytest.approx(float(there.success.mean))
            assert found.loc[family, "cost"] == pytest.approx(float(there.costs["tokens"].mean))
            assert found.loc[family, "dev_cost"] <= cap


def test_all_draws_are_worth_their_exact_expectation_and_a_verifier_is_charged(study: Study) -> None:
    found = tuned(study, cap=1e9, families=["all", "first_accepted"], permutations=40).set_index("family")
    held = {str(pool.labels["split"]): pool for pool in pools(study) if pool.n == 8}
    k = int(found.loc["all", "parameter"])
    exact = majority_at_k(held["heldout"].classes, held["heldout"].correct, k, "unresolved").mean()
    assert found.loc["all", "success"] == pytest.approx(float(exact), abs=4 * found.loc["all", "monte_carlo_error"] + 1e-9)
    pool = held["heldout"]
    scores = study.sql("SELECT avg(output_tokens) AS tokens FROM calls WHERE role = 'verify' AND status = 'ok'")["tokens"][0]
    assert np.isfinite(pool.score_tokens["outcome"]).all()
    assert pool.score_tokens["outcome"][pool.classes >= 0].mean() == pytest.approx(scores, rel=0.2)
    one = next(one for one in settings(8) if one.rule == "first_accepted" and one.parameter == found.loc["first_accepted", "parameter"])
    without = run(pool, one, pool.scores["outcome"], 40, 0)
    assert found.loc["first_accepted", "cost"] > float(without.costs["tokens"].mean)
    assert found.loc["first_accepted", "verifier"] == "outcome"


def test_more_may_never_give_less_on_the_split_that_it_is_tuned_on(study: Study) -> None:
    frames = [tuned(study, cap=cap, permutations=20).set_index("policy") for cap in (60, 100, 200, 1e6)]
    best: dict[str, float] = {}
    for frame in frames:
        assert (frame["dev_cost"] <= frame["cap"]).all()
        for row in frame.reset_index().to_dict("records"):
            key = f"{row['family']} {row['strategy_label']}"
            assert row["dev_success"] >= best.get(key, 0.0) - 1e-12
            best[key] = row["dev_success"]
    assert frames[-1].attrs["excluded"] == []
    assert frames[0].attrs["excluded"]


def test_tuning_where_it_is_measured_needs_a_flag_and_is_branded(study: Study) -> None:
    for one, other in (("dev", "dev"), ("heldout", "heldout"), ("heldout", "dev")):
        with pytest.raises(UserError, match="--on-measured-split"):
            tuned(study, cap=100, tuned_on=one, measured_on=other)
        found = tuned(study, cap=100, tuned_on=one, measured_on=other, on_measured_split=True, families=["cascade"])
        assert found["branded"].all()
        if one == other:
            assert found["success"].tolist() == found["dev_success"].tolist()
            assert found["cost"].tolist() == found["dev_cost"].tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cap": 0}, "cap=0"),
        ({"cap": float("nan")}, "cap=nan"),
        ({"cap": 9, "unit": "calls"}, "unit=calls"),
        ({"cap": 9, "families": ["cascades"]}, "there is no such family"),
        ({"cap": 9, "tuned_on": "train"}, "its splits are: dev, heldout"),
        ({"cap": 9, "measured_on": "test"}, "its splits are: dev, heldout"),
        ({"cap": 9, "dataset": "other"}, "it has: sums"),
    ],
)
def test_what_is_wrong_is_said(study: Study, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        tuned(study, **options)


def test_what_is_not_stored_is_named_with_the_cells_to_run(tmp_path: Path) -> None:
    sweep(tmp_path, "part", "strategy=cascade", *SECOND, "strategy.threshold=0.5")
    part = open_study(tmp_path / "part.duckdb")
    with pytest.raises(UserError, match=r"at threshold .* of problem sums/dev/.*\(strategy\.threshold=0\.25,1\) on split dev"):
        tuned(part, cap=1e6)
    # What it says is enough, and a tuned threshold that only dev has the draws of is refused on held-out.
    sweep(tmp_path, "part", "strategy=cascade", *SECOND, "strategy.threshold=0.25,1", splits="dev")
    with pytest.raises(UserError, match="on split heldout"):
        tuned(part, cap=1e6)
    whole = sweep(tmp_path, "part", "strategy=cascade", *SECOND, "strategy.threshold=0.25,1", splits="heldout")
    assert len(tuned(whole, cap=1e6)) >= 1


def test_a_family_that_one_split_lacks_is_excluded_and_a_study_without_any_is_refused(tmp_path: Path) -> None:
    sweep(tmp_path, "one", "strategy=single")
    with pytest.raises(UserError, match="nothing to tune"):
        tuned(open_study(tmp_path / "one.duckdb"), cap=100)
    half = sweep(tmp_path, "one", "strategy=self_consistency_4", "strategy.early_stop=false", splits="dev")
    found = tuned(half, cap=100)
    assert found.empty
    assert all("split heldout has no such draws" in one or "nothing" in one for one in found.attrs["excluded"])


def test_a_limit_of_the_whole_cell_is_refused(tmp_path: Path) -> None:
    limited = sweep(tmp_path, "limited", "strategy=cascade", *SECOND, "strategy.threshold=0.25,1", "limits.cell.calls=10000")
    with pytest.raises(UserError, match=r"limits\.cell"):
        tuned(limited, cap=1e6, families=["cascade"])


def test_pools_hold_one_split_and_no_draws_of_a_second_stage(tmp_path: Path) -> None:
    found = pools(sweep(tmp_path, "p", "strategy=cascade", *SECOND, "strategy.then_draws=3", "strategy.threshold=0.75"))
    assert [(pool.labels["split"], pool.n, len(pool.problems)) for pool in found] == [("dev", 4, PROBLEMS), ("heldout", 4, PROBLEMS)]
    for pool in found:
        assert all(f"/{pool.labels['split']}/" in problem for problem in pool.problems)
