"""The engine is not the bottleneck: one-call problems against a local server, beside a bare HTTP loop in the same run.

    python benchmarks/throughput.py [--problems 2000] [--latency 0.05] [--connections 200] [--runs 5]

Both sides send the same requests to the same server over the same number of connections. The spine does what a sweep
does: ledger, journal on disk, loader into DuckDB, progress. Targets: at most 2.5 times the bare loop's wall time, and
under 1 ms of CPU a call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


@contextmanager
def server(latency: float) -> Iterator[str]:
    """The test server in a process of its own; gives its URL."""
    command = [sys.executable, "-m", "tests.servers.openai_chat", "--port", "0", "--latency", str(latency), "--text", "42"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


async def bare(url: str, problems: int, connections: int) -> None:
    """The least that a client can do: send, read the stream to its end, parse it."""
    import aiohttp
    import orjson

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:
        left = iter(range(problems))

        async def work() -> None:
            for number in left:
                turn = {"role": "user", "content": f"problem {number}"}
                body = {"model": "m", "messages": [turn], "stream": True, "stream_options": {"include_usage": True}}
                async with session.post(f"{url}/chat/completions", data=orjson.dumps(body)) as response:
                    for line in (await response.read()).split(b"\n"):
                        if line.startswith(b"data: {"):
                            orjson.loads(line[6:])

        await asyncio.gather(*(work() for _ in range(connections)))


def spine(url: str, problems: int, connections: int, folder: Path) -> tuple[float, float]:
    """The same calls through a whole sweep of one cell; returns its seconds of wall and CPU time."""
    from rich.console import Console

    from ttc_eval.sweep.app import compose, plain
    from ttc_eval.sweep.prepare import prepare
    from ttc_eval.sweep.progress import watching
    from ttc_eval.sweep.runner import run

    data = folder / "problems.jsonl"
    data.write_text(
        "".join(json.dumps({"id": n, "question": f"problem {n}", "answer": "42", "difficulty": "easy"}) + "\n" for n in range(problems))
    )
    overrides = [
        "model=openai_compatible",
        f"model.base_url={url}",
        "model.model=m",
        f"model.max_concurrency={connections}",
        "dataset=one_question",
        f"dataset.path={data}",
        f"results_dir={folder}",
        "study=bench",
    ]
    plan = prepare([plain(config) for config in compose(overrides)])
    with (folder / "progress.txt").open("w") as out:
        console = Console(file=out, force_terminal=True)
        started, cpu = time.perf_counter(), cpu_seconds()
        state = asyncio.run(run(plan, lambda state: watching(state, console)))
        spent = time.perf_counter() - started, cpu_seconds() - cpu
    assert state.status == "finished", state.status
    assert state.tally.calls == problems
    return spent


def cpu_seconds() -> float:
    """CPU time of this process so far, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    ratios, cpus = [], []
    with server(options.latency) as url:
        asyncio.run(bare(url, 200, options.connections))
        for _ in range(options.runs):
            started, cpu = time.perf_counter(), cpu_seconds()
            asyncio.run(bare(url, options.problems, options.connections))
            bare_wall, bare_cpu = time.perf_counter() - started, cpu_seconds() - cpu
            with tempfile.TemporaryDirectory() as folder:
                wall, cpu = spine(url, options.problems, options.connections, Path(folder))
            ratios.append(wall / bare_wall)
            cpus.append(1000 * cpu / options.problems)
            print(
                f"bare {bare_wall:.2f} s ({1000 * bare_cpu / options.problems:.2f} ms CPU a call)   "
                f"sweep {wall:.2f} s ({cpus[-1]:.2f} ms CPU a call)   ratio {ratios[-1]:.2f}"
            )
    print(f"median ratio {statistics.median(ratios):.2f} (target 2.5), median CPU a call {statistics.median(cpus):.2f} ms (target 1)")


if __name__ == "__main__":
    main()
