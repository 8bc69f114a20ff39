"""A sweep on the lab model with its trained verifier: real draws, real scores, and no difference from how they were batched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sweep.conftest import Sweep
from ttc_eval.lab.card import sample, score
from ttc_eval.lab.corpus import draw_chains
from ttc_eval.lab.task import Chain, Split
from ttc_eval.lab.turn import Rules
from ttc_eval.lab.weights import load_weights
from ttc_eval.metrics import auroc, auroc_within
from ttc_eval.report.files import by_difficulty, write_report

LAB = [
    "model=lab", "dataset=lab", "dataset.limit=24", "verifier=lab", "answer_tokens=8", "sampling.temperature=1", "thinking=budget",
    "thinking.budget=96",
]  # fmt: skip


def test_a_verifier_of_its_own_scores_every_step_and_is_charged(sweep: Sweep) -> None:
    outcome = sweep(*LAB, "strategy=best_of_n_4")
    assert outcome.code == 0, outcome.err
    cell = outcome.one("SELECT verifier, simulated, n_problems, coverage, success, candidate_success FROM cell_metrics")
    assert (cell["verifier"], cell["simulated"], cell["n_problems"]) == ("lab:prod", False, 24)
    assert 0.4 < cell["success"] <= cell["candidate_success"]
    calls = outcome.one("SELECT count(*) FILTER (role = 'generate') AS drawn, count(DISTINCT model) AS models FROM calls")
    assert calls == {"drawn": 96, "models": 2}
    charged = outcome.one("SELECT sum(charged_calls) AS calls, sum(charged_verifier_calls) AS scored FROM solutions")
    votes = outcome.one("SELECT count(*) AS n FROM scores WHERE valid")["n"]
    assert (charged["calls"], charged["scored"]) == (96 + votes, votes)
    steps = outcome.one("SELECT min(score) AS low, max(score) AS high, count(*) FILTER (steps IS NULL) AS without FROM scores")
    assert 0 <= steps["low"] <= steps["high"] <= 1
    assert steps["without"] == 0


def test_a_verifier_that_a_strategy_never_asks_is_no_part_of_its_cell(sweep: Sweep) -> None:
    outcome = sweep("-m", *LAB, "strategy=single,self_consistency_4")
    assert outcome.code == 0, outcome.err
    found = outcome.one("SELECT count(*) AS cells, count(verifier) AS verified FROM cells")
    assert found == {"cells": 2, "verified": 0}


def test_the_report_shows_what_a_budget_buys_by_difficulty(sweep: Sweep, tmp_path: Path) -> None:
    outcome = sweep("-m", *LAB, "thinking.budget=0,32,96", "strategy=single,self_consistency_4")
    assert outcome.code == 0, outcome.err
    rows = by_difficulty(outcome.study)
    assert rows["n_problems"].sum() == 3 * 24, "single draws only, every problem once a budget"
    assert rows["strategy_label"].nunique() == 4
    assert ((rows["success_low"] <= rows["success"]) & (rows["success"] <= rows["success_high"])).all()
    written = write_report(outcome.study, tmp_path / "report")
    assert tmp_path / "report" / "budget-curve-by-difficulty.pdf" in written


def test_a_draw_is_the_same_in_any_company_and_begins_the_same_under_any_budget(sweep: Sweep) -> None:
    query = "SELECT draw, thinking_text || '|' || answer_text AS said FROM calls ORDER BY request->>'messages', draw"
    together = sweep(*LAB, "strategy=self_consistency_4", "strategy.early_stop=false", study="together")
    alone = sweep(*LAB, "strategy=self_consistency_4", "strategy.early_stop=false", "model.max_concurrency=1", study="alone")
    assert together.study.sql(query).equals(alone.study.sql(query))
    cut = sweep(*LAB, "strategy=self_consistency_4", "strategy.early_stop=false", "thinking.budget=16", study="cut")
    whole = together.study.sql(query)["said"]
    for short, long in zip(cut.study.sql(query)["said"], whole, strict=True):
        assert long.startswith(short.partition("|")[0])


def test_the_shipped_model_and_verifier_are_as_good_as_their_card_says() -> None:
    weights = load_weights()
    rng = np.random.default_rng(7)
    chains: list[Chain] = []
    for steps in (2, 4, 6, 8, 10, 12):
        drawn = draw_chains(rng, 5, steps, Split.DEV)
        chains += [drawn.chain(row) for row in range(5)]
    draws = sample(weights, chains, Rules(104, budget=96))
    scored = score(weights, chains, draws)
    assert 0.55 < draws.right.mean() < 0.9
    assert (auroc(scored.steps, scored.step_right) or 0) > 0.85
    within = auroc_within(scored.whole["prod"], draws.right)
    assert within is not None
    assert within.n > 10
    assert 0.7 < within.value < 0.98


@pytest.mark.parametrize("prompt", ["what is 7?", ""])
def test_a_question_that_is_no_chain_fails_by_itself(sweep: Sweep, prompt: str) -> None:
    outcome = sweep("model=lab", "dataset=one_question", "answer_tokens=8", f"dataset.prompt='{prompt}'")
    assert "no chain" in outcome.err + outcome.out
