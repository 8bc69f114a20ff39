"""Models of coverage: they find what made the data, meet the published fits, and say where they do not know."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.metrics import pass_at_k
from ttc_eval.metrics.scaling import BetaBinomial, beta_binomial, doubling, held_out, power_law, predicted


@given(st.floats(-5, -0.05), st.floats(-1.5, -0.01))
def test_a_power_law_is_found_again(a: float, b: float) -> None:
    ks = doubling(64)
    fit = power_law(ks, np.exp(a * ks.astype(float) ** b))
    assert (fit.a, fit.b, fit.largest) == (pytest.approx(a), pytest.approx(b), 64)
    assert fit.at(7) == pytest.approx(np.exp(a * 7**b))


@given(st.integers(1, 10_000))
def test_the_grid_doubles_and_ends_at_n(n: int) -> None:
    ks = doubling(n).tolist()
    assert (ks[0], ks[-1]) == (1, n)
    assert all(low < high <= 2 * low for low, high in pairwise(ks))


@pytest.mark.parametrize(("log", "a", "b"), [("cot", -3.270, -0.329), ("standard", -2.579, -0.178)])
def test_game_of_24_has_its_published_fit(shared: Path, log: str, a: float, b: float) -> None:
    rows = json.loads((shared / f"data/tot/game24/gpt-4_0.7_naive_{log}_sample_100_start900_end1000.json").read_text("utf-8"))
    right = np.array([sum(info["r"] for info in row["infos"]) if "infos" in row else sum(row["accs"]) for row in rows], dtype=int)
    ks = doubling(100)
    fit = power_law(ks, [float(pass_at_k(np.full(100, 100), right, int(k)).mean()) for k in ks])
    assert (round(fit.a, 3), round(fit.b, 3)) == (a, b)


def test_a_beta_binomial_is_found_again_with_its_unsolvable_share() -> None:
    rng = np.random.default_rng(0)
    p = np.where(rng.random(4_000) < 0.3, 0.0, rng.beta(0.6, 1.8, 4_000))
    fit = beta_binomial(np.full(4_000, 50), rng.binomial(50, p))
    assert fit.zero == pytest.approx(0.3, abs=0.05)
    assert fit.alpha == pytest.approx(0.6, rel=0.15)
    assert fit.beta == pytest.approx(1.8, rel=0.15)
    for k in (1, 10, 100, 1_000):
        assert float(fit.at(k)) == pytest.approx(float((1 - (1 - p) ** k).mean()), abs=0.015)
    plain = beta_binomial(np.full(4_000, 50), rng.binomial(50, rng.beta(2.0, 3.0, 4_000)), zero_inflated=False)
    assert plain.zero == 0.0
    assert plain.alpha == pytest.approx(2.0, rel=0.1)


@given(st.floats(0.05, 20), st.floats(0.05, 20), st.floats(0, 0.9))
def test_a_beta_binomials_coverage_grows_to_what_can_be_solved(alpha: float, beta: float, zero: float) -> None:
    values = BetaBinomial(alpha, beta, zero, 8).at([1, 2, 4, 1_000])
    assert values[0] == pytest.approx((1 - zero) * alpha / (alpha + beta))
    assert (np.diff(values) >= -1e-12).all()
    assert values[-1] <= 1 - zero + 1e-12


def test_a_fit_does_not_speak_of_what_lies_far_beyond_it() -> None:
    fit = power_law([1, 2, 4, 8], [0.2, 0.3, 0.4, 0.5])
    assert predicted(fit, [4, 8, 16]).extrapolated.tolist() == [False, False, True]
    with pytest.raises(ValueError, match="more than 2 times the largest k that was fitted"):
        predicted(fit, 17)
    assert predicted(fit, 17, extrapolate=True).extrapolated.all()
    with pytest.raises(ValueError, match="1 or more"):
        predicted(fit, 0)


@pytest.mark.parametrize("model", ["power", "beta_binomial"])
def test_a_fit_on_few_draws_is_held_against_the_others(model: str) -> None:
    rng = np.random.default_rng(3)
    p = np.where(rng.random(4_000) < 0.2, 0.0, rng.beta(0.5, 2.0, 4_000))
    correct = rng.random((4_000, 64)) < p[:, None]
    checks = held_out(correct, 16, [32, 64], model=model)
    assert [one.k for one in checks] == [32, 64]
    for one in checks:
        assert one.measured.low is not None
        assert one.error == pytest.approx(one.modelled - one.measured.value)
        # The truth is a beta-binomial: its own model meets it, a power law from 16 draws comes near.
        assert abs(one.error) < (0.02 if model == "beta_binomial" else 0.06)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: power_law([1, 1], [0.1, 0.1]), "two or more different k"),
        (lambda: power_law([1, 2], [0.0, 0.5]), "strictly between"),
        (lambda: beta_binomial([4, 4], [0, 0]), "no draw is right"),
        (lambda: beta_binomial([4, 4], [4, 4]), "every draw is"),
        (lambda: beta_binomial([4], [1]), "two or more problems"),
        (lambda: held_out(np.ones((2, 4), dtype=bool), 4, 4), "leaves draws"),
        (lambda: held_out(np.eye(4, dtype=bool), 2, 5), "check at 3 to 4"),
        (lambda: held_out(np.eye(4, dtype=bool), 2, 3, model="line"), "give 'power'"),
    ],
)
def test_what_has_no_fit_is_refused(call: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()  # type: ignore[operator]
