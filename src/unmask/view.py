"""A decode as HTML: the coloured canvas that notebooks show, with the page's own cells, words and styles.

The page draws from the same trace with the same rules in JavaScript (serve/page/cells.js) and the same
stylesheet (serve/page/canvas.css); a test renders one trace with both and compares cell by cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from unmask.replay import reason
from unmask.show import END, quoted, visible
from unmask.wording import decoder_title, duration, number, plural

if TYPE_CHECKING:
    from unmask.api import Generation
    from unmask.trace import Trace

LONG = 6  # characters that fit a cell in its usual size; more are set smaller
GIVEN = "given"  # a token that was on the canvas from the start
# Why a position was committed: one sentence each, for legends and ledgers.
ROUTES: Mapping[str, str] = {
    "confidence": "confident enough on its own",
    "stability": "moderately confident, and stable across the final layers",
    "fallback": "nothing qualified: the best single position",
    "schedule": "among the best of a fixed schedule",
    "chance": "drawn by the schedule",
    "budget": "within the entropy budget of the step",
    "direct": "so certain that dependencies do not matter",
    "independent": "in the independent set of the attention graph",
    "branch": "made the winning lookahead branch",
    "order": "its turn in reading order",
    GIVEN: "given from the start",
}
# Why a position waits.
REASONS: Mapping[str, str] = {
    "unsure": "confidence too low",
    "unstable": "moderately confident, but not stable across layers",
    "upstream": "too much uncertainty before it",
    "rank": "others ranked higher",
    "conflict": "depends on a position committed in the same step",
    "turn": "an earlier position comes first",
}


@dataclass(frozen=True)
class Cell:
    """One canvas position after the last step."""

    position: int
    text: str  # what the cell shows
    route: str  # "" while masked
    strength: int  # tenths of confidence, 0 to 9
    end: bool  # an end of text: drawn, but faintly
    label: str  # what a reader who sees no colours is told


def cells(trace: Trace) -> list[Cell]:
    """Every position of the canvas, as the page shows it when the decode is over."""
    stop_ids = frozenset(trace.header.get("stop_ids", ()))
    made = [Cell(i, "", "", 0, False, f"position {i}: masked") for i in range(trace.canvas_length)]
    for position, token in trace.header.get("fixed", {}).items():
        piece, at, end = trace.piece(token), int(position), token in stop_ids
        made[at] = Cell(at, shown(piece, end), GIVEN, 9, end, f"position {at}: {quoted(piece)}, given")
    params = {"decoder": trace.header["decoder"], **trace.header.get("params", {})}
    for count, step in enumerate(trace.steps, start=1):
        for i in np.flatnonzero(step.committed):
            at, token, route = int(step.positions[i]), int(step.token[i]), str(step.verdict[i])
            columns = {"c": step.confidence, "H": step.entropy, **step.columns}
            values = {name: shortest(column[i]) for name, column in columns.items() if not np.isnan(column[i])}
            why = reason(route, values, step.threshold, params)
            end, piece = token in stop_ids, trace.piece(token)
            name = "end of text" if end else quoted(piece)
            label = f"position {at}: {name}, step {count}, {route}" + (f": {why}" if why else "")
            made[at] = Cell(at, shown(piece, end), route, tenths(values["c"]), end, label)
    return made


def shown(piece: str, end: bool) -> str:
    """A piece in its cell: a leading space says nothing there; where there is nothing else, spaces are counted."""
    text = visible(piece)
    return END if end else text.strip() or f"␣{len(text) if len(text) > 1 else ''}"


def shortest(value: np.float32) -> float:
    """The number as the trace file spells it, which is the one the page reads."""
    return float(str(value))


def tenths(confidence: float) -> int:
    return max(0, min(9, int(confidence * 10)))


def generation_html(out: Generation) -> str:
    """What a notebook shows for a Generation. No scripts: it looks the same wherever the notebook is opened."""
    trace = out.trace
    work = f"{plural(out.nfe, 'forward')} · {plural(len(out.tokens), 'token')}"
    facts = f"{work} · {duration(out.seconds)} · {number(out.tokens_per_second)} tokens/s"
    title = f"{escape(decoder_title(trace.header))} on {escape(str(trace.header.get('model', '')))}"
    return (
        f'<div class="um um-note"><style>{stylesheet()}</style>'
        f'<p class="um-title"><b>{title}</b> · {facts}</p>{warnings_html(out)}'
        f'<div class="um-canvas" role="img" aria-label="canvas of {trace.canvas_length} positions">'
        f"{''.join(map(cell_html, cells(trace)))}</div>{map_html(trace)}{legend_html(trace)}"
        f'<pre class="um-answer">{escape(out.text)}</pre></div>'
    )


def warnings_html(out: Generation) -> str:
    return "".join(f'<p class="um-warned">{escape(str(warning))}</p>' for warning in out.warnings)


def cell_html(cell: Cell) -> str:
    attributes = f'data-route="{escape(cell.route)}" data-strength="{cell.strength}" title="{escape(cell.label)}"'
    attributes += " data-long" if len(cell.text) > LONG else ""
    attributes += " data-end" if cell.end else ""
    return f'<span class="um-cell" {attributes}><span class="um-text">{escape(cell.text)}</span></span>'


def map_html(trace: Trace) -> str:
    """Commit order: positions from left to right, steps from top to bottom."""
    steps, length = max(1, len(trace.steps)), trace.canvas_length
    marks = "".join(
        f'<rect class="um-mark" data-route="{escape(route)}" x="{position}" y="{row}" width="1" height="1"/>'
        for row, step in enumerate(trace.steps)
        for position, _, route in step.commits()
    )
    label = f"commit order: {length} positions from left to right, {steps} steps from top to bottom"
    return (
        f'<svg class="um-map" viewBox="0 0 {length} {steps}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">{marks}</svg>'
    )


def legend_html(trace: Trace) -> str:
    entries = "".join(
        f'<li><span class="um-key" data-route="{escape(route)}"></span>{escape(route)} <b>{count}</b></li>'
        for route, count in trace.route_counts().items()
    )
    return f'<ul class="um-legend">{entries}</ul>'


@cache
def stylesheet() -> str:
    return files("unmask.serve").joinpath("page", "canvas.css").read_text(encoding="utf-8")
