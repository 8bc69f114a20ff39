"""Strategies on the simulated model through a real session, exchange, ledger and journal; no database, so that many runs take no time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ttc_eval.answers import AnswerClasses
from ttc_eval.asking import DrawConfig
from ttc_eval.exchange import Exchange, RetryPolicy, Tally
from ttc_eval.ledger import Account, Ledger, Limits, Scope
from ttc_eval.models.simulated import SimulatedModel
from ttc_eval.records import AnswerContract, ContractKind, Message, Problem, Sampling, Solution
from ttc_eval.session import Session
from ttc_eval.store import Journal
from ttc_eval.strategies import Strategy
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Outcome


def problems(count: int) -> list[Problem]:
    contract = AnswerContract(ContractKind.INTEGER)
    return [Problem(f"p{i}", "d", "dev", (Message("user", f"Question {i}?"),), str(100 * i), contract) for i in range(count)]


@dataclass(frozen=True)
class Run:
    """One strategy on one problem: its solution, and the calls that it was charged and those beyond its stop."""

    solution: Solution
    charged: tuple[tuple[Any, ...], ...]
    overshoot: int
    totals: Any


def run_all(
    strategies: Sequence[Strategy],
    *,
    model: SimulatedModel,
    count: int = 3,
    seed: int = 0,
    limits: Limits | None = None,
    answer_tokens: int = 32,
    logprobs: int | None = 5,
) -> list[Run]:
    """Every strategy on every problem, one after another."""

    async def scenario() -> list[Run]:
        asked = problems(count)
        knowing = model.with_answers(asked)
        with TemporaryDirectory() as folder:
            async with Journal(Path(folder)) as journal, knowing.connect() as connection:
                ledger, wallet = Ledger(), Account(Scope.SWEEP, Limits())
                exchange = Exchange(
                    info=knowing.info,
                    connection=connection,
                    journal=journal,
                    ledger=ledger,
                    wallet=wallet,
                    sweep_id="s",
                    retry=RetryPolicy(first_wait_s=0.0, max_attempts=8),
                    tally=Tally(),
                )
                config = DrawConfig(Thinking(), Sampling(logprobs=logprobs), answer_tokens, seed, f"pool {seed}", Outcome(answer_tokens=16))
                found = []
                for strategy in strategies:
                    for problem in asked:
                        account = Account(Scope.PROBLEM, limits or Limits())
                        session = Session(
                            question=problem.question(),
                            config=config,
                            exchange=exchange,
                            ledger=ledger,
                            problem=account,
                            cell=Account(Scope.CELL, Limits()),
                            classes=AnswerClasses(problem.contract),
                        )
                        solution = await strategy.solve(session)
                        assert account.held == type(account.held)(), "nothing stays reserved"
                        spent = [charge for charge in session.spending.charges if not charge.overshoot]
                        charged = tuple(sorted(((str(charge.attempt.row["key"]), charge.amounts) for charge in spent), key=repr))
                        beyond = len(session.spending.charges) - len(spent)
                        totals = session.spending.charged
                        found.append(Run(solution, charged, beyond, (totals.calls, totals.output_tokens, totals.verifier_calls)))
                return found

    return asyncio.run(scenario())


def without_calls(solution: Solution) -> Any:
    """A solution without the ids of its calls, which differ between runs."""
    candidates = [(one.position, one.draw, one.text, one.answer_class, one.complete) for one in solution.candidates]
    scores = [(one.position, one.value) for one in solution.scores]
    return (solution.answer, solution.stop_reason, solution.attempts, solution.valid, solution.error, candidates, scores)
