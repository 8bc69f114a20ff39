"""Reads a mathematical expression, in LaTeX or plain notation, into a tree. No `eval`, no computer algebra.

A recursive-descent parser over a closed vocabulary. What it does not know is `Unsupported`: the caller then falls
back on comparing text or on the checker process. Input length and nesting are bounded.
"""

from __future__ import annotations

import re

from ttc_eval.answers.latex import FUNCTION_NAMES
from ttc_eval.answers.nodes import Node, Unsupported, decimal, number

MAX_LENGTH = 1_000
MAX_DEPTH = 70

_TOKEN = re.compile(
    r"(?P<num>(?:(?:[0-9]+\.[0-9]*|1)[eE][+-]?[0-9]+|[0-9]+[eE](?:[0-9]+|[+-][0-9]{2,}))(?![0-9.])|[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"|(?P<cmd>\\[A-Za-z]+)|(?P<word>[A-Za-z]+)|(?P<op>[-+*/^_(){}\[\]|!%])|(?P<space> +)|(?P<bad>.)",
    re.DOTALL,
)
_GREEK = frozenset(
    (
        "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa", "lambda",
        "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta",
        "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "ell",
    )
)  # fmt: skip
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_FENCES = {r"\lfloor": (r"\rfloor", "floor"), r"\lceil": (r"\rceil", "ceil")}


