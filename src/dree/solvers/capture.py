"""Work on a CUDA device as a graph: launched in one go, where launching it piece by piece takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def captured(device: torch.device) -> bool:
    """Whether what happens now is being captured, so that nothing can be asked of the device."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def capture(
    work: Callable[[], Result], stream: torch.cuda.Stream, pool: Any, generator: torch.Generator | None = None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Do some work on a stream as it is, so that all it needs is loaded, and once more for the record.

    The graph, and what the work returned: tensors that a replay writes anew. The generator is one that the work draws
    from; its seed at a replay counts.
    """
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
        stream.synchronize()
        _make_room()
        graph.capture_begin(pool=pool)
        try:
            result = work()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, result


def _make_room() -> None:
    """While work is captured nothing can be freed: if room is scarce, free what is only kept for later."""
    free, _ = torch.cuda.mem_get_info()
    if free < torch.cuda.memory_reserved():
        torch.cuda.empty_cache()
