"""The sandbox: runs programs that a model wrote against tests, where they can reach nothing, and brings a verdict they cannot write."""

from ttc_eval.sandbox.base import Limits, Sandbox, SandboxFailed
from ttc_eval.sandbox.checking import OUT_OF_TIME, Checker, Job, Outcome, Verdict, run
from ttc_eval.sandbox.probe import Found, checker, find, require

__all__ = [
    "OUT_OF_TIME",
    "Checker",
    "Found",
    "Job",
    "Limits",
    "Outcome",
    "Sandbox",
    "SandboxFailed",
    "Verdict",
    "checker",
    "find",
    "require",
    "run",
]
