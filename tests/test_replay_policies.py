"""A strategy over stored draws comes to what it came to live, and asks for nothing that is not there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sweep.conftest import Outcome, Sweep, sweep
from ttc_eval.cli import main
from ttc_eval.shown import unknown
from ttc_eval.study import Study, open_study

__all__ = ["sweep"]

FAULTS = (
    "model.faults.server_error=0.1",
    "model.faults.unknown_usage=0.1",
    "model.faults.truncated=0.05",
    "retry.first_wait_s=0.001",
    "retry.max_attempts=3",
)
GRID = ("-m", "model=simulated", "dataset=quickstart", "dataset.limit=12", "thinking=budget", "thinking.budget=0,32")
PRICED = "model.price={own: {input: 1, output: 2}}"
STRATEGIES = "strategy=single,self_consistency_8,best_of_n_4,adaptive_consistency,early_stopping,weighted_vote"
SOLUTIONS = """
    SELECT c.thinking_label, c.strategy_label, s.* EXCLUDE (cell_id, ended_at) FROM solutions s JOIN cells c USING (cell_id)
    ORDER BY ALL"""
USES = """
    SELECT c.thinking_label, c.strategy_label, u.* EXCLUDE (cell_id) FROM uses u JOIN cells c USING (cell_id)
    WHERE NOT overshoot ORDER BY ALL"""
PARTS = {
    table: f"SELECT c.thinking_label, c.strategy_label, t.* EXCLUDE (cell_id) FROM {table} t JOIN cells c USING (cell_id) ORDER BY ALL"
    for table in ("candidates", "scores")
}

Replay = Callable[..., Study]


@pytest.fixture
def replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Replay:
    def run(outcome: Outcome, *arguments: str) -> Study:
        assert main(["replay", str(outcome.path), *arguments, "study=again"]) == 0, capsys.readouterr().err
        capsys.readouterr()
        return open_study(tmp_path / "again.duckdb")

    return run


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that is only read: two budgets, two seeds, up to eight draws."""
    folder = tmp_path_factory.mktemp("drawn")
    assert main(["sweep", f"results_dir={folder}", "study=t", *GRID, "strategy=self_consistency_8", "seed=0,1", PRICED]) == 0
    assert open_study(folder / "t.duckdb")
    return folder / "t.duckdb"


def rows(study: Study, query: str) -> list[tuple[Any, ...]]:
    # Unknown values come as NaN or NA, which equal nothing.
    return [tuple(None if unknown(value) else value for value in row) for row in study.sql(query).itertuples(index=False, name=None)]


def same(live: Study, again: Study) -> None:
    for query in (SOLUTIONS, USES, *PARTS.values()):
        assert rows(again, query) == rows(live, query)
    assert rows(live, SOLUTIONS)
    grades = "SELECT * FROM grades ORDER BY ALL"
    assert set(rows(again, grades)) <= set(rows(live, grades))


def test_the_same_strategies_come_to_the_same_solutions_and_charges(sweep: Sweep, replay: Replay) -> None:
    live = sweep(*GRID, STRATEGIES, "verifier=outcome", PRICED, *FAULTS)
    again = replay(live, "-m", STRATEGIES)
    same(live.study, again)
    columns = "success, candidate_success, charged_calls, charged_output_tokens, round(charged_usd, 9), p95_latency_s"
    query = f"SELECT thinking_label, strategy_label, {columns} FROM cell_metrics ORDER BY ALL"
    assert rows(again, query) == rows(live.study, query)
    assert rows(again, "SELECT DISTINCT billed_calls, billed_output_tokens, billed_usd FROM cell_metrics") == [(0, 0, 0)]
    assert rows(again, "SELECT kind, count(*) FROM sweeps GROUP BY ALL") == [("replay", 1)]


@pytest.mark.parametrize(
    "limits",
    [
        ("limits.problem.calls=5",),
        ("limits.problem.output_tokens=200",),
        ("limits.problem.wall_seconds=1",),
        ("limits.problem.usd=0.0012",),
    ],
    ids=lambda limits: limits[0],
)
def test_limits_stop_a_replay_where_they_stopped_the_run(sweep: Sweep, replay: Replay, limits: tuple[str, ...]) -> None:
    strategies = "strategy=self_consistency_8,best_of_n_4"
    live = sweep(*GRID, strategies, "verifier=outcome", PRICED, *limits)
    assert live.code == 0, live.err
    same(live.study, replay(live, "-m", strategies, *limits))


@pytest.mark.parametrize("strategy", ["self_consistency_8", "best_of_n_4"])
def test_what_was_drawn_side_by_side_is_replayed_in_draw_order(sweep: Sweep, replay: Replay, strategy: str) -> None:
    strategies = (f"strategy={strategy}", "strategy.parallel=4")
    live = sweep(*GRID, *strategies, "verifier=outcome")
    same(live.study, replay(live, *strategies))


def test_strategies_with_a_second_model_or_requests_of_their_own_are_replayed(sweep: Sweep, replay: Replay) -> None:
    strategies = ("strategy=cascade,revise", "model@larger_model=simulated", "larger_model.name=larger", "larger_model.seed=7")
    live = sweep(*GRID[:-2], *strategies, "verifier=outcome")
    assert live.code == 0, live.err
    same(live.study, replay(live, "-m", "strategy=cascade,revise"))


