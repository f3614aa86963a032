"""Lifelong learning: the learner, its methods, and checkpoints."""

from dree.lifelong.learner import Learner, Progress, reinforce
from dree.lifelong.learning import LearnerSettings
from dree.lifelong.methods import DREE, LLRBC, METHODS, FineTuning, Lesson, Li, Method, make_method, method_class

__all__ = [
    "DREE",
    "LLRBC",
    "METHODS",
    "FineTuning",
    "Learner",
    "LearnerSettings",
    "Lesson",
    "Li",
    "Method",
    "Progress",
    "make_method",
    "method_class",
    "reinforce",
]
