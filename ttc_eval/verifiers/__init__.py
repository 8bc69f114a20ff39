"""Verifiers: what scores a candidate without seeing the reference."""

from ttc_eval.verifiers.base import Judge, LocalVerifier, PairwiseVerifier, Reading, Verifier
from ttc_eval.verifiers.outcome import Outcome
from ttc_eval.verifiers.process import Aggregation, Process
from ttc_eval.verifiers.trace import TraceJudge

__all__ = ["Aggregation", "Judge", "LocalVerifier", "Outcome", "PairwiseVerifier", "Process", "Reading", "TraceJudge", "Verifier"]
