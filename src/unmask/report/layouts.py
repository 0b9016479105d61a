"""The report's tables by name; here, the one with everything about every decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unmask.errors import unknown
from unmask.report import effects, paper, paper_layouts
from unmask.report.notes import measured, percent, span
from unmask.report.runs import SETTINGS, Group, Result, compare, references
from unmask.report.table import Cell, Table


def build(name: str, results: Sequence[Result], against: str | None = None, with_paper: bool = False) -> Table:
    if name not in LAYOUTS:
        raise unknown("table", name, LAYOUTS)
    if name == "summary":
        table = summary(results, against)
        return add_paper_rows(table) if with_paper else table
    return LAYOUTS[name](results, with_paper)


# --- everything ---------------------------------------------------------------------------------------------


def summary(results: Sequence[Result], against: str | None = None) -> Table:
    """One row per decoder: accuracy with its interval, the paired difference, cost, and where the time went."""
    table = Table(
        "Results",
        ["model", "task", "decoder", "n", "acc %", "95 % CI", "Δ %", "Δ 95 % CI", "p", "NFE", "TPS", "tokens",
         "backbone/projection/scoring/other %"],
        left=3,
    )  # fmt: skip
    chosen, apart = references(results, against), distinctions(results)
    for result in results:
        row, reference = result.row, chosen[result.group]
        pair = compare(result, reference)
        record = {**row, "folder": str(result.folder), "reference": reference.label}
        label = row["label"] + apart[id(result)] + mark(row)
        cells = [Cell(row["model"]), Cell(row["task"]), Cell(label), Cell(float(row["n"]), 0)]
        cells += [Cell(percent(row["accuracy"])), Cell(span(row["accuracy_ci95"]))]
        if pair:
            record |= {
                "difference": pair.difference, "difference_ci95": list(pair.ci95), "p_value": pair.p_value,
                "paired_n": pair.n, "only_reference": pair.only_a, "only_this": pair.only_b,
            }  # fmt: skip
            cells += [Cell(percent(pair.difference), signed=True), Cell(span(pair.ci95, signed=True))]
            cells += [Cell(pair.p_value, 3)]
        else:
            cells += [Cell("")] * 3
        mean_tokens = row["tokens"] / row["n"] if row["n"] else 0.0
        table.rows.append([*cells, Cell(row["nfe"]), Cell(row["tps"], 1), Cell(mean_tokens, 1), Cell(split(row))])
        table.records.append(record)
    table.notes += notes(results, chosen)
    return table


def mark(row: Mapping[str, Any]) -> str:
    return "" if row["complete"] else " (unfinished)"


def split(row: Mapping[str, Any]) -> str:
    total = sum(row["phases"].values())
    shares = [row["phases"].get(name, 0.0) for name in ("backbone", "projection", "scoring", "other")]
    return "/".join(f"{100 * share / total:.0f}" for share in shares) if total else ""


def distinctions(results: Sequence[Result]) -> dict[int, str]:
    """What tells rows of one decoder on one task apart: the settings in which their runs differ."""
    alike: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        alike.setdefault((*result.place, result.label), []).append(result)
    told: dict[int, str] = {}
    for rows in alike.values():
        differ = [name for name in SETTINGS if len({result.row[name] for result in rows}) > 1]
        for result in rows:
            words = ", ".join(f"{name} {str(result.row[name])[:12]}" for name in differ)
            told[id(result)] = f" [{words or result.folder}]" if len(rows) > 1 else ""
    return told


def notes(results: Sequence[Result], chosen: Mapping[Group, Result]) -> list[str]:
    """What the differences are taken to, and what the numbers count."""
    reference = ", ".join(dict.fromkeys(result.label for result in chosen.values()))
    return [
        "acc: Wilson 95 % interval. "
        f"Δ: difference to {reference} on the same examples, paired bootstrap 95 % interval; p: exact McNemar test.",
        *measured(results),
    ]


def add_paper_rows(table: Table) -> Table:
    """The paper's settings as rows of their own, each one labelled."""
    values = paper.main_values()
    for model, task in dict.fromkeys((model, task) for model, task, _ in values):
        for name in paper.MAIN_COLUMNS:
            accuracy, nfe, tps = (values[model, task, metric][name] for metric in paper.METRICS)
            blank = Cell("")
            table.rows.append(
                [Cell(model), Cell(task), Cell(f"{name} (paper)"), blank, Cell(accuracy), blank, blank, blank, blank,
                 Cell(nfe), Cell(tps), blank, blank]
            )  # fmt: skip
            table.records.append(
                {"source": "paper", "model": model, "task": task, "decoder": name, "label": f"{name} (paper)",
                 "accuracy": accuracy / 100, "nfe": nfe, "tps": tps}
            )  # fmt: skip
    table.notes += [paper.SOURCE, *paper_layouts.about_rpd(table.records)]
    return table


LAYOUTS: dict[str, Callable[..., Table]] = {
    "summary": summary, "main": paper_layouts.main, "ablation": paper_layouts.ablation, "effects": effects.table,
}  # fmt: skip
