"""What a checkable task is: explicit states, legal moves, a test of the end, and a check of a whole answer by rule.

A search over such a task needs no opinion about what is legal or finished: the state decides that here, exactly. What is likely to work
is another matter, and the business of a verifier or of the model. Nothing that a model wrote is ever run as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from ttc_eval.records import JSON


class IllegalMove(Exception):
    """A proposed move is refused. The text says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a final answer is valid, and why or why not."""

    valid: bool
    reason: str


class State(Protocol):
    """A state of a task: what has been done and what is left. Immutable."""

    @property
    def key(self) -> str:
        """The same for two states exactly if the same can still be done from both."""
        ...

    @property
    def moves_left(self) -> int:
        """At most so many moves lead from here to an end."""
        ...

    @property
    def terminal(self) -> bool:
        """Whether nothing is left to do. A state without a legal move need not be terminal: it is stuck."""
        ...

    @property
    def solved(self) -> bool:
        """Whether it is terminal and its answer is valid."""
        ...

    def moves(self) -> Iterator[tuple[str, Self]]:
        """Every legal move, as `play` reads it, with the state after it, in a fixed order."""
        ...

    def play(self, move: str) -> Self:
        """The state after a move that a model has proposed. Raises `IllegalMove` with the reason, and nothing else."""
        ...

    def bound(self) -> str | None:
        """Why no move sequence can succeed from here, by a bound that is cheap to work out; None when the bound leaves it open."""
        ...

    def render(self) -> str:
        """The state in plain lines, none of them blank, as a prompt shows it."""
        ...

    def answer(self) -> str:
        """The final answer that a terminal state stands for."""
        ...


class Task(Protocol):
    """A checkable task. `given` is what the problem states, by the columns that `Dataset.given` names.

    `name` is the word for it in `AnswerContract.task`; `moves_are` says in a prompt how a move is written.
    """

    name: ClassVar[str]
    moves_are: ClassVar[str]

    def start(self, given: JSON) -> State:
        """The state before the first move. Raises `UserError` when `given` does not state a problem of this task."""
        ...

    def read(self, given: JSON, shown: str) -> State:
        """The state that `State.render` showed. Raises `ValueError` when that is no state of the problem."""
        ...

    def check(self, given: JSON, answer: str) -> Verdict:
        """Whether `answer` is a valid final answer to the problem. Exact; never raises for what an answer holds."""
        ...

    def canonical(self, answer: str) -> str | None:
        """One spelling for answers that say the same; None when it is no answer of this task. Idempotent, never raises.

        `check` judges it as it judges the answer.
        """
        ...

    def find(self, text: str) -> str | None:
        """The answer at the beginning of `text`, as written; None when it does not begin with one."""
        ...


def impossible(state: State, lookahead: int) -> str | None:
    """Why `state` provably leads to no solution; None when that is not proven.

    Proven by being terminal or stuck, by the task's bound, or, where at most `lookahead` moves are left, by trying out every line of play.
    """
    if state.terminal:
        return None if state.solved else f"it ends with {state.answer()}, which is no solution"
    reason = state.bound()
    if reason is not None:
        return reason
    if next(state.moves(), None) is None:
        return "no legal move is left"
    if state.moves_left <= lookahead and not winnable(state):
        return f"none of its lines of play ends in a solution (all of them, {state.moves_left} moves deep, were tried)"
    return None


def winnable(state: State, known: dict[str, bool] | None = None) -> bool:
    """Whether some sequence of legal moves from `state` ends in a solution, by exhaustive search; exponential in the moves left.

    `known` keeps what was found by `State.key`; share it between calls about one problem only.
    """
    known = {} if known is None else known
    if state.key not in known:
        if state.terminal:
            known[state.key] = state.solved
        else:
            known[state.key] = state.bound() is None and any(winnable(after, known) for _, after in state.moves())
    return known[state.key]
