"""What stands below the report's tables: what the numbers count, how sure they are, what measured them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from unmask.decoders.dependency import PROVISIONAL, is_provisional
from unmask.report.runs import Result, unlike

UNFINISHED = "†"


def percent(value: float) -> float:
    return 100 * value


def span(bounds: Sequence[float], signed: bool = False, decimals: int = 2) -> str:
    """An interval in percent."""
    form = f"{{:{'+' if signed else ''}.{decimals}f}}"
    return f"[{form.format(percent(bounds[0]))}, {form.format(percent(bounds[1]))}]"


def measured(results: Sequence[Result]) -> list[str]:
    """What the numbers count, and every machine that they come from."""
    told = [f"NFE: forward calls per example. TPS: {results[0].row['token_accounting']}. tokens: mean per example."]
    machines = dict.fromkeys(
        (device, result.row["dtype"], result.row["batch_size"])
        for result in results
        for device in result.row.get("devices") or [result.row["device"]]
    )
    told += [f"Measured on {device}, {dtype}, batch size {batch}." for device, dtype, batch in machines]
    errors = sum(result.row["errors"] for result in results)
    if errors:
        told.append(f"{errors} examples ended in an error and count as wrong (see samples.jsonl).")
    dapd = (result.row for result in results if result.row["decoder"] == "dapd")
    if any(is_provisional(row["family"] or "", row["task"], row["params"]) for row in dapd):
        told.append(PROVISIONAL)
    return told


def certainty(
    found: Mapping[tuple[str, str], Mapping[str, Result]], name: Callable[[str], str] = lambda label: label
) -> list[str]:
    """n and the interval of every accuracy in a layout that has no room for them; which runs are unfinished."""
    told = []
    for (model, task), place in found.items():
        each = [
            f"{name(label)} {count(result)} {span(result.row['accuracy_ci95'])}" for label, result in place.items()
        ]
        told.append(f"n and Wilson 95 % interval of the accuracy, {model} on {task}: {', '.join(each)}.")
        differ = unlike(list(place.values()))
        if differ:
            told.append(f"{model} on {task} mixes runs of unlike {', '.join(differ)}: none is called best.")
    if any(not result.complete for place in found.values() for result in place.values()):
        told.append(
            f"{UNFINISHED} unfinished run: the numbers are of its n examples so far, and none is called best."
        )
    return told


def count(result: Result) -> str:
    return f"n = {result.row['n']}" + ("" if result.complete else f"{UNFINISHED} of {result.total}")
