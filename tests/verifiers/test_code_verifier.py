"""The verifier that runs programs: per-test outcomes, opt-in, and grading by hidden tests in a whole sweep."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.conftest import sandbox  # noqa: F401
from tests.sweep.conftest import Sweep, sweep  # noqa: F401
from ttc_eval.errors import UserError
from ttc_eval.grading import grade
from ttc_eval.records import AnswerContract, Candidate, ContractKind, Message, Problem, Question, Solution, StopReason
from ttc_eval.sandbox import Sandbox
from ttc_eval.verifiers import LocalVerifier, Reading
from ttc_eval.verifiers.code import Code, Scoring, Source

PROMPT = 'def double(x):\n    """ Twice x.\n    >>> double(2)\n    4\n    >>> double(0)\n    0\n    """\n'
GIVEN = {"entry_point": "double", "prompt": PROMPT, "tests": ["assert double(2) == 4", "assert double(3) == 6", "assert double(2) == 4"]}
QUESTION = Question("p", (Message("user", PROMPT),), AnswerContract(ContractKind.CODE), GIVEN)
HIDDEN = "def check(candidate):\n    assert candidate(5) == 10\n    assert candidate(-1) == -2\n"
REPLIES = {
    "right": "    return 2 * x",
    "squares": "    return x * x",
    "constant": "def double(x): return 4",
    "broken": "    return (",
    "exits": "import os; os._exit(0)",
}


def candidate(text: str, position: int = 0) -> Candidate:
    return Candidate(position, position, text, text, f"code:{position:032x}", complete=True)


def read(text: str, question: Question = QUESTION, **options: Any) -> Reading:
    return asyncio.run(Code(**options).check(question, candidate(text)))


def test_each_step_is_a_test(sandbox: Sandbox) -> None:  # noqa: F811
    assert isinstance(Code(), LocalVerifier)
    reading = read(REPLIES["squares"])
    assert reading.steps == (1.0, 0.0, 1.0), "in the order of the tests, each as often as it was written"
    assert reading.score == pytest.approx(2 / 3)
    assert "assertion failed" in str(reading.rationale)
    assert read(REPLIES["squares"], score=Scoring.ALL).score == 0.0
    assert read(REPLIES["right"], score=Scoring.ALL) == Reading(1.0, None, steps=(1.0, 1.0, 1.0))
    assert read(REPLIES["exits"]).score == 0.0


def test_the_examples_of_the_prompt_can_be_the_tests(sandbox: Sandbox) -> None:  # noqa: F811
    assert read(REPLIES["squares"], tests=Source.PROMPT).steps == (1.0, 1.0)
    assert read(REPLIES["constant"], tests=Source.PROMPT).steps == (1.0, 0.0)


def test_what_cannot_be_judged_is_no_score(sandbox: Sandbox) -> None:  # noqa: F811
    assert read("x", replace(QUESTION, given={**GIVEN, "tests": []})) == Reading(None, problem="no_tests")
    nothing = asyncio.run(Code().check(QUESTION, replace(candidate("x"), answer=None)))
    assert nothing == Reading(None, problem="no_answer")


def test_a_question_that_is_no_program_is_refused() -> None:
    with pytest.raises(UserError, match="it runs programs"):
        Code().check_question(replace(QUESTION, contract=AnswerContract()))
    with pytest.raises(UserError, match="the column entry_point"):
        Code().check_question(replace(QUESTION, given={"tests": []}))
    with pytest.raises(UserError, match="the column prompt"):
        Code(tests=Source.PROMPT).check_question(replace(QUESTION, given={"entry_point": "f"}))


def test_grading_runs_the_hidden_tests_and_only_when_it_may(sandbox: Sandbox) -> None:  # noqa: F811
    problem = Problem("p", "d", "test", QUESTION.messages, HIDDEN, QUESTION.contract, given=GIVEN)
    candidates = tuple(candidate(REPLIES[name], place) for place, name in enumerate(("right", "squares", "exits")))
    solution = Solution(StopReason.ATTEMPT_LIMIT, 3, 3, candidates)
    assert list(asyncio.run(grade(problem, solution, run_code=True)).values()) == [True, False, False]
    with pytest.raises(UserError, match="code_execution_not_enabled"):
        asyncio.run(grade(problem, solution))


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps({"task_id": "t/0", "test": HIDDEN, **GIVEN}) + "\n")
    return path


def scripted(folder: Path, replies: list[str]) -> list[str]:
    """Arguments for a model with these replies: a command line has no way to write a line's end."""
    config = folder / "configs" / "model" / "programs.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"_target_": "ttc_eval.models.scripted.ScriptedModel", "replies": replies}))
    return ["--config-dir", str(folder / "configs"), "model=programs"]


