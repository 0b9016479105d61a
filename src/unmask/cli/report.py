"""`unmask report`: tables and figures from run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def report(
    folders: Annotated[list[Path], Argument(metavar="DIR...", help="run folders")],
    form: Annotated[str, Option("--format", "-f", help="table, md, tex, csv or json")] = "table",
    table: Annotated[str, Option(help="summary, effects, or the paper's layouts: main, ablation")] = "summary",
    against: Annotated[str | None, Option(help="the decoder that differences are taken to")] = None,
    paper: Annotated[bool, Option("--paper", help="the paper's printed values beside ours, labelled")] = False,
    figures: Annotated[Path | None, Option(help="also draw accuracy against TPS and NFE into this folder")] = None,
) -> None:
    """Print tables from run folders, finished or not."""
    from unmask.report.layouts import build
    from unmask.report.runs import load

    results = load(folders)
    print(build(table, results, against, paper).render(form))
    if figures is not None:
        from unmask.report.figures import draw

        for path in draw([result.row for result in results], figures):
            import sys

            print(path, file=sys.stderr)
