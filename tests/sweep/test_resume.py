"""A sweep that is killed at any moment goes on with the same command, and ends as if nothing had happened."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from ttc_eval.study import Study, open_study

ARGUMENTS = [
    "-m",
    "model=simulated",
    "dataset=quickstart",
    "dataset.limit=30",
    "thinking=budget",
    "thinking.budget=0,32",
    "strategy=single,self_consistency_4,self_consistency_8",
    "model.time_scale=0.05",
    "model.max_concurrency=4",
    "model.faults.server_error=0.1",
    "model.faults.cut_stream=0.05",
    "model.faults.unknown_usage=0.05",
    "retry.first_wait_s=0.001",
    "retry.max_attempts=8",
]

# What happened, without when it happened and what it was called.
WHAT_COUNTS = {
    "cells": "SELECT cell_id, ordinal, status, error, strategy_label, thinking_label, n_planned FROM cells ORDER BY ALL",
    "calls": """SELECT key, pool, draw, segment, attempt, status, error_kind, answer_text, stop_reason, complete, input_tokens,
                       output_tokens,
                       reasoning_tokens, usage_source, cost_usd, reserved_output_tokens FROM calls ORDER BY ALL""",
    "solutions": "SELECT * EXCLUDE (ended_at, latency_s, work_s) FROM solutions ORDER BY ALL",
    "candidates": "SELECT * EXCLUDE (call_ids) FROM candidates ORDER BY ALL",
    "uses": "SELECT u.* EXCLUDE (call_id), key, attempt FROM uses u JOIN calls USING (call_id) ORDER BY ALL",
    "grades": "SELECT * FROM grades ORDER BY ALL",
    "cell_metrics": "SELECT * EXCLUDE (sweep_id, mean_latency_s, p50_latency_s, p95_latency_s) FROM cell_metrics ORDER BY cell_id",
    "sweeps": "SELECT status, study, cell_ids FROM sweeps ORDER BY ALL",
}


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ttc_eval.sweep", *ARGUMENTS, f"results_dir={folder}", "study=s"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out


def received(folder: Path) -> int:
    """Calls whose line is whole; a torn line is a call that was not received."""
    journals = [file.read_bytes() for file in (folder / "s.journal").glob("*.jsonl")]
    return sum(journal[: journal.rfind(b"\n") + 1].count(b'{"calls":[') for journal in journals)


def assert_same(left: Study, right: Study) -> None:
    for name, query in WHAT_COUNTS.items():
        pd.testing.assert_frame_equal(left.sql(query), right.sql(query), obj=name)


def test_killed_at_ten_random_moments_the_store_is_the_same(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(whole))
    total, rng = received(whole), random.Random(7)
    for moment in sorted(rng.sample(range(1, total - 20), 10)):
        process = start(killed)
        while process.poll() is None and received(killed) < moment:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    before = received(killed)
    assert before < total
    out = finish(start(killed))
    left, right = open_study(whole / "s.duckdb"), open_study(killed / "s.duckdb")
    assert_same(left, right)
    dispatched = re.search(r"(\d+) calls dispatched", out)
    assert dispatched is not None
    assert int(dispatched[1]) == total - before
    assert "calls were in flight when an earlier run was killed" in out


def test_interrupting_stops_cleanly_keeps_everything_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path)
    while received(tmp_path) < 50:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "Traceback" not in out
    assert re.search(r"run the same command again: \S*ttc-eval sweep -m model=simulated", out)
    study = open_study(tmp_path / "s.duckdb")
    assert study.sql("SELECT status FROM sweeps")["status"].tolist() == ["stopped"]
    assert len(study.sql("SELECT * FROM dispatches")) == 0, "every call that was in flight is stored as cancelled"
    cancelled = study.sql("SELECT * FROM call_costs WHERE status = 'cancelled'")
    assert (cancelled["billed_output_tokens"] > 0).all(), "a cancelled call may have been billed: its reservation counts"
    finish(start(tmp_path))
    other = tmp_path / "other"
    finish(start(other))
    uncancelled = {**WHAT_COUNTS, "calls": WHAT_COUNTS["calls"].replace("FROM calls", "FROM calls WHERE status <> 'cancelled'")}
    for name, query in uncancelled.items():
        pd.testing.assert_frame_equal(open_study(other / "s.duckdb").sql(query), study.sql(query), obj=name)
