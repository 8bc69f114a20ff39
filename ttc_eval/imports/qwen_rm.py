"""`qwen-rm`: files of Qwen2.5-Math's rm_maj_eval, `{idx, question, gt, pred, score (labels), pred_score (rewards), response or code}`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ttc_eval.errors import UserError
from ttc_eval.imports.reading import lines, may, name_of, need, note_ignored
from ttc_eval.imports.samples import Contents, Options, Sample, Tally
from ttc_eval.records import AnswerContract, ContractKind, Message, Usage, UsageSource

SUMMARY = "reward files of Qwen2.5-Math (pred, score, pred_score)"
SCORE = "reward"
_NO_OUTPUT = Usage(None, 0, source=UsageSource.COUNTED)
_USED = ("idx", "question", "gt", "pred", "score", "pred_score", "response", "code", "system", "level")


def read(path: Path, options: Options) -> Contents:
    """The samples of a file. Who answered is not in it. Raises `UserError`, also while they are read."""
    tally = Tally()
    return Contents(
        dataset=options.dataset or path.stem,
        split=options.split or "test",
        samples=_samples(path, options, tally),
        tally=tally,
        contract=AnswerContract(ContractKind.MATH),
        extracts=False,
    )


def _samples(path: Path, options: Options, tally: Tally) -> Iterator[Sample]:
    for where, row in lines(path):
        note_ignored(tally, row, _USED)
        answers = need(row, "pred", list, where)
        texts = may(row, "response", list, where) or need(row, "code", list, where)
        labels, rewards = need(row, "score", list, where), may(row, "pred_score", list, where) or []
        for name, values in (("response", texts), ("score", labels), *((("pred_score", rewards),) if rewards else ())):
            if len(values) != len(answers):
                raise UserError(f"{where}: {len(answers)} values in 'pred' and {len(values)} in {name!r}")
        system = may(row, "system", str, where)
        turns = (*((Message("system", system),) if system else ()), Message("user", need(row, "question", str, where)))
        for draw, answer in enumerate(answers):
            here = f"{where}, sample {draw}"
            reward = _reward(rewards[draw], here) if rewards else None
            yield Sample(
                problem=name_of(row, "idx", where),
                where=here,
                system=options.model or path.stem,
                text=_text(texts[draw], here),
                seed=options.seed or 0,
                draw=draw,
                messages=turns,
                reference=str(need(row, "gt", (str, int, float), where)),
                difficulty=may(row, "level", str, where),
                answer=_text(answer, here) or None,
                correct=_label(labels[draw], here),
                scores={} if reward is None else {SCORE: reward},
                score_usage={SCORE: _NO_OUTPUT},
            )


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where}: 'pred' and 'response' must be texts")
    return value


def _label(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{where}: 'score' must be true or false, the label of the sample")
    return value


def _reward(value: object, where: str) -> float:
    """The reward of a sample: a number, or a list of one."""
    reward = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise UserError(f"{where}: 'pred_score' must hold one number for each sample")
    return float(reward)
