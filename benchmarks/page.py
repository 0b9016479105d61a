"""docs/performance.md from what benchmarks/cpu.py and benchmarks/device.py measured.

python benchmarks/page.py cpu.json [device.json] > docs/performance.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import targets

PHASES = ("backbone", "projection", "scoring", "other")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = [f"| {' | '.join(header)} |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    return "\n".join(head + [f"| {' | '.join(row)} |" for row in rows])


def spread(times: dict[str, float]) -> str:
    return f"{times['median']:.3g} ({times['min']:.3g} to {times['max']:.3g})"


def where(result: dict[str, Any]) -> str:
    hardware, versions = result["hardware"], result["versions"]
    clock = "CPU time of the process" if result.get("cpu_time") else "wall time"
    load = f", load average {result['load_average']:.1f} at the start" if "load_average" in result else ""
    shared = " **The machine was shared with other work.**" if result.get("load_average", 0) > 1.5 else ""
    return (
        f"{hardware['device']}, {hardware['threads']} thread(s) of {hardware['cores']} cores, Python "
        f"{versions['python']}, torch {versions['torch']}, {result['date']}; {clock}{load}.{shared}"
    )


def parts_table(parts: dict[str, Any]) -> str:
    backbone = parts["ms"]["backbone"]["median"]
    rows = [[name, spread(t), f"{100 * t['median'] / backbone:.1f} %"] for name, t in parts["ms"].items()]
    ratio = parts["ms"]["plain readout"]["median"] / parts["ms"]["lens"]["median"]
    repeats = parts["ms"]["backbone"]["repeats"]
    return (
        f"One step with nothing committed: prompt {parts['prompt']}, canvas {parts['canvas']}, "
        f"{parts['band_rows']} band rows, window of {parts['window']} layers below the last. Median and range of "
        f"{repeats} rounds that take turns.\n\n"
        + table(["part", "ms", "of the backbone"], rows)
        + f"\n\nThe plain readout (all masks, layer by layer) costs {ratio:.1f} times the lens of the band rows."
    )


def steps_table(profiles: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            row["decoder"], str(row["batch"]), f"{row['ms_per_step']:.3g} ({row['ms_spread'][0]:.3g} to "
            f"{row['ms_spread'][1]:.3g})", *(f"{row['phases_ms'][phase]:.3g}" for phase in PHASES),
            f"{100 * (1 - row['phases_ms']['backbone'] / row['ms_per_step']):.1f} %",
            f"{row['floor_ms']['total']:.3g}", f"{row['ratio']['total']:.2f}", f"{row['ratio']['backbone']:.2f}",
            f"{1e3 * row['batch'] / row['ms_per_step']:.3g}",
        ]
        for row in profiles
    ]  # fmt: skip
    header = ["decoder", "batch", "ms per step", "backbone", "projection", "scoring and gating", "other",
              "selection", "floor", "x floor", "backbone x its floor", "rows per second"]  # fmt: skip
    return table(header, rows)


def statistics_table(found: Sequence[dict[str, Any]]) -> str:
    return table(
        ["logits", "plain ms", "ours ms", "times faster"],
        [
            [f"{f['rows']} x {f['vocabulary']:,} {f['dtype']}", spread(f["ms"]["plain"]), spread(f["ms"]["ours"]),
             f"{f['ms']['plain']['median'] / f['ms']['ours']['median']:.1f}"] for f in found
        ],
    )  # fmt: skip


def cpu_section(result: dict[str, Any]) -> str:
    ends, gain = result["end_to_end"], result["end_to_end"]["default_over_rpd"]
    whole = [[name, f"{ends['seconds'][name]:.2f}", f"{ends['forwards'][name]:.1f}"] for name in ends["seconds"]]
    peaks = result["steps"]["peaks"]
    return "\n\n".join([
        "## Embedded model on a CPU", where(result),
        table(["number", "bound", "measured", "met"], targets.rows(result, targets.CPU_TARGETS)),
        parts_table(result["parts"]),
        "### Steps of every decoder",
        "Along recorded decodes (`unmask profile`), median and range of the passes. Selection is everything but the "
        "backbone, the head included; in the first table it is without the head on the masked rows, which every "
        f"decoder needs. Measured peaks: {peaks['flops'] / 1e9:.0f} GFLOP/s, {peaks['bandwidth'] / 1e9:.1f} GB/s.",
        steps_table(result["steps"]["profiles"]),
        "### Batches, ragged prompts", steps_table(result["batches"]["profiles"]),
        "### Statistics", statistics_table(result["statistics"]),
        "### Whole decodes",
        f"The same {ends['n']} word problems, taking turns; seconds are means. `default` over `rpd`, per problem: "
        f"median {gain['median']:.1f}, from {gain['min']:.1f} to {gain['max']:.1f}.",
        table(["decoder", "seconds", "forwards"], whole),
    ])  # fmt: skip


def device_section(result: dict[str, Any] | None) -> str:
    if result is None:
        return "\n\n".join([
            "## LLaDA-8B shape on a CUDA device",
            "**Not measured on this version.** One command, under nine minutes:",
            "```\npython benchmarks/device.py --out device.json\n"
            "python benchmarks/page.py cpu.json device.json > docs/performance.md\npytest -m gpu\n```",
            "It measures, in one run: the backbone against the counted floor, eager and replayed; the selection of "
            "RPD (scoring, lens of eight band rows in one product and in two stages) against a plain readout of all "
            "masks; steps of every decoder; batches 1, 4, 16 and 64 with ragged prompts; peak memory; the time to a "
            "first step, cold and warm; and whether replayed decodes commit the eager tokens.",
        ])  # fmt: skip
    sections = result["sections"]
    out = [f"## {result['shape']} on a CUDA device", where(result)]
    if "peaks" in sections:
        rates = sections["peaks"]
        out.append(f"Measured peaks: {rates['flops'] / 1e12:.0f} TFLOP/s, {rates['bandwidth'] / 1e12:.2f} TB/s.")
    out += ["### Against what it should reach", table(["number", "bound", "measured", "met"], targets.rows(sections))]
    for name in ("eager parts", "compiled parts"):
        if name in sections:
            out += [f"### {name.capitalize()}", parts_table(sections[name])]
    if "steps" in sections:
        for kind in ("eager", "compiled"):
            out += [f"### Steps, {kind}", steps_table([pair[kind] for pair in sections["steps"]])]
    if "batches" in sections:
        out += ["### Batches, ragged prompts, compiled", steps_table(sections["batches"])]
    if "two-stage lens" in sections:
        walks = sections["two-stage lens"].items()
        rows = [[depth, f"{row['ms_per_step']:.3g}", f"{row['phases_ms']['projection']:.3g}"] for depth, row in walks]
        out += ["### Two-stage lens", table(["layers in the first product", "ms per step", "projection"], rows)]
    if "statistics" in sections:
        out += ["### Statistics", statistics_table(sections["statistics"])]
    for name in ("compile", "memory", "agreement"):
        if name in sections:
            out += [f"### {name.capitalize()}", f"```json\n{json.dumps(sections[name], indent=1)}\n```"]
    if result["skipped"]:
        out.append("Not measured: " + "; ".join(f"{name} ({why})" for name, why in result["skipped"].items()) + ".")
    return "\n\n".join(out)


def main() -> None:
    read = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    found = {result["kind"]: result for result in read}
    if "cpu" not in found:
        sys.exit("usage: python benchmarks/page.py cpu.json [device.json] > docs/performance.md")
    print(
        "# Performance\n\nWritten by `python benchmarks/page.py` from what `benchmarks/cpu.py` and\n"
        "`benchmarks/device.py` measured; do not edit. The floor is counted operations and bytes over rates\n"
        "measured in the same run (`unmask profile --help`).\n\n"
        + cpu_section(found["cpu"])
        + "\n\n"
        + device_section(found.get("device"))
    )


if __name__ == "__main__":
    main()