def test_one_pool_of_draws_serves_policies_that_were_never_run(sweep: Sweep, replay: Replay) -> None:
    live = sweep("model=simulated", "dataset=quickstart", "dataset.limit=20", "strategy=self_consistency", "strategy.max_attempts=9",
                 "strategy.early_stop=false")  # fmt: skip
    again = replay(live, "-m", "strategy=self_consistency", "strategy.max_attempts=1,3,9")
    fresh = sweep("-m", "model=simulated", "dataset=quickstart", "dataset.limit=20", "strategy=self_consistency",
                  "strategy.max_attempts=1,3,9", study="fresh")  # fmt: skip
    assert rows(again, SOLUTIONS) == rows(fresh.study, SOLUTIONS)


def test_more_draws_than_there_are_is_refused_and_nothing_is_written(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in drawn.parent.iterdir()}
    assert main(["replay", str(drawn), "strategy=self_consistency_16", "study=again"]) == 2
    said = capsys.readouterr().err
    assert re.match(r"strategy self_consistency@16 asks for k=16 draws, [5-8] were drawn for problem quickstart/dev/", said)
    assert said.count("\n") == 1
    assert {path.name for path in drawn.parent.iterdir()} == before


def test_a_replay_never_changes_its_source_and_leaves_nothing_without_a_name(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, digest = {path.name for path in drawn.parent.iterdir()}, hashlib.sha256(drawn.read_bytes()).hexdigest()
    assert main(["replay", str(drawn), "strategy=single"]) == 0
    assert " 0 billed" in capsys.readouterr().out
    assert hashlib.sha256(drawn.read_bytes()).hexdigest() == digest
    assert {path.name for path in drawn.parent.iterdir()} == before


def test_filters_take_some_pools_only(drawn: Path, tmp_path: Path) -> None:
    target = tmp_path / "again.duckdb"
    filters = ["seed=1", "thinking=budget 32", "model=simulated", "dataset=quickstart", "split=dev"]
    assert main(["replay", str(drawn), "strategy=single", *filters, f"study={target}"]) == 0
    assert rows(open_study(target), "SELECT seed, thinking_label, strategy FROM cells") == [(1, "budget 32", "single")]


def test_other_prices_come_on_top(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(drawn), "strategy=single", "prices.own.input=10", "prices.own.output=20"]) == 0
    assert capsys.readouterr().out.count("10.000") == 4, "ten times the price, in two budgets and two seeds"


def test_draws_fetched_ahead_need_not_be_there(drawn: Path, tmp_path: Path) -> None:
    target, live = tmp_path / "again.duckdb", open_study(drawn)
    assert live.sql("SELECT min(attempts) AS n FROM solutions")["n"][0] < 8
    assert main(["replay", str(drawn), "strategy=self_consistency_8", "strategy.parallel=8", f"study={target}"]) == 0
    query = "SELECT problem_id, answer, stop_reason, attempts, charged_output_tokens FROM solutions ORDER BY ALL"
    assert rows(open_study(target), query) == rows(live, query)


def test_a_verifier_that_runs_here_scores_stored_draws(sweep: Sweep, replay: Replay) -> None:
    grid = ("model=simulated", "dataset=game24", "dataset.limit=10")
    live = sweep(*grid, "strategy=self_consistency_4", "strategy.early_stop=false")
    assert live.code == 0, live.err
    again = replay(live, "strategy=best_of_n_4", "verifier=rule")
    assert rows(again, "SELECT DISTINCT verifier, score IN (0, 1) FROM scores") == [("rule", True)]
    assert rows(again, "SELECT bool_and(success = candidate_success) FROM cell_metrics") == [(True,)]


def test_scores_given_afterwards_are_found(sweep: Sweep, replay: Replay) -> None:
    live = sweep(*GRID[:-2], "strategy=self_consistency_4", "strategy.early_stop=false")
    assert main(["verify", str(live.path), "model=simulated", "verifier=outcome", "what=answer"]) == 0
    again = replay(live, "strategy=best_of_n_4", "verifier=outcome")
    assert rows(again, "SELECT verifier, charged_verifier_calls / charged_calls FROM cell_metrics") == [("outcome", 0.5)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["strategy=self_consistency", "strategy.max_output_tokens=40"], "at most 40 tokens, and none was drawn so"),
        (["strategy=self_consistency", "strategy.max_output_tokens=9"], "it must leave room for an answer beside thinking.budget=32"),
        (["strategy=best_of_n_4"], "it needs a verifier"),
        (["strategy=best_of_n_4", "verifier=outcome"], "verifiers with stored scores: none"),
        (["strategy=no_such"], "there is no such strategy"),
        (["strategy=single", "seed=9"], "seed=9: the study has none; it has: 0, 1"),
        (["strategy=single", "answer_tokens=3"], "answer_tokens: a replay takes strategy"),
        (["verifier=outcome"], "say which strategy"),
        (["strategy=single", "study=t"], "there is such a study already"),
        (["strategy=revise", "verifier=outcome"], "not stored"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_one_line(
    drawn: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["replay", str(drawn), *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_of_several_verifiers_one_is_named(sweep: Sweep, replay: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ("model=simulated", "dataset=quickstart", "dataset.limit=4", "strategy=best_of_n_4")
    sweep(*grid, "verifier=outcome")
    live = sweep(*grid, "verifier=trace")
    assert main(["replay", str(live.path), "strategy=best_of_n"]) == 2
    assert "add verifier=NAME with one of: outcome, trace" in capsys.readouterr().err
    assert main(["replay", str(live.path), "strategy=self_consistency_4"]) == 0, "it asks none"
    again = replay(live, "-m", "strategy=best_of_n", "strategy.n=2,4", "verifier=outcome,trace")
    assert rows(again, "SELECT verifier, count(*) FROM cells GROUP BY ALL ORDER BY ALL") == [("outcome", 2), ("trace", 2)]
