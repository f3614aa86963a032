"""The command line of real deliveries: `dree data lade --help`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dree.errors import DreeError
from dree.terminal import bar, console, say

if TYPE_CHECKING:
    from rich.table import Table

    from dree.data.lade import Deliveries
    from dree.tasks.lade import LadeStream

NAMED = 10  # regions that are named where they cannot be streams


def lade(
    source: Annotated[Path, typer.Argument(help="A CSV file of LaDe-D, or a folder of them.")],
    fetch: Annotated[
        bool, typer.Option("--download", help="Fetch the public files into the folder first: all, or those of --city.")
    ] = False,
    city: Annotated[
        list[str] | None, typer.Option("--city", help="Download only this city: sh, hz, cq, jl or yt. Repeatable.")
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option("--region", help="Only this region, such as sh-2, and its stream. Repeatable.")
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(help="The share of a day's packages in an instance (default: the paper's for the city)."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Write the list to this JSON file.")] = None,
) -> None:
    """List the cities and regions of LaDe-D's files: their days and packages per day; with --region, their streams.

    What was read is kept in compact form ($DREE_CACHE/lade, by default ~/.cache/dree/lade), so that the next time is
    quick. Rows that cannot be used are counted, and listed with file, line and reason.

    --download goes on where it was when called again, and checks the hash of every file ($DREE_LADE_URL: a mirror).
    """
    from dree.data.lade import kept_at, load_deliveries
    from dree.files import write_json

    if ratio is not None and not region:
        raise DreeError("--ratio is for the streams of regions: name them with --region.")
    if city and not fetch:
        raise DreeError("--city is for --download; without it all of the folder is read.")
    if fetch:
        _download(source, city or [])
    deliveries = load_deliveries(source, say, bar)
    _say_left_out(deliveries)
    chosen = [deliveries.region(name) for name in region] if region else list(deliveries.regions())
    streams = [each.stream(ratio) for each in chosen] if region else []
    summaries = [each.summary() for each in chosen]
    console.print(_table(summaries))
    for stream in streams:
        _say_stream(stream)
    _say_too_short(summaries)
    say(f"Kept in {kept_at(deliveries.key)}")
    if output:
        content = {
            "files": deliveries.files,
            "rows": sum(deliveries.counts),
            "left_out": deliveries.reasons(),
            "regions": summaries,
        }
        say(f"JSON: {write_json(output, content)}")


def _download(folder: Path, cities: Sequence[str]) -> None:
    from dree.data.lade_download import download

    try:
        download(folder, cities, say, bar)
    except KeyboardInterrupt:
        say("Stopped. What was fetched is kept: the same command goes on.")
        raise typer.Exit(130) from None


def _say_left_out(deliveries: Deliveries) -> None:
    from dree.data.lade import log_at

    total, left_out = sum(deliveries.counts), len(deliveries.left_out.lines)
    if not left_out:
        say(f"{total} rows, all of them used.")
        return
    say(f"{total} rows, of which {left_out} are left out:")
    for line in deliveries.describe_left_out():
        say(f"  {line}")
    say(f"  all of them: {log_at(deliveries.key)}")


def _table(summaries: Sequence[dict[str, Any]]) -> Table:
    from rich.table import Table

    cities = len({each["city"] for each in summaries})
    title = f"Packages per day (cities: {cities}, regions: {len(summaries)})"
    table = Table(title=title, title_justify="left")
    table.add_column("region", no_wrap=True)
    table.add_column("city", no_wrap=True)
    for name in ("days", "valid", "range", "mean", "std", "learn", "Gen"):
        table.add_column(name, justify="right")
    for each in summaries:
        table.add_row(
            each["region"],
            each["city"],
            *(str(each[name]) for name in ("days", "valid_days")),
            f"{each['least']}-{each['most']}",
            *(f"{each[name]:.1f}" for name in ("mean", "std")),
            *(str(each[name] or "-") for name in ("learned_days", "held_out_days")),
        )
    return table


def _say_stream(stream: LadeStream) -> None:
    sizes = [stream.task(epoch).size for epoch in range(1, stream.epochs + 1)]
    say(
        f"{stream.region}: {stream.epochs} days to learn, {stream.valid[0].label} to "
        f"{stream.valid[stream.epochs - 1].label}, with {min(sizes)} to {max(sizes)} nodes (share {stream.ratio:g})."
    )
    say(f"  process tests: {', '.join(stream.tests())}")
    say(f"  Gen: {', '.join(stream.held_out())}")


def _say_too_short(summaries: Sequence[dict[str, Any]]) -> None:
    from dree.tasks.lade import LEAST_DAYS, LEAST_PACKAGES

    short = [each["region"] for each in summaries if not each["learned_days"]]
    if short:
        names = ", ".join(short[:NAMED]) + (", ..." if len(short) > NAMED else "")
        say(
            f"No stream can be made of {len(short)} of {len(summaries)} regions, for they have fewer than {LEAST_DAYS} "
            f"days with at least {LEAST_PACKAGES} packages: {names}"
        )
