"""How often the guardrails speak up, and whether they are right to: a Markdown table from finished evaluations.

unmask eval --task wordproblems --decoders rpd --limit 540 --out runs/wp-rpd       (and others)
python benchmarks/guardrails.py runs/*                                             the table
python benchmarks/guardrails.py runs/* --write docs/guardrails.md   ... into the page, between its marks

Every sample of an evaluation carries the codes of its warnings; nothing is decoded again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unmask.evaluate.folder import read_config, read_samples
from unmask.report.stats import binomial_upper, wilson

BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
# Decoders whose order is not supposed to collapse. `rpd` is left out: at its budget it cannot be warned of.
ORDERED = ("default", "left-to-right", "fast-dllm", "eb-sampler", "lopa", "dapd", "rpd-block")
HEAD = ("task", "decoder", "n", "warned of", "solved, if warned of", "solved, if not")


def shown(right: Sequence[bool]) -> str:
    if not right:
        return "–"
    low, high = wilson(sum(right), len(right))
    return f"{100 * sum(right) / len(right):.1f} % [{100 * low:.1f}, {100 * high:.1f}] of {len(right)}"


def rows(folders: Iterable[Path]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    for folder in folders:
        config = read_config(folder)
        by_decoder: dict[str, list[dict[str, Any]]] = {}
        for sample in read_samples(folder):
            by_decoder.setdefault(sample["decoder"], []).append(sample)
        for label, samples in by_decoder.items():
            yield config["task"]["name"], label, samples


def table(folders: Sequence[Path]) -> str:
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|---:|---|---|---|"]
    solved, alarms, ordered = 0, 0, dict[str, None]()
    for task, label, samples in rows(folders):
        warned = [sample for sample in samples if sample["warnings"]]
        others = [sample for sample in samples if not sample["warnings"]]
        counts: dict[str, int] = {}
        for sample in warned:
            for code in sample["warnings"]:
                counts[code] = counts.get(code, 0) + 1
        kinds = ", ".join(f"{code} {count}" for code, count in sorted(counts.items()))
        told = f"{len(warned)}" + (f" ({kinds})" if kinds else "")
        right = [[bool(sample["correct"]) for sample in part] for part in (warned, others)]
        lines.append(f"| {task} | {label} | {len(samples)} | {told} | {shown(right[0])} | {shown(right[1])} |")
        if label in ORDERED:
            ordered[label] = None
            solved += sum(sample["correct"] for sample in samples)
            alarms += sum(sample["correct"] for sample in warned)
    upper = 100 * binomial_upper(alarms, solved)
    said = f"{alarms} of {solved:,} (at most {upper:.2f} %, one-sided 95 %)"
    names = ", ".join(f"`{name}`" for name in ordered)
    lines += ["", f"False alarms on solved decodes of decoders that keep an order ({names}): {said}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    made = table(args.folders)
    print(made)
    if args.write:
        text = args.write.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        args.write.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
