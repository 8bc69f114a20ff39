"""Strategies: policies that spend compute on one question. One file each; short, pure control flow over a Session."""

from ttc_eval.strategies.adaptive_consistency import AdaptiveConsistency
from ttc_eval.strategies.base import ChangesThinking, ChecksSetting, HasSecondStage, Most, Setting, Strategy
from ttc_eval.strategies.beam_search import BeamSearch
from ttc_eval.strategies.best_of_n import BestOfN
from ttc_eval.strategies.budget_forcing import BudgetForcing
from ttc_eval.strategies.cascade import Cascade
from ttc_eval.strategies.code_agreement import CodeAgreement
from ttc_eval.strategies.confidence_vote import ConfidenceVote
from ttc_eval.strategies.dvts import Dvts
from ttc_eval.strategies.early_stopping import EarlyStopping
from ttc_eval.strategies.escalate import Escalate
from ttc_eval.strategies.first_accepted import FirstAccepted
from ttc_eval.strategies.mcts import MCTS
from ttc_eval.strategies.revise import Revise
from ttc_eval.strategies.route import Route
from ttc_eval.strategies.self_consistency import SelfConsistency
from ttc_eval.strategies.single import Single
from ttc_eval.strategies.tree_of_thoughts import TreeOfThoughts
from ttc_eval.strategies.verify_selectively import VerifySelectively
from ttc_eval.strategies.weighted_vote import WeightedVote

__all__ = [
    "MCTS",
    "AdaptiveConsistency",
    "BeamSearch",
    "BestOfN",
    "BudgetForcing",
    "Cascade",
    "ChangesThinking",
    "ChecksSetting",
    "CodeAgreement",
    "ConfidenceVote",
    "Dvts",
    "EarlyStopping",
    "Escalate",
    "FirstAccepted",
    "HasSecondStage",
    "Most",
    "Revise",
    "Route",
    "SelfConsistency",
    "Setting",
    "Single",
    "Strategy",
    "TreeOfThoughts",
    "VerifySelectively",
    "WeightedVote",
]
