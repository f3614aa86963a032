"""Which column of a file of orders means what: guessed by its name in several languages, or said with `--map`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dree.errors import DreeError, unknown

# Names as `normalised` leaves them. One of an earlier group is preferred; two of one group are ambiguous, but for names
# of stops, of which the first serves.
NAMES: dict[str, tuple[str, ...]] = {
    "lat": (
        "lat latitude latdeg latitudedeg gpslat gpslatitude geolat stoplat latwgs84 wgs84lat breite breitengrad "
        "geobreite geogrbreite latitud latitudine breedtegraad szerokosc szerokoscgeograficzna szerokoscgeogr "
        "szergeogr enlem широта 纬度 緯度",
    ),
    "lon": (
        "lon lng long longitude londeg lngdeg longitudedeg gpslon gpslng gpslongitude geolon geolng stoplon stoplng "
        "lonwgs84 wgs84lon lange laenge langengrad laengengrad geolange geolaenge longitud longitudine lengtegraad "
        "geogrlange geogrlaenge dlugosc dlugoscgeograficzna dlugoscgeogr dlgeogr boylam долгота 经度 經度 経度",
    ),
    "x": ("x xcoord xcoordinate coordx posx easting ostwert rechtswert",),
    "y": ("y ycoord ycoordinate coordy posy northing nordwert hochwert",),
    "demand": (
        "demand demands quantity qty weight weightkg kg parcels packages pieces units boxes pallets load volume menge "
        "anzahl gewicht pakete stuck stueck paletten bedarf cantidad peso paquetes demanda quantite poids colis "
        "quantita colli aantal ilosc waga miktar количество вес 数量 重量 需求",
    ),
    "date": (
        "date ds day deliverydate orderdate servicedate shipdate datum tag lieferdatum liefertag fecha dia jour data "
        "giorno dag tarih дата 日期",
        "deliveryday datedelivery daydelivery planneddate plannedday routedate tourdate liefertermin zustelldatum "
        "zustelltag datumlieferung taglieferung tourdatum fechaentrega fechareparto diaentrega dataentrega "
        "datelivraison jourlivraison dataconsegna giornoconsegna leverdatum leverdag bezorgdatum bezorgdag "
        "leveringsdato leveransdatum datadostawy dziendostawy teslimtarihi teslimattarihi датадоставки 配送日期 "
        "送货日期",
        "datetime timestamp deliverytime zeitstempel",
    ),
    "id": (
        "id orderid orderno ordernr ordernumber order stopid packageid parcelid deliveryid shipmentid trackingnumber "
        "trackingid auftrag auftragsnr auftragsnummer bestellnummer sendung sendungsnr sendungsnummer pedido npedido "
        "nopedido numeropedido commande ncommande nocommande numcommande numerocommande ordine nordine noordine "
        "numeroordine заказ 订单号",
    ),
    "name": (
        "name stop stopname bezeichnung nombre nom nome naam nazwa имя 名称",
        "customer customername customerid kunde kundenname kundennummer client cliente recipient empfanger empfaenger",
        "nr no number nummer numero",
        "address adresse direccion indirizzo adres адрес 地址",
    ),
    "depot": ("depot isdepot depotflag", "type kind role typ art tipo stoptype locationtype"),
}
GROUPS = {meaning: [frozenset(group.split()) for group in groups] for meaning, groups in NAMES.items()}
KINDS = GROUPS["depot"][1]
DEPOT_NAMES = "depot depo deposito warehouse hub lager magazzino entrepot magazyn magazijn депо склад 仓库"
DEPOT_WORDS = frozenset(DEPOT_NAMES.split())
LONGEST_WORD = 20  # letters of a cell that may be one of them
YES_WORDS = "1 true yes y x ja oui si sim t wahr vrai"
YES = frozenset(YES_WORDS.split())
EARTH, PLANE = ("lat", "lon"), ("x", "y")
WORDS = {"lat": "latitude", "lon": "longitude", "x": "x", "y": "y"}
PLAIN = str.maketrans("łøđæ", "loda")
JOINT_WORDS = "de del della di da do du des der la le of the van"  # between others they only join them
JOINTS = frozenset(JOINT_WORDS.split())


@dataclass(frozen=True)
class Column:
    """A column: where it is, what the file calls it, and whether its name is of the first, surest group."""

    index: int
    name: str
    sure: bool


def normalised(name: str) -> str:
    """Small letters and digits alone, without accents and without what is in brackets."""
    name = _bare(name)
    letters = unicodedata.normalize("NFKD", name.casefold()).translate(PLAIN)
    return "".join(letter for letter in letters if letter.isalnum())


def spellings(name: str) -> set[str]:
    """How a heading may be known: as `normalised` leaves it, with and without words such as `de` and `of` inside it."""
    words = [word for word in re.split(r"[\W_]+", _bare(name)) if word]
    inside = [word for word in words[1:-1] if word.casefold() not in JOINTS]  # a van may begin or end a heading
    return {normalised(name), normalised("".join([*words[:1], *inside, *words[-1:]] if len(words) > 1 else words))}


def recognised(cells: Sequence[str], given: Mapping[str, str]) -> int:
    """How many meanings the names in a row would have; 0 where the place is not among them."""
    names = set().union(*map(spellings, cells))
    said = {meaning for meaning, name in given.items() if name and normalised(name) in names}
    guessed = {meaning for meaning, groups in GROUPS.items() if any(group & names for group in groups)}
    found = said | guessed
    return len(found) if any(set(pair) <= found for pair in (EARTH, PLANE)) else 0


def find_columns(
    path: Path, header: Sequence[str], filled: Collection[int], marked: Collection[int], given: Mapping[str, str]
) -> dict[str, Column]:
    """Meaning -> column. Empty columns are passed over, and so are kinds of stops of which none is a depot.

    `filled` are the columns that are not empty, `marked` those in which a depot is named.
    """
    found = {
        meaning: Column(_named(path, header, meaning, name), name, True)
        for meaning, name in given.items()
        if name and meaning != "dates"
    }
    taken = {column.index for column in found.values()}
    other = {PLANE: EARTH, EARTH: PLANE}
    excluded = {each for pair in other if set(pair) & set(found) for each in other[pair]}
    for meaning, groups in GROUPS.items():
        if meaning in given or meaning in excluded:
            continue
        for rank, group in enumerate(groups):
            candidates = [
                index
                for index, name in enumerate(header)
                if group & spellings(name)
                and index not in taken
                and (index in filled or meaning in WORDS)
                and (index in marked or (meaning, rank) != ("depot", 1))
            ]
            if len(candidates) > 1 and meaning != "name":
                raise _ambiguous(path, meaning, [header[index] for index in candidates])
            if candidates:
                found[meaning] = Column(candidates[0], header[candidates[0]], rank == 0)
                break
    pair = _place(path, header, found)
    return {meaning: column for meaning, column in found.items() if meaning in pair or meaning not in WORDS}


def _bare(name: str) -> str:
    """A name without what is in brackets, unless all of it is."""
    return re.sub(r"[(\[].*?[)\]]", "", name) or name


def is_depot_word(cell: str) -> bool:
    """Whether a cell says `depot` in some language."""
    return len(cell) <= LONGEST_WORD and normalised(cell) in DEPOT_WORDS


def marks_depot(cell: str, column: Column) -> bool:
    """Whether a cell of the column for depots marks its row as one."""
    return is_depot_word(cell) or (column.sure and normalised(cell) in YES)


def _named(path: Path, header: Sequence[str], meaning: str, name: str) -> int:
    """Where the column is that a person has named."""
    for same in (lambda cell: cell == name, lambda cell: normalised(cell) == normalised(name)):
        places = [index for index, cell in enumerate(header) if same(cell)]
        if len(places) == 1:
            return places[0]
        if places:
            raise DreeError(
                f"{path} has {len(places)} columns '{name}'. Give them different names for --map {meaning}=."
            )
    raise unknown(f"column in {path}", name, [cell for cell in header if cell])


def _ambiguous(path: Path, meaning: str, names: Sequence[str]) -> DreeError:
    """The error where several columns may mean the same."""
    if len({normalised(name) for name in names}) < len(names):
        return DreeError(f"{path} has the column '{names[0]}' twice. Give the columns different names.")
    none = "" if meaning in WORDS else f", or --map {meaning}= if none of them is"
    return DreeError(
        f"{path} has several columns that may be the {WORDS.get(meaning, meaning)}: {', '.join(names)}. Say which: "
        f"--map {meaning}={names[0]}{none}."
    )


def _place(path: Path, header: Sequence[str], found: Mapping[str, Column]) -> tuple[str, str]:
    """The two meanings that are the place; a file in which it is not clear where stops are is refused."""
    pairs = [pair for pair in (EARTH, PLANE) if set(pair) <= set(found)]
    if len(pairs) == 2:
        names = {meaning: found[meaning].name for meaning in (*EARTH, *PLANE)}
        raise DreeError(
            f"{path} has places twice: {names['lat']}, {names['lon']} and {names['x']}, {names['y']}. Say which: "
            f"--map lat={names['lat']},lon={names['lon']} or --map x={names['x']},y={names['y']}."
        )
    if not pairs:
        raise no_place(path, header, found)
    return pairs[0]


def no_place(path: Path, header: Sequence[str], found: Collection[str] = ()) -> DreeError:
    """The error where no columns for the place are found."""
    half = [WORDS[meaning] for meaning in (*EARTH, *PLANE) if meaning in found]
    only = f" for anything but the {half[0]}" if half else ""
    names = ", ".join(cell for cell in header if cell)[:300]
    return DreeError(
        f"{path} has no columns for the place of a stop{only}. Its first line must name latitude and longitude (lat, "
        f"lon) or x and y; here it is: {names}. If they have other names, say them: --map lat=NAME,lon=NAME or "
        "--map x=NAME,y=NAME."
    )
