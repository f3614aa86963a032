"""How the lines of methods look: a method has one colour in every figure and on every page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from dree.report.style import LINE_STYLES, Dashes

# By what a method is called. DREE's ablations are lines of the paper's figures too.
METHOD_COLOURS: dict[str, str] = {
    "fine-tuning": "#0072B2",
    "dree": "#D55E00",
    "llr-bc": "#009E73",
    "li": "#AA3377",
    "mt-ref": "#E69F00",
    "mt-cumulative": "#56B4E9",
    "dree without br": "#8C6D31",
    "dree without ee": "#CC79A7",
    "dree without pir": "#332288",
}
OTHERS = ("#4D4D4D", "#999933")  # of methods of a user's own, and of further variants of one method


class Look(NamedTuple):
    """A line's colour and dashes."""

    colour: str
    dashes: Dashes


def method_looks(titles: Mapping[str, str]) -> dict[str, Look]:
    """The look of each line of a figure, by its label; `titles` says which method it is of: `li, refresh_every 1`.

    A method with changed options has the colour of the method itself, unless that is in the figure, too. Lines of one
    colour have different dashes.
    """
    colours: dict[str, str] = {}
    others = 0
    for title in sorted(dict.fromkeys(titles.values()), key=lambda title: title not in METHOD_COLOURS):
        own = METHOD_COLOURS.get(title) or METHOD_COLOURS.get(title.partition(", ")[0])
        if own is None or own in colours.values():
            own = OTHERS[others % len(OTHERS)]
            others += 1
        colours[title] = own
    looks: dict[str, Look] = {}
    drawn: Counter[str] = Counter()
    for label, title in titles.items():
        colour = colours[title]
        looks[label] = Look(colour, LINE_STYLES[drawn[colour] % len(LINE_STYLES)])
        drawn[colour] += 1
    return looks
