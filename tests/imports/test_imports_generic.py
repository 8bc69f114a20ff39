"""The documented format: what each field becomes, what is refused and where, and that unknown stays unknown."""

from __future__ import annotations

import asyncio
import json
import random
import re
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.imports.conftest import Import, Lines, Take
from ttc_eval.cli import main
from ttc_eval.errors import CallFailed
from ttc_eval.imports.generic import FIELDS
from ttc_eval.imports.scales import scale_for
from ttc_eval.models.imported import ImportedModel
from ttc_eval.records import Message, Request, Sampling
from ttc_eval.thinking import Thinking
from ttc_eval.verifiers.imported import Scale, scaled

FULL: Mapping[str, Any] = {
    "problem": "p1",
    "prompt": [{"role": "system", "content": "Count."}, {"role": "user", "content": "1+1?"}],
    "draw": 0,
    "text": "I say 2. Answer: 2",
    "answer": "2",
    "correct": True,
    "reference": "2",
    "difficulty": "easy",
    "scores": {"judge": 0.75},
    "score_usage": {"judge": {"input_tokens": 30, "output_tokens": 4}},
    "usage": {"input_tokens": 20, "output_tokens": 9, "cached_input_tokens": 5, "reasoning_tokens": 3, "usd": 0.5},
    "latency_s": 1.5,
    "model": "m",
    "seed": 3,
    "thinking": "hm",
    "stop_reason": "stop",
    "started_at": 1.7e9,
}


def draws(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"problem": "p", "text": f"t{draw}", **fields} for draw in range(count)]


def test_every_field_has_its_column(take: Take, lines: Lines) -> None:
    taken = take("jsonl", lines([FULL]), "--dataset", "sums", "--split", "dev")
    assert taken.code == 0, taken.err
    assert taken.rows(
        """SELECT model, role, draw, status, answer_text, thinking_text, stop_reason, stop_reason_raw, complete, input_tokens,
           output_tokens, cached_input_tokens, reasoning_tokens, usage_source, cost_usd, price_version, started_at, latency_s, simulated,
           max_output_tokens, reserved_input_tokens FROM calls WHERE role = 'generate'"""
    ) == [("m", "generate", 0, "ok", FULL["text"], "hm", "end_turn", "stop", True, 20, 9, 5, 3, "provider", 0.5, "as logged", 1.7e9, 1.5,
           False, None, None)]  # fmt: skip
    assert taken.rows("SELECT model, input_tokens, output_tokens, answer_text FROM calls WHERE role = 'verify'") == [
        ("judge", 30, 4, '{"score": 0.75}')
    ]
    assert taken.rows("SELECT dataset, split, difficulty, prompt, reference FROM problems") == [("sums", "dev", "easy", "1+1?", "2")]
    assert taken.rows(
        "SELECT model, seed, strategy, success, charged_usd, charged_input_tokens, p50_latency_s, status FROM cell_metrics"
    ) == [("m", 3, "single", 1.0, 0.5, 20, 1.5, "finished")]
    assert taken.rows("SELECT verifier, score, valid, correct FROM verifier_scores") == [("judge", 0.75, True, True)]
    assert taken.rows("SELECT correct, grader, how FROM grades") == [(True, "jsonl", "label")]
    assert taken.rows("SELECT format, path, rows, problems FROM imports") == [("jsonl", "samples.jsonl", 1, 1)]
    assert taken.rows("SELECT kind FROM sweeps") == [("import",)]


def test_two_fields_are_enough_and_what_is_not_told_is_unknown(take: Take, lines: Lines) -> None:
    taken = take("jsonl", lines(draws(3)))
    assert taken.code == 0, taken.err
    unknown = "input_tokens IS NULL AND output_tokens IS NULL AND latency_s IS NULL AND cost_usd IS NULL AND usage_source = 'unknown'"
    assert taken.rows(f"SELECT count(*) FROM calls WHERE {unknown}") == [(3,)]
    columns = "charged_input_tokens, charged_output_tokens, charged_usd, billed_output_tokens, mean_output_tokens, p50_latency_s"
    assert taken.rows(f"SELECT {columns} FROM cell_metrics") == [(None,) * 6]
    assert taken.rows("SELECT count(*) FROM grades") == [(0,)]
    assert taken.rows("SELECT coverage, selected_accuracy FROM cell_metrics") == [(0.0, None)], "three answers that cannot agree"
    assert "each of which stands for itself and agrees with no other: 3" in taken.out


