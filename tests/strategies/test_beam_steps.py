"""Steps: whatever form a reply has, a path grown step by step says what the model would have said in one go, and no more than it may."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.asking import Ask, Reply
from ttc_eval.errors import UserError
from ttc_eval.models.base import ForcedThinking, StepFormat, step_format
from ttc_eval.records import CallStop, Message, Request, Role, Sampling
from ttc_eval.steps import Path, Phase, StepOptions, Steps
from ttc_eval.thinking import AtLimit, Thinking, ThinkingMode

LAB = StepFormat("<think>", ";", "</think>", apart=True)
FORCED = step_format(ForcedThinking(), tells_stop=False)
TAGS = StepFormat("<think>\n", "\n\n", "</think>\n")
QUESTION = (Message("user", "?"),)
FORMATS = {"lab": LAB, "forced": FORCED, "tags": TAGS, "text": StepFormat(), "text, vague ends": StepFormat(tells_stop=False)}


class Writer:
    """A model that means to write `turn`, a character a token, and answers `forced` where its thinking is closed for it."""

    def __init__(self, form: StepFormat, turn: str, forced: str = "?") -> None:
        self.form, self.turn, self.forced = form, turn, forced

    def reply(self, ask: Ask, *, usage: bool = True) -> Reply:
        rest = self.turn.removeprefix(ask.prefix) if self.turn.startswith(ask.prefix) else self.forced
        if ask.prefix == self.turn + self.form.boundary:
            rest = ""
        ends = [(rest.index(stop), stop) for stop in ask.stop if stop in rest]
        place, stop = min(ends, default=(len(rest), ""))
        tokens = place + len(stop)
        kind = CallStop.STOP_SEQUENCE if stop and self.form.tells_stop else CallStop.END
        if ask.max_output_tokens is not None and tokens > ask.max_output_tokens:
            tokens = place = ask.max_output_tokens
            kind = CallStop.MAX_TOKENS
        text, thinking = rest[:place], None
        inside = self.form.closing not in ask.prefix
        if self.form.apart and inside:
            thinking, _, text = text.partition(self.form.closing)
        complete = kind is not CallStop.MAX_TOKENS
        return Reply(text, thinking or None, kind, complete, ("c",), output_tokens=tokens if usage else None)


def grow(steps: Steps, writer: Writer, *, usage: bool = True) -> list[Path]:
    paths = [steps.start]
    for depth in range(1, 200):
        if not paths[-1].goes_on:
            return paths
        ask = steps.ask(paths[-1], QUESTION, 0, depth)
        assert ask.max_output_tokens is not None
        assert ask.max_output_tokens >= 1
        paths.append(steps.grown(paths[-1], ask, writer.reply(ask, usage=usage)))
    raise AssertionError("a path grows for ever")


def steps_of(form: StepFormat, budget: int | None, answer_tokens: int, step_tokens: int | None = None, fail: bool = False) -> Steps:
    at_limit = AtLimit.FAIL if fail else AtLimit.ANSWER
    thinking = Thinking() if budget is None else Thinking(ThinkingMode.BUDGET, budget, at_limit=at_limit)
    return Steps.of(form, thinking, answer_tokens, step_tokens)


WORDS = st.lists(st.text("abc1", min_size=1, max_size=6), min_size=1, max_size=6)


@pytest.mark.parametrize("name", FORMATS)
@given(words=WORDS, answer=WORDS)
def test_a_path_says_what_the_model_would_have_said_in_one_go(name: str, words: list[str], answer: list[str]) -> None:
    form = FORMATS[name]
    said = "1" if form.boundary in form.answer_stop else form.boundary.join(answer)
    thinking = form.boundary.join(words) + (form.boundary if form is LAB else "")
    turn = form.opening + thinking + (f"{form.closing}{said}" if form.closing else "")
    steps = steps_of(form, 500 if form.closing else None, 500)
    *before, last = grow(steps, Writer(form, turn))
    assert last.phase is Phase.ENDED
    found = steps.parts(last)
    assert found == (thinking, said) if form.closing else found[0].removesuffix(form.boundary) == thinking
    assert all(path.turn == turn[: len(path.turn)] for path in before if path.phase is Phase.OPEN and len(path.turn) <= len(turn))
    assert len(before) >= len(words), "one step at a time"


@pytest.mark.parametrize("name", FORMATS)
@given(
    words=WORDS, said=st.text("abc1", max_size=6), budget=st.integers(1, 40), room=st.integers(1, 12), step=st.none() | st.integers(1, 9),
    fail=st.booleans(), usage=st.booleans(),
)  # fmt: skip
def test_a_path_never_writes_more_than_it_may(
    name: str, words: list[str], said: str, budget: int, room: int, step: int | None, fail: bool, usage: bool
) -> None:
    form = FORMATS[name]
    turn = form.opening + form.boundary.join(words) + (f"{form.closing}{said}" if form.closing else "")
    steps = steps_of(form, budget if form.closing else None, room, step, fail)
    paths = grow(steps, Writer(form, turn), usage=usage)
    assert paths[-1].written <= steps.total_tokens
    assert all(short.written <= long.written for short, long in pairwise(paths))
    if paths[-1].phase is Phase.ENDED and not form.closing:
        assert paths[-1].turn.removesuffix(form.boundary) == turn, "what was cut is not finished"
    if fail and form.closing and len(turn.partition(form.closing)[0]) - len(form.opening) > budget:
        assert paths[-1].phase is Phase.DEAD


def lab(turn: str) -> Path:
    return Path(turn, 8)


def read(steps: Steps, path: Path, text: str, thinking: str | None, stop: CallStop, tokens: int | None = 4) -> Path:
    reply = Reply(text, thinking, stop, stop is not CallStop.MAX_TOKENS, ("c",), output_tokens=tokens)
    return steps.grown(path, steps.ask(path, QUESTION, 0, 1), reply)


def test_the_lab_model_closes_its_thinking_and_ends() -> None:
    steps = steps_of(LAB, 96, 8)
    step = read(steps, lab("<think>37+8=45;"), "", "45-5=40", CallStop.STOP_SEQUENCE, 8)
    assert (step.turn, step.phase, step.written) == ("<think>37+8=45;45-5=40;", Phase.OPEN, 16)
    last = read(steps, step, "40", None, CallStop.END)
    assert (last.phase, steps.parts(last)) == (Phase.ENDED, ("37+8=45;45-5=40;", "40"))


def test_a_step_that_is_cut_is_dead_unless_the_budget_is_what_cut_it() -> None:
    path = lab("<think>37+8=45;")
    cut = "", "45-", CallStop.MAX_TOKENS
    assert read(steps_of(LAB, 96, 8, step_tokens=4), path, *cut).phase is Phase.DEAD
    spent = read(steps_of(LAB, 12, 8), path, *cut)
    assert spent.phase is Phase.SPENT
    assert steps_of(LAB, 12, 8).ask(spent, QUESTION, 0, 1).prefix == "<think>37+8=45;45-</think>"
    assert read(steps_of(LAB, 12, 8, fail=True), path, *cut).phase is Phase.DEAD


def test_a_step_that_says_nothing_is_dead() -> None:
    steps = steps_of(LAB, 96, 8)
    assert read(steps, lab("<think>37+8=45;"), "", None, CallStop.STOP_SEQUENCE, 1).phase is Phase.DEAD


def test_thinking_that_ends_without_its_closing_is_closed() -> None:
    spent = read(steps_of(FORCED, 96, 8), lab("Thinking: a\n"), "", None, CallStop.END, 1)
    assert spent.phase is Phase.SPENT
    ask = steps_of(FORCED, 96, 8).ask(spent, QUESTION, 0, 1)
    assert (ask.prefix, ask.stop, ask.max_output_tokens) == ("Thinking: a\nAnswer:", ("\n",), 8)


def test_an_answer_that_is_cut_in_its_step_goes_on_and_one_that_is_cut_again_is_dead() -> None:
    steps = steps_of(LAB, 96, 8)
    begun = read(steps, lab("<think>37+8=45;"), "4", None, CallStop.MAX_TOKENS)
    assert begun.phase is Phase.ANSWERING
    assert steps.ask(begun, QUESTION, 0, 1).stop == ()
    assert read(steps, begun, "5", None, CallStop.END).phase is Phase.ENDED
    assert read(steps, begun, "5", None, CallStop.MAX_TOKENS).phase is Phase.DEAD


@pytest.mark.parametrize("stop", [CallStop.REFUSAL, CallStop.CONTEXT_FULL, CallStop.TOOL_USE, CallStop.OTHER])
def test_what_ends_for_another_reason_is_dead(stop: CallStop) -> None:
    assert read(steps_of(TAGS, 96, 8), Path("<think>\n"), "a", None, stop).phase is Phase.DEAD


def test_what_is_stated_goes_before_what_is_known_of_the_model() -> None:
    assert StepOptions().over(LAB) == LAB
    assert StepOptions(opening="<t>", boundary=".", closing="").over(LAB) == StepFormat("<t>", ".", "", apart=True)
    with pytest.raises(UserError, match="boundary"):
        StepOptions(boundary="")


def request(role: Role, prefix: str, draw: int) -> Request:
    return Request("m", "e", QUESTION, Thinking(), Sampling(), 8, 8, role=role, prefix=prefix, draw=draw)


def test_steps_after_different_texts_and_siblings_are_drawn_by_chances_of_their_own() -> None:
    seeds = {request(Role.STEP, prefix, draw).sampling_seed for prefix in ("", "a", "ab") for draw in range(4)}
    assert len(seeds) == 12
    drawn = {request(Role.GENERATE, prefix, 0).sampling_seed for prefix in ("", "a")}
    assert len(drawn) == 1, "a draw that is cut short is the beginning of the same draw"
