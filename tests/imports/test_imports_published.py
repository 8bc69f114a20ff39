"""Published figures come out of published files: imported, replayed, and estimated from the frames of the study."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.imports.conftest import Import, Take
from ttc_eval.cli import main
from ttc_eval.metrics import best_of_n_at_k, majority_at_k, pass_at_k
from ttc_eval.study import Study, open_study

Replay = Callable[..., Study]


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Any]:
    found = map(json.loads, (shared / "cases" / "cases.jsonl").read_text("utf-8").splitlines())
    return {case["id"]: case["expected"] for case in found if case["kind"] == "dataset_replay"}


@pytest.fixture
def replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Replay:
    def run(taken: Import, name: str, *arguments: str) -> Study:
        assert main(["replay", str(taken.path), *arguments, f"study={name}"]) == 0, capsys.readouterr().err
        capsys.readouterr()
        return open_study(tmp_path / f"{name}.duckdb")

    return run


def by_attempts(study: Study, query: str) -> list[Any]:
    order = "CAST(strategy_params->>'$.max_attempts' AS INTEGER), CAST(strategy_params->>'$.n' AS INTEGER)"
    return (
        study.sql(f"SELECT {query} FROM cell_metrics m JOIN cells c USING (cell_id) GROUP BY {order} ORDER BY {order}").iloc[:, 0].tolist()
    )


def arrays(candidates: pd.DataFrame, columns: list[str]) -> list[np.ndarray[Any, Any]]:
    """Columns of candidates as problems × draws, over all their cells."""
    groups = [group for _, group in candidates.sort_values(["problem_id", "cell_id", "draw"]).groupby("problem_id")]
    return [np.array([group[column].to_numpy() for group in groups]) for column in columns]


# crucible: 40 MATH-500 problems x 8 samples x 3 seeds.


def test_crucibles_ladder_by_import_and_replay(shared: Path, cases: dict[str, Any], take: Take, replay: Replay) -> None:
    case = cases["dataset_replay-02"]
    files = sorted((shared / "data" / "crucible").glob("math500-bestofn-seed?.json"))
    taken = take("crucible", *files, "--classes", "published")
    assert taken.code == 0, taken.err
    assert taken.rows("SELECT model, seed, strategy_label, n_problems FROM cell_metrics ORDER BY seed") == [
        ("qwen2.5:1.5b-instruct", seed, "self_consistency@8", 40) for seed in (0, 1, 2)
    ]

    vote = ("strategy=self_consistency", "strategy.early_stop=false", "strategy.ties=first")
    majority = replay(taken, "majority", "-m", *vote, "strategy.max_attempts=1,2,4,8")
    assert by_attempts(majority, "sum(n_correct)") == [46, 46, 54, 63]
    assert by_attempts(majority, "sum(m.candidate_success * n_problems)::INTEGER") == case["oracle"]
    assert by_attempts(majority, "sum(charged_output_tokens) / 120") == pytest.approx(case["mean_policy_tokens"])

    prm = replay(taken, "prm", "-m", "strategy=best_of_n", "strategy.n=1,2,4,8")
    assert by_attempts(prm, "sum(n_correct)") == case["prm"]
    assert by_attempts(prm, "sum(charged_verifier_calls)::INTEGER") == [120, 240, 480, 960]
    # A process reward model reads what the policy wrote, which the published table counts as many tokens again. It writes nothing itself.
    assert by_attempts(prm, "sum(charged_output_tokens) / 120") == pytest.approx(case["mean_policy_tokens"])
    assert majority.sql("SELECT count(*) AS n FROM imports")["n"].tolist() == [3], "where the draws came from goes with them"


def test_crucibles_exact_table_from_the_frames(shared: Path, take: Take) -> None:
    taken = take("crucible", *sorted((shared / "data" / "crucible").glob("math500-bestofn-seed?.json")), "--classes", "published")
    candidates = taken.study.candidates().merge(taken.study.scores()[["cell_id", "problem_id", "position", "score"]])
    names, correct, scores = arrays(candidates, ["answer_class", "correct", "score"])
    assert names.shape == (40, 24)
    classes = np.array([pd.factorize(row)[0] for row in names])
    ks = (1, 2, 4, 8, 16, 24)
    passed = [round(float(np.mean(pass_at_k(np.full(40, 24), correct.sum(axis=1), k))), 4) for k in ks]
    assert passed == [0.3823, 0.5062, 0.6042, 0.6718, 0.7129, 0.7250]
    best = [round(float(np.mean(best_of_n_at_k(scores.astype(float), correct.astype(bool), k))), 4) for k in ks]
    assert best == [0.3823, 0.4589, 0.5143, 0.5618, 0.6091, 0.6250]
    voted = [round(float(np.mean(majority_at_k(classes, correct.astype(bool), k))), 4) for k in ks]
    assert voted == [0.3823, 0.3823, 0.4663, 0.5336, 0.5755, 0.5813]


def test_crucibles_answers_by_the_contract_keep_its_labels(shared: Path, take: Take) -> None:
    taken = take("crucible", shared / "data" / "crucible" / "math500-bestofn-seed0.json")
    records = json.loads((shared / "data" / "crucible" / "math500-bestofn-seed0.json").read_text())["records"]
    assert taken.study.candidates()["correct"].sum() == sum(trace["correct"] for record in records for trace in record["traces"])
    assert "disagree on 5 of 320 samples; the labels are kept" in taken.out
    notes = json.loads(taken.rows("SELECT notes FROM imports")[0][0])
    assert any("disagree" in note for note in notes)


# Game of 24: 100 puzzles x 100 answers of GPT-4.


def test_game_of_24_and_what_it_really_cost(shared: Path, cases: dict[str, Any], take: Take, replay: Replay) -> None:
    case, folder = cases["dataset_replay-07"], shared / "data" / "tot" / "game24"
    taken = take("tree-of-thought", *sorted(folder.glob("*.json")))
    assert taken.code == 0, taken.err
    candidates = taken.study.candidates().merge(taken.study.cells()[["cell_id", "model"]])
    means = candidates.groupby("model")["correct"].mean()
    assert means.round(4).to_dict() == {"gpt-4 naive_cot": case["cot"]["mean"], "gpt-4 naive_standard": case["io"]["mean"]}
    metrics = taken.rows(
        "SELECT round(candidate_success * n_problems), round(charged_usd, 2), charged_output_tokens FROM cell_metrics ORDER BY model"
    )
    assert metrics == [(case["cot"]["any_of_100"], 47.05, 674862), (case["io"]["any_of_100"], 13.80, 180008)]
    assert "restarts of the usage counter" in taken.out

    for model, tables in (
        ("cot", [0.0403, 0.0728, 0.1429, 0.2148, 0.2955, 0.4068, 0.49]),
        ("standard", [0.0734, 0.1057, 0.1492, 0.1789, 0.2115, 0.2728, 0.33]),
    ):
        (correct,) = arrays(candidates[candidates["model"] == f"gpt-4 naive_{model}"], ["correct"])
        found = [float(np.mean(pass_at_k(np.full(100, 100), correct.sum(axis=1), k))) for k in (1, 2, 5, 10, 20, 50, 100)]
        assert [round(value, 4) for value in found] == tables

    # What 50 of the 100 samples of a problem cost is not in the log; what all of them cost is.
    study = replay(taken, "part", "-m", "strategy=self_consistency", "strategy.early_stop=false", "strategy.max_attempts=50,100")
    found = study.cells().set_index(["model", "strategy_label"])["charged_usd"]
    assert found[:, "self_consistency@50"].isna().all()
    assert found["gpt-4 naive_cot", "self_consistency@100"] == pytest.approx(47.04672)


def test_every_label_of_the_game_is_that_of_its_rule(shared: Path) -> None:
    from ttc_eval.tasks import task_of

    folder, task = shared / "data" / "tot" / "game24", task_of("game24")
    puzzles = [line.split(",")[1] for line in (folder / "24.csv").read_text().splitlines()[1:]]
    from ttc_eval.imports.tree_of_thought import expression

    wrong = 0
    for path in folder.glob("*.json"):
        for row in json.loads(path.read_text()):
            given = {"numbers": [int(number) for number in puzzles[row["idx"]].split()]}
            labels = [bool(info["r"]) for info in row["infos"]] if "infos" in row else row["accs"]
            for answer, label in {(expression(text), label) for text, label in zip(row["ys"], labels, strict=True)}:
                wrong += task.check(given, answer or "").valid != label
    assert wrong == 0


# GSM8K: one solution of each of four systems.


def test_gsm8k_solutions_of_four_systems(shared: Path, cases: dict[str, Any], take: Take) -> None:
    case = cases["dataset_replay-01"]
    taken = take("gsm8k-solutions", shared / "data" / "gsm8k" / "example_model_solutions.jsonl")
    assert taken.code == 0, taken.err
    assert dict(taken.rows("SELECT model, n_correct FROM cell_metrics")) == case["correct"]
    assert taken.rows("SELECT DISTINCT n_problems, strategy FROM cell_metrics") == [(case["problems"], "single")]
    assert taken.rows("SELECT count(DISTINCT problem_id) FROM problem_outcomes WHERE correct") == [(case["any_of_4"],)]
    assert "disagree" not in taken.out, "extraction agrees with all 4 x 1319 labels"


# Qwen2.5-Math: 100 problems x 8 with rewards.


@pytest.mark.parametrize("classes", ["contract", "published"])
def test_reward_against_majority(shared: Path, cases: dict[str, Any], take: Take, replay: Replay, classes: str) -> None:
    case = cases["dataset_replay-05"]
    taken = take("qwen-rm", shared / "data" / "rm_maj_qwen" / "math_cot_100.jsonl", "--classes", classes)
    assert taken.code == 0, taken.err
    vote = ("strategy=self_consistency", "strategy.max_attempts=8", "strategy.early_stop=false")
    first = replay(taken, "first", *vote, "strategy.ties=first").cells().iloc[0]
    assert (first["n_correct"], round(first["candidate_success"] * 100), round(first["selection_gap"], 4)) == (
        case["maj_at_8"], case["any_of_8"], case["selection_gap_maj"],
    )  # fmt: skip
    assert taken.rows("SELECT count(*) FROM solutions WHERE NOT selected") == [(case["tied_problems"],)]
    best = replay(taken, "best", "strategy=best_of_n", "strategy.n=8").cells().iloc[0]
    assert (best["n_correct"], round(best["selection_gap"], 4), best["verifier"]) == (case["rm_at_8"], case["selection_gap_rm"], "reward")
    assert replay(taken, "one", "strategy=single").cells()["n_correct"].tolist() == [case["first"]]
    assert taken.study.candidates()["correct"].mean() == pytest.approx(case["mean"])
    assert "sigmoid, which keeps its order" in taken.out


# Inspect's own logs.


def test_inspect_logs_keep_their_scores(shared: Path, take: Take) -> None:
    taken = take("inspect", *sorted((shared / "data" / "inspect_logs").glob("*.json")))
    assert taken.code == 0, taken.err
    found = taken.rows("SELECT dataset, model, success, charged_input_tokens, charged_output_tokens FROM cell_metrics ORDER BY dataset")
    assert found == [
        ("popularity", "openai/gpt-4o-mini", pytest.approx(2 / 3), 192, 6),
        # Without what the judge of the answers used: the log's own sum counts that in.
        ("security_guide", "openai/gpt-4o-mini", 1.0, 182, 49),
    ]
    assert taken.rows("SELECT count(*) FROM solutions WHERE latency_s IS NULL") == [(0,)]
