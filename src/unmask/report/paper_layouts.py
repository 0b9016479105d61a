"""The layouts of the paper's Tables 1 and 2, from our runs; with the values it prints beside ours where asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unmask.errors import UserError
from unmask.report import paper
from unmask.report.notes import UNFINISHED, certainty, measured, percent
from unmask.report.runs import Result, by_place, unlike
from unmask.report.table import Cell, Table

HEADINGS = {
    "default": "Default", "llada-default": "Default", "dream-default": "Default", "fast-dllm": "Fast-dLLM",
    "eb-sampler": "EB-Sampler", "lopa": "LoPA", "dapd": "DAPD", "rpd-block": "RPD-block", "rpd": "RPD",
}  # fmt: skip
METRIC_NAMES = {"nfe": "NFE ↓", "tps": "TPS ↑"}
SURE = ("n", "complete", "accuracy_ci95")  # how far a record's numbers can be relied on
ARROWS = "accuracy and pass@1 in percent, higher is better; NFE lower; TPS higher"
AFFORDABLE = "rpd is ours with the affordable fallback; the paper's own setting is rpd-paper"

Place = tuple[str, str]  # model, task
Found = Mapping[Place, Mapping[str, Result]]


def about_rpd(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Beside the paper's values our `rpd` must not pass for its RPD."""
    return [f"{AFFORDABLE}."] if any(record.get("label") == "rpd" for record in records) else []


# --- the main table -----------------------------------------------------------------------------------------


def main(results: Sequence[Result], with_paper: bool) -> Table:
    """Rows: model, benchmark, metric. Columns: decoders."""
    found = by_place(results)
    named = headings(found, with_paper)
    names = list(dict.fromkeys(named[result.label] for result in results))
    wanted = list(dict.fromkeys(HEADINGS[name] for name in paper.MAIN_COLUMNS))
    if not with_paper:
        wanted = [name for name in wanted if name in names]
    columns = wanted + [name for name in names if name not in wanted]
    table = Table("Main results", ["model", "benchmark", "metric", *columns], left=3)
    printed = paper.main_values() if with_paper else {}
    for place in dict.fromkeys([*found, *(key[:2] for key in printed)]):
        ours = {named[label]: result for label, result in found.get(place, {}).items()}
        for metric in paper.METRICS:
            if ours:
                add_ours(table, place, metric, columns, ours)
            if theirs := printed.get((*place, metric)):
                add_theirs(table, place, metric, columns, {HEADINGS[name]: number for name, number in theirs.items()})
    table.notes += [ARROWS + ".", *certainty(found, named.__getitem__), *measured(results)]
    if with_paper:
        table.notes += [paper.SOURCE, *about_rpd(result.row for result in results)]
    return table


def headings(found: Found, with_paper: bool) -> dict[str, str]:
    """Label -> column. Labels that would share a column at one place keep their own names."""
    labels = list(dict.fromkeys(label for place in found.values() for label in place))
    known = dict(HEADINGS)
    if with_paper and "rpd-paper" in labels:
        known |= {"rpd-paper": "RPD", "rpd": "RPD (affordable)"}
    named = {label: known.get(label, label) for label in labels}
    for place in found.values():
        shared = [named[label] for label in place]
        named |= {label: label for label in place if shared.count(named[label]) > 1}
    return named


def add_ours(table: Table, place: Place, metric: str, columns: list[str], ours: Mapping[str, Result]) -> None:
    values = {name: value(result, metric) for name, result in ours.items()}
    # An unfinished run, or one of other examples or settings, has won nothing.
    rivals = [values[name] for name, result in ours.items() if result.complete]
    top = best(metric, rivals) if rivals and not unlike(list(ours.values())) else None
    cells = [
        cell(values[name], ours[name], ours[name].complete and values[name] == top) if name in ours else Cell(None)
        for name in columns
    ]
    table.rows.append([*heads(place, metric, ""), *cells])
    sure = {field: {name: result.row[field] for name, result in ours.items()} for field in SURE}
    table.records.append(identify("ours", place) | {"metric": metric} | values | sure)


def add_theirs(table: Table, place: Place, metric: str, columns: list[str], values: Mapping[str, float]) -> None:
    top = best(metric, values.values())
    cells = [Cell(values.get(name), best=values.get(name) == top) for name in columns]
    table.rows.append([*heads(place, metric, " (paper)"), *cells])
    table.records.append(identify("paper", place) | {"metric": metric} | dict(values))


