"""One spelling for what LaTeX, Unicode and markdown spell in many ways. Text in, text out; nothing is evaluated.

`clean` is what every other module of this package reads. It keeps the meaning and drops the typography: delimiters
and their sizes, spacing commands, font commands, thousands separators, Unicode signs. It is idempotent, because its
result serves as the name of an answer's class and is read again when a sweep resumes.
"""

from __future__ import annotations

import re

MAX_TEXT = 20_000
"""Longer answers are cut before they are cleaned: no answer is that long, and time must stay bounded."""

_SIGNS = str.maketrans(
    {
        "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-",
        "\uff0b": "+", "×": r"\cdot ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "∗": "*", "÷": "/", "\u2044": "/",
        "\u2215": "/",
        "π": r"\pi ", "∞": r"\infty ", "√": r"\sqrt ", "±": r"\pm ", "∓": r"\mp ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
        "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "°": r"^\circ ", "º": r"^\circ ", "θ": r"\theta ",
        "α": r"\alpha ", "β": r"\beta ",
        "λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ", "ω": r"\omega ", "⟨": r"\langle ", "⟩": r"\rangle ", "⌊": r"\lfloor ",
        "⌋": r"\rfloor ",
        "⌈": r"\lceil ", "⌉": r"\rceil ", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "⅓": r"\frac{1}{3}",
        "⅔": r"\frac{2}{3}",
        "\u2009": r"\,", "\u202f": r"\,", "\u00a0": " ", "\u200b": None, "\u2060": None, "\ufeff": None,
        "（": "(", "）": ")", "，": ",", "％": "%", "＝": "=", "＄": "$", "’": "'", "‘": "'", "“": '"', "”": '"',
    }
)  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")

