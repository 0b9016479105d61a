"""The paper's trade-off figure: accuracy against throughput and against NFE, points labelled by their value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unmask.report import style
from unmask.report.tradeoff import Series, pareto, series

AXES = (
    ("tps", "tokens per second", False),
    ("nfe", "forward calls per example (fewer to the right)", True),
)
WIDE = 5.0  # a cost axis that spans more than this factor is logarithmic


def draw(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """One figure per model and task, as PNG and SVG; the files written."""
    style.pyplot()  # before anything is made: is it here?
    places = dict.fromkeys((row["model"], row["task"]) for row in rows)
    written: list[Path] = []
    for model, task in places:
        chosen = [row for row in rows if (row["model"], row["task"]) == (model, task) and row["n"]]
        if chosen:
            written += figure(model, task, chosen, folder)
    return written


def figure(model: str, task: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    pyplot = style.pyplot()
    groups = series(rows)
    drawing, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for panel, (key, label, reverse) in zip(panels, AXES, strict=True):
        for number, group in enumerate(groups):
            plot_series(panel, group, key, number)
        plot_front(panel, rows, key, reverse)
        panel.set_xlabel(label)
        panel.grid(alpha=0.25)
        panel.margins(x=0.1)  # room for the labels
        spread(panel, [row[key] for row in rows])
        if reverse:
            panel.invert_xaxis()
    panels[0].set_ylabel("accuracy (%), bars: 95 % interval")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    row, counts = rows[0], sorted({row["n"] for row in rows})
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    style.caption(drawing, f"{model} on {task} (n = {n}, {row['device']}, batch {row['batch_size']})")
    return style.save(drawing, folder, f"tradeoff-{model}-{task}")


def spread(panel: Any, values: Sequence[float]) -> None:
    """A logarithmic axis where one setting costs many times another, with plain numbers."""
    if min(values) <= 0 or max(values) < WIDE * min(values):
        return
    from matplotlib import ticker

    panel.set_xscale("log")
    panel.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(ticker.NullFormatter())
    panel.set_xlabel(f"{panel.get_xlabel()}, logarithmic")


def plot_series(panel: Any, group: Series, key: str, number: int) -> None:
    rows = sorted(group.rows, key=lambda row: row[key])
    xs, ys = [row[key] for row in rows], [100 * row["accuracy"] for row in rows]
    low = [y - 100 * row["accuracy_ci95"][0] for row, y in zip(rows, ys, strict=True)]
    high = [100 * row["accuracy_ci95"][1] - y for row, y in zip(rows, ys, strict=True)]
    name = group.decoder + (f" ({', '.join(group.varied)})" if group.varied else "")
    panel.errorbar(
        xs, ys, yerr=[low, high], color=style.color(number), marker=style.marker(number), markersize=5,
        linewidth=1, elinewidth=0.4,
        alpha=0.9, label=name, linestyle=style.line(number) if len(rows) > 1 else "none",
    )  # fmt: skip
    for x, y, row in zip(xs, ys, rows, strict=True) if group.varied else ():  # else the legend says it
        panel.annotate(
            group.tag(row), (x, y), xytext=(4, -10 if number % 2 else 4), textcoords="offset points", fontsize=7,
            color=style.color(number),
        )  # fmt: skip


def plot_front(panel: Any, rows: Sequence[Mapping[str, Any]], key: str, reverse: bool) -> None:
    """The settings that none beats in both accuracy and cost."""
    points = [(-row[key] if reverse else row[key], 100 * row["accuracy"]) for row in rows]
    front = pareto(points)
    panel.plot(
        [rows[i][key] for i in front], [points[i][1] for i in front], color="black", linewidth=0.8, linestyle=":",
        marker="o", markersize=11, markerfacecolor="none", markeredgewidth=0.8, label="Pareto front", zorder=0,
    )  # fmt: skip
