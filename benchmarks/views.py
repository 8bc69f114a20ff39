"""What a large study answers, how fast and in how much memory: every view over N draws, each in a process of its own.

    python benchmarks/views.py [--draws 200000] [--memory 1GB] [--threads 2] [--study FILE]

The study is written by SQL into the schema of the project's own migrations: three cells (`single`, a vote over 64 draws, best of 8 by a
verifier that is a call) over one pool of 64 draws a problem, with retries, cut and refused draws, overshoot, pruned candidates, unknown
usage and scores given afterwards. A view is asked for a checksum over all its rows and columns, which needs every value and holds none;
the line shows the seconds, the largest resident set of the process, what it spilled to disk, and the checksum. With `--study` the file is
kept, and used when it is there; `--draws 10_000_000` is the size that the limit is for: some minutes and 1.5 GB of disk, and more to spill.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb

from ttc_eval.store.migrations import migrate

PER_PROBLEM = 64
VERIFIED = 8

# Values are drawn by hashing the row's number, so that the same numbers of draws give the same study. $1: problems.
TABLES = {
    "sweeps": """
        INSERT INTO sweeps BY NAME SELECT 'sweep' AS sweep_id, 'views' AS study, 'finished' AS status, 0.0 AS started_at,
               '[]'::JSON AS overrides, '["one","vote","best"]'::JSON AS cell_ids""",
    "cells": """
        INSERT INTO cells BY NAME
        SELECT cell_id, 'sweep' AS sweep_id, ordinal, 'finished' AS status,
               '{"model":{"price":{"own":{"input":0.1,"output":0.4}}}}'::JSON AS config,
               'made' AS model, 'none' AS endpoint, true AS simulated, true AS priced, 'budget' AS thinking_mode, 64 AS thinking_budget,
               '64' AS thinking_label, strategy, strategy || suffix AS strategy_label, '{}'::JSON AS strategy_params,
               verifier, 'made' AS dataset, 'heldout' AS split, 0 AS seed, $1 AS n_planned
        FROM (VALUES ('one', 0, 'single', '', NULL), ('vote', 1, 'self_consistency', '_64', NULL), ('best', 2, 'best_of_n', '_8', 'judge'))
             AS c(cell_id, ordinal, strategy, suffix, verifier)""",
    "problems": """
        INSERT INTO problems BY NAME
        SELECT 'made/heldout/' || p AS problem_id, 'made' AS dataset, 'heldout' AS split,
               ['easy', 'middle', 'hard'][1 + p % 3] AS difficulty,
               'problem ' || p AS prompt, '[["user","problem"]]'::JSON AS messages, '0' AS reference, '{}'::JSON AS contract
        FROM range($1) t(p)""",
    # Draws 0 to 63; one in fifty was tried twice, the first time in vain. Then one judgement of each of the first eight.
    "calls": """
        INSERT INTO calls BY NAME
        WITH asked AS (
            SELECT p, d, 'generate' AS role, hash(p, d) AS h, a FROM range($1) t(p), range(64) u(d), range(1, 3) v(a)
            WHERE a = 1 OR hash(p, d, 'retry') % 50 = 0
            UNION ALL SELECT p, d, 'verify', hash(p, d, 'judge'), 1 FROM range($1) t(p), range(8) u(d)
        ), named AS (SELECT *, a = 1 AND role = 'generate' AND hash(p, d, 'retry') % 50 = 0 AS failed FROM asked)
        SELECT md5(concat_ws('/', role, p, d, a)) AS call_id, md5(concat_ws('/', role, p, d)) AS key, role || '-pool' AS pool,
               'sweep' AS sweep_id, 'made' AS model, role, d AS draw, 0 AS segment, a AS attempt,
               CASE WHEN failed THEN 'error' ELSE 'ok' END AS status,
               CASE WHEN failed THEN 'overloaded' END AS error_kind, CASE WHEN failed THEN true END AS retryable,
               '{"messages":[["user","problem ' || p || '"]],"draw":' || d || '}' AS request,
               CASE WHEN NOT failed THEN 'the answer is ' || h % 5 END AS answer_text,
               CASE WHEN NOT failed THEN 'think ' || h END AS thinking_text,
               CASE WHEN failed THEN NULL WHEN h % 40 = 1 THEN 'max_tokens' WHEN h % 200 = 2 THEN 'refusal'
                    ELSE 'end_turn' END AS stop_reason,
               NOT failed AND h % 40 <> 1 AND h % 200 <> 2 AS complete, 64 AS requested_budget, 128 AS max_output_tokens,
               CASE WHEN NOT failed AND h % 300 <> 3 THEN 100 + p % 50 END AS input_tokens,
               CASE WHEN NOT failed AND h % 300 <> 3 THEN 20 + h % 100 END AS output_tokens,
               CASE WHEN NOT failed AND h % 300 <> 3 THEN 10 + h % 10 END AS reasoning_tokens,
               CASE WHEN failed OR h % 300 = 3 THEN 'unknown' ELSE 'provider' END AS usage_source,
               200 AS reserved_input_tokens, 128 AS reserved_output_tokens, 0.001 AS reserved_usd,
               CASE WHEN NOT failed AND h % 300 <> 3 THEN 0.0001 + (h % 100) / 1e6 END AS cost_usd, 'own' AS price_version,
               p + d / 100 AS started_at, 0.5 + (h % 1000) / 1000 AS latency_s, true AS simulated
        FROM named""",
    # Every cell's draws with their failed attempts; the vote dispatched its last two beyond the stop.
    "uses": """
        INSERT INTO uses BY NAME
        WITH kept AS (
            SELECT call_id, role, draw, attempt, CAST(floor(started_at) AS BIGINT) AS p,
                   coalesce(input_tokens, reserved_input_tokens) AS spent_in, coalesce(output_tokens, reserved_output_tokens) AS spent_out,
                   coalesce(cost_usd, reserved_usd) AS usd FROM calls
        ), cells AS (FROM (VALUES ('one', 1, 0), ('vote', 64, 0), ('best', 8, 8)) AS c(cell_id, draws, judged))
        SELECT cell_id, 'made/heldout/' || p AS problem_id, call_id,
               3 * draw + attempt - 1 + CASE WHEN role = 'verify' THEN 200 ELSE 0 END AS position,
               draw >= 62 AS overshoot, CASE WHEN draw >= 62 THEN 0 ELSE 1 END AS charged_calls,
               CASE WHEN draw >= 62 THEN 0 ELSE spent_in END AS charged_input_tokens,
               CASE WHEN draw >= 62 THEN 0 ELSE spent_out END AS charged_output_tokens,
               CASE WHEN draw >= 62 THEN 0 ELSE usd END AS charged_usd
        FROM kept JOIN cells ON draw < CASE WHEN role = 'verify' THEN judged ELSE draws END""",
    "candidates": """
        INSERT INTO candidates BY NAME
        SELECT cell_id, problem_id, draw AS position, draw, 0 AS depth, k.h % 5 AS answer,
               CASE WHEN k.h % 25 <> 5 THEN 'n:' || k.h % 5 END AS answer_class, k.complete,
               CASE WHEN k.attempt = 2 THEN to_json([md5(concat_ws('/', 'generate', k.p, k.draw, 1)), u.call_id])
                    ELSE to_json([u.call_id]) END AS call_ids,
               cell_id = 'best' AND draw = 7 AND k.p % 3 = 0 AS pruned, k.stop_reason AS stop
        FROM uses u JOIN (SELECT *, CAST(floor(started_at) AS BIGINT) AS p, hash(p, draw) AS h FROM calls) k USING (call_id)
        WHERE k.role = 'generate' AND k.status = 'ok' AND NOT u.overshoot""",
    "grades": """
        INSERT INTO grades BY NAME
        SELECT 'made/heldout/' || p AS problem_id, 'n:' || c AS answer_class, c = p % 7 AS correct, 'integer' AS grader
        FROM range($1) t(p), range(5) u(c)""",
    "scores": """
        INSERT INTO scores BY NAME
        SELECT c.cell_id, c.problem_id, c.position, 'judge' AS verifier, 'outcome' AS kind,
               CASE WHEN k.h % 30 > 0 THEN (k.h % 1000) / 1000 END AS score, k.h % 30 > 0 AS valid, 'because' AS rationale, k.call_id
        FROM candidates c JOIN (
            SELECT call_id, draw, 'made/heldout/' || CAST(floor(started_at) AS BIGINT) AS problem_id, hash(call_id) AS h
            FROM calls WHERE role = 'verify'
        ) k ON k.problem_id = c.problem_id AND k.draw = c.position
        WHERE c.cell_id = 'best'""",
    # Given afterwards, to one draw in sixteen.
    "trace_scores": """
        INSERT INTO trace_scores BY NAME
        SELECT call_id AS trace_id, call_id, 'later' AS verifier, 'outcome' AS kind, 'answer' AS what, (hash(call_id) % 100) / 100 AS score,
               true AS valid, 'imported' AS source, 0.0 AS scored_at
        FROM calls WHERE role = 'generate' AND status = 'ok' AND draw % 16 = 0""",
    "solutions": """
        INSERT INTO solutions BY NAME
        WITH charged AS (
            SELECT cell_id, problem_id, sum(charged_calls) AS charged_calls, sum(charged_input_tokens) AS charged_input_tokens,
                   sum(charged_output_tokens) AS charged_output_tokens, sum(charged_usd) AS charged_usd, hash(cell_id, problem_id) AS h
            FROM uses GROUP BY ALL
        )
        SELECT cell_id, problem_id, h % 20 > 0 AS selected, CASE WHEN h % 20 > 0 THEN h % 5 END AS answer,
               CASE WHEN h % 20 > 0 THEN 'n:' || h % 5 END AS answer_class,
               CASE WHEN h % 500 = 20 THEN 'error' ELSE 'attempt_limit' END AS stop_reason,
               charged_calls AS attempts, charged_calls AS valid,
               charged_calls, CASE WHEN cell_id = 'best' THEN 8 ELSE 0 END AS charged_verifier_calls, charged_input_tokens,
               charged_output_tokens, charged_usd, 1 + (h % 1000) / 1000 AS latency_s, charged_calls * 1.0 AS work_s, 0.0 AS ended_at
        FROM charged""",
}

ALL_OF = "SELECT count(*) AS rows, bit_xor(hash(v)) AS checksum FROM {} v"
QUESTIONS = {
    "cell_metrics": """
        SELECT count(*), bit_xor(hash(cell_id, success, candidate_success, n_correct, billed_output_tokens, failed_calls))
        FROM cell_metrics""",
    "problem_outcomes": ALL_OF.format("problem_outcomes"),
    "call_costs": ALL_OF.format("call_costs"),
    "verifier_scores": ALL_OF.format("verifier_scores"),
    "stop_reasons": ALL_OF.format("stop_reasons"),
    "paid, and for what": """SELECT count(*), bit_xor(hash(v)) FROM (
        SELECT role, status, count(*) AS calls, sum(billed_output_tokens) AS tokens FROM call_costs GROUP BY ALL) v""",
    "one problem's outcomes": ALL_OF.format("(FROM problem_outcomes WHERE problem_id = 'made/heldout/7')"),
    "one problem's costs": ALL_OF.format("(FROM call_costs WHERE problem_id = 'made/heldout/7')"),
    "one cell's outcomes": ALL_OF.format("(FROM problem_outcomes WHERE cell_id = 'best')"),
}


def write_study(database: Path, draws: int, threads: int) -> None:
    """A study of about `draws` draws, 64 a problem. DuckDB makes the rows; none of them passes through Python."""
    problems = max(8, draws // PER_PROBLEM)
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            f"SET threads = {threads}; SET memory_limit = '4GB'; SET preserve_insertion_order = false; SET enable_progress_bar = false"
        )
        migrate(connection, str(database))
        for query in TABLES.values():
            connection.execute(query, [problems] if "$1" in query else [])


def asked(database: Path, question: str, memory: str, threads: int) -> Mapping[str, float | int | str]:
    """Seconds, largest resident bytes and spilled bytes of one question, asked in a process of its own."""
    with tempfile.TemporaryDirectory(dir=database.parent) as spill:
        command = [sys.executable, __file__, "--ask", question, "--study", str(database), "--memory", memory, "--threads", str(threads)]
        process = subprocess.Popen([*command, "--spill", spill], stdout=subprocess.PIPE, text=True)
        most = 0
        while process.poll() is None:
            most = max(most, _size(Path(spill)))
            time.sleep(0.05)
        assert process.stdout is not None
        said = process.stdout.read()
        process.stdout.close()
    found: dict[str, float | int | str] = json.loads(said) if process.returncode == 0 else {"error": f"exit code {process.returncode}"}
    return {**found, "spilled": most}


def _size(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # DuckDB gives a block back while it is counted
            continue
    return total


def ask(database: Path, question: str, memory: str, threads: int, spill: str) -> None:
    """Ask, in this process, and say what it took as one line of JSON."""
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.execute(
            f"SET memory_limit = '{memory}'; SET threads = {threads}; SET temp_directory = '{spill}'; SET enable_progress_bar = false"
        )
        started = time.perf_counter()
        try:
            rows, checksum = connection.execute(QUESTIONS[question]).fetchone() or (0, 0)
        except duckdb.Error as error:
            print(json.dumps({"error": str(error).splitlines()[0][:150]}))
            return
        seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "rows": rows, "checksum": f"{checksum or 0:016x}", "peak": _peak()}))


def _peak() -> int:
    """Largest resident set of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would begin with what the parent held when it started this process.
        return 1024 * int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--memory", default="1GB", help="DuckDB's memory limit while a view is asked")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--study", type=Path, default=None, help="keep the study in this file, and use it when it is there")
    parser.add_argument("--ask", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--spill", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        ask(options.study, options.ask, options.memory, options.threads, options.spill)
        return
    with tempfile.TemporaryDirectory() as folder:
        database = options.study or Path(folder) / "views.duckdb"
        if not database.exists():
            started = time.perf_counter()
            write_study(database, options.draws, options.threads)
            print(f"wrote {database.stat().st_size / 1e9:.2f} GB in {time.perf_counter() - started:.1f} s")
        with duckdb.connect(str(database), read_only=True) as connection:
            sizes = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}  # type: ignore[index]
        print(", ".join(f"{count:,} {name}" for name, count in sizes.items() if count > 3))
        print(f"memory limit {options.memory}, {options.threads} threads\n")
        for question in QUESTIONS:
            found = asked(database, question, options.memory, options.threads)
            if "error" in found:
                print(f"{question:24s} {found['error']}")
                continue
            print(
                f"{question:24s} {found['seconds']:8.2f} s  peak {float(found['peak']) / 1e9:5.2f} GB  "
                f"spilled {float(found['spilled']) / 1e9:5.2f} GB  {found['rows']:>12,} rows  {found['checksum']}"
            )


if __name__ == "__main__":
    main()
