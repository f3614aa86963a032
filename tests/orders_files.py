"""A good file of orders, and odd ones made of it by mutations that must not change the answer."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dree.data.orders import OrderFile, read_orders
from dree.data.orders_options import parse_columns

CAPACITY = "20"
DAY = "2022-06-25"
HEADER = ("date", "id", "name", "lat", "lon", "parcels")
NAMES = ("Müller", "Café, Nord", 'Pipe 5" Ltd', "O'Neil", "Ünal; Söhne", "A|B", "José", "plain")


class Stop(NamedTuple):
    """A stop of the good file."""

    id: str
    name: str
    lat: str
    lon: str
    parcels: str


@dataclass(frozen=True)
class Case:
    """A file, how the command is called, and what must come out."""

    name: str
    content: bytes
    stops: tuple[Stop, ...] | None = None  # those that are routed; None where the file is refused
    left_out: tuple[tuple[int, str], ...] = ()  # lines and reasons
    message: str = ""  # of a refusal, a regular expression
    options: tuple[str, ...] = ("--capacity", CAPACITY)
    day: str = DAY
    file: str = "orders.csv"

    @property
    def refused(self) -> bool:
        """Whether nothing at all is understood."""
        return self.stops is None


def good_stops(count: int = 14, seed: int = 0, lat: float = 48.1, lon: float = 11.5) -> tuple[Stop, ...]:
    """The stops of a good file, around a place."""
    dice = random.Random(seed)
    return tuple(
        Stop(
            f"A{100 + number}",
            NAMES[number % len(NAMES)],
            f"{lat + dice.uniform(-0.2, 0.2):.5f}1",
            f"{lon + dice.uniform(-0.2, 0.2):.5f}1",
            str(dice.randint(1, 9)),
        )
        for number in range(count)
    )


GOOD = good_stops()
DEPOT = Stop("depot", "Depot", "48.100001", "11.500001", "")


def table(
    stops: Sequence[Stop] = GOOD, depot: Stop | None = DEPOT, header: Sequence[str] = HEADER, day: str = DAY
) -> list[list[str]]:
    """The good file's cells."""
    everything = [depot, *stops] if depot else stops
    return [list(header), *([day, *stop] for stop in everything)]


