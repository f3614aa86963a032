"""Odd and malformed files of orders, made of a good one by mutations, each with what must come out of it."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterator
from functools import cache

from dree.data import orders_rows as rows
from dree.data.orders_table import FEWER_CELLS, HEADER_AGAIN, MORE_CELLS
from dree.data.orders_text import OPEN_QUOTE
from orders_files import (
    CAPACITY,
    DAY,
    DEPOT,
    GOOD,
    HEADER,
    Case,
    Stop,
    date_spellings,
    delimiters,
    encodings,
    good,
    good_stops,
    header_names,
    layouts,
    table,
    with_commas,
    written,
)  # fmt: skip


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, each with a name of its own."""
    makers: list[Callable[[], Iterator[Case]]] = [
        encodings, delimiters, header_names, layouts, date_spellings, damaged_rows, damaged_lines, swapped, repeated,
        few_stops, no_text, unclear, demands, depots, planes, cut_off,
    ]  # fmt: skip
    cases = tuple(case for maker in makers for case in maker())
    assert len({case.name for case in cases}) == len(cases)
    assert len({(case.content, case.options, case.file) for case in cases}) == len(cases)
    return cases


def damaged_rows() -> Iterator[Case]:
    """One cell of one row, or of three, becomes bad; all others are routed."""
    swapped = rows.SWAPPED
    damages = [
        (3, "", "the latitude is missing"), (3, "here", "the latitude is not a number"),
        (3, "48,1000", "the latitude is not a number"), (3, "48.1.2", "the latitude is not a number"),
        (3, "NaN", "the latitude is not a number"), (3, "48 8 14", "the latitude is not a number"),
        (3, "95.5", rows.LATITUDE + swapped), (3, "4810000", rows.LATITUDE), (3, "-48.1", rows.FAR),
        (4, "", "the longitude is missing"), (4, "#N/A", "the longitude is not a number"),
        (4, "inf", "the longitude is not a number"), (4, "11,5", "the longitude is not a number"),
        (4, "200.5", rows.LONGITUDE), (4, "-71.5", rows.FAR), (4, "1e5", rows.LONGITUDE),
        (5, "", rows.NO_DEMAND), (5, "two", rows.NOT_A_DEMAND), (5, "-3", rows.NEGATIVE), (5, "20.01", rows.OVER),
        (5, "1000000", rows.OVER), (5, "1.0000001", rows.TOO_FINE), (5, "3 kg", rows.NOT_A_DEMAND),
        (0, "", rows.NO_DATE), (0, "2022-02-30", rows.NOT_A_DATE), (0, "soon", rows.NOT_A_DATE),
        (0, "0", rows.NOT_A_DATE),
    ]  # fmt: skip
    for column, cell, reason in damages:
        for count in (1, 3):
            dice = random.Random(f"{column} {cell} {count}")
            chosen = sorted(dice.sample(range(len(GOOD)), count))
            cells = table()
            for index in chosen:
                cells[2 + index][column] = cell
            left = tuple(stop for index, stop in enumerate(GOOD) if index not in chosen)
            yield Case(
                f"{HEADER[column]} = {cell!r} x {count}",
                written(cells).encode(),
                left,
                tuple((3 + index, reason) for index in chosen),
            )


def damaged_lines() -> Iterator[Case]:
    lines = written(table(), ";").splitlines()
    added = [
        ("A999;48.1", FEWER_CELLS), ("Total;;;;;57", "the latitude is missing"), ("# a remark", FEWER_CELLS),
        (lines[0], HEADER_AGAIN), (f"{lines[5]};more", MORE_CELLS), (f'"{lines[5]}', OPEN_QUOTE),
        (f"{DAY};Z;zero;0;0;1", rows.ORIGIN), (f"{DAY};Z;zero;0.000;-0.0;1", rows.ORIGIN), ("x" * 200_000, FEWER_CELLS),
        ("\x00\x01", FEWER_CELLS),
    ]  # fmt: skip
    for number, (line, reason) in enumerate(added):
        at = random.Random(number).randrange(2, len(lines))
        text = "\n".join([*lines[:at], line, *lines[at:]])
        yield good(f"a line more: {line[:20]!r}", text, left_out=((at + 1, reason),))


