"""The people, things and places that word problems are about."""

from __future__ import annotations

SHE = "Mia Emma Lena Nora Sara Anna Lily Zoe Ruby Ella Maya Clara Ivy Rosa Julia Alice Grace Hanna Olga Tina".split()
HE = "Leo Noah Tom Ben Max Omar Paul Luca Felix Ivan Sam Oscar Hugo Jack Adam Carlos David Eric Finn Ravi".split()


def _person(name: str, he: str, his: str, him: str) -> tuple[dict[str, str], dict[str, str]]:
    """The words that refer to one person: by name, and by pronoun. Capitals start a sentence."""
    by_name = {"A": name, "X": name, "x": name, "His": f"{name}'s", "his": f"{name}'s", "him": name, "own": his}
    pronoun = {"A": name, "X": he.title(), "x": he, "His": his.title(), "his": his, "him": him, "own": his}
    return by_name, pronoun


PEOPLE = [_person(name, "she", "her", "her") for name in SHE] + [_person(name, "he", "his", "him") for name in HE]

ITEMS = [
    tuple(pair.split("/"))
    for pair in (
        "apple/apples pear/pears orange/oranges lemon/lemons peach/peaches plum/plums egg/eggs cookie/cookies "
        "muffin/muffins sandwich/sandwiches marble/marbles sticker/stickers stamp/stamps card/cards coin/coins "
        "shell/shells book/books pen/pens pencil/pencils notebook/notebooks button/buttons bead/beads "
        "balloon/balloons flower/flowers rose/roses candle/candles ribbon/ribbons magnet/magnets badge/badges "
        "ticket/tickets brick/bricks bottle/bottles mug/mugs plate/plates kite/kites doll/dolls toy/toys "
        "puzzle/puzzles postcard/postcards bracelet/bracelets"
    ).split()
]

BOXES = [
    tuple(pair.split("/"))
    for pair in "box/boxes bag/bags basket/baskets crate/crates tray/trays pack/packs carton/cartons".split()
]
FRIENDS = [
    tuple(pair.split("/"))
    for pair in (
        "friend/friends child/children student/students cousin/cousins neighbor/neighbors player/players guest/guests"
    ).split()
]
SHELVES = [tuple(pair.split("/")) for pair in "shelf/shelves table/tables room/rooms truck/trucks".split()]

KIN = "mother father sister brother aunt uncle teacher neighbor".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
PLACES = "school library market museum park bakery station club".split()
STORES = "shop store bakery school farm warehouse museum kitchen".split()
MAKERS = "machine workshop bakery factory robot team".split()
GOODS = "bike guitar camera phone tent piano laptop drum".split()
# What is done bit by bit: the whole, its parts, who does it (third person), and to do it.
PROJECTS = [
    ("book", "pages", "reads", "read"),
    ("wall", "bricks", "lays", "lay"),
    ("puzzle", "pieces", "places", "place"),
    ("list", "words", "learns", "learn"),
    ("course", "lessons", "finishes", "finish"),
    ("trail", "miles", "walks", "walk"),
    ("field", "trees", "plants", "plant"),
]
# A place laid out in rows, and what stands in them.
HALLS = [("hall", "seats"), ("theater", "seats"), ("garden", "plants"), ("garden", "trees"), ("lot", "cars")]
JOBS = ["day", "week", "hour"]
RIDES = "drives rides travels sails cycles".split()
FRACTIONS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}
GROWTH = {2: "doubles", 3: "triples"}
