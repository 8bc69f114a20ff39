"""Checkable tasks: problems whose states, moves and answers are judged by rule."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

from ttc_eval.errors import UserError
from ttc_eval.tasks.base import IllegalMove, State, Task, Verdict, impossible, winnable
from ttc_eval.tasks.game24 import Game24
from ttc_eval.tasks.schedule import Schedule

__all__ = ["TASKS", "Game24", "IllegalMove", "Schedule", "State", "Task", "Verdict", "impossible", "task_of", "winnable"]

TASKS: Mapping[str, Task] = {task.name: task for task in (Game24(), Schedule())}


@cache
def task_of(name: str | None) -> Task:
    """The task that `AnswerContract.task` names: one of `TASKS`, or a class of the user's own by its dotted name (`mine.sudoku.Sudoku`).

    Raises `UserError` that lists the tasks.
    """
    if name is not None and name in TASKS:
        return TASKS[name]
    module, _, attribute = (name or "").rpartition(".")
    if not module:
        raise UserError(f"dataset.answer.task={name}: give one of {', '.join(TASKS)}, or the dotted name of a class of your own")
    try:
        task: Task = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"dataset.answer.task={name}: it cannot be imported: {error}; the tasks here are {', '.join(TASKS)}") from None
    return task
