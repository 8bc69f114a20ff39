"""Critical path and total work of draws, from their recorded latencies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.clock import Clock

seconds = st.lists(st.floats(0, 100), max_size=12)


def run(latencies: list[float], parallel: int) -> Clock:
    clock = Clock()
    for latency in latencies:
        clock.run(latency, parallel)
    return clock


def test_one_at_a_time_is_the_sum_and_all_at_once_the_longest() -> None:
    assert run([3.0, 1.0, 2.0], 1).critical == 6.0
    assert run([3.0, 1.0, 2.0], 3).critical == 3.0
    assert run([3.0, 1.0, 2.0], 2).critical == 3.0
    assert run([3.0, 1.0, 2.0, 2.0], 2).critical == 5.0


def test_what_follows_parallel_draws_one_by_one_starts_after_them() -> None:
    clock = run([3.0, 1.0], 2)
    clock.run(2.0, 1)
    assert clock.critical == 5.0


@given(seconds, st.integers(1, 6))
def test_the_critical_path_lies_between_its_bounds(latencies: list[float], parallel: int) -> None:
    clock = run(latencies, parallel)
    assert clock.work == pytest.approx(sum(latencies))
    assert max([clock.work / parallel, *latencies]) <= clock.critical + 1e-9
    assert clock.critical <= clock.work + 1e-9
