"""Folders of diagnostics as tables: what the commands print, what the files and the results page hold.

upstream_tables(folder)   {"upstream": Table, "quintiles": Table}
layer_tables(folder)      {"curves": Table, "heatmap": Table, "separation": Table}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask.diagnostics import layers, upstream
from unmask.diagnostics.masking import scaling
from unmask.diagnostics.survey import STATES
from unmask.evaluate.folder import read_config, read_samples
from unmask.report import paper_evidence as paper
from unmask.report.table import Cell, Table


def upstream_tables(folder: Path, beside: bool = False) -> dict[str, Table]:
    config = read_config(folder, STATES)
    result = upstream.analyse(read_samples(folder, STATES))
    upstream.require(result, config["model"]["name"])
    notes = [
        f"{scaling(result.digits)}; {config['request']['patterns']} patterns per question and mask count, seed "
        f"{config['request']['seed']}.",
        "Error rates average questions of mixed outcome with equal weight: the five patterns of lowest against the "
        f"five of highest entropy; interval: {upstream.RESAMPLES:,} paired bootstrap resamples of questions.",
    ]
    tables = {
        "upstream": upstream.table(result, f"Upstream entropy and answer errors: {subject(config, result)}", notes),
        "quintiles": upstream.quintile_table(result),
    }
    return tables | ({"upstream-paper": paper_upstream()} if beside else {})


def layer_tables(folder: Path, first: int | None = None, beside: bool = False) -> dict[str, Table]:
    config, result = read_layers(folder, first)
    title = f"Token error rate under persistence K: {subject(config, result)}, {result.tokens} target digits"
    tables = {
        "curves": layers.curve_table(result, title),
        "heatmap": layers.heat_table(result),
        "separation": layers.separation_table(result),
    }
    if beside:
        tables["curves"].notes += [f"{paper.SOURCE} (Dream):", *paper.LAYERS]
    return tables


def read_layers(folder: Path, first: int | None = None) -> tuple[dict[str, Any], layers.Result]:
    from types import SimpleNamespace

    from unmask.diagnostics.states import window

    config = read_config(folder, STATES)
    outline: Any = SimpleNamespace(
        name=config["model"]["name"], spec=SimpleNamespace(layers=config["model"]["layers"])
    )
    return config, layers.analyse(read_samples(folder, STATES), window(outline, first))


def subject(config: dict[str, Any], result: Any) -> str:
    source = config["source"] if config["request"]["source"] != "file" else "gold traces from a file"
    return f"{config['model']['name']} on {source}, {result.questions} questions"


def paper_upstream() -> Table:
    made = Table(
        "The paper's values (GSM8K-Aug, 2,000 questions)",
        ["model", "masks m", "n mixed", "low %", "high %", "Δ pp", "95 % interval"],
        notes=[paper.SOURCE],
        left=1,
    )
    for model, m, n, low, high, delta, (left, right) in paper.UPSTREAM:
        made.rows.append(
            [
                Cell(model), Cell(m, 0), Cell(n, 0), Cell(low, 1), Cell(high, 1), Cell(delta, 1),
                Cell(f"[{left:.1f}, {right:.1f}]"),
            ]
        )  # fmt: skip
        made.records.append({"model": model, "m": m, "n": n, "low": low, "high": high, "delta": delta})
    return made
