"""What a user can get wrong fails before anything is spent, in a line or two, with exit code 2."""

from __future__ import annotations

import pytest

from tests.sweep.conftest import Sweep
from ttc_eval.sweep.app import compose, plain

SIMULATED = ["model=simulated", "dataset=quickstart", "dataset.limit=5"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model=nope"], ["model=nope: there is no such model", "scripted", "simulated", "smollm2"]),
        (["strategy=self_consistancy"], ["did you mean self_consistency?"]),
        (
            ["strategy=self_consistency", "strategy.max_attemps=8"],
            ["strategy.max_attemps: there is no such key", "did you mean strategy.max_attempts?"],
        ),
        (
            ["strategy=self_consistency", "+strategy.max_attemps=8"],
            ["strategy.max_attemps: there is no such key", "did you mean strategy.max_attempts?"],
        ),
        (["strategy=self_consistency", "strategy.max_attempts=many"], ["strategy.max_attempts='many'", "integer"]),
        (["strategy=self_consistency", "strategy.max_attempts=0"], ["strategy.max_attempts"]),
        (["strategy.no.such=1"], ["strategy.no: there is no such key"]),
        (["sead=1"], ["sead: there is no such key", "did you mean seed?"]),
        (["thinking.mode=hard"], ["thinking.mode='hard'", "'budget'"]),
        (["thinking=effort"], ["thinking=effort", "it takes: off, budget"]),
        (["limits.problem.output_token=5"], ["did you mean limits.problem.output_tokens?"]),
        (["limits.problem.usd=1"], ["limits.problem.usd", "has no price"]),
        (["limits.sweep.calls=-1"], ["calls: -1"]),
        (["answer_tokens=0"], ["answer_tokens=0"]),
        (["study=../x"], ["study=../x"]),
        (["dataset=gsm8k", "dataset.path=nowhere.jsonl"], ["dataset.path=nowhere.jsonl", "does not exist"]),
        (["dataset.reference=solution"], ["no column solution", "the columns are"]),
        (["model=scripted"], ["model.replies"]),
        (["model._target_=os.system"], ["model._target_=os.system"]),
        (["strategy=single,self_consistency"], ["-m"]),
        (["=5"], [""]),
        (["seed=99999999999999999999999"], ["seed=99999999999999999999999"]),
        (["seed=-1"], ["seed=-1"]),
        (["answer_tokens=3000000000"], ["answer_tokens=3000000000"]),
        (["thinking=budget", "thinking.budget=3000000000"], ["thinking.budget"]),
        (["strategy=single", "strategy.max_output_tokens=10000000000"], ["strategy.max_output_tokens"]),
        (
            ["thinking=budget", "thinking.budget=64", "strategy.max_output_tokens=64"],
            ["strategy.max_output_tokens=64", "room for an answer"],
        ),
        (["retry.max_attempts=0"], ["retry.max_attempts=0"]),
        (["model.max_concurrency=0"], ["model.max_concurrency=0"]),
        (["sampling.temperature=-5"], ["sampling.temperature=-5"]),
        (["sampling.temperature=nan"], ["sampling.temperature"]),
        (["sampling.top_p=0"], ["sampling.top_p=0"]),
        (["study=null"], ["study=None"]),
        (["model.price.own={input: -1, output: 2}"], ["model.price.own"]),
        (["model.answer_tokens=nan"], ["token counts"]),
        (["results_dir=/dev/null/x"], ["results_dir=/dev/null/x"]),
        (["dataset.answer.kind=choice"], ["no valid answer of kind choice"]),
    ],
)
def test_a_mistake_is_named_before_anything_is_spent(sweep: Sweep, arguments: list[str], said: list[str]) -> None:
    base = [one for one in SIMULATED if one.split("=")[0] not in {argument.split("=")[0] for argument in arguments}]
    if any(argument.startswith("dataset=") for argument in arguments):
        base = [one for one in base if not one.startswith("dataset.")]
    outcome = sweep(*base, *arguments)
    assert outcome.code == 2, outcome.out
    assert all(words in outcome.err for words in said), outcome.err
    assert "Traceback" not in outcome.err
    assert len(outcome.err.strip().splitlines()) <= 2
    assert not list(outcome.path.parent.iterdir())


