"""How sure a model was of a candidate: signals from the log-probabilities of its tokens, or what it states when it is asked. Pure.

Three of the signals look at the sampled tokens alone, and say so in their names (`…_logprob`): e to the mean log-probability of a group of
tokens, in (0, 1]. Those of DeepConf (arXiv 2508.15260) look at the likeliest tokens in each place: a token's confidence is minus the mean
of their log-probabilities, which is the larger the more one of them stands out. Both grow with confidence; they are not on one scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate

from ttc_eval.records import Candidate

STATED_QUESTION = (
    "How confident are you that your answer is right? Reply with one whole number from 0 (certainly wrong) to 100 (certainly right) "
    "and nothing else."
)
# What may stand around the number. A sign or a decimal point before it would make it another one.
_MARKS = " \t\r\n()[]\"'*_`:="
_STATED = re.compile(r"(?:(?:proposed )?confidence[\s:=(*]+)?([0-9]{1,3})\s*(?:%|/\s*100)?", re.IGNORECASE)


class Signal(StrEnum):
    """What tells how sure a model was.

    | signal | what it is |
    |---|---|
    | `mean_logprob` | e to the mean log-probability of all sampled tokens |
    | `lowest_group_logprob` | the same over the sliding window of tokens where it is lowest |
    | `tail_logprob` | the same over the last `window` tokens |
    | `mean` | DeepConf's mean token confidence |
    | `lowest_group` | the lowest mean over a sliding window |
    | `bottom_groups` | the mean of the lowest tenth of those means |
    | `tail` | the mean over the last `window` tokens |
    | `stated` | what the model says when it is asked (CISC, arXiv 2502.06233), in [0, 1] |
    """

    MEAN_LOGPROB = "mean_logprob"
    LOWEST_GROUP_LOGPROB = "lowest_group_logprob"
    TAIL_LOGPROB = "tail_logprob"
    MEAN = "mean"
    LOWEST_GROUP = "lowest_group"
    BOTTOM_GROUPS = "bottom_groups"
    TAIL = "tail"
    STATED = "stated"

    @property
    def least_logprobs(self) -> int | None:
        """The `sampling.logprobs` that it needs at least; None when it needs none."""
        if self is Signal.STATED:
            return None
        # The likeliest token alone would turn the measure around: it is the others that tell how far it stands out.
        return 0 if self.value.endswith("logprob") else 2


def confidence(candidate: Candidate, signal: Signal, window: int) -> float | None:
    """The signal of a candidate, 0 or more; None when it came without the log-probabilities that the signal needs.

    `window` is the length of a group and of the tail, in tokens; a shorter candidate is one group.
    Raises ValueError for `stated`, which has to be asked for.
    """
    if signal is Signal.STATED:
        raise ValueError("a stated confidence has to be asked for")
    sampled = signal.value.endswith("logprob")
    values = candidate.token_logprobs if sampled else token_confidences(candidate.top_logprobs or ())
    if not values:
        return None
    found = _part(signal, values, window)
    return math.exp(min(found, 0.0)) if sampled else max(found, 0.0)


def token_confidences(top_logprobs: Sequence[Sequence[float]]) -> list[float]:
    """Minus the mean log-probability of the likeliest tokens in each place (DeepConf); a place without any is left out."""
    return [-_mean(top) for top in top_logprobs if top]


def group_means(values: Sequence[float], window: int) -> list[float]:
    """Means over a sliding window, one for each place where it fits; the mean of all when they are fewer."""
    if len(values) <= window:
        return [_mean(values)]
    sums = list(accumulate(values, initial=0.0))
    return [(sums[place + window] - sums[place]) / window for place in range(len(values) - window + 1)]


def bottom_mean(values: Sequence[float], window: int) -> float:
    """The mean of the lowest tenth of the group means, rounded down, one at least."""
    means = sorted(group_means(values, window))
    lowest = means[: max(1, len(means) // 10)]
    return _mean(lowest)


def read_stated(reply: str) -> float | None:
    """The confidence in a reply, in [0, 1]. None when it is not one whole number from 0 to 100: never a guess."""
    found = _STATED.fullmatch(reply.strip(_MARKS).rstrip(_MARKS + "."))
    value = None if found is None else int(found[1])
    return None if value is None or value > 100 else value / 100


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _part(signal: Signal, values: Sequence[float], window: int) -> float:
    match signal:
        case Signal.LOWEST_GROUP | Signal.LOWEST_GROUP_LOGPROB:
            return min(group_means(values, window))
        case Signal.TAIL | Signal.TAIL_LOGPROB:
            return _mean(values[-window:])
        case Signal.BOTTOM_GROUPS:
            return bottom_mean(values, window)
        case _:
            return _mean(values)
