"""Scheduling: the impossible is refused at once, what is proven lost is lost, and whole answers are checked, all against brute force."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.answers import canonical, extract
from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, ContractKind
from ttc_eval.tasks import IllegalMove, Schedule, impossible, task_of, winnable

TASK = Schedule()
CONTRACT = AnswerContract(ContractKind.STATE, task="schedule")
PROBLEM = {
    "jobs": [
        {"name": "A", "hours": 3, "needs": ["crane"]},
        {"name": "B", "hours": 2, "needs": []},
        {"name": "C", "hours": 4, "needs": None},
    ],
    "machines": [{"name": "M1", "hours": 5, "has": ["crane"]}, {"name": "M2", "hours": 4, "has": []}],
}

features = st.lists(st.sampled_from(["crane", "oven"]), unique=True)
problems = st.builds(
    lambda jobs, machines: {
        "jobs": [{"name": "ABCDE"[place], "hours": hours, "needs": needs[:1]} for place, (hours, needs) in enumerate(jobs)],
        "machines": [{"name": f"M{place}", "hours": hours, "has": has} for place, (hours, has) in enumerate(machines)],
    },
    st.lists(st.tuples(st.integers(1, 6), features), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 12), features), min_size=1, max_size=3),
)


def right(problem: dict[str, Any], machines: tuple[int, ...]) -> bool:
    """Whether job i on machine `machines[i]` keeps every rule, by the definition."""
    for place, machine in enumerate(problem["machines"]):
        mine = [job for job, where in zip(problem["jobs"], machines, strict=True) if where == place]
        if sum(job["hours"] for job in mine) > machine["hours"] or any(set(job["needs"]) - set(machine["has"]) for job in mine):
            return False
    return True


def assignments(problem: dict[str, Any]) -> list[tuple[int, ...]]:
    return list(product(range(len(problem["machines"])), repeat=len(problem["jobs"])))


@given(problems)
def test_a_whole_answer_is_valid_exactly_if_it_keeps_every_rule(problem: dict[str, Any]) -> None:
    for machines in assignments(problem):
        answer = ", ".join(f"{job['name']} -> M{where}" for job, where in zip(problem["jobs"], machines, strict=True))
        assert TASK.check(problem, answer).valid is right(problem, machines), answer
        assert TASK.check(problem, TASK.canonical(answer) or "").valid is right(problem, machines)


@settings(deadline=None)
@given(problems, st.data())
def test_what_is_proven_lost_cannot_be_completed(problem: dict[str, Any], data: st.DataObject) -> None:
    valid = [machines for machines in assignments(problem) if right(problem, machines)]
    names = [job["name"] for job in problem["jobs"]]
    state = TASK.start(problem)
    while True:
        assigned = dict(state.assigned)
        left = [one for one in valid if all(f"M{one[names.index(job)]}" == machine for job, machine in assigned.items())]
        assert winnable(state) is bool(left)
        assert (impossible(state, 5) is not None) is (not left)
        assert state.bound() is None or not left, "a bound never rejects what can be completed"
        assert TASK.read(problem, state.render()) == state
        moves = list(state.moves())
        if not moves:
            break
        move, after = data.draw(st.sampled_from(moves))
        state = state.play(move)
        assert state == after
    assert state.terminal is (len(state.assigned) == len(names))
    if state.terminal:
        assert TASK.check(problem, state.answer()).valid


def test_an_impossible_assignment_is_rejected_before_the_branch_is_searched() -> None:
    start = TASK.start(PROBLEM)
    assert start.bound() is None
    assert start.play("B -> M1").bound() is None
    worse = start.play("B -> M2")
    assert worse.bound() is not None, "C fits on M1 alone then, and so does A: 7 h on 5"
    assert "7 h" in (worse.bound() or "")
    assert impossible(worse, 0) == worse.bound()


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        ("A -> M2", "A needs crane, which M2 does not have"),
        ("X -> M1", "there is no job X"),
        ("A -> M3", "there is no machine M3"),
        ("C -> M1", "C takes 4 h, and M1 has 2 h left"),
        ("A and B to M1", "JOB -> MACHINE"),
        ("", "JOB -> MACHINE"),
    ],
)
def test_an_illegal_move_says_why(move: str, reason: str) -> None:
    state = TASK.start(PROBLEM)
    if move.startswith("C"):
        state = state.play("A -> M1")
    with pytest.raises(IllegalMove, match=reason):
        state.play(move)
    with pytest.raises(IllegalMove, match="A is assigned already, to M1"):
        TASK.start(PROBLEM).play("A -> M1").play("a -> m1")


@pytest.mark.parametrize("move", ["C -> M2", "c → m2", "Assign job C to machine M2.", "C: M2 (4 h, none left)", "C = M2"])
def test_a_move_is_read_in_the_usual_spellings(move: str) -> None:
    assert TASK.start(PROBLEM).play(move).assigned == (("C", "M2"),)


def test_what_was_done_before_makes_no_other_state() -> None:
    problem = {**PROBLEM, "jobs": [{"name": name, "hours": 1, "needs": []} for name in "AB"]}
    start = TASK.start(problem)
    assert start.play("A -> M1").play("B -> M2").key == start.play("B -> M1").play("A -> M2").key


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: C -> M2, A -> M1, B -> M1.", "A -> M1, B -> M1, C -> M2"),
        ("Answer:\n- A: M1\n- B: M1\n- C: M2", "A -> M1, B -> M1, C -> M2"),
        ("Answer: job A to machine M1; B to M1 and C to M2", "A -> M1, B -> M1, C -> M2"),
        ("First A.\nA -> M1, B -> M1, C -> M2", "A -> M1, B -> M1, C -> M2"),
        ("Answer: none", None),
    ],
)
def test_the_final_answer_is_found(text: str, answer: str | None) -> None:
    found = extract(text, CONTRACT).answer
    assert (None if found is None else canonical(found, CONTRACT)) == answer
    assert found is None or TASK.check(PROBLEM, found).valid


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("A -> M1, C -> M2", "nobody does B"),
        ("A -> M1, A -> M1, B -> M1, C -> M2", "A is assigned already"),
        ("A -> M1, B -> M1, C -> M1", "has 0 h left"),
        ("everything to M1, please", "not a list"),
    ],
)
def test_a_wrong_answer_says_why(answer: str, reason: str) -> None:
    verdict = TASK.check(PROBLEM, answer)
    assert not verdict.valid
    assert reason in verdict.reason


@given(st.text(max_size=60) | st.text("AB M12->,;:\n", max_size=60))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    name = canonical(text, CONTRACT)
    assert name is None or canonical(name, CONTRACT) == name
    extract(text, CONTRACT)
    TASK.check(PROBLEM, text)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"jobs": [], "machines": []},
        {"jobs": [{"name": "A"}], "machines": PROBLEM["machines"]},
        {"jobs": [{"name": "A b", "hours": 1}], "machines": PROBLEM["machines"]},
        {"jobs": [{"name": "A", "hours": 1.5}], "machines": PROBLEM["machines"]},
        {"jobs": PROBLEM["jobs"] * 2, "machines": PROBLEM["machines"]},
        {"jobs": PROBLEM["jobs"], "machines": [{"name": f"M{place}", "hours": 1} for place in range(9)]},
    ],
)
def test_what_states_no_problem_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"answer\.task=schedule"):
        TASK.start(given)


def test_a_shown_state_that_contradicts_itself_is_none() -> None:
    shown = TASK.start(PROBLEM).play("A -> M1").render()
    with pytest.raises(ValueError, match="contradict"):
        TASK.read(PROBLEM, shown.replace("M1 2 h", "M1 5 h"))
    with pytest.raises(ValueError, match="there is no"):
        TASK.read(PROBLEM, shown.replace("A -> M1", "Z -> M1"))


def test_an_unknown_task_lists_those_there_are() -> None:
    for name in (None, "sudoku", "mine.sudoku.Sudoku"):
        with pytest.raises(UserError, match="game24, schedule"):
            task_of(name)
    assert task_of("ttc_eval.tasks.schedule.Schedule") == TASK
