"""The child process of the math checker: one JSON question a line in, one JSON answer a line out.

math-verify says "equal" too readily (1/30! and 1/31!, 2 - 1/e and 2 + 1/e in version 0.9.0) and not always the same in
both directions. So it is asked in both, and a "yes" counts only when the parsed values agree to many digits. Run as
`python -m ttc_eval.answers.math_worker [memory in MB]`; it ends when its input does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import IO, Any

_DIGITS = 50
_AGREE = 30


def main() -> None:
    """Serves questions until the input ends. Each has a deadline that the kernel enforces, should the parent be gone."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    _limit_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 2048)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the pipe
    try:
        import math_verify  # noqa: F401 - half a second, paid here and not in the parent
    except ImportError as error:
        _send(answers, {"error": str(error)})
        return
    _send(answers, {"ready": True})
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, float(question["limit"]) + 1.0)
        try:
            result = equal(question["a"], question["b"], question["rel_tol"], question["abs_tol"])
        except (Exception, RecursionError):  # a symbolic library may raise anything; none of it shows equality
            result = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(answers, {"equal": result})


def _send(answers: IO[str], reply: dict[str, Any]) -> None:
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


def _limit_memory(megabytes: int) -> None:
    for kind, amount in ((resource.RLIMIT_AS, megabytes << 20), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(kind, (amount, amount))
        except (OSError, ValueError):
            continue


def equal(a: str, b: str, rel_tol: float = 0.0, abs_tol: float = 0.0) -> bool:
    """Whether math-verify finds two formulas equal and their values confirm it. May hang or raise: for the child process only."""
    from math_verify import LatexExtractionConfig, parse, verify

    parsed = []
    for text in (a, b):
        found = parse(f"${text}$", extraction_config=[LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
        if not found or isinstance(found[0], str):
            return False
        parsed.append(found)
    first, second = parsed
    if rel_tol <= 0 and abs_tol <= 0 and not (verify(first, second, timeout_seconds=None) or verify(second, first, timeout_seconds=None)):
        return False
    return confirmed(first[0], second[0], rel_tol, abs_tol)


def confirmed(a: Any, b: Any, rel_tol: float, abs_tol: float) -> bool:
    """Whether two parsed values agree: structurally, part by part, or in number at several points."""
    import sympy

    if type(a) is type(b) and a == b:
        return True
    if isinstance(a, sympy.MatrixBase) and isinstance(b, sympy.MatrixBase):
        return a.shape == b.shape and all(confirmed(x, y, rel_tol, abs_tol) for x, y in zip(a, b, strict=True))
    if isinstance(a, sympy.FiniteSet) and isinstance(b, sympy.FiniteSet):
        return len(a) == len(b) and all(any(confirmed(x, y, rel_tol, abs_tol) for y in b) for x in a)
    if isinstance(a, sympy.Expr) and isinstance(b, sympy.Expr):
        return _same_numbers(a, b, rel_tol, abs_tol)
    if isinstance(a, sympy.Basic) and isinstance(b, sympy.Basic) and a.func == b.func and a.args and len(a.args) == len(b.args):
        return all(confirmed(x, y, rel_tol, abs_tol) for x, y in zip(a.args, b.args, strict=True))
    return False


def _same_numbers(a: Any, b: Any, rel_tol: float, abs_tol: float) -> bool:
    import sympy

    names = sorted(a.free_symbols | b.free_symbols, key=str)
    points = [{s: sympy.Rational(37 + 11 * i + 7 * j, 29 + 3 * j) for j, s in enumerate(names)} for i in range(4 if names else 1)]
    return all(_close(_evaluated(a, p), _evaluated(b, p), rel_tol, abs_tol) for p in points)


def _evaluated(a: Any, point: dict[Any, Any]) -> Any:
    value = a.subs(point).evalf(_DIGITS)
    return value if value.is_Number or (value.is_number and value.is_finite) else a.subs(point).doit().evalf(_DIGITS)


def _close(a: Any, b: Any, rel_tol: float, abs_tol: float) -> bool:
    if not (a.is_number and b.is_number and a.is_finite and b.is_finite):
        return bool(a == b and a.is_number)
    gap, scale = abs(a - b), max(abs(a), abs(b))
    return bool(gap <= max(scale * max(rel_tol, 10.0**-_AGREE), abs_tol))


if __name__ == "__main__":
    main()
