"""One look for every figure: colours that colour-blind readers tell apart (Okabe and Ito), each with a marker and
a line style of its own, so that a grey print says the same; PNG and SVG."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from unmask.errors import UserError

# Ordered so that neighbours also differ in grey: black, vermillion, sky blue, blue, orange, green, purple.
COLORS = ("#000000", "#D55E00", "#56B4E9", "#0072B2", "#E69F00", "#009E73", "#CC79A7")
MARKERS = "os^Dvp*hX"
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)))
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
SHADES = "cividis"  # even for every kind of sight, and monotone in grey

LETTERS = 13.5  # per inch of a caption

SETTINGS: Any = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8, "figure.titlesize": 10,
    "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "unmask", "axes.axisbelow": True,
}  # fmt: skip


def pyplot() -> Any:
    """matplotlib without a window, or one sentence on how to get it."""
    try:
        import matplotlib

        matplotlib.use("Agg")
    except ImportError:
        raise UserError("figures need matplotlib: pip install 'unmask[plot]'") from None
    from matplotlib import pyplot

    pyplot.rcParams.update(SETTINGS)
    return pyplot


def color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]


def line(number: int) -> Any:
    return LINES[number % len(LINES)]


def hatch(number: int) -> str:
    return HATCHES[number % len(HATCHES)]


def save(drawing: Any, folder: Path, stem: str) -> list[Path]:
    """As PNG and SVG; equal drawings give equal files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"figures cannot be written to {folder}: {error.strerror or error}") from None
    stem = re.sub(r"[^A-Za-z0-9.]+", "-", stem).strip("-")
    paths = [folder / f"{stem}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        drawing.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot().close(drawing)
    return paths


def caption(drawing: Any, title: str, note: str = "") -> None:
    """The title above; below it what n is and how it was measured. No line is wider than the figure."""
    width = int(LETTERS * drawing.get_figwidth())
    lines = [line for text in (title, note) if text for line in textwrap.wrap(text, width)]
    drawing.suptitle("\n".join(lines), fontsize=9)
