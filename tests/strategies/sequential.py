"""Sweeps of sequential strategies as a user runs them, and what holds of every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from ttc_eval.answers import AnswerClasses
from ttc_eval.asking import DrawConfig
from ttc_eval.exchange import Exchange, RetryPolicy, Tally
from ttc_eval.ledger import Account, Ledger, Limits, Scope
from ttc_eval.models.scripted import Reply, ScriptedModel
from ttc_eval.records import AnswerContract, Candidate, ContractKind, Message, Question, Sampling, ScoreKind, Solution
from ttc_eval.session import Session
from ttc_eval.shown import unknown
from ttc_eval.store import Journal
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import compose, main, plain
from ttc_eval.sweep.prepare import prepare
from ttc_eval.sweep.runner import run
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers import Reading

SOLUTIONS = """SELECT problem_id, answer, stop_reason, attempts, valid, charged_calls, charged_verifier_calls, charged_input_tokens,
    charged_output_tokens, signals, error FROM solutions ORDER BY problem_id"""


@dataclass(frozen=True)
class Sweeps:
    """Runs sweeps into studies of one folder."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, study: str = "t") -> Study:
        """Run a sweep to its end: what the command does, without the figures and tables that it shows afterwards."""
        plan = prepare([plain(config) for config in compose([f"results_dir={self.folder}", f"study={study}", *arguments])], arguments)
        state = asyncio.run(run(plan, lambda state: nullcontext()))
        assert state.status == "finished", [cell.error or cell.first_error for cell in state.cells.values()]
        return open_study(plan.paths.database)

    def refused(self, *arguments: str) -> str:
        """What the refusal says. Nothing was sent, and nothing stored."""
        found = main([f"results_dir={self.folder}", "study=refused", *arguments])
        said = self.capsys.readouterr().err
        assert found == 2, said
        assert not (self.folder / "refused.duckdb").exists()
        assert len(said.strip().splitlines()) <= 2
        return said


def rows(study: Study, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, as plain tuples with None for NULL."""
    return [tuple(None if unknown(value) else value for value in row) for row in study.sql(query).itertuples(index=False, name=None)]


def one(study: Study, query: str) -> Any:
    """The only value of a query."""
    [(value,)] = rows(study, query)
    return value


def check_books(study: Study) -> None:
    """What a solution is charged is the sum of what its calls are, and every call was used."""
    sums = """SELECT s.problem_id, any_value(charged_calls) = count(*) FILTER (NOT overshoot),
                     any_value(s.charged_output_tokens) = sum(u.charged_output_tokens),
                     any_value(s.charged_input_tokens) = sum(u.charged_input_tokens),
                     any_value(s.charged_verifier_calls) = count(*) FILTER (k.role = 'verify' AND NOT overshoot)
              FROM (SELECT * EXCLUDE (charged_calls), charged_calls AS call_charge FROM uses) u
              JOIN solutions s USING (cell_id, problem_id) JOIN calls k USING (call_id) GROUP BY s.cell_id, s.problem_id"""
    found = rows(study, sums)
    assert found
    assert all(all(equal) for _, *equal in found), found
    assert one(study, "SELECT count(*) FROM calls WHERE call_id NOT IN (SELECT call_id FROM uses)") == 0


def check_repeatable(sweeps: Sweeps, arguments: Sequence[str], *, study: str = "repeated") -> Study:
    """Run twice, the second time from nothing but the stored calls: the outcome is the same, and nothing is billed."""
    first = sweeps.run(*arguments, study=study)
    before, calls = rows(first, SOLUTIONS), one(first, "SELECT count(*) FROM calls")
    check_books(first)
    # Another limit that does not bind makes another cell, which has to find every call again.
    again = sweeps.run(*arguments, "limits.problem.calls=1000000", study=study)
    assert one(again, "SELECT count(*) FROM calls") == calls
    assert rows(again, "SELECT billed_calls FROM cell_metrics ORDER BY billed_calls LIMIT 1") == [(0,)]
    cells = [row[0] for row in rows(again, "SELECT cell_id FROM cells")]
    assert len(cells) == 2
    for cell in cells:
        assert rows(again, SOLUTIONS.replace("FROM solutions", f"FROM solutions WHERE cell_id = '{cell}'")) == before
    return first


def check_parallel(sweeps: Sweeps, arguments: Sequence[str], parallel: int = 3) -> None:
    """A parallel run gives what a serial one does, and is charged the same."""
    serial = sweeps.run(*arguments, "strategy.parallel=1", study="serial")
    wide = sweeps.run(*arguments, f"strategy.parallel={parallel}", study="wide")
    assert rows(wide, SOLUTIONS) == rows(serial, SOLUTIONS)
    check_books(wide)


@dataclass(frozen=True)
class Table:
    """A verifier that runs here and reads each answer's score in a table; one that is not listed, or None, is not valid."""

    values: Mapping[str, float | None]
    name: ClassVar[str] = "table"
    kind: ClassVar[ScoreKind] = ScoreKind.RULE
    evidence: ClassVar[str] = "a table"

    async def check(self, question: Question, candidate: Candidate) -> Reading:
        value = self.values.get(candidate.answer or "")
        return Reading(value, f"listed {value}") if value is not None else Reading(None, problem="not listed")


QUESTION = Question("q", (Message("user", "What is 6 times 7?"),), AnswerContract(ContractKind.INTEGER))


def solved(
    strategy: Any,
    replies: Sequence[str | Reply],
    *,
    larger: Sequence[str | Reply] | None = None,
    verifier: Table | None = None,
    limits: Limits | None = None,
    answer_tokens: int = 8,
) -> tuple[Solution, Session]:
    """What a strategy makes of listed replies: a real session over a real exchange, ledger and journal. Reply *i* is that of draw *i*."""

    async def solve() -> tuple[Solution, Session]:
        ledger, account = Ledger(), Account(Scope.PROBLEM, limits or Limits())
        with TemporaryDirectory() as folder:
            async with AsyncExitStack() as stack:
                journal = await stack.enter_async_context(Journal(Path(folder)))

                async def exchange(model: ScriptedModel) -> Exchange:
                    connection = await stack.enter_async_context(model.connect())
                    wallet = Account(Scope.SWEEP, Limits())
                    retry, tally = RetryPolicy(), Tally()
                    return Exchange(
                        info=model.info,
                        connection=connection,
                        journal=journal,
                        ledger=ledger,
                        wallet=wallet,
                        sweep_id="s",
                        retry=retry,
                        tally=tally,
                    )

                config = DrawConfig(Thinking(), Sampling(), answer_tokens, 0, "pool", verifier)
                session = Session(
                    question=QUESTION,
                    config=replace(config, larger=replace(config, pool="larger")),
                    exchange=await exchange(ScriptedModel(tuple(replies))),
                    ledger=ledger,
                    problem=account,
                    cell=Account(Scope.CELL, Limits()),
                    classes=AnswerClasses(QUESTION.contract),
                    larger=None if larger is None else await exchange(ScriptedModel(tuple(larger), name="larger")),
                )
                return await strategy.solve(session), session

    return asyncio.run(solve())
