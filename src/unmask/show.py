"""A canvas in the terminal: text where tokens are committed, coloured by route, gaps where masks remain.

One picture serves `generate --watch`, `replay` and `demo`. Routes differ in more than colour (underline,
bold), so that a terminal without colours still tells them apart.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unmask.wording import decoder_title, duration, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unmask.loop import Row
    from unmask.trace import Step

MASK, END, LINE_END = "░", "∎", "↵"
GIVEN = "given"  # a token that was in the canvas from the start
STYLES = {
    "confidence": "green", "stability": "cyan underline", "fallback": "bold yellow", "schedule": "blue",
    "chance": "magenta", "budget": "green", "direct": "bold green", "independent": "cyan underline",
    "branch": "magenta underline", "order": "blue", GIVEN: "italic",
}  # fmt: skip
OTHER = "bold"  # routes of third-party decoders


class Screen(Console):
    def on_broken_pipe(self) -> None:  # rich would exit with its own code
        raise BrokenPipeError


def console(stderr: bool = False, width: int | None = None) -> Console:
    """No markup, no guessed highlighting: decoded text may hold anything."""
    return Screen(stderr=stderr, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def plain_table(*columns: str, right: Iterable[str] = ()) -> Table:
    """Columns of text without lines, readable in a terminal and in a pasted issue."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        numeric = column in right
        table.add_column(column, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    return table


def visible(piece: str) -> str:
    """A piece without anything that could move the cursor; line ends become a sign before the break."""
    return "".join(_visible(char) for char in piece)


def _visible(char: str) -> str:
    if char == "\n":
        return LINE_END
    if char.isprintable():
        return char
    if char == "\t" or unicodedata.category(char) == "Zs":
        return " "
    return "�"


def quoted(piece: str) -> str:
    """A piece on its own, so that its spaces can be seen."""
    return f"“{visible(piece)}”"


@dataclass
class Picture:
    """What each canvas position shows, and the route that put it there ("" while masked)."""

    length: int
    piece: Callable[[int], str]
    stop_ids: frozenset[int]
    pieces: list[str] = field(default_factory=list)
    routes: list[str] = field(default_factory=list)
    fresh: set[int] = field(default_factory=set)  # committed by the latest step

    @classmethod
    def start(cls, header: Mapping[str, Any], piece: Callable[[int], str]) -> Picture:
        length = int(header["canvas_length"])
        stop_ids = frozenset(header.get("stop_ids", ()))
        picture = cls(length, piece, stop_ids, [MASK] * length, [""] * length)
        for position, token in header.get("fixed", {}).items():
            picture.put(int(position), int(token), GIVEN)
        return picture

    def put(self, position: int, token: int, route: str) -> None:
        self.pieces[position] = END if token in self.stop_ids else visible(self.piece(token))
        self.routes[position] = route

    def apply(self, step: Step) -> None:
        self.fresh = set()
        for position, token, route in step.commits():
            self.put(position, token, route)
            self.fresh.add(position)

    @property
    def filled(self) -> int:
        return sum(bool(route) for route in self.routes)

    def counts(self) -> dict[str, int]:
        """Positions per route, in the order in which routes are documented."""
        known = [route for route in STYLES if route in self.routes]
        others = sorted(set(self.routes) - set(STYLES) - {""})
        return {route: self.routes.count(route) for route in (*known, *others)}

    def lines(self, width: int) -> list[Text]:
        """The canvas broken into lines, between words where a word is known, anywhere among masks."""
        lines, room = [Text()], width
        for unit in self.units():
            size = sum(cell_len(self.pieces[i]) for i in unit)
            if size > room and lines[-1].plain:
                lines.append(Text())
                room = width
            for i in unit:
                room = self.draw(i, lines, room, width)
        return lines

    def draw(self, i: int, lines: list[Text], room: int, width: int) -> int:
        """Append position i; a new line after a line end, or where a long word hits the edge."""
        style, chunk = self.style(i), ""
        for char in self.pieces[i]:
            if cell_len(char) > room:
                lines[-1].append(chunk, style)
                lines.append(Text())
                chunk, room = "", width
            wrapped = len(lines) > 1 and lines[-2].plain[-1:] != LINE_END
            if char == " " and wrapped and not (lines[-1].plain or chunk):
                continue  # the space at which a line was broken
            chunk += char
            room -= cell_len(char)
            if char == LINE_END:
                lines[-1].append(chunk, style)
                lines.append(Text())
                chunk, room = "", width
        lines[-1].append(chunk, style)
        return room

    def units(self) -> Iterable[list[int]]:
        """Runs of positions that are not broken across lines: the pieces of one word."""
        unit: list[int] = []
        for i, piece in enumerate(self.pieces):
            alone = piece in (MASK, END) or not piece[-1:].isalnum()
            if unit and (alone or not piece[:1].isalnum()):
                yield unit
                unit = []
            unit.append(i)
            if alone:
                yield unit
                unit = []
        if unit:
            yield unit

    def style(self, i: int) -> str:
        if not self.routes[i]:
            return "dim"
        style = STYLES.get(self.routes[i], OTHER)
        return f"{style} reverse" if i in self.fresh else style

    def window(self, width: int, height: int) -> list[Text]:
        """At most `height` lines, around the first gap: where the decode is happening."""
        lines = self.lines(width)
        if len(lines) <= height:
            return lines
        gap = next((n for n, line in enumerate(lines) if MASK in line.plain), 0)
        start = max(0, min(gap - height // 3, len(lines) - height))
        return lines[start : start + height]

    def legend(self) -> Text:
        """What the styles mean and how often each occurs."""
        parts = [Text.assemble((route, STYLES.get(route, OTHER)), f" {n}") for route, n in self.counts().items()]
        open_ = self.length - self.filled
        if open_:
            parts.append(Text.assemble((f"{MASK} masked", "dim"), f" {open_}"))
        if END in self.pieces:
            parts.append(Text.assemble((f"{END} end", "dim"), f" {self.pieces.count(END)}"))
        return Text("   ").join(parts)


class Watcher:
    """Follows one decode as `generate(watch=...)`: a live picture, a bar, or plain lines of progress.

    The picture (`whole=True`) stays on the screen when the decode is over, the bar vanishes. Where the
    stream is not a terminal, the picture becomes about ten lines of text and the bar becomes nothing.
    """

    def __init__(self, piece: Callable[[int], str], whole: bool, screen: Console | None = None) -> None:
        self.piece, self.whole = piece, whole
        self.console = screen or console(stderr=True)
        self.picture: Picture | None = None
        self.reported = 0.0
        moves = self.console.is_terminal and not self.console.is_dumb_terminal
        self.live = Live(console=self.console, auto_refresh=False, transient=not whole) if moves else None

    def __enter__(self) -> Watcher:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()
            if self.whole:
                self.console.print()

    def __call__(self, row: Row, step: Step) -> None:
        if self.picture is None:
            self.picture = Picture.start(row.trace.header, self.piece)
        self.picture.apply(step)
        if self.live:
            if row.done:
                self.picture.fresh = set()  # nothing is fresh in the picture that stays
            self.live.update(self.render(row), refresh=True)
        elif self.whole:
            self.report(row)

    def render(self, row: Row) -> RenderableType:
        assert self.picture is not None
        header, width = row.trace.header, self.console.width
        counters = f"{self.picture.filled}/{self.picture.length} filled · {plural(row.nfe, 'forward')}"
        title = Text(f"{decoder_title(header)} on {header['model']} · ", overflow="ellipsis", no_wrap=True)
        title.append(f"{counters} · {duration(row.seconds)}", "bold")
        if not self.whole:
            done = round(20 * self.picture.filled / self.picture.length)
            return Text.assemble(title, "  ", ("█" * done, "green"), ("░" * (20 - done), "dim"))
        # Title, legend (perhaps two lines), two blank lines, and one for the cursor.
        lines = self.picture.window(width, max(3, self.console.height - 7))
        return Group(title, Text(), *lines, Text(), self.picture.legend())

    def report(self, row: Row) -> None:
        assert self.picture is not None
        share = self.picture.filled / self.picture.length
        if share >= self.reported + 0.1 or row.done:
            self.reported = share
            filled = f"{self.picture.filled}/{self.picture.length}"
            self.console.print(f"{filled} filled after {plural(row.nfe, 'forward')}, {duration(row.seconds)}")
