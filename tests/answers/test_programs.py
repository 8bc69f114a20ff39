"""Programs as answers: found in a reply, told apart by their tree, put together with their prompt. Nothing is executed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.answers import AnswerClasses, canonical, extract, same_answer
from ttc_eval.answers.programs import assembled, hidden_test, prompt_tests, written_tests
from ttc_eval.records import AnswerContract, ContractKind, Extraction

CODE = AnswerContract(ContractKind.CODE)
WHOLE = AnswerContract(ContractKind.CODE, Extraction.WHOLE)
PROMPT = 'import math\n\ndef g(x):\n    return x\n\ndef f(x):\n    """ Doubles.\n    >>> f(2)\n    4\n    >>> f(0)\n    0\n    """\n'


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("def f(x):\n    return x+1", 'def f( x ):  # adds\n  """Adds."""\n  return (x + 1)\n', True),
        ("def f(x): return 'a'", 'def f(x): return "a"', True),
        ("def f():\n    '''only words'''", "def f(): pass", True),
        ("def f(x): return x", "def f(y): return y", False),
        ("def f(x): return 1", "def f(x): return 1.0", False),
        ("    return x+1\n", "    return x + 1  # one more", True),
    ],
)
def test_programs_are_the_same_by_their_tree(a: str, b: str, same: bool) -> None:
    assert same_answer(a, b, CODE) is same


@pytest.mark.parametrize("text", ["def f(:", "", "   ", "x = '", "\0", "(" * 5000, "a" * 200_000])
def test_what_does_not_parse_is_no_program(text: str) -> None:
    assert canonical(text, CODE) is None


@given(st.text())
def test_names_are_idempotent(text: str) -> None:
    name = canonical(text, CODE)
    assert name is None or canonical(name, CODE) == name


def test_a_program_is_never_executed(tmp_path: object) -> None:
    assert canonical(f"open({str(tmp_path) + '/x'!r}, 'w')", CODE) is not None
    assert not list(tmp_path.iterdir())  # type: ignore[attr-defined]


def test_invalid_escapes_and_the_like_are_no_warnings_here() -> None:
    assert canonical('x = "\\d" is 3', CODE) is not None


@pytest.mark.parametrize(
    ("reply", "program"),
    [
        ("Here:\n```python\ndef f(x):\n    return 1\n```\nTry it:\n```python\nprint(f(2))\n```\n", "def f(x):\n    return 1\n"),
        ("```\ndef f(): return 1\n```\nBetter:\n```py\ndef f(): return 2\n```", "def f(): return 2\n"),
        ("```bash\npip install x\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("def f(x):\n    return 1\n", "def f(x):\n    return 1"),
        ("\n    return x\n", "    return x"),
        ("~~~python\ndef f(): return 1\n~~~", "def f(): return 1\n"),
        ("I cannot do that.", None),
        ("```python\ndef f(:\n```", None),
    ],
)
def test_the_program_is_found_in_the_reply(reply: str, program: str | None) -> None:
    assert extract(reply, CODE).answer == program


def test_thinking_and_cut_replies_hold_no_program() -> None:
    block = "```python\ndef f(): return 1\n```"
    assert extract(f"<think>{block}</think>", CODE).answer is None
    assert extract(block, CODE, complete=False).reason == "truncated"
    assert extract("    return 1\n\n", WHOLE).answer == "    return 1"
    assert extract(f"Here: {block}", WHOLE).answer is None


def test_votes_count_programs_not_spellings() -> None:
    classes = AnswerClasses(CODE)
    assert classes.classify("def f(): return 1") == classes.classify("def f():\n  return 1 # one") != classes.classify("def f(): return 2")


def test_a_program_replaces_or_continues_the_function_of_the_prompt() -> None:
    scope: dict[str, object] = {}
    for answer in ("    return 2 * g(x)", "def f(x):\n    return 2 * g(x)", "f = lambda x: 2 * g(x)"):
        program = assembled(answer, PROMPT, "f")
        exec(program, scope)  # ours, and harmless
        assert scope["f"](3) == 6  # type: ignore[operator]
    assert assembled("def f(): pass", "", "f") == "def f(): pass"
    assert "g" in assembled("def f(x): return g(x)", "def g(x):\n    return x\n\ndef f(x):\n    # doubles", "f")


def test_tests_are_read_from_prompts_and_replies() -> None:
    assert prompt_tests(PROMPT, "f") == ("assert (f(2)) == (4)", "assert (f(0)) == (0)")
    assert prompt_tests(PROMPT, "g") == prompt_tests("no examples", "f") == ()
    reply = "```python\nassert f(1) == 2\nassert g(1) == 1\nassert f(\n  3) == 6, 'three'\nassert f(2 == \nassert f(4)==8 # eight\n```"
    assert written_tests(reply, "f") == ("assert f(1) == 2", "assert f(3) == 6, 'three'", "assert f(4) == 8")
    assert written_tests(reply, "f", 1) == ("assert f(1) == 2",)
    assert written_tests("nothing", "f") == ()


def test_a_reference_is_called_where_it_defines_a_check() -> None:
    assert hidden_test("def check(candidate):\n    pass").endswith("check(candidate)\n")
    assert hidden_test("assert f(1) == 2") == "assert f(1) == 2"
