"""Capturing without a GPU: operations are written down as they are done, and done again on the same tensors.

As of a CUDA graph, nothing of the code around them happens again: what was decided there, or read from an object, stays
as it was.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dree.lifelong import Learner, graphs

WAITING = ("_local_scalar_dense", "nonzero", "masked_select")  # their result is needed on the host


class Operations(TorchDispatchMode):
    """Stands for a CUDA graph."""

    def __init__(self):
        super().__init__()
        self.done = []
        self.names = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        self.done.append((operation, args, kwargs or {}, result))
        self.names.add(operation.overloadpacket.__name__)
        return result

    def replay(self):
        """Write what has changed into the tensors of the first time; views of others, and those, follow."""
        with torch.no_grad():
            for operation, args, kwargs, first in self.done:
                given = {storage(each) for each in tensors((args, kwargs))}
                again = operation(*args, **kwargs)
                for place, new in zip(tensors(first), tensors(again), strict=True):
                    if storage(place) not in given:
                        place.copy_(new)

    def waits(self):
        """Whether something waited for the device."""
        return bool(self.names.intersection(WAITING))


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def storage(tensor):
    return tensor.untyped_storage()._cdata


def capturing(learner: Learner, monkeypatch) -> Learner:
    """The same learner as it would be on a CUDA device, where all work can be captured."""

    def capture(work, stream, pool, generator):
        work()
        with Operations() as operations:
            result = work()
        return operations, result

    nothing = SimpleNamespace(wait_event=id, wait_stream=id, record_event=lambda: None)
    monkeypatch.setattr(graphs, "capture", capture)
    for name, value in (("Stream", nothing), ("current_stream", nothing), ("graph_pool_handle", None)):
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(learner, "captures", lambda nodes: True)
    learner._graphs = graphs.Graphs(learner._flat)
    learner.best_only = not learner.method.whole_lessons
    return learner
