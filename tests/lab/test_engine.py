from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.lab.networks import random_weights, sequences
from ttc_eval.lab.batch import Batch, Generated, Job
from ttc_eval.lab.engine import Engine
from ttc_eval.lab.network import next_logits
from ttc_eval.lab.sampling import log_softmax
from ttc_eval.lab.tokens import THINK_ID
from ttc_eval.lab.turn import Rules
from ttc_eval.thinking import AtLimit

WEIGHTS = random_weights(1)


def jobs(count: int, seed: int = 0) -> list[Job]:
    """Draws of many kinds; a few of them about the same question."""
    rng, questions = np.random.default_rng(seed), sequences(count // 3 + 1, seed, longest=90)
    limits = list(AtLimit)
    return [
        Job(
            before=(*questions[place % len(questions)], *([THINK_ID] if place % 2 else [])),
            rules=Rules(int(rng.integers(1, 120)), int(rng.integers(0, 90)) if place % 4 else None, limits[place % 3], 2),
            seed=int(rng.integers(2**31)),
            temperature=[1.0, 0.7, 0.0, 1.4][place % 4],
            top_p=[1.0, 0.9][place % 2],
            logprobs=True,
        )
        for place in range(count)
    ]


def alone(job: Job) -> Generated:
    batch = Batch(WEIGHTS, 1)
    batch.join(job)
    while True:
        ended = batch.step()
        if ended:
            return ended[0]


async def together(engine: Engine, wanted: Sequence[Job], seed: int) -> list[Generated]:
    """All of them through one engine, arriving at random moments."""
    rng = np.random.default_rng(seed)

    async def one(job: Job, wait: float) -> Generated:
        await asyncio.sleep(wait)
        return (await engine.generate(job)).generated

    return list(await asyncio.gather(*(one(job, float(rng.random()) * 0.3) for job in wanted)))


@pytest.mark.parametrize("max_batch", [3, 16, 64])
def test_a_draw_is_the_same_to_the_bit_whatever_runs_beside_it(max_batch: int) -> None:
    wanted = jobs(60, max_batch)
    with Engine(WEIGHTS, max_batch) as engine:
        found = asyncio.run(together(engine, wanted, max_batch))
    assert found == [alone(job) for job in wanted]
    assert len({one.stop for one in found}) > 2, "ends of several kinds were met"


def test_logprobs_are_the_models_own() -> None:
    for job in jobs(8, 5):
        found = alone(job)
        logs = log_softmax(next_logits(WEIGHTS, [*job.before, *found.tokens]))
        places = np.arange(len(job.before) - 1, len(job.before) - 1 + len(found.tokens))
        assert found.logprobs == pytest.approx(logs[places, list(found.tokens)].tolist(), abs=2e-4)
        assert alone(replace(job, logprobs=False)) == replace(found, logprobs=None)


def test_the_same_draw_with_a_larger_budget_begins_with_the_same_tokens() -> None:
    for seed in range(10):
        job = Job((1, 2, 10, 3, 14, THINK_ID), Rules(200, 10), seed)
        small, large = alone(job), alone(replace(job, rules=Rules(200, 60)))
        assert small.tokens[: small.thought_tokens] == large.tokens[: small.thought_tokens]


def test_cancelled_requests_free_their_rows() -> None:
    async def scenario(engine: Engine) -> None:
        many = [asyncio.create_task(engine.generate(Job((1, 2), Rules(10_000), at))) for at in range(2000)]
        await asyncio.sleep(0.05)
        for task in many:
            task.cancel()
        last = Job((1, 2), Rules(1), 1)
        # All the others would take seconds.
        assert (await asyncio.wait_for(engine.generate(last), 2)).generated == alone(last)
        ended = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(one, asyncio.CancelledError) for one in ended) > 1000

    with Engine(WEIGHTS, 2) as engine:
        asyncio.run(scenario(engine))


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(Job((1,) * 500, Rules(5), 0), ValueError, id="it does not fit into the context"),
        pytest.param(Job((99, 1), Rules(5), 0), IndexError, id="it cannot join"),
        pytest.param(Job((1, 99), Rules(5), 0), IndexError, id="it breaks a step"),
    ],
)
def test_a_failure_reaches_those_it_concerns_and_the_engine_goes_on(broken: Job, error: type[Exception]) -> None:
    async def scenario(engine: Engine) -> None:
        with pytest.raises(error):
            await engine.generate(broken)
        found = await asyncio.gather(*(engine.generate(job) for job in jobs(6)))
        assert [one.generated for one in found] == [alone(job) for job in jobs(6)]

    with Engine(WEIGHTS, 4) as engine:
        asyncio.run(scenario(engine))


def test_closing_fails_what_is_unfinished_and_ends_the_thread() -> None:
    async def scenario() -> None:
        with Engine(WEIGHTS, 2) as engine:
            tasks = [asyncio.create_task(engine.generate(Job((1, 2), Rules(10_000), at))) for at in range(1000)]
            await asyncio.sleep(0.05)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, RuntimeError) for one in ended) > 500
        with pytest.raises(RuntimeError, match="closed"):
            await engine.generate(Job((1, 2), Rules(1), 0))
        engine.close()

    asyncio.run(scenario())
    assert not [thread for thread in threading.enumerate() if thread.name == "lab-engine"]


def test_a_loop_that_is_gone_does_no_harm() -> None:
    async def leave_behind(engine: Engine) -> None:
        task = asyncio.create_task(engine.generate(Job((1, 2), Rules(10_000), 0)))
        await asyncio.sleep(0.01)
        task.cancel()

    with Engine(WEIGHTS, 2) as engine:
        asyncio.run(leave_behind(engine))
        assert asyncio.run(together(engine, jobs(3), 0)) == [alone(job) for job in jobs(3)]


def test_times_are_ordered() -> None:
    with Engine(WEIGHTS, 4) as engine:
        timed = asyncio.run(engine.generate(Job((1, 2), Rules(20), 0)))
    assert 0 < timed.first_token_s <= timed.latency_s
