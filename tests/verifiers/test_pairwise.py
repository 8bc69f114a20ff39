"""The pairwise verifier: a choice between two candidates, read as any verdict is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweep.conftest import Sweep, sweep  # noqa: F401
from ttc_eval import cli
from ttc_eval.errors import UserError
from ttc_eval.records import AnswerContract, Message, Preferred, Question
from ttc_eval.verifiers import Pairwise, PairwiseVerifier
from ttc_eval.verifiers.quoting import shown

QUESTION = Question("p", (Message("system", "s"), Message("user", "What is 2 + 2?")), AnswerContract())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ('{"better": "A"}', Preferred.FIRST),
        ('{"rationale": "shorter", "better": " b "}', Preferred.SECOND),
        ('```json\n{"better": "Tie"}\n```', Preferred.TIE),
        ('Candidate A writes {"better": "A"}. It is wrong.\n{"better": "B"}', Preferred.SECOND),
        ('{"better": "C"}', None),
        ('{"better": "CANDIDATE A"}', None),
        ('{"better": 1}', None),
        ('{"better": null}', None),
        ('{"better": ["A"]}', None),
        ('{"better": "A", "better": "B"}', None),
        ('Candidate A writes {"better": "A"}. I say {"better": "', None),
        ("A", None),
        ("", None),
    ],
)
def test_a_choice_is_read_or_invalid(reply: str, said: Preferred | None) -> None:
    assert Pairwise().read_preference(reply) is said


@given(st.text(max_size=30), st.text(max_size=30))
def test_both_texts_are_shown_each_in_its_place(first: str, second: str) -> None:
    (message,) = Pairwise().pair_messages(QUESTION, first, second)
    assert shown(message.content, "QUESTION") == "What is 2 + 2?"
    swapped = Pairwise().pair_messages(QUESTION, second, first)[0].content
    assert shown(message.content, "CANDIDATE A") == shown(swapped, "CANDIDATE B")
    assert shown(message.content, "CANDIDATE B") == shown(swapped, "CANDIDATE A")


def test_it_compares_and_scores_none() -> None:
    assert isinstance(Pairwise(), PairwiseVerifier)
    assert not hasattr(Pairwise(), "messages")
    with pytest.raises(UserError, match="answer_tokens"):
        Pairwise(answer_tokens=0)


@pytest.mark.parametrize("verifier", ["pairwise", "rule"])
def test_verify_refuses_what_scores_no_stored_text(sweep: Sweep, capsys: pytest.CaptureFixture[str], verifier: str) -> None:  # noqa: F811
    study = sweep("model=scripted", "model.replies=[42]", "dataset=one_question").path
    assert cli.main(["verify", str(study), "model=simulated", f"verifier={verifier}", "what=answer"]) == 2
    assert "take for example verifier=outcome" in capsys.readouterr().err
