"""The runtime-split figure: each decoder's time by phase, relative to Fast-dLLM's whole.

Read from the summaries of evaluation runs, from what `unmask profile --json` prints, or from a plain JSON object
{decoder: {"backbone": s, "projection": s, "scoring": s, "other": s}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unmask.errors import UserError
from unmask.report import style
from unmask.report.table import Cell, Table

PHASES = {
    "backbone": "backbone forward",
    "projection": "layer projection",
    "scoring": "scoring and gating",
    "other": "other",
}
REFERENCE = "fast-dllm"
Split = Mapping[str, Mapping[str, float]]


def from_rows(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """(model, task) -> decoder -> seconds per example and phase; decoders of unfinished runs are left out."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for row in rows:
        n = row["decoded"]
        if n > 0 and row["phases"]:
            place = found.setdefault((row["model"], row["task"]), {})
            place[row["label"]] = {phase: row["phases"].get(phase, 0.0) / n for phase in PHASES}
    return found


def from_file(path: Path) -> dict[str, dict[str, float]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from None
    data = data.get("runtime_split", data) if isinstance(data, dict) else data
    try:
        split = {str(name): {p: float(spent.get(p, 0.0)) for p in PHASES} for name, spent in data.items()}
    except (AttributeError, TypeError, ValueError):
        raise UserError(
            f"{path} is not a runtime split: it needs {{decoder: {{{', '.join(PHASES)}}}}} in seconds"
        ) from None
    require(split, str(path))
    return split


def require(split: Split, place: str) -> None:
    if not sum(split.get(REFERENCE, {}).values()):
        raise UserError(f"{place} holds no time of {REFERENCE}, to which runtimes are taken relative")


def relative(split: Split) -> dict[str, dict[str, float]]:
    """Every phase over the reference's whole runtime."""
    whole = sum(split[REFERENCE].values())
    return {name: {phase: spent[phase] / whole for phase in PHASES} for name, spent in split.items()}


def table(split: Split, title: str, beside: bool = False) -> Table:
    made = Table(title, ["decoder", *PHASES.values(), f"relative to {REFERENCE}"])
    for name, shares in relative(split).items():
        total = sum(shares.values())
        made.rows.append([Cell(name), *(Cell(shares[phase], 3) for phase in PHASES), Cell(total, 3)])
        made.records.append({"decoder": name, **shares, "relative": total, "seconds": sum(split[name].values())})
    if beside:
        from unmask.report.paper_evidence import RUNTIME, SOURCE

        values = ", ".join(f"{name} {value}" for name, value in RUNTIME.items())
        made.notes.append(f"{SOURCE}, model and task not stated: {values}.")
    return made


def draw(split: Split, title: str, target: Path, stem: str) -> list[Path]:
    require(split, title)
    shares = relative(split)
    drawing, panel = style.pyplot().subplots(figsize=(7.2, 0.42 * len(shares) + 1.7), layout="constrained")
    colors = ("#FFFFFF", style.COLORS[1], style.COLORS[2], style.COLORS[3])
    left = dict.fromkeys(shares, 0.0)
    for number, (phase, label) in enumerate(PHASES.items()):
        widths = [values[phase] for values in shares.values()]
        panel.barh(
            list(shares), widths, left=list(left.values()), color=colors[number], edgecolor="black", linewidth=0.6,
            hatch=("", "////", "...", "xx")[number], label=label,
        )  # fmt: skip
        left = {name: at + width for (name, at), width in zip(left.items(), widths, strict=True)}
    for name, total in left.items():
        panel.annotate(
            f"{total:.2f}", (total, name), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip
    panel.axvline(1.0, color="black", linewidth=0.8, linestyle=":", zorder=0)
    panel.invert_yaxis()
    panel.set_xlabel(f"runtime relative to {REFERENCE}")
    panel.margins(x=0.09)
    panel.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.45, 1.0))
    style.caption(drawing, title)
    return style.save(drawing, target, stem)