def parse_expression(text: str) -> Node:
    """The tree of `text`, which has been through `latex.clean`.

    Raises:
        Unsupported: it is not an expression of the known vocabulary, or is too long or too deep.
    """
    if len(text) > MAX_LENGTH:
        raise Unsupported("too long")
    parser = _Parser(_tokens(text))
    tree = parser.sum()
    if parser.peek() is not None:
        raise Unsupported(f"unexpected {parser.peek()!r}")
    return tree


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "bad":
            raise Unsupported(f"character {token!r}")
        if kind == "word" and token not in FUNCTION_NAMES and token not in ("pi", "abs"):
            if len(token) > 3:  # a word, not a product of four letters
                raise Unsupported(f"word {token!r}")
            tokens.extend(token)
        elif kind == "word":
            tokens.append("\\" + token)
        elif kind != "space":
            tokens.append(token)
    return tokens


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.bars = 0

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if token is None or (expected is not None and token != expected):
            raise Unsupported(f"expected {expected or 'more'}, found {token!r}")
        self.at += 1
        return token

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unsupported("nested too deeply")
        terms = [self.product()]
        while (sign := self.peek()) in ("+", "-"):
            self.take()
            term = self.product()
            terms.append(term if sign == "+" else Node("neg", (term,)))
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def product(self) -> Node:
        left = self.signed()
        while True:
            token = self.peek()
            if token in ("*", "/"):
                self.take()
                left = Node("mul" if token == "*" else "div", (left, self.signed()))
            elif self.starts_factor():
                before = self.tokens[self.at - 1]
                right = self.power()
                if _is_number(before) and _mixed(left, right):
                    left = Node("add", (left, right))
                elif _is_number(before) and _is_number(token or ""):
                    raise Unsupported("two numbers side by side")
                else:
                    left = Node("mul", (left, right))
            else:
                return left

    def signed(self) -> Node:
        signs = 0
        negative = False
        while self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
            signs += 1
            if signs > 2:
                raise Unsupported("signs in a row")
        # The sign binds looser than the implicit product: -1 4/5 is -(1 + 4/5).
        factor = self.implicit() if negative else self.power()
        return Node("neg", (factor,)) if negative else factor

    def implicit(self) -> Node:
        left = self.power()
        if self.starts_factor() and _is_number(self.tokens[self.at - 1]) and self.peek() == r"\frac":
            right = self.power()
            return Node("add" if _mixed(left, right) else "mul", (left, right))
        return left

    def starts_factor(self) -> bool:
        token = self.peek()
        if token is None or token in "+-*/^_)]}!%":
            return False
        if token == "|":
            return self.bars == 0
        return token not in (r"\rfloor", r"\rceil")

    def power(self) -> Node:
        base = self.postfix(self.atom())
        if self.peek() != "^":
            return base
        self.take()
        if self.peek() == r"\circ":
            self.take()
            return self.postfix(Node("degree", (base,)))
        return self.postfix(Node("pow", (base, self.exponent())))

    def postfix(self, node: Node) -> Node:
        while self.peek() in ("!", "%"):
            node = Node("fact", (node,)) if self.take() == "!" else Node("div", (node, number(100)))
        return node

    def exponent(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unsupported("nested too deeply")
        sign = self.take() if self.peek() in ("-", "+") else "+"
        node = self.power()  # right-associative: a^b^c is a^(b^c)
        self.depth -= 1
        return node if sign == "+" else Node("neg", (node,))

    def argument(self) -> Node:
        r"""One LaTeX argument: a braced group, or a single token; `\frac43` is 4/3."""
        token = self.peek() or ""
        if token == "{":
            return self.group("{")
        if token.isdigit() and len(token) > 1:
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        return self.atom()

    def group(self, opener: str) -> Node:
        self.take(opener)
        bars, self.bars = self.bars, 0
        inner = self.sum()
        self.bars = bars
        self.take(_CLOSERS[opener])
        return inner

    def atom(self) -> Node:
        token = self.peek()
        if token is None:
            raise Unsupported("ends too early")
        if token in _CLOSERS:
            return self.group(token)
        if token == "|":
            return self.absolute()
        self.take()
        if _is_number(token):
            if self.peek() == "_":
                raise Unsupported("number in a named base")
            return number(decimal(token))
        if token == r"\pi":
            return Node("const", name="pi")
        if token in ("e", "i") and self.peek() != "_":
            return Node("const", name=token)
        if token == r"\infty":
            return Node("const", name="inf")
        if token.isalpha() or token[1:] in _GREEK:
            return Node("sym", name=token + self.subscript())
        return self.command(token)

    def absolute(self) -> Node:
        self.take("|")
        self.bars += 1
        inner = self.sum()
        self.bars -= 1
        self.take("|")
        return Node("abs", (inner,))

    def subscript(self) -> str:
        if self.peek() != "_":
            return ""
        self.take()
        if self.peek() != "{":
            return "_" + self.take()
        self.take()
        parts = []
        while self.peek() != "}":
            parts.append(self.take())
        self.take()
        return "_" + "".join(parts)

    def command(self, token: str) -> Node:
        name = token[1:]
        if name == "frac":
            return Node("div", (self.argument(), self.argument()))
        if name == "binom":
            return Node("binom", (self.argument(), self.argument()))
        if name == "sqrt":
            degree = self.group("[") if self.peek() == "[" else number(2)
            return Node("root", (degree, self.atom()))
        if name == "abs":
            return Node("abs", (self.group("("),))
        if token in _FENCES:
            closer, op = _FENCES[token]
            inner = self.sum()
            self.take(closer)
            return Node(op, (inner,))
        if name in FUNCTION_NAMES:
            return self.function(name)
        raise Unsupported(f"command {token!r}")

    def function(self, name: str) -> Node:
        base: Node | None = None
        if name == "log" and self.peek() == "_":
            self.take()
            base = self.argument()
        exponent: Node | None = None
        if self.peek() == "^":
            self.take()
            exponent = self.argument()
        argument = self.function_argument()
        if exponent == Node("neg", (number(1),)) and name in ("sin", "cos", "tan"):
            return Node("arc" + name, (argument,))
        call = Node("log", (base, argument)) if base else Node("ln" if name == "log" else name, (argument,))
        return Node("pow", (call, exponent)) if exponent else call

    def function_argument(self) -> Node:
        if self.peek() in ("(", "{"):
            return self.power()
        if self.peek() == "-":
            self.take()
            return Node("neg", (self.function_argument(),))
        node = self.power()
        while self.starts_factor() and (self.peek() or "")[1:] not in FUNCTION_NAMES and self.peek() not in _CLOSERS:
            node = Node("mul", (node, self.power()))
        return node


def _is_number(token: str) -> bool:
    return token[:1].isdigit() or token[:1] == "."


def _mixed(left: Node, right: Node) -> bool:
    """Whether `left right` is a mixed number: a whole number, then a proper fraction of whole numbers."""
    if left.op != "num" or left.value.denominator != 1 or right.op != "div":
        return False
    top, bottom = right.args
    if top.op != "num" or bottom.op != "num" or top.value.denominator != 1 or bottom.value.denominator != 1:
        return False
    return 0 < top.value < bottom.value
