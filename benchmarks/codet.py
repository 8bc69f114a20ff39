"""CodeT's samples (arXiv 2207.10397), run again in the sandbox: pass@k of 164 × 100 programs, and the agreement of programs and tests.

    python benchmarks/codet.py labels FOLDER --out results/codet          # FOLDER holds CodeT's three files
    python benchmarks/codet.py agreement FOLDER --out results/codet --problems 40

`labels` grades every distinct program by the hidden tests. `agreement` runs strategy `code_agreement` over the stored samples, in a whole
sweep with a model that serves them, beside a random pick, the plurality and what could be selected. Both go on where they were stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttc_eval.answers.programs import assembled, hidden_test, written_tests
from ttc_eval.errors import CallFailed
from ttc_eval.metrics import pass_at_k
from ttc_eval.models.base import Connection, ModelInfo
from ttc_eval.records import CallStop, Request, Response, Timings, Usage, UsageSource
from ttc_eval.sandbox import Checker, Job, Limits, require
from ttc_eval.study import open_study
from ttc_eval.sweep.app import compose, plain, run_all
from ttc_eval.thinking import ThinkingMode, ThinkingSupport

SAMPLES = "HumanEval_codegen16B_temp0.8_topp0.95_num100_max300_code_solution.jsonl"
TESTS = "HumanEval_codegen16B_temp0.8_topp0.95_num100_max300_test_case.jsonl"
PROBLEMS = "HumanEval_for_code_generation.jsonl"
STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
PUBLISHED = {1: 0.2212, 2: 0.3080, 5: 0.4203, 10: 0.5038, 100: 0.7378}
# Four seconds of CPU, as the labels were made with; the clock on the wall has room for a busy machine.
LIMITS = Limits(cpu_seconds=4, test_seconds=4, wall_seconds=12)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class Task:
    """One problem of HumanEval with CodeT's samples: completions, each cut where CodeT cuts it, and generated tests."""

    name: str
    prompt: str
    entry_point: str
    test: str
    completions: tuple[str, ...]
    tests: tuple[str, ...]

    def job(self, completion: str) -> Job:
        """The program that continues the prompt by `completion`, against the hidden tests."""
        program = assembled(completion, self.prompt, self.entry_point)
        return Job(program, self.entry_point, (hidden_test(self.test),), self.prompt)


def codet_tasks(folder: Path, tests_per_sample: int = 5) -> list[Task]:
    """The 164 problems, in order. As in CodeT's own run, the first five assertions of each of the 100 test samples are taken."""
    samples = {row["prompt"]: row["samples"] for row in read(folder / SAMPLES)}
    generated = {row["prompt"].partition("    pass\n")[0]: row["samples"] for row in read(folder / TESTS)}
    tasks = []
    for row in read(folder / PROBLEMS):
        prompt, name = row["prompt"], row["entry_point"]
        tests = [test for text in generated[prompt] for test in written_tests(f"assert {text}", name, tests_per_sample)]
        tasks.append(Task(row["task_id"], prompt, name, row["test"], tuple(map(cut, samples[prompt])), tuple(tests)))
    return tasks


def cut(completion: str) -> str:
    """A completion up to where its function ends."""
    for stop in STOPS:
        completion = completion.partition(stop)[0]
    return completion


def label(tasks: Sequence[Task], out: Path, workers: int) -> dict[tuple[str, str], bool]:
    """Whether each distinct completion passes the hidden tests, `workers` at a time; `out` keeps what is known and is added to."""
    known = {(row["task"], row["completion"]): row["passed"] for row in read(out)} if out.exists() else {}
    left = [(task, one) for task in tasks for one in dict.fromkeys(task.completions) if (task.name, one) not in known]
    print(f"{len(known)} known, {len(left)} to run", flush=True)
    checker = Checker(require())
    started = time.monotonic()
    with out.open("a", encoding="utf-8") as file, ThreadPoolExecutor(workers) as pool:
        jobs = {pool.submit(checker.check_now, task.job(one), LIMITS): (task, one) for task, one in left}
        for done, future in enumerate(as_completed(jobs), 1):
            task, one = jobs[future]
            verdict = future.result()
            known[task.name, one] = verdict.passed
            file.write(json.dumps({"task": task.name, "completion": one, "passed": verdict.passed, "why": verdict.why}) + "\n")
            if done % 500 == 0:
                file.flush()
                print(f"{done} of {len(left)}, {1000 * (time.monotonic() - started) / done:.0f} ms each", flush=True)
    return known


def report(tasks: Sequence[Task], known: dict[tuple[str, str], bool]) -> None:
    """pass@k beside the published figures."""
    correct = np.array([sum(known[task.name, one] for one in task.completions) for task in tasks])
    total = np.array([len(task.completions) for task in tasks])
    for k, published in PUBLISHED.items():
        print(f"pass@{k:<3} {float(np.mean(pass_at_k(total, correct, k))):.4f}   published {published:.4f}")
    print(f"solved  {int((correct > 0).sum())} of {len(tasks)}; {int(correct.sum())} programs of {int(total.sum())} pass")