def test_output_may_be_known_where_input_is_not(take: Take, lines: Lines) -> None:
    taken = take("jsonl", lines(draws(2, answer="a", usage={"output_tokens": 7})))
    assert taken.rows("SELECT charged_input_tokens, charged_output_tokens FROM cell_metrics") == [(None, 14)]


def test_the_order_of_the_lines_does_not_matter(take: Take, lines: Lines) -> None:
    rows = [
        {"problem": f"p{problem}", "draw": draw, "text": f"Answer: {(problem + draw) % 3}", "reference": "0", "model": model, "seed": seed}
        for problem in range(4) for draw in range(5) for model in ("a", "b") for seed in (0, 1)
    ]  # fmt: skip
    columns = "model, seed, problem_id, answer, answer_class, stop_reason, attempts"
    query = f"SELECT {columns} FROM solutions JOIN cells USING (cell_id) ORDER BY ALL"
    straight = take("jsonl", lines(rows), "--answer", "integer", "--dataset", "d", study="straight")
    random.Random(7).shuffle(rows)
    shuffled = take("jsonl", lines(rows, "other.jsonl"), "--answer", "integer", "--dataset", "d", study="shuffled")
    assert len(straight.rows(query)) == 16
    assert straight.rows(query) == shuffled.rows(query)
    assert straight.rows("SELECT strategy_label, count(*) FROM cells GROUP BY ALL") == [("self_consistency@5", 4)]


def test_the_same_file_changes_nothing_and_a_changed_one_is_another_import(take: Take, lines: Lines) -> None:
    first = take("jsonl", lines(draws(2, answer="a")))
    tables = ("calls", "uses", "candidates", "solutions", "grades", "cells", "sweeps", "problems", "imports", "journal_offsets")
    count = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in tables)
    before = first.rows(count)
    again = take("jsonl", lines(draws(2, answer="a")))
    assert "it is in the study already, with the same options; nothing was changed" in again.out
    assert again.rows(count) == before
    changed = take("jsonl", lines(draws(3, answer="a")))
    assert changed.rows("SELECT rows FROM imports ORDER BY rows") == [(2,), (3,)]
    assert changed.rows("SELECT strategy_label FROM cells ORDER BY ALL") == [("self_consistency@2",), ("self_consistency@3",)]
    assert changed.rows("SELECT count(DISTINCT problem_id), count(DISTINCT key), count(*) FROM calls, problems") == [(1, 5, 5)]


