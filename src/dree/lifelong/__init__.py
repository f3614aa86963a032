"""Lifelong learning: the learner, its methods, and checkpoints."""

from dree.lifelong.learner import Learner, LearnerSettings, Progress, reinforce
from dree.lifelong.methods import METHODS, FineTuning, Lesson, Method, method_class

__all__ = [
    "METHODS",
    "FineTuning",
    "Learner",
    "LearnerSettings",
    "Lesson",
    "Method",
    "Progress",
    "method_class",
    "reinforce",
]
