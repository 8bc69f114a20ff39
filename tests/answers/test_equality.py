"""When two answers of kind `math` are the same, and that equality has the properties of one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.answers import MathChecker, canonical, same_answer
from ttc_eval.answers.latex import clean
from ttc_eval.records import AnswerContract, ContractKind, Extraction

MATH = AnswerContract(kind=ContractKind.MATH)
NO_CHECKER = MathChecker(workers=1)
CONTRACTS = [AnswerContract(kind=kind, extraction=extraction, task="game24") for kind in ContractKind for extraction in Extraction]

SAME = [
    (r"\frac{1}{2}", "0.5"), (r"\dfrac12", "1/2"), (r"\frac 34", "0.75"), ("42.0", "42"), ("073", "73"), ("+42", "42"),
    ("\u22123", "-3"),
    ("1.5e3", "1500"), (r"1.5 \times 10^3", "1500"), (r"11,\! 111,\! 111", "11111111"), ("1{,}000", "1000"),
    (r"\$32,\!348", "32348"),
    (r"1\frac{4}{5}", "9/5"), ("137 1/2", r"\frac{275}{2}"), ("-1 4/5", "-1.8"), (r"\frac{\sqrt3}{3}", r"\frac{1}{\sqrt{3}}"),
    ("√51", r"\sqrt{51}"),
    (r"\sqrt{3+2\sqrt2}", r"1+\sqrt{2}"), (r"e^{i\pi}", "-1"), (r"\sin 30^\circ", r"\frac12"), (r"\log_2 8", "3"),
    (r"\binom{5}{2}", "10"), ("5!", "120"),
    ("p - q", "-q + p"), ("(a+5)(b+2)", "ab + 2a + 5b + 10"), (r"\cot x", r"\frac{\cos x}{\sin x}"), (r"\sin^2 x + \cos^2 x", "1"),
    (r"\sqrt{a}\sqrt{b}", r"\sqrt{ab}"),
    ("6-5i", "-5i + 6"), (r"\pm 7", "7, -7"), (r"3 \pm 2\sqrt2", r"\{3-2\sqrt{2}, 3+2\sqrt{2}\}"),
    (r"\{1\pm\sqrt5,-2\}", r"-2, 1+\sqrt5, 1-\sqrt5"),
    (r"\{1,2\}", "2, 1"), ("1 and 2", "2, 1"), ("x=5", "5"), ("x=2 or x=3", r"\{3, 2\}"), ("y = 2x+3", "2x - y + 3 = 0"),
    ("2x+4y=6", "x+2y=3"), ("a<b", "b>a"),
    (r"x \in [-2,7]", "[-2,7]"), ("x<2", r"(-\infty,2)"), (r"-2<x\le5", "(-2,5]"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"\begin{pmatrix}1/2\\3\end{pmatrix}", r"\begin{bmatrix}\frac12\\3\end{bmatrix}"), (r"\left[1, 2\right]", "[1,2]"),
    (r"(r,\theta)=(3,\frac\pi2)", r"(3,\pi/2)"),
    (r"90^\circ", "90"), ("90 degrees", "90°"), (r"864 \mbox{ inches}^2", "864 square inches"), (r"5.4 \text{ cents}", "5.4"),
    ("42 meters", r"42\text{ m}"), ("52_8", "52_{8}"),
    (r"35\%", "35%"), ("50%", "0.5"), ("50%", "50"), (r"\text{(C)}", "C"), (r"0.1\overline{6}", "1/6"),
    (r"\{x \mid x > 2\}", r"(2,\infty)"),
    (r"\text{June 20}", "june 20"),
    (r"\text{East}", "east"), (r"\emptyset", r"\{\}"),
    (r"\boxed{5}", "$5$"),
]  # fmt: skip
DIFFERENT = [
    (r"\frac{1}{30!}", r"\frac{1}{31!}"), ("2-1/e", "2+1/e"), ("6", r"6\sqrt3"), (r"\pi", "3.14159265358979323846264338327950288"),
    ("1/3", "0.333333"),
    (r"\pm 7", "7"), (r"\pm 7", "-7"), ("n=4, 5, 6", "n=5, 6, 7"), ("n=4", "m=4"), ("5x-2y+9=0", "5x+7y+9=0"), ("x+y=0", "x-y=0"),
    ("x<2", r"x\le 2"), ("x<2", "x>2"),
    ("(1,2)", "(2,1)"), ("(3,4]", "(3,4)"), ("1, 2", "1, 2, 3"), ("1, 1, 2", "1, 2, 2"), (r"\{1,2\}", "(1,2)"),
    ("(100,200)", "100200"), ("1,2", "1.2"),
    ("0.5", "50"), ("0.05", "5"), ("20%", "100"), ("5 cm", "5 m"), ("52_8", "42"), ("52_8", "52_9"), ("5 meters", "5 meters^2"),
    (r"\$5", "€5"),
    ("east", "seat"), ("x", "y"), (r"\sqrt{x^2}", "x"), ("x^2", "2x"), ("10^5", "10"), ("1e5", "15"), ("2e-1", "0.2"),
    (r"9^{9^{9^9}}", "1"), ("((50)!)!", "2"),
    ("1e999999999", "1e999999998"), (r"\infty", r"-\infty"), ("nan", "inf"), ("", ""), ("4", "__import__('os').getpid() or 4"),
    ("-2", "2"), (r"\frac{1}{0}", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SAME)
def test_same(a: str, b: str) -> None:
    assert same_answer(a, b, MATH)
    assert same_answer(b, a, MATH)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different(a: str, b: str) -> None:
    started = time.monotonic()
    assert not same_answer(a, b, MATH)
    assert not same_answer(b, a, MATH)
    assert time.monotonic() - started < 5


def test_tolerance_widens_and_zero_is_exact() -> None:
    for kind in (ContractKind.NUMBER, ContractKind.MATH):
        loose = AnswerContract(kind=kind, rel_tol=0.05)
        assert same_answer("1.5", "1.52", loose) and same_answer("1.52", "1.5", loose)
        assert not same_answer("1.5", "1.6", loose)
        assert not same_answer("1.5", "1.52", AnswerContract(kind=kind))
        assert same_answer("0", "0.001", AnswerContract(kind=kind, abs_tol=0.01))
    assert same_answer(r"\pi", "3.14159", AnswerContract(kind=ContractKind.MATH, rel_tol=1e-5))
    assert same_answer(r"(1, \pi)", "(1, 3.14159)", AnswerContract(kind=ContractKind.MATH, rel_tol=1e-5))


def test_number_drops_units_and_reads_percent_as_one() -> None:
    number = AnswerContract(kind=ContractKind.NUMBER)
    for text in ("50 %", r"50\%", "50 meters", "$50", "50.0", "50^\\circ", "100/2"):
        assert canonical(text, number) == "50"
    assert canonical("5 million dollars", number) == "5000000"
    for text in ("nan", "inf", "-Infinity", "1_000", "٣", "4 or 5", "1,2", "1e999999999", "1/0", "", "5k", "0x10", "1" * 5000):
        assert canonical(text, number) is None, text


def test_a_choice_is_never_an_article() -> None:
    choice = AnswerContract(kind=ContractKind.CHOICE)
    assert [canonical(text, choice) for text in ("A", "(a)", "B.", "C) Paris", r"\text{(D)}", "**E**")] == ["A", "A", "B", "C", "D", "E"]
    assert [canonical(text, choice) for text in ("A fails", "F", "", "AB", "a dog")] == [None] * 5


PIECES = st.sampled_from(
    (
        r"\frac", r"\sqrt", r"\text{", r"\pm", r"\boxed{", r"\left(", r"\right)", r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", "&", "{",
        "}", "(", ")",
        "[", "]", "^", "_", ",", "=", "<", "!", "%", "$", r"\$", "|", "1", "23", "4.5", "1,000", "x", "y", "e", "i", r"\pi", " ",
        "and", "1e9", "**", "\u2212",
        "٣", "__import__", "\x1c",
    )
)  # fmt: skip
MESSY = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=40)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda c: f"{c.kind}-{c.extraction}")
@settings(deadline=None, max_examples=150)
@given(text=MESSY)
def test_canonical_is_idempotent_and_equality_reflexive(contract: AnswerContract, text: str) -> None:
    name = canonical(text, contract)
    assert name is None or canonical(name, contract) == name
    assert same_answer(text, text, contract) is (name is not None)


@settings(deadline=None, max_examples=300)
@given(a=MESSY, b=MESSY)
def test_equality_is_symmetric_and_never_raises(a: str, b: str) -> None:
    for kind in ContractKind:
        if kind is not ContractKind.MATH:
            contract = AnswerContract(kind=kind, rel_tol=0.01, task="game24")
            assert same_answer(a, b, contract) == same_answer(b, a, contract)
    refusing = _Refusing()
    assert same_answer(a, b, MATH, checker=refusing) == same_answer(b, a, MATH, checker=refusing)


class _Refusing(MathChecker):
    def equal(self, a: str, b: str, rel_tol: float = 0.0, abs_tol: float = 0.0) -> bool:
        return False


@settings(deadline=None)
@given(numerator=st.integers(-(10**6), 10**6), denominator=st.integers(1, 10**4))
def test_spellings_of_a_fraction_are_one_class(numerator: int, denominator: int) -> None:
    names = {
        canonical(text, MATH)
        for text in (f"{numerator}/{denominator}", rf"\frac{{{numerator}}}{{{denominator}}}", rf"${numerator}/{denominator}$")
    }
    assert len(names) == 1


@settings(deadline=None)
@given(MESSY)
def test_clean_is_idempotent(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize("piece", ["(", "{", r"\frac", "1,", "$", r"\boxed{", "9", "^", "-", "x ", "|", r"\text{", r"\pm"])
def test_long_hostile_answers_take_bounded_time(piece: str) -> None:
    text = piece * 50_001
    started = time.monotonic()
    for contract in CONTRACTS:
        canonical(text, contract)
        same_answer(text, "1", contract)
    assert time.monotonic() - started < 5