def written(
    cells: Sequence[Sequence[str]], delimiter: str = ",", end: str = "\n", quoting: int = csv.QUOTE_MINIMAL
) -> str:
    """Cells as CSV."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(cells)
    return text.getvalue()


def with_commas(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """The same with decimal commas."""
    return [cells[0], *([*row[:3], *(cell.replace(".", ",") for cell in row[3:])] for row in cells[1:])]


def good(name: str, text: str, **changes: object) -> Case:
    """A case whose answer is that of the good file."""
    return replace(Case(name, text.encode(), GOOD), **changes)


def read_as_file(
    folder: Path, text: str, columns: str = "", name: str = "orders.csv", encoding: str = "utf-8", **options: object
) -> OrderFile:
    """A text as a file of orders in a folder."""
    path = folder / name
    path.write_text(text, encoding=encoding)
    return read_orders(path, parse_columns(columns), **options)


def encodings() -> Iterator[Case]:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"):
        for end in ("\n", "\r\n", "\r"):
            yield good(f"{encoding} {end!r}", "", content=written(table(), end=end).encode(encoding))


def delimiters() -> Iterator[Case]:
    for delimiter in ",;\t|":
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
            for mark in ".,":
                if (delimiter, mark, quoting) != (",", ".", csv.QUOTE_MINIMAL):
                    cells = table() if mark == "." else with_commas(table())
                    yield good(f"{delimiter!r} {mark} {quoting}", written(cells, delimiter, quoting=quoting))


def header_names() -> Iterator[Case]:
    spellings = {
        3: [
            "Latitude",
            "LAT",
            "breite",
            "Breitengrad",
            "latitud",
            "gps_lat",
            "широта",
            "纬度",
            "stop_lat",
            "Szerokość",
            "Szer. geogr.",
        ],
        4: ["lng", "long", "Longitude", "Länge", "längengrad", "Longitud", "GPS-Lng", "долгота", "经度", "Dł. geogr."],
        5: ["demand", "Quantity", "Weight (kg)", "Pakete", "Menge", "peso", "colis", "数量", "QTY", "packages"],
        0: ["ds", "Day", "Datum", "fecha", "jour", "Delivery Date", "дата", "日期", "Date de livraison", "Leverdatum"],
        1: ["order_id", "OrderNo", "Auftragsnummer", "pedido", "Tracking Number"],
    }
    for column, names in spellings.items():
        for name in names:
            header = [*HEADER[:column], name, *HEADER[column + 1 :]]
            yield good(f"header {name}", written(table(header=header)))
    odd = ["when", "no.", "who", "north", "east", "how much"]
    said = "date=when,id=no.,lat=north,lon=East,demand=how much"
    yield good("a map", written(table(header=odd)), options=("--capacity", CAPACITY, "--map", said))


def layouts() -> Iterator[Case]:
    text = written(table())
    lines = text.splitlines()
    yield good("sep=", "sep=;\r\n" + written(table(), ";", "\r\n"))
    yield good("quoted sep=", '"sep=|"\n' + written(table(), "|"))
    yield good("a title above", "Orders of the day\n\n" + text)
    yield good("empty lines first", "\n\n  \n" + text)
    yield good("empty lines everywhere", "\n\n".join(lines))
    yield good("lines of delimiters", f"\n{',' * 5}\n".join(lines))
    yield good("no newline at the end", text.rstrip("\n"))
    yield good("many newlines at the end", text + "\n" * 50)
    yield good("every row in quotes", "".join('"{}"\n'.format(line.replace('"', '""')) for line in lines))
    yield good("trailing delimiters", "".join(f"{line},,\n" for line in lines))
    yield good("trailing delimiters below the header", lines[0] + "".join(f"\n{line},," for line in lines[1:]))
    yield good("spaces around cells", written([[f"  {cell} " for cell in row] for row in table()], ";"))
    yield good("non-breaking spaces", written([[f"\u00a0{cell}\u00a0" for cell in row] for row in table()]))
    yield good("capital header", written([[cell.upper() for cell in HEADER], *table()[1:]]))
    kept = [table()[0], *([row[0], f'="{row[1]}"', *row[2:]] for row in table()[1:])]
    yield good("texts that Excel must keep", written(kept, ";"))
    yield good(
        "degree signs", written([row if not n else [*row[:3], row[3] + "°", *row[4:]] for n, row in enumerate(table())])
    )
    for seed in range(8):
        order = random.Random(seed).sample(range(6), 6)
        yield good(f"columns in order {order}", written([[row[index] for index in order] for row in table()]))
    for seed, extra in enumerate(["phone", "accept_gps_lat", "courier_id", "notes", ""]):
        dice = random.Random(seed)
        cells = [
            [*row[:seed], str(dice.random()) if number else extra, *row[seed:]] for number, row in enumerate(table())
        ]
        yield good(f"a column more: {extra!r}", written(cells))
    noted = [[*row, "note" if not number else "two\nlines"] for number, row in enumerate(table())]
    yield good("cells with line breaks", written(noted))
    yield good(
        "an empty column for demands beside",
        written([[*row, "weight" if not n else ""] for n, row in enumerate(table())]),
    )


def date_spellings() -> Iterator[Case]:
    spellings = ["25.06.2022", "20220625", "25/06/2022", "6/25/2022", "2022/06/25", "25-06-2022", "25.6.22", "6/25/22"]
    spellings += ["2022-06-25 08:30:00", "2022-06-25T08:30:00Z", "25.06.2022 08:30", "20220625.0", "06/25/2022 8:30 AM"]
    for spelling in spellings:
        yield good(f"date {spelling}", written(table(day=spelling)))
    for spelling in ("625", "0625", "06-25", "06-25 11:05:00", "25.06.", "625.0"):
        yield good(f"date {spelling}", written(table(day=spelling)), day="06-25")
    without = written([row[1:] for row in table()])
    yield good("the day in the file's name", without, file=f"{DAY}.csv")
    yield good("no day at all", without, day="orders")
    yield good("an empty column of dates", written(table(day="")), day="orders")
    for order, day in {"dmy": "2022-06-05", "mdy": "2022-05-06"}.items():
        options = ("--capacity", CAPACITY, "--map", f"dates={order}")
        yield good(f"date 05/06/2022 {order}", written(table(day="05/06/2022")), options=options, day=day)
    yield Case(
        "date 05/06/2022", written(table(day="05/06/2022")).encode(), message="--map dates=dmy or --map dates=mdy"
    )
    yield Case("date Monday", written(table(day="Monday")).encode(), message="the first is 'Monday'")
    yield Case("date 44716", written(table(day="44716")).encode(), message="No cell of the column 'date'")
