"""The report's tables: everything about every decoder, the paper's main table, its ablation, and effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unmask.decoders.dependency import PROVISIONAL, is_provisional
from unmask.errors import UserError, unknown
from unmask.report import effects, paper
from unmask.report.runs import Result, compare, references
from unmask.report.table import Cell, Table

HEADINGS = {
    "default": "Default", "llada-default": "Default", "dream-default": "Default", "fast-dllm": "Fast-dLLM",
    "eb-sampler": "EB-Sampler", "lopa": "LoPA", "dapd": "DAPD", "rpd-block": "RPD-block", "rpd": "RPD",
}  # fmt: skip
METRIC_NAMES = {"nfe": "NFE ↓", "tps": "TPS ↑"}
ARROWS = "accuracy and pass@1 in percent, higher is better; NFE lower; TPS higher"


def build(name: str, results: Sequence[Result], against: str | None = None, with_paper: bool = False) -> Table:
    if name not in LAYOUTS:
        raise unknown("table", name, LAYOUTS)
    if name == "summary":
        table = summary(results, against)
        return add_paper_rows(table) if with_paper else table
    return LAYOUTS[name](results, with_paper)


def percent(value: float) -> float:
    return 100 * value


# --- everything ---------------------------------------------------------------------------------------------


def summary(results: Sequence[Result], against: str | None = None) -> Table:
    """One row per decoder: accuracy with its interval, the paired difference, cost, and where the time went."""
    table = Table(
        "Results",
        ["model", "task", "decoder", "n", "acc %", "95 % CI", "Δ %", "Δ 95 % CI", "p", "NFE", "TPS", "tokens",
         "backbone/projection/scoring/other %"],
        left=3,
    )  # fmt: skip
    chosen = references(results, against)
    for result in results:
        row, reference = result.row, chosen[result.group]
        pair = compare(result, reference)
        record = {**row, "folder": str(result.folder), "reference": reference.label}
        cells = [Cell(row["model"]), Cell(row["task"]), Cell(row["label"] + mark(row)), Cell(float(row["n"]), 0)]
        cells += [Cell(percent(row["accuracy"])), Cell(interval(row["accuracy_ci95"]))]
        if pair:
            record |= {
                "difference": pair.difference, "difference_ci95": list(pair.ci95), "p_value": pair.p_value,
                "paired_n": pair.n, "only_reference": pair.only_a, "only_this": pair.only_b,
            }  # fmt: skip
            cells += [Cell(percent(pair.difference), signed=True), Cell(interval(pair.ci95, signed=True))]
            cells += [Cell(pair.p_value, 3)]
        else:
            cells += [Cell("")] * 3
        mean_tokens = row["tokens"] / row["n"] if row["n"] else 0.0
        table.rows.append([*cells, Cell(row["nfe"]), Cell(row["tps"], 1), Cell(mean_tokens, 1), Cell(split(row))])
        table.records.append(record)
    table.notes += notes(results, chosen)
    return table


def interval(bounds: Sequence[float], signed: bool = False) -> str:
    form = "{:+.2f}" if signed else "{:.2f}"
    return f"[{form.format(percent(bounds[0]))}, {form.format(percent(bounds[1]))}]"


def mark(row: dict[str, Any]) -> str:
    return "" if row["complete"] else " (unfinished)"


def split(row: dict[str, Any]) -> str:
    total = sum(row["phases"].values())
    shares = [row["phases"].get(name, 0.0) for name in ("backbone", "projection", "scoring", "other")]
    return "/".join(f"{100 * share / total:.0f}" for share in shares) if total else ""


def notes(results: Sequence[Result], chosen: dict[tuple[str, str, str], Result]) -> list[str]:
    """What the numbers count, and on what they were measured."""
    reference = ", ".join(dict.fromkeys(result.label for result in chosen.values()))
    told = [
        "acc: Wilson 95 % interval. "
        f"Δ: difference to {reference} on the same examples, paired bootstrap 95 % interval; p: exact McNemar test.",
        f"NFE: forward calls per example. TPS: {results[0].row['token_accounting']}. tokens: mean per example.",
    ]
    machines = dict.fromkeys((r.row["device"], r.row["dtype"], r.row["batch_size"]) for r in results)
    told += [f"Measured on {device}, {dtype}, batch size {batch}." for device, dtype, batch in machines]
    errors = sum(result.row["errors"] for result in results)
    if errors:
        told.append(f"{errors} examples ended in an error and count as wrong (see samples.jsonl).")
    rows = ((r.family, r.row) for r in results if r.row["decoder"] == "dapd")
    if any(is_provisional(family, row["task"], row["params"]) for family, row in rows):
        told.append(PROVISIONAL)
    return told


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
    table.notes.append(paper.SOURCE)
    return table


# --- the paper's main table ---------------------------------------------------------------------------------


def main(results: Sequence[Result], with_paper: bool) -> Table:
    """Rows: model, benchmark, metric. Columns: decoders."""
    found = by_place(results)
    names = list(dict.fromkeys(HEADINGS.get(result.label, result.label) for result in results))
    wanted = list(dict.fromkeys(HEADINGS[name] for name in paper.MAIN_COLUMNS))
    if not with_paper:
        wanted = [name for name in wanted if name in names]
    columns = wanted + [name for name in names if name not in wanted]
    table = Table("Main results", ["model", "benchmark", "metric", *columns], left=3)
    printed = paper.main_values() if with_paper else {}
    places = dict.fromkeys([(r.row["model"], r.row["task"]) for r in results] + [key[:2] for key in printed])
    for model, task in places:
        for metric in paper.METRICS:
            ours = {
                HEADINGS.get(label, label): value(result, metric)
                for label, result in found.get((model, task), {}).items()
            }
            theirs = printed.get((model, task, metric), {})
            if ours:
                add_row(table, model, task, metric, columns, ours, "")
            if theirs:
                named = {HEADINGS[name]: number for name, number in theirs.items()}
                add_row(table, model, task, metric, columns, named, " (paper)")
    table.notes += [ARROWS + ".", *notes(results, references(results, None))[1:]]
    if with_paper:
        table.notes.append(paper.SOURCE)
    return table


def add_row(
    table: Table, model: str, task: str, metric: str, columns: list[str], values: dict[str, float], source: str
) -> None:
    name = METRIC_NAMES.get(metric, ("pass@1" if task in ("humaneval", "mbpp", "functions") else "Acc.") + " ↑")
    top = (min if metric == "nfe" else max)(values.values())
    cells = [Cell(values.get(column), best=values.get(column) == top) for column in columns]
    table.rows.append([Cell(model), Cell(paper.TASKS.get(task, task)), Cell(name + source), *cells])
    table.records.append(
        {"source": source.strip(" ()") or "ours", "model": model, "task": task, "metric": metric} | values
    )


def value(result: Result, metric: str) -> float:
    return percent(result.row["accuracy"]) if metric == "accuracy" else result.row[metric]


def by_place(results: Sequence[Result]) -> dict[tuple[str, str], dict[str, Result]]:
    """(model, task) -> label -> result. Two answers to one question are for the user to choose between."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        place = found.setdefault((result.row["model"], result.row["task"]), {})
        if result.label in place:
            raise UserError(
                f"{place[result.label].folder} and {result.folder} both hold {result.label} on {result.row['task']} "
                f"with {result.row['model']}: report them apart, or use --table summary"
            )
        place[result.label] = result
    return found


