"""CodeT's rule: the best consensus set by brute force, and the strategy in whole sweeps, with given and with generated tests."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.conftest import sandbox  # noqa: F401
from tests.sweep.conftest import Sweep, sweep  # noqa: F401
from tests.verifiers.test_code_verifier import GIVEN, HIDDEN, PROMPT, scripted
from ttc_eval.errors import UserError
from ttc_eval.records import Candidate
from ttc_eval.sandbox import Sandbox
from ttc_eval.strategies.code_agreement import CodeAgreement, Weight, agreed


def program(position: int, votes: bool = True) -> Candidate:
    return Candidate(position, position, "", "x" if votes else None, "x" if votes else None, complete=votes)


outcomes = st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n), max_size=7))


@given(outcomes, st.sampled_from(list(Weight)), st.data())
def test_the_best_consensus_set_wins(passed: list[list[float]], weight: Weight, data: st.DataObject) -> None:
    candidates = [program(place, data.draw(st.booleans()) or place % 3 > 0) for place in range(len(passed))]
    selected = agreed(candidates, dict(enumerate(passed)), weight)
    voting = [one for one in candidates if one.votes]

    def score(one: Candidate) -> float:
        alike = sum(passed[other.position] == passed[one.position] for other in voting)
        return (math.sqrt(alike) if weight is Weight.SQRT else alike) * sum(passed[one.position])

    best = max(map(score, voting), default=0.0)
    if best == 0:
        assert selected is None
        return
    assert selected is not None
    assert score(selected) == best
    assert selected.position == min(one.position for one in voting if score(one) == best)


def test_programs_that_were_not_run_are_in_no_set() -> None:
    assert agreed([program(0), program(1)], {1: (1.0,)}) == program(1)
    assert agreed([program(0)], {0: ()}) is None
    assert agreed([], {}) is None


def test_the_two_weights_can_differ() -> None:
    passed = {0: (1.0, 1.0, 1.0, 0.0), 1: (1.0, 0.0, 0.0, 0.0), 2: (1.0, 0.0, 0.0, 0.0), 3: (1.0, 0.0, 0.0, 0.0), 4: (1.0, 0.0, 0.0, 0.0)}
    assert agreed([program(place) for place in passed], passed) == program(1)
    assert agreed([program(place) for place in passed], passed, Weight.SQRT) == program(0)


@pytest.mark.parametrize("options", [{"n": 0}, {"tests_per_reply": 0}, {"test_replies": -1}])
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="strategy"):
        CodeAgreement(**options)


# In sweeps. Reply i is draw i: of programs when programs are drawn, of tests when tests are asked for.

RIGHT, WRONG, OTHER = (f"```python\n{PROMPT}    return {body}\n```" for body in ("x + x", "x * x", "4"))
TESTS = "```python\nassert double(1) == 2\nassert double(3) == 6\nassert double(2) == 5\n```"


def run(sweep: Sweep, tmp_path: Path, replies: list[str], *more: str, tests: list[str] | None = None) -> Any:  # noqa: F811
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps({"task_id": "t/0", "test": HIDDEN, **GIVEN, "tests": tests or []}) + "\n")
    dataset = ["dataset=humaneval", f"dataset.path={path}", "dataset.given=[entry_point,prompt,tests]", "allow_code_execution=true"]
    return sweep(*scripted(tmp_path, replies), *dataset, "strategy=code_agreement", "verifier=code", *more)


def test_given_tests_and_programs_agree(sandbox: Sandbox, sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    tests = ["assert double(1) == 2", "assert double(3) == 6", "assert double(2) == 4", "assert double(2) == 5"]
    replies = [OTHER, WRONG, OTHER, RIGHT, RIGHT, "no program", OTHER]
    outcome = run(sweep, tmp_path, replies, "strategy.n=7", "strategy.test_replies=0", tests=tests)
    assert outcome.code == 0, outcome.err
    row = outcome.one("SELECT answer, stop_reason, charged_calls, charged_verifier_calls FROM solutions")
    assert "x + x" in row["answer"], "two programs and three tests outweigh three programs and one test"
    assert (row["stop_reason"], row["charged_calls"], row["charged_verifier_calls"]) == ("attempt_limit", 7, 6)
    assert outcome.one("SELECT success FROM cell_metrics") == {"success": 1.0}


def test_the_model_writes_the_tests(sandbox: Sandbox, sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    replies = [f"{TESTS}\n{RIGHT}", f"{TESTS}\n{WRONG}", RIGHT]
    outcome = run(sweep, tmp_path, replies, "strategy.n=3", "strategy.test_replies=2", "strategy.tests_per_reply=2")
    assert outcome.code == 0, outcome.err
    row = outcome.one("SELECT answer, charged_calls FROM solutions")
    assert "x + x" in row["answer"]
    assert row["charged_calls"] == 5, "the replies with tests are charged"
    steps = outcome.study.sql("SELECT steps FROM scores ORDER BY position")["steps"]
    assert [json.loads(one) for one in steps] == [[1.0] * 4, [0.0] * 4, [1.0] * 4]
    roles = outcome.study.sql("SELECT role, count(*) AS n FROM calls GROUP BY role ORDER BY role").to_dict("records")
    assert roles == [{"role": "generate", "n": 3}, {"role": "verify", "n": 2}]


def test_without_a_test_that_can_be_read_nothing_is_selected(sandbox: Sandbox, sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    outcome = run(sweep, tmp_path, [RIGHT, RIGHT], "strategy.n=2", "strategy.test_replies=1")
    row = outcome.one("SELECT selected, error, charged_verifier_calls FROM solutions")
    assert (row["selected"], row["error"], row["charged_verifier_calls"]) == (False, "no test could be read", 1)


def test_a_limit_ends_it_with_what_was_found(sandbox: Sandbox, sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    tests = ["assert double(1) == 2"]
    options = ("strategy.n=3", "strategy.test_replies=0", "limits.problem.verifier_calls=2")
    outcome = run(sweep, tmp_path, [WRONG, RIGHT, RIGHT], *options, tests=tests)
    row = outcome.one("SELECT answer, stop_reason FROM solutions")
    assert "x + x" in row["answer"]
    assert row["stop_reason"] == "call_budget"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("verifier=outcome",), "add verifier=code"),
        (("strategy.test_replies=0",), "states no tests"),
    ],
)
def test_what_cannot_agree_is_refused(sandbox: Sandbox, sweep: Sweep, tmp_path: Path, more: tuple[str, ...], said: str) -> None:  # noqa: F811
    outcome = run(sweep, tmp_path, [RIGHT], *more)
    assert outcome.code == 2
    assert said in outcome.err
