"""Reads one number, letter, formula or sentence out of prose: after a marker, or from the end of a text without one.

Every search is a single pass over the text, so that a long or hostile text costs no more than its length.
"""

from __future__ import annotations

import re

from ttc_eval.answers.latex import clean
from ttc_eval.records import AnswerContract, ContractKind

_AMOUNT = r"(?:[0-9]{1,3}(?:(?:,|\{,\}|,\\!)[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_SCALE = r"(?: (?:hundred|thousand|million|billion|trillion)\b)?"
NUMBER = re.compile(
    rf"(?<![A-Za-z0-9_])[-+\u2212]?(?:\\?\$ ?)?[-\u2212]?(?:[0-9]+ ?)?\\[dt]?frac\{{-?[0-9.]+\}}\{{[0-9.]+\}}"
    rf"|(?:(?<![A-Za-z0-9_)\].])[-+\u2212])?(?:\\?\$ ?)?(?:{_AMOUNT})(?:[eE][+-]?[0-9]+(?![0-9A-Za-z]))?"
    rf"(?: [0-9]+/[0-9]+|/[0-9]+(?:\.[0-9]+)?)?{_SCALE}"
)
_CHAIN = re.compile(
    r"^[-+\u2212*/×÷·^().,$\s0-9]{1,200}=(?!=)"
    r"|^\\?\(?[-+*/^().,$\s0-9]{1,200}(?:\\(?:times|cdot|div)[-+*/^().,$\s0-9]{1,200}){1,20}="
)
_FORMULA = re.compile(
    r"\$\$(?P<a>[^$]{1,2000})\$\$|(?<!\\)\$(?P<b>[^$\n]{1,1000}?)(?<!\\)\$"
    r"|\\\((?P<c>.{1,1000}?)\\\)|\\\[(?P<d>.{1,2000}?)\\\]", re.DOTALL
)  # fmt: skip
_HEDGE = re.compile(
    r"(?:(?:approximately|about|roughly|exactly|equal to|simply|just|therefore|thus|option|choice|the (?:option|choice|number|letter)"
    r"|that|is|be|are)\b[:, ]*"
    r"|[≈~=:] *)+",
    re.IGNORECASE,
)
_LETTER = re.compile(r"(?<![\w'’-])(?P<open>[(\[*]{0,3})(?P<letter>[A-Za-z])(?P<close>[)\]*]{0,3})(?![\w'’-])")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\s(?:because|since|which|where|as)\s", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<!approx)[.!?]\s")
_WORDY = re.compile(r"(?<!\\)\b[A-Za-z]{2,}")
_MATH_WORDS = frozenset(
    (
        "sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "pi", "or", "and", "infinity", "infty", "degrees",
    )
)  # fmt: skip
_CHOICE = re.compile(r"[(\[]?([A-Za-z])[)\].:,]?|[(\[]([A-Za-z])[)\]].{0,500}|([A-Za-z])[).:] .{0,500}", re.DOTALL)


def undecorated(line: str) -> str:
    """A line without markdown around it, and without the full stop at its end."""
    line = line.strip().strip("*_`").strip()
    if line.endswith("."):
        line = line[:-1].rstrip().rstrip("*_`").rstrip()
    return line.replace("**", "") if "**" in line else line


def leading_number(line: str) -> str | None:
    """The number that a statement gives: after a chain of arithmetic its result, else its first; never one from the prose after it."""
    hedge = _HEDGE.match(line)
    line = line[hedge.end() :] if hedge else line
    chain = _CHAIN.match(line)
    while chain:
        line = line[chain.end() :].lstrip()
        chain = _CHAIN.match(line)
    line = _SENTENCES.split(line, maxsplit=1)[0]
    first = NUMBER.search(line)
    if first is None:
        return None
    equals = line.find("=")
    if first.start() > 0 and equals != -1 and not line[: first.start()].rstrip().endswith("="):
        after = NUMBER.search(line, line.rfind("=") + 1)
        first = after or first
    return _trimmed(first.group())


def _trimmed(token: str) -> str:
    r"""A number without the currency sign in front; `$18` is 18 as an answer."""
    sign = "-" if re.match(r"[-\u2212]", token) or re.match(r"\\?\$ ?[-\u2212]", token) else ""
    return sign + token.lstrip("-+\u2212\\$ ") if not token.lstrip("-+\u2212$ ").startswith("\\") else token.replace("$", "")


def choice_letter(answer: str, choices: str) -> str | None:
    """The letter that an answer names, as the contract spells it: `B`, `(b)`, `B. Paris`; None for anything else."""
    answer = answer[:600].strip().strip("*_`").strip()
    match = _CHOICE.fullmatch(answer) or _CHOICE.fullmatch(clean(answer))
    if not match:
        return None
    letter = next(group for group in match.groups() if group)
    for known in choices:
        if known.casefold() == letter.casefold():
            return known
    return None


