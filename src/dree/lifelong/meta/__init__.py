"""Meta-learning of a model to start from."""

from dree.lifelong.meta.learner import MetaLearner
from dree.lifelong.meta.schedule import Schedule, Share
from dree.lifelong.meta.settings import MetaSettings

__all__ = ["MetaLearner", "MetaSettings", "Schedule", "Share"]