def arguments(problems: Path, *more: str) -> list[str]:
    replies = [f"```python\n{PROMPT}{text}\n```" if text[0] == " " else f"```\n{text}\n```" for text in REPLIES.values()]
    dataset = ["dataset=humaneval", f"dataset.path={problems}", "dataset.given=[entry_point,prompt,tests]"]
    return [*scripted(problems.parent, replies), *dataset, *more]


@pytest.mark.parametrize(
    "more", [(), ("verifier=code", "strategy=best_of_n"), ("allow_code_execution=null",), ("allow_code_execution=false",)]
)
def test_code_is_not_run_unless_it_is_asked_for(sweep: Sweep, problems: Path, shared: Path, more: tuple[str, ...]) -> None:  # noqa: F811
    cases = [json.loads(line) for line in (shared / "cases" / "cases.jsonl").read_text().splitlines()]
    (case,) = [case for case in cases if case["id"] == "code_sandbox-08"]
    outcome = sweep(*arguments(problems, *more))
    assert outcome.code == 2
    assert not outcome.path.exists(), "nothing was drawn"
    assert case["expected"]["error"] in outcome.err or "allow_code_execution=None: give true or false" in outcome.err


def test_a_verifier_of_code_is_refused_for_other_questions(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep("model=scripted", "model.replies=[1]", "verifier=code", "strategy=best_of_n")
    assert outcome.code == 2
    assert "code_execution_not_enabled: verifier=code" in outcome.err


@pytest.mark.parametrize("more", [(), ("verifier=code", "strategy=best_of_n"), ("verifier=code", "strategy=code_agreement")])
def test_no_sandbox_is_said_before_anything_is_drawn(
    sweep: Sweep,  # noqa: F811
    problems: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    more: tuple[str, ...],
) -> None:
    from ttc_eval.sandbox import probe

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(probe, "find", probe.look)
    outcome = sweep(*arguments(problems, "allow_code_execution=true", *more))
    assert outcome.code == 2
    assert "apt install bubblewrap" in outcome.err
    assert len(outcome.err.strip().splitlines()) <= 2
    assert not outcome.path.exists(), "nothing was drawn"


def test_a_sweep_selects_by_public_tests_and_is_graded_by_hidden_ones(sandbox: Sandbox, sweep: Sweep, problems: Path) -> None:  # noqa: F811
    outcome = sweep(*arguments(problems, "allow_code_execution=true", "verifier=code", "strategy=best_of_n", "strategy.n=5"))
    assert outcome.code == 0, outcome.err
    solution = outcome.one("SELECT answer, charged_verifier_calls, stop_reason FROM solutions")
    assert "2 * x" in solution["answer"]
    assert solution["charged_verifier_calls"] == 4, "the program that does not parse is no candidate for a score"
    scores = outcome.study.sql("SELECT kind, score, steps, latency_s FROM scores ORDER BY position").to_dict("records")
    assert [round(row["score"], 2) for row in scores] == [1.0, 0.67, 0.67, 0.0]
    assert json.loads(scores[1]["steps"]) == [1.0, 0.0, 1.0]
    assert {row["kind"] for row in scores} == {"code"}
    assert all(row["latency_s"] > 0 for row in scores)
    assert outcome.one("SELECT success, candidate_success FROM cell_metrics") == {"success": 1.0, "candidate_success": 1.0}
    graded = outcome.study.sql("SELECT correct, grader FROM grades").to_dict("records")
    assert sorted(row["correct"] for row in graded) == [False, False, False, True]
    assert {row["grader"] for row in graded} == {"code"}
