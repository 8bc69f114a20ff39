"""A key, planted in the environment or in a file, reaches the server and nothing else: every byte that a sweep leaves is searched."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.servers.openai_chat import ChatServer, Reply
from tests.sweep.conftest import Sweep
from tests.sweep.test_providers import serving
from ttc_eval.cli import main
from ttc_eval.sweep.app import compose, plain
from ttc_eval.sweep.prepare import prepare

KEY = "sk-planted-5uperS3cret-0123456789"
OTHER = "planted-header-value-9876543210"


def faults() -> list[Reply]:
    """Replies that try to get the key shown: errors, cut streams and texts that quote it."""
    quoted = f'{{"error":{{"message":"bad key {KEY}, header {OTHER}","type":"server_error","code":"{KEY}"}}}}'.encode()
    return [
        Reply(status=500, body=quoted),
        Reply(status=503, body=f"<html>Authorization: Bearer {KEY}</html>".encode()),
        Reply(status=429, body=quoted, headers={"retry-after-ms": "1", "x-echo": KEY}),
        Reply(body=quoted),
        Reply(fault="reset"),
        Reply(text="abcdef", chunks=6, fault="cut"),
        Reply(text="abcdef", chunks=6, fault="garbage"),
        Reply(text="abcdef", chunks=6, fault="error_event"),
        Reply(text="abcdef", chunks=6, fault="no_done"),
        Reply(status=302, headers={"location": f"http://127.0.0.1:1/?key={KEY}"}),
    ]


def arguments(server: ChatServer, source: str) -> list[str]:
    return [
        "model=openai_compatible",
        f"model.base_url={server.url}",
        "model.model=m",
        source,
        f"+model.headers={{x-secret: {OTHER}}}",
        "dataset=quickstart",
        "dataset.limit=12",
        "strategy=self_consistency_4",
        "retry.first_wait_s=0.001",
        "retry.longest_wait_s=0.01",
    ]


@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_planted_key_is_in_no_byte_that_a_sweep_leaves(
    where: str,
    sweep: Sweep,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    if where == "environment":
        monkeypatch.setenv("PLANTED_KEY", KEY)
        source = "model.api_key_env=PLANTED_KEY"
    else:
        file = tmp_path_factory.mktemp("keys") / "key.txt"
        file.write_text(f"{KEY}\n")
        source = f"model.api_key_file={file}"
    seen: list[str] = []
    with serving(answer=lambda *_: Reply(text="Answer: 42"), script=faults()) as server:
        given = arguments(server, source)
        assert main(["plan", f"results_dir={tmp_path}", "study=t", *given]) == 0
        outcome = sweep(*given)
        seen += [outcome.out, outcome.err]
        assert server.count >= 10
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
        assert {headers["x-secret"] for headers in server.headers} == {OTHER}
        plan = prepare([plain(config) for config in compose(given)], given, to_run=False)
        seen += [repr(plan), str(plan), repr(plan.cells[0].model.info), repr(plan.cells[0].config)]
    for table in ("calls", "cells", "sweeps", "solutions", "dispatches"):
        seen.append(outcome.study.sql(f"SELECT * FROM {table}").to_csv())
    call = outcome.study.sql("SELECT call_id FROM calls WHERE status = 'error' LIMIT 1")["call_id"][0]
    for command in (["show", str(outcome.path), call], ["cells", str(outcome.path)], ["replay", str(outcome.path)], ["doctor"]):
        main(command)
    monkeypatch.setenv("PLANTED_HEADER", OTHER)
    assert main(["sweep", *given[:4], "+model.headers={x-secret: '${oc.env:PLANTED_HEADER}'}", "--cfg", "job"]) == 0
    captured = capsys.readouterr()
    seen += [captured.out, captured.err, caplog.text]
    assert outcome.study.sql("SELECT count(*) AS n FROM calls WHERE status = 'error'")["n"][0] >= 8
    for text in seen:
        assert not any(part in text for part in (KEY, OTHER, "5uperS3cret", "9876543210"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        data = path.read_bytes()
        assert KEY.encode() not in data, path
        assert OTHER.encode() not in data, path


def test_an_error_inside_a_stream_makes_a_new_row_and_joins_no_texts(sweep: Sweep, cases_by_id: dict[str, dict]) -> None:
    case = cases_by_id["rate_limit-07"]
    with serving(answer=lambda *_: Reply(text="42"), script=[Reply(text="abcdef", chunks=6, fault="error_event")]) as server:
        base = ["model=openai_compatible", f"model.base_url={server.url}", "model.model=m", "dataset=one_question"]
        outcome = sweep(*base, "strategy=single", "retry.first_wait_s=0.001")
    rows = outcome.study.sql("SELECT attempt, status, error_kind, answer_text, output_tokens, usage_source FROM calls ORDER BY attempt")
    assert len(rows) == case["expected"]["attempt_rows"]
    assert rows["status"].tolist() == [case["expected"]["first_attempt_status"], "ok"]
    assert "abcdef".startswith(rows["answer_text"][0])
    assert rows["answer_text"][1] == "42"
    assert rows["usage_source"][0] == "unknown", "it was billed, and nobody knows how much"
    assert outcome.one("SELECT answer, charged_calls FROM solutions") == {"answer": "42", "charged_calls": 2}


@pytest.fixture
def cases_by_id(shared: Path) -> dict[str, dict]:
    import json

    with (shared / "cases" / "cases.jsonl").open(encoding="utf-8") as lines:
        return {case["id"]: case for case in map(json.loads, lines)}
