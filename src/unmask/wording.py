"""Numbers and counts as people read them. Shared by everything that prints."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any


def number(value: float) -> str:
    """Three significant digits, no exponent for everyday sizes: 0.973, 6.2, 160, inf, - for NaN."""
    if value != value:
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def duration(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def decoder_title(header: Mapping[str, Any]) -> str:
    """A trace's decoder as it was asked for: `rpd`, `rpd-paper (rpd)`, `default (llada-default)`."""
    name, label = str(header["decoder"]), header.get("label")
    return f"{label} ({name})" if label and label != name else name


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """A table as text. With a `width`, the last column is wrapped to stay within it; without, lines are long."""
    table = [list(header), *([str(cell) for cell in row] for row in rows)]
    sizes = [max(len(row[n]) for row in table) for n in range(len(header) - 1)]
    indent = sum(size + 2 for size in sizes)
    lines = []
    for row in table:
        start = "".join(f"{cell:{size}}  " for cell, size in zip(row, sizes, strict=False))
        last = textwrap.wrap(row[-1], max(24, width - indent)) if width else [row[-1]]
        lines += [(start + (last or [""])[0]).rstrip(), *(" " * indent + more for more in last[1:])]
    return "\n".join(lines)
