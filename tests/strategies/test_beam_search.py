"""Beam search and DVTS on the lab model: real steps, real scores, limits in the middle, and a search that can be checked from its rows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest

from tests.sweep.conftest import Outcome, Sweep, sweep  # noqa: F401
from ttc_eval.asking import score_request
from ttc_eval.errors import UserError
from ttc_eval.models.lab_verifier import LabVerifier
from ttc_eval.records import AnswerContract, ContractKind, Message, Question
from ttc_eval.strategies import BeamSearch, Dvts
from ttc_eval.strategies.stepwise import Select
from ttc_eval.verifiers import Process, Reading

LAB = (
    "model=lab", "dataset=lab", "dataset.limit=2", "verifier=lab", "answer_tokens=8", "sampling.temperature=1.5", "thinking=budget",
    "thinking.budget=96",
)  # fmt: skip
CHAINS = {"64*7-3": "45", "87*6*4": "88", "09*8+7-5": "74"}
Run = Callable[..., Outcome]


@pytest.fixture
def run(sweep: Sweep, tmp_path: Path) -> Run:  # noqa: F811
    """A sweep over a few short chains."""
    lines = [{"id": chain, "chain": chain, "answer": answer, "difficulty": "easy"} for chain, answer in CHAINS.items()]
    (tmp_path / "dev.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    return lambda *options, **study: sweep(*LAB, f"dataset.path={tmp_path}/dev.jsonl", *options, **study)


SOLUTION = "SELECT * EXCLUDE (cell_id, ended_at, latency_s, work_s) FROM solutions ORDER BY problem_id"
NODES = """
    SELECT c.problem_id, c.position, c.parent, c.depth, c.draw, c.answer, c.answer_class, c.complete, c."partial", c.pruned, s.score,
           k.call_id, k.role, k.request->>'prefix' AS prefix,
           k.thinking_text AS step, k.answer_text AS said, k.stop_reason, k.output_tokens
    FROM candidates c JOIN calls k ON k.call_id = c.call_ids->>0
    LEFT JOIN scores s USING (cell_id, problem_id, position)
    ORDER BY problem_id, position"""


def frame(outcome: Any, query: str) -> pd.DataFrame:
    return outcome.study.sql(query)


def text_of(node: pd.Series) -> str:
    """The turn so far."""
    step = "" if pd.isna(node.step) else node.step
    # A node that ended inside its thinking has it closed by the next request.
    ending = (";" if node.stop_reason == "stop_sequence" else "</think>") if node.partial else f"</think>{node.said}"
    return f"{node.prefix}{step}{ending}"


@pytest.mark.parametrize(("strategy", "beams", "places"), [("beam_search", 1, 3), ("dvts", 3, 1)])
def test_a_search_can_be_followed_from_its_rows(run: Run, strategy: str, beams: int, places: int) -> None:
    outcome = run("dataset.limit=3", f"strategy={strategy}", f"strategy.{'width' if beams == 1 else 'subtrees'}=3", "strategy.branching=2")
    assert outcome.code == 0, outcome.err
    every = frame(outcome, NODES)
    assert set(every.role) == {"step"}
    solutions = frame(outcome, "SELECT * FROM solutions").set_index("problem_id")
    assert (solutions.stop_reason == "exhausted").all()
    for problem_id, rows in every.groupby("problem_id"):
        nodes = rows.set_index("position")
        for _, node in nodes.iterrows():
            depth, text = (0, "<think>") if pd.isna(node.parent) else (nodes.depth[node.parent], text_of(nodes.loc[node.parent]))
            assert (node.depth, node.prefix) == (depth + 1, text), "it continues its parent, word for word"
        drawn = nodes.groupby("prefix").draw
        assert (drawn.nunique() == drawn.count()).all(), "siblings are samples of their own, over all subtrees"
        follow(nodes, beams, places)
        finished = nodes[~nodes.partial & nodes.complete & nodes.score.notna()]
        best = finished.sort_values("score", ascending=False, kind="stable")
        solution = solutions.loc[problem_id]
        assert solution.answer == best.answer.iloc[0]
        assert solution.attempts == (~nodes.partial).sum()
        assert solution.charged_search_nodes == len(nodes)
        assert solution.charged_output_tokens == nodes.output_tokens.sum(), "the verifier writes nothing"
        assert solution.charged_verifier_calls == nodes.score.notna().sum()


def follow(nodes: pd.DataFrame, beams: int, places: int) -> None:
    """Make every choice of the search again, from the scores alone."""
    beam_of: dict[int, int] = {}
    left = dict.fromkeys(range(beams), places)
    continued = set(nodes.parent.dropna())
    for depth, level in nodes.groupby("depth"):
        for place, (position, node) in enumerate(level.iterrows()):
            beam_of[position] = place // (2 * places) if depth == 1 else beam_of[node.parent]
        for beam in range(beams):
            mine = level[[beam_of[position] == beam for position in level.index]]
            assert len(mine) in (0, 2 * left[beam])
            scored = mine[mine.score.notna()].sort_values("score", ascending=False, kind="stable")
            best = scored.head(left[beam])
            assert set(best[best.partial].index) == continued & set(mine.index), "the best go on, and no others"
            left[beam] -= int((~best.partial).sum())
            given_up = mine[mine.partial & ~mine.index.isin(best.index)]
            assert (mine.pruned == mine.index.isin(given_up.index)).all()
            texts = [text_of(node) for _, node in scored.iterrows()]
            assert len(set(texts)) == len(texts), "nothing is scored twice"


def test_what_is_given_up_is_charged_and_shown(run: Run) -> None:
    outcome = run("strategy=beam_search", "strategy.width=2", "strategy.branching=3")
    cell = outcome.one("SELECT pruned_calls, pruned_output_tokens, charged_output_tokens, charged_calls FROM cell_metrics")
    nodes = frame(outcome, NODES)
    assert cell["pruned_calls"] == nodes.pruned.sum() > 0
    assert cell["pruned_output_tokens"] == nodes[nodes.pruned].output_tokens.sum()
    assert cell["charged_output_tokens"] == nodes.output_tokens.sum()
    charged = outcome.one("SELECT sum(charged_calls) AS calls, sum(charged_output_tokens) AS tokens FROM uses")
    assert (charged["calls"], charged["tokens"]) == (cell["charged_calls"], cell["charged_output_tokens"])


@pytest.mark.parametrize(
    ("strategy", "limits"),
    [("dvts", ()), ("beam_search", ("limits.problem.output_tokens=150",)), ("beam_search", ("limits.problem.search_nodes=20",))],
)
def test_side_by_side_is_as_one_by_one(run: Run, strategy: str, limits: tuple[str, ...]) -> None:
    sizes = (f"strategy={strategy}", "strategy.branching=3", *limits)
    wide = run(*sizes, "strategy.parallel=16", study="wide")
    narrow = run(*sizes, "strategy.parallel=1", "model.max_concurrency=1", study="narrow")
    assert wide.code == narrow.code == 0
    pd.testing.assert_frame_equal(frame(wide, SOLUTION), frame(narrow, SOLUTION))
    left, right = (frame(one, NODES).drop(columns="call_id") for one in (wide, narrow))
    pd.testing.assert_frame_equal(left, right)


def test_the_same_search_again_bills_nothing(run: Run) -> None:
    first = run("strategy=dvts", "strategy.branching=2")
    again = run("strategy=dvts", "strategy.branching=2", "strategy.parallel=2")
    found = again.one("SELECT count(*) AS calls, count(DISTINCT key) AS keys FROM calls")
    assert first.code == again.code == 0
    cells = frame(again, "SELECT charged_calls, billed_calls FROM cell_metrics")
    assert cells.charged_calls.nunique() == 1
    assert cells.billed_calls.tolist() == [found["calls"], 0]
    assert found["calls"] == found["keys"]


@pytest.mark.parametrize(
    ("options", "stop"),
    [
        (("limits.problem.search_nodes=10",), "node_limit"),
        (("limits.problem.search_depth=2",), "depth_limit"),
        (("strategy.max_depth=2",), "depth_limit"),
        (("limits.problem.calls=25",), "call_budget"),
        (("limits.problem.verifier_calls=5",), "call_budget"),
        (("limits.problem.output_tokens=100",), "output_budget"),
        (("limits.problem.input_tokens=1400",), "input_budget"),
    ],
)
def test_a_limit_in_the_middle_ends_it_in_its_name(run: Run, options: tuple[str, ...], stop: str) -> None:
    hard = "dataset.prompt='{chain}+1-1+1-1+1-1'"
    outcome = run(hard, "strategy=beam_search", *options)
    assert outcome.code == 0, outcome.err
    solutions = frame(outcome, "SELECT * FROM solutions")
    assert set(solutions.stop_reason) == {stop}
    assert not solutions.selected.any(), "a partial solution is never an answer"
    nodes = frame(outcome, NODES).groupby("problem_id")
    assert nodes.size().tolist() == solutions.set_index("problem_id").charged_search_nodes.loc[list(nodes.groups)].tolist()
    name, _, value = options[0].rpartition(".")[2].partition("=")
    if name in ("search_depth", "max_depth"):
        assert nodes.depth.max().max() == 2
    elif name == "search_nodes":
        assert (nodes.size() == 10).all(), "the node beyond the limit is not paid for"
    else:
        column = f"charged_{name}"
        assert (solutions[column] <= int(value)).all()


def test_a_limit_that_comes_after_an_answer_leaves_the_answer(run: Run) -> None:
    short = ("dataset.limit=1",)
    whole = run("strategy=dvts", *short, study="whole")
    nodes = whole.one("SELECT charged_search_nodes AS n FROM solutions")["n"]
    cut = run("strategy=dvts", *short, f"limits.problem.search_nodes={nodes - 1}", study="cut")
    assert cut.one("SELECT stop_reason, selected, charged_search_nodes AS n FROM solutions") == {
        "stop_reason": "node_limit", "selected": True, "n": nodes - 1,
    }  # fmt: skip


@pytest.mark.parametrize(("at_limit", "selected"), [("answer", True), ("fail", False)])
def test_a_path_thinks_within_the_budget(run: Run, at_limit: str, selected: bool) -> None:
    options = ("thinking.budget=20", f"thinking.at_limit={at_limit}", "dataset.prompt='{chain}+1-1+1-1'")
    outcome = run(*options, "strategy=beam_search", "strategy.width=2", "strategy.branching=2")
    assert outcome.code == 0, outcome.err
    assert frame(outcome, "SELECT selected FROM solutions").selected.eq(selected).all()
    nodes = frame(outcome, NODES)
    thinking = nodes.prefix.str.partition("<think>")[2].str.partition("</think>")[0].str.len() + nodes.step.fillna("").str.len()
    assert thinking.max() <= 20
    assert (nodes.prefix.str.endswith("</think>").any()) == selected, "where the budget is used up the answer is asked for, or nothing is"


def test_a_step_that_runs_into_its_cap_is_dead(run: Run) -> None:
    outcome = run("strategy=beam_search", "strategy.max_step_tokens=5")
    assert set(frame(outcome, "SELECT stop_reason FROM solutions").stop_reason) == {"exhausted"}
    nodes = frame(outcome, NODES)
    assert (nodes.partial & nodes.pruned & nodes.score.isna()).all()
    assert set(nodes.depth) == {1}
    cell = outcome.one("SELECT coverage, pruned_output_tokens, charged_output_tokens FROM cell_metrics")
    assert cell["coverage"] == 0
    assert cell["pruned_output_tokens"] == cell["charged_output_tokens"] > 0


def test_a_vote_weighs_each_answer_by_its_scores(run: Run) -> None:
    outcome = run("strategy=dvts", "strategy.select=vote", "strategy.branching=3", "sampling.temperature=2")
    assert outcome.one("SELECT strategy_label AS label FROM cells") == {"label": "dvts@4x3:vote"}
    solutions = frame(outcome, "SELECT problem_id, answer_class FROM solutions").set_index("problem_id").answer_class
    finished = frame(outcome, NODES)
    finished = finished[~finished.partial & finished.complete]
    for problem_id, rows in finished.groupby("problem_id"):
        known = rows.assign(text=rows.prefix + rows.step.fillna("") + rows.said).sort_values("position")
        # One that repeats another word for word was not scored again, and weighs the same.
        known["score"] = known.groupby("text").score.ffill()
        totals: dict[str, float] = defaultdict(float)
        for row in known.itertuples():
            totals[row.answer_class] += row.score
        assert totals[solutions[problem_id]] == pytest.approx(max(totals.values()))


def test_a_plan_bounds_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert BeamSearch(2, 3, 4).most.asks == Dvts(3, 2, 4).most.asks == 24
    outcome = run("strategy=beam_search", "strategy.width=2", "strategy.branching=2", "strategy.max_depth=5")
    assert outcome.one("SELECT max(charged_search_nodes) <= 20 AS within FROM solutions") == {"within": True}


def test_an_unfinished_turn_has_the_scores_that_its_steps_have_in_the_finished_one() -> None:
    question = Question("q", (Message("user", "64*7-3"),), AnswerContract(ContractKind.INTEGER))
    turns = [(None, "64*7=48;"), (None, "64*7=48;48-3=45;"), (None, "64*7=48;48-3=45;4"), ("45", "64*7=48;48-3=45;")]

    async def scores() -> list[Reading]:
        verifier = Process()
        async with LabVerifier().connect() as line:
            requests = [score_request(verifier, LabVerifier().info, question, text, thinking, seed=0) for text, thinking in turns]
            return [verifier.read((await line.respond(request)).text) for request in requests]

    first, second, cut, whole = asyncio.run(scores())
    assert [len(one.steps) for one in (first, second, cut, whole)] == [1, 2, 2, 3]
    assert first.steps == pytest.approx(whole.steps[:1], abs=1e-4)
    assert second.steps == cut.steps == pytest.approx(whole.steps[:2], abs=1e-4)


# What is refused before anything is spent.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("model=simulated",), "'simulated' does not continue a given text"),
        (("model=scripted", "model.replies=[a]", "thinking=off", "thinking.budget=null"), "does not continue a given text"),
        (("verifier=outcome", "verifier_model=null"), "verifier 'outcome' scores whole answers only"),
        (("thinking=off", "thinking.budget=null"), "thinking, which is off"),
        (("thinking.budget=0",), "thinking, which is off"),
        (("thinking.at_limit=extend",), "at_limit=extend"),
        (("sampling.temperature=0",), "every continuation is the same"),
        (("sampling.stop=[x]",), "a search ends its steps itself"),
        (("strategy.branching=0",), "strategy.branching=0: give 1 or more"),
        (("strategy.max_step_tokens=0",), "strategy.max_step_tokens=0: give 1 or more"),
        (("strategy.steps.boundary=''",), "strategy.steps.boundary"),
        (("strategy.steps.closed=x",), "did you mean strategy.steps.closing"),
    ],
)
def test_what_cannot_be_searched_is_refused(run: Run, options: tuple[str, ...], said: str) -> None:
    outcome = run("strategy=dvts" if "scripted" in options[0] else "strategy=beam_search", *options)
    assert outcome.code == 2, outcome.out
    assert said in outcome.err
    assert not outcome.path.exists()


def test_labels_tell_cells_apart() -> None:
    assert BeamSearch(4, 2).label == "beam_search@4x2"
    assert BeamSearch(4, 2, select=Select.VOTE).label == "beam_search@4x2:vote"
    assert Dvts(8, 2).label == "dvts@8x2"
    with pytest.raises(UserError, match="subtrees"):
        Dvts(subtrees=0)
