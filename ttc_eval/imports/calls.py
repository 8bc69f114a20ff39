"""Samples as rows of `calls`: what was drawn, and what scored it, at the addresses where a replay looks for them."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ttc_eval.asking import draw_request, score_request
from ttc_eval.errors import UserError
from ttc_eval.imports.opened import OpenFile, Placed, System
from ttc_eval.imports.samples import Sample
from ttc_eval.models.imported import ImportedModel
from ttc_eval.records import UNKNOWN_USAGE, CallStop, Problem, Request, Usage, digest
from ttc_eval.replay.shared_usage import SharedUsage
from ttc_eval.verifiers.imported import Imported

# The price version of a cost that the file states.
AS_LOGGED = "as logged"


def call_rows(file: OpenFile, system: System, problem: Problem, sample: Sample, sweep_id: str) -> Iterator[dict[str, Any]]:
    """The rows of a sample: the call that drew it, and those that scored it. Raises `UserError` for a draw that is there twice."""
    placed = system.placed.setdefault(problem.problem_id, {})
    draw = len(placed) if sample.draw is None else sample.draw
    if draw in placed:
        raise UserError(f"{sample.where}: draw {draw} of problem {sample.problem!r} is there twice ({system.name}, seed {system.seed})")
    address = [file.import_id, system.name, system.seed, problem.problem_id, draw]
    request = draw_request(system.draw, system.info, problem.messages, draw, system.draw.answer_tokens)
    stop, started = _stop(sample), sample.started_at or time.time()
    usd = None if sample.usd is None else float(sample.usd)
    common = {"pool": system.draw.pool, "sweep_id": sweep_id, "started_at": started}
    raw = sample.usage.raw if sample.shared is None else _named(sample.shared, file, problem, system).plain()
    call_id = digest(address)
    yield {
        **_call(call_id, request, system.info.name, replace(sample.usage, raw=raw), common),
        "max_output_tokens": file.contents.answer_tokens,
        "answer_text": sample.text,
        "thinking_text": sample.thinking,
        "stop_reason": stop.value,
        "stop_reason_raw": sample.stop,
        "complete": sample.complete,
        "cost_usd": usd,
        "price_version": None if usd is None else AS_LOGGED,
        "latency_s": sample.latency_s,
    }
    scores: dict[str, tuple[float, str]] = {}
    for name, value in sample.scores.items():
        judge = ImportedModel(file.contents.judges.get(name, name), file.import_id).info
        asked = score_request(Imported(name), judge, problem.question(), None, None, seed=system.seed, draw=draw)
        scores[name] = value, digest([*address, name])
        file.values.setdefault(name, array("d")).append(value)
        yield {
            **_call(scores[name][1], asked, judge.name, sample.score_usage.get(name, UNKNOWN_USAGE), common),
            "answer_text": f'{{"score": {value!r}}}',
            "stop_reason": CallStop.END.value,
            "complete": True,
            "latency_s": None,
        }
    shared = None if sample.shared is None else _named(sample.shared, file, problem, system)
    answer = file.classing.place(problem, sample, f"{file.import_id[:8]} {system.name} {system.seed} {draw}")
    usage = replace(sample.usage, raw=None)
    placed[draw] = Placed(call_id, request.key, draw, answer, stop, usage, shared, usd, sample.latency_s, started, scores)
    file.samples += 1


def _named(shared: SharedUsage, file: OpenFile, problem: Problem, system: System) -> SharedUsage:
    return replace(shared, group=f"{file.import_id} {system.name} {system.seed} {problem.problem_id} {shared.group}")


def _stop(sample: Sample) -> CallStop:
    if sample.complete:
        return CallStop.END
    return CallStop.REFUSAL if sample.stop == "content_filter" else CallStop.OTHER if sample.stop == "error" else CallStop.MAX_TOKENS


def _call(call_id: str, request: Request, model: str, usage: Usage, common: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **common,
        "call_id": call_id,
        "key": request.key,
        "model": model,
        "role": request.role.value,
        "draw": request.draw,
        "segment": request.segment,
        "attempt": 1,
        "status": "ok",
        "request": request.payload(),
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "usage_source": usage.source.value,
        "usage_raw": usage.raw,
        "simulated": False,
    }
