"""What the stability test actually admits (paper, appendix of that name).

Confidence c, persistence K and drop r of every committed token that the stability route admitted, its share of all
commits, and the ceiling that the rule itself puts on r: (K_max - theta_s) / w. These are distributions of a
selection, not of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unmask.report.table import Cell, Table

COLUMNS = ("c", "K", "r")
PERCENTILES = (10, 50, 90)


@dataclass
class Admitted:
    """One decoder with a stability test."""

    label: str
    ceiling: float | None
    exact: bool = True  # every layer was read; a lazy walk gives lower bounds of K and r
    n: int = 0  # decodes
    routes: dict[str, int] = field(default_factory=dict)
    values: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def table(self) -> np.ndarray:
        """(tokens, 3): c, K, r."""
        return np.array(self.values, dtype=np.float64).reshape(-1, 3)

    @property
    def commits(self) -> int:
        return sum(self.routes.values())

    def share(self, route: str) -> float:
        return self.routes.get(route, 0) / self.commits if self.commits else 0.0

    def percentiles(self) -> dict[str, list[float]]:
        table = self.table
        if not len(table):
            return {}
        return {name: np.percentile(table[:, i], PERCENTILES).tolist() for i, name in enumerate(COLUMNS)}


def analyse(lines: Iterable[Mapping[str, Any]], params: Mapping[str, Mapping[str, Any]]) -> dict[str, Admitted]:
    """`params` are the resolved parameters per decoder; decoders without a stability test are passed over."""
    found = {
        label: Admitted(label, ceiling(values), not values.get("lazy", False))
        for label, values in params.items()
        if "theta_s" in values
    }
    for line in lines:
        held = found.get(line["decoder"])
        if held is None or not line["order"]:
            continue
        held.n += 1
        for route, count in line["routes"].items():
            held.routes[route] = held.routes.get(route, 0) + count
        held.values += [tuple(value) for value in line["admitted"]]
    return found


def ceiling(params: Mapping[str, Any]) -> float | None:
    """The largest drop the rule can admit; none where drops are not weighed."""
    if not params["w"] or params.get("theta_c") == params.get("theta_h"):
        return None
    return max(0.0, (params["k_max"] - params["theta_s"]) / params["w"])


def table(found: Mapping[str, Admitted], title: str) -> Table:
    made = Table(
        title,
        [
            "decoder", "n", "commits", "stability", "share %", "confidence %", "fallback %", "c", "K", "r", "r max",
            "ceiling of r",
        ],
        notes=[
            "c, K, r of tokens admitted by stability: median [10th, 90th percentile]. The rule admits no r above "
            "(K_max - theta_s) / w, so these are properties of the selection, not of the model."
        ],
    )  # fmt: skip
    for held in found.values():
        spread = held.percentiles()
        most = float(held.table[:, 2].max()) if len(held.values) else None
        made.rows.append(
            [
                Cell(held.label), Cell(held.n, 0), Cell(held.commits, 0), Cell(len(held.values), 0),
                *(Cell(100 * held.share(route), 1) for route in ("stability", "confidence", "fallback")),
                *(Cell(said(spread.get(name), 0 if name == "K" else 3)) for name in COLUMNS),
                Cell(most, 3), Cell(held.ceiling, 3),
            ]
        )  # fmt: skip
        record: dict[str, Any] = {
            "decoder": held.label, "n": held.n, "commits": held.commits, "stability": len(held.values),
            "ceiling": held.ceiling, "r_max": most, "exact": held.exact,
        }  # fmt: skip
        record |= {f"share_{route}": held.share(route) for route in ("stability", "confidence", "fallback")}
        for name, values in spread.items():
            record |= {f"{name}_p{p}": value for p, value in zip(PERCENTILES, values, strict=True)}
        made.records.append(record)
    if any(not held.exact for held in found.values()):
        made.notes.append("Decodes with lazy=true give lower bounds of K and r only: record them with lazy=false.")
    return made


def said(values: list[float] | None, decimals: int) -> str:
    if values is None:
        return ""
    low, middle, high = (f"{value:.{decimals}f}" for value in values)
    return f"{middle} [{low}, {high}]"
