"""Grading: whether the answers of a solution are right. The one place where a reference is read, after the fact."""

from __future__ import annotations

import asyncio
from typing import Any

from ttc_eval.answers import same_answer
from ttc_eval.answers.programs import assembled, hidden_test
from ttc_eval.errors import UserError
from ttc_eval.records import ContractKind, Problem, Solution
from ttc_eval.sandbox import Job, Limits, checker
from ttc_eval.tasks import task_of


async def grade(problem: Problem, solution: Solution, *, run_code: bool = False) -> dict[str, bool]:
    """Whether each answer class among the candidates is right.

    `run_code` allows programs to be run, in the sandbox, against the tests that are the reference of a problem of kind `code`.

    Raises `UserError` for such a problem where that is not allowed, or without a sandbox, and `SandboxFailed` when the sandbox failed: then
    nothing is known of the program.
    """
    if problem.contract.kind is ContractKind.CODE:
        return await _grade_programs(problem, solution, run_code)
    seen = sorted({candidate.answer_class for candidate in solution.candidates if candidate.answer_class is not None})
    if problem.contract.kind is ContractKind.STATE:
        # Many answers are right, and the reference is only one of them: the task's own check decides.
        task = task_of(problem.contract.task)
        return {answer: task.check(problem.given, answer).valid for answer in seen}
    if problem.contract.kind is not ContractKind.MATH:
        return {answer: same_answer(answer, problem.reference, problem.contract) for answer in seen}
    return {answer: await asyncio.to_thread(same_answer, answer, problem.reference, problem.contract) for answer in seen}


async def _grade_programs(problem: Problem, solution: Solution, run_code: bool) -> dict[str, bool]:
    if not run_code:
        raise UserError("code_execution_not_enabled: a program is right when it passes its tests; allow_code_execution=true lets it run")
    programs = {one.answer_class: one.answer for one in reversed(solution.candidates) if one.answer_class and one.answer is not None}
    given: dict[str, Any] = dict(problem.given)
    prompt, name = str(given.get("prompt") or ""), str(given.get("entry_point") or "")
    test = (hidden_test(problem.reference),)
    jobs = {answer_class: Job(assembled(answer, prompt, name), name, test, prompt) for answer_class, answer in sorted(programs.items())}
    verdicts = await asyncio.gather(*(checker().check(job, Limits()) for job in jobs.values()))
    return {answer_class: verdict.passed for answer_class, verdict in zip(jobs, verdicts, strict=True)}
