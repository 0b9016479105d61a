"""Write MODEL_CARD.md from the training record and from run folders of `unmask eval`; nothing is typed by hand.

python training/card.py runs/word-* runs/function-* > src/unmask/tiny/MODEL_CARD.md
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TINY = Path(__file__).parent.parent / "src" / "unmask" / "tiny"

INTRODUCTION = """# The embedded model

A masked diffusion language model of {millions:.2f} million parameters, in LLaDA's published checkpoint format, that
ships with `unmask`: {layers} layers of width {width}, {heads} heads, SwiGLU of {mlp}, {rows} vocabulary rows, float16
({mib:.1f} MiB). It solves two kinds of generated problems, and nothing else.

## Data

Generated without end, seeded, by `src/unmask/tasks/`: `wordproblems` (one to five steps of arithmetic in everyday
language, answered by a trace in sentences and a last line `#### answer`) and `functions` (a one-sentence request for
a small Python function with two assertions, answered by code). Train, validation and test share neither a question
text nor an underlying program with its numbers, by construction: both are hashed into disjoint buckets.

## Training

The masked-diffusion objective of LLaDA: every response token is masked with probability t, t uniform, and the
cross-entropy of the masked ones is weighted by 1/t; end-of-text fills the canvas. The second stage gives random spans
of half the examples, as when a user fills in the middle. No decoder takes part. `training/run.sh` reproduces it.

| stage | steps | batch | word problems | spans given | seconds | device | torch |
|---|---:|---:|---:|---:|---:|---|---|
{stages}

## RPD settings

{chosen}

## Measured

"""


def introduction() -> str:
    config = json.loads((TINY / "config.json").read_text())
    stages = json.loads((TINY / "training.json").read_text())["stages"]
    rows = [
        f"| {s['name']} | {s['step']:,} | {s['config']['batch']:,} | {s['config']['share']:.0%} | "
        f"{s['config'].get('infill', 0):.0%} | {s['seconds']:.0f} | {s['device']} | {s['torch']} |"
        for s in stages
    ]
    return INTRODUCTION.format(
        millions=stages[-1]["parameters"] / 1e6,
        layers=config["n_layers"],
        width=config["d_model"],
        heads=config["n_heads"],
        mlp=config["mlp_hidden_size"],
        rows=config["embedding_size"],
        mib=(TINY / "model.safetensors").stat().st_size / 2**20,
        stages="\n".join(rows),
        chosen=json.loads((TINY / "unmask.json").read_text())["chosen"],
    )


def measured(folders: list[str]) -> list[dict[str, Any]]:
    """The rows of `unmask report`, which reads unfinished runs too."""
    command = [sys.executable, "-m", "unmask", "report", *folders, "--format", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]


def table(task: str, rows: list[dict[str, Any]]) -> str:
    metric = rows[0]["metric"]
    lines = [
        f"**`{task}`**, {rows[0]['split']} split\n",
        f"| decoder | n | {metric} % | 95 % interval | forwards |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        low, high = (100 * x for x in row["accuracy_ci95"])
        name = row["label"] if row["label"] == row["decoder"] else f"{row['label']} ({row['decoder']})"
        accuracy = 100 * row["accuracy"]
        lines.append(f"| {name} | {row['n']:,} | {accuracy:.1f} | {low:.1f} to {high:.1f} | {row['nfe']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python training/card.py RUN_FOLDER...")
    rows = measured(sys.argv[1:])
    print(introduction(), end="")
    for task in dict.fromkeys(row["task"] for row in rows):
        print(table(task, [row for row in rows if row["task"] == task]), end="\n\n")
    where = dict.fromkeys(f"{row['device']}, {row['dtype']}, batch {row['batch_size']}" for row in rows)
    print("The first n problems of the same list for every decoder; Wilson intervals. Decoders that are not listed")
    print(f"have not been measured on this model yet. Measured on: {'; '.join(where)}.")


if __name__ == "__main__":
    main()
