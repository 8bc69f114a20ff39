"""The tournament: what it selects follows from the comparisons that it stored, by rules that are worked out here once more."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweep.conftest import Outcome, Sweep, sweep  # noqa: F401
from ttc_eval.errors import UserError
from ttc_eval.records import Candidate, Comparison, Preferred
from ttc_eval.strategies.tournament import Entrants, Rounds, Tournament, seeded, shares_won

BASE = ["model=simulated", "dataset=quickstart", "verifier=pairwise", "strategy=tournament"]
Solved = tuple[dict[int, str], list[dict[str, Any]], dict[str, Any]]


def stored(outcome: Outcome, **where: str) -> list[Solved]:
    """For each problem and cell: the classes of its voters by position, its comparisons, and its solution with its cell's config."""
    voters = rows(outcome, "SELECT cell_id, problem_id, position, answer_class FROM candidates WHERE complete AND answer_class IS NOT NULL")
    met = rows(outcome, "SELECT cell_id, problem_id, first, second, forward, backward, winner, valid FROM comparisons")
    options = "config->>'$.strategy.rounds' AS rounds, config->>'$.strategy.entrants' AS entrants"
    query = f"SELECT s.*, {options} FROM solutions s JOIN cells USING (cell_id)"
    solutions = [one for one in rows(outcome, query) if all(one[name] == value for name, value in where.items())]

    def of(found: list[dict[str, Any]], solution: dict[str, Any]) -> list[dict[str, Any]]:
        return [row for row in found if (row["cell_id"], row["problem_id"]) == (solution["cell_id"], solution["problem_id"])]

    return [({row["position"]: row["answer_class"] for row in of(voters, one)}, of(met, one), one) for one in solutions]


def rows(outcome: Outcome, query: str) -> list[dict[str, Any]]:
    found = outcome.study.sql(query).to_dict("records")
    return [{str(name): None if pd.isna(value) else value for name, value in row.items()} for row in found]


def best_seed(classes: dict[int, str], among: set[int]) -> int:
    votes = Counter(classes.values())
    return min(among, key=lambda position: (-votes[classes[position]], position))


def champion(classes: dict[int, str], comparisons: list[dict[str, Any]], entrants: set[int]) -> int:
    """Round robin, by brute force from the stored rows alone."""
    shares: dict[int, Fraction] = {}
    for position in entrants:
        mine = [row for row in comparisons if position in (row["first"], row["second"]) and row["valid"]]
        won = [Fraction(1, 2) if row["winner"] is None else Fraction(row["winner"] == position) for row in mine]
        if mine:
            shares[position] = sum(won, Fraction(0)) / len(mine)
    top = max(shares.values(), default=None)
    return best_seed(classes, {position for position in entrants if shares.get(position) == top})


def first_of_each(classes: dict[int, str]) -> set[int]:
    return {min(position for position, name in classes.items() if name == one) for one in set(classes.values())}


def test_the_winner_follows_from_the_stored_comparisons(sweep: Sweep) -> None:  # noqa: F811
    ways = "strategy.rounds=round_robin,knockout", "strategy.entrants=classes,candidates", "model.position_bias=0,0.8"
    outcome = sweep("-m", *BASE, *ways, "strategy.n=6", "dataset.limit=15", "model.verifier_invalid=0.05")
    assert outcome.code == 0, outcome.err
    met: Counter[tuple[str, str]] = Counter()
    for classes, comparisons, solution in stored(outcome):
        rounds, entrants = solution["rounds"], solution["entrants"]
        among = first_of_each(classes) if entrants == "classes" else set(classes)
        pairs = [tuple(sorted((row["first"], row["second"]))) for row in comparisons]
        assert len(pairs) == len(set(pairs)), "no pair meets twice"
        assert all(classes[one] != classes[other] for one, other in pairs), "equal answers never meet"
        assert {position for pair in pairs for position in pair} <= among
        met[rounds, entrants] += len(pairs)
        if len(set(classes.values())) > 1 and not any(row["valid"] for row in comparisons):
            assert not solution["selected"]
            continue
        if rounds == "round_robin":
            assert len(pairs) == sum(classes[one] != classes[other] for one, other in combinations(sorted(among), 2))
            winner = champion(classes, comparisons, among)
        else:
            assert len(pairs) <= len(among) - 1
            winner = survivor(classes, comparisons, among)
        assert solution["answer_class"] == classes[winner]
        assert solution["stop_reason"] == "attempt_limit"
        assert solution["charged_verifier_calls"] == 2 * len(pairs)
    assert len(met) == 4
    assert min(met.values()) > 25


