"""Budget forcing: the segments of a draw never use more than the budget, and every way out is the stated one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.forcing import Part, assemble, next_segment
from ttc_eval.models.base import ForcedThinking
from ttc_eval.records import CallStop, Request, Response, Sampling, Timings, Usage, UsageSource
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

FORCED = ForcedThinking()


def draw(budget: int, at_limit: AtLimit = AtLimit.ANSWER, extensions: int = 1, answer_tokens: int = 8) -> Request:
    thinking = Thinking(ThinkingMode.BUDGET, budget, at_limit=at_limit, max_extensions=extensions)
    return Request("m", "e", (), thinking, Sampling(), answer_tokens, budget + answer_tokens)


def response(text: str, stop: CallStop, tokens: int) -> Response:
    return Response(text, stop, Usage(10, tokens, source=UsageSource.COUNTED), Timings(0.0, 0.0, 0.0))


def play(request: Request, outcomes: list[tuple[str, CallStop, int]]) -> list[Part]:
    parts: list[Part] = []
    for text, stop, tokens in outcomes:
        segment = next_segment(request, FORCED, parts)
        if segment is None:
            break
        parts.append(Part(segment, response(text, stop, min(tokens, segment.request.max_output_tokens))))
    return parts


def test_no_budget_answers_at_once() -> None:
    request = draw(0)
    segment = next_segment(request, FORCED, [])
    assert segment is not None
    assert (segment.thinks, segment.request.prefix, segment.request.max_output_tokens) == (False, FORCED.skip, 8)


def test_a_budget_used_up_closes_the_thinking_and_forces_the_answer() -> None:
    parts = play(draw(16), [(" 6, 12", CallStop.MAX_TOKENS, 16), (" 42", CallStop.END, 2)])
    assert [part.segment.thinks for part in parts] == [True, False]
    assert parts[0].segment.request.max_output_tokens == 16
    assert parts[1].segment.request.prefix == "Thinking: 6, 12\nAnswer:"
    text = assemble(parts, FORCED)
    assert (text.text, text.thinking, text.complete) == (" 42", " 6, 12", True)


def test_fail_ends_without_an_answer() -> None:
    request = draw(16, AtLimit.FAIL)
    parts = play(request, [(" 6, 12", CallStop.MAX_TOKENS, 16)])
    assert next_segment(request, FORCED, parts) is None
    text = assemble(parts, FORCED)
    assert (text.text, text.stop, text.complete) == ("", CallStop.BUDGET_EXCEEDED, False)


def test_extend_continues_a_thought_that_ended_early_as_often_as_stated() -> None:
    request = draw(32, AtLimit.EXTEND, extensions=2)
    parts = play(request, [("a", CallStop.END, 5), ("b", CallStop.END, 5), ("c", CallStop.END, 5), (" 7", CallStop.END, 1)])
    assert [part.segment.thinks for part in parts] == [True, True, True, False]
    assert [part.segment.request.max_output_tokens for part in parts[:3]] == [32, 27, 22]
    assert parts[3].segment.request.prefix == f"Thinking:a{FORCED.wait}b{FORCED.wait}c\nAnswer:"
    assert [part.segment.request.segment for part in parts] == [0, 1, 2, 3]


def test_a_cut_answer_is_not_complete() -> None:
    parts = play(draw(4), [("x", CallStop.END, 2), (" 4", CallStop.MAX_TOKENS, 8)])
    assert not assemble(parts, FORCED).complete


@given(
    st.integers(0, 40),
    st.sampled_from(AtLimit),
    st.integers(0, 3),
    st.lists(
        st.tuples(st.text(max_size=3), st.sampled_from([CallStop.END, CallStop.MAX_TOKENS]), st.integers(1, 60)), min_size=8, max_size=8
    ),
)
def test_a_draw_ends_and_keeps_to_its_budget(
    budget: int, at_limit: AtLimit, extensions: int, outcomes: list[tuple[str, CallStop, int]]
) -> None:
    request = draw(budget, at_limit, extensions)
    honest = [(text, stop, tokens) for text, stop, tokens in outcomes]
    parts = play(request, honest)
    assert next_segment(request, FORCED, parts) is None
    thought = sum(part.response.usage.output_tokens or 0 for part in parts if part.segment.thinks)
    total = sum(part.response.usage.output_tokens or 0 for part in parts)
    assert thought <= budget
    assert total <= request.max_output_tokens
    assert all(part.segment.request.max_output_tokens >= 1 for part in parts)
