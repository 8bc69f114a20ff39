"""The likeliest tokens of the lab model's own distribution: right, and without a trace in the draws themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lab.networks import random_weights
from tests.lab.test_engine import jobs
from ttc_eval.lab.batch import generate_all
from ttc_eval.lab.network import next_logits
from ttc_eval.lab.sampling import log_softmax

WEIGHTS = random_weights(1)


def test_they_are_the_largest_of_the_models_own_in_falling_order() -> None:
    wanted = [replace(job, top=4) for job in jobs(12, 3)]
    for job, found in zip(wanted, generate_all(WEIGHTS, wanted), strict=True):
        logs = log_softmax(next_logits(WEIGHTS, [*job.before, *found.tokens]))
        places = np.arange(len(job.before) - 1, len(job.before) - 1 + len(found.tokens))
        assert found.top_logprobs is not None
        assert np.array(found.top_logprobs) == pytest.approx(-np.sort(-logs[places], axis=1)[:, :4], abs=2e-4)
        assert found.logprobs is not None
        assert all(own <= top[0] + 1e-9 for own, top in zip(found.logprobs, found.top_logprobs, strict=True))


def test_asking_for_them_changes_no_draw_not_even_beside_one_that_does_not() -> None:
    wanted = jobs(40, 9)
    mixed = [replace(job, top=5 * (place % 3)) for place, job in enumerate(wanted)]
    plain, found = generate_all(WEIGHTS, wanted), generate_all(WEIGHTS, mixed)
    assert [replace(one, top_logprobs=None) for one in found] == plain, "to the bit"
    assert [one.top_logprobs is not None for one in found] == [place % 3 > 0 for place in range(40)]


def test_more_than_there_are_tokens_gives_the_whole_distribution() -> None:
    (found,) = generate_all(WEIGHTS, [replace(jobs(1)[0], top=10_000)])
    assert found.top_logprobs is not None
    assert np.exp(np.array(found.top_logprobs)).sum(axis=1) == pytest.approx(1.0)
    assert generate_all(WEIGHTS, [replace(jobs(1)[0], top=3, logprobs=False)])[0].top_logprobs is None