def leading_choice(line: str, choices: str) -> str | None:
    """The letter that a statement after a marker names: `B`, `option (B)`, `**B** because`; a lower-case `a` only when it stands alone."""
    hedge = _HEDGE.match(line)
    line = line[hedge.end() :] if hedge else line
    line = clean(line)
    if (letter := choice_letter(line, choices)) is not None:
        return letter
    match = _LETTER.match(line)
    if match is None:
        return last_choice(line, choices)
    upper = match["letter"].isupper() or bool(match["open"] and match["close"])
    return choice_letter(match["letter"], choices) if upper else last_choice(line, choices)


def last_choice(text: str, choices: str) -> str | None:
    """The last letter that stands for an option. The article `A` that opens a sentence, and the pronoun `I`, do not."""
    found = None
    for match in _LETTER.finditer(text):
        letter, marked = match["letter"], bool(match["open"] and match["close"])
        if letter not in choices or (letter.islower() and not marked):
            continue
        if letter in "AI" and not marked and _reads_as_word(text, match):
            continue
        found = letter
    return found


def _reads_as_word(text: str, match: re.Match[str]) -> bool:
    after = text[match.end() : match.end() + 3]
    if not re.match(r" [A-Za-z]", after):
        return False
    if match["letter"] == "I" or re.match(r" [A-Z][a-z]", after):
        return True
    before = text[max(0, match.start() - 3) : match.start()].rstrip(" ")
    return not before or before[-1] in '.!?:;\n"*#>-'


def leading_formula(line: str) -> str | None:
    """The formula or phrase at the start of a statement, without the prose after it."""
    hedge = _HEDGE.match(line)
    line = line[hedge.end() :] if hedge and hedge.end() < len(line) else line
    formula = _FORMULA.search(line)
    if formula and (formula.start() == 0 or not re.search("[0-9]", line[: formula.start()])):
        return _inside(formula)
    if line.startswith("\\text"):
        return line
    words = line.split(" ")
    kept: list[str] = []
    for i, word in enumerate(words):
        prose = [w for w in _WORDY.findall(re.sub(r"\\[A-Za-z]+(?:\{[A-Za-z]+\})?", "", word)) if w.lower() not in _MATH_WORDS]
        if prose and max(map(len, prose)) > 2:
            break
        if word.lower() in ("and", "or") and not (i + 1 < len(words) and re.match(r"[-+(\\$0-9]|[A-Za-z]$", words[i + 1])):
            break
        kept.append(word)
    candidate = " ".join(kept).strip().rstrip(",;:.")
    while candidate.endswith((" is", " as", " so", " if", " in", " of", " by", " to", " we")):
        candidate = candidate[:-3].rstrip(",;: ")
    if candidate and not re.fullmatch(r"[AaI]|\W+|[a-z]{2}(?: [a-z]{1,2})*", candidate):
        return candidate
    return leading_sentence(line)


def leading_sentence(line: str) -> str | None:
    """A phrase up to the end of its sentence or to `because`."""
    end = _SENTENCE_END.search(line)
    return (line[: end.start()] if end else line).strip() or None


def last_answer(text: str, contract: AnswerContract) -> str | None:
    """The answer of a text without a marker: its last number, letter, formula or line; None when it has none."""
    kind = contract.kind
    if kind is ContractKind.CHOICE:
        return choice_letter(text, contract.choices) or last_choice(text, contract.choices)
    if kind is ContractKind.TEXT:
        lines = [line for line in (undecorated(line) for line in text.splitlines()) if line]
        return lines[-1] if lines else None
    numbers = None
    for numbers in NUMBER.finditer(text):  # noqa: B007 - the last match is what is wanted
        pass
    if kind is not ContractKind.MATH:
        return None if numbers is None else _trimmed(numbers.group())
    return _last_formula(text, numbers)


def _last_formula(text: str, last_number: re.Match[str] | None) -> str | None:
    formula = None
    for formula in _FORMULA.finditer(text):  # noqa: B007
        pass
    if formula is not None and (last_number is None or last_number.start() < formula.end()):
        inside = _inside(formula)
        left, equals, right = inside.rpartition("=")
        return right.strip() if equals and len(left.strip()) > 1 and right.strip() else inside
    if last_number is not None:
        return _trimmed(last_number.group())
    stripped = undecorated(text.strip().rpartition("\n")[2])
    return stripped if stripped and len(stripped.split()) <= 3 else None


def _inside(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None).strip()