def heads(place: Place, metric: str, source: str) -> list[Cell]:
    model, task = place
    accuracy = ("pass@1" if task in ("humaneval", "mbpp", "functions") else "Acc.") + " ↑"
    return [Cell(model), Cell(paper.TASKS.get(task, task)), Cell(METRIC_NAMES.get(metric, accuracy) + source)]


def identify(source: str, place: Place) -> dict[str, Any]:
    return {"source": source, "model": place[0], "task": place[1]}


def best(metric: str, values: Iterable[float]) -> float:
    return min(values) if metric == "nfe" else max(values)


def cell(number: float, result: Result, top: bool = False) -> Cell:
    return Cell(number, best=top, mark="" if result.complete else UNFINISHED)


def value(result: Result, metric: str) -> float:
    return percent(result.row["accuracy"]) if metric == "accuracy" else result.row[metric]


# --- the ablation -------------------------------------------------------------------------------------------


def ablation(results: Sequence[Result], with_paper: bool) -> Table:
    """Rows: what is added to confidence decoding. Columns: accuracy, NFE and TPS per model and benchmark."""
    found = by_place(results)
    printed = paper.ablation_values() if with_paper else {}
    places = list(dict.fromkeys([*found, *(paper.ABLATION_COLUMNS if with_paper else ())]))
    models = short([model for model, _ in places])
    columns = [f"{models[model]} {paper.TASKS.get(task, task)} {name}" for model, task in places
               for name in ("Acc.", "NFE", "TPS")]  # fmt: skip
    table = Table("Component ablation", ["variant", *columns])
    for variant, label, title in rows(found, with_paper):
        add_variant(table, label, title, places, {place: at(found.get(place, {}), label) for place in places})
        if with_paper and title == paper.VARIANTS[variant]:
            theirs = {p: {m: printed.get((variant, *p, m)) for m in paper.METRICS} for p in places}
            add_printed(table, variant, title, theirs)
    if not any(record["source"] == "ours" for record in table.records) and not with_paper:
        names = ", ".join(paper.VARIANTS)
        raise UserError(f"no decoder of the ablation is in these runs: evaluate with --decoders {names}")
    shown = {record["variant"] for record in table.records} | {"fast-dllm"}
    listed = {place: {k: r for k, r in known.items() if k in shown} for place, known in found.items()}
    table.notes += [ARROWS + ".", *certainty(listed), *measured(results)]
    if with_paper:
        table.notes += [paper.SOURCE, *about_rpd(result.row for result in results)]
    return table


def rows(found: Found, with_paper: bool) -> list[tuple[str, str, str]]:
    """(row of the paper, our label, title). Beside the paper's values its own setting is RPD, if we ran it."""
    listed = [(variant, variant, title) for variant, title in paper.VARIANTS.items()]
    if with_paper and any("rpd-paper" in place for place in found.values()):
        full = paper.VARIANTS["rpd"]
        listed[-1:] = [("rpd", "rpd-paper", full), ("rpd", "rpd", f"{full} (affordable)")]
    return listed


def add_variant(
    table: Table, label: str, title: str, places: Sequence[Place], ours: Mapping[Place, Result | None]
) -> None:
    if not any(ours.values()):
        return
    cells = [
        cell(value(result, metric), result) if (result := ours[place]) else Cell(None)
        for place in places
        for metric in paper.METRICS
    ]
    table.rows.append([Cell(title), *cells])
    for place, result in ours.items():
        if result:
            numbers = {metric: value(result, metric) for metric in paper.METRICS}
            sure = {field: result.row[field] for field in SURE}
            table.records.append(identify("ours", place) | {"variant": label, "title": title} | numbers | sure)


def add_printed(table: Table, variant: str, title: str, theirs: Mapping[Place, Mapping[str, float | None]]) -> None:
    table.rows.append([Cell(f"{title} (paper)"), *(Cell(n) for numbers in theirs.values() for n in numbers.values())])
    for place, numbers in theirs.items():
        if None not in numbers.values():
            table.records.append(identify("paper", place) | {"variant": variant, "title": title} | dict(numbers))


def at(place: Mapping[str, Result], variant: str) -> Result | None:
    """The run of an ablation row; the paper's block row is Fast-dLLM itself."""
    other = {"confidence+block": "fast-dllm"}.get(variant)
    return place.get(variant) or (place.get(other) if other else None)


def short(models: Sequence[str]) -> dict[str, str]:
    """The paper's models by their first word; whole names where two would read alike."""
    names = {model: paper.MODELS[model].split("-")[0] if model in paper.MODELS else model for model in models}
    return names if len(set(names.values())) == len(names) else {model: model for model in models}
