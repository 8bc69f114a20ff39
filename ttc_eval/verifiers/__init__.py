"""Verifiers: what scores a candidate without seeing the reference."""

from ttc_eval.verifiers.base import Reading, Verifier
from ttc_eval.verifiers.outcome import Outcome
from ttc_eval.verifiers.process import Aggregation, Process
from ttc_eval.verifiers.trace import TraceJudge

__all__ = ["Aggregation", "Outcome", "Process", "Reading", "TraceJudge", "Verifier"]
