"""Verifiers: what scores a candidate without seeing the reference."""

from ttc_eval.verifiers.base import ChecksQuestion, Judge, LocalVerifier, PairwiseVerifier, Reading, Verifier
from ttc_eval.verifiers.code import Code
from ttc_eval.verifiers.noisy_oracle import NoisyOracle
from ttc_eval.verifiers.outcome import Form, Outcome
from ttc_eval.verifiers.pairwise import Pairwise
from ttc_eval.verifiers.process import Aggregation, Process
from ttc_eval.verifiers.reward import Reward, Squash
from ttc_eval.verifiers.rule import Rule
from ttc_eval.verifiers.trace import TraceJudge

__all__ = [
    "Aggregation",
    "ChecksQuestion",
    "Code",
    "Form",
    "Judge",
    "LocalVerifier",
    "NoisyOracle",
    "Outcome",
    "Pairwise",
    "PairwiseVerifier",
    "Process",
    "Reading",
    "Reward",
    "Rule",
    "Squash",
    "TraceJudge",
    "Verifier",
]
