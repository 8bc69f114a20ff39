"""Grading: whether the answers of a solution are right. The one place where a reference is read, after the fact."""

from __future__ import annotations

import asyncio

from ttc_eval.answers import same_answer
from ttc_eval.records import ContractKind, Problem, Solution


async def grade(problem: Problem, solution: Solution) -> dict[str, bool]:
    """Whether each answer class among the candidates is right."""
    seen = sorted({candidate.answer_class for candidate in solution.candidates if candidate.answer_class is not None})
    if problem.contract.kind is not ContractKind.MATH:
        return {answer: same_answer(answer, problem.reference, problem.contract) for answer in seen}
    return {answer: await asyncio.to_thread(same_answer, answer, problem.reference, problem.contract) for answer in seen}
