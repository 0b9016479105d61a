"""The picture of a canvas: nothing lost, nothing wider than the screen, every route told apart."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import oracle
import unmask
from unmask.decoders.base import ROUTES
from unmask.show import END, LINE_END, MASK, STYLES, Picture, Watcher
from unmask.wording import columns, duration, number

PIECES = st.lists(st.sampled_from(["Mia", " has", "1", "2", ".", "\n", " ", "####", " x" * 9, "日本", "\x1b", None]))


def picture(pieces: list[str | None]) -> Picture:
    """One position per piece; None stays masked."""
    header = {"canvas_length": len(pieces), "stop_ids": [], "fixed": {}}
    drawn = Picture.start(header, lambda token: pieces[token] or "")
    for position, piece in enumerate(pieces):
        if piece is not None:
            drawn.put(position, position, "confidence")
    return drawn


@given(PIECES, st.integers(4, 60))
def test_lines_fit_and_lose_nothing(pieces, width):
    drawn = picture(pieces)
    lines = drawn.lines(width)
    assert all(cell_len(line.plain) <= width for line in lines)
    shown = "".join(line.plain for line in lines)
    assert shown.replace(" ", "") == "".join(drawn.pieces).replace(" ", "")


@given(PIECES, st.integers(4, 60), st.integers(1, 5))
def test_a_window_is_no_taller_than_asked_and_shows_the_first_gap(pieces, width, height):
    drawn = picture(pieces)
    shown = drawn.window(width, height)
    assert len(shown) <= height
    if None in pieces:
        assert any(MASK in line.plain for line in shown)


def test_words_are_not_broken():
    lines = [line.plain for line in picture(["Mia", " start", "ed", " with", " app", "les", "."]).lines(14)]
    assert lines == ["Mia started", "with apples."]


def test_line_ends_break_lines():
    assert [line.plain for line in picture(["a", "\n", "b"]).lines(20)] == [f"a{LINE_END}", "b"]


def test_every_route_has_a_style_of_its_own_family():
    assert set(ROUTES) <= set(STYLES)
    # Routes that one decoder mixes must differ without colours: by underline, bold or neither.
    for mixed in (
        ("confidence", "stability", "fallback"),
        ("confidence", "branch", "fallback"),
        ("direct", "independent"),
    ):
        plain = [
            frozenset(word for word in STYLES[route].split() if word in ("bold", "underline")) for route in mixed
        ]
        assert len(set(plain)) == len(plain)


@pytest.fixture
def watched():
    """A decode followed on a terminal of 80 columns (or none): what was drawn."""

    def follow(whole: bool, terminal: bool, **options) -> str:
        screen = Console(
            file=io.StringIO(), force_terminal=terminal, width=80, height=24, legacy_windows=False, **options
        )
        model = oracle.oracle()
        with Watcher(model.tokenizer.piece, whole, screen) as watcher:
            unmask.generate(model, oracle.PROMPT, "rpd", watch=watcher)
        return screen.file.getvalue()

    return follow


def test_the_live_picture_ends_whole(watched):
    drawn = watched(whole=True, terminal=True, no_color=True)
    last = re.sub(r"\x1b\[[\d;]*m", "", drawn[drawn.rindex("rpd on oracle") :])
    assert "64/64 filled · 17 forwards" in last and "####" in last and END in last and MASK not in last
    assert drawn.count("rpd on oracle") >= 17


def test_without_colours_no_colour_is_sent(watched):
    codes = {
        code
        for found in re.findall(r"\x1b\[([\d;]+)m", watched(True, True, no_color=True))
        for code in found.split(";")
    }
    assert codes <= {"0", "1", "2", "3", "4", "7"}  # attributes only


def test_the_bar_leaves_nothing_behind(watched):
    drawn = watched(whole=False, terminal=True, no_color=True)
    assert "█" in drawn and drawn.endswith("\x1b[2K")


def test_no_terminal_no_control_sequences(watched):
    assert watched(whole=False, terminal=False) == ""
    assert "\x1b" not in watched(whole=True, terminal=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.97312, "0.973"), (6.2, "6.2"), (4.0, "4"), (12345.6, "12346"), (float("nan"), "-"), (float("inf"), "inf")],
)
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "12.3 ms"), (0.5, "0.50 s"), (12, "12.00 s"), (600, "10.0 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_tables_wrap_their_last_column():
    table = columns(("a", "b"), [["x", "one two three four five six seven"]], width=30)
    assert table == "a  b\nx  one two three four five six\n   seven"
    assert columns(("a", "b"), [["x", "one two three four five six seven"]]).splitlines()[1].endswith("seven")