# The agreement of programs and tests, by a sweep.


@dataclass(frozen=True, slots=True)
class Stored:
    """A model that serves stored samples: draw *i* about a prompt is its sample *i*. `path` is a JSONL file of prompts and samples."""

    path: str
    name: str = "codegen-16b"

    @property
    def info(self) -> ModelInfo:
        """It thinks not, and its answers were really drawn, though not now."""
        return ModelInfo(self.name, f"stored:{self.path}", ThinkingSupport(accepts=(ThinkingMode.OFF,)), max_concurrency=16)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Nothing to open."""
        yield _Samples({row["prompt"]: row["samples"] for row in read(Path(self.path))})


@dataclass(frozen=True, slots=True)
class _Samples:
    samples: dict[str, list[str]]

    async def respond(self, request: Request, **_: Any) -> Response:
        found = self.samples[request.messages[-1].content]
        if request.draw >= len(found):
            raise CallFailed("no_reply", f"draw {request.draw}: {len(found)} samples are stored", retryable=False)
        usage = Usage(0, 0, reasoning_tokens=0, source=UsageSource.COUNTED)
        return Response(found[request.draw], CallStop.END, usage, Timings(time.time(), 0.0, 0.0))


def codet_problems(tasks: Sequence[Task], folder: Path) -> tuple[Path, Path]:
    """Writes the problems as a data set whose tests are given, and the samples for `Stored`; returns both paths."""
    problems, samples = folder / "problems.jsonl", folder / "samples.jsonl"
    with problems.open("w", encoding="utf-8") as file:
        for task in tasks:
            row = {"id": task.name, "prompt": task.prompt, "entry_point": task.entry_point, "test": task.test, "tests": task.tests}
            file.write(json.dumps(row) + "\n")
    with samples.open("w", encoding="utf-8") as file:
        for task in tasks:
            file.write(json.dumps({"prompt": task.prompt, "samples": task.completions}) + "\n")
    return problems, samples


def cells(tasks: Sequence[Task], folder: Path, draws: int = 100, study: str = "codet") -> list[dict[str, Any]]:
    """The configs of a sweep over stored samples: one draw, plurality, agreement as in the paper and as in its published code."""
    problems, samples = codet_problems(tasks, folder)
    agreement = {"_target_": "ttc_eval.strategies.code_agreement.CodeAgreement", "n": draws, "test_replies": 0}
    voting = {"_target_": "ttc_eval.strategies.self_consistency.SelfConsistency", "max_attempts": draws, "early_stop": False}
    code = {"_target_": "ttc_eval.verifiers.code.Code", "limits": {"test_seconds": 0.5}}
    base = plain(
        compose(["model=scripted", "model.replies=[x]", f"study={study}", f"results_dir={folder}", "allow_code_execution=true"])[0]
    )
    base["model"] = {"_target_": "codet.Stored", "path": str(samples)}
    base["dataset"] = {
        "name": "codet", "path": str(problems), "split": "test", "id_column": "id", "prompt": "{prompt}", "reference": "test",
        "given": ["prompt", "entry_point", "tests"], "answer": {"kind": "code", "extraction": "whole"},
    }  # fmt: skip
    strategies = [{"_target_": "ttc_eval.strategies.single.Single"}, voting, agreement, {**agreement, "weight": "sqrt"}]
    return [
        {**base, "strategy": strategy, "verifier": code if "weight" in strategy or "n" in strategy else None} for strategy in strategies
    ]


def agreement(tasks: Sequence[Task], folder: Path) -> None:
    """Success of each strategy over the stored samples, beside a random pick of them."""
    run_all(cells(tasks, folder), [])
    study = open_study(folder / "codet.duckdb")
    found = study.sql(
        "SELECT strategy_label, n_problems, success, success_low, success_high, candidate_success FROM cell_metrics ORDER BY 3"
    )
    print(found.to_string(index=False))
    picked = study.sql("""
        SELECT avg(share) AS random_pick FROM (
            SELECT c.problem_id, avg(coalesce(g.correct, false)::INT) AS share FROM candidates c JOIN cells USING (cell_id)
            LEFT JOIN grades g ON g.problem_id = c.problem_id AND g.answer_class = c.answer_class
            WHERE strategy = 'self_consistency' GROUP BY c.problem_id)""")
    print(picked.to_string(index=False))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("labels", "agreement"))
    parser.add_argument("folder", type=Path, help="holds the three files of CodeT")
    parser.add_argument(
        "--out", type=Path, default=Path("codet"), help="folder for what is found; a run that was stopped goes on from there"
    )
    parser.add_argument("--problems", type=int, default=164, help="the first so many")
    parser.add_argument("--workers", type=int, default=2, help="programs that `labels` runs side by side")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = codet_tasks(options.folder)[: options.problems]
    if options.what == "labels":
        report(tasks, label(tasks, options.out / "labels.jsonl", options.workers))
    else:
        agreement(tasks, options.out)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
