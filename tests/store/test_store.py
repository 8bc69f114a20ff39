"""The store: nothing on disk is lost or loaded twice, and nobody meets a lock."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttc_eval.errors import UserError
from ttc_eval.store import Journal, StudyPaths, load, reading
from ttc_eval.store.journal import encode
from ttc_eval.store.loader import DatabaseBusy
from ttc_eval.study import open_study


def grade(problem: str, answer: str = "1", correct: bool = True) -> dict[str, Any]:
    return {"problem_id": problem, "answer_class": answer, "correct": correct, "grader": "integer", "how": None}


def solution(problem: str, answer: str | None) -> dict[str, list[dict[str, Any]]]:
    where = {"cell_id": "c", "problem_id": problem}
    charged = {"charged_calls": 1, "charged_verifier_calls": 0, "charged_input_tokens": 1, "charged_output_tokens": 1, "charged_usd": None}
    row = {
        **where,
        **charged,
        "selected": answer is not None,
        "answer": answer,
        "answer_class": answer,
        "stop_reason": "attempt_limit",
        "error": None,
    }
    row |= {"attempts": 1, "valid": 1, "latency_s": 0.1, "work_s": 0.1, "ended_at": 1.0}
    candidate = {
        **where,
        "position": 0,
        "draw": 0,
        "parent": None,
        "depth": 0,
        "answer": answer,
        "answer_class": answer,
        "complete": True,
        "call_ids": ["k"],
    }
    return {"solutions": [row], "candidates": [candidate]}


def paths(folder: Path) -> StudyPaths:
    found = StudyPaths.of(folder, "s")
    found.journals.mkdir(parents=True, exist_ok=True)
    return found


def rows(study: StudyPaths, query: str) -> list[Any]:
    with reading(study.database) as connection:
        return connection.execute(query).fetchall()


def test_lines_are_on_disk_when_append_returns_and_loaded_once(tmp_path: Path) -> None:
    study = paths(tmp_path)

    async def write() -> None:
        async with Journal(study.journals) as journal:
            await asyncio.gather(*(journal.append({"grades": [grade(f"p{n}")]}) for n in range(200)))
            assert sum(file.read_bytes().count(b"\n") for file in study.journals.iterdir()) == 200
            journal.note({"grades": [grade("last")]})

    asyncio.run(write())
    assert load(study).lines == 201
    assert load(study).lines == 0
    assert rows(study, "SELECT count(*) FROM grades") == [(201,)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.data())
def test_any_torn_end_loses_only_its_own_line(tmp_path_factory: pytest.TempPathFactory, problems: list[int], data: st.DataObject) -> None:
    study = paths(tmp_path_factory.mktemp("torn"))
    lines = [encode({"grades": [grade(f"p{n}")]}) for n in problems]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    (study.journals / "a.jsonl").write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    report = load(study)
    assert report.lines == complete
    assert report.torn_bytes == cut - sum(len(line) for line in lines[:complete])
    # The file grows by what was missing, as when its writer was only slow.
    (study.journals / "a.jsonl").write_bytes(whole)
    load(study)
    assert rows(study, "SELECT count(*) FROM grades") == [(len(set(problems)),)]


def test_a_line_that_is_no_record_is_counted_and_passed_over(tmp_path: Path) -> None:
    study = paths(tmp_path)
    (study.journals / "a.jsonl").write_bytes(b'{"grades": 5}\nnot json\n' + encode({"grades": [grade("p")]}))
    report = load(study)
    assert (report.lines, report.malformed) == (1, 2)
    assert rows(study, "SELECT malformed_lines FROM journal_offsets") == [(2,)]


def test_many_journals_are_one_study(tmp_path: Path) -> None:
    study = paths(tmp_path)
    for name in "abc":
        (study.journals / f"{name}.jsonl").write_bytes(encode({"grades": [grade(name)]}))
    assert load(study).lines == 3


def test_the_last_state_of_a_thing_counts(tmp_path: Path) -> None:
    study = paths(tmp_path)
    (study.journals / "a.jsonl").write_bytes(encode(solution("p", None)) + encode(solution("p", "7")) + encode(solution("q", "1")))
    load(study)
    (study.journals / "b.jsonl").write_bytes(encode(solution("q", "2")))
    load(study)
    assert rows(study, "SELECT problem_id, answer FROM solutions ORDER BY 1") == [("p", "7"), ("q", "2")]
    assert rows(study, "SELECT problem_id, answer FROM candidates ORDER BY 1") == [("p", "7"), ("q", "2")]


def test_values_from_models_are_data(tmp_path: Path) -> None:
    study = paths(tmp_path)
    nasty = '\'); DROP TABLE grades; --\x00\ud800 \u2028 \n {"grades": []}'
    (study.journals / "a.jsonl").write_bytes(encode({"grades": [grade(nasty), {**grade("n"), "how": float("nan")}]}))
    load(study)
    stored = [row[0] for row in rows(study, "SELECT problem_id FROM grades ORDER BY length(problem_id) DESC")]
    assert stored == [nasty.replace("\ud800", "?"), "n"]


def test_a_reader_and_a_loader_take_turns(tmp_path: Path) -> None:
    study = paths(tmp_path)
    (study.journals / "a.jsonl").write_bytes(encode({"grades": [grade("p")]}))
    load(study)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import duckdb, sys; c = duckdb.connect({str(study.database)!r}, read_only=True); print('open', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"open\n"
    (study.journals / "a.jsonl").write_bytes(encode({"grades": [grade("p")]}) + encode({"grades": [grade("q")]}))
    with pytest.raises(DatabaseBusy, match=str(holder.pid)):
        load(study, wait_seconds=0.1)
    assert len(open_study(study.database).sql("SELECT * FROM grades")) == 1, "a study can be read meanwhile"
    told: list[str] = []
    waiting = threading.Thread(target=lambda: load(study, wait_seconds=30, on_wait=told.append))
    waiting.start()
    while not told and waiting.is_alive():
        time.sleep(0.01)
    holder.stdin.close()
    holder.wait()
    holder.stdout.close()
    waiting.join()
    assert str(holder.pid) in told[0]
    assert rows(study, "SELECT count(*) FROM grades") == [(2,)]


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    study = paths(tmp_path)
    (study.journals / "a.jsonl").write_bytes(encode({"grades": [grade("p")]}))
    load(study)
    with duckdb.connect(str(study.database)) as connection:
        connection.execute("INSERT INTO migrations VALUES ('far_future', 0)")
    (study.journals / "b.jsonl").write_bytes(encode({"grades": [grade("q")]}))
    with pytest.raises(UserError, match="newer version of ttc_eval"):
        load(study)


def test_a_file_that_is_no_study_is_one_clear_line(tmp_path: Path) -> None:
    stray = tmp_path / "x.duckdb"
    stray.write_text("hello" * 1000)
    with pytest.raises(UserError, match="cannot be read as a study"), reading(stray):
        pass
    with pytest.raises(UserError, match="there is no such study"):
        open_study(tmp_path / "none.duckdb")


def test_every_journal_line_is_strict_json() -> None:
    assert json.loads(encode({"calls": [{"latency_s": float("inf"), "answer_text": "\ud800"}]})) == {
        "calls": [{"latency_s": None, "answer_text": "?"}]
    }


def test_a_slow_query_draws_no_bar_into_what_is_printed(tmp_path: Path) -> None:
    paths = StudyPaths(tmp_path / "study.duckdb")
    load(paths)
    with reading(paths.database) as connection:
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)
