"""Small charts as inline SVG: no library, and colours that follow the page (light, dark, print).

Everything is told twice, by colour and by dash or shape, so that a greyscale print loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

LEFT, RIGHT, TOP, BOTTOM = 46, 18, 12, 34  # margins, in the units of the view box


class Plot:
    """A frame with axes; marks are added in data coordinates."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], labels: tuple[str, str], title: str,
        width: int = 380, height: int = 220, left: int = LEFT,
    ) -> None:  # fmt: skip
        self.x, self.y, self.width, self.height, self.title, self.left = x, y, width, height, title, left
        self.parts: list[str] = []
        middle = (left + width - RIGHT) / 2
        self.parts.append(f'<text class="label" x="{middle:.0f}" y="{height - 3}">{escape(labels[0])}</text>')
        if labels[1]:
            half = f"{(TOP + height - BOTTOM) / 2:.0f}"
            at = f'x="12" y="{half}" transform="rotate(-90 12 {half})"'
            self.parts.append(f'<text class="label" {at}>{escape(labels[1])}</text>')

    def px(self, value: float) -> float:
        low, high = self.x
        return self.left + (self.width - RIGHT - self.left) * (value - low) / ((high - low) or 1.0)

    def py(self, value: float) -> float:
        low, high = self.y
        inside = min(max(value, low), high)
        return self.height - BOTTOM - (self.height - BOTTOM - TOP) * (inside - low) / ((high - low) or 1.0)

    def x_ticks(self, ticks: Sequence[tuple[float, str]]) -> Plot:
        for value, text in ticks:
            at = f"{self.px(value):.1f}"
            self.parts.append(f'<line class="tick" x1="{at}" x2="{at}" y1="{self.py(self.y[0]):.1f}" y2="{TOP}"/>')
            self.parts.append(f'<text class="number" x="{at}" y="{self.height - BOTTOM + 13}">{escape(text)}</text>')
        return self

    def y_ticks(self, ticks: Sequence[tuple[float, str]]) -> Plot:
        for value, text in ticks:
            at = self.py(value)
            self.parts.append(
                f'<line class="tick" x1="{self.left}" x2="{self.width - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                f'<text class="number end" x="{self.left - 5}" y="{at + 3.5:.1f}">{escape(text)}</text>'
            )
        return self

    def line(self, points: Sequence[tuple[float, float]], style: str) -> Plot:
        if points:
            path = "L".join(f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in points)
            self.parts.append(f'<path class="line {style}" d="M{path}"/>')
        return self

    def point(self, x: float, y: float, style: str, hint: str = "", shape: str = "circle") -> Plot:
        at, down = self.px(x), self.py(y)
        if shape == "square":
            mark = f'<rect class="point {style}" x="{at - 4:.1f}" y="{down - 4:.1f}" width="8" height="8">'
        else:
            mark = f'<circle class="point {style}" cx="{at:.1f}" cy="{down:.1f}" r="4.2">'
        self.parts.append(f"{mark}<title>{escape(hint)}</title></{'rect' if shape == 'square' else 'circle'}>")
        return self

    def upright(self, x: float, low: float, high: float, style: str) -> Plot:
        """An interval up and down."""
        at = f"{self.px(x):.1f}"
        self.parts.append(
            f'<line class="bar {style}" x1="{at}" x2="{at}" y1="{self.py(low):.1f}" y2="{self.py(high):.1f}"/>'
        )
        return self

    def across(self, y: float, low: float, high: float, style: str) -> Plot:
        """An interval from left to right."""
        at = f"{self.py(y):.1f}"
        self.parts.append(
            f'<line class="bar {style}" y1="{at}" y2="{at}" x1="{self.px(low):.1f}" x2="{self.px(high):.1f}"/>'
        )
        return self

    def level(self, y: float, style: str, text: str) -> Plot:
        at = self.py(y)
        self.parts.append(
            f'<line class="mark {style}" x1="{self.left}" x2="{self.width - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="note end {style}" x="{self.width - RIGHT - 3}" y="{at - 4:.1f}">{escape(text)}</text>'
        )
        return self

    def upto(self, x: float, style: str, text: str) -> Plot:
        """A line across the whole height, named at its top."""
        at = self.px(x)
        right = at < self.left + 0.6 * (self.width - RIGHT - self.left)
        self.parts.append(
            f'<line class="mark {style}" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{self.height - BOTTOM}"/>'
            f'<text class="note {"start" if right else "end"} {style}" x="{at + (4 if right else -4):.1f}" '
            f'y="{TOP + 10}">{escape(text)}</text>'
        )
        return self

    def text(self, x: float, y: float, text: str, style: str = "", shift: tuple[float, float] = (0, 0)) -> Plot:
        at = f'x="{self.px(x) + shift[0]:.1f}" y="{self.py(y) + shift[1]:.1f}"'
        self.parts.append(f'<text class="note {style}" {at}>{escape(text)}</text>')
        return self

    def cell(self, box: tuple[float, float, float, float], strength: float, text: str, hint: str) -> Plot:
        """A rectangle of a heat map: x from, x to, y from, y to, in data coordinates."""
        x0, x1, y0, y1 = self.px(box[0]), self.px(box[1]), self.py(box[3]), self.py(box[2])
        self.parts.append(
            f'<rect class="cell" style="--s:{100 * strength:.0f}%" x="{x0 + 1:.1f}" y="{y0 + 1:.1f}" '
            f'width="{x1 - x0 - 2:.1f}" height="{y1 - y0 - 2:.1f}"><title>{escape(hint)}</title></rect>'
            f'<text class="inside" x="{(x0 + x1) / 2:.1f}" y="{(y0 + y1) / 2 + 3.5:.1f}">{escape(text)}</text>'
        )
        return self

    def svg(self) -> str:
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.title)}">'
            f"{''.join(self.parts)}</svg>"
        )


def nice(high: float, count: int = 4) -> list[float]:
    """Round tick values from 0 up to just past `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def percent(share: float) -> str:
    value = 100 * share
    return f"{value:.0f} %" if abs(value - round(value)) < 1e-9 else f"{value:.3g} %"
