"""The noisy oracle: a simulated verifier of set quality, on answers of any model; what it scores is marked simulated."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from tests.sweep.conftest import Outcome, Sweep, sweep  # noqa: F401
from ttc_eval import cli
from ttc_eval.errors import UserError
from ttc_eval.models.noisy_oracle import NoisyOracleModel
from ttc_eval.records import AnswerContract, ContractKind, Message, Question
from ttc_eval.verifiers import NoisyOracle

LAB = ["model=lab", "dataset=lab", "dataset.limit=80", "thinking=budget", "thinking.budget=32", "strategy=best_of_n", "strategy.n=4"]
ORACLE = ["verifier=noisy_oracle"]


def auroc(scores: pd.DataFrame) -> tuple[float, float]:
    """The measured area under the curve, ties half, and its standard error (Hanley and McNeil, 1982)."""
    right, wrong = scores[scores["correct"]]["score"], scores[~scores["correct"]]["score"]
    area = sum((right > value).mean() + (right == value).mean() / 2 for value in wrong) / len(wrong)
    one, two = area / (2 - area), 2 * area**2 / (1 + area)
    square = area * (1 - area) + (len(right) - 1) * (one - area**2) + (len(wrong) - 1) * (two - area**2)
    return area, math.sqrt(square / (len(right) * len(wrong)))


def distinct(outcome: Outcome) -> pd.DataFrame:
    """One score for each question and text: the same text gets the same score."""
    return outcome.study.sql(
        """SELECT DISTINCT s.problem_id, l.answer_text, s.score, s.correct FROM verifier_scores s
           JOIN candidates c USING (cell_id, problem_id, position) JOIN calls l ON l.call_id = c.call_ids->>'$[0]'"""
    )


@pytest.mark.parametrize("quality", [0.5, 0.9])
def test_its_measured_quality_is_the_one_that_was_set(sweep: Sweep, quality: float) -> None:  # noqa: F811
    outcome = sweep(*LAB, *ORACLE, f"verifier_model.auroc={quality}")
    assert outcome.code == 0, outcome.err
    area, error = auroc(distinct(outcome))
    assert error < 0.06
    assert abs(area - quality) < 3 * error
    assert outcome.study.sql("SELECT DISTINCT simulated FROM cells")["simulated"].tolist() == [True]
    assert outcome.study.sql("SELECT role, simulated FROM calls GROUP BY ALL ORDER BY role").values.tolist() == [
        ["generate", False],
        ["verify", True],
    ]
    assert "imulated" in outcome.out + outcome.err


def test_a_better_oracle_selects_better_on_the_same_draws(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep("-m", *LAB, *ORACLE, "verifier_model.auroc=0.5,0.99")
    assert outcome.code == 0, outcome.err
    cells = outcome.study.sql("SELECT success, candidate_success FROM cell_metrics ORDER BY success")
    assert cells["candidate_success"].nunique() == 1
    assert cells["success"].is_monotonic_increasing
    assert cells["success"].iloc[-1] > cells["success"].iloc[0]
    assert cells["candidate_success"].iloc[0] - cells["success"].iloc[-1] < 0.05
    assert outcome.one("SELECT count(*) AS n FROM calls WHERE role = 'generate'") == {"n": 320}


def test_it_scores_stored_answers_of_other_models(sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    outcome = sweep(
        "model=scripted", "model.replies=[42,41,six]", "dataset=one_question", "strategy=self_consistency_4", "strategy.max_attempts=3"
    )
    assert cli.main(["verify", str(outcome.path), *ORACLE, "what=answer", "verifier_model.auroc=0.999999"]) == 0
    rows = outcome.study.sql("SELECT answer_text, score FROM trace_scores JOIN calls USING (call_id) ORDER BY draw").values.tolist()
    assert [text for text, _ in rows][:2] == ["42", "41"]
    assert rows[0][1] > 0.9
    assert all(score < 0.1 for _, score in rows[1:])


def test_invalid_replies_are_invalid_scores(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep(*LAB, *ORACLE, "dataset.limit=20", "verifier_model.invalid=0.5")
    scores = outcome.study.scores()
    assert 0 < scores["valid"].sum() < len(scores)
    assert scores[~scores["valid"]]["score"].isna().all()


def test_its_usage_and_latency_are_recorded_within_what_was_reserved(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep(*LAB, *ORACLE, "dataset.limit=5", "verifier.answer_tokens=4", "verifier_model.seconds=2.5")
    assert outcome.code == 0, outcome.err
    calls = outcome.study.sql("SELECT DISTINCT output_tokens, latency_s FROM calls WHERE role = 'verify'")
    assert calls.values.tolist() == [[4, 2.5]]


def test_another_setting_is_another_endpoint_and_what_it_cannot_do_is_refused(sweep: Sweep) -> None:  # noqa: F811
    assert len({NoisyOracleModel(auroc=value, seed=seed).info.endpoint for value in (0.7, 0.8) for seed in (0, 1)}) == 4
    for auroc_set in (0, 1):
        outcome = sweep(*LAB, *ORACLE, f"verifier_model.auroc={auroc_set}")
        assert outcome.code == 2
        assert "between 0 and 1" in outcome.err
    program = Question("p", (Message("user", "def f():"),), AnswerContract(ContractKind.CODE))
    with pytest.raises(UserError, match="verifier=code"):
        NoisyOracle().check_question(program)
