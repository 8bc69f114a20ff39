from __future__ import annotations

import pytest

from ttc_eval.errors import UserError
from ttc_eval.thinking import Thinking, ThinkingMode, ThinkingSupport, answer_ceiling


@pytest.mark.parametrize(("used", "ceiling"), [(10_000, 6_000), (4_000, 12_000), (500, 15_500)])
def test_the_answer_gets_what_thinking_left(used: int, ceiling: int) -> None:
    assert answer_ceiling(16_000, used) == ceiling


@pytest.mark.parametrize("used", [-1, 16_001])
def test_thinking_cannot_use_more_than_the_cap(used: int) -> None:
    with pytest.raises(ValueError, match="thinking_used"):
        answer_ceiling(16_000, used)


def test_a_form_that_a_model_does_not_take_is_refused_with_the_forms_it_takes() -> None:
    support = ThinkingSupport(accepts=(ThinkingMode.OFF, ThinkingMode.BUDGET), min_budget=1024)
    with pytest.raises(UserError, match="it takes: off, budget"):
        support.check(Thinking(ThinkingMode.ADAPTIVE), "m")
    with pytest.raises(UserError, match="1024 tokens or more"):
        support.check(Thinking(ThinkingMode.BUDGET, 512), "m")
    support.check(Thinking(ThinkingMode.BUDGET, 1024), "m")


@pytest.mark.parametrize(
    ("mode", "budget", "effort"),
    [
        (ThinkingMode.BUDGET, None, None),
        (ThinkingMode.OFF, 5, None),
        (ThinkingMode.BUDGET, -1, None),
        (ThinkingMode.EFFORT, None, None),
        (ThinkingMode.OFF, None, "low"),
    ],
)
def test_a_form_without_sense_is_refused(mode: ThinkingMode, budget: int | None, effort: str | None) -> None:
    with pytest.raises(UserError, match=r"^thinking\."):
        Thinking(mode, budget, effort)