_ALIASES = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom", "leq": "le", "leqslant": "le",
    "geq": "ge", "geqslant": "ge",
    "neq": "ne", "lt": "<", "gt": ">", "times": "cdot", "ast": "cdot", "div": "/", "infin": "infty", "varnothing": "emptyset",
    "mid": "|", "vert": "|", "lvert": "|",
    "rvert": "|", "lbrace": r"\{", "rbrace": r"\}", "degree": r"^\circ", "mbox": "text", "textrm": "text", "textbf": "text",
    "textit": "text", "textsf": "text",
    "texttt": "text", "hbox": "text", "lparen": "(", "rparen": ")", "lbrack": "[", "rbrack": "]",
}  # fmt: skip
_DROPPED = frozenset(
    (
        "left", "right", "middle", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "Biggl",
        "Biggr", "displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "rm", "bf", "it",
    )
)  # fmt: skip
_SPACES = frozenset(("quad", "qquad", "enspace", "thinspace", "space", "medspace", "thickspace", "nobreakspace"))
_FONTS = frozenset(
    (
        "mathrm", "mathbf", "mathit", "mathsf", "operatorname", "boldsymbol", "bm", "vec", "overrightarrow",
    )
)  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)(\*?)")
_FONT = re.compile(r"\\font\{([^{}]*)\}")
_TEXT = re.compile(r"\\text ?\{([^{}]*)\}")
_DEGREE = re.compile(r"\^ ?\{ ?\\circ ?\}|\^ ?\\circ(?![A-Za-z])")
_DELIMITER = re.compile(r"(?<!\\)\\[()\[\]]")
_DOLLAR = re.compile(r"(?<!\\)\$")
_MARKED_THOUSANDS = re.compile(r"(?<=[0-9])(?:, ?\\! ?|\{,\}(?:\\!)? ?|\\,|\\;|\\ )(?=[0-9]{3}(?![0-9]))")
_THOUSANDS = re.compile(r"(?<![0-9,.])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9]|,[0-9])")
_SPACING = re.compile(r"(?<!\\)\\[,;: ]|~")
_NEGATIVE_SPACE = re.compile(r"(?<!\\)\\!")
_MIXED = re.compile(r"(?<![0-9./^_,])([0-9]+) ([0-9]+)/([0-9]+)(?![0-9./])")
_REPEATING = re.compile(r"([0-9]{0,50})\.([0-9]{0,50})\\overline ?\{([0-9]{1,50})\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_SQUEEZE = re.compile(r" (?=[^A-Za-z0-9])|(?<=[^A-Za-z0-9]) |(?<=[0-9]) (?=[A-Za-z](?![A-Za-z]))")
_ARGUMENT_SPACE = re.compile(r"(\\[A-Za-z]+) (?=[0-9])")


def clean(text: str) -> str:
    """The text in its one spelling; empty when nothing is left. Never fails, and is idempotent."""
    text = text[:MAX_TEXT]
    for _ in range(8):
        cleaned = _pass(text)
        if cleaned == text:
            break
        text = cleaned
    return text


def _pass(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda m: "^{" + m.group().translate(_SUPERSCRIPTS) + "}", text.translate(_SIGNS))
    text = " ".join(text.split()).strip("*`").strip()
    if text.isascii() and text.isalnum():
        return text
    text = _unwrap(_DELIMITER.sub(" ", text).strip())
    text = _dollars(text).replace(r"\%", "%").replace("**", "^")
    text = _MARKED_THOUSANDS.sub("", text)
    if not ("(" in text or "[" in text or r"\{" in text):  # inside brackets a comma parts the items: (100,200) is a point
        text = _THOUSANDS.sub(lambda m: m.group().replace(",", ""), text)
    text = _SPACING.sub(" ", _NEGATIVE_SPACE.sub("", text))
    text = _COMMAND.sub(_command, text)
    text = _FONT.sub(_font, text)
    text = _TEXT.sub(lambda m: r"\text{" + m.group(1).strip() + "}", _DEGREE.sub(r"^\\circ ", text))
    text = _REPEATING.sub(_repeating, text)
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    text = _ARGUMENT_SPACE.sub(r"\1", _SQUEEZE.sub("", " ".join(text.split())))
    whole = _TEXT.fullmatch(text)
    return (whole.group(1) if whole else text).rstrip(".,;:").strip() if not text.endswith("...") else text


def _command(match: re.Match[str]) -> str:
    name = match.group(1)
    if name in _DROPPED:
        return " "
    if name in _SPACES:
        return " "
    if name in _FONTS:
        return r"\font"
    alias = _ALIASES.get(name, name)
    if alias == "cdot":
        return "*"
    return "\\" + alias + match.group(2) if alias.isalpha() else alias


def _repeating(match: re.Match[str]) -> str:
    """A repeating decimal as a fraction: 0.1666... is 15/90."""
    whole, fixed, repeated = match.groups()
    bottom = int("9" * len(repeated) + "0" * len(fixed))
    return rf"\frac{{{int(whole + fixed + repeated) - int((whole + fixed) or '0')}}}{{{bottom}}}"


def _font(match: re.Match[str]) -> str:
    inner = match.group(1).strip()
    if inner in FUNCTION_NAMES:
        return f"\\{inner} "
    return inner if len(inner) == 1 else r"\text{" + inner + "}"


FUNCTION_NAMES = frozenset(
    (
        "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp",
        "sqrt",
    )
)  # fmt: skip
"""Functions that this package knows, with or without a backslash."""


def _unwrap(text: str) -> str:
    """The inside of a box that is the whole text."""
    match = _BOXED.match(text)
    if match and matching_braces(text).get(match.end() - 1) == len(text) - 1:
        return text[match.end() : -1].strip()
    return text


def _dollars(text: str) -> str:
    r"""Dollar signs in pairs delimit formulas and go; one alone is money and becomes `\$`."""
    count = len(_DOLLAR.findall(text))
    if count == 0:
        return text
    return _DOLLAR.sub(" ", text).strip() if count % 2 == 0 else _DOLLAR.sub(r"\\$", text)


def matching_braces(text: str) -> dict[int, int]:
    """Position of each opening brace that is closed, with the position that closes it, in one pass. Escaped braces do not count."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    escaped = False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "{":
            stack.append(i)
        elif char == "}" and stack:
            pairs[stack.pop()] = i
    return pairs


def plain_words(text: str) -> str:
    """The text without `\\text{}` wrappers, in lower case, spaces single: how words are compared."""
    return " ".join(_TEXT.sub(lambda m: f" {m.group(1)} ", text).casefold().split()).strip("\"'").strip()
