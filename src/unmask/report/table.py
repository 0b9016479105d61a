"""A table as data, and the five ways to print it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.errors import unknown


@dataclass(frozen=True)
class Cell:
    """A number with its decimals, or a text. `best` marks the winner of its row or column; `mark` follows it."""

    value: float | str | None
    decimals: int = 2
    best: bool = False
    signed: bool = False
    mark: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return ""
        if isinstance(self.value, str):
            return self.value + self.mark
        return f"{self.value:{'+' if self.signed else ''}.{self.decimals}f}{self.mark}"


@dataclass
class Table:
    title: str
    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)  # what JSON and CSV hold instead of cells
    left: int = 1  # leading columns of text

    def render(self, form: str) -> str:
        if form not in FORMS:
            raise unknown("format", form, FORMS)
        return FORMS[form](self)


def plain(table: Table) -> str:
    """For a terminal, or a file: aligned, the best marked with an asterisk."""
    cells = [[str(cell) + ("*" if cell.best else "") for cell in row] for row in table.rows]
    widths = [max(len(text) for text in column) for column in zip(table.columns, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        pairs = enumerate(zip(texts, widths, strict=True))
        aligned = [text.ljust(width) if i < table.left else text.rjust(width) for i, (text, width) in pairs]
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    marked = ["* best"] if any(cell.best for row in table.rows for cell in row) else []
    return "\n".join(
        [table.title, "", line(table.columns), rule, *map(line, cells), "", *marked, *table.notes]
    ).rstrip()


def markdown(table: Table) -> str:
    def escape(text: str) -> str:
        return text.replace("|", "\\|")

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(texts) + " |"

    rule = ["---" if i < table.left else "---:" for i in range(len(table.columns))]
    body = [line([f"**{escape(str(c))}**" if c.best else escape(str(c)) for c in row]) for row in table.rows]
    notes = [f"\n{note}" for note in table.notes]
    return "\n".join([f"**{table.title}**\n", line([escape(c) for c in table.columns]), line(rule), *body, *notes])


SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    "†": r"\textdagger{}",
}  # fmt: skip


def latex(table: Table) -> str:
    def escape(text: str) -> str:
        return "".join(SPECIAL.get(character, character) for character in text)

    def line(texts: Sequence[str]) -> str:
        return " & ".join(texts) + r" \\"

    align = "l" * table.left + "r" * (len(table.columns) - table.left)
    body = [line([rf"\textbf{{{escape(str(c))}}}" if c.best else escape(str(c)) for c in row]) for row in table.rows]
    caption = " ".join([f"{table.title}.", *table.notes])
    return "\n".join(
        [
            r"\begin{table}[t]", r"\centering", rf"\caption{{{escape(caption)}}}", rf"\begin{{tabular}}{{{align}}}",
            r"\toprule", line([escape(c) for c in table.columns]), r"\midrule", *body, r"\bottomrule",
            r"\end{tabular}", r"\end{table}",
        ]
    )  # fmt: skip


def comma_separated(table: Table) -> str:
    """The records, one per line, with a column for everything that JSON nests."""
    flat = [flatten(record) for record in table.records]
    names = list(dict.fromkeys(name for record in flat for name in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue().rstrip("\n")


def flatten(record: Mapping[str, Any], prefix: str = "", interval: bool = False) -> dict[str, Any]:
    """`params.beta` for what is in `params`, `..._low` and `..._high` for an interval, other lists as JSON."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        name, bounds = prefix + key, interval or key.endswith("_ci95")
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.", bounds)
        elif isinstance(value, list | tuple):
            pair = bounds and len(value) == 2
            flat |= {f"{name}_low": value[0], f"{name}_high": value[1]} if pair else {name: json.dumps(value)}
        else:
            flat[name] = value
    return flat


def document(table: Table) -> str:
    whole = {"title": table.title, "notes": table.notes, "rows": table.records}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)


FORMS: dict[str, Callable[[Table], str]] = {
    "table": plain, "md": markdown, "tex": latex, "csv": comma_separated, "json": document,
}  # fmt: skip
