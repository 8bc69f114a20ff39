"""Which answers vote together."""

from __future__ import annotations

import asyncio
import time

import ttc_eval.answers
from ttc_eval.answers import AnswerClasses
from ttc_eval.records import AnswerContract, ContractKind

MATH = AnswerContract(kind=ContractKind.MATH)


def classify(contract: AnswerContract, *answers: str) -> list[str | None]:
    classes = AnswerClasses(contract)
    return [classes.classify(answer) for answer in answers]


def test_spellings_of_one_value_share_a_class() -> None:
    assert classify(MATH, "1/2", "0.5", r"\frac{1}{2}", "2") == ["1/2", "1/2", "1/2", "2"]
    assert classify(AnswerContract(kind=ContractKind.NUMBER), "1,000", "1000.0", "x") == ["1000", "1000", None]


def test_a_class_is_named_after_its_first_member() -> None:
    assert classify(MATH, r"\frac{1}{\sqrt3}", r"\frac{\sqrt3}{3}") == [r"\frac{1}{\sqrt3}"] * 2


def test_percent_never_ties_two_different_values_together() -> None:
    assert classify(MATH, "50%", "0.5", "50") == ["50%", "50%", "50"]
    assert classify(MATH, "0.5", "50", "50%") == ["1/2", "50", "1/2"]


def test_members_within_a_tolerance_are_all_near_each_other() -> None:
    loose = AnswerContract(kind=ContractKind.NUMBER, abs_tol=1.0)
    assert classify(loose, "1", "2", "3", "4") == ["1", "1", "3", "3"]


def test_known_classes_keep_their_names() -> None:
    classes = AnswerClasses(MATH, [r"\frac{\sqrt3}{3}", "2"])
    assert classes.classify(r"1/\sqrt3") == r"\frac{\sqrt3}{3}"
    assert classes.names == (r"\frac{\sqrt3}{3}", "2")


def test_the_event_loop_goes_on_while_a_formula_is_compared() -> None:
    async def run() -> tuple[list[str | None], float]:
        classes = AnswerClasses(MATH)
        longest, last = 0.0, time.monotonic()
        task = asyncio.gather(*(classes.aclassify(answer) for answer in ("1/2", r"\int_0^1 x dx", r"\sum_{k=1}^{3} k", "6", "0.5")))
        while not task.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        return task.result(), longest

    names, longest = asyncio.run(run())
    assert names[0] == names[1] == names[4]
    assert names[2] == names[3]
    assert longest < 0.5


def test_cheap_kinds_take_microseconds() -> None:
    kinds = {
        ContractKind.NUMBER: ("41", "42"),
        ContractKind.INTEGER: ("41", "42"),
        ContractKind.CHOICE: ("A", "B"),
        ContractKind.TEXT: ("Paris", "Rome"),
    }
    for kind, answers in kinds.items():
        classes = AnswerClasses(AnswerContract(kind=kind))
        started = time.perf_counter()
        for _ in range(1_000):
            for answer in answers:
                classes.classify(answer)
        assert (time.perf_counter() - started) / 2_000 < 200e-6


def test_the_public_names_are_complete_and_sorted() -> None:
    names = ttc_eval.answers.__all__
    assert names == sorted(names)
    assert all(hasattr(ttc_eval.answers, name) for name in names)
