"""Strategies: policies that spend compute on one question. One file each; short, pure control flow over a Session."""

from ttc_eval.strategies.base import ChangesThinking, ChecksSetting, Most, Setting, Strategy
from ttc_eval.strategies.best_of_n import BestOfN
from ttc_eval.strategies.escalate import Escalate
from ttc_eval.strategies.self_consistency import SelfConsistency
from ttc_eval.strategies.single import Single

__all__ = ["BestOfN", "ChangesThinking", "ChecksSetting", "Escalate", "Most", "SelfConsistency", "Setting", "Single", "Strategy"]
