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

from unmask.cli.options import Device, Dtype, Json, ModelName, Options, Revision, check_device, warn
from unmask.errors import UserError, unknown

if TYPE_CHECKING:
    from unmask.diagnostics.decodes import Request as Decodes
    from unmask.diagnostics.survey import Request
    from unmask.models import Model
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
Masks = Annotated[str, Option(help="mask counts per 48 upstream digits; shorter traces have the same share hidden")]
Patterns = Annotated[int, Option(help="masking patterns per question and mask count")]
Raw = Annotated[bool, Option("--raw", help="no chat template")]
BatchSize = Annotated[int, Option(help="states evaluated together")]
Out = Annotated[Path | None, Option(help="the folder; named after the settings by default, so that it is shared")]
Format = Annotated[str, Option("--format", "-f", help="table, md, tex, csv (the first table) or json")]
Paper = Annotated[bool, Option("--paper", help="the paper's printed values below ours, labelled")]
FirstLayer = Annotated[int | None, Option(help="ℓ0, 1-based; by default the final half of the layers is analysed")]

Decoders = Annotated[str, Option("--decoders", "-d", help="names, comma-separated; options as name:option=value")]
Constraints = Annotated[
    str, Option(help="all, none, or some of most-confident, answer-last, operands-first, comma-separated")
]
ConstraintLimit = Annotated[int | None, Option(help="examples per ordering constraint, where fewer than --limit")]
DecodeBatch = Annotated[int, Option("--batch-size", help="examples decoded together")]
CanvasLength = Annotated[int | None, Option(help="tokens per answer; the model's own by default")]

DECODERS = "default,fast-dllm,confidence,rpd,rpd-block"
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
    masks: Masks = "4,8,16,32",
    patterns: Patterns = 16,
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
    request = states_request(model, task, traces, data, limit, min_digits, leak, split, seed, masks,
                             patterns, raw, batch_size, device, dtype, revision)  # fmt: skip
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
    masks: Masks = "4,8,16,32",
    patterns: Patterns = 16,
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
    from unmask.diagnostics.states import window
    from unmask.diagnostics.tables import layer_tables

    check_format(form)
    request = states_request(model, task, traces, data, limit, min_digits, leak, split, seed, masks,
                             patterns, raw, batch_size, device, dtype, revision)  # fmt: skip
    folder = collect(request, out, lambda outline: window(outline, first_layer, hint=True))
    conclude("layers", folder, layer_tables(folder, first_layer, paper), form, as_json, first=first_layer)


@app.command()
def order(
    model: ModelName = "tiny",
    task: Annotated[str, Option("--task", "-t", help="a name from: unmask tasks")] = "wordproblems",
    decoders: Decoders = DECODERS,
    constraints: Constraints = "all",
    option: Options = None,
    data: Data = None,
    limit: Annotated[int, Option(help="examples per decoder")] = 40,
    constraint_limit: ConstraintLimit = None,
    split: Split = "test",
    seed: Annotated[int, Option(help="of generated examples, and of decoders that sample")] = 0,
    raw: Raw = False,
    batch_size: DecodeBatch = 8,
    canvas_length: CanvasLength = None,
    traces: Annotated[list[Path] | None, Option("--trace", help="draw these recorded decodes instead")] = None,
    out: Out = None,
    form: Format = "table",
    as_json: Json = False,
    paper: Paper = False,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
) -> None:
    """In which order do decoders commit, and what is a better order worth? Confidence of the empty canvas, commit
    order by position and progress, single decodes side by side, and accuracy under ordering constraints."""
    from unmask.diagnostics.tables import order_tables

    check_format(form)
    if traces:
        return draw_traces(traces, out, form, as_json)
    request = decodes_request(model, task, decoders, constraints, option, data, limit, constraint_limit, split, seed,
                              raw, batch_size, canvas_length, device, dtype, revision)  # fmt: skip
    folder = decode_all(request, out)
    conclude("order", folder, order_tables(folder, paper), form, as_json)


@app.command()
def admitted(
    model: ModelName = "tiny",
    task: Annotated[str, Option("--task", "-t", help="a name from: unmask tasks")] = "wordproblems",
    decoders: Decoders = DECODERS,
    constraints: Constraints = "all",
    option: Options = None,
    data: Data = None,
    limit: Annotated[int, Option(help="examples per decoder")] = 40,
    constraint_limit: ConstraintLimit = None,
    split: Split = "test",
    seed: Annotated[int, Option(help="of generated examples, and of decoders that sample")] = 0,
    raw: Raw = False,
    batch_size: DecodeBatch = 8,
    canvas_length: CanvasLength = None,
    out: Out = None,
    form: Format = "table",
    as_json: Json = False,
    paper: Paper = False,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
) -> None:
    """What does the stability test admit? Confidence, persistence and drop of the tokens it let through, its share of
    all commits, and its own ceiling, over the decodes of `order`."""
    from unmask.diagnostics.tables import admitted_tables

    check_format(form)
    request = decodes_request(model, task, decoders, constraints, option, data, limit, constraint_limit, split, seed,
                              raw, batch_size, canvas_length, device, dtype, revision)  # fmt: skip
    check_stability(request)
    folder = decode_all(request, out)
    conclude("admitted", folder, admitted_tables(folder, paper), form, as_json)


