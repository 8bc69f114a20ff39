"""Recommending a policy: chosen on dev with a bound that holds for all that were tried, reported on held-out, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttc_eval.analysis.recommend import Demand, recommend
from ttc_eval.cli import main as cli
from ttc_eval.commands.recommend import target
from ttc_eval.errors import UserError
from ttc_eval.metrics.intervals import cluster_wilson
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("recommended")
    for split, start in (("dev", 0), ("heldout", 1000)):
        rows = [{"id": start + i, "question": f"What is {start + i} plus 1?", "answer": start + i + 1} for i in range(150)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [
        "-m",
        "model=simulated",
        "model.price.own={input: 1, output: 4}",
        "dataset.name=sums",
        f"dataset.path='{folder}/{{split}}.jsonl'",
        "dataset.difficulty=null",
        "dataset.examples=[]",
        "thinking=budget",
        "thinking.budget=64",
        "strategy=single,self_consistency_4,self_consistency_16",
        "dataset.split=dev,heldout",
    ]
    assert main([*arguments, f"results_dir={folder}", "study=s"]) == 0
    return open_study(folder / "s.duckdb")


def test_the_cheapest_that_reaches_the_target_is_chosen_on_dev_and_reported_on_heldout(study: Study) -> None:
    cells = study.cells().set_index(["split", "strategy_label"])
    found = recommend(study, Demand(0.78))
    assert found.chosen is not None
    assert found.reported is not None
    assert (found.chosen.split, found.reported.split, found.branded, found.tried) == ("dev", "heldout", False, 3)
    bounds = {}
    for label in ("single", "self_consistency@4", "self_consistency@16"):
        right = study.sql(
            "SELECT correct::DOUBLE AS c FROM problem_outcomes WHERE cell_id = ? ORDER BY problem_id",
            [cells.loc[("dev", label), "cell_id"]],
        )["c"]
        bounds[label] = cluster_wilson(right, 1 - 2 * 0.05 / 3).low
    reaching = [label for label, bound in bounds.items() if bound is not None and bound >= 0.78]
    cheapest = min(reaching, key=lambda label: cells.loc[("dev", label), "charged_usd"])
    assert cheapest in found.chosen.policy
    assert found.chosen.bound == pytest.approx(bounds[cheapest])
    assert found.reported.success.value == pytest.approx(cells.loc[("heldout", cheapest), "success"])


def test_caps_leave_out_what_is_dearer_and_what_is_unknown(study: Study) -> None:
    cells = study.cells().set_index(["split", "strategy_label"])
    single = cells.loc[("dev", "single"), "mean_output_tokens"]
    found = recommend(study, Demand(0.99, max_tokens=single * 1.01))
    assert found.chosen is None
    assert found.nearest is not None
    assert "single" in found.nearest.policy
    nothing = recommend(study, Demand(0.5, p95_latency_s=1e-6))
    assert (nothing.chosen, nothing.nearest, nothing.reported) == (None, None, None)


def test_choosing_where_it_is_measured_is_branded(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(study, Demand(0.5), report_on="dev").branded
    assert cli(["recommend", str(study.path), "--target", "success>=50%", "--report-on", "dev"]) == 0
    said = capsys.readouterr().out
    assert "TUNED ON THE SPLIT IT IS MEASURED ON" in said
    assert "SIMULATED" in said


def test_the_command_answers_with_its_exit_code(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["recommend", str(study.path), "--target", "success>=0.6"]) == 0
    assert "reported on heldout, which had no part in the choice" in capsys.readouterr().out
    assert cli(["recommend", str(study.path), "--target", "success>=0.999"]) == 1
    assert "none; the nearest is" in capsys.readouterr().out
    for wrong, said in (
        (["--target", "accuracy>0.8"], "give success>=SHARE"),
        (["--target", "success>=1.5"], "at most 1"),
        (["--target", "success>=0.8", "--confidence", "2"], "confidence=2"),
        (["--target", "success>=0.8", "--choose-on", "test"], "its splits are: dev, heldout"),
        (["--target", "success>=0.8", "--dataset", "x"], "it has: sums"),
        (["--target", "success>=0.8", "--max-usd-per-problem", "-1"], "above 0"),
    ):
        assert cli(["recommend", str(study.path), *wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(("text", "share"), [("success>=0.8", 0.8), ("success >= 80 %", 0.8), ("success>=.5", 0.5), ("success>=1", 1.0)])
def test_a_target_is_read(text: str, share: float) -> None:
    assert target(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0.8", "success>0.8", "success>=", "success>=a", "coverage>=0.5"])
def test_another_target_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="give success>=SHARE"):
        target(text)


def test_the_bound_keeps_its_promise_when_many_policies_are_tried(tmp_path: Path) -> None:
    """No policy reaches the target; with 20 of them the chance that one is recommended all the same stays within 1 − confidence."""
    import numpy as np

    rng, found = np.random.default_rng(0), 0
    for _ in range(400):
        rights = rng.random((20, 200)) < 0.795
        bounds = [cluster_wilson(right.astype(float), 1 - 2 * 0.05 / 20).low for right in rights]
        found += any(bound is not None and bound >= 0.8 for bound in bounds)
    assert found / 400 <= 0.06


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A route by length, whose long questions need thinking and whose short ones do not; both ends of its threshold were run."""
    folder = tmp_path_factory.mktemp("staged")
    for split, start in (("dev", 0), ("heldout", 1000)):
        rows = [
            {
                "id": start + i,
                "q": f"What is {start + i} plus 1{' all in all' * (i % 2)}?",
                "a": start + i + 1,
                "l": ("easy", "hard")[i % 2],
            }
            for i in range(100)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [
        "-m",
        "model=simulated",
        "model.accuracy={easy: {0: 0.97}, hard: {0: 0.1, 64: 0.97}, default: {0: 0.5}}",
        "dataset.name=sums",
        f"dataset.path='{folder}/{{split}}.jsonl'",
        "dataset.prompt='{q}'",
        "dataset.reference=a",
        "dataset.difficulty=l",
        "dataset.examples=[]",
        "dataset.split=dev,heldout",
        "thinking=budget",
        "thinking.budget=0",
        "strategy=route",
        "strategy.signal=length",
        "strategy.then_budget=64",
        "strategy.threshold=2,1000",
    ]
    assert main([*arguments, f"results_dir={folder}", "study=s"]) == 0
    return open_study(folder / "s.duckdb")


def test_a_tuned_threshold_is_cheaper_than_any_cell_and_counts_as_tried(staged: Study, capsys: pytest.CaptureFixture[str]) -> None:
    plain, tuned = recommend(staged, Demand(0.8)), recommend(staged, Demand(0.8), tune=["route"])
    assert plain.chosen is not None
    assert tuned.chosen is not None
    assert tuned.reported is not None
    lengths = {len(prompt) for prompt in staged.sql("SELECT prompt FROM problems WHERE split = 'dev'")["prompt"]}
    # Every length, one beyond either end, and the two that were run.
    assert (plain.tried, plain.thresholds) == (2, 0)
    assert (tuned.tried, tuned.thresholds) == (2 + len(lengths) + 4, len(lengths) + 4)
    assert tuned.chosen.tokens is not None
    assert plain.chosen.tokens is not None
    assert tuned.chosen.tokens < plain.chosen.tokens
    assert "threshold=2" in plain.chosen.policy
    assert "at threshold" in tuned.chosen.policy
    right = tuned.chosen.success.value * 100
    values = [1.0] * round(right) + [0.0] * (100 - round(right))
    assert tuned.chosen.bound == pytest.approx(cluster_wilson(values, 1 - 2 * 0.05 / tuned.tried).low)
    assert (tuned.reported.split, tuned.reported.success.n, tuned.branded) == ("heldout", 100, False)
    assert cli(["recommend", str(staged.path), "--target", "success>=0.8", "--tune"]) == 0
    said = capsys.readouterr().out
    assert f"{tuned.tried} policies, {tuned.thresholds} of them thresholds, were tried" in said
    assert "reported on heldout, which had no part in the choice" in said


def test_tuning_on_what_is_measured_needs_its_flag(staged: Study, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["recommend", str(staged.path), "--target", "success>=0.8", "--tune", "route"]
    for where in (["--report-on", "dev"], ["--choose-on", "heldout"], ["--choose-on", "heldout", "--report-on", "dev"]):
        assert cli([*asked, *where]) == 2
        assert "--on-measured-split" in capsys.readouterr().err
        assert cli([*asked, *where, "--on-measured-split"]) == 0
        assert "TUNED ON" in capsys.readouterr().out
    assert cli([*asked[:-1], "routes"]) == 2
    assert "there is no such family" in capsys.readouterr().err


def test_a_policy_is_found_on_the_other_split_by_its_settings(staged: Study) -> None:
    """Two thresholds on one split and one of them on the other are told apart by their settings, not by what differs within a split."""
    found = recommend(staged, Demand(0.05))
    assert found.chosen is not None
    assert found.reported is not None
    assert found.reported.policy == found.chosen.policy
