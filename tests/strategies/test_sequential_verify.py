"""Selective verification: the first answer is kept where a signal is safe, and every other one is verified."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.sequential import Sweeps, Table, check_books, check_parallel, check_repeatable, one, rows, solved
from ttc_eval.errors import UserError
from ttc_eval.ledger import Limits
from ttc_eval.models.scripted import Reply
from ttc_eval.strategies import VerifySelectively
from ttc_eval.strategies.judged import Otherwise
from ttc_eval.strategies.verify_selectively import Signal

SIMULATED = ("model=simulated", "dataset.limit=20", "strategy=verify_selectively", "verifier=outcome")
LAB = ("model=lab", "dataset=lab", "answer_tokens=8", "sampling.temperature=1.0", "thinking=budget", "thinking.budget=96")
CUT = Reply("4", complete=False)


@pytest.fixture
def sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sweeps:
    return Sweeps(tmp_path, capsys)


def oracle(replies: list[str | Reply], values: dict[str, float | None], options: VerifySelectively) -> tuple[str | None, str, int]:
    """Answer, stop reason and scores asked for, by the rule as it is written, for the agreement of the first draws."""
    first = [reply for reply in replies[: options.agreement_draws] if reply in ("40", "41", "42")]
    votes = {answer: first.count(answer) for answer in first}
    top = max(votes.values(), default=0)
    leaders = [answer for answer, count in votes.items() if count == top]
    if len(leaders) == 1 and top / options.agreement_draws >= options.threshold:
        return str(leaders[0]), "accepted", 0
    asked: list[tuple[str, float | None]] = []
    for reply in replies[: options.n]:
        if reply not in ("40", "41", "42"):
            continue
        asked.append((str(reply), values.get(str(reply))))
        if (asked[-1][1] or 0) >= options.accept_at:
            return str(reply), "accepted", len(asked)
    valid = [(answer, value) for answer, value in asked if value is not None]
    best = max(valid, key=lambda pair: pair[1], default=(None, 0))[0]
    return best, "attempt_limit", len(asked)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(["40", "41", "42", "none of them", CUT]), min_size=5, max_size=5),
    st.dictionaries(st.sampled_from(["40", "41", "42"]), st.none() | st.sampled_from([0.1, 0.2, 0.5, 0.9]), max_size=3),
    st.builds(
        VerifySelectively,
        threshold=st.sampled_from([0.4, 0.5, 0.75, 1.0]),
        agreement_draws=st.integers(2, 3),
        n=st.integers(3, 5),
        accept_at=st.sampled_from([0.5, 0.8]),
    ),
)
def test_it_keeps_what_agrees_and_verifies_the_rest(
    replies: list[str | Reply], values: dict[str, float | None], options: VerifySelectively
) -> None:
    answer, stop, asked = oracle(replies, values, options)
    solution, session = solved(options, replies, verifier=Table(values))
    assert (solution.answer, solution.stop_reason, len(solution.scores)) == (answer, stop, asked)
    assert session.spending.charged.calls == len(solution.candidates), "no draw is paid for twice"
    assert [one.draw for one in solution.candidates] == list(range(len(solution.candidates)))


@pytest.mark.parametrize(("tokens", "stop", "scores"), [(20, "accepted", 0), (21, "attempt_limit", 2)])
def test_a_short_first_draw_is_kept(tokens: int, stop: str, scores: int) -> None:
    replies = [Reply("41", output_tokens=tokens), "42"]
    options = VerifySelectively(Signal.LENGTH, threshold=20, n=2)
    # The scripted model's cap is what a sweep would set: eight tokens of answer are too few for this reply.
    with pytest.raises(Exception, match="outside the reserved cap"):
        solved(options, replies, verifier=Table({"41": 0.1, "42": 0.2}))
    solution, _ = solved(options, replies, verifier=Table({"41": 0.1, "42": 0.2}), answer_tokens=64)
    assert (solution.stop_reason, len(solution.scores), dict(solution.signals)) == (stop, scores, {"length": tokens})


def test_a_signal_that_is_not_known_is_in_doubt() -> None:
    values = {"41": 0.1, "42": 0.2}
    replies = [Reply("41", usage_known=False), "42"]
    solution, _ = solved(VerifySelectively(Signal.LENGTH, threshold=1e9, n=2), replies, verifier=Table(values))
    assert (solution.answer, len(solution.scores), dict(solution.signals)) == ("42", 2, {"length": None})
    solution, _ = solved(VerifySelectively(Signal.MEAN_LOGPROB, threshold=1e-9, n=2), ["41", "42"], verifier=Table(values))
    assert (solution.answer, dict(solution.signals)) == ("42", {"mean_logprob": None})


@pytest.mark.parametrize(("rule", "answer"), [(Otherwise.UNRESOLVED, None), (Otherwise.PLURALITY, "41")])
def test_without_a_valid_score_the_declared_rule_decides_and_is_said(rule: Otherwise, answer: str | None) -> None:
    solution, _ = solved(VerifySelectively(n=3, on_no_score=rule), ["41", "42", "41"], verifier=Table({}))
    assert (solution.answer, solution.error) == (answer, f"no valid score; {rule.value} used")


@pytest.mark.parametrize(
    ("limits", "answer", "stop"),
    [
        (Limits(calls=1), None, "call_budget"),
        (Limits(calls=3), "42", "call_budget"),
        (Limits(verifier_calls=1), "41", "call_budget"),
        (Limits(verifier_calls=0), None, "call_budget"),
        (Limits(output_tokens=2), "42", "output_budget"),
    ],
)
def test_it_stops_at_a_limit_by_its_name_with_the_best_of_what_was_scored(limits: Limits, answer: str | None, stop: str) -> None:
    values = {"41": 0.1, "42": 0.2, "43": 0.3}
    solution, _ = solved(VerifySelectively(n=4), ["41", "42", "41", "43"], verifier=Table(values), limits=limits)
    assert (solution.answer, solution.stop_reason) == (answer, stop)


def test_parallel_first_draws_decide_as_serial_ones_do(sweeps: Sweeps) -> None:
    check_parallel(sweeps, (*SIMULATED, "strategy.agreement_draws=3", "strategy.n=5", "limits.problem.calls=6"))


def test_it_is_repeatable_and_stores_its_signal(sweeps: Sweeps) -> None:
    study = check_repeatable(sweeps, (*SIMULATED, "model.verifier_invalid=0.2"))
    signals = [json.loads(value)["agreement"] for (value,) in rows(study, "SELECT signals FROM solutions")]
    assert set(signals) == {0.5, 1.0}
    kept = "SELECT count(*) FROM solutions WHERE (signals->>'$.agreement')::DOUBLE = 1 AND charged_verifier_calls > 0"
    assert one(study, kept) == 0
    doubted = "SELECT count(*) FROM solutions WHERE (signals->>'$.agreement')::DOUBLE < 1 AND charged_verifier_calls = 0"
    assert one(study, doubted) == 0


def test_the_log_probabilities_of_a_real_model_are_a_signal(sweeps: Sweeps) -> None:
    options = ("dataset.limit=12", "sampling.logprobs=0", "strategy=verify_selectively", "verifier=lab", "strategy.signal=mean_logprob")
    study = sweeps.run(*LAB, *options, "strategy.threshold=0.95")
    check_books(study)
    found = rows(
        study,
        "SELECT s.signals, s.charged_verifier_calls, k.token_logprobs FROM solutions s JOIN candidates c USING (cell_id, problem_id) "
        "JOIN calls k ON k.call_id = c.call_ids->>0 WHERE c.position = 0",
    )
    for signals, verified, logprobs in found:
        value, told = json.loads(signals)["mean_logprob"], json.loads(logprobs)
        assert value == pytest.approx(math.exp(math.fsum(told) / len(told)))
        assert (verified == 0) == (value >= 0.95)
    assert {verified > 0 for _, verified, _ in found} == {True, False}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("strategy.signal=mean_logprob",), "add sampling.logprobs=0"),
        (("strategy.signal=length",), "a number of tokens, above 1"),
        (("verifier=pairwise",), "scores none"),
        (("strategy.agreement_draws=1",), "one draw always agrees"),
    ],
)
def test_what_cannot_work_is_refused_before_any_call(sweeps: Sweeps, options: tuple[str, ...], said: str) -> None:
    assert said in sweeps.refused("model=simulated", "strategy=verify_selectively", "verifier=outcome", *options)


@pytest.mark.parametrize("threshold", [0.0, 1.5, float("nan")])
def test_a_threshold_outside_its_scale_is_refused(threshold: float) -> None:
    with pytest.raises(UserError, match="threshold"):
        VerifySelectively(threshold=threshold)
