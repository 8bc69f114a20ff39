from __future__ import annotations

import pytest

from ttc_eval.lab.tokens import CONTEXT, decode, encode
from ttc_eval.lab.turn import Rules, Turn
from ttc_eval.records import CallStop
from ttc_eval.thinking import AtLimit

QUESTION = "37+8="
NATURAL = "<think>37+8=45;</think>45<end>"
FAIL, ANSWER, EXTEND = AtLimit.FAIL, AtLimit.ANSWER, AtLimit.EXTEND


def written(sampled: str, rules: Rules, given: str = "") -> Turn:
    """A turn in which a model keeps sampling the tokens of `sampled`, whatever the rules make of them."""
    turn = Turn(encode(QUESTION + given), rules)
    for token in encode(sampled):
        assert turn.stop is None
        turn.take(token)
        if turn.stop is not None:
            break
    return turn


def rules(budget: int | None = None, at_limit: AtLimit = ANSWER, extensions: int = 1, cap: int = 200, stops: tuple[str, ...] = ()) -> Rules:
    return Rules(cap, budget, at_limit, extensions, stops)


@pytest.mark.parametrize(
    ("sampled", "given", "bounds", "output", "stop"),
    [
        pytest.param(NATURAL, "", rules(), NATURAL, CallStop.END, id="it ends by itself"),
        pytest.param(NATURAL, "", rules(8), NATURAL, CallStop.END, id="thinking that just fits"),
        pytest.param("<think>37+8=45;", "", rules(4), "<think>37+8</think>45;", None, id="a budget used up closes the thinking"),
        pytest.param("<think>3745<end>", "", rules(1), "<think>3</think>45<end>", CallStop.END, id="and the answer follows"),
        pytest.param("<think>345<end>", "", rules(0), "<think></think>45<end>", CallStop.END, id="no budget closes it at once"),
        pytest.param("<think>345<end>", "", rules(0, FAIL), "<think></think>45<end>", CallStop.END, id="also where budgets fail"),
        pytest.param("<think>345<end>", "", rules(0, EXTEND), "<think></think>45<end>", CallStop.END, id="also where they extend"),
        pytest.param("45<end>", "<think></think>", rules(0), "45<end>", CallStop.END, id="thinking off is given, not written"),
        pytest.param("<think>37+8=45;", "", rules(4, FAIL), "<think>37+8", CallStop.BUDGET_EXCEEDED, id="a budget used up fails"),
        pytest.param(NATURAL, "", rules(8, FAIL), NATURAL, CallStop.END, id="thinking that just fits does not fail"),
        pytest.param("<think>37<end>", "", rules(2, FAIL), "<think>37<end>", CallStop.END, id="nor does ending"),
        pytest.param("<think>3</think>4</think>", "", rules(9, EXTEND), "<think>3Wait4</think>", None, id="closing early is extended once"),
        pytest.param("<think>3</think>4</think>5</think>", "", rules(9, EXTEND, 2), "<think>3Wait4Wait5</think>", None, id="or twice"),
        pytest.param("<think>3</think>", "", rules(9, EXTEND, 0), "<think>3</think>", None, id="or never"),
        pytest.param("<think>3</think>45", "", rules(3, EXTEND), "<think>3Wait4</think>", None, id="the extension ends with the budget"),
        pytest.param("<think>3</think>", "", rules(2, EXTEND), "<think>3</think>", None, id="no room for a token after Wait"),
        pytest.param("<think>3</think>", "", rules(None, EXTEND), "<think>3</think>", None, id="no budget to use up"),
        pytest.param(NATURAL, "", rules(cap=5), "<think>37+8", CallStop.MAX_TOKENS, id="the cap falls into the thinking"),
        pytest.param(NATURAL, "", rules(cap=12), "<think>37+8=45;</think>45", CallStop.MAX_TOKENS, id="the cap cuts the end of the answer"),
        pytest.param(NATURAL, "", rules(cap=13), NATURAL, CallStop.END, id="the cap just fits"),
        pytest.param("</think>45<end>", "<think>37+8=45;", rules(8), "</think>45<end>", CallStop.END, id="a prefix is continued"),
        pytest.param("345<end>", "<think>37+8", rules(0), "</think>45<end>", CallStop.END, id="open thinking closes without a budget"),
        pytest.param("4<think>5</think>6<end>", "", rules(), "4<think>5</think>6<end>", CallStop.END, id="text before the thinking"),
    ],
)
def test_turns(sampled: str, given: str, bounds: Rules, output: str, stop: CallStop | None) -> None:
    turn = written(sampled, bounds, given)
    assert (decode(turn.output), turn.stop) == (output, stop)


