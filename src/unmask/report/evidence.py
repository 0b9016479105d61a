"""The paper's diagnostic figures on masked states, drawn from the folders that `unmask diagnose` writes.

draw_upstream(folder, target) -> the files written
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask.diagnostics import layers, upstream
from unmask.diagnostics.survey import STATES
from unmask.diagnostics.tables import read_layers, subject
from unmask.evaluate.folder import read_config, read_samples
from unmask.report import style


def draw_upstream(folder: Path, target: Path, suffix: str = "") -> list[Path]:
    """Low against high upstream entropy at each mask count; error by quintile of entropy."""
    pyplot = style.pyplot()
    config = read_config(folder, STATES)
    result = upstream.analyse(read_samples(folder, STATES))
    drawing, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
    upstream_bars(left, result.levels)
    quintile_line(right, result)
    style.caption(
        drawing,
        f"Upstream entropy and answer errors: {subject(config, result)}",
        f"{result.states:,} masked states; 95 % intervals resample questions",
    )
    return style.save(drawing, target, f"upstream-{config['model']['name']}{suffix}")


def upstream_bars(panel: Any, found: list[upstream.Level]) -> None:
    for number, (side, name) in enumerate(
        (("low", "5 lowest-entropy patterns"), ("high", "5 highest-entropy patterns"))
    ):
        xs = [at + 0.38 * (number - 0.5) for at in range(len(found))]
        heights = [100 * getattr(level, side) if level.enough else 0.0 for level in found]
        bars = panel.bar(
            xs, heights, width=0.36, label=name, color=("#FFFFFF", style.COLORS[3])[number], edgecolor="black",
            hatch=("//", "")[number], linewidth=0.8,
        )  # fmt: skip
        labels = [f"{height:.1f}" if level.enough else "" for height, level in zip(heights, found, strict=True)]
        panel.bar_label(bars, labels=labels, fontsize=8, padding=1)
    top = max((100 * max(level.low, level.high) for level in found if level.enough), default=50.0)
    for at, level in enumerate(found):
        if not level.enough:
            panel.text(at, 0.1 * top, f"fewer than\n{upstream.NEEDED} questions", ha="center", fontsize=7.5)
            continue
        low, high = (100 * end for end in level.ci95)
        panel.text(
            at,
            1.2 * top,
            f"Δ {100 * level.delta:+.1f}\n[{low:.1f}, {high:.1f}]",
            ha="center",
            va="center",
            fontsize=7.5,
        )
    panel.set_ylim(0, 1.5 * top)
    panel.set_xticks(range(len(found)), [f"m = {level.m}\n(n = {level.n})" for level in found])
    panel.set_xlabel("hidden upstream digits (n: questions of mixed outcome)")
    panel.set_ylabel("answer error (%)")
    panel.legend(loc="upper left", frameon=False, ncols=2, columnspacing=1.0, handlelength=1.4)


def quintile_line(panel: Any, result: upstream.Result) -> None:
    found = result.quintiles
    xs, ys = range(1, len(found) + 1), [100 * group.error for group in found]
    low = [max(0.0, y - 100 * group.ci95[0]) for y, group in zip(ys, found, strict=True)]
    high = [max(0.0, 100 * group.ci95[1] - y) for y, group in zip(ys, found, strict=True)]
    panel.errorbar(xs, ys, yerr=[low, high], color="black", marker="o", linewidth=1, capsize=3)
    for x, y, up in zip(xs, ys, high, strict=True):
        panel.annotate(f"{y:.1f}", (x, y + up), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=8)
    panel.set_xticks(
        list(xs),
        [f"{upstream.nats(group.low)}\nto {upstream.nats(group.high)}\n(n = {group.n})" for group in found],
        fontsize=8,
    )
    panel.set_xlabel("cumulative upstream entropy E, nats (quintiles of all states)")
    panel.set_ylabel("answer error (%)")
    panel.set_ylim(bottom=0)
    panel.margins(y=0.15)
    panel.grid(axis="y", alpha=0.25)


def draw_layers(folder: Path, target: Path, suffix: str = "", first: int | None = None) -> list[Path]:
    """Error under K >= k by confidence band; the K x drop heat map."""
    pyplot = style.pyplot()
    config, result = read_layers(folder, first)
    drawing, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained", width_ratios=(1.1, 1))
    curves(left, result)
    heat(drawing, right, result)
    style.caption(
        drawing,
        f"Layerwise stability and token errors: {subject(config, result)}",
        f"{result.tokens:,} target digits, {result.wrong:,} wrong; "
        f"last {result.window} of {config['model']['layers']} layers",
    )
    return style.save(drawing, target, f"layers-{config['model']['name']}{suffix}")


FEW = 10  # tokens: a cell with fewer keeps its number, but gets no colour


def curves(panel: Any, result: layers.Result) -> None:
    import numpy as np

    for number, band in enumerate(layers.BANDS):
        rates = result.curves[band]
        if not rates:
            continue
        first = max(rate.n for rate in rates.values())
        rates = {k: rate for k, rate in rates.items() if rate.n >= FEW}
        if not rates:
            continue
        ks, ys = np.array(list(rates)), np.array([100 * rate.error for rate in rates.values()])
        ends = 100 * np.array([rate.ci95 for rate in rates.values()])
        panel.errorbar(
            ks + 0.07 * (number - 2), ys, yerr=np.clip([ys - ends[:, 0], ends[:, 1] - ys], 0, None),
            color=style.color(number), marker=style.marker(number), linestyle=style.line(number), markersize=5,
            linewidth=1.2, elinewidth=0.7, label=f"c in {layers.interval(band, layers.BANDS)} (n = {first})",
        )  # fmt: skip
    panel.set_xlabel("required persistence k (layers): tokens with K ≥ k")
    panel.set_ylabel("token error rate (%)")
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.25)
    title = f"final confidence (n at K ≥ 2; points from n = {FEW};\nbars: 95 % as if digits were independent)"
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    if panel.has_data():
        panel.legend(frameon=False, title=title, title_fontsize=8, ncols=2, **place)
    else:
        panel.text(0.5, 0.5, f"fewer than {FEW} tokens everywhere", ha="center", transform=panel.transAxes)


def heat(drawing: Any, panel: Any, result: layers.Result) -> None:
    import numpy as np

    rows, columns = len(result.rows), len(layers.DROPS)
    values = np.full((rows, columns), np.nan)
    cells = {at: rate for at, rate in result.heat.items() if at[0] < rows}
    for (i, j), rate in cells.items():
        if rate.n >= FEW:
            values[i, j] = 100 * rate.error
    top = max(1.0, float(np.nanmax(values))) if not np.isnan(values).all() else 1.0
    image = panel.imshow(values, cmap=style.SHADES, vmin=0, vmax=top, aspect="auto")
    for (i, j), rate in cells.items():
        dark = rate.n >= FEW and 100 * rate.error < 0.55 * top
        text = f"{100 * rate.error:.1f} %\nn = {rate.n}" if rate.n else "no tokens"
        shade = "white" if dark else "black" if rate.n >= FEW else "dimgray"
        panel.text(j, i, text, ha="center", va="center", fontsize=8, color=shade)
    panel.set_xticks(range(columns), [layers.interval(drop, layers.DROPS) for drop in layers.DROPS], fontsize=8)
    panel.set_yticks(range(rows), [result.most(i) for i in range(rows)])
    panel.set_xlabel("confidence drop r")
    panel.set_ylabel("persistence K (layers)")
    panel.set_title(f"confidence in [{layers.TESTED[0]}, {layers.TESTED[1]}); colour from n = {FEW}", fontsize=9)
    for spine in panel.spines.values():
        spine.set_visible(False)
    drawing.colorbar(image, ax=panel, label="token error rate (%)", shrink=0.9)