def test_one_bad_file_of_several_leaves_nothing_behind(take: Take, lines: Lines, tmp_path: Path) -> None:
    good, bad = lines(draws(2)), lines([*draws(300), {"problem": "p"}], "bad.jsonl")
    taken = take("jsonl", good, bad)
    assert taken.code == 2
    assert taken.err == "bad.jsonl, line 301: there is no field 'text'; the fields are: problem\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "samples.jsonl"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "there is no sample in it"),
        ([{"text": "t"}], "line 1: there is no field 'problem'; the fields are: text"),
        ([{"problem": "", "text": "t"}], "'problem' is empty"),
        ([{"problem": "p", "text": 3}], "'text' must be text, not a whole number"),
        ([{"problem": "p", "text": "t", "correct": 1}], "'correct' must be true or false"),
        ([{"problem": "p", "text": "t", "scores": {"s": "high"}}], "'s' must be a whole number or a number, not text"),
        ([{"problem": "p", "text": "t", "usage": {"input_tokens": -1}}], "'input_tokens' must be 0 or more"),
        ([{"problem": "p", "text": "t", "usage": {"usd": -1}}], "'usd' must be 0 or more"),
        (
            [{"problem": "p", "text": "t", "usage": {"output_tokens": 4, "reasoning_tokens": 9}}],
            "'reasoning_tokens' is 9, more than the 4 tokens that it is a part of",
        ),
        ([{"problem": "p", "text": "t", "latency_s": -1}], "'latency_s' must be 0 or more seconds, not -1"),
        ([{"problem": "p", "text": "t", "scores": {" ": 0.5}}], "a score has an empty name"),
        ([{"problem": "p", "text": "t", "scores": {"s": 10**400}}], "'s' has 401 digits"),
        ([{"problem": "p", "text": "t", "started_at": 10**400}], "'started_at' has 401 digits"),
        ([{"problem": "p", "text": "t", "prompt": [{"role": "tool", "content": ""}]}], "every turn of a prompt has a role"),
        ([{"problem": "p", "text": "t", "draw": 1}], "has no draw 0, and has draw 1"),
        (
            [{"problem": "p", "text": "t", "draw": 0}, {"problem": "p", "text": "u", "draw": 0}],
            "line 2: draw 0 of problem 'p' is there twice",
        ),
        ([{"problem": "p", "text": "t"}, {"problem": "p", "text": "t", "prompt": "q"}], "line 2: problem 'p' had another prompt, or none"),
        ([{"problem": "p", "text": "t", "reference": "1"}, {"problem": "p", "text": "t", "reference": "2"}], "had another reference"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(take: Take, lines: Lines, rows: list[dict[str, Any]], said: str) -> None:
    taken = take("jsonl", lines(rows))
    assert taken.code == 2
    assert said in taken.err
    assert taken.err.startswith("samples.jsonl")
    assert taken.err.count("\n") == 1


def test_what_is_no_json_is_named_with_its_line(take: Take, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"problem": "p", "text": "t"}\n\n{"problem": \n')
    assert "x.jsonl, line 3: it is no JSON" in take("jsonl", path).err
    path.write_text("[1]\n")
    assert "a JSON object is needed, not a list" in take("jsonl", path).err
    assert "nowhere.jsonl: it cannot be read" in take("jsonl", tmp_path / "nowhere.jsonl").err


def test_fields_that_are_not_used_are_counted(take: Take, lines: Lines) -> None:
    taken = take("jsonl", lines(draws(2, answer="a", mood="good", usage={"ouput_tokens": 3})))
    assert "fields that were not used: mood (2), usage.ouput_tokens (2)" in taken.out


@pytest.mark.parametrize("arguments", [("--model", ""), ("--split", " ")])
def test_an_empty_option_is_named(take: Take, lines: Lines, arguments: tuple[str, str]) -> None:
    taken = take("jsonl", lines(draws(1)), *arguments)
    assert taken.code == 2
    assert taken.err.startswith(f"{arguments[0]}: it is empty")


def test_a_mistake_in_the_command_takes_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["import", "nope", "x.jsonl", "--db", "d"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 2
    assert "invalid choice: 'nope'" in said


# Classes and grades.


def test_labels_that_disagree_within_a_class_split_it(take: Take, lines: Lines) -> None:
    rows = [{"problem": "p", "text": "", "answer": answer, "correct": correct, "reference": "1/2"}
            for answer, correct in (("1/2", True), ("0.5", True), ("2/4", False), ("3", False))]  # fmt: skip
    taken = take("jsonl", lines(rows), "--answer", "math")
    assert dict(taken.rows("SELECT answer_class, correct FROM grades")) == {"1/2": True, "1/2 [labelled wrong]": False, "3": False}
    assert "kept apart from it as a class of its own: 1" in taken.out
    assert "disagree on 1 of 4 samples; the labels are kept" in taken.out
    ours = take("jsonl", lines(rows), "--answer", "math", "--grades", "reference", study="ours")
    assert dict(ours.rows("SELECT answer_class, correct FROM grades")) == {"1/2": True, "3": False}
    assert ours.rows("SELECT DISTINCT how FROM grades") == [("reference",)]
    assert "our comparison is kept" in ours.out


def test_without_labels_the_reference_grades(take: Take, lines: Lines) -> None:
    rows = [{"problem": "p", "text": text, "reference": "so it is #### 1,000"} for text in ("Answer: 1000.0", "Answer: 7", "dunno")]
    taken = take("jsonl", lines(rows), "--answer", "number")
    assert dict(taken.rows("SELECT answer_class, correct FROM grades")) == {"1000": True, "7": False}
    assert taken.rows("SELECT answer_class FROM candidates ORDER BY draw") == [("1000",), ("7",), (None,)]


def test_published_strings_are_compared_as_they_are(take: Take, lines: Lines) -> None:
    rows = [{"problem": "p", "text": "", "answer": answer} for answer in ("0.5", "1/2", "0.5")]
    taken = take("jsonl", lines(rows), "--answer", "math", "--classes", "published")
    assert taken.rows("SELECT answer_class FROM candidates ORDER BY draw") == [("0.5",), ("1/2",), ("0.5",)]
    same = take("jsonl", lines(rows), "--answer", "math", study="same")
    assert same.rows("SELECT DISTINCT answer_class FROM candidates") == [("1/2",)]


def test_a_sample_that_is_right_and_cannot_be_read_stands_for_itself(take: Take, lines: Lines) -> None:
    rows = [{"problem": "p", "text": "some program", "correct": correct} for correct in (True, False, True)]
    taken = take("jsonl", lines(rows), "--answer", "integer")
    assert taken.rows("SELECT count(DISTINCT answer_class), count(*) FILTER (answer_class IS NULL) FROM candidates") == [(2, 1)]
    assert taken.rows("SELECT candidate_success FROM cell_metrics") == [(1.0,)]


def test_what_was_cut_never_votes(take: Take, lines: Lines) -> None:
    taken = take("jsonl", lines(draws(3, answer="a", correct=True, complete=False)))
    assert taken.rows("SELECT coverage, candidate_success, truncated_share FROM cell_metrics") == [(0.0, 0.0, 1.0)]
    assert "cut and never vote, though the file calls them right: 3" in taken.out


def test_problems_with_one_prompt_keep_their_own_draws(take: Take, lines: Lines) -> None:
    rows = [{"problem": name, "text": "", "answer": name, "prompt": "the same"} for name in ("a", "b")]
    taken = take("jsonl", lines(rows))
    assert taken.rows("SELECT answer FROM solutions ORDER BY answer") == [("a",), ("b",)]
    assert taken.rows("SELECT count(DISTINCT key) FROM calls") == [(2,)]


def test_problems_may_have_unlike_many_draws(take: Take, lines: Lines, tmp_path: Path) -> None:
    rows = [{"problem": "a", "text": "", "answer": "1"}] * 3 + [{"problem": "b", "text": "", "answer": "1"}]
    taken = take("jsonl", lines(rows))
    assert taken.rows("SELECT attempts FROM solutions ORDER BY attempts") == [(1,), (3,)]
    assert "problems have from 1 to 3 draws" in taken.out
    assert main(["replay", str(taken.path), "strategy=single"]) == 0
    assert main(["replay", str(taken.path), "strategy=self_consistency", "strategy.max_attempts=3"]) == 2


# Replay.


def test_the_imported_cell_is_what_a_replay_of_its_strategy_gives(take: Take, lines: Lines, tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = [{"problem": f"p{problem}", "text": "", "answer": str(rng.randint(0, 3)), "correct": rng.random() < 0.5,
             "latency_s": rng.random(), "usage": {"input_tokens": 3, "output_tokens": rng.randint(1, 9), "usd": rng.random()}}
            for problem in range(10) for _ in range(6)]  # fmt: skip
    taken = take("jsonl", lines(rows))
    assert (
        main(["replay", str(taken.path), "strategy=self_consistency", "strategy.max_attempts=6", "strategy.early_stop=false", "study=o"])
        == 0
    )
    again = Import(0, "", "", tmp_path / "o.duckdb")
    for query in (
        "SELECT * EXCLUDE (cell_id, ended_at) FROM solutions ORDER BY ALL",
        "SELECT * EXCLUDE (cell_id) FROM uses ORDER BY ALL",
        "SELECT * EXCLUDE (cell_id) FROM candidates ORDER BY ALL",
        "SELECT success, selected_accuracy, selection_gap, charged_calls, round(charged_usd, 9), p95_latency_s FROM cell_metrics",
    ):
        assert again.rows(query) == taken.rows(query)
    assert again.rows("SELECT billed_calls FROM cell_metrics") == [(0,)]


def test_scores_belong_to_draws_and_not_to_texts(take: Take, lines: Lines, tmp_path: Path) -> None:
    rows = [{"problem": "p", "text": "the same", "answer": answer, "correct": answer == "b", "scores": {"s": score}}
            for answer, score in (("a", 0.1), ("b", 0.9), ("c", 0.5))]  # fmt: skip
    taken = take("jsonl", lines(rows))
    assert main(["replay", str(taken.path), "strategy=best_of_n", "strategy.n=3", "study=o"]) == 0
    again = Import(0, "", "", tmp_path / "o.duckdb")
    query = (
        "SELECT s.answer, m.success, s.charged_verifier_calls, s.charged_output_tokens FROM solutions s JOIN cell_metrics m USING (cell_id)"
    )
    assert again.rows(query) == [("b", 1.0, 3, None)]


def test_known_tokens_get_a_price_in_a_replay_and_unknown_ones_do_not(take: Take, lines: Lines, capsys: pytest.CaptureFixture[str]) -> None:
    taken = take("jsonl", lines([*draws(2, answer="a", usage={"input_tokens": 10, "output_tokens": 100_000})]))
    price = ["prices.own.input=1", "prices.own.output=10"]
    assert main(["replay", str(taken.path), "strategy=single", *price]) == 0
    assert "1.000010" in capsys.readouterr().out
    bare = take("jsonl", lines(draws(2, answer="a"), "bare.jsonl"), study="bare")
    assert main(["replay", str(bare.path), *price]) == 0
    assert "2 of 2 charged calls have no price here" in capsys.readouterr().out


# Scales.


@given(st.lists(st.floats(-60_000, 60_000, width=16), min_size=1, max_size=40))
def test_scales_keep_the_order_of_any_rewards(values: list[float]) -> None:
    scale, _ = scale_for("r", array("d", values))
    scores = [scaled(value, scale) for value in values]
    assert all(0 <= score <= 1 for score in scores)
    assert sorted(range(len(values)), key=lambda i: (scores[i], i)) == sorted(range(len(values)), key=lambda i: (values[i], i))
    assert [a == b for a in scores for b in scores] == [a == b for a in values for b in values]


def test_a_scale_says_what_it_is() -> None:
    assert scale_for("r", array("d", [0.0, 1.0])) == (Scale.UNIT, None)
    assert scale_for("r", array("d", [-4.0, 6.0]))[0] is Scale.SIGMOID
    scale, said = scale_for("r", array("d", [40.0, 50.0]))
    assert scale is Scale.SOFTSIGN, "a sigmoid would make them one"
    assert said is not None
    assert "softsign" in said


def test_a_score_that_is_no_number_is_none(take: Take, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"problem": "p", "text": "", "answer": "a", "scores": {"s": NaN}}\n')
    taken = take("jsonl", path)
    assert taken.code == 0, taken.err
    assert taken.rows("SELECT count(*) FROM scores") == [(0,)]


# The model.


def test_an_imported_model_is_never_asked() -> None:
    model = ImportedModel("m", "abc")
    request = Request("m", model.info.endpoint, (Message("user", "q"),), Thinking(), Sampling(), 1, 1)

    async def ask() -> None:
        async with model.connect() as connection:
            await connection.respond(request)

    with pytest.raises(CallFailed, match="m was imported and cannot be asked") as failure:
        asyncio.run(ask())
    assert not failure.value.retryable


def test_help_lists_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    out = capsys.readouterr().out
    for name in ("jsonl", "crucible", "tree-of-thought", "gsm8k-solutions", "qwen-rm", "inspect", "lm-eval"):
        assert f"\n  {name} " in out


def test_notes_are_stored_with_the_import(take: Take, lines: Lines) -> None:
    taken = take("jsonl", lines(draws(1)), "--model", "mine")
    notes, options = taken.rows("SELECT notes, options FROM imports")[0]
    assert "the file gives no prompts: the names of the problems stand for them" in json.loads(notes)
    assert json.loads(options)["model"] == "mine"
    assert taken.rows("SELECT model FROM cells") == [("mine",)]


# The guide.


def test_the_guides_example_is_imported_as_it_stands(take: Take, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "imports.md").read_text("utf-8")
    [example] = re.findall(r"```jsonl\n(.*?)```", guide, re.DOTALL)
    path = tmp_path / "samples.jsonl"
    path.write_text(example, "utf-8")
    taken = take("jsonl", path)
    assert taken.code == 0, taken.err
    assert "not used" not in taken.out
    columns = "model, strategy_label, n_problems, candidate_success, charged_output_tokens"
    assert taken.rows(f"SELECT {columns} FROM cell_metrics") == [("m", "self_consistency@2", 2, 1.0, 39)]
    assert taken.rows("SELECT count(*) FROM calls WHERE cost_usd IS NULL AND role = 'generate'") == [(2,)]
    named = set(re.findall(r"^\| `(\w+)` \| [a-z]", guide.split("## The generic format")[1].split("Fields that are")[0], re.MULTILINE))
    assert named == set(FIELDS), "the table names every field"
