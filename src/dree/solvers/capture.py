"""Work on a CUDA device as a graph: launched in one go, where launching it piece by piece takes longer."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import zip_longest
from typing import Any, TypeVar

import torch

from dree.turns import at_once, new_stream, others_turn, run_number

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
    graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    if generator is not None:
        graph.register_generator_state(generator)
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        work()
        with others_turn():
            stream.synchronize()
        _make_room()
        with _uncollected(), _own_workspaces():
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")  # others may wait for the device
            try:
                result = work()
            finally:
                graph.capture_end()
    here.wait_stream(stream)
    return graph, result


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing is collected meanwhile: it might be another graph, which cannot be freed while one is captured."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def _own_workspaces() -> Iterator[None]:
    """Matrix products write into memory that belongs to their stream; what is captured meanwhile has its own.

    Otherwise works captured on the same streams would share it, and could not be replayed at the same time.
    """
    clear: Callable[[], None] = torch._C._cuda_clearCublasWorkspaces  # as PyTorch's own capturing does
    clear()
    try:
        yield
    finally:
        clear()


def side_by_side(works: Sequence[Callable[[], Result]], device: torch.device) -> list[Result]:
    """What some works return that need no gradient; while they are captured, each has a stream of its own."""
    if torch.is_grad_enabled() or not captured(device):
        return [work() for work in works]
    here = torch.cuda.current_stream(device)
    others = _side_streams(device, len(works) - 1, run_number())
    results = []
    for stream, work in zip([*others, here], works, strict=True):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            results.append(work())
    for stream in others:
        here.wait_stream(stream)
    return results


def taking_turns(works: Sequence[Generator[None, None, Result]], device: torch.device) -> list[Result]:
    """What some works return that pause before they wait for the device; then it is the next one's turn.

    On a CUDA device each has a stream of its own, so that there they run side by side; what they are given must be kept
    until all are done. If one fails, the others are not gone on with.
    """
    apart = device.type == "cuda" and not captured(device)
    others = _side_streams(device, len(works) - 1, run_number()) if apart else []
    for stream in others:
        stream.wait_stream(torch.cuda.current_stream(device))
    waiting = dict(enumerate(zip_longest(works, [None, *others])))
    results: dict[int, Result] = {}
    try:
        while waiting:
            for number, (work, of_its_own) in list(waiting.items()):
                with torch.cuda.stream(of_its_own):
                    try:
                        next(work)
                    except StopIteration as ended:
                        results[number] = ended.value
                        del waiting[number]
    finally:
        for work, _ in waiting.values():
            with suppress(Exception):  # what has failed before is what shall be told
                work.close()
        for stream in others:
            torch.cuda.current_stream(device).wait_stream(stream)
    return [results[number] for number in range(len(works))]


@cache
def _side_streams(device: torch.device, count: int, run: int) -> list[torch.cuda.Stream]:
    """For a run always the same: memory belongs to the stream it was first used on."""
    return [new_stream(device) for _ in range(count)]


def _make_room() -> None:
    """While work is captured nothing can be freed: if room is scarce, free what is only kept for later."""
    free, _ = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved() / at_once()  # about what this run has of it
    if free < 2 * reserved:  # works side by side need more than one after the other
        torch.cuda.empty_cache()
