"""`unmask diagnose`: is the evidence that RPD rests on there, for this model?"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Exit, Option

from unmask.cli.options import Device, Dtype, Json, ModelName, Revision, check_device, warn
from unmask.errors import UserError, unknown

if TYPE_CHECKING:
    from unmask.diagnostics.survey import Request
    from unmask.report.table import Table

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

TaskName = Annotated[
    str | None, Option("--task", "-t", help="whose gold responses are the traces; wordproblems if none")
]
TraceFile = Annotated[
    Path | None, Option("--traces", help="a JSONL file with question, trace (or equations), answer")
]
Data = Annotated[Path | None, Option(help="where a task that reads its examples finds them")]
Limit = Annotated[int | None, Option(help="traces; 200 of a generated task and 2000 of a file by default")]
MinDigits = Annotated[int | None, Option(help="upstream digits a trace needs; 48 in a file, 12 in a task by default")]
Leak = Annotated[str, Option(help="how the answer may not occur before its place: as a substring, or as a number")]
Split = Annotated[str, Option(help="which part of the task's data")]
Seed = Annotated[int, Option(help="of the sample of traces and of the masks")]
Raw = Annotated[bool, Option("--raw", help="no chat template")]
BatchSize = Annotated[int, Option(help="states evaluated together")]
Out = Annotated[Path | None, Option(help="the folder; named after the settings by default, so that it is shared")]
Format = Annotated[str, Option("--format", "-f", help="table, md, tex, csv (the first table) or json")]
Paper = Annotated[bool, Option("--paper", help="the paper's printed values below ours, labelled")]
FirstLayer = Annotated[int | None, Option(help="ℓ0, 1-based; by default the final half of the layers is analysed")]

FILE_LIMIT = 2000  # the paper's


@app.command()
def upstream(
    model: ModelName = "tiny",
    task: TaskName = None,
    traces: TraceFile = None,
    data: Data = None,
    limit: Limit = None,
    min_digits: MinDigits = None,
    leak: Leak = "substring",
    split: Split = "test",
    seed: Seed = 325,
    raw: Raw = False,
    batch_size: BatchSize = 16,
    out: Out = None,
    form: Format = "table",
    as_json: Json = False,
    paper: Paper = False,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
) -> None:
    """Do answers go wrong where what comes before them is uncertain? Gold traces with masked digits, one forward
    per state; the five lowest- against the five highest-entropy patterns of each question. The same command goes
    on where an interrupted one stopped, and `diagnose layers` reads the same folder."""
    from unmask.diagnostics.tables import upstream_tables

    check_format(form)
    request = states_request(model, task, traces, data, limit, min_digits, leak, split, seed, raw, batch_size,
                             device, dtype, revision)  # fmt: skip
    folder = collect(request, out)
    conclude("upstream", folder, upstream_tables(folder, paper), form, as_json)


@app.command()
def layers(
    model: ModelName = "tiny",
    task: TaskName = None,
    traces: TraceFile = None,
    data: Data = None,
    limit: Limit = None,
    min_digits: MinDigits = None,
    leak: Leak = "substring",
    split: Split = "test",
    seed: Seed = 325,
    raw: Raw = False,
    batch_size: BatchSize = 16,
    first_layer: FirstLayer = None,
    out: Out = None,
    form: Format = "table",
    as_json: Json = False,
    paper: Paper = False,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
) -> None:
    """Are predictions that persist through the layers, and lose no probability, more often right? Error rates of
    the target digits by persistence K, confidence drop r and final confidence, over the states of `upstream`."""
    from unmask.diagnostics.tables import layer_tables

    check_format(form)
    request = states_request(model, task, traces, data, limit, min_digits, leak, split, seed, raw, batch_size,
                             device, dtype, revision)  # fmt: skip
    folder = collect(request, out)
    conclude("layers", folder, layer_tables(folder, first_layer, paper), form, as_json)


# --- shared -----------------------------------------------------------------------------------------------------


def states_request(
    model: str, task: str | None, traces: Path | None, data: Path | None, limit: int | None, min_digits: int | None,
    leak: str, split: str, seed: int, raw: bool, batch_size: int, device: str | None, dtype: str | None,
    revision: str | None,
) -> Request:  # fmt: skip
    from unmask.diagnostics.survey import Request

    if task is not None and traces is not None:
        raise UserError("--task and --traces both say where the traces come from: give one of them")
    if traces is not None and limit is None:
        limit = FILE_LIMIT
    source = traces if traces is not None else task or "wordproblems"
    return Request(
        model, source, limit, min_digits, leak, split, seed, raw, batch_size=batch_size, device=check_device(device),
        dtype=dtype, revision=revision, data=data,
    )  # fmt: skip


def collect(request: Request, out: Path | None) -> Path:
    """The folder with every state evaluated."""
    from unmask.diagnostics.survey import StatesBar, survey
    from unmask.evaluate.progress import Bars

    out = out or default_folder("states", request.model, {**request.held(), "file": str(request.source)})
    with resumable(out):
        config = survey(request, out, Bars(StatesBar))
    print(f"{config['account']}\n{out}", file=sys.stderr)
    return out


@contextlib.contextmanager
def resumable(out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on from {out}", file=sys.stderr)
        raise Exit(130) from None


def default_folder(what: str, model: str, settings: Mapping[str, Any]) -> Path:
    """The same settings give the same folder, so that the same command resumes."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{what}-{model}").strip("-")
    return Path("runs") / f"{name}-{digest}"


def check_format(form: str) -> None:
    from unmask.report.table import FORMS

    if form not in FORMS:
        raise unknown("format", form, FORMS)


def conclude(name: str, folder: Path, tables: Mapping[str, Table], form: str, as_json: bool) -> None:
    """Files in the folder (JSON, a CSV per table, figures where matplotlib is installed), the tables on stdout."""
    from unmask.evaluate.folder import write_json

    document = {stem: {"title": t.title, "notes": t.notes, "rows": t.records} for stem, t in tables.items()}
    write_json(folder / f"{name}.json", document)
    for stem, table in tables.items():
        (folder / f"{stem}.csv").write_text(table.render("csv") + "\n", encoding="utf-8")
    draw(folder, name)
    if as_json or form == "json":
        print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
    elif form == "csv":
        print(next(iter(tables.values())).render("csv"))
    else:
        print("\n\n".join(table.render(form) for table in tables.values()))


def draw(folder: Path, name: str) -> None:
    from unmask.report.evidence import FIGURES

    make: Callable[[Path, Path], list[Path]] = FIGURES[name]
    try:
        written = make(folder, folder)
    except UserError as missing:
        warn(str(missing))
        return
    for path in written:
        print(path, file=sys.stderr)