def swapped() -> Iterator[Case]:
    far_east = good_stops(lat=31.1, lon=121.5)
    depot = DEPOT._replace(lat="31.1", lon="121.5")
    turned = tuple(stop._replace(lat=stop.lon, lon=stop.lat) for stop in far_east)
    other = depot._replace(lat=depot.lon, lon=depot.lat)
    options = ("--capacity", CAPACITY, "--map", "lat=lon,lon=lat")
    yield Case("swapped", written(table(turned, other)).encode(), message="--map lat=lon,lon=lat")
    yield Case("swapped and said", written(table(turned, other)).encode(), far_east, options=options)
    some = (*turned[:4], *far_east[4:])
    reason = rows.LATITUDE + rows.SWAPPED
    yield Case(
        "some swapped, impossible",
        written(table(some, depot)).encode(),
        far_east[4:],
        tuple((3 + index, reason) for index in range(4)),
    )
    some = (*GOOD[:10], *(stop._replace(lat=stop.lon, lon=stop.lat) for stop in GOOD[10:]))
    reason = rows.FAR + rows.SWAPPED
    yield Case(
        "some swapped, far",
        written(table(some)).encode(),
        GOOD[:10],
        tuple((13 + index, reason) for index in range(4)),
    )
    all_turned = [stop._replace(lat=stop.lon, lon=stop.lat) for stop in GOOD]
    options = ("--capacity", CAPACITY, "--depot", "48.1,11.5")
    message = "from the middle of the stops. With latitude and longitude swapped"
    yield Case(
        "swapped, but not the depot", written(table(all_turned, None)).encode(), message=message, options=options
    )
    yield Case(
        "a depot swapped", written(table(depot=DEPOT._replace(lat=DEPOT.lon, lon=DEPOT.lat))).encode(), message=message
    )


def repeated() -> Iterator[Case]:
    again = written(table((*GOOD, GOOD[3], GOOD[7])))
    yield good("two rows again", again, left_out=((17, rows.SAME_ID), (18, rows.SAME_ID)))
    moved = GOOD[3]._replace(lat="48.2", lon="11.6")
    yield good("an id again elsewhere", written(table((*GOOD, moved))), left_out=((17, rows.SAME_ID),))
    twice = tuple((17 + index, rows.SAME_ID) for index in range(len(GOOD)))
    yield good("everything twice", written(table((*GOOD, *GOOD))), left_out=twice)
    more = (*GOOD, GOOD[3]._replace(id="B1"), GOOD[3]._replace(id="B2"))
    yield Case("a place under other ids", written(table(more)).encode(), more)
    no_id = tuple(stop._replace(id="") for stop in GOOD)
    yield good("no ids", written(table(no_id)))
    yield good("depot rows again", written([*table(), table()[1], table()[1]]))


def few_stops() -> Iterator[Case]:
    one_place = tuple(stop._replace(lat="48.2", lon="11.6") for stop in GOOD)
    yield Case("all at one place", written(table(one_place)).encode(), one_place)
    at_depot = tuple(stop._replace(lat=DEPOT.lat, lon=DEPOT.lon) for stop in GOOD)
    yield Case("all at the depot", written(table(at_depot)).encode(), ())
    yield Case("two at the depot", written(table((*at_depot[:2], *GOOD[2:]))).encode(), GOOD[2:])
    for count in (1, 2, 3):
        yield Case(f"{count} stops", written(table(GOOD[:count])).encode(), GOOD[:count])
        yield Case(f"{count} stops, one tour", written(table(GOOD[:count], None)).encode(), GOOD[:count], options=())
    yield Case("no stops", written(table(())).encode(), ())
    yield Case("a header alone", written([HEADER]).encode(), ())
    yield Case("a header without a newline", ",".join(HEADER).encode(), ())
    nothing = tuple(stop._replace(lat="") for stop in GOOD)
    lines = tuple((3 + index, "the latitude is missing") for index in range(len(GOOD)))
    yield Case("only bad rows", written(table(nothing)).encode(), (), lines)


