"""`ttc-eval verify`: stored traces are scored after the fact, each once, and objects made elsewhere are checked against what is stored."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.servers.ttc_v2 import Reply, serving
from ttc_eval import cli
from ttc_eval.protocol.verifier_score import parse
from ttc_eval.store.migrations import MIGRATIONS, first_schema, migrate
from ttc_eval.study import Study, open_study
from ttc_eval.sweep.app import main as sweep

THINKS = ("model=simulated", "thinking=budget", "thinking.budget=64", "strategy=self_consistency_4", "dataset.limit=5")
JUDGE = ("model=simulated", "verifier=trace")


@dataclass(frozen=True)
class Bench:
    """A study of a small sweep, and the commands on it."""

    path: Path
    capture: pytest.CaptureFixture[str]

    @property
    def study(self) -> Study:
        return open_study(self.path)

    def sweep(self, *arguments: str) -> int:
        code = sweep([f"results_dir={self.path.parent}", f"study={self.path.stem}", *arguments])
        self.capture.readouterr()
        return code

    def verify(self, *arguments: str) -> tuple[int, str]:
        code = cli.main(["verify", str(self.path), *arguments])
        captured = self.capture.readouterr()
        return code, captured.out + captured.err

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return list(self.study.sql(query).itertuples(index=False, name=None))

    def objects(self) -> list[dict[str, Any]]:
        """A valid verifier object for each trace, in the order of the calls."""
        return [
            {"trace_id": call_id, "candidate": text, "score": 0.25, "rationale": "ok"}
            for call_id, text in self.rows("SELECT call_id, thinking_text FROM calls WHERE thinking_text IS NOT NULL ORDER BY started_at")
        ]

    def take_in(self, *lines: dict[str, Any] | str, name: str = "outside") -> tuple[int, str]:
        file = self.path.parent / "objects.jsonl"
        file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
        return self.verify("--import", str(file), "--as", name)


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path / "s.duckdb", capsys)


@pytest.fixture
def stored(bench: Bench) -> Bench:
    assert bench.sweep(*THINKS) == 0
    return bench


def test_every_trace_is_scored_once(stored: Bench) -> None:
    code, said = stored.verify(*JUDGE)
    traces = stored.rows("SELECT call_id FROM calls WHERE role = 'generate' AND thinking_text IS NOT NULL")
    assert (code, len(traces) >= 15) == (0, True)
    assert f"{len(traces)} traces scored" in said
    scores = stored.study.sql("SELECT * FROM trace_scores")
    assert sorted(scores.call_id) == sorted(call_id for (call_id,) in traces)
    assert (scores.trace_id == scores.call_id).all(), "the simulated model gives no id of its own"
    assert set(zip(scores.verifier, scores.kind, scores.what, scores.source, scores.valid, strict=True)) == {
        ("trace:simulated", "process", "thinking", "asked", True)
    }
    assert scores.score.between(0, 1).all()
    # The judge's calls are paid for by a sweep of their own, and charged to no cell.
    assert stored.rows("SELECT status, overrides->>'$[0]' FROM sweeps ORDER BY started_at DESC LIMIT 1") == [("finished", "verify")]
    assert stored.rows("SELECT count(*), count(cell_id), sum(billed_calls) FROM call_costs WHERE role = 'verify'") == [
        (len(traces), 0, len(traces))
    ]
    again, said = stored.verify(*JUDGE)
    assert again == 0
    assert "Nothing to score" in said
    assert "this run: 0 calls" in said


def test_scores_are_seen_beside_the_candidates_they_are_about(stored: Bench) -> None:
    stored.verify(*JUDGE)
    stored.verify("model=simulated", "verifier=outcome", "what=answer")
    scores = stored.study.scores()
    assert {(row.verifier, row.what) for row in scores.itertuples()} == {("trace:simulated", "thinking"), ("outcome:simulated", "answer")}
    by_verifier = scores.groupby("verifier").size()
    assert (by_verifier == len(stored.study.candidates())).all()
    right = scores[scores.correct].groupby("verifier").score.mean()
    assert (right > scores[~scores.correct].groupby("verifier").score.mean()).all(), "the simulated judge tells right from wrong"


def test_a_limit_of_its_own_stops_it_and_a_higher_one_goes_on(stored: Bench) -> None:
    code, said = stored.verify(*JUDGE, "limits.sweep.calls=4")
    assert code == 1
    assert "limits.sweep.calls is used up" in said
    assert stored.rows("SELECT count(*) FROM trace_scores") == [(4,)]
    assert stored.verify(*JUDGE, "limits.sweep.calls=4")[0] == 1
    assert stored.rows("SELECT count(*) FROM trace_scores") == [(4,)], "what was spent stays spent"
    assert stored.verify(*JUDGE, "limits.sweep.calls=100")[0] == 0
    assert stored.rows("SELECT count(*) = (SELECT count(*) FROM calls WHERE role = 'verify') FROM trace_scores") == [(True,)]


def test_a_reply_that_is_no_score_is_stored_as_such_and_not_asked_for_again(stored: Bench) -> None:
    code, said = stored.verify(*JUDGE, "model.verifier_invalid=1")
    assert code == 0
    assert "invalid replies (unparsed" in said
    assert stored.rows("SELECT DISTINCT valid, score IS NULL, reason FROM trace_scores") == [(False, True, "unparsed")]
    assert "Nothing to score" in stored.verify(*JUDGE)[1]


def test_a_judge_that_states_another_candidate_has_scored_something_else(stored: Bench) -> None:
    reply = json.dumps({"candidate": "another text", "score": 1, "rationale": "!"}).replace('"', '\\"')
    stored.verify("model=scripted", f'model.replies=["{reply}"]')
    assert set(stored.rows("SELECT valid, reason FROM trace_scores")) == {(False, "candidate is not the stored text")}


def test_calls_that_come_to_nothing_are_tried_again_by_the_next_run(stored: Bench) -> None:
    code, said = stored.verify(*JUDGE, "model.faults.server_error=1", "retry.max_attempts=2", "retry.first_wait_s=0")
    assert code == 1
    assert "traces without a score, for example: overloaded: simulated 503" in said
    assert stored.rows("SELECT count(*) FROM trace_scores") == [(0,)]
    assert stored.verify(*JUDGE)[0] == 0
    assert stored.rows("SELECT count(*) > 0 FROM trace_scores") == [(True,)]


def test_what_every_call_would_meet_ends_the_run(stored: Bench) -> None:
    with serving(lambda body, n: Reply(status=401, body=b'{"error":{"message":"who are you?"}}')) as server:
        options = ("model=ttc_v2", f"model.base_url={server.url}", "model.model=m", "model.max_concurrency=1")
        code, said = stored.verify(*options)
        assert (code, server.count) == (1, 1)
        assert "authentication" in said
        stored.verify(*options)
        assert server.count == 2, "the key may have been mended meanwhile"


def test_an_interrupted_run_keeps_what_it_has(stored: Bench) -> None:
    command = [sys.executable, "-m", "ttc_eval.cli", "verify", str(stored.path), *JUDGE, "model.max_concurrency=1", "model.time_scale=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        journals = stored.path.with_suffix(".journal")
        deadline = time.monotonic() + 60
        while b'"trace_scores"' not in b"".join(file.read_bytes() for file in journals.glob("*.jsonl")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "The same command goes on from here." in said
    kept = stored.rows("SELECT call_id, score FROM trace_scores")
    assert kept
    assert stored.verify(*JUDGE)[0] == 0
    assert set(kept) < set(stored.rows("SELECT call_id, score FROM trace_scores"))
    assert stored.rows("SELECT count(*) FROM trace_scores") == stored.rows("SELECT count(*) FROM calls WHERE thinking_text IS NOT NULL")


def test_it_scores_beside_a_running_sweep(bench: Bench) -> None:
    slow = ("model.time_scale=0.5", "model.max_concurrency=2", f"results_dir={bench.path.parent}", f"study={bench.path.stem}")
    with subprocess.Popen(
        [sys.executable, "-m", "ttc_eval.sweep", *THINKS, *slow], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        deadline = time.monotonic() + 60
        while not bench.path.exists() or not bench.rows("SELECT 1 FROM sweeps WHERE status = 'running'"):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        code, said = bench.verify(*JUDGE, "--follow")
        process.communicate(timeout=60)
    assert (code, process.returncode) == (0, 0), said
    assert bench.rows("SELECT count(*) FROM trace_scores") == bench.rows("SELECT count(*) FROM calls WHERE thinking_text IS NOT NULL")


# Verifier objects, in and out.


def test_objects_made_elsewhere_are_taken_in_and_come_out_again(stored: Bench) -> None:
    objects = stored.objects()
    code, said = stored.take_in(*objects, "")
    assert code == 0
    assert f"{len(objects)} scores of outside taken in, 0 refused" in said
    assert stored.rows("SELECT DISTINCT verifier, source, score, valid FROM trace_scores") == [("outside", "imported", 0.25, True)]
    out = stored.path.parent / "out.jsonl"
    stored.verify("--import", str(stored.path.parent / "objects.jsonl"), "--as", "outside", "--export", str(out))
    assert [json.loads(line) for line in out.read_bytes().splitlines()] == objects
    assert stored.rows("SELECT count(*) FROM trace_scores") == [(len(objects),)], "taken in once, however often it is read"


def test_what_is_exported_are_valid_objects_about_the_stored_text(stored: Bench) -> None:
    out = stored.path.parent / "out.jsonl"
    assert stored.verify(*JUDGE, "--export", str(out))[0] == 0
    texts = dict(stored.rows("SELECT call_id, thinking_text FROM calls WHERE thinking_text IS NOT NULL"))
    given = [parse(line) for line in out.read_bytes().splitlines()]
    assert {one.trace_id: one.candidate for one in given} == texts


@pytest.mark.parametrize(
    ("changes", "reason", "kept"),
    [
        ({"candidate": "an edited text"}, "candidate is not the stored text", True),
        ({"score": "0.9"}, "score must be number", True),
        ({"score": 1.5}, "score must be smaller than or equal to 1.0", True),
        ({"rationale": None}, "rationale must be string", True),
        ({"trace_id": "nobody"}, "trace_id names no stored response", True),
        ({"trace_id": 5}, "trace_id must be string", False),
        ("no json", "the object is not JSON", False),
    ],
)
def test_what_does_not_fit_is_refused_and_stored_as_invalid(stored: Bench, changes: dict[str, Any] | str, reason: str, kept: bool) -> None:
    whole, *_ = stored.objects()
    code, said = stored.take_in("", changes if isinstance(changes, str) else whole | changes)
    assert code == 1
    assert "0 scores of outside taken in, 1 refused" in said
    assert f"line 2: {reason}" in said
    found = stored.rows("SELECT valid, score IS NULL, reason FROM trace_scores")
    assert len(found) == kept
    assert all((valid, empty, said.startswith(reason)) == (False, True, True) for valid, empty, said in found)


def test_a_refused_object_never_replaces_a_valid_one_and_a_valid_one_does(stored: Bench) -> None:
    whole, *_ = stored.objects()
    edited = whole | {"candidate": "edited"}
    stored.take_in(edited)
    assert stored.rows("SELECT valid FROM trace_scores") == [(False,)]
    stored.take_in(edited, whole, edited)
    assert stored.rows("SELECT valid, score FROM trace_scores") == [(True, 0.25)]
    stored.take_in(edited)
    assert stored.rows("SELECT valid, score FROM trace_scores") == [(True, 0.25)]


def test_a_response_is_named_by_the_id_that_its_server_gave(bench: Bench) -> None:
    options = ("thinking=budget", "thinking.budget=16", "strategy=single", "dataset.limit=2", "model=ttc_v2", "model.model=m")
    with serving(lambda body, n: Reply((f"thought {n}",), "Answer: 1")) as server:
        bench.sweep(*options, f"model.base_url={server.url}")
    assert (
        bench.take_in(*({"trace_id": f"resp-{n + 1}", "candidate": f"thought {n}", "score": 1, "rationale": ""} for n in range(2)))[0] == 0
    )
    assert bench.rows("SELECT count(*) FROM trace_scores JOIN calls USING (call_id) WHERE trace_id = response_id AND valid") == [(2,)]


def test_an_id_that_several_responses_share_is_told_apart_by_the_text(bench: Bench) -> None:
    options = ("thinking=budget", "thinking.budget=16", "strategy=single", "dataset.limit=3", "model=ttc_v2", "model.model=m")
    with serving(lambda body, n: Reply((f"thought {min(n, 1)}",), "Answer: 1", final={"id": "same"})) as server:
        bench.sweep(*options, f"model.base_url={server.url}")
    named = {"trace_id": "same", "score": 1, "rationale": ""}
    assert bench.take_in(named | {"candidate": "thought 0"})[0] == 0
    assert "several of them have this text" in bench.take_in(named | {"candidate": "thought 1"}, name="b")[1]
    assert "none of them has this text" in bench.take_in(named | {"candidate": "thought 2"}, name="c")[1]
    bench.verify("model=scripted", "model.replies=['{\"score\": 0.5}']")
    assert bench.rows("SELECT count(*) FROM trace_scores WHERE trace_id = call_id AND valid") == [(3,)]


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("~verifier",), "verifier: it is missing from the config"),
        (("what=thoughts",), "what=thoughts: give one of: thinking, answer"),
        (("limits.cell.calls=1",), "limits.cell and limits.problem: verify has neither cells nor problems"),
        (("limits.sweep.usd=1",), "limits.sweep.usd: model 'simulated' has no price"),
        (("model=nobody",), "model=nobody: there is no such model"),
        (("seed=-1",), "seed=-1: give a whole number"),
        (("+strategy=single",), "strategy: verify has no such key"),
        (("--import", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("--import", "nowhere.jsonl", "seed=1"), "seed=1: --import asks no model"),
    ],
)
def test_a_mistake_is_told_before_anything_is_sent(stored: Bench, arguments: tuple[str, ...], said: str) -> None:
    given = arguments if "--import" in arguments else ("model=simulated", *arguments)
    code, told = stored.verify(*given)
    assert (code, told.count("\n") <= 2) == (2, True)
    assert said in told
    assert stored.rows("SELECT count(*) FROM calls WHERE role = 'verify'") == [(0,)]


def test_a_study_that_is_not_there_is_one_line(bench: Bench) -> None:
    code, said = bench.verify(*JUDGE)
    assert code == 2
    assert "there is no such study" in said


def test_a_study_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE migrations (name VARCHAR NOT NULL, applied_at DOUBLE NOT NULL)")
        first_schema(connection)
        connection.execute("INSERT INTO migrations VALUES ('first_schema', 0)")
        migrate(connection, str(path))
        names = {row[0] for row in connection.execute("SELECT name FROM migrations").fetchall()}
        assert {step.__name__ for step in MIGRATIONS} < names
        assert connection.execute("SELECT * FROM verifier_scores").fetchall() == []
