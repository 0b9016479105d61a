"""A decode as a moving picture: one SVG, no script, that plays wherever an image is shown (a README, a slide).

Several traces stand side by side and go in step, one forward at a time. A masked position is a grey cell as wide
as the token it will become; when its step comes the token appears in the hue of its route. Where motion is not
wanted (prefers-reduced-motion), the finished canvas is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.errors import UserError
from unmask.files import write_whole
from unmask.show import END, GIVEN, LINE_END, MASK, Picture
from unmask.wording import plural

if TYPE_CHECKING:
    from unmask.trace import Trace

CHAR, LINE, SIZE, MARGIN, TOP = 7.8, 21.0, 13, 18, 26  # a character, a line, the font, border, heading: pixels
FRAME, REST = 0.32, 3.0  # seconds per forward, and for the finished canvas
# Hue by day and by night: the page's (serve/page/canvas.css), where every one is told apart by the colour-blind.
HUES = {
    "confidence": ("#0072b2", "#4db2f0"), "stability": ("#b36b00", "#f2a93b"), "fallback": ("#b8478f", "#e58ac2"),
    "schedule": ("#00805d", "#2fc79a"), "chance": ("#2c8577", "#6fd0bf"), "budget": ("#1f73b7", "#7cc4f5"),
    "direct": ("#c04f00", "#ff8a4c"), "independent": ("#857600", "#cdbb3a"), "branch": ("#882255", "#d977a8"),
    "order": ("#5b6470", "#a3acb9"), GIVEN: ("#6e7781", "#8b949e"),
}  # fmt: skip
OTHER = ("#6a51a3", "#b39ddb")
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


@dataclass(frozen=True)
class Piece:
    """One stretch of one token on one line."""

    text: str
    x: float
    y: float
    route: str
    frame: int  # the step (from 1) at which it appears; 0 for what was given


def animate(traces: Sequence[Trace], columns: int = 56) -> str:
    """The SVG of these decodes, side by side."""
    if any(not trace.steps for trace in traces):
        raise UserError("a trace without steps has nothing to show")
    panels = [place(trace, columns) for trace in traces]
    frames = max(len(trace.steps) for trace in traces)
    width = columns * CHAR
    height = TOP + max(max((piece.y for piece in panel), default=0.0) for panel in panels) + LINE
    drawn = []
    for number, (trace, panel) in enumerate(zip(traces, panels, strict=True)):
        left = MARGIN + number * (width + 2 * MARGIN)
        cells = "".join(cell(piece) for piece in panel)
        heading = f'<text class="head" y="16">{escape(title(trace))}</text>'
        counters = "".join(counter(trace, frame, width) for frame in range(frames + 1))
        body = f'{heading}{counters}<g transform="translate(0 {TOP})">{cells}</g>'
        drawn.append(f'<g transform="translate({left:g} {MARGIN})">{body}</g>')
    routes = list(dict.fromkeys(piece.route for panel in panels for piece in panel))
    full_width = len(traces) * (width + 2 * MARGIN)
    full_height = height + 2 * MARGIN + 24
    words = ", ".join(f"{title(trace)}: {plural(trace.steps[-1].nfe, 'forward')}" for trace in traces)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width:.0f} {full_height:.0f}" '
        f'width="{full_width:.0f}" role="img" aria-label="{escape(words)}"><style>{style(frames, routes)}</style>'
        f'<rect class="ground" width="100%" height="100%" rx="8"/>{"".join(drawn)}'
        f"{legend(routes, height + MARGIN + 14)}</svg>\n"
    )


def save(traces: Sequence[Trace], path: Path) -> None:
    write_whole(path, animate(traces))


def title(trace: Trace) -> str:
    return f"{trace.header.get('label') or trace.header['decoder']} on {trace.header.get('model', 'model')}"


def place(trace: Trace, columns: int) -> list[Piece]:
    """Where every token of the finished canvas stands. Masks are laid out as what they will become, so that
    nothing moves when they do."""
    picture = Picture.start(trace.header, trace.piece)
    for step in trace.steps:
        picture.apply(step)
    appears = trace.commit_steps() + 1
    placed: list[Piece] = []
    column, line = 0, 0
    for unit in picture.units():
        if column and column + sum(len(picture.pieces[i].rstrip(LINE_END)) for i in unit) > columns:
            column, line = 0, line + 1
        for i in unit:
            text = picture.pieces[i]
            if not column:
                text = text.lstrip(" ") or text[:1]
            for part in cut(text, columns):
                if column + len(part) > columns:
                    column, line = 0, line + 1
                x, y = column * CHAR, (line + 1) * LINE
                placed.append(Piece(part, x, y, picture.routes[i], int(appears[i])))
                column += len(part)
            if text.endswith(LINE_END):
                column, line = 0, line + 1
    return placed


def cut(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def cell(piece: Piece) -> str:
    """The grey cell, and the token over it."""
    size = len(piece.text) * CHAR
    box = (
        f'<rect class="mask{when(piece, "h")}" x="{piece.x + 0.8:.1f}" y="{piece.y - 13:.1f}" '
        f'width="{size - 1.6:.1f}" height="16" rx="2.5"/>'
    )
    if piece.text == MASK:  # early stop left it open
        return box
    kind = "end" if piece.text == END else "word"
    line = (
        f'<rect class="under" x="{piece.x + 0.8:.1f}" y="{piece.y + 3.4:.1f}" width="{size - 1.6:.1f}" height="1.6"/>'
    )
    word = (
        f'<text class="{kind}" x="{piece.x:.1f}" y="{piece.y:.1f}" textLength="{size:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(piece.text)}</text>'
    )
    return f'{box}<g class="r-{name(piece.route)}{when(piece, "s")}">{"" if kind == "end" else line}{word}</g>'


def when(piece: Piece, kind: str) -> str:
    """Its place in the animation; `open` for a cell that stays a mask."""
    if piece.frame > 0:
        return f" {kind}{piece.frame}"
    return "" if piece.route else " open"


def counter(trace: Trace, frame: int, width: float) -> str:
    """`12 forwards` while frame 12 is shown; the last one stays."""
    steps = len(trace.steps)
    if frame > steps:
        return ""
    nfe = trace.steps[frame - 1].nfe if frame else 0
    last = " last" if frame == steps else ""
    return (
        f'<text class="count f{frame}{last}" x="{width:g}" y="16" text-anchor="end">{plural(nfe, "forward")}</text>'
    )


def legend(routes: Sequence[str], y: float) -> str:
    parts, x = [], float(MARGIN)
    for route in [route for route in HUES if route in routes] + [r for r in routes if r and r not in HUES]:
        parts.append(
            f'<rect class="r-{name(route)} key" x="{x:g}" y="{y - 9:g}" width="10" height="10" rx="2"/>'
            f'<text class="note" x="{x + 15:g}" y="{y:g}">{escape(route)}</text>'
        )
        x += 34 + len(route) * 7
    parts.append(f'<text class="note" x="{x:g}" y="{y:g}">{END} end of text</text>')
    return "".join(parts)


def name(route: str) -> str:
    """A class name: the routes of third parties may hold anything."""
    return route if route in HUES else "other"


def style(frames: int, routes: Sequence[str]) -> str:
    """Everything starts in its finished state; the animation hides what is not there yet."""
    whole = frames * FRAME + REST
    known = {name(route): HUES.get(route, OTHER) for route in routes if route}
    day, night = ("".join(f"--{n}:{hues[i]};" for n, hues in known.items()) for i in (0, 1))
    rules = [
        f"svg{{--ink:#1b1f24;--soft:#57606a;--faint:#d5d9de;--ground:#fff;{day}}}",
        f"@media(prefers-color-scheme:dark){{svg{{--ink:#e6e9ee;--soft:#9aa4b2;--faint:#3a4350;--ground:#12161c;{night}}}}}",
        f"text{{font:{SIZE}px {MONO};fill:var(--ink)}}",
        ".ground{fill:var(--ground)}.mask{fill:var(--faint);opacity:0}",
        ".open{opacity:1}.head{font-weight:600}.count,.note{fill:var(--soft)}.count{opacity:0}",
        ".count.last{opacity:1}.end{opacity:.45}.end,.note{font-size:12px}",
        *(f".r-{n} .word{{fill:var(--{n})}}.r-{n} .under,.r-{n}.key{{fill:var(--{n})}}" for n in known),
        "@media(prefers-reduced-motion:no-preference){",
    ]
    for frame in range(frames + 1):
        at, after = 100 * frame * FRAME / whole, 100 * (frame + 1) * FRAME / whole
        before = max(0.0, at - 0.01)
        rules.append(f"@keyframes s{frame}{{0%,{before:.2f}%{{opacity:0}}{at:.2f}%,100%{{opacity:1}}}}")
        rules.append(f"@keyframes h{frame}{{0%,{before:.2f}%{{opacity:1}}{at:.2f}%,100%{{opacity:0}}}}")
        shown = f"0%,{before:.2f}%{{opacity:0}}" if frame else ""
        rules.append(
            f"@keyframes f{frame}{{{shown}{at:.2f}%,{after - 0.01:.2f}%{{opacity:1}}{after:.2f}%,100%{{opacity:0}}}}"
        )
        motion = f"{whole:.2f}s step-end infinite"
        rules.append(
            f".s{frame}{{animation:s{frame} {motion}}}.h{frame}{{animation:h{frame} {motion}}}"
            f".f{frame}{{animation:f{frame} {motion}}}.f{frame}.last{{animation:s{frame} {motion}}}"
        )
    return "".join([*rules, "}"])
