"""Logs of Inspect and of lm-evaluation-harness, built as those tools write them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.imports.conftest import Lines, Take

SPEC: dict[str, Any] = {
    "task": "capital",
    "model": "openai/gpt-x",
    "created": "2026-01-02T03:04:05+00:00",
    "model_generate_config": {"temperature": 0.5, "max_tokens": 64},
    "dataset": {"name": "capital"},
}


def usage(size: int, output: int, **more: int) -> dict[str, Any]:
    return {"input_tokens": size, "output_tokens": output, "total_tokens": size + output + sum(more.values()), **more}


def sample(name: str, epoch: int, text: Any, verdict: Any, **more: Any) -> dict[str, Any]:
    output = {"choices": [{"message": {"role": "assistant", "content": text}, "stop_reason": "stop"}], "usage": usage(10, 3), "time": 0.5}
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Capital of {name}?"},
        {"role": "assistant", "content": text, "source": "generate"},
    ]
    said = text if isinstance(text, str) else None
    return {
        "id": name,
        "epoch": epoch,
        "input": f"Capital of {name}?",
        "target": "Paris",
        "messages": turns,
        "output": output,
        "scores": {"match": {"value": verdict, "answer": said}},
        **more,
    }


SAMPLES = [
    sample("F", 2, "paris", "C"),
    sample("F", 1, "Paris", "C"),
    sample("F", 3, "Lyon", "I"),
    sample("G", 1, "Rome", 0),
    sample("G", 2, "Paris", 1.0),
    sample("G", 3, "Oslo", "P"),
]

Write = Callable[..., Path]


@pytest.fixture(params=["json", "eval", "unfinished"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    def run(samples: list[dict[str, Any]], **spec: Any) -> Path:
        header = {"version": 2, "status": "success", "eval": {**SPEC, **spec}}
        if request.param == "json":
            path = tmp_path / "log.json"
            path.write_text(json.dumps({**header, "samples": samples}))
            return path
        path = tmp_path / "log.eval"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
            for one in samples:
                log.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
            log.writestr("header.json" if request.param == "eval" else "_journal/start.json", json.dumps(header))
            log.writestr("_journal/summaries/1.json", "[]")
        return path

    return run


def test_epochs_are_draws_and_verdicts_are_labels(take: Take, write: Write) -> None:
    taken = take("inspect", write(SAMPLES))
    assert taken.code == 0, taken.err
    assert taken.rows("SELECT draw, answer, answer_class FROM candidates WHERE problem_id LIKE 'capital/test/F@%' ORDER BY draw") == [
        (0, "Paris", "paris"), (1, "paris", "paris"), (2, "Lyon", "lyon"),
    ]  # fmt: skip
    assert dict(taken.rows("SELECT answer_class, correct FROM grades")) == {"paris": True, "lyon": False, "rome": False}
    assert taken.rows(
        "SELECT model, strategy_label, success, candidate_success, charged_output_tokens, p50_latency_s FROM cell_metrics"
    ) == [("openai/gpt-x", "self_consistency@3", 0.5, 1.0, 18, 1.5)]
    assert taken.rows("SELECT DISTINCT started_at, max_output_tokens, request->'$.sampling[0]' FROM calls") == [(1767323045.0, 64, "0.5")]
    assert json.loads(taken.rows("SELECT messages FROM problems LIMIT 1")[0][0]) == [["system", "Be brief."], ["user", "Capital of F?"]]
    assert "that 'match' calls neither right nor wrong, and so without a label: 1" in taken.out


def test_the_scorers_calls_are_not_the_policys(take: Take, write: Write) -> None:
    def model(span: str, size: int, output: int, **more: int) -> dict[str, Any]:
        return {"event": "model", "span_id": span, "output": {"usage": usage(size, output, **more), "time": 0.25}}

    events = [
        {"event": "span_begin", "id": "s", "type": "solver"},
        model("s", 10, 1, input_tokens_cache_read=7),
        model("s", 20, 2, input_tokens_cache_read=0),
        {"event": "span_begin", "id": "j", "type": "scorers"},
        {"event": "span_begin", "id": "k", "type": "tool", "parent_id": "j"},
        model("j", 500, 50),
        model("k", 600, 60),
    ]
    taken = take("inspect", write([sample("F", 1, "Paris", "C", events=events, model_usage={"openai/gpt-x": usage(1130, 113)})]))
    columns = "input_tokens, cached_input_tokens, output_tokens, latency_s"
    assert taken.rows(f"SELECT {columns} FROM calls") == [(37, 7, 3, 0.5)], "cached input is part of the input"


def test_older_logs_mark_scorers_by_steps(take: Take, write: Write) -> None:
    events = [
        {"event": "model", "output": {"usage": usage(10, 1)}},
        {"event": "step", "action": "begin", "type": "scorer"},
        {"event": "model", "output": {"usage": usage(500, 50)}},
        {"event": "step", "action": "end", "type": "scorer"},
    ]
    taken = take("inspect", write([sample("F", 1, "Paris", "C", events=events)]))
    assert taken.rows("SELECT input_tokens, output_tokens, latency_s FROM calls") == [(10, 1, None)]


def test_several_turns_without_events_have_unknown_usage(take: Take, write: Write) -> None:
    one = sample("F", 1, "Paris", "C")
    one["messages"] += [{"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "Paris", "source": "generate"}]
    assert take("inspect", write([one])).rows("SELECT input_tokens, output_tokens, latency_s FROM calls") == [(None, None, None)]


def test_reasoning_attachments_errors_and_cut_answers(take: Take, write: Write) -> None:
    parts = [{"type": "reasoning", "reasoning": "attachment://a"}, {"type": "text", "text": "Paris"}]
    cut = sample("G", 1, "Par", "C")
    cut["output"]["choices"][0]["stop_reason"] = "max_tokens"
    failed = sample("H", 1, "", "I", error={"message": "it broke"})
    taken = take("inspect", write([sample("F", 1, parts, "C", attachments={"a": "long thoughts"}), cut, failed]))
    found = "SELECT answer_text, thinking_text, complete, stop_reason, stop_reason_raw FROM calls ORDER BY stop_reason_raw, answer_text"
    assert taken.rows(found) == [
        ("", None, False, "other", "error"), ("Par", None, False, "max_tokens", "max_tokens"),
        ("Paris", "long thoughts", True, "end_turn", "stop"),
    ]  # fmt: skip
    assert taken.rows("SELECT truncated_share FROM cell_metrics") == [(pytest.approx(2 / 3),)]


def test_of_several_scorers_one_counts(take: Take, write: Write) -> None:
    one = sample("F", 1, "Paris", "I")
    one["scores"]["judge"] = {"value": "C", "answer": "Paris"}
    path = write([one])
    first = take("inspect", path)
    assert "whose label is that of 'match' (--scorer takes another): 1" in first.out
    assert first.rows("SELECT success FROM cell_metrics") == [(0.0,)]
    assert take("inspect", path, "--scorer", "judge", study="judge").rows("SELECT success FROM cell_metrics") == [(1.0,)]
    assert "there is no score 'x'; the scorers are: match, judge" in take("inspect", path, "--scorer", "x", study="x").err


def test_what_is_no_log_is_refused(take: Take, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"samples": []}')
    assert "an Inspect log is an object with 'eval' and 'samples'" in take("inspect", path).err
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("x.json", "{}")
    assert "it is no Inspect log" in take("inspect", path).err
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("header.json", json.dumps({"eval": SPEC}))
        log.writestr("samples/F_epoch_1/sample.json", "{}")
    assert "its samples are stored in chunks" in take("inspect", path).err
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("header.json", json.dumps({"eval": SPEC}))
        log.writestr("samples/F_epoch_1.json", json.dumps({"id": "F"}))
    assert "log.eval, samples/F_epoch_1.json: there is no field 'input'" in take("inspect", path).err


# lm-evaluation-harness.


def document(doc_id: int, responses: list[str], name: str = "strict-match", **more: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "doc": {"question": f"q{doc_id}"},
        "target": "so #### 18",
        "arguments": {"gen_args_0": {"arg_0": f"Question: q{doc_id}\nAnswer:", "arg_1": {"until": ["\n"]}}},
        "resps": [responses],
        "filtered_resps": ["18"] if "18" in responses[0] else ["[invalid]"],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": "x",
        **more,
    }


def test_one_filter_of_a_harness_log_is_taken(take: Take, lines: Lines) -> None:
    rows = [document(0, ["it is 18"], exact_match=1.0), document(1, ["no"], exact_match=0.0)]
    other = [document(0, ["it is 18"], "flexible-extract", exact_match=0.0), document(1, ["no"], "flexible-extract", exact_match=1.0)]
    path = lines([*rows, *other], "samples_gsm8k_2026-01-02T03-04-05.678.jsonl")
    taken = take("lm-eval", path, "--model", "gpt2")
    assert taken.code == 0, taken.err
    assert taken.rows("SELECT dataset, model, strategy, success FROM cell_metrics") == [("gsm8k", "gpt2", "single", 0.5)]
    assert taken.rows("SELECT prompt FROM problems ORDER BY prompt LIMIT 1") == [("Question: q0\nAnswer:",)]
    said = "SELECT k.answer_text, c.answer FROM candidates c JOIN calls k ON contains(c.call_ids::VARCHAR, k.call_id) ORDER BY ALL"
    assert taken.rows(said) == [("it is 18", "18"), ("no", None)]
    assert "lines of other filters than 'strict-match', left out (--filter takes another): 2" in taken.out
    flexible = take("lm-eval", path, "--filter", "flexible-extract", study="flexible")
    assert flexible.rows("SELECT n_problems, n_correct FROM cell_metrics") == [(2, 1)]


def test_a_metric_over_several_responses_labels_none_of_them(take: Take, lines: Lines) -> None:
    path = lines([document(0, ["#### 18", "#### 17", "#### 18"], exact_match=1.0)], "samples_gsm8k.jsonl")
    taken = take("lm-eval", path)
    assert taken.rows("SELECT count(*) FROM grades") == [(0,)]
    assert "and so no label of any: 1" in taken.out
    graded = take("lm-eval", path, "--answer", "number", study="graded")
    assert dict(graded.rows("SELECT answer_class, correct FROM grades")) == {"18": True, "17": False}
    assert graded.rows("SELECT success FROM cell_metrics") == [(1.0,)]


def test_choices_by_likelihood_are_answers_too(take: Take, lines: Lines) -> None:
    row = {"doc_id": 0, "doc": {"q": "?"}, "target": "1", "resps": [[["-3.5", "False"]], [["-1.5", "True"]], [["-9", "False"]]], "acc": 1.0}
    taken = take("lm-eval", lines([row], "samples_arc.jsonl"))
    assert taken.code == 0, taken.err
    assert taken.rows("SELECT answer, success FROM solutions JOIN cell_metrics USING (cell_id)") == [("1", 1.0)]


def test_a_model_is_named_by_its_folder_of_results(take: Take, lines: Lines, tmp_path: Path) -> None:
    folder = tmp_path / "org__model"
    folder.mkdir()
    (folder / "results_2026.json").write_text("{}")
    path = lines([document(0, ["18"], exact_match=1.0)], "org__model/samples_gsm8k.jsonl")
    assert take("lm-eval", path).rows("SELECT model FROM cells") == [("org__model",)]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("crucible", [], "a crucible fixture is an object with 'meta' and 'records'"),
        (
            "crucible",
            {"meta": {"dataset": "d"}, "records": [{"problem_id": "p", "gold": "1", "traces": [{}]}]},
            "record 0, trace 0: there is no",
        ),
        ("tree-of-thought", {}, "a tree-of-thought log is a list of problems"),
        ("tree-of-thought", [{"idx": 1, "ys": ["a"], "accs": []}], "problem 0: 1 samples and 0 labels"),
        ("tree-of-thought", [{"idx": 1, "ys": ["a"], "accs": [True], "usage_so_far": {}}], "there is no field 'completion_tokens'"),
    ],
)
def test_what_is_wrong_with_a_whole_file_is_named(take: Take, tmp_path: Path, name: str, data: Any, said: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps(data))
    taken = take(name, path)
    assert taken.code == 2
    assert said in taken.err


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("gsm8k-solutions", {"question": "q", "ground_truth": "A: 1"}, "line 1: there is no system with a 'solution'"),
        ("qwen-rm", {"idx": 0, "question": "q", "gt": "1", "pred": ["1"], "score": [True, False], "response": ["t"]},
         "1 values in 'pred' and 2"),
        ("qwen-rm", {"idx": 0, "question": "q", "gt": "1", "pred": ["1"], "score": [True], "response": ["t"], "pred_score": [[1, 2]]},
         "must hold one number for each sample"),
        ("lm-eval", {"doc_id": 1}, "line 1: there is no field 'resps'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_line_is_named(take: Take, lines: Lines, name: str, row: dict[str, Any], said: str) -> None:
    taken = take(name, lines([row]))
    assert taken.code == 2
    assert said in taken.err


def test_a_log_without_usage_has_none(take: Take, tmp_path: Path) -> None:
    path = tmp_path / "gpt-4_0.7_naive_cot_sample_2_start0_end1.json"
    path.write_text(json.dumps([{"idx": 1, "ys": ["Answer: 1 = 24", "Answer: 2 = 24"], "infos": [{"r": 1}, {"r": 0}], "steps": []}]))
    taken = take("tree-of-thought", path)
    assert taken.rows("SELECT model, charged_usd, charged_output_tokens, candidate_success FROM cell_metrics") == [
        ("gpt-4 naive_cot", None, None, 1.0)
    ]
    assert "fields that were not used: steps (1)" in taken.out
