"""Game of 24: exact arithmetic, legal moves and solvability against a brute force of another kind, and the published labels."""

from __future__ import annotations

import csv
import json
import operator
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.answers import canonical, extract
from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, ContractKind
from ttc_eval.tasks import Game24, IllegalMove, impossible, winnable
from ttc_eval.tasks.arithmetic import NotArithmetic, parse, plain_signs, spelled, value

TASK = Game24()
CONTRACT = AnswerContract(ContractKind.STATE, task="game24")
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": lambda a, b: Fraction(a) / b}
numbers = st.lists(st.integers(1, 13), min_size=4, max_size=4)


def given_(*puzzle: int) -> dict[str, Any]:
    return {"numbers": list(puzzle)}


def brute_force(puzzle: list[int]) -> str | None:
    """A solution by writing down every expression of four numbers: all orders, operators and bracketings."""
    shapes = ["(({}{}{}){}{}){}{}", "({}{}({}{}{})){}{}", "({}{}{}){}({}{}{})", "{}{}(({}{}{}){}{})", "{}{}({}{}({}{}{}))"]
    for order in set(permutations(puzzle)):
        for signs in product("+-*/", repeat=3):
            a, b, c, d = (Fraction(number) for number in order)
            f, g, h = (OPERATORS[sign] for sign in signs)
            ways = [
                lambda a=a, b=b, c=c, d=d, f=f, g=g, h=h: h(g(f(a, b), c), d),
                lambda a=a, b=b, c=c, d=d, f=f, g=g, h=h: h(f(a, g(b, c)), d),
                lambda a=a, b=b, c=c, d=d, f=f, g=g, h=h: g(f(a, b), h(c, d)),
                lambda a=a, b=b, c=c, d=d, f=f, g=g, h=h: f(a, h(g(b, c), d)),
                lambda a=a, b=b, c=c, d=d, f=f, g=g, h=h: f(a, g(b, h(c, d))),
            ]
            for shape, way in zip(shapes, ways, strict=True):
                try:
                    if way() == 24:
                        text = [order[0], signs[0], order[1], signs[1], order[2], signs[2], order[3]]
                        return shape.format(*text)
                except ZeroDivisionError:
                    continue
    return None


@settings(max_examples=40, deadline=None)
@given(numbers)
def test_it_can_be_won_exactly_if_some_expression_makes_24(puzzle: list[int]) -> None:
    found = brute_force(puzzle)
    assert winnable(TASK.start(given_(*puzzle))) is (found is not None)
    if found is not None:
        assert TASK.check(given_(*puzzle), found).valid, found


@given(numbers, st.data())
def test_legal_moves_are_all_results_of_two_numbers(puzzle: list[int], data: st.DataObject) -> None:
    state = TASK.start(given_(*puzzle))
    while not state.terminal:
        left = [one.value for one in state.left]
        wanted = set()
        for i, j in permutations(range(len(left)), 2):
            rest = [left[k] for k in range(len(left)) if k not in (i, j)]
            for sign, made in OPERATORS.items():
                if sign != "/" or left[j] != 0:
                    wanted.add(tuple(sorted([*rest, Fraction(made(left[i], left[j]))])))
        moves = list(state.moves())
        assert {tuple(sorted(one.value for one in after.left)) for _, after in moves} == wanted
        move, after = data.draw(st.sampled_from(moves))
        state = state.play(move)
        assert state.key == after.key
        assert TASK.read(given_(*puzzle), state.render()).key == state.key
    answer = state.answer()
    assert TASK.check(given_(*puzzle), answer).valid is state.solved is (state.left[0].value == 24)
    assert value(parse(answer)) == state.left[0].value


