"""The command line of measurements: `dree bench --help`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table

from dree.errors import DreeError, unknown
from dree.terminal import bar, console, say

if TYPE_CHECKING:
    import torch

    from dree.experiments.bench import Plan, RunTime, SolvingRate, StepTimes
    from dree.experiments.bench_check import Finding

NOTHING = "-"
STEP_NOTE = (
    "Step: fine-tuning, its batch given. DREE step: the mean, with an instance replay every 3.56 batches as in the "
    "paper. Phases are launched piece by piece and the clock waits for each; on a GPU they take longer together than "
    "the step, which is captured and launched at once. The twin is in fp32."
)
RUN_NOTE = (
    "DREE steps and generating; between the measured sizes, a power of n (linear in log-log). Not counted: tests, "
    "checkpoints and, on a GPU, capturing the first batch of each size."
)
CHECK_NOTE = (
    "Differences are relative, those of padded decisions absolute; tours are sampled from a random network. Same "
    "greedy tours: a share, which has no bar, because tours may part where two nodes are equally good to rounding. "
    "What each line compares: README.md, 'On your machine'."
)
Result = TypeVar("Result")
BOUNDS = (("<=", "at_most"), (">=", "at_least"))


def bench(
    problem: Annotated[str | None, typer.Option(help="tsp or cvrp (default: both).")] = None,
    base: Annotated[str, typer.Option("--solver", help="The base solver: pomo, omni or invit.")] = "pomo",
    sizes: Annotated[
        str | None, typer.Option(help="Numbers of customers (default: 20,50,100; on a CPU 20).", metavar="N,N,...")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Instances, each learned in 8 symmetric copies (default: the paper's 32; on a CPU 4)."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="The learner's: fp32, bf16 or auto (default: auto; --check: both).")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    repeats: Annotated[int | None, typer.Option(help="Medians are over so many (default: 20; on a CPU 3).")] = None,
    twin: Annotated[bool, typer.Option(help="Time the step-by-step twin too.")] = True,
    solve: Annotated[bool, typer.Option(help="Time greedy solving too.")] = True,
    solve_sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of greedy solving (default: 20,50,100,200,500,1000; on a CPU 20,50).", metavar="N,N,..."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Time nothing; compare the fast path with the twin instead.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this JSON file.")] = None,
) -> None:
    """Time learning and solving with the full-size network on this machine, or check that both are right.

    With --check the exit code is 1 if the fast path strays from the twin or makes an illegal tour, else 0.
    """
    from dree.experiments import RunSettings
    from dree.experiments.bench import DEFAULTS, Plan, check_room
    from dree.experiments.bench_check import CHECKED, LOG_PROB_BAR
    from dree.files import check_writable, write_json
    from dree.lifelong import LearnerSettings
    from dree.problems import PROBLEMS
    from dree.solvers import SOLVERS

    if problem is not None and problem not in PROBLEMS:
        raise unknown("problem", problem, PROBLEMS)
    if base not in SOLVERS:  # each of these has a twin
        raise unknown("solver", base, SOLVERS)
    chosen = LearnerSettings(precision=precision or "auto").precision  # refuses what there is not
    where = RunSettings(device=device).torch_device()
    usual = DEFAULTS[where.type]
    plan = Plan(
        _sizes("--sizes", sizes) or usual.sizes,
        _positive("--batch", batch) or usual.batch,
        _positive("--repeats", repeats) or usual.repeats,
        _sizes("--solve-sizes", solve_sizes) or usual.solve_sizes,
        base,
    )
    if check:
        plan = replace(plan, batch=max(batch or 0, CHECKED))
    if json_file:
        check_writable(json_file)
    problems = list(PROBLEMS) if problem is None else [problem]
    for name in problems:
        for n in plan.sizes:
            check_room(name, n, plan, where)
    say(_where(where))
    if where.type == "cpu" and sizes is None and batch is None:
        sizes_used = ", ".join(map(str, plan.sizes))
        say(f"On a CPU n = {sizes_used} and batch {plan.batch} unless --sizes and --batch say otherwise.")
    result: dict[str, Any] = {"device": _where(where), "solver": base, "batch": plan.batch, "repeats": plan.repeats}
    with _memory_advice(where):
        if check:
            precisions = tuple(LOG_PROB_BAR) if chosen == "auto" else (chosen,)
            findings = _check(problems, plan, precisions, where)
            result["check"] = [each.as_dict() for each in findings]
        else:
            result |= _measure(problems, plan, chosen, where, with_twin=twin, with_solving=solve)
    if json_file:
        say(f"JSON: {write_json(json_file, result)}")
    if check and not all(each.ok for each in findings):
        raise typer.Exit(1)


def _measure(
    problems: list[str], plan: Plan, precision: str, device: torch.device, *, with_twin: bool, with_solving: bool
) -> dict[str, Any]:
    """Measure, and show the tables."""
    from dree.experiments.bench import measure, measure_solving, run_times

    steps = _each(
        problems, plan.sizes, "learning", lambda name, n: measure(name, n, plan, precision, device, with_twin=with_twin)
    )
    title = f"Learning: ms per step, batch {plan.batch} x 8 copies, {steps[0].precision}"
    _show(title, _step_table(steps), STEP_NOTE)
    runs = run_times(steps)
    if runs:
        _show(f"A run of DREE through the paper's orders, batch {plan.batch}, extrapolated", _run_table(runs), RUN_NOTE)
    else:
        say("Two sizes or more give seconds per epoch and hours per run: for example --sizes 20,50.")
    rates: list[SolvingRate] = []
    if with_solving:
        rates = _each(
            problems,
            plan.solve_sizes,
            "solving",
            lambda name, n: measure_solving(name, n, plan, device, precision),
        )
        _show(f"Greedy solving from all its starts, no augmentation, {rates[0].precision}", _solving_table(rates))
    return {
        "steps": [each.as_dict() for each in steps],
        "runs": [vars(each) for each in runs],
        "solving": [each.as_dict() for each in rates],
    }


def _check(problems: list[str], plan: Plan, precisions: Sequence[str], device: torch.device) -> list[Finding]:
    """Compare, and show the table."""
    from dree.experiments.bench_check import check

    def both(problem: str, n: int) -> list[Finding]:
        return [
            each for precision in precisions for each in check(plan.base, problem, n, plan.batch, precision, device)
        ]

    findings = [each for group in _each(problems, plan.sizes, "checking", both) for each in group]
    _show("The fast path against its step-by-step twin", _check_table(findings), CHECK_NOTE)
    failed = sum(not each.ok for each in findings)
    say(f"{failed} of {len(findings)} comparisons failed." if failed else "The fast path computes what the twin does.")
    return findings


def _each(problems: list[str], sizes: tuple[int, ...], words: str, work: Callable[[str, int], Result]) -> list[Result]:
    """What some work gives for every problem and size, under a bar."""
    results = []
    with bar(len(problems) * sum(sizes)) as part:
        for problem in problems:
            for n in sizes:
                advance = part(f"{words}: {problem.upper()} {n}", n)
                results.append(work(problem, n))
                advance(1)
    return results


def _show(title: str, table: Table, note: str = "") -> None:
    """A table between what it is and what is to be known about it."""
    say(f"\n{title}")
    console.print(table)
    if note:
        say(note)


def _step_table(steps: list[StepTimes]) -> Table:
    """Phases below each other, a column for each problem and size."""
    from dree.experiments.bench import PHASES

    table = Table()
    table.add_column("")
    for each in steps:
        table.add_column(f"{each.problem.upper()} {each.n}", justify="right")
    table.add_row("step", *(_number(each.step_ms) for each in steps), style="bold")
    table.add_row("DREE step", *(_number(each.dree_ms) for each in steps), style="bold")
    table.add_section()
    for phase in PHASES:
        table.add_row(phase.replace("_", " "), *(_number(each.phases[phase]) for each in steps))
    table.add_section()
    table.add_row("twin's step", *(_number(each.twin_ms) if each.twin_fits else "out of memory" for each in steps))
    table.add_row("twin / step", *(_number(each.ratio) for each in steps))
    table.add_row("peak memory, MiB", *(_number(each.peak_bytes and each.peak_bytes / 2**20) for each in steps))
    return table


def _run_table(runs: list[RunTime]) -> Table:
    """A row for each problem and order."""
    table = Table()
    for name in ("problem", "order"):
        table.add_column(name)
    for name in ("seconds per epoch", "hours per run"):
        table.add_column(name, justify="right")
    for each in runs:
        numbers = (_number(each.seconds_per_epoch), _number(each.hours))
        table.add_row(each.problem.upper(), str(each.order), *numbers)
    return table


def _solving_table(rates: list[SolvingRate]) -> Table:
    """A row for each problem and size."""
    table = Table()
    table.add_column("problem")
    for name in ("n", "instances", "seconds", "instances/s"):
        table.add_column(name, justify="right")
    for each in rates:
        numbers = (str(each.n), str(each.instances), _number(each.seconds), _number(each.rate))
        table.add_row(each.problem.upper(), *numbers)
    return table


def _check_table(findings: list[Finding]) -> Table:
    """A row for each comparison."""
    table = Table()
    for name in ("problem", "n", "precision", "what"):
        table.add_column(name)
    for name in ("value", "bar", "ok"):
        table.add_column(name, justify="right")
    for each in findings:
        bars = [f"{words} {value:g}" for words, name in BOUNDS if (value := getattr(each, name)) is not None]
        verdict = (NOTHING if not bars else "yes") if each.ok else "[bold red]NO[/]"
        cells = (each.problem.upper(), str(each.n), each.precision, each.what)
        table.add_row(*cells, f"{each.value:.3g}", *(bars or [NOTHING]), verdict)
    return table


def _number(value: float | None) -> str:
    """Three digits, or all of a large one; a dash for nothing."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _sizes(option: str, text: str | None) -> tuple[int, ...] | None:
    """Sizes as written, in rising order."""
    if text is None:
        return None
    try:
        numbers = sorted({int(each) for each in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 2:
        raise DreeError(f"{option} must be numbers of customers, at least 2, such as 20,50; not '{text}'.")
    return tuple(numbers)


def _positive(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise DreeError(f"{option} must be at least 1, not {value}.")
    return value


def _where(device: torch.device) -> str:
    """The device in words."""
    import torch

    from dree import compiled

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    kernels = "with kernels" if compiled.able() else "without kernels: Numba is not installed, or cannot be used"
    return f"CPU, {torch.get_num_threads()} threads, {kernels}"


@contextmanager
def _memory_advice(device: torch.device) -> Iterator[None]:
    """Say what to do where the memory is too small."""
    import torch

    from dree.experiments.memory import within_memory

    try:
        with within_memory(device):
            yield
    except torch.OutOfMemoryError:
        raise DreeError("The memory is too small for this. Use a smaller --batch or smaller --sizes.") from None
