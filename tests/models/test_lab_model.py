"""The lab model with its shipped weights, through the seam that every model answers behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ttc_eval.errors import CallFailed
from ttc_eval.lab import task
from ttc_eval.lab.network import next_logits
from ttc_eval.lab.sampling import log_softmax
from ttc_eval.lab.tokens import decode, encode
from ttc_eval.lab.weights import load_weights, weights_identity
from ttc_eval.models.lab import LabModel, job_of
from ttc_eval.records import NOTHING_USED, CallStop, Message, Request, Response, Sampling, UsageSource
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

CHAIN = "37+8-5*3"
OFF, ADAPTIVE = Thinking(), Thinking(ThinkingMode.ADAPTIVE)
GREEDY = Sampling(temperature=0.0, logprobs=0)


def budget(tokens: int, at_limit: AtLimit = AtLimit.ANSWER, extensions: int = 1) -> Thinking:
    return Thinking(ThinkingMode.BUDGET, tokens, at_limit=at_limit, max_extensions=extensions)


def request(
    thinking: Thinking = ADAPTIVE, text: str = CHAIN, cap: int = 300, sampling: Sampling = GREEDY, prefix: str = "", draw: int = 0
) -> Request:
    return Request("lab", "e", (Message("user", text),), thinking, sampling, 8, cap, prefix=prefix, draw=draw)


def ask(requests: Sequence[Request], max_concurrency: int = 128) -> list[Response]:
    async def scenario() -> list[Response]:
        async with LabModel(max_concurrency=max_concurrency).connect() as connection:
            return list(await asyncio.gather(*(connection.respond(one) for one in requests)))

    return asyncio.run(scenario())


def chains(count: int, steps: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    operators = task.OPERATORS
    return [
        str(task.Chain(int(rng.integers(100)), tuple((operators[rng.integers(3)], int(rng.integers(2, 10))) for _ in range(steps))))
        for _ in range(count)
    ]


def test_it_thinks_answers_and_counts() -> None:
    (found,) = ask([request()])
    assert found.thinking is not None
    assert (found.thinking.count(";"), len(found.thinking)) == (3, 24)
    assert len(found.text) == 2
    assert (found.stop, found.complete) == (CallStop.END, True)
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.reasoning_tokens) == (9, 1 + 24 + 1 + 2 + 1, 24)
    assert found.usage.source is UsageSource.COUNTED
    assert found.token_logprobs is not None
    assert len(found.token_logprobs) == 29
    assert found.timings.first_token_s is not None
    assert 0 < found.timings.first_token_s <= found.timings.latency_s


def test_most_short_chains_come_out_right_with_thinking_and_fewer_without() -> None:
    asked = chains(60, 3)
    thought = ask([request(text=chain) for chain in asked])
    blurted = ask([request(OFF, text=chain) for chain in asked])
    answers = [f"{task.parse(chain).answer:02d}" for chain in asked]
    right = sum(one.text == answer for one, answer in zip(thought, answers, strict=True))
    assert right > 40
    assert right > sum(one.text == answer for one, answer in zip(blurted, answers, strict=True)) + 10


def test_thinking_that_is_off_is_given_as_input() -> None:
    (found,) = ask([request(OFF)])
    assert (found.thinking, found.stop) == (None, CallStop.END)
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.reasoning_tokens) == (11, 3, 0)


@pytest.mark.parametrize("tokens", [0, 1, 8, 20, 23])
def test_a_budget_closes_the_thinking(tokens: int) -> None:
    cut, failed = ask([request(budget(tokens)), request(budget(tokens, AtLimit.FAIL))])
    (whole,) = ask([request()])
    assert whole.thinking is not None
    assert (cut.thinking or "") == whole.thinking[:tokens]
    assert (cut.stop, len(cut.text), cut.usage.reasoning_tokens) == (CallStop.END, 2, tokens)
    if tokens:
        assert (failed.stop, failed.text, failed.complete) == (CallStop.BUDGET_EXCEEDED, "", False)
        assert (failed.thinking, failed.usage.output_tokens) == (whole.thinking[:tokens], tokens + 1)


def test_it_looks_again_when_it_is_told_to_wait() -> None:
    found = ask([request(budget(200, AtLimit.EXTEND), text=chain, sampling=Sampling()) for chain in chains(30, 4)])
    again = [one.thinking.partition("Wait")[2] for one in found if one.thinking]
    assert sum(text.count(";") >= 4 for text in again) > 24, "a second attempt is as long as the first"
    assert all(one.usage.reasoning_tokens == len(encode(one.thinking or "")) <= 200 for one in found)


@pytest.mark.parametrize("place", range(1, 28, 3))
def test_a_prefix_of_a_greedy_draw_is_continued_with_the_rest_of_it(place: int) -> None:
    (whole,) = ask([request()])
    text = f"<think>{whole.thinking}</think>{whole.text}<end>"
    tokens = encode(text)
    (rest,) = ask([request(prefix=decode(tokens[:place]))])
    assert (rest.thinking or "") + rest.text == decode(tokens[place:]).replace("</think>", "").replace("<end>", "").replace("<think>", "")
    assert rest.usage.input_tokens == 9 + place
    assert rest.usage.output_tokens == len(tokens) - place


def test_thinking_goes_on_step_by_step() -> None:
    (whole,) = ask([request()])
    assert whole.thinking is not None
    stepwise = replace(GREEDY, stop=(";",))
    prefix, steps = "<think>", []
    for _ in range(3):
        (step,) = ask([request(prefix=prefix, sampling=stepwise)])
        assert (step.stop, step.text) == (CallStop.STOP_SEQUENCE, "")
        steps.append(f"{step.thinking};")
        prefix += steps[-1]
    assert "".join(steps) == whole.thinking


def test_a_cap_cuts_and_what_is_cut_is_not_complete() -> None:
    found = ask([request(cap=cap) for cap in range(1, 30)])
    for cap, one in enumerate(found, 1):
        assert one.usage.output_tokens == cap
        assert one.complete == (cap == 29)
        assert one.stop is (CallStop.END if cap == 29 else CallStop.MAX_TOKENS)


def test_draws_differ_and_each_is_the_same_whatever_it_runs_beside() -> None:
    wanted = [request(text=chain, sampling=Sampling(logprobs=1), draw=draw) for chain in chains(6, 8) for draw in range(8)]
    wanted += [request(text=chain, sampling=Sampling(temperature=1.3, top_p=0.9, logprobs=1)) for chain in chains(12, 5, seed=1)]
    together, few = ask(wanted), ask(wanted[::-1], max_concurrency=3)[::-1]
    shown = [[(one.text, one.thinking, one.stop, one.token_logprobs) for one in found] for found in (together, few)]
    assert shown[0] == shown[1]
    assert len({one.thinking for one in together[:48]}) > 12


def test_logprobs_are_those_of_scoring_the_whole_text() -> None:
    (found,) = ask([request(sampling=Sampling(temperature=1.5, top_p=0.95, logprobs=0))])
    before = job_of(request()).before
    tokens = encode(f"<think>{found.thinking}</think>{found.text}<end>")
    logs = log_softmax(next_logits(load_weights(), [*before, *tokens]))[len(before) - 1 : -1]
    assert found.token_logprobs is not None
    assert sum(found.token_logprobs) == pytest.approx(logs[range(len(tokens)), tokens].sum(), abs=1e-4)
    assert found.token_logprobs == pytest.approx(logs[range(len(tokens)), tokens].tolist(), abs=1e-4)


def test_the_last_chain_of_the_last_question_is_read() -> None:
    turns = (Message("system", "12+3"), Message("user", "45+6"), Message("assistant", "51"), Message("user", f"Compute {CHAIN} mod 100."))
    found, plain = ask([replace(request(), messages=turns), request()])
    assert (found.text, found.thinking) == (plain.text, plain.thinking)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        pytest.param(request(text="what is life?"), "no chain", id="no chain"),
        pytest.param(replace(request(), messages=(Message("system", CHAIN),)), "needs a user message", id="no question"),
        pytest.param(request(prefix="Let me think"), "no token for", id="a prefix that it cannot read"),
        pytest.param(request(prefix="<think>" + "1" * 400), "context is full", id="a prefix that fills the context"),
    ],
)
def test_what_it_cannot_read_is_refused_and_costs_nothing(broken: Request, complaint: str) -> None:
    with pytest.raises(CallFailed, match=complaint) as raised:
        ask([broken])
    assert (raised.value.kind, raised.value.retryable, raised.value.usage) == ("invalid_request", False, NOTHING_USED)


def test_a_timeout_is_a_failure_that_may_be_tried_again() -> None:
    async def scenario() -> None:
        async with LabModel().connect() as connection:
            with pytest.raises(CallFailed) as raised:
                await connection.respond(request(cap=300), timeout=1e-6)
            assert (raised.value.kind, raised.value.retryable) == ("timeout", True)

    asyncio.run(scenario())


def test_its_endpoint_is_the_hash_of_its_weights() -> None:
    info = LabModel().info
    assert info.endpoint == f"lab:{weights_identity()[:16]}"
    assert not info.simulated
    assert info.forced is None
