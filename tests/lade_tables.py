"""Small files in LaDe-D's format."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).parents[2] / "shared" / "data" / "lade"
HEADER = (
    "order_id,region_id,city,courier_id,lng,lat,aoi_id,aoi_type,accept_time,accept_gps_time,accept_gps_lng,"
    "accept_gps_lat,delivery_time,delivery_gps_time,delivery_gps_lng,delivery_gps_lat,ds"
)


def row(order: object, region="1", city="Shanghai", lng="121.5", lat="31.1", ds="604") -> str:
    """A line with all of LaDe's columns."""
    time = "06-04 11:05:00"
    return f"{order},{region},{city},164,{lng},{lat},450,1,{time},{time},1,2,{time},{time},3,4,{ds}"


def write(path: Path, lines: list[str], header: str = HEADER) -> Path:
    path.write_text("".join(f"{line}\n" for line in (header, *lines)), encoding="utf-8")
    return path


def days(counts: dict[int, int], region="1", city="Shanghai", first=0) -> list[str]:
    """Lines with so many packages for every `ds`, at places that are all different, with orders from `first`."""
    dates = [ds for ds, count in counts.items() for _ in range(count)]
    return [
        row(first + number, region, city, f"121.{number:05d}", f"31.{number * number * 7 % 100_000:05d}", str(ds))
        for number, ds in enumerate(dates)
    ]