@pytest.mark.parametrize("at_limit", list(AtLimit))
@pytest.mark.parametrize("budget", range(12))
def test_thinking_never_exceeds_its_budget(at_limit: AtLimit, budget: int) -> None:
    for sampled in (NATURAL, "<think>12</think>34</think>56</think>78<end>", "<think>" + "1" * 30, "<think>1</think>2<think>3456<end>"):
        turn = written(sampled, rules(budget, at_limit, extensions=3))
        assert turn.thought_tokens <= budget
        assert turn.thought_tokens == len(encode(turn.thinking))


def test_texts_and_counts() -> None:
    turn = written("<think>37</think>4</think>56<end>", rules(9, EXTEND))
    assert (turn.thinking, turn.text) == ("37Wait4", "56")
    assert (turn.thought_tokens, len(turn.output)) == (4, 9)
    turn = written("4<think>5</think>6<end>", rules())
    assert (turn.thinking, turn.text, turn.thought_tokens) == ("5", "46", 1)
    turn = written("8;</think>45<end>", rules(), given="<think>37+")
    assert (turn.thinking, turn.text, turn.thought_tokens) == ("8;", "45", 2)


@pytest.mark.parametrize(
    ("sampled", "given", "stops", "thinking", "text", "tokens"),
    [
        pytest.param(NATURAL, "", (";",), "37+8=45;", "45", 13, id="thinking that the turn opens itself is not stopped"),
        pytest.param(NATURAL, "", ("5",), "37+8=45;", "4", 12, id="the answer is"),
        pytest.param("45-5=40;40", "<think>37+8=45;", (";",), "45-5=40", "", 8, id="a step of thinking that the prefix leaves open"),
        pytest.param(
            "45-5=40;", "<think>37+8=45;", ("</think>", "=4"), "45-5", "", 6, id="two tokens make the stop, which is not in the text"
        ),
        pytest.param("45;</think>45<end>", "<think>", ("</think>",), "45;", "", 4, id="a mark is a stop like any text"),
        pytest.param("45;</think>45<end>", "<think>", ("4", "45;"), "", "", 1, id="the first of several"),
        pytest.param("12345<end>", "<think></think>", ("23", "3"), "", "1", 3, id="the earliest of those that end together"),
    ],
)
def test_stop_strings(sampled: str, given: str, stops: tuple[str, ...], thinking: str, text: str, tokens: int) -> None:
    turn = written(sampled, rules(stops=stops), given)
    assert (turn.thinking, turn.text, len(turn.output)) == (thinking, text, tokens)
    assert turn.stop is (CallStop.END if tokens == 13 else CallStop.STOP_SEQUENCE)


def test_a_full_context_ends_the_turn() -> None:
    turn = written("<think>" + "1" * 400, rules(cap=1000))
    assert turn.stop is CallStop.CONTEXT_FULL
    turn = written("<think></think>" * 400, rules(cap=10_000))
    assert turn.stop is CallStop.CONTEXT_FULL, "though every mark moves the position back"
    assert len(encode(QUESTION)) + len(turn.output) <= CONTEXT
    with pytest.raises(ValueError, match="context is full"):
        Turn(encode("1" * 400), rules())


def test_thinking_is_extended_only_while_the_context_has_a_block_for_it() -> None:
    turn = written("<think>1</think>2</think>3</think>", rules(300, EXTEND, 9))
    assert decode(turn.output) == "<think>1Wait2Wait3</think>"