def no_text() -> Iterator[Case]:
    text = written(table()).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    save = "save it as CSV"
    contents = {
        "xlsx": (archive.getvalue(), "workbook"), "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1" + bytes(500), save),
        "pdf": (b"%PDF-1.7\n" + text, "PDF"), "gzip": (gzip.compress(text, mtime=0), "compressed"),
        "parquet": (b"PAR1" + text, "Parquet"), "noise": (random.Random(0).randbytes(2000), "not a text file"),
        "empty": (b"", "is empty"), "blank": (b" \n\t\r\n", "is empty"),
        "byte order mark": (b"\xef\xbb\xbf", "is empty"),
        "json": (b'[{"lat": 48.1, "lon": 11.5}]', "JSON"), "html": (b"<table><tr><td>lat", "HTML"),
        "half of utf-16": (written(table()).encode("utf-16")[:-1], "not complete UTF-16"), "zeros": (bytes(3000), save),
    }  # fmt: skip
    for name, (content, message) in contents.items():
        yield Case(name, content, message=message)


def unclear() -> Iterator[Case]:
    cells = table()
    both = [[*row, "latitude" if not number else row[3]] for number, row in enumerate(cells)]
    yield Case("two latitudes", written(both).encode(), message="may be the latitude: lat, latitude.*--map lat=lat")
    twice = [[*row, row[3]] for row in cells]
    yield Case("a column twice", written(twice).encode(), message="the column 'lat' twice")
    weights = [[*row, "weight" if not number else "1"] for number, row in enumerate(cells)]
    yield Case("two demands", written(weights).encode(), message="--map demand=parcels")
    options = ("--capacity", CAPACITY, "--map", "demand=parcels")
    yield good("two demands, said", written(weights), options=options)
    planes = [[*row, *(("x", "y") if not number else ("1", "2"))] for number, row in enumerate(cells)]
    yield Case("degrees and a plane", written(planes).encode(), message="places twice")
    options = ("--capacity", CAPACITY, "--map", "lat=lat,lon=lon")
    yield good("degrees and a plane, said", written(planes), options=options)
    yield Case("no header", written(cells[1:]).encode(), message="begins with a row of numbers")
    yield Case(
        "no longitude", written([[*row[:4], row[5]] for row in cells]).encode(), message="no columns for the place"
    )
    yield Case("addresses alone", b"name,address\nA,Street 1\nB,Street 2\n", message="no columns for the place")
    yield Case("prose", b"Dear driver, please come at noon.\n", message="no columns for the place")
    wrong = ("--map", "lat=lattitude", "--capacity", CAPACITY)
    yield Case("a map to nothing", written(cells).encode(), message="Unknown column", options=wrong)
    wrong = ("--map", "place=lat", "--capacity", CAPACITY)
    yield Case("a map of nothing", written(cells).encode(), message="Unknown meaning", options=wrong)
    commas = written(cells[:2]) + "".join(
        ",".join(row).replace(".", ",") + "\n"
        for row in with_commas(table(depot=None))[1:]
        if '"' not in row[2] and "," not in row[2]
    )
    left = tuple((3 + index, MORE_CELLS) for index in range(commas.count("\n") - 2))
    yield Case("decimal commas between commas", commas.encode(), (), left)


def demands() -> Iterator[Case]:
    halves = tuple(stop._replace(parcels=f"{int(stop.parcels) / 2:.1f}") for stop in GOOD)
    yield Case("demands of halves", written(table(halves)).encode(), halves)
    yield Case("demands with commas", written(with_commas(table(halves)), ";").encode(), halves)
    options = ("--capacity", "4")
    small = tuple(stop for stop in GOOD if int(stop.parcels) <= 4)
    over = tuple((3 + index, rows.OVER) for index, stop in enumerate(GOOD) if int(stop.parcels) > 4)
    yield Case("a small capacity", written(table()).encode(), small, over, options=options)
    everything = tuple((3 + index, rows.OVER) for index in range(len(GOOD)))
    yield Case("a tiny capacity", written(table()).encode(), (), everything, options=("--capacity", "0.5"))
    zero = tuple(stop._replace(parcels="0") for stop in GOOD)
    yield Case("demands of zero", written(table(zero)).encode(), zero)
    ones = tuple(stop._replace(parcels="1") for stop in GOOD)
    yield Case("no demands", written([row[:5] for row in table()]).encode(), ones)
    for capacity in ("0", "-5", "many", "nan", "1e15"):
        options = ("--capacity", capacity)
        yield Case(
            f"a capacity of {capacity}", written(table()).encode(), message="must be a number above 0", options=options
        )
    words = tuple(stop._replace(parcels=f"{stop.parcels} pcs") for stop in GOOD)
    yield Case("demands in words", written(table(words)).encode(), message="No cell of the column 'parcels'")
    yield good("one tour", written(table()), options=())


