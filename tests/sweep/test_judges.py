"""A judge that could not be asked is refused before a draw is paid for."""

from __future__ import annotations

import pytest

from tests.sweep.conftest import Sweep

CLAUDE = ["dataset=one_question", "sampling.temperature=null", "strategy=best_of_n", "verifier=outcome"]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "planted-key-123456")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model=anthropic_haiku_4_5"], "temperature"),
        (["model=scripted", "model.replies=[a]", "model@verifier_model=anthropic_haiku_4_5"], "temperature"),
        (["model=scripted", "model.replies=[a]", "model@verifier_model=anthropic_opus_5_5", "verifier.temperature=null"], "takes"),
    ],
)
def test_a_judge_that_its_api_would_refuse_is_refused_first(sweep: Sweep, overrides: list[str], said: str) -> None:
    outcome = sweep(*CLAUDE, *overrides)
    assert outcome.code == 2
    assert "cannot be asked for scores" in outcome.err
    assert said in outcome.err
    assert not outcome.path.exists(), "nothing was sent, and nothing stored"


def test_a_strategy_that_asks_no_judge_does_not_mind(sweep: Sweep) -> None:
    asked = ["model=scripted", "model.replies=[a]", "model@verifier_model=anthropic_haiku_4_5"]
    outcome = sweep("dataset=one_question", "strategy=single", "verifier=outcome", *asked)
    assert outcome.code == 0, outcome.err


def test_a_judges_unlisted_price_is_told_of(sweep: Sweep) -> None:
    judge = ["model@verifier_model=simulated", "verifier_model.price={provider: openai, model: no-such-model, own: null}"]
    outcome = sweep("model=simulated", "dataset=quickstart", "dataset.limit=2", "strategy=best_of_n", "verifier=outcome", *judge)
    assert outcome.code == 0, outcome.err
    assert "no-such-model" in outcome.err + outcome.out
    solutions = outcome.study.sql("SELECT charged_usd FROM solutions")
    assert solutions["charged_usd"].isna().all(), "unknown is NULL, never 0"
