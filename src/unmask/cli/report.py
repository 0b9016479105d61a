"""`unmask report`: tables and figures from run folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def report(
    folders: Annotated[list[Path], Argument(metavar="DIR...", help="folders of eval, sweep and diagnose")],
    form: Annotated[str, Option("--format", "-f", help="table, md, tex, csv or json")] = "table",
    table: Annotated[str, Option(help="summary, effects, or the paper's layouts: main, ablation")] = "summary",
    against: Annotated[str | None, Option(help="the decoder that differences are taken to")] = None,
    paper: Annotated[bool, Option("--paper", help="the paper's printed values beside ours, labelled")] = False,
    figures: Annotated[
        Path | None, Option(help="draw every figure that the folders allow into this one, as PNG and SVG")
    ] = None,
    profile: Annotated[
        Path | None, Option(help="what `unmask profile --json` printed: the runtime split comes from there")
    ] = None,
) -> None:
    """Print tables from run folders, finished or not, and draw their figures."""
    from unmask.report.diagnosed import diagnostics, tables
    from unmask.report.layouts import build
    from unmask.report.runs import load

    diagnosed = [folder for folder in folders if diagnostics(folder)]
    runs = [folder for folder in folders if folder not in diagnosed]
    results = load(runs) if runs else []
    made = [build(table, results, against, paper)] if results else []
    for folder in diagnosed:
        made += tables(folder, paper).values()
    print(joined([item.render(form) for item in made], form))
    if figures is not None:
        for path in draw([result.row for result in results], diagnosed, profile, figures):
            print(path, file=sys.stderr)


def joined(texts: list[str], form: str) -> str:
    """Several tables stand one below the other; several JSON documents are one list."""
    return f"[{','.join(texts)}]" if form == "json" and len(texts) > 1 else "\n\n".join(texts)


def draw(rows: list, diagnosed: list[Path], profile: Path | None, target: Path) -> list[Path]:
    """Trade-off and runtime split of the runs, and every figure of the diagnostics."""
    from unmask.report import diagnosed as evidence
    from unmask.report import figures, runtime

    written = figures.draw(rows, target) if rows else []
    if profile is not None:
        split = runtime.from_file(profile)
        written += runtime.draw(split, f"Runtime by phase ({profile.name})", target, f"runtime-{profile.stem}")
    else:
        for (model, task), split in runtime.from_rows(rows).items():
            if runtime.REFERENCE in split:
                n = max(row["n"] for row in rows if (row["model"], row["task"]) == (model, task))
                title = f"Runtime by phase: {model} on {task}, n = {n} per decoder, {rows[0]['device']}"
                written += runtime.draw(split, title, target, f"runtime-{model}-{task}")
    return written + evidence.draw(diagnosed, target)
