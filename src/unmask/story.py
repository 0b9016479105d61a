"""A recorded decode as a story for the terminal: what was committed at each step, why, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from unmask.replay import COLUMNS, OUT_OF_SCOPE, Comparison, Seat, seats
from unmask.show import END, OTHER, STYLES, Picture, plain_table, quoted, visible
from unmask.trace import Step, Trace
from unmask.wording import decoder_title, duration, number, plural

DETAILED_STEPS = 40  # a story of more steps is told in one line per step, unless a range is asked for
CANVAS_LINES = 6  # of the running text, per step
WAITING = 3  # waiting candidates named per step
DIFFERENCES = 8  # positions told of the first step that differs
NOT_CANDIDATES = ("unsure", "turn", "rank")  # counted, not named, as long as others wait
ENDED = {"stop": "an end token", "length": "the canvas is full", "stopped": "whoever watched it"}


def tell(trace: Trace, screen: Console, steps: tuple[int, int] | None = None) -> None:
    """The whole story: header, steps (from, to; counted from 1), summary."""
    first, last = steps or (1, len(trace.steps))
    brief = steps is None and len(trace.steps) > DETAILED_STEPS
    screen.print(header(trace), soft_wrap=False)
    picture = Picture.start(trace.header, trace.piece)
    for count, step in enumerate(trace.steps, start=1):
        picture.apply(step)
        if first <= count <= last:
            if brief:
                screen.print(one_line(trace, count, step, screen.width))
            else:
                tell_step(trace, count, step, picture, screen)
    if brief:
        screen.print(Text("\n(one line per step; --steps A:B tells some of them in full)\n"))
    summary(trace, screen)


def header(trace: Trace) -> Text:
    data = trace.header
    text = Text.assemble((decoder_title(data), "bold"), f" on {data.get('model', '?')}")
    text.append(f" · canvas {trace.canvas_length} · seed {data.get('seed', 0)}\n")
    params = ", ".join(f"{name} {value}" for name, value in data.get("params", {}).items() if value is not None)
    if params:
        text.append(f"{params}\n", "dim")
    return text.append(f"prompt  {visible(prompt_text(data.get('prompt', '')))}\n")


def prompt_text(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return " / ".join(f"{message.get('role', '?')}: {message.get('content', '')}" for message in prompt)


def tell_step(trace: Trace, count: int, step: Step, picture: Picture, screen: Console) -> None:
    taken = list(seats(trace, step, np.flatnonzero(step.committed)))
    stop_ids = trace.header.get("stop_ids", ())
    open_ = picture.length - picture.filled
    title = f"step {count} · {plural(step.nfe, 'forward')} · {len(taken)} committed, {open_} open"
    screen.print(Text(title, "bold"))
    for route, group in by_route(taken):
        screen.print(indented(route, committed_line(group, stop_ids), STYLES.get(route, OTHER), screen))
    for drawn in picture.window(screen.width - 4, CANVAS_LINES):
        screen.print(Text("    ").append_text(drawn))
    label = "waits"
    for line in waiting_lines(trace, step):
        screen.print(indented(label, Text(line), "dim", screen))
        label = ""
    screen.print()


def by_route(taken: Sequence[Seat]) -> list[tuple[str, list[Seat]]]:
    routes = sorted({seat.verdict for seat in taken}, key=route_rank)
    return [(route, [seat for seat in taken if seat.verdict == route]) for route in routes]


def waiting_lines(trace: Trace, step: Step) -> list[str]:
    """The candidates closest to being committed with the reason of each, then how many wait for which."""
    lines = [
        f"{seat.position} {token_sign(seat, trace)} {because(seat)}{told_besides(seat, ('c',))}"
        for seat in named_waiting(trace, step)
    ]
    counts = Counter(str(verdict) for verdict in step.verdict[~step.committed]).most_common()
    if sum(n for _, n in counts) > len(lines):
        lines.append("in all: " + ", ".join(f"{n} {verdict}" for verdict, n in counts))
    return lines


def because(seat: Seat) -> str:
    return f"{seat.verdict}: {seat.why}" if seat.why else seat.verdict


def told_besides(seat: Seat, names: Sequence[str]) -> str:
    """The figures among `names` that the reason does not already give."""
    told = [f"{name} {number(seat.values[name])}" for name in names if name in seat.values]
    missing = [figure for figure in told if figure.removeprefix("score ") not in seat.why]
    return f"  [{'  '.join(missing)}]" if missing else ""


def token_sign(seat: Seat, trace: Trace) -> str:
    return END if seat.token in trace.header.get("stop_ids", ()) else quoted(seat.piece)


def committed_line(group: Sequence[Seat], stop_ids: Sequence[int], why: bool = True) -> Text:
    """What one route committed: a single position with its reason, else text by runs of positions."""
    told = [told_run(run, stop_ids) for run in runs(group)]
    if why and len(group) == 1 and group[0].why:
        told[0] += f": {group[0].why}"
    return Text("   ".join(told))


def runs(group: Sequence[Seat]) -> list[list[Seat]]:
    """Neighbouring positions together."""
    found: list[list[Seat]] = []
    for seat in group:
        if found and found[-1][-1].position + 1 == seat.position:
            found[-1].append(seat)
        else:
            found.append([seat])
    return found


def told_run(run: Sequence[Seat], stop_ids: Sequence[int]) -> str:
    """`3-6 “ has 12 apples”`, with end tokens as signs: the tail of a canvas is one token over and over."""
    where = f"{run[0].position}" if len(run) == 1 else f"{run[0].position}-{run[-1].position}"
    ends = sum(seat.token in stop_ids for seat in run)
    text = "".join(seat.piece for seat in run if seat.token not in stop_ids)
    told = [where, quoted(text) if text else "", END if ends == 1 else f"{END}x{ends}" if ends else ""]
    return " ".join(filter(None, told))


def named_waiting(trace: Trace, step: Step) -> list[Seat]:
    """The candidates closest to being committed: the most confident of those that were considered."""
    waiting = np.flatnonzero(~step.committed)
    considered = [i for i in waiting if step.verdict[i] not in NOT_CANDIDATES] or list(waiting)
    considered.sort(key=lambda i: -step.confidence[i])
    return list(seats(trace, step, np.array(considered[:WAITING], dtype=np.int64)))


def one_line(trace: Trace, count: int, step: Step, width: int) -> Text:
    taken = list(seats(trace, step, np.flatnonzero(step.committed)))
    text = Text(f"{count:4}  +{len(taken):<3}")
    for route, group in by_route(taken):
        text.append(f" {route}", STYLES.get(route, OTHER))
        text.append(f" {committed_line(group, trace.header.get('stop_ids', ()), why=False)} ")
    text.truncate(width, overflow="ellipsis")
    return text


def indented(label: str, text: Text, style: str, screen: Console) -> Text:
    """`  label  text`, with the text wrapped in a column of its own."""
    column = max(14, len(label) + 4)
    lines = text.wrap(screen, max(20, screen.width - column))
    result = Text.assemble("  ", (label, style), " " * max(1, column - 2 - len(label)))
    for n, line in enumerate(lines):
        result.append("\n" + " " * column if n else "")
        line.rstrip()
        result.append_text(line)
    return result


def route_rank(route: str) -> tuple[int, str]:
    names = list(STYLES)
    return (names.index(route) if route in names else len(names), route)


def summary(trace: Trace, screen: Console) -> None:
    table = plain_table("route", "tokens", "share", "mean c", right=("tokens", "share", "mean c"))
    total = sum(trace.route_counts().values()) or 1
    confidence = mean_confidence(trace)
    for route, count in trace.route_counts().items():
        style = STYLES.get(route, OTHER)
        table.add_row(Text(route, style), str(count), f"{100 * count / total:.0f} %", f"{confidence[route]:.2f}")
    screen.print(table)
    seconds = trace.seconds()
    spent = sum(seconds.values())
    parts = [f"{phase} {100 * s / spent:.0f} %" for phase, s in seconds.items() if spent]
    screen.print(Text(f"\ntime    {duration(spent)}: {', '.join(parts)}"))
    end = trace.end
    nfe = end.get("nfe", trace.steps[-1].nfe if trace.steps else 0)
    line = f"work    {plural(nfe, 'forward')} in {plural(len(trace.steps), 'step')}"
    projected = sum(step.projected for step in trace.steps)
    if projected:
        line += f", {projected} rows x layers read for stability"
    if end.get("branches"):
        line += f", {end['branches']} extra branch rows"
    screen.print(Text(line))
    rate = f", {end['tokens'] / end['seconds']:.1f} tokens/s" if end.get("seconds") else ""
    ended = ENDED.get(end.get("finish_reason", ""), ENDED["length"])
    screen.print(Text(f"answer  {plural(end.get('tokens', 0), 'token')}{rate}, ended by: {ended}"))
    for n, line in enumerate(end.get("text", "").splitlines()):
        screen.print(Text(f"{'        ' if n else 'text    '}{visible(line)}"))


def mean_confidence(trace: Trace) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for step in trace.steps:
        for i in np.flatnonzero(step.committed):
            found.setdefault(str(step.verdict[i]), []).append(float(step.confidence[i]))
    return {route: sum(values) / len(values) for route, values in found.items()}


def tell_comparison(result: Comparison, trace: Trace, screen: Console) -> None:
    """Where the other decoder first chooses differently, and how."""
    screen.print()
    if not result.same_model:
        screen.print(Text("(another model than the recorded one: predictions differ, not only decoders)"))
    if not result.differences:
        screen.print(Text(f"{result.theirs} would have chosen the same at {all_of(len(trace.steps))}"))
        return
    before = f"after {plural(result.agreed, 'equal step')}" if result.agreed else "at the very start"
    title = f"{result.theirs} would first have chosen differently at step {result.step} ({before})"
    screen.print(Text(title, "bold"))
    width = max(len(result.ours), len(result.theirs))
    for difference in result.differences[:DIFFERENCES]:
        ours, theirs = difference.ours, difference.theirs
        line = Text(f"\n  position {difference.position}", "bold")
        shared = False
        if ours and theirs and ours.token == theirs.token and ours.values["c"] == theirs.values["c"]:
            shared = True
            line.append(f" {token_sign(ours, trace)}{told_besides(replace(ours, why=''), ('c', 'H'))}", "not bold")
        screen.print(line)
        for name, seat in ((result.ours, ours), (result.theirs, theirs)):
            screen.print(indented(f"  {name:{width}}", Text(side(seat, trace, shared)), "", screen))
    more = len(result.differences) - DIFFERENCES
    if more > 0:
        screen.print(Text(f"\n  and {plural(more, 'more position')}"))


def all_of(steps: int) -> str:
    return "the only step" if steps == 1 else f"all {steps} steps"


def side(seat: Seat | None, trace: Trace, shared: bool) -> str:
    """What one decoder does with a position, and why; what both sides share is told once, above."""
    if seat is None:
        return OUT_OF_SCOPE
    does = "commits" if seat.committed else "waits"
    token = "" if shared else f" {token_sign(seat, trace)}"
    names = ("K", "r", "S", "E", "score") if shared else COLUMNS
    return f"{does}{token}, {because(seat)}{told_besides(seat, names)}"
