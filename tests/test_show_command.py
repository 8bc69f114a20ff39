"""One row of a study, read in the terminal: ids by their beginning, what was cut and why, and thinking that is not disclosed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.servers.openai_chat import BROKEN, Reply
from tests.sweep.conftest import Outcome, Sweep, sweep
from tests.sweep.test_providers import serving
from ttc_eval import inspection
from ttc_eval.cli import main
from ttc_eval.errors import UserError

__all__ = ["sweep"]


def call(**changes: Any) -> dict[str, Any]:
    """A row of `calls` that succeeded."""
    request = {"messages": [["user", "q"]], "thinking": ["off", None, None, "answer", 1], "prefix": ""}
    row = {
        "call_id": "1",
        "status": "ok",
        "answer_text": "4",
        "thinking_text": None,
        "reasoning_tokens": None,
        "output_tokens": 5,
        "input_tokens": 3,
        "cached_input_tokens": None,
        "cache_write_tokens": None,
        "usage_source": "provider",
        "stop_reason": "end_turn",
        "stop_reason_raw": "stop",
        "response_id": None,
        "max_output_tokens": 100,
        "requested_budget": None,
        "cost_usd": None,
        "price_version": None,
        "started_at": 0.0,
        "first_token_s": 0.5,
        "latency_s": 1.0,
        "request": orjson.dumps(request).decode(),
    }
    return row | changes


def thinking(mode: str) -> str:
    return orjson.dumps({"messages": [], "thinking": [mode, None, None, "answer", 1]}).decode()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (call(), "none"),
        (call(thinking_text="hm", reasoning_tokens=3), "hm"),
        (call(reasoning_tokens=12), "not disclosed (12 tokens)"),
        (call(thinking_text="", reasoning_tokens=None), "not disclosed"),
        (call(reasoning_tokens=0, request=thinking("effort")), "none"),
        (call(request=thinking("effort")), "not disclosed (its tokens are not reported)"),
    ],
)
def test_thinking_that_is_not_shown_is_said_to_be(row: dict[str, Any], said: str) -> None:
    assert inspection.thinking_of(row) == said


def test_a_cut_answer_says_to_raise_the_cap_and_not_to_lower_the_budget() -> None:
    advice = inspection.cut_advice(call(stop_reason="max_tokens", reasoning_tokens=90, thinking_text="hm", requested_budget=90))
    assert advice is not None
    assert "raise the cap" in advice
    assert "do not lower the budget" in advice
    assert "left 10 for the answer" in advice
    plain = inspection.cut_advice(call(stop_reason="max_tokens", reasoning_tokens=0))
    assert plain is not None
    assert "budget;" not in plain
    assert inspection.cut_advice(call()) is None
    assert inspection.cut_advice(call(status="error", stop_reason=None)) is None


@pytest.fixture
def outcome(sweep: Sweep) -> Outcome:
    def answer(body: dict[str, Any], number: int) -> Reply:
        if number == 1:
            return Reply(text="forty", thinking="two and two and two", finish="length")
        return Reply(text="42", thinking="hm [bold]ok[/bold]")

    with serving(answer=answer, script=[BROKEN]) as server:
        base = ["model=vllm", f"model.base_url={server.url}", "dataset=quickstart", "dataset.limit=3", "model.max_concurrency=1"]
        more = ["thinking=budget", "thinking.budget=50", "retry.first_wait_s=0.001", "strategy=self_consistency", "strategy.max_attempts=2"]
        done = sweep(*base, *more)
    assert done.code == 0, done.out
    return done


def show(outcome: Outcome, given: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["show", str(outcome.path), given]) == 0
    return capsys.readouterr().out


def test_every_kind_of_thing_is_shown(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    cut = outcome.one("SELECT call_id, response_id FROM calls WHERE stop_reason = 'max_tokens'")["call_id"]
    text = show(outcome, cut, capsys)
    assert "raise the cap" in text
    assert "do not lower the budget" in text
    assert "two and two and two" in text
    assert "thinking_token_budget" in text
    row = outcome.study.sql("SELECT cell_id, problem_id FROM candidates WHERE NOT complete LIMIT 1").to_dict("records")[0]
    solution = show(outcome, f"{row['cell_id']}:{row['problem_id']}", capsys)
    assert "cut, does not vote" in solution
    assert "raise the cap" in solution
    candidate = show(outcome, f"{row['cell_id']}:{row['problem_id']}#1", capsys)
    assert "hm [bold]ok[/bold]" in candidate, "text of a model is never markup"
    assert "answer: '42'" in candidate
    problem = show(outcome, row["problem_id"], capsys)
    assert "reference:" in problem
    assert row["cell_id"] in problem
    failed = outcome.one("SELECT call_id FROM calls WHERE status = 'error'")["call_id"]
    text = show(outcome, failed, capsys)
    assert "server_error, HTTP 500" in text
    assert "input: unknown" in text


def test_the_beginning_of_an_id_will_do_and_several_are_listed(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    study = outcome.study
    row = study.sql("SELECT cell_id, problem_id FROM solutions LIMIT 1").to_dict("records")[0]
    whole = f"{row['cell_id']}:{row['problem_id']}"
    assert inspection.found(study, f"{row['cell_id'][:6]}:{row['problem_id'][:-3]}").id == whole
    assert inspection.found(study, whole).kind == "solution"
    candidate = inspection.found(study, f"{row['cell_id'][:6]}:{row['problem_id']}#0")
    assert (candidate.kind, candidate.position, candidate.problem_id) == ("candidate", 0, row["problem_id"])
    assert inspection.found(study, row["problem_id"]).kind == "problem"
    calls = study.sql("SELECT call_id FROM calls")["call_id"].tolist()
    assert inspection.found(study, calls[0][:14]).id == calls[0]
    with pytest.raises(UserError) as several:
        inspection.found(study, "quickstart/")
    assert str(several.value).count("problem  ") == 3
    assert main(["show", str(outcome.path), "quickstart/"]) == 2
    assert "give more of one of these ids" in capsys.readouterr().err
    for nothing in ("nope", "a:b#9", "%", "'; DROP TABLE calls", "[a-z]:.*"):
        with pytest.raises(UserError, match="has no problem"):
            inspection.found(study, nothing)


def test_the_newest_study_is_the_default(outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (outcome.path.parent / "results").mkdir()
    monkeypatch.chdir(outcome.path.parent)
    for path in (outcome.path, outcome.path.with_suffix(".journal")):
        path.rename(Path("results") / path.name)
    from ttc_eval.study import newest_study, open_study

    first = open_study(newest_study()).sql("SELECT problem_id FROM problems LIMIT 1")["problem_id"][0]
    assert main(["show", first]) == 0
    assert "reference:" in capsys.readouterr().out
