"""Folders of diagnostics as tables: what the commands print, what the files and the results page hold.

upstream_tables(folder)   {"upstream": Table, "quintiles": Table}
layer_tables(folder)      {"curves": Table, "heatmap": Table, "separation": Table}
order_tables(folder)      {"order": Table, "constraints": Table}
admitted_tables(folder)   {"admitted": Table}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask.diagnostics import admitted, layers, order, upstream
from unmask.diagnostics.decodes import DECODES
from unmask.diagnostics.masking import scaling
from unmask.diagnostics.survey import STATES
from unmask.errors import UserError
from unmask.evaluate.folder import read_config, read_samples
from unmask.report import paper_evidence as paper
from unmask.report.table import Cell, Table


def upstream_tables(folder: Path, beside: bool = False, strict: bool = True) -> dict[str, Table]:
    """`strict`: too few questions of mixed outcome are an error, not only a sentence below the table."""
    config = read_config(folder, STATES)
    result = upstream.analyse(read_samples(folder, STATES))
    if strict:
        upstream.require(result, config["model"]["name"])
    notes = [
        f"{scaling(result.digits, config['levels'])}; {config['request']['patterns']} patterns per question and mask "
        f"count, seed {config['request']['seed']}.",
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


def order_tables(folder: Path, beside: bool = False) -> dict[str, Table]:
    config, result = read_order(folder)
    tables = {"order": order.order_table(result, f"Commitment order: {decoded_subject(config)}")}
    constraints = order.constraint_table(result)
    if constraints is not None:
        tables["constraints"] = constraints
    if beside:
        tables["order"].notes.append(f"{paper.SOURCE}: {paper.ORDER_FORWARDS}.")
        if constraints is not None:
            values = ", ".join(f"{name} {value:.1f} %" for name, value in paper.CONSTRAINTS.items())
            constraints.notes.append(f"{paper.SOURCE}, model and task not stated: {values}.")
    return tables


def admitted_tables(folder: Path, beside: bool = False) -> dict[str, Table]:
    config, found = read_admitted(folder)
    made = admitted.table(found, f"What the stability test admits: {decoded_subject(config)}")
    if beside:
        made.notes += [f"{paper.SOURCE}, LLaDA on GSM8K, {name}: {text}." for name, text in paper.ADMITTED.items()]
        made.notes.append(f"{paper.ADMITTED_DREAM}.")
    return {"admitted": made}


def read_order(folder: Path) -> tuple[dict[str, Any], order.Result]:
    return read_config(folder, DECODES), order.analyse(read_samples(folder, DECODES))


def read_admitted(folder: Path) -> tuple[dict[str, Any], dict[str, admitted.Admitted]]:
    config = read_config(folder, DECODES)
    params = {entry["label"]: entry["params"] for entry in config["decoders"]}
    found = admitted.analyse(read_samples(folder, DECODES), params)
    if not found:
        labels = ", ".join(params) or "none"
        raise UserError(f"no decoder of {folder} tests stability ({labels}): decode with rpd or rpd-block")
    return config, found


def decoded_subject(config: dict[str, Any]) -> str:
    request, model = config["request"], config["model"]
    return f"{model['name']} on {request['task']} {request['split']}, canvas {model['canvas_length']}"
