"""The recorded cases of kinds `answer_equivalence` and `majority_vote`, and the published data they point to."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ttc_eval.answers import AnswerClasses, canonical, extract, same_answer
from ttc_eval.records import AnswerContract, ContractKind

SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


def contract_of(given: dict[str, Any]) -> AnswerContract:
    kind = ContractKind(given.get("answer_type", "math"))
    return AnswerContract(kind=kind, rel_tol=given.get("rel_tol", 0.0), abs_tol=given.get("abs_tol", 0.0))


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def test_equivalence(equivalence_case: dict[str, Any], shared: Path) -> None:
    given, expected = equivalence_case["input"], equivalence_case["expected"]
    contract = contract_of(given)
    match given["op"]:
        case "equal":
            canary = Path(given["canary"]) if "canary" in given else None
            if canary is not None:
                canary.unlink(missing_ok=True)
            assert same_answer(given["gold"], given["prediction"], contract) is expected["equal"]
            assert same_answer(given["prediction"], given["gold"], contract) is expected["equal"]
            assert canary is None or not canary.exists()
        case "extract":
            tags = tuple(given["think_tags"]) if "think_tags" in given else None
            found = extract(given["completion"], contract, complete=given.get("finish_reason") != "length", think_tags=tags)
            assert found.answer == expected["extracted"]
            assert (found.answer is not None and same_answer(found.answer, given["gold"], contract)) is expected["correct"]
            assert found.reason == expected.get("reason", found.reason)
        case "self_equality":
            golds = [str(row[given["field"]]) for row in read_rows(shared / given["file"])]
            assert len(golds) == given["rows"]
            assert sum(same_answer(gold, gold, contract) for gold in golds) == expected["equal_count"]
        case other:
            pytest.skip(f"no test for op {other!r}")


def test_majority_vote(vote_case: dict[str, Any]) -> None:
    given, expected = vote_case["input"], vote_case["expected"]
    if "answers" not in given:
        pytest.skip("replays a file: tested with the metrics")
    contract = contract_of(given)
    classes = AnswerClasses(contract)
    names = [None if answer is None else classes.classify(answer) for answer in given["answers"]]
    votes = Counter(name for name in names if name is not None).most_common()
    winner, count = votes[0]
    members = [answer for answer, name in zip(given["answers"], names, strict=True) if name == winner]
    facts = {
        "winner_group": members, "votes": count, "winner_votes": count, "n": len(names), "selected_index": names.index(winner),
        "valid_votes": sum(name is not None for name in names), "correct": same_answer(winner, given["gold"], contract),
    }  # fmt: skip
    assert len(votes) < 2 or votes[1][1] < count
    assert {key: facts[key] for key in expected if key in facts} == {key: value for key, value in expected.items() if key in facts}
    if "winner" in expected:
        assert same_answer(winner, expected["winner"], contract)


@pytest.mark.parametrize("name", ["aime24_test", "amc23_test", "math500_test"])
def test_every_gold_of_the_math_sets_equals_itself(name: str, shared: Path) -> None:
    contract = AnswerContract(kind=ContractKind.MATH)
    for row in read_rows(shared / "data" / "math" / f"{name}.jsonl"):
        gold = str(row["answer"])
        assert same_answer(gold, gold, contract), gold
        assert same_answer(extract(rf"So \boxed{{{gold}}}.", contract).answer or "", gold, contract), gold


def test_every_gold_of_gsm8k_is_a_number_that_equals_itself(shared: Path) -> None:
    contract = AnswerContract(kind=ContractKind.NUMBER)
    for row in read_rows(shared / "data" / "gsm8k" / "test.jsonl"):
        answer = extract(row["answer"], contract).answer
        assert answer is not None
        assert canonical(answer, contract) == row["answer"].rpartition("####")[2].strip().replace(",", "")


def test_gsm8k_solutions_agree_with_their_published_labels(shared: Path) -> None:
    contract = AnswerContract(kind=ContractKind.NUMBER)
    correct: Counter[str] = Counter()
    solved = 0
    for row in read_rows(shared / "data" / "gsm8k" / "example_model_solutions.jsonl"):
        truth = extract(row["ground_truth"], contract).answer or ""
        verdicts = {system: same_answer(extract(row[system]["solution"], contract).answer or "", truth, contract) for system in SYSTEMS}
        assert verdicts == {system: row[system]["is_correct"] for system in SYSTEMS}
        correct.update(system for system, verdict in verdicts.items() if verdict)
        solved += any(verdicts.values())
    assert [correct[system] for system in SYSTEMS] == [286, 515, 458, 742]
    assert solved == 887
