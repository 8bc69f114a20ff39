"""The answer contracts: the name of an answer's class, and when two answers are the same.

| kind | an answer is | the same when |
|---|---|---|
| `integer`, whole text | what Go's `ParseInt` takes: ASCII digits, optional sign, int64 | the value is |
| `integer`, final answer | a number in any spelling whose value is a whole int64 (`1,000`, `42.0`, `$42`) | the value is |
| `number` | one number; unit, currency and `%` are dropped (`50 %` is 50) | the exact value is, or within the tolerance |
| `choice` | one of the contract's letters | the letter is |
| `text` | any text | it is, but for case, spacing, quotes and a final full stop |
| `math` | any formula or phrase | see `compare`; only then the checker process is asked |
| `code` | a program, or the rest of the prompt's function; it is parsed, never run | it parses to the same tree, docstrings left out |
| `state` | what the checkable task of the contract takes for one | the task spells them alike |
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from functools import lru_cache

from ttc_eval.answers.compare import same_shape
from ttc_eval.answers.evaluate import Tolerance, close, rational
from ttc_eval.answers.fallback import choice_letter
from ttc_eval.answers.latex import clean, plain_words
from ttc_eval.answers.math_checker import MathChecker, default_checker
from ttc_eval.answers.nodes import TooLarge, Unsupported
from ttc_eval.answers.numbers import parse_int64, parse_number
from ttc_eval.answers.programs import program_name
from ttc_eval.answers.shapes import Shape, Value, Words, parse_answer
from ttc_eval.records import AnswerContract, ContractKind, Extraction
from ttc_eval.tasks import task_of


def canonical(answer: str, contract: AnswerContract) -> str | None:
    """The name of the answer's class; None when it is no valid answer under the contract. Idempotent.

    It never raises for what an answer holds, and `UserError` when the contract names no task that there is. For every kind but `math`, and
    without tolerance, two answers are the same if and only if their names are. For `math` equal names mean equal answers, and unequal
    names leave it open: ask `same_answer`.
    """
    match contract.kind:
        case ContractKind.INTEGER:
            return _integer(answer, contract.extraction)
        case ContractKind.NUMBER:
            value = parse_number(answer)
            return None if value is None else str(value)
        case ContractKind.CHOICE:
            return choice_letter(answer, contract.choices)
        case ContractKind.TEXT:
            return _text(answer)
        case ContractKind.MATH:
            return _math(answer)
        case ContractKind.CODE:
            return program_name(answer)
        case ContractKind.STATE:
            return task_of(contract.task).canonical(answer)


def _integer(answer: str, extraction: Extraction) -> str | None:
    if extraction is Extraction.WHOLE:
        whole = parse_int64(answer)
        return None if whole is None else str(whole)
    value = parse_number(answer)
    if value is None or value.denominator != 1 or not -(2**63) <= value < 2**63:
        return None
    return str(value)


def _text(answer: str) -> str | None:
    for _ in range(4):  # case folding and normalisation can each undo a little of the other
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", answer).casefold())
        folded = re.sub(r"\\text ?\{([^{}]*)\}", r"\1", folded)
        folded = " ".join(folded.split()).strip("\"'*` ").rstrip(".").rstrip("\"'*` ")
        if folded == answer:
            break
        answer = folded
    return answer or None


def _math(answer: str, depth: int = 0) -> str | None:
    text = clean(answer)
    if not text:
        return None
    shape = _shape(text)
    if isinstance(shape, Value):
        try:
            value = rational(shape.node)
        except (TooLarge, Unsupported):
            return text
        return text if value is None else str(value)
    if not isinstance(shape, Words):
        return text
    words = plain_words(text)
    if words == text or depth > 4:
        return words or None
    return _math(words, depth + 1)  # lower case can mean something new: capital pi becomes a sign


@lru_cache(maxsize=4096)
def _shape(text: str) -> Shape:
    return parse_answer(text)


def same_answer(a: str, b: str, contract: AnswerContract, *, checker: MathChecker | None = None) -> bool:
    """Whether two answers are the same under the contract. Symmetric, never raises; an invalid answer equals nothing.

    Under `math` this can ask the checker process and take up to its time limit; what it cannot decide is not equal.
    """
    name_a, name_b = canonical(a, contract), canonical(b, contract)
    if name_a is None or name_b is None:
        return False
    return same_names(name_a, name_b, contract, checker=checker)


def same_names(a: str, b: str, contract: AnswerContract, *, checker: MathChecker | None = None) -> bool:
    """`same_answer` for two canonical names."""
    if a == b:
        return True
    tolerance = Tolerance(contract.rel_tol, contract.abs_tol)
    if contract.kind is ContractKind.NUMBER:
        return not tolerance.exact and close(Fraction(a), Fraction(b), tolerance)
    if contract.kind is not ContractKind.MATH:
        return False
    first, second = sorted((a, b))
    if checker is not None:
        decided = _decided(first, second, tolerance)
        return checker.equal(first, second, tolerance.rel, tolerance.abs) if decided is None else decided
    return _same_math(first, second, tolerance)


@lru_cache(maxsize=8192)
def _same_math(a: str, b: str, tolerance: Tolerance) -> bool:
    decided = _decided(a, b, tolerance)
    return default_checker().equal(a, b, tolerance.rel, tolerance.abs) if decided is None else decided


def _decided(a: str, b: str, tolerance: Tolerance) -> bool | None:
    return same_shape(_shape(a), _shape(b), tolerance)