@pytest.mark.parametrize("order", ["self_consistency,best_of_n", "best_of_n,self_consistency", "choice(self_consistency,best_of_n)"])
def test_a_key_that_only_some_swept_choices_have_names_the_others(sweep: Sweep, order: str) -> None:
    outcome = sweep("-m", *SIMULATED, f"strategy={order}", "strategy.max_attempts=4")
    assert outcome.code == 2
    assert outcome.err.strip() == (
        "strategy.max_attempts: strategy=best_of_n has no such key, strategy=self_consistency has; "
        "run them apart: strategy=self_consistency strategy.max_attempts=…, then strategy=best_of_n without the key"
    )
    assert not list(outcome.path.parent.iterdir())


def test_a_key_that_all_swept_choices_have_is_set_in_each(sweep: Sweep) -> None:
    outcome = sweep(
        "-m",
        *SIMULATED,
        "strategy=self_consistency,adaptive_consistency",
        "strategy.max_attempts=3",
        "thinking=budget",
        "thinking.budget=8",
    )
    assert outcome.code == 0, outcome.err
    found = outcome.study.sql("SELECT strategy, strategy_params->>'$.max_attempts' AS most, thinking_budget FROM cells ORDER BY strategy")
    assert found.to_numpy().tolist() == [["adaptive_consistency", "3", 8], ["self_consistency", "3", 8]]


@pytest.mark.parametrize("value", ["'Be brief, please'", "[a,b]", "http://127.0.0.1:9/v1", "null"])
def test_a_value_of_a_swept_group_stays_what_it_is(value: str) -> None:
    together = compose(["-m", "model=simulated", "dataset=quickstart,lab", f"dataset.system={value}"])
    alone = compose(["model=simulated", "dataset=quickstart", f"dataset.system={value}"])
    assert [plain(one)["dataset"]["system"] for one in together] == [plain(alone[0])["dataset"]["system"]] * 2


def test_keys_of_several_swept_choices_are_told_apart_one_by_one(sweep: Sweep) -> None:
    outcome = sweep("-m", *SIMULATED, "strategy=self_consistency,single,best_of_n", "strategy.n=2", "strategy.max_attempts=4")
    assert outcome.code == 2
    assert "strategy=self_consistency,single has no such key, strategy=best_of_n has" in outcome.err


def test_a_key_that_no_swept_choice_has_is_just_wrong(sweep: Sweep) -> None:
    outcome = sweep("-m", *SIMULATED, "strategy=self_consistency,best_of_n", "strategy.nope=4")
    assert outcome.code == 2
    assert "strategy.nope: there is no such key; the keys are" in outcome.err


def test_an_unreachable_hub_is_one_clear_line_at_once(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    outcome = sweep("model=simulated", "dataset=gsm8k")
    assert outcome.code == 2
    assert "the Hub cannot be reached" in outcome.err
    assert "dataset.path=FILE" in outcome.err


def test_lists_and_quoted_commas_are_one_value_and_plain_commas_are_cells(sweep: Sweep) -> None:
    outcome = sweep(
        "-m", *SIMULATED, "seed=0,1", "strategy=single,self_consistency_4", "sampling.stop=[a,b]", "dataset.system='Be brief, please'"
    )
    assert outcome.code == 0, outcome.err
    assert outcome.one("SELECT count(*) AS n FROM cells")["n"] == 4
    config = outcome.one("SELECT DISTINCT config->>'$.dataset.system' AS system, config->>'$.sampling.stop' AS stop FROM cells")
    assert config == {"system": "Be brief, please", "stop": '["a","b"]'}


def test_what_belongs_to_the_whole_sweep_cannot_be_swept(sweep: Sweep) -> None:
    outcome = sweep("-m", *SIMULATED, "limits.sweep.calls=5,6")
    assert outcome.code == 2
    assert "limits.sweep" in outcome.err


def test_headers_never_reach_the_store(sweep: Sweep) -> None:
    outcome = sweep(
        "model=openai_compatible",
        "model.base_url=http://127.0.0.1:9/v1",
        "model.model=m",
        "+model.headers={x-key: planted-secret}",
        "dataset=one_question",
        "retry.max_attempts=1",
    )
    assert outcome.code == 1
    texts = outcome.out + outcome.err + outcome.path.read_bytes().decode("latin-1")
    texts += "".join(file.read_text() for file in outcome.path.with_suffix(".journal").iterdir())
    assert "planted-secret" not in texts
