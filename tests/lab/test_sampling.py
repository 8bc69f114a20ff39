from __future__ import annotations

import numpy as np
import pytest

from ttc_eval.lab.sampling import Doubles, draw, log_softmax, stream, uniforms

ROWS = 20_000
LOGS = log_softmax(np.log(np.array([[0.1, 0.5, 0.05, 0.3, 0.05]], np.float32)))


def numbers(seed: int, count: int) -> Doubles:
    return uniforms(np.repeat(stream(seed), count), np.arange(count))


def shares(temperature: float = 1.0, top_p: float = 1.0, logs: Doubles = LOGS) -> Doubles:
    many = np.repeat(logs, ROWS, axis=0)
    tokens = draw(many, np.full(ROWS, temperature), np.full(ROWS, top_p), numbers(7, ROWS))
    return np.bincount(tokens, minlength=5) / ROWS


def test_tokens_come_in_their_proportions() -> None:
    assert shares() == pytest.approx([0.1, 0.5, 0.05, 0.3, 0.05], abs=0.015)
    flat = np.array([0.1, 0.5, 0.05, 0.3, 0.05]) ** 0.5
    assert shares(temperature=2.0) == pytest.approx(flat / flat.sum(), abs=0.015)


def test_top_p_keeps_the_fewest_likely_tokens_that_reach_the_share() -> None:
    assert shares(top_p=0.75) == pytest.approx([0, 0.625, 0, 0.375, 0], abs=0.015)
    assert shares(top_p=0.85) == pytest.approx([0.1 / 0.9, 0.5 / 0.9, 0, 0.3 / 0.9, 0], abs=0.015)
    assert shares(top_p=0.01) == pytest.approx([0, 1, 0, 0, 0])


def test_greedy_takes_the_likeliest_and_the_lowest_id_among_equals() -> None:
    assert shares(temperature=0.0) == pytest.approx([0, 1, 0, 0, 0])
    tied = log_softmax(np.array([[0, 3, 1, 3, 3]], np.float32))
    assert shares(temperature=0.0, logs=tied) == pytest.approx([0, 1, 0, 0, 0])


def test_a_tiny_temperature_neither_overflows_nor_leaves_the_likeliest() -> None:
    assert shares(temperature=1e-300) == pytest.approx([0, 1, 0, 0, 0])


def test_the_number_nearest_to_one_draws_a_token_that_is_possible() -> None:
    logs = log_softmax(np.array([[0, 0, -1e4]], np.float32))
    assert draw(logs, np.ones(1), np.ones(1), np.array([np.nextafter(1.0, 0)])) == [1]


def test_numbers_follow_from_seed_and_place_alone() -> None:
    assert np.array_equal(numbers(5, 300)[:40], numbers(5, 40))
    many = np.array([numbers(seed, 50) for seed in range(400)])
    assert many.min() >= 0
    assert many.max() < 1
    assert np.histogram(many, 10, (0, 1))[0] == pytest.approx(2000, rel=0.12)
    assert len(np.unique(many)) == many.size, "neighbouring seeds are no shifted copies of each other"
    assert abs(np.corrcoef(many[:-1].ravel(), many[1:].ravel())[0, 1]) < 0.03
