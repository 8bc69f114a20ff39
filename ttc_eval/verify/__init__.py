"""Scores given after the fact: a verifier reads the traces that a study has stored, beside a running sweep or long after it.

| object | role | lifetime |
|---|---|---|
| `Job` | a composed config, typed: who judges what, under which limits | one command |
| `Trace` | one stored text to be scored, with its question | one page of traces |
| `run` | asks for the scores that are missing and stores them | one command |
| `take_in`, `give_out` | TTC-v2 verifier objects, in from and out to JSON lines | one command |
"""

from ttc_eval.verify.job import Job, compose, prepare, study_paths
from ttc_eval.verify.objects import Taken, give_out, lines_of, take_in
from ttc_eval.verify.run import Progress, run
from ttc_eval.verify.traces import What, stored_problems

__all__ = [
    "Job",
    "Progress",
    "Taken",
    "What",
    "compose",
    "give_out",
    "lines_of",
    "prepare",
    "run",
    "stored_problems",
    "study_paths",
    "take_in",
]
