"""The session: what a strategy asks for is asked in order, charged in full, and the same whether it is asked side by side or in turn."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.strategies.sequential import QUESTION, Sweeps, Table, check_books, one, rows, solved
from ttc_eval.ledger import Limits
from ttc_eval.models.scripted import Reply
from ttc_eval.records import Candidate, Role, Solution, StopReason
from ttc_eval.selectors import best_score, first_valid, plurality
from ttc_eval.session import Ask, DrawFailed, LimitReached, Session
from ttc_eval.strategies import Most
from ttc_eval.strategies.revise import revision


@dataclass(frozen=True)
class Everything:
    """Draws, revises each draw, and scores everything or compares it by turns; gives up what loses. It ends where a limit ends it."""

    name: ClassVar[str] = "everything"
    asks_larger_model: ClassVar[bool] = True
    draws: int = 3
    parallel: int = 1
    larger: bool = False
    compares: bool = False

    @property
    def label(self) -> str:
        return self.name

    @property
    def most(self) -> Most:
        judged = 2 * self.draws
        mine = 0 if self.larger else self.draws
        return Most(self.draws, 0 if self.compares else judged, mine, judged - 1 if self.compares else 0, self.draws if self.larger else 0)

    async def solve(self, session: Session) -> Solution:
        async with session.draws(self.draws, parallel=self.parallel) as draws:
            found = [candidate async for candidate in draws]
        if self.larger:
            async with session.draws(self.draws, parallel=self.parallel, larger=True) as more:
                found += [candidate async for candidate in more]
            stop = draws.ended_by or more.ended_by
        else:
            asks = [Ask(revision(session.question, each.text, None), Role.REVISE, draw=each.draw) for each in found]
            replies = await session.ask_all(asks, parallel=self.parallel)
            for parent, reply in zip(list(found), replies.found, strict=False):
                found.append(await session.candidate(reply.text, complete=reply.complete, parent=parent, depth=1, reply=reply))
            stop = draws.ended_by or replies.ended_by
        voting = [candidate for candidate in found if candidate.votes]
        if self.compares:
            best, late = await self._champion(session, voting)
        else:
            scores = await session.score_all(voting, parallel=self.parallel)
            best, late = best_score(voting, scores.found), scores.ended_by
        for loser in voting:
            if loser is not best:
                session.prune(loser)
        return session.solution(best, stop or late or StopReason.ATTEMPT_LIMIT)

    async def _champion(self, session: Session, voting: list[Candidate]) -> tuple[Candidate | None, StopReason | None]:
        champion = voting[0] if voting else None
        try:
            for challenger in voting[1:]:
                assert champion is not None
                if (await session.compare(champion, challenger)).winner == challenger.position:
                    champion = challenger
        except LimitReached as limit:
            return champion, limit.stop_reason
        return champion, None


@dataclass(frozen=True)
class Does:
    """A strategy that is one function."""

    what: Callable[[Session], Any]

    async def solve(self, session: Session) -> Solution:
        return await self.what(session)


@pytest.fixture
def sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeps:
    folder = tmp_path / "mine" / "strategy"
    folder.mkdir(parents=True)
    fields = "draws: 3\nparallel: 1\nlarger: false\ncompares: false\n"
    (folder / "everything.yaml").write_text(f"_target_: tests.test_session.Everything\n{fields}", "utf-8")
    return Sweeps(tmp_path, capsys)


def simulated(sweeps: Sweeps, *options: str, verifier: str = "outcome") -> tuple[str, ...]:
    fixed = (
        "model=simulated",
        "dataset.limit=4",
        "strategy=everything",
        f"verifier={verifier}",
        "verifier.answer_tokens=16",
        "answer_tokens=16",
    )
    return ("-m", "--config-dir", str(sweeps.folder / "mine"), *fixed, *options)


OUTCOME = """SELECT s.problem_id, answer, stop_reason, attempts, valid, charged_calls, charged_verifier_calls, charged_input_tokens,
    charged_output_tokens, CAST(charged_usd AS VARCHAR),
    (SELECT string_agg(position || answer || coalesce(parent, -1) || pruned, ' ' ORDER BY position) FROM candidates c
     WHERE c.cell_id = s.cell_id AND c.problem_id = s.problem_id),
    (SELECT string_agg(position || ':' || coalesce(score, -1), ' ' ORDER BY position) FROM scores c
     WHERE c.cell_id = s.cell_id AND c.problem_id = s.problem_id),
    (SELECT string_agg(first || second || coalesce(forward, '') || coalesce(backward, ''), ' ') FROM comparisons c
     WHERE c.cell_id = s.cell_id AND c.problem_id = s.problem_id),
    c.config->>'$.strategy.parallel' AS parallel, CAST(c.config->'$.limits.problem' AS VARCHAR) AS limits
    FROM solutions s JOIN cells c USING (cell_id)"""


LIMITED = ("calls", "verifier_calls", "input_tokens", "output_tokens", "usd")


# Side by side and in turn, under every limit.


@pytest.mark.parametrize(
    "options",
    [
        ("limits.problem.calls=1,2,4,5,8,11,99", "model.verifier_invalid=0.3"),
        ("limits.problem.verifier_calls=0,1,3,6", "model.verifier_invalid=0.3"),
        ("limits.problem.output_tokens=8,33,50,64,90", "model.faults.truncated=0.2"),
        ("limits.problem.input_tokens=1500,3000,6000,60000",),
        ("limits.problem.wall_seconds=0.1,0.9,2.1,90", "limits.problem.calls=9"),
        ("limits.problem.usd=0.001,0.003,0.1", "model.price.own={input: 1, output: 4}"),
        ("limits.problem.calls=2,6,99", "model.faults.server_error=0.3", "retry.first_wait_s=0.001", "retry.max_attempts=6"),
        ("limits.problem.calls=3,5,8,20", "strategy.larger=true", "model@larger_model=simulated", "larger_model.seed=3"),
        ("limits.problem.calls=3,6,7,8,20", "strategy.compares=true"),
    ],
    ids=["calls", "verifier_calls", "output", "input", "time", "usd", "retries", "larger", "compared"],
)
def test_the_outcome_does_not_depend_on_what_is_asked_side_by_side(sweeps: Sweeps, options: tuple[str, ...]) -> None:
    verifier = "pairwise" if "strategy.compares=true" in options else "outcome"
    study = sweeps.run(*simulated(sweeps, *options, "strategy.parallel=1,4", "dataset.limit=3", verifier=verifier))
    found: dict[tuple[str, str], dict[str, tuple[Any, ...]]] = defaultdict(dict)
    for *outcome, parallel, limits in rows(study, OUTCOME):
        found[outcome[0], limits][parallel] = tuple(outcome)
    assert len(found) >= 8
    for key, by_parallel in found.items():
        assert by_parallel["4"] == by_parallel["1"], key
        limits = json.loads(key[1])
        assert all(
            limits[name] is None or float(charged) <= limits[name] for name, charged in zip(LIMITED, by_parallel["1"][5:10], strict=True)
        )
    check_books(study)
    stops = {row[0] for row in rows(study, "SELECT DISTINCT stop_reason FROM solutions")}
    assert len(stops) > 1, "some limits bind and some do not"
    assert one(study, "SELECT max(n) FROM (SELECT count(*) AS n FROM calls WHERE status = 'ok' GROUP BY key)") == 1, "each request once"


def test_side_by_side_takes_less_time_and_the_same_work(sweeps: Sweeps) -> None:
    study = sweeps.run(*simulated(sweeps, "strategy.parallel=1,3"))
    times = """SELECT sum(latency_s), sum(work_s) FROM solutions JOIN cells USING (cell_id) GROUP BY cell_id
        ORDER BY any_value(config)->>'$.strategy.parallel'"""
    (serial, serial_work), (wide, wide_work) = rows(study, times)
    assert serial == pytest.approx(serial_work) == pytest.approx(wide_work)
    assert wide < serial


def test_what_was_asked_once_is_found_again_by_another_sweep(sweeps: Sweeps) -> None:
    first = sweeps.run(*simulated(sweeps))
    calls = one(first, "SELECT count(*) FROM calls")
    again = sweeps.run(*simulated(sweeps, "strategy.parallel=3"))
    assert one(again, "SELECT count(*) FROM calls") == calls
    charged, billed = zip(*rows(again, "SELECT charged_calls, billed_calls FROM cell_metrics"), strict=True)
    assert charged[0] == charged[1] >= calls, "equal texts are judged by one call, and each judgement is charged"
    assert sorted(billed) == [0, calls]


def test_pruned_work_stays_charged_and_is_shown_as_pruned(sweeps: Sweeps) -> None:
    study = sweeps.run(*simulated(sweeps))
    assert one(study, "SELECT count(*) FROM candidates WHERE pruned") == 4 * 5, "of six candidates, one is left"
    [(pruned, charged)] = rows(study, "SELECT pruned_calls, charged_calls FROM cell_metrics")
    assert (pruned, charged) == (20, 48)


def test_a_comparison_is_asked_for_in_both_orders_and_a_choice_by_the_order_is_none(sweeps: Sweeps) -> None:
    study = sweeps.run(
        *simulated(sweeps, "strategy.compares=true", "model.position_bias=50", "verifier.answer_tokens=64", verifier="pairwise")
    )
    found = rows(study, "SELECT first, second, forward, backward, winner, valid, call_ids FROM comparisons")
    assert len(found) == one(study, "SELECT sum(valid - 1) FROM solutions") > 10
    for first, second, forward, backward, winner, valid, call_ids in found:
        assert first < second
        assert (forward, backward, winner, valid) == ("first", "second", None, True), "the one that is shown first always wins"
        assert len(json.loads(call_ids)) == 2
    assert one(study, "SELECT count(*) FROM calls WHERE role = 'verify'") <= 2 * len(found)
    check_books(study)


def test_the_larger_models_draws_are_another_pool_at_its_own_price(sweeps: Sweeps) -> None:
    priced = (
        "model@larger_model=simulated",
        "larger_model.name=dear",
        "larger_model.seed=3",
        "larger_model.price.own={input: 10, output: 40}",
    )
    study = sweeps.run(*simulated(sweeps, "strategy.larger=true", *priced, "model.price.own={input: 1, output: 4}"))
    found = rows(
        study,
        "SELECT model, count(*), count(DISTINCT pool), sum(cost_usd) / sum(input_tokens + 4 * output_tokens) * 1e6 FROM calls "
        "WHERE role = 'generate' GROUP BY model ORDER BY model",
    )
    assert [(model, calls, pools, round(price)) for model, calls, pools, price in found] == [("dear", 12, 1, 10), ("simulated", 12, 1, 1)]
    used = one(study, "SELECT sum(cost_usd) FROM calls JOIN uses USING (call_id)")
    assert used == pytest.approx(one(study, "SELECT sum(charged_usd) FROM solutions"))


# One session.


def asked(number: int) -> Ask:
    return Ask(QUESTION.messages, Role.REVISE, draw=number)


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_first_failure_is_raised_and_everything_that_was_sent_is_charged(parallel: int) -> None:
    async def what(session: Session) -> Solution:
        with pytest.raises(DrawFailed, match="second failed"):
            await session.ask_all([asked(0), asked(1), asked(2)], parallel=parallel)
        return session.solution(None, StopReason.EXHAUSTED)

    replies = ["40", Reply(error="second failed", output_tokens=1), Reply(error="third failed", output_tokens=1)]
    _, session = solved(Does(what), replies)
    assert session.spending.charged.calls == (3 if parallel > 1 else 2)
    assert sum(row["charged_calls"] for row in session.spending.use_rows()) == session.spending.charged.calls


def test_draws_can_go_on_where_others_ended() -> None:
    async def what(session: Session) -> Solution:
        found = []
        for start, stop in pairwise((0, 2, 5, 5)):
            async with session.draws(stop, start=start, parallel=2) as draws:
                found += [candidate async for candidate in draws]
        return session.solution(plurality(found), StopReason.ATTEMPT_LIMIT)

    solution, session = solved(Does(what), ["41", "42", "42", "42", "41"])
    assert [candidate.draw for candidate in solution.candidates] == [0, 1, 2, 3, 4]
    assert (solution.answer, session.spending.charged.calls) == ("42", 5)


def test_a_candidate_knows_what_it_was_made_of() -> None:
    async def what(session: Session) -> Solution:
        reply = await session.ask(asked(1))
        first = await session.candidate("thinking of 7", complete=True, partial=True, depth=1, content="7")
        second = await session.candidate(reply.text, complete=reply.complete, parent=first, depth=2, reply=reply)
        third = await session.candidate("so 43", complete=False, parent=second)
        session.prune(first)
        assert (reply.output_tokens, reply.draw, len(reply.call_ids)) == (3, 1, 1)
        for unfit in (first, third):
            with pytest.raises(RuntimeError, match="cannot be selected"):
                session.solution(unfit, StopReason.ACCEPTED)
        return session.solution(second, StopReason.ACCEPTED)

    solution, _ = solved(Does(what), ["0", Reply("42", output_tokens=3)])
    first, second, third = solution.candidates
    assert (first.votes, first.answer, first.pruned, first.content) == (False, None, True, "7")
    assert (second.votes, second.parent, second.depth, second.draw, second.output_tokens) == (True, 0, 2, 1, 3)
    assert (third.votes, third.parent) == (False, 1)
    assert (solution.answer, solution.attempts, solution.valid) == ("42", 2, 1), "a partial candidate is no attempt"


def test_signals_are_kept_and_must_be_numbers() -> None:
    async def what(session: Session) -> Solution:
        session.signal("agreement", 0.5)
        session.signal("asked", None)
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="not finite"):
                session.signal("agreement", value)
        return session.solution(None, StopReason.EXHAUSTED)

    solution, _ = solved(Does(what), ["42"])
    assert dict(solution.signals) == {"agreement": 0.5, "asked": None}


def test_a_request_that_no_limit_leaves_room_for_is_not_sent_and_the_others_come_back() -> None:
    async def what(session: Session) -> Solution:
        taken = await session.ask_all([asked(number) for number in range(4)], parallel=4)
        assert ([reply.text for reply in taken.found], taken.ended_by) == (["40", "41"], StopReason.CALL_BUDGET)
        return session.solution(None, StopReason.CALL_BUDGET)

    _, session = solved(Does(what), ["40", "41", "42", "43"], limits=Limits(calls=2))
    assert (session.spending.charged.calls, session.spending.charged.output_tokens) == (2, 2)


def test_local_scores_are_charged_as_verifier_calls_and_not_as_calls() -> None:
    async def what(session: Session) -> Solution:
        async with session.draws(3) as draws:
            found = [candidate async for candidate in draws]
        scores = await session.score_all(found, parallel=3)
        assert scores.ended_by is StopReason.CALL_BUDGET
        assert [(score.value, score.call_id) for score in scores.found] == [(0.1, None), (None, None)]
        return session.solution(first_valid(found), scores.ended_by)

    _, session = solved(Does(what), ["40", "41", "42"], verifier=Table({"40": 0.1}), limits=Limits(verifier_calls=2))
    assert (session.spending.charged.calls, session.spending.charged.verifier_calls) == (3, 2)


def test_without_a_larger_model_none_can_be_asked() -> None:
    async def what(session: Session) -> Solution:
        assert not session.has_larger_model
        with pytest.raises(RuntimeError, match="no larger model"):
            session.draws(1, larger=True)
        return session.solution(None, StopReason.EXHAUSTED)

    solved(Does(what), ["42"])