@pytest.mark.parametrize(
    ("move", "left"),
    [
        ("10 - 4 = 6", "5 6 6"),
        ("10 − 4 = 6 (left: 5 6 6)", "5 6 6"),
        ("4 - 10 = -6", "-6 5 6"),
        ("4 / 5 = 4/5", "4/5 6 10"),
        ("4 ÷ 5 = 0.8", "4/5 6 10"),
        ("(10)×(5)=50", "4 6 50"),
    ],
)
def test_a_move_is_read_in_the_usual_spellings(move: str, left: str) -> None:
    assert TASK.start(given_(4, 5, 6, 10)).play(move).key == left


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        ("10 - 4 = 7", "10 - 4 is 6, not 7"),
        ("10 - 3 = 7", "3 is not left"),
        ("10 - 10 = 0", "10 is not left; 4 5 6 is"),
        ("10 / 0 = 1", "0 is not left"),
        ("10 ^ 4 = 10000", "a op b = c"),
        ("10 - 4 = 6 and 6 * 4 = 24", "a op b = c"),
        ("__import__('os') - 4 = 6", "a op b = c"),
        ("", "a op b = c"),
    ],
)
def test_an_illegal_move_is_refused_with_the_reason(move: str, reason: str) -> None:
    with pytest.raises(IllegalMove, match=reason.replace("^", r"\^")):
        TASK.start(given_(4, 5, 6, 10)).play(move)


def test_division_by_zero_is_no_move() -> None:
    state = TASK.start(given_(5, 5, 1)).play("5 - 5 = 0")
    assert not [move for move, _ in state.moves() if "/ 0" in move]
    with pytest.raises(IllegalMove, match="divides by zero"):
        state.play("1 / 0 = 1")


@pytest.mark.parametrize(
    ("puzzle", "answer", "valid", "reason"),
    [
        ((4, 5, 6, 10), "(5 * (10 - 4)) - 6 = 24", True, "makes 24"),
        ((3, 3, 8, 8), "8 / (3 - 8 / 3)", True, "makes 24"),
        ((4, 5, 6, 10), "(10 - 4) * (5 - 1)", False, "uses 1 4 5 10, and the numbers are 4 5 6 10"),
        ((4, 5, 6, 10), "4 + 5 + 6 + 10 = 24", False, "makes 25"),
        ((4, 5, 6, 10), "24", False, "uses 24"),
        ((4, 4, 1, 1), "4 / (1 - 1) + 4", False, "divides by zero"),
        ((4, 6, 1, 1), "4 * 6 ** 1 * 1", False, "not an expression"),
        ((4, 6, 1, 1), "int('24')", False, "not an expression"),
        ((4, 6, 1, 1), "(" * 500, False, "too long"),
        ((4, 6, 1, 1), "(" * 40 + "24" + ")" * 40, False, "nested too deeply"),
    ],
)
def test_a_final_answer_is_checked_exactly(puzzle: tuple[int, ...], answer: str, valid: bool, reason: str) -> None:
    verdict = TASK.check(given_(*puzzle), answer)
    assert (verdict.valid, reason in verdict.reason) == (valid, True), verdict


expressions = st.recursive(
    st.integers(0, 20).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda text: f"(-{text})"),
    ),
    max_leaves=8,
)


@given(expressions)
def test_one_spelling_keeps_value_and_numbers_and_is_its_own(text: str) -> None:
    name = canonical(text, CONTRACT)
    try:
        worth = value(parse(text))
    except NotArithmetic:
        assert name is None
        return
    assert name is not None
    assert canonical(name, CONTRACT) == name
    assert value(parse(name)) == worth
    puzzle = given_(4, 5, 6, 10)
    assert TASK.check(puzzle, name).valid is TASK.check(puzzle, text).valid


@given(st.text(max_size=60) | st.text("0123456789+-*/() =x×", max_size=60))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    name = canonical(text, CONTRACT)
    assert name is None or canonical(name, CONTRACT) == name
    extract(text, CONTRACT)
    TASK.check(given_(1, 2, 3, 4), text)
    with pytest.raises(IllegalMove):
        TASK.start(given_(97, 98)).play(text)