def survivor(classes: dict[int, str], comparisons: list[dict[str, Any]], entrants: set[int]) -> int:
    """Knockout, by brute force: seeds meet from both ends inwards, and who met is looked up in the stored rows, each of which is used."""
    winners = {frozenset((row["first"], row["second"])): row["winner"] for row in comparisons}
    left = sorted(entrants, key=lambda position: (-Counter(classes.values())[classes[position]], position))
    while len(left) > 1:
        kept = set(left)
        for place in range(len(left) // 2):
            one, other = left[place], left[-1 - place]
            winner = one if classes[one] == classes[other] else winners.pop(frozenset((one, other)))
            kept.discard(one if winner == other else other)
        left = [position for position in left if position in kept]
    assert not winners, "nobody met without need"
    return left[0]


def test_a_choice_that_depends_on_the_order_is_a_tie_and_votes_decide(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep(*BASE, "strategy.n=5", "dataset.limit=10", "model.position_bias=1000")
    for classes, comparisons, solution in stored(outcome):
        assert all((row["forward"], row["backward"]) == ("first", "second") for row in comparisons)
        assert all(row["valid"] and row["winner"] is None for row in comparisons)
        assert solution["answer_class"] == classes[best_seed(classes, set(classes))]


def test_when_no_comparison_is_valid_the_declared_rule_is_used_and_said(sweep: Sweep) -> None:  # noqa: F811
    replies = (
        "model=scripted",
        "model.replies=[41,42,42]",
        "dataset=one_question",
        "model@verifier_model=scripted",
        "verifier_model.replies=[hm]",
    )
    ways = "strategy.rounds=round_robin,knockout", "strategy.on_no_comparison=unresolved,plurality"
    outcome = sweep("-m", *replies, *BASE[2:], *ways, "strategy.n=3")
    assert outcome.code == 0, outcome.err
    found = {
        (row["answer"], row["error"], row["calls"]) for row in rows(outcome, "SELECT *, charged_verifier_calls AS calls FROM solutions")
    }
    assert found == {(None, "no valid comparison; unresolved used", 2), ("42", "no valid comparison; plurality used", 2)}
    assert outcome.one("SELECT DISTINCT valid, forward, backward, winner FROM comparisons")["valid"] is False


def test_one_answer_needs_no_comparison(sweep: Sweep) -> None:  # noqa: F811
    outcome = sweep("model=scripted", "model.replies=[42,' 42','+42']", "dataset=one_question", *BASE[2:], "strategy.n=3")
    assert outcome.code == 0, outcome.err
    assert outcome.one("SELECT answer, charged_calls, stop_reason FROM solutions") == {
        "answer": "42",
        "charged_calls": 3,
        "stop_reason": "attempt_limit",
    }


@pytest.mark.parametrize(
    ("limit", "stop"), [("verifier_calls=3", "call_budget"), ("calls=9", "call_budget"), ("wall_seconds=3.2", "time_budget")]
)
def test_it_stops_at_a_limit_in_its_name_and_keeps_what_it_knows(sweep: Sweep, limit: str, stop: str) -> None:  # noqa: F811
    wide = "model.wrong_answers=9", "model.accuracy={easy: {0: 0.1}, medium: {0: 0.1}, hard: {0: 0.1}}"
    outcome = sweep(
        "-m", *BASE, *wide, "strategy.rounds=round_robin,knockout", "strategy.n=7", "dataset.limit=6", f"limits.problem.{limit}"
    )
    assert outcome.code == 0, outcome.err
    for rounds in ("round_robin", "knockout"):
        solved = stored(outcome, rounds=rounds)
        stops = {solution["stop_reason"] for _, _, solution in solved}
        assert stop in stops
        assert stops <= {stop, "attempt_limit"}
        for classes, comparisons, solution in solved:
            name, most = limit.split("=")
            if name != "wall_seconds":
                assert solution[f"charged_{name}"] <= float(most)
            if not comparisons and len(set(classes.values())) > 1:
                assert solution["error"] == "no valid comparison; unresolved used"
            elif rounds == "round_robin" and classes and comparisons:
                assert solution["answer_class"] == classes[champion(classes, comparisons, first_of_each(classes))]


def test_parallel_and_resumed_runs_come_to_what_a_serial_one_does(sweep: Sweep) -> None:  # noqa: F811
    query = "SELECT problem_id, answer, stop_reason, attempts, charged_calls, charged_output_tokens FROM solutions ORDER BY problem_id"
    serial = sweep(*BASE, "strategy.n=6", "dataset.limit=6", study="serial").study.sql(query)
    together = sweep(*BASE, "strategy.n=6", "dataset.limit=6", "strategy.parallel=6", study="parallel").study.sql(query)
    assert together.equals(serial)
    assert sweep(*BASE, "strategy.n=6", "dataset.limit=6", "limits.sweep.calls=30", study="resumed").code == 1
    resumed = sweep(*BASE, "strategy.n=6", "dataset.limit=6", study="resumed").study
    assert resumed.sql(query).equals(serial)
    assert resumed.sql("SELECT count(*) - count(DISTINCT key) AS n FROM calls")["n"].tolist() == [0], "nothing is paid for twice"


def test_a_good_judge_is_worth_more_than_votes_and_a_blind_one_is_not(sweep: Sweep) -> None:  # noqa: F811
    settings = ["model=simulated", "dataset=quickstart", "dataset.limit=80", "verifier=pairwise"]
    outcome = sweep("-m", *settings, "strategy=tournament", "strategy.n=8", "model.verifier_auroc=0.5,0.95")
    outcome = sweep(
        "-m", *settings, "strategy=self_consistency", "strategy.max_attempts=8", "strategy.min_votes=1", "model.verifier_auroc=0.5,0.95"
    )
    query = "SELECT cells.strategy, config->>'$.model.verifier_auroc' AS quality, success FROM cell_metrics JOIN cells USING (cell_id)"
    success = {(row["strategy"], float(row["quality"])): row["success"] for row in rows(outcome, query)}
    assert success["tournament", 0.95] > success["self_consistency", 0.95] + 0.05
    assert success["tournament", 0.5] < success["self_consistency", 0.5]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["verifier=outcome", "strategy=tournament"], "verifier=pairwise"),
        (["strategy=tournament"], "it needs a verifier"),
        (["verifier=pairwise", "strategy=best_of_n"], "compares candidates and scores none"),
        (["verifier=pairwise", "strategy=tournament", "strategy.n=0"], "strategy.n=0"),
        (["verifier=pairwise", "strategy=tournament", "strategy.rounds=swiss"], "strategy.rounds"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_spent(sweep: Sweep, overrides: list[str], said: str) -> None:  # noqa: F811
    outcome = sweep("model=simulated", "dataset=quickstart", *overrides)
    assert outcome.code == 2
    assert said in outcome.err
    assert not outcome.path.exists()


@pytest.mark.parametrize(("rounds", "most"), [(Rounds.ROUND_ROBIN, 28), (Rounds.KNOCKOUT, 7)])
def test_it_says_what_it_asks_for_at_most(rounds: Rounds, most: int) -> None:
    assert Tournament(8, rounds).most.comparisons == most
    assert Tournament(1, rounds).most.comparisons == 0
    names = {Tournament(8, rounds, entrants).label for entrants in Entrants}
    assert len(names) == 2
    with pytest.raises(UserError, match="parallel"):
        Tournament(parallel=0)


# The pure rules.


def candidates(classes: list[str | None]) -> list[Candidate]:
    return [Candidate(place, place, name or "", name, name, complete=True) for place, name in enumerate(classes)]


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=9))
def test_seeds_are_by_votes_and_then_by_draw(classes: list[str | None]) -> None:
    everybody = seeded(candidates(classes), Entrants.CANDIDATES)
    assert sorted(one.position for one in everybody) == [place for place, name in enumerate(classes) if name is not None]
    ranks = [(-classes.count(one.answer_class), one.position) for one in everybody]
    assert ranks == sorted(ranks)
    one_each = seeded(candidates(classes), Entrants.CLASSES)
    assert {one.answer_class for one in one_each} == set(classes) - {None}
    assert all(one.position == classes.index(one.answer_class) for one in one_each)


choices = st.none() | st.sampled_from(list(Preferred))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), choices, choices).filter(lambda row: row[0] != row[1]), max_size=12))
def test_shares_won_add_up(rows: list[tuple[int, int, Preferred | None, Preferred | None]]) -> None:
    comparisons = [Comparison(one, other, "v", forward, backward) for one, other, forward, backward in rows]
    shares, valid = shares_won(comparisons), [one for one in comparisons if one.valid]
    played = Counter(position for one in valid for position in (one.first, one.second))
    assert set(shares) == set(played)
    assert all(0 <= share <= 1 for share in shares.values())
    assert sum(shares[position] * count for position, count in played.items()) == len(valid), "each comparison gives one point in all"
