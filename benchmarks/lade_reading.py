"""How long `dree data lade` takes on a file of LaDe-D's size, and how much memory, first and when its form is kept.

    python benchmarks/lade_reading.py [--rows 4500000]

The file is made up: five cities, 150 regions, 184 days, all of LaDe's columns; it lies in the temporary folder and goes
at the end. Seconds are those of the whole command, its start included, by the clock and of the processors; memory is
the largest resident set.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

CITIES = ("Shanghai", "Hangzhou", "Chongqing", "Jilin", "Yantai")
CENTRES = np.array([[121.5, 31.1], [120.1, 30.3], [106.5, 29.5], [126.5, 43.8], [121.4, 37.5]])
REGIONS, DAYS = 30, [date(2022, 5, 1) + timedelta(days=number) for number in range(184)]
CHUNK = 500_000


def table(orders: np.ndarray, dice: np.random.Generator) -> pa.Table:
    count = len(orders)
    city, day = dice.integers(0, len(CITIES), count), dice.integers(0, len(DAYS), count)
    place = np.round(CENTRES[city] + dice.normal(0, 0.03, (count, 2)), 5)
    found = np.round(place + dice.normal(0, 0.01, (count, 2)), 5)
    times = np.array([f"{each:%m-%d} 11:05:00" for each in DAYS])[day]
    return pa.table(
        {
            "order_id": orders,
            "region_id": city * REGIONS + dice.integers(0, REGIONS, count),
            "city": np.array(CITIES)[city],
            "courier_id": dice.integers(0, 4000, count),
            "lng": place[:, 0],
            "lat": place[:, 1],
            "aoi_id": dice.integers(0, 10_000, count),
            "aoi_type": dice.integers(0, 15, count),
            "accept_time": times,
            "accept_gps_time": times,
            "accept_gps_lng": found[:, 0],
            "accept_gps_lat": found[:, 1],
            "delivery_time": times,
            "delivery_gps_time": times,
            "delivery_gps_lng": found[:, 0],
            "delivery_gps_lat": found[:, 1],
            "ds": np.array([each.month * 100 + each.day for each in DAYS])[day],
        }
    )


def make(path: Path, rows: int) -> None:
    dice = np.random.default_rng(0)
    orders = dice.permutation(rows)
    with path.open("wb") as file:
        for start in range(0, rows, CHUNK):
            options = csv.WriteOptions(include_header=start == 0, quoting_style="none")
            csv.write_csv(table(orders[start : start + CHUNK], dice), file, options)


def measure(path: Path, cache: Path) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of processors and GiB of one call."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "dree", "data", "lade", str(path)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "DREE_CACHE": str(cache)})
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit("dree data lade failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_500_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "delivery.csv"
        make(path, rows)
        print(f"{rows} rows, {path.stat().st_size / 2**20:.0f} MiB")
        for what in ("first", "kept"):
            seconds, busy, memory = measure(path, folder / "cache")
            print(f"{what}: {seconds:.1f} s ({busy:.1f} s of processors), {memory:.2f} GiB")
        (kept,) = (folder / "cache" / "lade").iterdir()
        print(f"kept form: {kept.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