def test_order_and_needless_brackets_make_no_other_answer() -> None:
    same = ["(5 - 1) * (10 - 4)", "((10-4))*(5-1)", "(-4 + 10) × (5 − 1) = 24", "(10 - 4) x (5 - 1)"]
    assert len({canonical(text, CONTRACT) for text in same}) == 1
    assert canonical("10 - (4 - 5)", CONTRACT) == canonical("5 + 10 - 4", CONTRACT)
    assert canonical("10 - 4 - 5", CONTRACT) != canonical("10 - 4 + 5", CONTRACT)
    assert spelled(parse(plain_signs("8 ÷ (3 − 8 ÷ 3)"))) == "8 / (3 - 8 / 3)"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("10 - 4 = 6 (left: 5 6 6)\nAnswer: (10 - 4) * 5 - 6 = 24", "(10 - 4) * 5 - 6"),
        ("Answer: 6 * 4 = 24\nNo, wait.\n**Answer:** (10 - 4) * 5 - 6", "(10 - 4) * 5 - 6"),
        ("so \\boxed{(10-4) \\times 5 - 6}", "(10-4) * 5 - 6"),
        ("The answer is (10 - 4) * 5 - 6.", "(10 - 4) * 5 - 6"),
        ("I tried a lot.\n(10 - 4) * 5 - 6 = 24", "(10 - 4) * 5 - 6"),
        ("Answer: none", None),
        ("Answer: 2 ** 4", None),
    ],
)
def test_the_final_answer_is_found(text: str, answer: str | None) -> None:
    assert extract(text, CONTRACT).answer == answer


@pytest.mark.parametrize("given", [{}, {"numbers": "4 x"}, {"numbers": [4]}, {"numbers": [4, -5]}, {"a": 1, "b": 2}, {"numbers": None}])
def test_what_states_no_puzzle_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"dataset\.given"):
        TASK.start(given)


def test_numbers_may_be_text_in_the_only_column() -> None:
    assert TASK.start({"Puzzles": "4 5 6 10"}).key == "4 5 6 10"


def test_a_state_is_lost_only_when_that_is_proven() -> None:
    start = TASK.start(given_(1, 1, 1, 1))
    assert impossible(start, 0) is impossible(start, 2) is None
    assert "tried" in (impossible(start, 3) or "")
    two = start.play("1 + 1 = 2").play("1 + 1 = 2")
    assert impossible(two, 0) is None
    assert impossible(two, 1) is not None
    assert "no solution" in (impossible(two.play("2 + 2 = 4"), 0) or "")
    good = TASK.start(given_(4, 6))
    assert impossible(good, 5) is impossible(good.play("4 * 6 = 24"), 5) is None


def test_every_published_label_of_tree_of_thoughts_is_reproduced(shared: Path) -> None:
    folder = shared / "data" / "tot" / "game24"
    with (folder / "24.csv").open(encoding="utf-8") as file:
        puzzles = [row["Puzzles"] for row in csv.DictReader(file)]
    found = {}
    for path in sorted(folder.glob("*.json")):
        right = 0
        for problem in json.loads(path.read_text("utf-8")):
            stated = {"Puzzles": puzzles[problem["idx"]]}
            labels = problem.get("accs") or [info["r"] for info in problem["infos"]]
            for text, label in zip(problem["ys"], labels, strict=True):
                answer = extract(text, CONTRACT).answer
                valid = answer is not None and TASK.check(stated, answer).valid
                assert valid == bool(label), (stated, text)
                right += valid
        found[path.name.split("_")[3]] = right
    assert found == {"cot": 403, "standard": 734}, "4.03 % and 7.34 % of 10,000 each"


@pytest.mark.parametrize("name", ["game24", "schedule"])
def test_the_shipped_references_are_right_and_the_splits_apart(name: str) -> None:
    from ttc_eval.tasks import task_of

    folder, task = Path(__file__).parents[2] / "data" / name, task_of(name)
    seen: list[str] = []
    for split in ("dev", "heldout"):
        rows = [json.loads(line) for line in (folder / f"{split}.jsonl").read_text("utf-8").splitlines()]
        assert [row["difficulty"] for row in rows] == ["easy", "medium", "hard"] * 40
        assert len({row["id"] for row in rows}) == 120
        assert all(task.check(row, row["answer"]).valid for row in rows)
        assert all(task.canonical(row["answer"]) == row["answer"] for row in rows)
        seen += [task.start(row).render() for row in rows]
    assert len(set(seen)) == 240
