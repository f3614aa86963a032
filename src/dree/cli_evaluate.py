"""The command line of evaluations: `dree evaluate --help`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dree.errors import DreeError, unknown
from dree.terminal import bar, console, say

if TYPE_CHECKING:
    from dree.data import TestSet
    from dree.experiments.trained import Trained
    from dree.problems import Instances


def evaluate(
    target: Annotated[
        Path | None, typer.Argument(help="A run's folder (its newest checkpoint) or one checkpoint file.")
    ] = None,
    shipped: Annotated[
        str | None, typer.Option("--solver", help="Instead: a solver that comes with dree, tsp-drift or cvrp-drift.")
    ] = None,
    augment: Annotated[int, typer.Option(help="The best over so many symmetric copies: 1 or 8.")] = 1,
    limit: Annotated[int | None, typer.Option(help="Instances of each test set (default: all).")] = None,
    spec: Annotated[
        str | None, typer.Option(help="The laws of the test sets: text or official (default: the run's own).")
    ] = None,
    library: Annotated[str | None, typer.Option(help="The paper's instances of tsplib or cvrplib in --path.")] = None,
    path: Annotated[
        Path | None, typer.Option(help="A folder of .tsp or .vrp files, or one such file, instead of the test sets.")
    ] = None,
    frame: Annotated[
        str, typer.Option(help="How library coordinates are scaled: fit (moved too) or official (not moved).")
    ] = "fit",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="fp32; fp16 or bf16: matrix products in half the bits; auto: fp16 on CUDA devices.")
    ] = "auto",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this JSON file.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the table to this CSV file.")] = None,
) -> None:
    """Average gap of a learned solver: on the six principal tasks, or on instances of TSPLIB or CVRPLIB.

    A run on real days is tested on its own process tests and held-out days.
    """
    from dree.data.libraries import library as known_library
    from dree.experiments import RunFolder
    from dree.experiments.shipped import shipped_folder
    from dree.experiments.trained import load_trained
    from dree.files import check_writable, write_csv, write_json
    from dree.problems import SYMMETRIES
    from dree.problems.frame import FRAMES
    from dree.solvers.precision import TEST_PRECISIONS, precision_on
    from dree.tasks import SPECS

    if augment not in (1, SYMMETRIES):
        raise DreeError(f"--augment must be 1 or {SYMMETRIES}, not {augment}.")
    if precision not in TEST_PRECISIONS:
        raise unknown("precision", precision, TEST_PRECISIONS)
    if frame not in FRAMES:
        raise unknown("frame", frame, FRAMES)
    if library is not None and path is None:
        raise DreeError(f"Say with --path where the files of {known_library(library).name} are.")
    if limit is not None and path is not None:
        raise DreeError("--limit is a number of instances of each test set; it does not go with --path.")
    if spec is not None and path is not None:
        raise DreeError("--spec says by which laws test sets were made; it does not go with --path.")
    if spec is not None and spec not in SPECS:
        raise unknown("specification", spec, SPECS)
    if limit is not None and limit < 1:
        raise DreeError(f"--limit must be at least 1, not {limit}.")
    if target is not None and shipped is not None:
        raise DreeError(f"Evaluate either {target} or, with --solver, {shipped}: name one of them.")
    if target is None and shipped is None:
        raise DreeError("Name what to evaluate: a run's folder, or with --solver one that comes with dree.")
    for file in filter(None, (json_file, csv_file)):
        check_writable(file)
    trained = load_trained(shipped_folder(shipped) if shipped is not None else Path(str(target)), say)
    where = replace(trained.settings, device=device).torch_device()
    trained.solver.to(where)
    result: dict[str, Any] = {
        "run": shipped or str(trained.run),
        "run_created": RunFolder(trained.run).manifest()["created"],  # tells runs apart, wherever they lie
        "epoch": trained.epoch,
        "problem": trained.settings.problem,
        "method": trained.method,
        "augment": augment,
        "device": where.type,
        "precision": precision_on(where, precision, learning=False),
        "encoding_batch": trained.solver.encoding_batch,
    }
    if trained.solver.encoding_batch is not None:
        say(_batches(trained.solver.encoding_batch, library=path is not None))
    if path is None:
        result |= _on_tests(trained, augment, spec, limit, precision)
    else:
        result |= {"library": library, "frame": frame, **_on_library(trained, augment, library, path, frame, precision)}
    if json_file:
        say(f"JSON: {write_json(json_file, result)}")
    if csv_file:
        say(f"CSV: {write_csv(csv_file, result['rows'])}")


def _on_tests(trained: Trained, copies: int, spec: str | None, limit: int | None, precision: str) -> dict[str, Any]:
    """Evaluate on the test sets and show the table."""
    from dree.evaluation.evaluate import Evaluation, evaluate
    from dree.report.evaluations import evaluation_rows, evaluation_table, mean_and_std

    tests = _tests(trained, spec, limit)
    results: list[Evaluation] = []
    with bar(sum(len(test.instances) * _work(test.instances) for test in tests)) as part:
        for test in tests:
            progress = part(f"{test.name} ({len(results) + 1} of {len(tests)})", _work(test.instances))
            results.append(evaluate(trained.solver, test, copies, progress, precision))
    title = _title(trained, copies) + (f", {spec} laws" if spec else "")
    console.print(evaluation_table(results, title))
    mean = mean_and_std([each.mean for each in results])
    return {"spec": spec, "rows": evaluation_rows(results), "mean_gap": mean and mean[0]}


def _on_library(
    trained: Trained, copies: int, library: str | None, path: Path, frame: str, precision: str
) -> dict[str, Any]:
    """Evaluate on library files and show the table."""
    from dree.data.libraries import find_instances
    from dree.evaluation.libraries import LibraryResult, solve_library
    from dree.report.evaluations import library_rows, library_summary, library_table

    instances = find_instances(path, trained.settings.problem, library, say)
    results: list[LibraryResult] = []
    with bar(sum(_work(each.instances) for each in instances)) as part:
        for each in instances:
            progress = part(f"{each.name} ({len(results) + 1} of {len(instances)})", _work(each.instances))
            results.append(solve_library(trained.solver, each, copies, frame, progress, precision))
    console.print(library_table(results, library, _title(trained, copies), console.width))
    for each in (instance for instance in instances if instance.note):
        say(f"{each.name}: {each.note}.")
    for result in (result for result in results if result.is_record):
        say(
            f"{result.name}: {result.rounded} is shorter than the best known length, {result.best_known}. "
            "The tour has been checked, so either it is a record or that length is out of date."
        )
    return {"rows": library_rows(results, library), "mean_and_std": library_summary(results)}


def _tests(trained: Trained, spec: str | None, limit: int | None) -> list[TestSet]:
    """The sets of the six principal tasks, in the run's sizes and by its laws or others; or those of its real days."""
    from dree.data import SetKey, load_set
    from dree.experiments import RunFolder
    from dree.experiments.material import check_there, load_material
    from dree.experiments.unchanged import law_warnings
    from dree.tasks import ORDERS, SyntheticStream

    folder = RunFolder(trained.run)
    settings, stream = trained.settings, folder.stream()
    if isinstance(stream, SyntheticStream):
        sizes = {law: stream.principal(law).size for law in (*stream.order, *ORDERS[1])}
        keys = [SetKey(settings.problem, f"{law}{size}", spec or settings.spec) for law, size in sizes.items()]
        check_there(keys)
        for words in law_warnings(folder, keys):
            say(words)
        tests = [load_set(key) for key in keys]
    elif spec is not None:
        raise DreeError("--spec says by which laws synthetic tasks are made, and this run is on real days.")
    else:
        material = load_material(settings, say, bar, folder.manifest())
        tests = [*material.tests.values(), *material.held_out.values()]
    for test in tests:
        if limit is not None and limit > len(test.instances):
            raise DreeError(f"--limit is {limit}, but the test set {test.name} has {len(test.instances)} instances.")
    return [test if limit is None else test.first(limit) for test in tests]


def _work(instances: Instances) -> float:
    """About how much one instance costs: starts x decisions x nodes, and something for each start and decision."""
    return instances.customers**2 * (instances.customers + 100)


def _batches(together: int, library: bool) -> str:
    """What a user should know of a solver whose norm is over the batch."""
    what = (
        "an instance with its own symmetric copies alone"
        if library
        else f"{together} consecutive instances of a test set, or what is left of it, with their symmetric copies"
    )
    return f"This solver's answers depend on what is encoded together: {what}, whatever the device and its memory."


def _title(trained: Trained, copies: int) -> str:
    how = "greedy, from all its starts" + (f", best of {copies} symmetric copies" if copies > 1 else "")
    return f"{trained.run.name}, epoch {trained.epoch}, {trained.settings.problem.upper()}: {how}"