# --- shared -----------------------------------------------------------------------------------------------------


def states_request(
    model: str, task: str | None, traces: Path | None, data: Path | None, limit: int | None, min_digits: int | None,
    leak: str, split: str, seed: int, masks: str, patterns: int, raw: bool, batch_size: int, device: str | None,
    dtype: str | None, revision: str | None,
) -> Request:  # fmt: skip
    from unmask.diagnostics.survey import Request

    if task is not None and traces is not None:
        raise UserError("--task and --traces both say where the traces come from: give one of them")
    if traces is not None and limit is None:
        limit = FILE_LIMIT
    source = traces if traces is not None else task or "wordproblems"
    try:
        levels = tuple(int(part) for part in masks.split(","))
    except ValueError:
        raise UserError(f"--masks {masks!r} is not a list of numbers: write --masks 4,8,16,32") from None
    return Request(
        model, source, limit, min_digits, leak, split, seed, raw, levels, patterns, batch_size=batch_size,
        device=check_device(device), dtype=dtype, revision=revision, data=data,
    )  # fmt: skip


def collect(request: Request, out: Path | None, check: Callable[[Model], object] | None = None) -> Path:
    """The folder with every state evaluated. `check`: what the analysis asks of the model."""
    from unmask.diagnostics.survey import StatesBar, survey
    from unmask.evaluate.progress import Bars

    out = out or default_folder(
        "states", request.model, {**request.held(), "file": str(request.source), "levels": request.levels}
    )
    with resumable(out):
        config = survey(request, out, Bars(StatesBar), check)
    print(f"{config['account']}\n{out}", file=sys.stderr)
    return out


def decodes_request(
    model: str, task: str, names: str, constraints: str, option: list[str] | None, data: Path | None, limit: int,
    constraint_limit: int | None, split: str, seed: int, raw: bool, batch_size: int, canvas_length: int | None,
    device: str | None, dtype: str | None, revision: str | None,
) -> Decodes:  # fmt: skip
    from unmask.cli.specs import parse_decoders
    from unmask.diagnostics.constraints import NAMES
    from unmask.diagnostics.decodes import Request

    specs = parse_decoders(names, option) if names != "none" else ()
    words = tuple(word.strip() for word in constraints.split(",") if word.strip())
    chosen = {"all": NAMES, "none": ()}.get(constraints, words)
    if not specs and not chosen:
        raise UserError("nothing to decode: name --decoders or --constraints")
    return Request(
        model, task, specs, chosen, limit, constraint_limit, split, seed, batch_size, canvas_length, raw,
        check_device(device), dtype, revision, data,
    )  # fmt: skip


def decode_all(request: Decodes, out: Path | None) -> Path:
    """The folder with every decode in it."""
    from unmask.diagnostics.decodes import DecodesBar, decode
    from unmask.evaluate.progress import Bars

    asked = {**request.held(), "decoders": [str(spec) for spec in request.decoders]}
    out = out or default_folder("order", request.model, asked)
    with resumable(out):
        decode(request, out, Bars(DecodesBar))
    print(out, file=sys.stderr)
    return out


def check_stability(request: Decodes) -> None:
    """Before the first forward: does any of the decoders test stability?"""
    from unmask import decoders

    named = [spec.name for spec in request.decoders if spec.name != "default"]  # no model's own tests it
    if not any(hasattr(decoders.find(name)[0], "theta_s") for name in named):
        labels = ", ".join(spec.label for spec in request.decoders) or "none"
        raise UserError(f"no decoder tests stability ({labels}): decode with rpd or rpd-block")


def draw_traces(files: list[Path], out: Path | None, form: str, as_json: bool) -> None:
    """Recorded decodes: the pictures of single decodes and of the order, into `out`."""
    from unmask.diagnostics.order import analyse, from_traces, order_table
    from unmask.report.commitment import draw_result
    from unmask.trace import Trace

    result = analyse(from_traces(Trace.load(path) for path in files))
    table = order_table(result, f"Commitment order of {len(files)} recorded decodes")
    print(table.render("json" if as_json else form))
    for path in draw_result(result, "recorded decodes", out or Path(), "traces"):
        print(path, file=sys.stderr)


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


def conclude(name: str, folder: Path, tables: Mapping[str, Table], form: str, as_json: bool, **drawn: Any) -> None:
    """Files in the folder (JSON, a CSV per table, figures where matplotlib is installed), the tables on stdout."""
    from unmask.evaluate.folder import write_json

    document = {stem: {"title": t.title, "notes": t.notes, "rows": t.records} for stem, t in tables.items()}
    write_json(folder / f"{name}.json", document)
    for stem, table in tables.items():
        (folder / f"{stem}.csv").write_text(table.render("csv") + "\n", encoding="utf-8")
    draw(folder, name, **drawn)
    if as_json or form == "json":
        print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
    elif form == "csv":
        print(next(iter(tables.values())).render("csv"))
    else:
        print("\n\n".join(table.render(form) for table in tables.values()))


def draw(folder: Path, name: str, **settings: Any) -> None:
    from unmask.report.diagnosed import FIGURES

    try:
        written = FIGURES[name](folder, folder, **settings)
    except UserError as missing:
        warn(str(missing))
        return
    for path in written:
        print(path, file=sys.stderr)
