"""The task: exact answers, a checker that judges each step on its own, and splits that never meet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttc_eval.lab.corpus import Mix, draw_batch, draw_chains
from ttc_eval.lab.task import OPERATORS, Chain, Split, check_steps, parse, scratchpad
from ttc_eval.lab.tokens import CONTEXT, decode

DATA = Path(__file__).parents[2] / "data" / "lab"
STEPS = st.tuples(st.sampled_from(OPERATORS), st.integers(0, 9))
CHAINS = st.builds(Chain, st.integers(0, 99), st.lists(STEPS, min_size=1, max_size=12).map(tuple))


@given(CHAINS)
def test_a_chain_is_worth_what_python_makes_of_it(chain: Chain) -> None:
    value = chain.start
    for operator, operand in chain.steps:
        value = {"+": value + operand, "-": value - operand, "*": value * operand}[operator] % 100
    assert chain.answer == value
    assert parse(f"Evaluate from left to right, modulo 100: {chain}") == chain


@given(CHAINS)
def test_every_step_of_an_exact_scratchpad_is_right(chain: Chain) -> None:
    checked = check_steps(chain, scratchpad(chain))
    assert len(checked) == len(chain.steps)
    assert all(step.right for step in checked)


@pytest.mark.parametrize(
    ("written", "verdicts"),
    [
        ("37+8=45;45-5=41;41*3=23;", [True, False, True]),  # goes on rightly from a wrong value
        ("37+8=45;44-5=39;39*3=17;", [True, False, True]),  # takes up another value than was written
        ("37+8=45;45-5=40;40*3=20;20+1=21;", [True, True, True, False]),  # beyond the chain
        ("37+8=45;45*3=35;", [True, False]),  # another step than the chain's
        ("37+8=45;45-5=4", [True]),  # unfinished
        ("37+8=46;Wait37+8=45;45-5=40;", [False, True, True]),  # begins anew
        ("nonsense;37+8=45;", [False, False]),
        ("", []),
    ],
)
def test_the_checker_judges_each_step_on_its_own(written: str, verdicts: list[bool]) -> None:
    assert [step.right for step in check_steps(parse("37+8-5*3"), written)] == verdicts


@pytest.mark.parametrize("text", ["", "what is 7?", "7+8", "137+8", "37+8+", "37+12", "37" + "+1" * 13])
def test_what_is_no_chain_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no chain"):
        parse(text)


def test_the_data_sets_are_what_the_seed_makes_and_right() -> None:
    assert subprocess.run([sys.executable, str(DATA / "make.py"), "--check"], check=False).returncode == 0
    for name in ("dev", "heldout"):
        rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        assert len({row["chain"] for row in rows}) == len(rows) == 300
        for row in rows:
            chain = parse(row["chain"])
            assert (chain.answer, len(chain.steps), chain.split) == (int(row["answer"]), row["steps"], Split(name))


def test_training_and_the_verifiers_training_never_draw_a_chain_of_another_split() -> None:
    rng = np.random.default_rng(0)
    for split in (Split.TRAIN, Split.VERIFIER):
        for steps in (1, 2, 7):
            chains = draw_chains(rng, 200, steps, split)
            assert {chains.chain(row).split for row in range(200)} == {split}


def test_training_text_is_right_wherever_it_has_weight() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        batch = draw_batch(rng, 1024, Mix())
        assert batch.positions.max() < CONTEXT
        for tokens, weights in zip(batch.tokens, batch.weights, strict=True):
            text = decode(tokens.tolist())
            chain = parse(text.partition("=")[0])
            thinking, _, answer = text.partition("<think>")[2].partition("</think>")
            assert chain.split is Split.TRAIN
            assert answer.partition("<end>")[0] == f"{chain.answer:02d}"
            attempts = thinking.split("Wait")
            assert scratchpad(chain).startswith(attempts[-1])
            place = text.index("<think>") + 1  # specials before here: none
            for attempt in attempts:
                for step, checked in enumerate(check_steps(chain, attempt)):
                    result = weights[place + 8 * step + 5 : place + 8 * step + 7]
                    assert checked.right == bool(result.all())
                place += len(attempt) + 1
