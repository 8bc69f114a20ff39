"""Where the final answer stands in a text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.answers import canonical, extract
from ttc_eval.records import AnswerContract, ContractKind, Extraction

NUMBER, MATH, CHOICE = (AnswerContract(kind=kind) for kind in (ContractKind.NUMBER, ContractKind.MATH, ContractKind.CHOICE))
INTEGER, TEXT = AnswerContract(kind=ContractKind.INTEGER), AnswerContract(kind=ContractKind.TEXT)
WHOLE = AnswerContract(kind=ContractKind.INTEGER, extraction=Extraction.WHOLE)


@pytest.mark.parametrize(
    ("text", "contract", "answer"),
    [
        ("The example gives #### 5.\n#### 12", NUMBER, "12"),
        ("#### 1,234", NUMBER, "1,234"),
        ("#### Step 3: add\nThe total is 42.", NUMBER, "42"),
        ("###### 7\n#### 12", NUMBER, "12"),
        ("Final Answer: **41**", NUMBER, "41"),
        ("### Final Answer\n41", NUMBER, "41"),
        ("**Final Answer**: $\\frac{1}{2}$.", MATH, "\\frac{1}{2}"),
        ("Answer:\n\n42", NUMBER, "42"),
        ("Answer: 3 + 4 = 7", NUMBER, "7"),
        ("The answer is 56 because the area is 7*8.", NUMBER, "56"),
        ("The answer is 56 because the area is 7*8.", MATH, "56"),
        ("The answer is that Bob has 56 apples.", NUMBER, "56"),
        ("The answer is x = 56.", NUMBER, "56"),
        ("The answer is clear. 3+4=7", NUMBER, "7"),
        ("The answer is -5", NUMBER, "-5"),
        ("The answer is $1,000.50.", NUMBER, "1,000.50"),
        ("So \\boxed{12}. So the answer is correct.", MATH, "12"),
        ("So \\boxed{12}. So the answer is correct.", NUMBER, "12"),
        ("\\boxed{3}. No: \\boxed{\\frac{3}{4}}", MATH, "\\frac{3}{4}"),
        ("\\boxed{56 \\text{ cm}}", NUMBER, "56 \\text{ cm}"),
        ("the point $(\\boxed{3, 4})$", MATH, "(3, 4)"),
        ("The final answer is: $\\boxed{5}$. I hope it is correct.", MATH, "5"),
        ("The answer is 42 meters.", MATH, "42"),
        ("The answer is 3 and 5.", MATH, "3 and 5"),
        ("The answer is east.", MATH, "east"),
        ("Final answer:\n\\[ x = 5 \\]", MATH, "x = 5"),
        ("Answer: p - q", MATH, "p - q"),
        ("so 7-8", NUMBER, "8"),
        ("it is 2 - 5 = -3", NUMBER, "-3"),
        ("So $x+1 = 3+4 = 7$.", MATH, "7"),
        ("There are 1/2 left", NUMBER, "1/2"),
        ("A: 18", NUMBER, "18"),
        ("A: Paris\nB: Rome\n\nANSWER: B", CHOICE, "B"),
        ("The correct answer is (B) Paris.", CHOICE, "B"),
        ("The correct option is B because A is small", CHOICE, "B"),
        ("I would choose B. A dog barks.", CHOICE, "B"),
        ("Therefore the answer is A.", CHOICE, "A"),
        ("answer: b", CHOICE, "B"),
        ("\\boxed{\\text{(C)}}", CHOICE, "C"),
        ("It must be C", CHOICE, "C"),
        ("Answer: Paris", TEXT, "Paris"),
        ("First.\n\nThe answer is Paris.", TEXT, "Paris"),
        ("thinking\n\nParis\n", TEXT, "Paris"),
        ("no tag opened</think>7", NUMBER, "7"),
        ("<think>5</think>6<think>8</think>", NUMBER, "6"),
    ],
)
def test_final_answer(text: str, contract: AnswerContract, answer: str) -> None:
    assert extract(text, contract).answer == answer


@pytest.mark.parametrize(
    ("text", "contract", "reason"),
    [
        ("<think>The answer is 17", NUMBER, "unclosed_thinking"),
        ("Answer: 3 <think> wait", NUMBER, "unclosed_thinking"),
        ("", MATH, "no_answer"),
        ("nothing here", NUMBER, "no_answer"),
        ("Answer: I don't know. 5 apples", NUMBER, "no_answer"),
        ("A fails.", CHOICE, "no_answer"),
        ("It is 3.5", INTEGER, "not_an_integer"),
        ("Answer: 9223372036854775808", INTEGER, "out_of_range"),
        ("<think>7</think>", WHOLE, "no_answer"),
        ("The answer is 7", WHOLE, "not_an_integer"),
        ("9223372036854775808", WHOLE, "out_of_range"),
    ],
)
def test_no_answer_has_a_reason(text: str, contract: AnswerContract, reason: str) -> None:
    found = extract(text, contract)
    assert (found.answer, found.reason) == (None, reason)


def test_a_cut_response_has_no_answer_whatever_it_says() -> None:
    assert extract("Answer: 5", NUMBER, complete=False).reason == "truncated"
    assert extract("<think>5", NUMBER, complete=False).reason == "unclosed_thinking"


def parse_int(text: str) -> int | None:
    """Go's `strconv.ParseInt(strings.TrimSpace(text), 10, 64)`, written plainly."""
    spaces = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
    body = text.strip(spaces)
    if re.fullmatch("[+-]?[0-9]+", body) is None:
        return None
    return int(body) if -(2**63) <= int(body) < 2**63 else None


@settings(max_examples=400)
@given(st.text(alphabet="0123456789+-_,.e \t\n\x1c\x1f\x85\xa0\u200b\u3000٣", max_size=24) | st.integers(-(2**65), 2**65).map(str))
def test_the_whole_text_as_an_integer_is_what_the_go_controller_accepts(text: str) -> None:
    value = parse_int(text)
    found = extract(text, WHOLE, think_tags=None)
    assert (found.answer is None) == (value is None)
    assert canonical(text, WHOLE) == (None if value is None else str(value))


PIECES = st.sampled_from(
    (
        "Answer:",
        "the answer is",
        "\\boxed{",
        "}",
        "####",
        "$",
        "A",
        "B",
        " ",
        "\n",
        "12",
        "-3.5",
        "is",
        "<think>",
        "</think>",
        "=",
        "A:",
        "(",
        ")",
        "\\text{",
    )
)


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES | st.text(max_size=4), max_size=20).map("".join))
def test_extraction_never_raises_and_what_it_finds_is_valid(text: str) -> None:
    for contract in (NUMBER, MATH, CHOICE, INTEGER, TEXT, WHOLE):
        found = extract(text, contract)
        assert (found.answer is None) != (found.reason is None)
        assert found.answer is None or canonical(found.answer, contract) is not None


LONG = [
    "\\boxed{",
    "Answer: ",
    "the answer is ",
    "#### ",
    "$x",
    "\\(",
    "\\[",
    "A ",
    "1,",
    "**",
    "<think>",
    "</think>",
    "3 + ",
    "is be ",
    "\n",
    " ",
]


@pytest.mark.parametrize("piece", LONG)
def test_long_texts_take_linear_time(piece: str) -> None:
    text = piece * 20_000
    started = time.monotonic()
    for contract in (NUMBER, MATH, CHOICE, TEXT):
        extract(text, contract)
    assert time.monotonic() - started < 10
