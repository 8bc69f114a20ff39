"""Answer contracts: what counts as an answer, where it stands in a text, and when two answers are the same."""

from ttc_eval.answers.classes import AnswerClasses
from ttc_eval.answers.contract import canonical, same_answer
from ttc_eval.answers.extraction import Extracted, extract
from ttc_eval.answers.math_checker import MathChecker, default_checker

__all__ = ["AnswerClasses", "Extracted", "MathChecker", "canonical", "default_checker", "extract", "same_answer"]
