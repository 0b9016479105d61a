"""What each decoder changes: accuracy and forwards against the default, runtime against Fast-dLLM.

Ratios and differences compare across models and machines where accuracies and tokens per second do not, so this
is the table in which the paper's values can stand beside ours. `agreement` says in sentences what the two share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.report import paper, paper_layouts
from unmask.report.notes import UNFINISHED, measured
from unmask.report.notes import span as interval
from unmask.report.paper_evidence import RUNTIME
from unmask.report.runs import DEFAULTS, Group, Result, by_place, compare, own_default
from unmask.report.stats import Paired
from unmask.report.table import Cell, Table

BASE = "fast-dllm"  # what runtime is relative to


@dataclass(frozen=True)
class Effect:
    """One decoder on one task, ours and the paper's (None where there is none)."""

    model: str
    task: str
    label: str
    n: int
    complete: bool
    accuracy: float
    ci95: tuple[float, float]  # Wilson's, of the accuracy
    paired: Paired | None  # to the default, on the same examples
    forwards: float | None  # NFE over the default's
    runtime: float | None  # seconds per example over Fast-dLLM's
    theirs: Mapping[str, float | None]  # difference, forwards, runtime


def effects(results: Sequence[Result]) -> list[Effect]:
    by_place(results)  # refuses two answers to one question
    groups: dict[Group, dict[str, Result]] = {}
    for result in results:
        groups.setdefault(result.group, {})[result.label] = result
    return [effect(result, group) for group in groups.values() for result in group.values()]


def effect(result: Result, group: Mapping[str, Result]) -> Effect:
    default = own_default(group.values())
    base, row = group.get(BASE), result.row
    return Effect(
        row["model"], row["task"], result.label, row["n"], result.complete, row["accuracy"],
        tuple(row["accuracy_ci95"]),
        compare(result, default) if default else None,
        ratio(row["nfe"], default.row["nfe"]) if default else None,
        ratio(per_example(row), per_example(base.row)) if base else None,
        printed(row["model"], row["task"], "default" if result is default else result.label),
    )  # fmt: skip


def printed(model: str, task: str, label: str) -> dict[str, float | None]:
    """The same three numbers from the paper's tables, in which its own setting is called RPD."""
    label = {"rpd-paper": "rpd"}.get(label, label)
    cells = paper.kin(model, task)
    mine, default = cells.get(label), cells.get("default")
    known = mine is not None and default is not None
    return {
        "difference": mine["accuracy"] - default["accuracy"] if known else None,  # type: ignore[index]
        "forwards": mine["nfe"] / default["nfe"] if known else None,  # type: ignore[index]
        "runtime": 1.0 if label == BASE else RUNTIME.get(label),
    }


def per_example(row: Mapping[str, Any]) -> float:
    return row["seconds"] / row["n"] if row["n"] else 0.0


def ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def table(results: Sequence[Result], with_paper: bool) -> Table:
    """One row per decoder; with the paper's columns where asked for."""
    columns = ["model", "task", "decoder", "n", "acc %", "95 % CI", "Δ %", "Δ 95 % CI", "NFE ratio", "time ratio"]
    if with_paper:
        columns += ["Δ % (paper)", "NFE ratio (paper)", "time ratio (paper)"]
    made = Table("What each decoder changes", columns, left=3)
    for found in effects(results):
        made.rows.append(cells(found, with_paper))
        made.records.append(record(found, with_paper))
    made.notes.append(
        "95 % CI: Wilson. Δ: accuracy minus the default's on the same examples, paired bootstrap 95 % interval. NFE "
        "ratio: forwards over the default's. time ratio: seconds of the decoding loop per example over Fast-dLLM's."
    )
    if any(not result.complete for result in results):
        made.notes.append(f"{UNFINISHED} unfinished run: the numbers are of its n examples so far.")
    made.notes += measured(results)[1:]
    if with_paper:
        pairs = ", ".join(f"{paper.TASKS[theirs]} for {ours}" for ours, theirs in paper.KIN.items())
        made.notes.append(
            f"(paper): the same differences and ratios from the values it prints; {pairs}, with LLaDA-8B-Instruct. "
            "Its time ratios are one figure, whose model and task it does not state."
        )
        made.notes += paper_layouts.about_rpd(made.records)
    return made


def cells(found: Effect, with_paper: bool) -> list[Cell]:
    pair, theirs, mark = found.paired, found.theirs, "" if found.complete else UNFINISHED
    made = [Cell(found.model), Cell(found.task), Cell(found.label, mark=mark), Cell(found.n, 0)]
    made += [Cell(100 * found.accuracy, 1), Cell(interval(found.ci95, decimals=1))]
    made += [Cell(100 * pair.difference if pair else None, 1, signed=True), Cell(span(pair))]
    made += [Cell(found.forwards), Cell(found.runtime)]
    if with_paper:
        made += [Cell(theirs["difference"], 1, signed=True), Cell(theirs["forwards"]), Cell(theirs["runtime"])]
    return made


def record(found: Effect, with_paper: bool) -> dict[str, Any]:
    pair = found.paired
    made = {
        "model": found.model, "task": found.task, "label": found.label, "n": found.n, "complete": found.complete,
        "accuracy": found.accuracy, "accuracy_ci95": list(found.ci95),
        "difference": pair.difference if pair else None, "difference_ci95": list(pair.ci95) if pair else None,
        "p_value": pair.p_value if pair else None, "forwards": found.forwards, "runtime": found.runtime,
    }  # fmt: skip
    return made | ({f"{name} (paper)": value for name, value in found.theirs.items()} if with_paper else {})


def span(pair: Paired | None) -> str:
    return f"[{100 * pair.ci95[0]:+.1f}, {100 * pair.ci95[1]:+.1f}]" if pair else ""


# --- in words -----------------------------------------------------------------------------------------------


def agreement(found: Sequence[Effect], task: str) -> str:
    """Does the ranking by forwards agree with the paper's, and does accuracy move the same way?"""
    both = [e for e in found if e.task == task and e.forwards and e.theirs["forwards"] and e.label not in DEFAULTS]
    if len(both) < 3:
        return "Too few decoders stand in both tables to compare them."
    rank = spearman([e.forwards or 0.0 for e in both], [e.theirs["forwards"] or 0.0 for e in both])
    sure = [e for e in both if e.paired and e.theirs["difference"] is not None and clear(e.paired)]
    opposite = [e.label for e in sure if e.paired and e.paired.difference * (e.theirs["difference"] or 0.0) < 0]
    words = f"Ranks of the {len(both)} decoders by forwards correlate with the paper's at {rank:.2f} (Spearman). "
    if not sure:
        return words + "No accuracy differs from the default's beyond its interval, so there is no sign to compare."
    names = ", ".join(f"{e.label} ({100 * e.paired.difference:+.1f})" for e in sure if e.paired)
    against = f"; against the paper's sign: {', '.join(opposite)}" if opposite else ", each with the paper's sign"
    return words + f"Accuracy differs from the default's beyond its interval for {names}{against}."


def clear(pair: Paired) -> bool:
    """The interval leaves out zero, and the exact test agrees: of few examples the bootstrap alone is too sure."""
    return (pair.ci95[0] > 0 or pair.ci95[1] < 0) and pair.p_value < 0.05


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    import numpy as np

    def ranks(values: Sequence[float]) -> Any:
        ordered = np.sort(np.asarray(values))
        return np.array([np.flatnonzero(ordered == value).mean() for value in values])  # ties share their mean

    x, y = ranks(a) - (len(a) - 1) / 2, ranks(b) - (len(b) - 1) / 2
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else 0.0
