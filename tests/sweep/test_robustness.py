"""What went wrong once, each as the test of its whole kind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sweep.conftest import Spawn, Sweep
from tests.sweep.test_providers import serving
from tests.sweep.test_resume import received
from ttc_eval.store import StudyPaths, load
from ttc_eval.study import open_study

SIMULATED = ["model=simulated", "dataset=quickstart"]


def rows(outcome: object, query: str) -> list[dict[str, object]]:
    return outcome.study.sql(query).to_dict("records")  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("tolerances", ["0,0.02", "0.02,0"])
def test_cells_with_other_contracts_do_not_meet(sweep: Sweep, tmp_path: Path, tolerances: str) -> None:
    data = tmp_path / "q.jsonl"
    data.write_text('{"id": 1, "question": "?", "answer": "100", "difficulty": "x"}\n')
    base = ["model=scripted", "model.replies=[101,101,99,99.5,100]", "dataset=one_question", f"dataset.path={data}"]
    outcome = sweep("-m", *base, "strategy=self_consistency", "dataset.answer.kind=number", f"+dataset.answer.rel_tol={tolerances}")
    assert outcome.code == 0, outcome.err
    success = {
        row["tol"]: row["success"]
        for row in rows(outcome, "SELECT config->>'$.dataset.answer.rel_tol' AS tol, success FROM cell_metrics JOIN cells USING (cell_id)")
    }
    assert success == {"0": 0.0, "0.02": 1.0}


def test_another_reference_in_the_same_study_leaves_old_outcomes_alone(sweep: Sweep, tmp_path: Path) -> None:
    data = tmp_path / "q.jsonl"
    for answer in ("7", "8"):
        data.write_text(json.dumps({"id": 1, "question": "?", "answer": answer, "difficulty": "x"}))
        outcome = sweep("model=scripted", "model.replies=[7]", "dataset=one_question", f"dataset.path={data}")
    assert [row["success"] for row in rows(outcome, "SELECT success FROM cell_metrics")] == [1.0, 0.0]


@pytest.mark.parametrize("group", ["model", "strategy"])
def test_a_defect_fails_its_cell_and_leaves_nothing_open(sweep: Sweep, tmp_path: Path, group: str) -> None:
    (tmp_path / "mine" / "model").mkdir(parents=True)
    (tmp_path / "mine" / "strategy").mkdir()
    (tmp_path / "mine" / "model" / "defective.yaml").write_text("_target_: tests.sweep.broken.DefectiveModel\nname: defective\n")
    (tmp_path / "mine" / "strategy" / "defective.yaml").write_text("_target_: tests.sweep.broken.DefectiveStrategy\n")
    other = {"model": "simulated", "strategy": "single"}[group]
    rest = {"model": ["strategy=single"], "strategy": ["model=simulated"]}[group]
    folder = str(tmp_path / "mine")
    outcome = sweep(
        "--config-dir",
        folder,
        "-m",
        f"{group}=defective,{other}",
        *rest,
        "dataset=quickstart",
        "dataset.limit=30",
        "limits.sweep.calls=60",
    )
    assert outcome.code == 1, outcome.err
    statuses = rows(outcome, "SELECT status, error FROM cells ORDER BY ordinal")
    assert [row["status"] for row in statuses] == ["failed", "finished"]
    assert "a defect" in str(statuses[0]["error"])
    assert rows(outcome, "SELECT * FROM dispatches") == []


def test_the_same_sweep_runs_once_at_a_time(spawn: Spawn, tmp_path: Path) -> None:
    slow = [*SIMULATED, "model.time_scale=30", "model.max_concurrency=2"]
    first = spawn(tmp_path, *slow)
    while not list((tmp_path / "s.journal").glob("*.jsonl")):
        time.sleep(0.01)
    second = spawn(tmp_path, *slow)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 2
    assert f"is running already, in process {first.pid}" in out


def test_two_sweeps_beside_each_other_are_charged_right(spawn: Spawn, tmp_path: Path) -> None:
    slow = [*SIMULATED, "dataset.limit=20", "model.time_scale=0.3", "model.max_concurrency=2"]
    both = [spawn(tmp_path, *slow, "strategy=self_consistency_4"), spawn(tmp_path, *slow, "strategy=self_consistency_8")]
    for process in both:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    out, _ = spawn(tmp_path, *slow, "strategy=self_consistency", "strategy.max_attempts=3").communicate(timeout=60)
    assert "0 calls dispatched" in out
    cells = open_study(tmp_path / "s.duckdb").cells()
    assert len(cells) == 3
    assert (cells["charged_calls"] == cells["attempts"]).all(), "a draw that both paid for is charged once"


def test_a_line_written_while_loading_is_not_taken_for_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttc_eval.store import loader
    from ttc_eval.store.journal import encode

    paths = StudyPaths.of(tmp_path, "s")
    paths.journals.mkdir()
    journal = paths.journals / "h-1-1.jsonl"
    grade = {"problem_id": "p", "answer_class": "1", "correct": True, "grader": "g", "how": None}
    journal.write_bytes(encode({"grades": [grade]}))
    load_journal = loader._load_journal

    def late(*arguments: object) -> object:
        report = load_journal(*arguments)  # type: ignore[arg-type]
        with journal.open("ab") as file:
            file.write(encode({"grades": [{**grade, "problem_id": "late"}]}))
        return report

    monkeypatch.setattr(loader, "_load_journal", late)
    load(paths)
    monkeypatch.undo()
    assert len(open_study(paths.database).sql("SELECT * FROM grades")) == 2


def test_a_value_that_does_not_fit_its_column_costs_only_its_own_line(tmp_path: Path) -> None:
    from ttc_eval.store.journal import encode

    paths = StudyPaths.of(tmp_path, "s")
    paths.journals.mkdir()
    grade = {"problem_id": "p", "answer_class": "1", "correct": True, "grader": "g", "how": None}
    lines = [
        {"grades": [grade]},
        {"grades": [{**grade, "problem_id": "q", "correct": "maybe"}]},
        {"nonsense": [{"a": 1}]},
        {"grades": [{**grade, "problem_id": "r"}]},
    ]
    (paths.journals / "h-1-1.jsonl").write_bytes(b"".join(encode(line) for line in lines))
    report = load(paths)
    assert (report.lines, report.malformed) == (4, 2)
    assert set(open_study(paths.database).sql("SELECT problem_id FROM grades")["problem_id"]) == {"p", "r"}


@pytest.mark.parametrize("order", [("h-99999-1", "h-1-2"), ("z-1-1", "a-1-2")])
def test_rebuilding_from_journals_keeps_the_order_of_time(tmp_path: Path, order: tuple[str, str]) -> None:
    from ttc_eval.store.journal import encode

    paths = StudyPaths.of(tmp_path, "s")
    paths.journals.mkdir()
    for name, correct in zip(order, (False, True), strict=True):
        grade = {"problem_id": "p", "answer_class": "1", "correct": correct, "grader": "g", "how": None}
        (paths.journals / f"{name}.jsonl").write_bytes(encode({"grades": [grade]}))
    load(paths)
    assert open_study(paths.database).sql("SELECT correct FROM grades")["correct"].tolist() == [True]


def test_a_journal_that_cannot_be_written_stops_the_paying(tmp_path: Path) -> None:
    with serving() as server:
        arguments = [
            "model=openai_compatible",
            f"model.base_url={server.url}",
            "model.model=m",
            "model.max_concurrency=4",
            "dataset=quickstart",
        ]
        limited = (
            f"ulimit -f 150; exec {sys.executable} -m ttc_eval.sweep -m {' '.join(arguments)} seed=0,1,2 results_dir={tmp_path} study=s"
        )
        process = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=120, check=False)
        sent = server.count
    assert process.returncode == 1, process.stderr
    assert "Traceback" not in process.stdout + process.stderr
    assert "the journal cannot be written" in process.stdout + process.stderr
    assert sent <= received(tmp_path) + 2 * 4 + 1


def test_a_database_that_is_open_elsewhere_is_named_and_nothing_is_lost(spawn: Spawn, tmp_path: Path) -> None:
    arguments = [*SIMULATED, "dataset.limit=5"]
    spawn(tmp_path, *arguments).communicate(timeout=60)
    database = str(tmp_path / "s.duckdb")
    code = f"import duckdb, sys; c = duckdb.connect({database!r}, read_only=True); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        process = spawn(tmp_path, *arguments, "strategy=self_consistency_4")
        lines = [process.stdout.readline() if process.stdout else ""]
        assert f"process {holder.pid}" in lines[0], "it says at once what it waits for"
        holder.stdin.close()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert "self_consistency@4" in out


def test_a_limit_counts_attempts_that_others_have_made(sweep: Sweep) -> None:
    faults = ["model.faults.server_error=1", "retry.first_wait_s=0.001", "model.time_scale=0.05"]
    outcome = sweep("-m", *SIMULATED, "dataset.limit=10", *faults, "limits.problem.calls=1,2")
    per_draw = rows(outcome, "SELECT key, count(*) AS n FROM calls GROUP BY key")
    assert max(int(str(row["n"])) for row in per_draw) == 2
    assert rows(outcome, "SELECT max(charged_calls) AS n FROM solutions JOIN cells USING (cell_id) WHERE ordinal = 0") == [{"n": 1}]
    assert rows(outcome, "SELECT count(*) AS n FROM call_costs WHERE cell_id IS NULL") == [{"n": 0}]


def test_parallel_draws_decide_like_serial_ones_under_faults_and_limits(sweep: Sweep) -> None:
    faults = ["model.faults.server_error=0.3", "retry.first_wait_s=0.001", "model.time_scale=0.02"]
    base = [*SIMULATED, "dataset.limit=40", *faults, "strategy=self_consistency", "strategy.max_attempts=4", "limits.problem.calls=5"]
    columns = "problem_id, selected, answer, stop_reason, attempts, charged_calls, charged_output_tokens"
    serial = sweep(*base, study="serial").study.sql(f"SELECT {columns} FROM solutions ORDER BY problem_id")
    parallel = sweep(*base, "strategy.parallel=3", study="parallel").study.sql(f"SELECT {columns} FROM solutions ORDER BY problem_id")
    assert serial.equals(parallel)


def test_what_changes_the_request_changes_the_draw(sweep: Sweep) -> None:
    with serving() as server:
        base = ["model=openai_compatible", f"model.base_url={server.url}", "model.model=m", "dataset=one_question"]
        sweep(*base)
        assert server.count == 1
        sweep(*base, "model.name=other")
        assert server.count == 1, "only a label has changed"
        sweep(*base, "model.dialect=vllm")
        assert server.count == 2


def test_what_an_earlier_sweep_gave_up_is_billed_and_not_charged(sweep: Sweep) -> None:
    failing = [*SIMULATED, "dataset.limit=20", "model.faults.server_error=0.6", "retry.max_attempts=1"]
    for _ in range(14):
        outcome = sweep(*failing)
    assert outcome.code == 0
    solutions = outcome.study.solutions()
    assert (solutions["charged_calls"] == 1).all()
    assert rows(outcome, "SELECT sum(billed_calls) AS billed, (SELECT count(*) FROM calls) AS calls FROM call_costs") == [
        {"billed": outcome.one("SELECT count(*) AS n FROM calls")["n"], "calls": outcome.one("SELECT count(*) AS n FROM calls")["n"]}
    ]


def test_a_priced_cell_stays_priced_and_an_unpriced_one_unknown(sweep: Sweep) -> None:
    priced = sweep(*SIMULATED, "dataset.limit=6", "model.price.own={input: 1, output: 2}", "limits.cell.calls=3", study="priced")
    row = priced.one("SELECT charged_usd, billed_usd, usd_per_correct, n_correct FROM cell_metrics")
    assert row["charged_usd"] == pytest.approx(row["billed_usd"]) and row["charged_usd"] > 0
    shared = sweep("-m", *SIMULATED, "dataset.limit=5", "strategy=self_consistency_4,single", study="unpriced")
    assert rows(shared, "SELECT count(billed_usd) AS billed, count(charged_usd) AS charged FROM cell_metrics") == [
        {"billed": 0, "charged": 0}
    ]


def test_a_retry_does_not_hide_the_reasoning_tokens(sweep: Sweep) -> None:
    outcome = sweep(
        *SIMULATED, "dataset.limit=20", "thinking=budget", "thinking.budget=32", "model.faults.rate_limited=0.3", "retry.max_attempts=9"
    )
    assert outcome.code == 0
    assert outcome.one("SELECT mean_reasoning_tokens AS m, retried_calls AS r FROM cell_metrics")["m"] > 0


def test_header_values_reach_no_file_and_no_terminal(spawn: Spawn, tmp_path: Path) -> None:
    arguments = [
        "-m",
        "model=openai_compatible",
        "model.base_url=http://127.0.0.1:9/v1",
        "model.model=m",
        "+model.headers={x-key: planted-secret}",
    ]
    process = spawn(tmp_path, *arguments, "dataset=one_question", "retry.max_attempts=2", "limits.sweep.calls=1")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "run again" in out or "run the same command" in out
    assert "planted-secret" not in out
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"planted-secret" not in path.read_bytes(), path


def test_a_second_interrupt_ends_at_once(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn(tmp_path, *SIMULATED, "model.time_scale=1")
    while received(tmp_path) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in out


def test_numbers_are_shown_from_a_snapshot_while_the_database_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttc_eval.store.loader import DatabaseBusy
    from ttc_eval.sweep import app, runner

    real, loads = runner.load, []

    def busy_at_the_end(paths: StudyPaths, **options: object) -> object:
        loads.append(options)
        if "target" not in options and len(loads) > 1:
            raise DatabaseBusy("s.duckdb is open in process 1 (python)")
        return real(paths, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "load", busy_at_the_end)
    assert app.main([*SIMULATED, "dataset.limit=4", f"results_dir={tmp_path}", "study=s"]) == 0
    assert not list((tmp_path / "s.journal").glob("snapshot*"))
    monkeypatch.undo()
    assert len(open_study(tmp_path / "s.duckdb").solutions()) == 4


def test_a_sweep_works_from_any_folder_and_in_folders_with_spaces(spawn: Spawn, tmp_path: Path) -> None:
    folder = tmp_path / "a b ' c"
    folder.mkdir()
    process = spawn(Path("out put"), *SIMULATED, "dataset.limit=3", cwd=folder, env={**os.environ})
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert (folder / "out put" / "s.duckdb").exists()