def depots() -> Iterator[Case]:
    depot = DEPOT._replace(id="X1")
    unmarked = depot._replace(name="HQ")
    yield good("a first row without a demand", written(table(depot=unmarked._replace(id=""))))
    yield good("a first row with demand 0", written(table(depot=unmarked._replace(id="", parcels="0"))))
    yield Case("a first order without a demand", written(table(depot=unmarked)).encode(), message="it is an order")
    for word in ("Depot", "WAREHOUSE", "Lager", "Dépôt", "склад"):
        cells = table(depot=None)
        typed = [[*row, "type" if not number else "stop"] for number, row in enumerate(cells)]
        typed.append([DAY, "X1", "HQ", DEPOT.lat, DEPOT.lon, "", word])
        yield good(f"a depot of type {word}", written(typed))
    flagged = [
        [*row, "is_depot" if not number else str(int(number == 1))] for number, row in enumerate(table(depot=depot))
    ]
    yield good("a flag for the depot", written(flagged))
    ordered = Stop("A99", "", "48.2", "11.6", "3")
    for word in ("Warehouse", "hub"):
        stops = (ordered._replace(name=word), *GOOD)
        yield Case(f"a customer called {word}", written(table(stops)).encode(), stops)
    said = ("--capacity", CAPACITY, "--depot", "48.100001,11.500001")
    yield good("a depot that is said", written(table(depot=None)), options=said)
    yield good("a depot that is said and marked", written(table()), options=said)
    yield Case("no depot", written(table(depot=None)).encode(), message="needs a depot")
    bad = written(table(depot=DEPOT._replace(lat="")))
    yield Case("a depot without a place", bad.encode(), message="needs a depot")
    other = [*table(), [DAY, "depot", "", "48.2", "11.6", ""]]
    yield Case("two depots", written(other).encode(), message="several depots")
    for text in ("48.1", "north,east", "48.1,11.5,2"):
        options = ("--capacity", CAPACITY, "--depot", text)
        yield Case(
            f"a depot at {text}", written(table()).encode(), message="give latitude and longitude", options=options
        )
    options = ("--capacity", CAPACITY, "--depot", "148.1,11.5")
    yield Case("a depot off the earth", written(table()).encode(), message="not on the earth", options=options)


def planes() -> Iterator[Case]:
    header = ["date", "id", "name", "y", "x", "parcels"]
    metres = tuple(
        stop._replace(lat=f"{float(stop.lat) * 111e3:.1f}", lon=f"{float(stop.lon) * 74e3:.1f}") for stop in GOOD
    )
    depot = DEPOT._replace(lat="5339100", lon="851000")
    yield Case("a plane", written(table(metres, depot, header)).encode(), metres)
    yield Case("a plane with commas", written(with_commas(table(metres, depot, header)), ";").encode(), metres)
    far = [[*row] for row in table(metres, depot, header)]
    far[5][3] = "1e20"
    without = (*metres[:3], *metres[4:])
    yield Case("a plane with a far place", written(far).encode(), without, ((6, rows.TOO_LARGE),))
    thousands = written([header[3:5], ["1,234", "2,500"], ["3,000", "4,000"]], ";")
    yield Case("thousands or decimals", thousands.encode(), message="which may be 2500 or", options=())


def cut_off() -> Iterator[Case]:
    """The file ends in the middle of its last row."""
    lines = written(table((*GOOD[:-1], GOOD[-1]._replace(name="plain")))).splitlines()
    last = lines[-1]
    stops = (*GOOD[:-1],)
    for length in range(1, last.rindex(","), 4):
        text = "\n".join([*lines[:-1], last[:length]])
        yield Case(f"cut off after {length}", text.encode(), stops, ((len(lines), FEWER_CELLS),))
