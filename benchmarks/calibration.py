"""What a calibration found, as Markdown, from its folder.

unmask calibrate --model tiny --out runs/calibration
python benchmarks/calibration.py runs/calibration                                  prints it
python benchmarks/calibration.py runs/calibration --write docs/calibration.md    ... into the page, between its marks
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


def told(document: Mapping[str, Any]) -> str:
    request, measured, found = document["request"], document["measured"], document["held_out"]
    lines = [
        f"`{request['model']}` on `{request['task']}`, risk target {100 * document['risk']:g} %: "
        f"{document['account']}, {document['tokens']['n']:,} target tokens; "
        f"{document['about']['hardware']['device']}, float32.",
        "",
        "| setting | value | usual | why |",
        "|---|---:|---:|---|",
    ]
    lines += [f"| {c['name']} | {c['value']:g} | {c['usual']:g} | {c['why']} |" for c in document["choices"]]
    lines += [
        "",
        f"Measured risk: {100 * measured['error']:.2f} % of {measured['n']:,} admitted tokens, at most "
        f"{100 * measured['upper']:.2f} % (worth {measured['effective']:.0f} independent ones).",
        "",
        "| held-out | n | accuracy % | 95 % interval | forwards |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in ("uncalibrated", "calibrated"):
        one = found[name]
        low, high = (100 * end for end in one["ci95"])
        lines.append(
            f"| {name} | {one['n']} | {100 * one['accuracy']:.1f} | {low:.1f} to {high:.1f} | {one['nfe']:.1f} |"
        )
    paired, nfe = found["accuracy"], found["nfe_ci95"]
    low, high = (100 * end for end in paired["ci95"])
    lines += [
        "",
        f"Paired difference: {100 * paired['difference']:+.1f} points of accuracy [{low:+.1f}, {high:+.1f}] (McNemar "
        f"p = {paired['p_value']:.2g}), {found['nfe']:+.2f} forwards [{nfe[0]:+.2f}, {nfe[1]:+.2f}]. "
        f"{found['verdict']}",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    made = told(json.loads((args.folder / "calibration.json").read_text(encoding="utf-8")))
    print(made)
    if args.write:
        text = args.write.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        args.write.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
