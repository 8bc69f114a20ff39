"""What a model wrote goes back verbatim and in order, or nothing is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.errors import UserError
from ttc_eval.history import Dropped, History, ToolResult, history_of
from ttc_eval.records import UNKNOWN_USAGE, CallStop, Message, Request, Response, Sampling, Timings
from ttc_eval.thinking import Thinking

THOUGHT = {"type": "thinking", "thinking": "look it up", "signature": "QUJD"}
SEALED = {"type": "redacted_thinking", "data": "eA=="}
SAID = {"type": "text", "text": "Let me see."}
CALL = {"type": "tool_use", "id": "t1", "name": "calc", "input": {"x": 2}}
OTHER_CALL = {"type": "tool_use", "id": "t2", "name": "calc", "input": {"x": 3}}


def request(model: str = "model-a") -> Request:
    return Request(model, "e", (Message("user", "2+2?"),), Thinking(), Sampling(), 32, 96)


def response(*blocks: dict[str, Any], stop: CallStop = CallStop.TOOL_USE) -> Response:
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    return Response(text, stop, UNKNOWN_USAGE, Timings(0, None, 0), blocks=blocks)


def asked(*blocks: dict[str, Any]) -> History:
    return history_of(request()).answered(response(*blocks))


def test_recorded_replays(case_list: dict[str, dict]) -> None:
    first = case_list["thinking_replay-01"]
    result = ToolResult(first["input"]["tool_result"]["tool_use_id"], first["input"]["tool_result"]["content"])
    sent = asked(*first["input"]["assistant_content"]).with_results([result]).next_request(request())
    assert json.dumps(list(sent.messages[1].blocks)) == json.dumps(first["expected"]["next_assistant_content"])
    assert sent.messages[2].blocks == ({"type": "tool_result", "tool_use_id": "t1", "content": "4"},)

    unsigned = case_list["thinking_replay-03"]
    history = asked(*unsigned["input"]["assistant_content"])
    assert list(history.messages[1].blocks) == unsigned["expected"]["next_assistant_content"]
    assert history.dropped == (Dropped(1, 0, "thinking", "no_signature"),)

    moved = case_list["thinking_replay-05"]
    start = History(moved["input"]["recorded_model"], request().messages)
    history = start.answered(response(*moved["input"]["assistant_content"], stop=CallStop.END)).for_model(moved["input"]["next_model"])
    assert list(history.messages[1].blocks) == moved["expected"]["next_assistant_content"]
    assert [entry.reason for entry in history.dropped] == [moved["expected"]["reason"]]
    assert history.next_request(request(moved["input"]["next_model"])).model == "model-b"


@pytest.fixture
def case_list(shared: Any) -> dict[str, dict]:
    lines = (shared / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


def test_a_turn_goes_back_with_every_block_and_its_results_in_the_order_of_the_calls() -> None:
    blocks = (THOUGHT, SEALED, SAID, CALL, OTHER_CALL)
    history = asked(*blocks).with_results([ToolResult("t2", "9"), ToolResult("t1", "4", failed=True)], text="go on")
    sent = history.next_request(request())
    assert sent.messages[1] == Message("assistant", "Let me see.", blocks)
    assert [block.get("tool_use_id") for block in sent.messages[2].blocks] == ["t1", "t2", None]
    assert sent.messages[2].blocks[0]["is_error"] is True
    assert sent.segment == 1
    assert sent.key != request().key


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ((SEALED, SAID, CALL), r"block 0 \(thinking\) was dropped"),
        ((THOUGHT, SAID, CALL), r"block 1 \(redacted_thinking\) was dropped"),
        ((THOUGHT, SEALED, SAID), r"block 3 \(tool_use\) was dropped"),
        ((THOUGHT | {"thinking": "look  it up"}, SEALED, SAID, CALL), r"block 0 \(thinking\) was edited \(thinking\)"),
        ((THOUGHT | {"signature": "QUJE"}, SEALED, SAID, CALL), r"block 0 \(thinking\) was edited \(signature\)"),
        ((THOUGHT, SEALED | {"data": "eQ=="}, SAID, CALL), r"block 1 \(redacted_thinking\) was edited \(data\)"),
        ((THOUGHT, SEALED, SAID, CALL | {"input": {"x": 5}}), r"block 3 \(tool_use\) was edited \(input\)"),
        ((CALL, THOUGHT, SEALED, SAID), r"block 0 \(thinking\) was moved to place 1"),
        ((SEALED, THOUGHT, SAID, CALL), r"block 0 \(thinking\) was moved to place 1"),
        ((THOUGHT, SEALED, SAID, CALL, SAID), r"block 4 \(text\) was added"),
        ((), r"block 0 \(thinking\) was dropped"),
    ],
)
def test_a_block_that_was_dropped_edited_moved_or_added_is_refused_by_name(blocks: tuple[Any, ...], said: str) -> None:
    history = asked(THOUGHT, SEALED, SAID, CALL).with_results([ToolResult("t1", "4")])
    changed = (history.messages[0], Message("assistant", "Let me see.", blocks), history.messages[2])
    with pytest.raises(UserError, match=rf"messages\[1\]: {said}; send the turn back verbatim"):
        history.next_request(request(), changed)


def test_a_turn_that_is_missing_or_whose_text_was_edited_is_refused() -> None:
    plain = Response("4", CallStop.END, UNKNOWN_USAGE, Timings(0, None, 0))
    history = history_of(request()).answered(plain).asked("and 3+3?")
    with pytest.raises(UserError, match=r"messages\[1\]: the assistant's turn was dropped"):
        history.check(history.messages[:1])
    with pytest.raises(UserError, match="text was edited"):
        history.check((history.messages[0], Message("assistant", "5"), history.messages[2]))
    assert history.next_request(request()).messages == history.messages


@given(st.permutations([0, 1, 2, 3]), st.integers(0, 4))
def test_only_the_whole_turn_in_its_order_passes(order: list[int], length: int) -> None:
    blocks = (THOUGHT, SEALED, CALL, OTHER_CALL)
    history = asked(*blocks).with_results([ToolResult("t1", "4"), ToolResult("t2", "9")])
    sent = tuple(blocks[place] for place in order[:length])
    changed = (history.messages[0], Message("assistant", "", sent), history.messages[2])
    if sent == blocks:
        history.check(changed)
    else:
        with pytest.raises(UserError, match=r"messages\[1\]: block \d \((thinking|redacted_thinking|tool_use)\) was"):
            history.check(changed)


def test_every_call_needs_its_result_and_every_result_its_call() -> None:
    history = asked(THOUGHT, CALL, OTHER_CALL)
    with pytest.raises(UserError, match=r"messages\[1\]: block 2 \(tool_use\) has no result"):
        history.with_results([ToolResult("t1", "4")])
    with pytest.raises(UserError, match=r"'t9'.*it calls: t1, t2"):
        history.with_results([ToolResult("t1", "4"), ToolResult("t2", "9"), ToolResult("t9", "?")])
    with pytest.raises(UserError, match="wait for their results"):
        history.asked("hello?")


def test_another_model_cannot_take_over_inside_a_tool_loop() -> None:
    pending = asked(THOUGHT, CALL)
    for history in (pending, pending.with_results([ToolResult("t1", "4")])):
        with pytest.raises(UserError, match=r"messages\[1\]: block 0 \(thinking\) belongs to a tool loop of model 'model-a'"):
            history.for_model("model-b")
    done = pending.with_results([ToolResult("t1", "4")]).answered(response(SEALED, SAID, stop=CallStop.END)).asked("thanks")
    with pytest.raises(UserError, match=r"for_model\('model-b'\)"):
        done.next_request(request("model-b"))
    moved = done.for_model("model-b")
    assert [entry.position for entry in moved.dropped] == [1, 3]
    assert [message.blocks for message in moved.messages] == [(), (CALL,), moved.messages[2].blocks, (SAID,), ()]
    assert moved.next_request(request("model-b")).messages == moved.messages
    assert done.for_model("model-a") is done


def test_what_was_left_out_is_named_by_its_place_as_received() -> None:
    history = asked({"type": "text", "text": ""}, THOUGHT, SAID, SEALED).asked("more")
    moved = history.for_model("model-b")
    assert [(entry.index, entry.kind, entry.reason) for entry in moved.dropped] == [
        (0, "text", "empty_text"),
        (1, "thinking", "signature_bound_to_model"),
        (3, "redacted_thinking", "signature_bound_to_model"),
    ]


def test_omitted_thinking_goes_back_and_a_turn_of_nothing_does_not() -> None:
    omitted = THOUGHT | {"thinking": ""}
    assert asked(omitted, CALL).messages[1].blocks == (omitted, CALL)
    with pytest.raises(UserError, match=r"messages\[1\]: nothing of this turn can be sent back; it ended \(max_tokens\)"):
        history_of(request()).answered(response(THOUGHT | {"signature": ""}, stop=CallStop.MAX_TOKENS))
