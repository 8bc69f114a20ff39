"""The verifier objects of TTC-v2: one JSON object that links a score to the thinking that it scores.

`candidate` is the complete, unmodified text of the thinking blocks, one after another, `[WAIT]` included where a server wrote it. An object
whose candidate is not the stored text scores something else: it is refused, never trimmed, clamped or converted until it fits.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import orjson

from ttc_eval.protocol.schemas import Schema, violation
from ttc_eval.verifiers.base import Reading
from ttc_eval.verifiers.verdict import last_verdict

# The fields that hold what a judge says, in a reply that may also name what it is about.
_VERDICTS = ("score", "steps", "verdict")


class ScoreRefused(ValueError):
    """A verifier object that is not valid; the text names the field and how it must be."""


@dataclass(frozen=True, slots=True)
class VerifierScore:
    """A valid verifier object. `score` is in [0, 1]; `trace_id` is the id of the response whose thinking is `candidate`."""

    trace_id: str
    candidate: str
    score: float
    rationale: str

    def __post_init__(self) -> None:
        _check(asdict(self))

    def encode(self) -> bytes:
        """The object as JSON, on one line without an end."""
        return orjson.dumps(asdict(self))


def parse(data: bytes | str) -> VerifierScore:
    """The verifier object in `data`. Raises `ScoreRefused`; a number written as text, NaN or a score outside [0, 1] is not converted."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise ScoreRefused("the object is not JSON") from None
    _check(value)
    return VerifierScore(value["trace_id"], value["candidate"], float(value["score"]), value["rationale"])


def reading(given: VerifierScore, stored: str) -> Reading:
    """What `given` says of the text that is stored under its trace: its score, or none when its candidate is another text."""
    if given.candidate == stored:
        return Reading(given.score, given.rationale)
    return Reading(None, given.rationale, f"candidate is not the stored text ({len(given.candidate)} characters, {len(stored)} stored)")


def read_reply(reply: str, trace_id: str | None, stored: str, read: Reading) -> Reading:
    """`read`, unless the reply is an object that names a trace or a candidate, and names the wrong one. `trace_id` None: any trace will do.

    A judge that is itself a TTC-v2 verifier answers with a whole object; then the link it states must be the one that was asked about.
    """
    if read.score is None:
        return read
    named = next((found.others for key in _VERDICTS if not (found := last_verdict(reply, key)).problem), {})
    if trace_id is not None and named.get("trace_id", trace_id) != trace_id:
        return Reading(None, read.rationale, "trace_id is not that of the trace")
    if named.get("candidate", stored) != stored:
        return Reading(None, read.rationale, "candidate is not the stored text")
    return read


def _check(value: object) -> None:
    broken = violation(Schema.VERIFIER_SCORE, value)
    if broken is not None:
        raise ScoreRefused(str(broken))
    # No JSON text says NaN, but Python values do, and NaN is within all bounds.
    if isinstance(value, dict) and math.isnan(value["score"]):
        raise ScoreRefused("score must be a number")
