"""Budget forcing: thinking that is made to go on, closed at its budget, and refused where a model cannot be made to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.strategies.sequential import Sweeps, check_books, check_repeatable, one, rows
from ttc_eval.errors import UserError
from ttc_eval.strategies import BudgetForcing
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

LAB = ("model=lab", "dataset=lab", "dataset.limit=12", "answer_tokens=8", "sampling.temperature=1.0", "thinking=budget")


@pytest.fixture
def sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeps:
    return Sweeps(tmp_path, capsys)


def test_thinking_that_ends_early_goes_on_as_often_as_stated(sweeps: Sweeps) -> None:
    study = sweeps.run("-m", *LAB, "thinking.budget=250", "strategy=budget_forcing", "strategy.max_extensions=0,1,2")
    waits = rows(study, "SELECT len(string_split(thinking_text, 'Wait')) - 1 AS waits, count(*) FROM calls GROUP BY waits ORDER BY waits")
    assert dict(waits)[0] == 12
    assert set(dict(waits)) == {0, 1, 2}
    assert one(study, "SELECT max(reasoning_tokens) FROM calls") <= 250
    tokens = rows(study, "SELECT strategy_label, charged_output_tokens FROM cell_metrics ORDER BY strategy_label")
    assert [label for label, _ in tokens] == ["budget_forcing@0", "budget_forcing@1", "budget_forcing@2"]
    assert sorted(tokens, key=lambda one: one[1]) == tokens, "more extensions, more tokens"


def test_thinking_is_closed_at_its_budget_and_the_answer_is_forced(sweeps: Sweeps) -> None:
    study = sweeps.run(*LAB, "thinking.budget=12", "strategy=budget_forcing")
    assert one(study, "SELECT max(reasoning_tokens) FROM calls") == 12
    assert one(study, "SELECT count(*) FROM calls WHERE stop_reason = 'budget_exceeded'") == 0
    assert one(study, "SELECT count(*) FROM solutions WHERE selected") >= 10, "the model may still answer in no form that can be read"


@pytest.mark.parametrize(("extensions", "same"), [(0, "thinking.at_limit=answer"), (2, "thinking.at_limit=extend")])
def test_its_draw_is_the_one_that_a_thinking_of_that_form_gives(sweeps: Sweeps, extensions: int, same: str) -> None:
    single = (*LAB, "thinking.budget=120", "strategy=single", same, *(["thinking.max_extensions=2"] if extensions else []))
    sweeps.run(*single)
    study = sweeps.run(*LAB, "thinking.budget=120", "strategy=budget_forcing", f"strategy.max_extensions={extensions}")
    assert one(study, "SELECT count(*) FROM calls") == 12, "drawn once, whoever asked first"
    assert (
        one(
            study,
            "SELECT count(DISTINCT answers) FROM (SELECT list(answer ORDER BY problem_id) AS answers FROM solutions GROUP BY cell_id)",
        )
        == 1
    )


def test_a_model_that_continues_a_prefix_is_forced_segment_by_segment(sweeps: Sweeps) -> None:
    pytest.importorskip("xllamacpp")
    options = ("model=smollm2", "model.max_concurrency=1", "dataset.limit=1", "thinking=budget", "thinking.budget=24", "answer_tokens=4")
    study = sweeps.run(*options, "strategy=budget_forcing")
    check_books(study)
    segments = rows(study, "SELECT request->>'$.messages' AS asked, count(*), sum(output_tokens) FROM calls GROUP BY asked")
    assert all(2 <= count <= 4 and tokens <= 28 for _, count, tokens in segments)
    prefixes = [row[0] for row in rows(study, "SELECT request->>'$.prefix' FROM calls ORDER BY started_at")]
    assert any(" Wait," in prefix for prefix in prefixes)


def test_it_is_repeatable_and_stops_at_limits_by_their_name(sweeps: Sweeps) -> None:
    study = check_repeatable(sweeps, (*LAB, "thinking.budget=64", "strategy=budget_forcing"))
    assert rows(study, "SELECT DISTINCT stop_reason, attempts FROM solutions") == [("attempt_limit", 1)]
    limited = sweeps.run(*LAB, "thinking.budget=64", "strategy=budget_forcing", "limits.problem.output_tokens=64", study="limited")
    assert rows(limited, "SELECT DISTINCT stop_reason, attempts, charged_calls FROM solutions") == [("output_budget", 0, 0)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("model=simulated", "thinking=budget", "thinking.budget=64"), "cannot be made to think on"),
        (("model=scripted", "model.replies=[a]", "dataset=one_question"), "no budget to force"),
        (("model=lab", "dataset=lab"), "thinking.budget=N"),
        (("model=lab", "dataset=lab", "thinking=budget", "thinking.budget=0"), "no budget to force"),
        (
            ("model=lab", "dataset=lab", "thinking=budget", "thinking.budget=9", "thinking.at_limit=fail"),
            "leave out thinking.at_limit=fail",
        ),
        (("model=lab", "dataset=lab", "thinking=budget", "thinking.budget=9", "strategy.max_extensions=-1"), "give 0 to 32"),
    ],
)
def test_what_cannot_be_forced_is_refused_before_any_call(sweeps: Sweeps, options: tuple[str, ...], said: str) -> None:
    assert said in sweeps.refused("strategy=budget_forcing", *options)


def test_a_provider_whose_budget_is_only_a_bound_is_refused(sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "planted-key-123456")
    claude = ("model=anthropic_haiku_4_5", "dataset=one_question", "sampling.temperature=null", "thinking=budget", "thinking.budget=2048")
    assert "cannot be made to think on" in sweeps.refused("strategy=budget_forcing", *claude)


@pytest.mark.parametrize(("extensions", "at_limit"), [(0, AtLimit.ANSWER), (3, AtLimit.EXTEND)])
def test_it_declares_the_thinking_that_it_asks_for(extensions: int, at_limit: AtLimit) -> None:
    changes: dict[str, Any] = {"mode": ThinkingMode.BUDGET, "budget": 9}
    [found] = BudgetForcing(extensions).thinkings(Thinking(**changes))
    assert (found.budget, found.at_limit) == (9, at_limit)
    with pytest.raises(UserError, match="budget"):
        BudgetForcing(extensions).thinkings(Thinking())
