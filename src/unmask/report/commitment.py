"""The paper's figures on commitment order, and on what the stability test admits, from a folder of decodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unmask.diagnostics.admitted import Admitted
from unmask.diagnostics.constraints import NAMES
from unmask.diagnostics.order import BINS, Order, Profile, Result, constraint_table
from unmask.diagnostics.tables import decoded_subject, read_admitted, read_order
from unmask.report import style

END = "~"  # a terminal token in the box picture, as in the paper
BOXES = 20  # per row
BOXED = ("most-confident", "default", "dream-default", "rpd")  # decoders whose first decode is drawn as boxes
ACROSS = 3  # panels per row
PANELS = 9  # at most, in one figure


def draw_order(folder: Path, target: Path, suffix: str = "") -> list[Path]:
    config, result = read_order(folder)
    return draw_result(result, decoded_subject(config), target, f"{config['model']['name']}{suffix}")


def draw_result(result: Result, subject: str, target: Path, stem: str) -> list[Path]:
    """Every figure that the decodes at hand allow."""
    written: list[Path] = []
    if result.profile is not None:
        written += draw_profile(result.profile, subject, target, f"profile-{stem}")
    if result.decoders:
        for page, orders in pages(list(result.decoders.values())):
            written += draw_heat(orders, subject, target, f"commit-order-{stem}{page}")
    if result.samples:
        index = min(result.samples)
        lines = result.samples[index]
        for page, chosen in pages(list(lines.items())):
            written += draw_trajectories(chosen, index, subject, target, f"trajectories-{stem}{page}")
        wanted = [label for label in lines if label.split(":")[0] in BOXED] or list(lines)[:1]
        for label in wanted:
            written += draw_boxes(lines[label], label, subject, target, f"boxes-{label}-{stem}")
    if any(name in result.decoders for name in NAMES):
        written += draw_constraints(result, subject, target, f"constraints-{stem}")
    return written


def pages(panels: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """As many figures as it takes; all but the first are numbered."""
    for number, start in enumerate(range(0, len(panels), PANELS), start=1):
        yield f"-{number}" if start else "", panels[start : start + PANELS]


def draw_profile(profile: Profile, subject: str, target: Path, stem: str) -> list[Path]:
    """The U-shape: confidence by position, before anything is committed."""
    drawing, panel = style.pyplot().subplots(figsize=(7.5, 3.4), layout="constrained")
    xs = np.arange(profile.c.shape[1])
    low, high = np.percentile(profile.c, [10, 90], axis=0)
    panel.fill_between(xs, low, high, color=style.COLORS[2], alpha=0.35, linewidth=0, label="10th to 90th percentile")
    panel.plot(xs, profile.c.mean(axis=0), color="black", linewidth=1.4, label="mean confidence")
    panel.plot(
        xs, profile.ends.mean(axis=0), color=style.COLORS[1], linestyle="--", linewidth=1.1,
        label="share that expects an end token",
    )  # fmt: skip
    panel.set_xlabel("canvas position")
    panel.set_ylabel("confidence, share")
    panel.set_ylim(0, 1.02)
    panel.set_xlim(0, len(xs) - 1)
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.0))
    style.caption(drawing, f"Initial confidence of an empty canvas: {subject}, n = {profile.n}")
    return style.save(drawing, target, stem)


def draw_heat(orders: Sequence[Order], subject: str, target: Path, stem: str) -> list[Path]:
    """Percent of samples in which a position is committed at a given progress; one panel per decoder."""
    drawing, panels = grid(len(orders), 3.3, 2.7)
    image = None
    for panel, order in zip(panels, orders, strict=False):
        width = order.counts.shape[1]
        shades = np.sqrt(order.heat)  # thin diagonals and full columns in one picture
        image = panel.imshow(
            shades, origin="lower", aspect="auto", cmap=style.SHADES, vmin=0, vmax=10, extent=(0, width, 0, 1),
            interpolation="nearest",
        )  # fmt: skip
        panel.set_title(f"{order.label} (n = {order.n}, {order.forwards:.1f} forwards)", fontsize=8.5)
        panel.set_xlabel("canvas position")
        panel.set_ylabel("normalised progress")
    assert image is not None
    bar = drawing.colorbar(image, ax=list(panels[: len(orders)]), label="% of samples committed there", shrink=0.9)
    bar.set_ticks([np.sqrt(value) for value in (0, 5, 20, 50, 100)], labels=["0", "5", "20", "50", "100"])
    style.caption(drawing, f"Commitment order: {subject}", f"{BINS} bins of progress, columns add up to 100 %")
    return style.save(drawing, target, stem)


def draw_trajectories(
    chosen: Sequence[tuple[str, Mapping[str, Any]]], index: int, subject: str, target: Path, stem: str
) -> list[Path]:
    """The step at which each position was committed, side by side on one example."""
    drawing, panels = grid(len(chosen), 3.2, 2.6)
    for panel, (label, line) in zip(panels, chosen, strict=False):
        order, end = np.array(line["order"]), line["end"]
        at = np.arange(len(order))
        text, tail = (at < end) & (order >= 0), (at >= end) & (order >= 0)
        panel.scatter(at[text], order[text] + 1, s=9, color="black", label="text")
        panel.scatter(
            at[tail], order[tail] + 1, s=9, facecolors="none", edgecolors=style.COLORS[1], linewidths=0.7,
            label="end of text",
        )  # fmt: skip
        panel.set_title(f"{label} ({line['nfe']} forwards)", fontsize=8.5)
        panel.set_xlabel("canvas position")
        panel.set_ylabel("commit step")
        panel.locator_params(axis="y", integer=True)
        panel.grid(alpha=0.25)
    panels[0].legend(frameon=False, loc="best", markerscale=1.3)
    style.caption(drawing, f"One decode each: {subject}, example {index}", "lower is earlier")
    return style.save(drawing, target, stem)


def draw_boxes(line: Mapping[str, Any], label: str, subject: str, target: Path, stem: str) -> list[Path]:
    """Each box is one generated token, shaded by the step at which it was committed; terminal tokens are `~`."""
    from matplotlib.patches import Rectangle

    pieces, order, steps = line["pieces"], line["order"], max(1, line["steps"])
    rows = -(-len(pieces) // BOXES)
    pyplot = style.pyplot()
    drawing, panel = pyplot.subplots(figsize=(11, 0.34 * rows + 1.2), layout="constrained")
    shades, scale = pyplot.get_cmap(style.SHADES).reversed(), pyplot.Normalize(1, steps)
    for position, piece in enumerate(pieces):
        row, column = divmod(position, BOXES)
        shade = shades(scale(order[position] + 1))
        panel.add_patch(Rectangle((column, -row), 0.96, 0.86, facecolor=shade, edgecolor="dimgray", linewidth=0.4))
        dark = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] < 0.5
        panel.text(
            column + 0.48, -row + 0.43, shown(piece), ha="center", va="center", color="white" if dark else "black",
            fontsize=7.5 if len(shown(piece)) < 8 else 6,
        )  # fmt: skip
    panel.set_xlim(-0.1, BOXES)
    panel.set_ylim(-rows + 0.9, 1.0)
    panel.axis("off")
    bar = pyplot.cm.ScalarMappable(norm=scale, cmap=shades)
    drawing.colorbar(bar, ax=panel, label=f"commit step (of {steps})", shrink=0.9, aspect=14, pad=0.01)
    style.caption(drawing, f"{label}, one decode: {subject}", f"{line['nfe']} forwards; {END} is an end token")
    return style.save(drawing, target, stem)


def shown(piece: str | None) -> str:
    if piece is None:
        return END
    text = piece.replace("\n", "↵").replace("\t", "→")
    return (text.strip() or "␣").replace("$", r"\$")


def draw_constraints(result: Result, subject: str, target: Path, stem: str) -> list[Path]:
    table = constraint_table(result)
    if table is None:
        return []
    drawing, panel = style.pyplot().subplots(figsize=(4.8, 3.4), layout="constrained")
    for at, record in enumerate(table.records):
        value = 100 * record["accuracy"]
        ends = [[value - 100 * record["ci95_low"]], [100 * record["ci95_high"] - value]]
        panel.bar(
            at, value, width=0.6, color=("#FFFFFF", style.COLORS[2], style.COLORS[3])[at % 3], edgecolor="black",
            hatch=("//", "..", "")[at % 3], linewidth=0.8,
        )  # fmt: skip
        panel.errorbar(at, value, yerr=ends, color="black", capsize=3, linewidth=1)
        panel.text(at + 0.06, value + 1.5, f"{value:.1f}", ha="left", va="bottom", fontsize=9)
    names = [record["constraint"].replace("-", "-\n", 1) for record in table.records]
    panel.set_xticks(range(len(names)), names)
    panel.set_ylabel("accuracy (%), bars: 95 % interval")
    panel.set_ylim(0, 112)
    n = table.records[0]["n"]
    style.caption(drawing, f"Ordering constraints: {subject}", f"one token per forward, n = {n}")
    return style.save(drawing, target, stem)


def draw_admitted(folder: Path, target: Path, suffix: str = "") -> list[Path]:
    """Confidence, persistence and drop of stability-admitted tokens, the ceiling, and the share of each route."""
    config, found = read_admitted(folder)
    held = [item for item in found.values() if item.values]
    if not held:
        return []
    drawing, panels = style.pyplot().subplots(len(held), 4, figsize=(12, 2.5 * len(held) + 0.6), squeeze=False,
                                              layout="constrained")  # fmt: skip
    window = config["model"]["layers"]
    for row, item in zip(panels, held, strict=True):
        histograms(row, item, window)
        routes(row[3], item)
    none = [f"none by {item.label} (n = {item.n})" for item in found.values() if not item.values]
    style.caption(
        drawing,
        f"What the stability test admits: {decoded_subject(config)}",
        "; ".join(["lines: median (solid), 10th and 90th percentile (dashed); distributions of a selection", *none]),
    )
    return style.save(drawing, target, f"admitted-{config['model']['name']}{suffix}")


def histograms(row: Any, item: Admitted, layers: int) -> None:
    table, top = item.table, item.percentiles()
    limit = max(0.3, 1.1 * (item.ceiling or 0.0), float(table[:, 2].max()))
    low, high = min(0.6, float(table[:, 0].min())), max(0.9, float(table[:, 0].max()))
    bins = [np.linspace(low, high, 25), np.arange(0.5, layers + 1), np.linspace(0, limit, 25)]
    names = (("c", "final confidence c"), ("K", "persistence K (layers)"), ("r", "confidence drop r"))
    for number, (name, label) in enumerate(names):
        panel = row[number]
        panel.hist(table[:, number], bins=bins[number], color=style.COLORS[2], edgecolor="black", linewidth=0.4)
        for value, dash in zip(top[name], ("--", "-", "--"), strict=True):
            panel.axvline(value, color="black", linestyle=dash, linewidth=1)
        panel.set_xlabel(label)
        panel.set_ylabel("tokens")
        panel.locator_params(axis="y", integer=True, nbins=5)
    row[1].set_xlim(0.5, table[:, 1].max() + 1.5)
    row[0].set_title(f"{item.label}: {len(table)} of {item.commits} commits, n = {item.n}", fontsize=8.5, loc="left")
    if item.ceiling is not None:
        row[2].axvline(item.ceiling, color=style.COLORS[1], linewidth=2)
        row[2].annotate(
            f"ceiling {item.ceiling:.3f}", (item.ceiling, 0.97), xycoords=("data", "axes fraction"), xytext=(4, 0),
            textcoords="offset points", va="top", fontsize=8, color=style.COLORS[1],
        )  # fmt: skip


def routes(panel: Any, item: Admitted) -> None:
    names = list(item.routes)
    values = [100 * item.share(name) for name in names]
    bars = panel.barh(names, values, color=style.COLORS[3], edgecolor="black", linewidth=0.6)
    panel.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    panel.invert_yaxis()
    panel.set_xlim(0, 118)
    panel.set_xlabel("share of commits (%)")


def grid(count: int, width: float, height: float) -> tuple[Any, Any]:
    """Panels in rows of three; unused ones are taken away."""
    across = min(count, ACROSS)
    rows = -(-count // across)
    size = (width * across + 0.8, height * rows + 0.6)
    drawing, panels = style.pyplot().subplots(rows, across, figsize=size, squeeze=False, layout="constrained")
    flat = panels.flatten()
    for spare in flat[count:]:
        spare.remove()
    return drawing, flat
