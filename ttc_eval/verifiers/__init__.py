"""Verifiers: what scores a candidate without seeing the reference."""

from ttc_eval.verifiers.base import Reading, Verifier
from ttc_eval.verifiers.outcome import Outcome

__all__ = ["Outcome", "Reading", "Verifier"]
