"""The numbers that RPD on one H200 has to reach (LLaDA-8B shape, bf16, prompt 150 + canvas 256), from device.json.

python benchmarks/targets.py device.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PUBLIC_STEP = 44.0  # ms per forward evaluation of the public Fast-dLLM code, measured on the same machine before


STATED = "stated"  # no bound: the number is wanted all the same


class Target(NamedTuple):
    what: str
    bound: str
    value: Callable[[Mapping[str, Any]], float]
    unit: str = ""

    def met(self, value: float) -> str:
        if self.bound == STATED:
            return ""
        side, bound = self.bound.split()
        return "yes" if (value <= float(bound) if side == "<=" else value >= float(bound)) else "NO"


def parts(s: Mapping[str, Any], *names: str) -> float:
    return sum(s["compiled parts"]["ms"][name]["median"] for name in names)


def whole_forward(s: Mapping[str, Any]) -> float:
    """Backbone and head on the canvas rows: what every decoder pays."""
    return parts(s, "backbone", "head")


def selection(s: Mapping[str, Any]) -> float:
    """Statistics and lens of the band rows, without the head on the canvas rows, which belongs to the forward."""
    return 100 * (parts(s, "scoring", "lens") - parts(s, "head")) / whole_forward(s)


def selection_of_a_step(s: Mapping[str, Any]) -> float:
    """The same of whole steps along a recorded decode: gating, commit and the host's part included."""
    row = rpd(s)
    head = parts(s, "head") * min(1.0, row["rows_scored_per_step"] / s["compiled parts"]["canvas"])
    forward = row["phases_ms"]["backbone"] + head
    return 100 * (row["ms_per_step"] - forward) / forward


def rpd(s: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(pair["compiled"] for pair in s["steps"] if pair["compiled"]["name"] == "rpd")


def rate(s: Mapping[str, Any], batch: int) -> float:
    return next(row["batch"] / row["ms_per_step"] for row in s["batches"] if row["batch"] == batch)


TARGETS = (
    Target("forward: backbone and head on the canvas rows", "<= 10.5", whole_forward, "ms"),
    Target("the same over its counted floor", "<= 1.38", lambda s: whole_forward(s) / s["peaks"]["floor_ms"], "x"),
    Target("statistics + lens of 8 band rows, of the forward", "<= 4", selection, "%"),
    Target("whole selection of a step (gating, commit, host), of its forward", "<= 4", selection_of_a_step, "%"),
    Target(
        "plain readout of all masks (the prototype: 73 %), of the forward", STATED,
        lambda s: 100 * parts(s, "plain readout") / whole_forward(s), "%",
    ),
    Target("whole RPD step, times faster than 44 ms", ">= 3.8", lambda s: PUBLIC_STEP / rpd(s)["ms_per_step"], "x"),
    Target("rows per second, batch 16 over batch 1", ">= 1.15", lambda s: rate(s, 16) / rate(s, 1), "x"),
    Target("peak memory beyond the weights, eager", "<= 1.5", lambda s: s["memory"]["eager"] / 2**30, "GiB"),
    Target("peak memory beyond the weights, compiled", "<= 1.5", lambda s: s["memory"]["compiled"] / 2**30, "GiB"),
    Target("first step, nothing compiled yet", STATED, lambda s: s["compile"]["cold"], "s"),
    Target("first step of a shape, code compiled before", STATED, lambda s: s["compile"]["warm_start"], "s"),
)  # fmt: skip


def cpu_selection(result: Mapping[str, Any]) -> float:
    """Share of a step: statistics, lens, gating, commit, without the head on the masked rows."""
    row = next(row for row in result["steps"]["profiles"] if row["name"] == "rpd" and row["batch"] == 1)
    head = result["parts"]["ms"]["head"]["median"] * min(1.0, row["rows_scored_per_step"] / result["parts"]["canvas"])
    return 100 * (row["ms_per_step"] - row["phases_ms"]["backbone"] - head) / row["ms_per_step"]


CPU_TARGETS = (
    Target("RPD's selection, of its step", "<= 5", cpu_selection, "%"),
    Target("backbone, batch 1", "<= 60", lambda r: r["parts"]["ms"]["backbone"]["median"], "ms"),
    Target(
        "time of `default` over `rpd`, whole decodes",
        ">= 3",
        lambda r: r["end_to_end"]["default_over_rpd"]["median"],
        "x",
    ),
)


def rows(sections: Mapping[str, Any], targets: Sequence[Target] = TARGETS) -> Iterator[list[str]]:
    """What could not be measured says so."""
    for target in targets:
        try:
            value = target.value(sections)
        except (KeyError, TypeError, StopIteration):
            yield [target.what, target.bound, "not measured", ""]
        else:
            yield [target.what, target.bound, f"{value:.3g} {target.unit}", target.met(value)]


def main() -> None:
    result = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for row in rows(result["sections"]):
        print("{:<66} {:<14} {:<14} {}".format(*row))


if __name__ == "__main__":
    main()