# --- the paper's ablation -----------------------------------------------------------------------------------


def ablation(results: Sequence[Result], with_paper: bool) -> Table:
    """Rows: what is added to confidence decoding. Columns: accuracy, NFE and TPS per model and benchmark."""
    found = by_place(results)
    printed = paper.ablation_values() if with_paper else {}
    places = list(dict.fromkeys([*found, *(paper.ABLATION_COLUMNS if with_paper else ())]))
    heads = [f"{short(model)} {paper.TASKS.get(task, task)} {name}" for model, task in places
             for name in ("Acc.", "NFE", "TPS")]  # fmt: skip
    table = Table("Component ablation", ["variant", *heads])
    for variant, title in paper.VARIANTS.items():
        ours = {place: at(found.get(place, {}), variant) for place in places}
        numbers: list[float | None] = [
            value(result, metric) if result else None for result in ours.values() for metric in paper.METRICS
        ]
        theirs = [printed.get((variant, *place, metric)) for place in places for metric in paper.METRICS]
        for values, source in ((numbers, ""), (theirs, " (paper)")):
            if any(number is not None for number in values):
                table.rows.append([Cell(title + source), *map(Cell, values)])
                record = {"source": source.strip(" ()") or "ours", "variant": variant}
                table.records.append(record | dict(zip(heads, values, strict=True)))
    if not table.rows:
        names = ", ".join(paper.VARIANTS)
        raise UserError(f"no decoder of the ablation is in these runs: evaluate with --decoders {names}")
    table.notes += [ARROWS + ".", *notes(results, references(results, None))[1:]]
    if with_paper:
        table.notes.append(paper.SOURCE)
    return table


def at(place: dict[str, Result], variant: str) -> Result | None:
    """The run of an ablation row; the paper's block row is Fast-dLLM itself."""
    other = {"confidence+block": "fast-dllm"}.get(variant)
    return place.get(variant) or (place.get(other) if other else None)


def short(model: str) -> str:
    return paper.MODELS.get(model, model).split("-")[0]


LAYOUTS: dict[str, Callable[..., Table]] = {
    "summary": summary, "main": main, "ablation": ablation, "effects": effects.table,
}  # fmt: skip
