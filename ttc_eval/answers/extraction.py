r"""Finds the final answer in what a model wrote.

Thinking goes first: a draft answer inside it is not an answer, and thinking that never ended means that nothing was
answered. Then the last explicit marker wins (`\boxed{}`, `####`, `Answer:`, `the answer is`, `A:` at a line's start).
Only a text without any marker falls back: on its last number, letter, formula or line, never on its first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ttc_eval.answers import fallback
from ttc_eval.answers.contract import canonical
from ttc_eval.answers.latex import clean, matching_braces
from ttc_eval.answers.numbers import GO_SPACE, looks_like_integer, parse_number
from ttc_eval.answers.programs import find_program, whole_text
from ttc_eval.records import AnswerContract, ContractKind, Extraction
from ttc_eval.tasks import task_of


@dataclass(frozen=True, slots=True)
class Extracted:
    """The answer as written, or None with the reason.

    Reasons: `unclosed_thinking`, `truncated`, `no_answer`, `not_an_integer`, `out_of_range`, `not_a_number`, `not_a_choice`.
    """

    answer: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Marked:
    """What follows one marker. A `weak` marker (`the answer is`) may be prose; a strong one states an answer or none."""

    position: int
    text: str
    weak: bool = False


_MARKER = re.compile(
    r"(?P<hash>(?<!#)####(?!#))"
    r"|(?P<strong>\b(?:final +|correct +|my +)?(?:answer|ANSWER)\b[*_`]{0,3} *(?::|=)|^[#* ]{0,8}final answer[*_ ]{0,3}$|^[*_ ]{0,4}A:)"
    r"|(?P<weak>\b(?:answer|result|(?:correct|right|best) (?:option|choice))\b *(?:is|must be|should be|would be)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s{0,3}(?P<brace>\{)?")
_HEADING = re.compile(r" *[*_]*(?!USD)[A-Za-z]{3,}")
_FORMAL = (ContractKind.INTEGER, ContractKind.NUMBER, ContractKind.MATH)
_MAX_PAYLOAD = 2_000
_MAX_MARKS = 50
"""Markers that are looked at, from the last one back."""


def extract(
    text: str, contract: AnswerContract, *, complete: bool = True, think_tags: tuple[str, str] | None = ("<think>", "</think>")
) -> Extracted:
    """The final answer of `text` under the contract, as written. Never raises.

    Args:
        complete: False when the response was cut by its cap; it then has no answer, whatever it says.
        think_tags: what opens and closes visible thinking; None when the text has none.
    """
    if think_tags is not None:
        answered = without_thinking(text, *think_tags)
        if answered is None:
            return Extracted(None, "unclosed_thinking")
        text = answered
    if not complete:
        return Extracted(None, "truncated")
    if contract.kind is ContractKind.CODE:
        program = whole_text(text) if contract.extraction is Extraction.WHOLE else find_program(text)
        return Extracted(program, "no_answer" if program is None else None)
    if contract.extraction is Extraction.WHOLE:
        return _whole(text, contract)
    return _final(text, contract)


def without_thinking(text: str, opening: str, closing: str) -> str | None:
    """The text outside the thinking; None when thinking was opened and not closed.

    A closing tag without an opening one ends thinking that began in the prompt, so all before it is thinking.
    """
    kept: list[str] = []
    at = 0
    start = 0
    while True:
        if start != -1 and start <= at:
            start = text.find(opening, at)
        end = text.find(closing, at)
        if end != -1 and (start == -1 or end < start):
            kept = []
            at = end + len(closing)
        elif start == -1:
            return "".join((*kept, text[at:]))
        elif end == -1:
            return None
        else:
            kept.append(text[at:start])
            at = end + len(closing)


def _whole(text: str, contract: AnswerContract) -> Extracted:
    answer = text.strip(GO_SPACE)
    if not answer:
        return Extracted(None, "no_answer")
    return _checked(answer, contract)


def _checked(answer: str, contract: AnswerContract) -> Extracted:
    if canonical(answer, contract) is not None:
        return Extracted(answer)
    match contract.kind:
        case ContractKind.INTEGER:
            value = None if contract.extraction is Extraction.WHOLE else parse_number(answer)
            integral = looks_like_integer(answer) or (value is not None and value.denominator == 1)
            return Extracted(None, "out_of_range" if integral else "not_an_integer")
        case ContractKind.NUMBER:
            return Extracted(None, "not_a_number")
        case ContractKind.CHOICE:
            return Extracted(None, "not_a_choice")
        case _:
            return Extracted(None, "no_answer")


def _final(text: str, contract: AnswerContract) -> Extracted:
    marks = _marks(text, contract.kind)
    refused: Extracted | None = None
    strong = any(not mark.weak for mark in marks)
    for mark in reversed(marks[-_MAX_MARKS:]):
        answer = _payload(mark, contract)
        if answer is None or (mark.weak and strong and _is_prose(answer, contract.kind)):
            refused = refused or (None if mark.weak else Extracted(None, "no_answer"))
            continue
        result = _checked(answer, contract)
        if result.answer is not None:
            return result
        refused = refused or (None if mark.weak else result)
    if refused is not None:
        return refused
    if contract.kind is ContractKind.STATE:
        answer = task_of(contract.task).find(text.rstrip().rpartition("\n")[2])
    else:
        answer = fallback.last_answer(text, contract)
    return Extracted(None, "no_answer") if answer is None else _checked(answer, contract)


def _marks(text: str, kind: ContractKind) -> list[_Marked]:
    marks = []
    for match in _MARKER.finditer(text):
        if match.group().strip("*_ ") in ("A:", "a:") and (kind in (ContractKind.CHOICE, ContractKind.STATE) or "a:" in match.group()):
            continue  # `A: Paris` lists an option, `A: M1` gives a job
        if match.lastgroup == "hash" and kind in _FORMAL and _HEADING.match(text, match.end()):
            continue  # a heading of fourth level
        marks.append(_Marked(match.start(), text[match.end() : match.end() + _MAX_PAYLOAD], weak=match.lastgroup == "weak"))
    pairs: dict[int, int] | None = None
    for match in _BOX.finditer(text):
        if match["brace"] is None:
            token = re.match(r"[^\s\\${}]{1,40}", text[match.end() : match.end() + 40])
            if token:
                marks.append(_Marked(match.start(), "\\boxed{" + token.group().rstrip(".,;") + "}"))
            continue
        pairs = matching_braces(text) if pairs is None else pairs
        end = pairs.get(match.end() - 1)
        if end is not None:
            marks.append(_Marked(match.start(), "\\boxed{" + _with_brackets(text, match.start(), match.end(), end) + "}"))
    return sorted(marks, key=lambda mark: mark.position)


def _with_brackets(text: str, start: int, inside: int, end: int) -> str:
    r"""The inside of a box; `(\boxed{3, 4})` is the pair (3, 4), its brackets written outside."""
    inner = text[inside:end]
    if "," in inner and text[start - 1 : start] in ("(", "[") and text[end + 1 : end + 2] in (")", "]"):
        return text[start - 1] + inner + text[end + 1]
    return inner


def _payload(mark: _Marked, contract: AnswerContract) -> str | None:
    """The answer in what follows a marker, or None."""
    if contract.kind is ContractKind.STATE:
        inner = mark.text[7:-1] if mark.text.startswith("\\boxed{") else mark.text.lstrip(" \t\r\n\v\f*_`:=")
        return task_of(contract.task).find(inner)
    if mark.text.startswith("\\boxed{"):
        inner = mark.text[7:-1].strip()
        return _within_box(inner, contract)
    rest = mark.text.lstrip(" \t\r\n\v\f*_`:=")
    line = rest.partition("\n")[0].strip()
    if line in ("$$", r"\[") or (line.startswith((r"\[", "$$")) and line.rstrip("*").endswith(("[", "$$")) and len(line) < 4):
        line = " ".join(rest.split("\n")[:4])
    line = fallback.undecorated(line)
    if not line:
        return None
    if contract.kind in (ContractKind.INTEGER, ContractKind.NUMBER):
        return fallback.leading_number(line)
    if contract.kind is ContractKind.CHOICE:
        return fallback.leading_choice(line, contract.choices)
    return fallback.leading_formula(line) if contract.kind is ContractKind.MATH else fallback.leading_sentence(line)


def _within_box(inner: str, contract: AnswerContract) -> str | None:
    if contract.kind in (ContractKind.INTEGER, ContractKind.NUMBER) and parse_number(inner) is None:
        return fallback.leading_number(inner)
    if contract.kind is ContractKind.CHOICE:
        return fallback.leading_choice(clean(inner), contract.choices)
    if contract.kind is ContractKind.TEXT:
        return clean(inner) or None
    return inner or None


def _is_prose(answer: str, kind: ContractKind) -> bool:
    """Whether what follows a weak marker is just words, as in `the answer is correct`."""
    return kind in (ContractKind.MATH, ContractKind.TEXT) and not re.search(r"[0-9\\$]", answer) and len(answer) > 1
