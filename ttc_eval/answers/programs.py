"""Programs as answers: where they stand in a text, when two are the same, and what is run. They are parsed here, never executed.

Two programs are the same when they parse to the same tree, docstrings left out: comments, spacing and quotes do not matter, names do.
"""

from __future__ import annotations

import ast
import doctest
import re
import warnings
from collections.abc import Iterator

from ttc_eval.records import digest

_MOST_TEXT = 100_000
_NAME = re.compile(r"code:[0-9a-f]{32}")
_BLOCK = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^[ \t]*(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE
)
_PYTHON = ("", "python", "py", "python3")
_STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")


def program_name(text: str) -> str | None:
    """The name of the class of programs that `text` belongs to; None when it does not parse. Idempotent.

    `text` is a module, or the indented rest of a function whose head stands in the prompt.
    """
    if _NAME.fullmatch(text):
        return text
    tree = _tree(text)
    if tree is None and text[:1] in (" ", "\t", "\n", "\r"):
        tree = _tree(f"def _():\n{text}")
    if tree is None or not tree.body:
        return None
    try:
        for node in ast.walk(tree):
            _drop_docstring(node)
        return f"code:{digest(ast.dump(tree))}"
    except (RecursionError, UnicodeEncodeError, TypeError):
        return None


def find_program(text: str) -> str | None:
    """The program in a reply: the last fenced block that defines something, else the last that parses, else the whole text."""
    blocks = [found["code"] for found in _BLOCK.finditer(text) if found["language"].lower() in _PYTHON]
    parsed = [(block, tree) for block in blocks if (tree := _tree(block)) is not None and tree.body]
    defining = [block for block, tree in parsed if any(isinstance(node, _DEFINITIONS) for node in tree.body)]
    if defining:
        return defining[-1]
    if parsed:
        return parsed[-1][0]
    whole = _unpadded(blocks[-1] if blocks else text)
    return whole if program_name(whole) is not None else None


def whole_text(text: str) -> str | None:
    """The whole text as a program, its first line's indentation kept; None when it does not parse."""
    whole = _unpadded(text)
    return whole if program_name(whole) is not None else None


def assembled(answer: str, prompt: str, entry_point: str) -> str:
    """The program to run: `answer` after what the prompt defines, or as the rest of the prompt's unfinished function."""
    tree = _tree(answer)
    if not prompt:
        return answer
    if tree is None or entry_point not in _defined(tree):
        return prompt + answer
    for text in (prompt, f"{prompt}\n    pass\n"):
        if _tree(text) is not None:
            return f"{text}\n{answer}"
    return answer


def hidden_test(reference: str) -> str:
    """The test that a reference holds: its `check(candidate)` is called where it defines one."""
    tree = _tree(reference)
    return f"{reference}\n\ncheck(candidate)\n" if tree is not None and "check" in _defined(tree) else reference


def prompt_tests(prompt: str, entry_point: str) -> tuple[str, ...]:
    """The examples in the docstring of the prompt's function, as tests: `>>> f(2)` with `4` below it becomes `assert (f(2)) == (4)`."""
    tree = _tree(prompt) or _tree(f"{prompt}\n    pass\n")
    found = [node for node in (tree.body if tree else []) if isinstance(node, _DEFINITIONS) and node.name == entry_point]
    try:
        examples = doctest.DocTestParser().get_examples((ast.get_docstring(found[-1]) if found else None) or "")
    except ValueError:
        return ()
    tests = [f"assert ({one.source.strip()}) == ({one.want.strip()})" for one in examples if one.want.strip()]
    return tuple(test for test in tests if _tree(test) is not None)


def written_tests(text: str, entry_point: str, limit: int | None = None) -> tuple[str, ...]:
    """The assertions about `entry_point` in what a model wrote, in order, at most `limit`; each is one `assert` statement that parses.

    The text is cut where CodeT cuts it (arXiv 2207.10397): each assertion ends where the next begins, or a new block does.
    """
    found = list(_assertions(text, entry_point))
    return tuple(found if limit is None else found[:limit])


def _assertions(text: str, entry_point: str) -> Iterator[str]:
    for part in re.split(r"(?<!\w)assert(?=[ (])", text)[1:]:
        for stop in _STOPS:
            part = part.partition(stop)[0]
        for written in (part, part.partition("\n")[0]):
            tree = _tree(f"assert{written.rstrip()}")
            if tree is None or not tree.body or not isinstance(tree.body[0], ast.Assert):
                continue
            if any(isinstance(node, ast.Name) and node.id == entry_point for node in ast.walk(tree.body[0])):
                yield ast.unparse(tree.body[0])
            break


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _tree(text: str) -> ast.Module | None:
    if len(text) > _MOST_TEXT:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of a program's style
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _defined(tree: ast.Module) -> set[str]:
    names = {node.name for node in tree.body if isinstance(node, _DEFINITIONS)}
    assigned = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    return names | {target.id for target in assigned if isinstance(target, ast.Name)}


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, (ast.Module, *_DEFINITIONS)) or not node.body:
        return
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]


def _unpadded(text: str) -> str:
    return re.sub(r"\A(?:[ \t]*\r?\n)+", "", text).rstrip()
