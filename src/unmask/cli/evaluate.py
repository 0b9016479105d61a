"""`unmask eval`: any number of decoders on the same examples, into one folder that can be resumed."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from unmask import sandbox, tasks
from unmask.cli.options import Device, Dtype, Json, ModelName, Options, Revision, check_device, print_json, warn
from unmask.cli.specs import parse_decoders
from unmask.errors import UserError, unknown

if TYPE_CHECKING:
    from unmask.evaluate import Settings
    from unmask.evaluate.local import Executor
    from unmask.evaluate.plan import Plan

Decoders = Annotated[str, Option("--decoders", "-d", help="names, comma-separated; options as name:option=value")]
TaskName = Annotated[str, Option("--task", "-t", help="a name from: unmask tasks")]
Split = Annotated[str, Option(help="which part of the data")]
Limit = Annotated[int | None, Option(help="only the first N examples; 1000 for generated tasks by default")]
BatchSize = Annotated[int, Option(help="examples decoded together; answers do not depend on it, throughput does")]
CanvasLength = Annotated[int | None, Option(help="tokens per answer; the model's own by default")]
Seed = Annotated[int, Option(help="of the generated examples, and of decoders that sample")]
Raw = Annotated[bool, Option("--raw", help="no chat template")]
EarlyStop = Annotated[bool, Option("--early-stop", help="end a row once its answer is final")]
Engine = Annotated[str, Option(help="local, or ray: the same work on a Ray cluster")]
Address = Annotated[str | None, Option(help="of the Ray cluster; one on this machine by default")]
Workers = Annotated[int | None, Option(help="models on the Ray cluster; one per GPU, or per --cores, by default")]
Cores = Annotated[int, Option(help="processor cores per model on a Ray cluster without GPUs")]
AllowWeak = Annotated[
    bool, Option("--allow-weak-sandbox", help="run generated code even where nothing keeps it from your files")
]
Data = Annotated[Path | None, Option(help="a JSONL file with the task's examples, or a folder of them")]


def evaluate(
    model: ModelName = "tiny",
    task: TaskName = "wordproblems",
    decoders: Decoders = "default,rpd",
    option: Options = None,
    split: Split = "test",
    limit: Limit = None,
    batch_size: BatchSize = 8,
    canvas_length: CanvasLength = None,
    seed: Seed = 0,
    raw: Raw = False,
    early_stop: EarlyStop = False,
    out: Annotated[Path | None, Option(help="the run folder; named after the settings by default")] = None,
    data: Data = None,
    allow_weak_sandbox: AllowWeak = False,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    cores: Cores = 1,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    as_json: Json = False,
) -> None:
    """Evaluate decoders on a task. The same command again resumes where the last one stopped."""
    from unmask.evaluate import Settings

    settings = Settings(
        model, task, parse_decoders(decoders, option), split, limit, batch_size, canvas_length, seed, raw, early_stop,
        device if engine == "ray" else check_device(device), dtype, revision, data,
    )  # fmt: skip
    out = out or default_folder(settings)
    rows, stopped = launch(settings, out, Where(engine, address, workers, cores), allow_weak_sandbox)
    show(rows, out, as_json)
    if stopped:
        raise Exit(130)


@dataclass(frozen=True)
class Where:
    """On which machines, as the command line says it."""

    engine: str
    address: str | None
    workers: int | None
    cores: int


def launch(settings: Settings, out: Path, where: Where, weak: bool) -> tuple[list[dict[str, Any]], bool]:
    """Run with progress on stderr; the rows, and whether Ctrl-C ended it early."""
    from unmask.evaluate import Stopped, run
    from unmask.evaluate.progress import Bars

    if weak:
        sandbox.allow_weak()
    if getattr(tasks.get(settings.task), "runs_code", False):
        # Which walls generated code will run behind, before any of it does.
        print(f"sandbox for generated code: {sandbox.require()}", file=sys.stderr)
    engine, settings = find_engine(where, settings)
    try:
        return run(settings, out, engine=engine, progress=Bars()), False
    except Stopped as stopped:
        print(f"stopped; the same command goes on from {out}", file=sys.stderr)
        return stopped.rows, True


def find_engine(where: Where, settings: Settings) -> tuple[Callable[[Plan], Executor], Settings]:
    """The executor, and the settings with the device that its machines have."""
    for name, count in (("--workers", where.workers), ("--cores", where.cores)):
        if count is not None and count < 1:
            raise UserError(f"{name} must be at least 1, not {count}")
    if where.engine == "local":
        if where.address is not None or where.workers is not None:
            raise UserError("--address and --workers belong to --engine ray")
        from unmask.evaluate.local import Local

        return Local, settings
    if where.engine != "ray":
        raise unknown("engine", where.engine, ("local", "ray"))
    from unmask.evaluate.cluster import connect, device

    engine = connect(where.address, where.workers, where.cores)
    return engine, replace(settings, device=settings.device or device())


def default_folder(settings: Settings) -> Path:
    """The same settings give the same folder, so that the same command resumes."""
    asked = json.dumps([settings.request(), [str(s) for s in settings.decoders]], sort_keys=True)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{settings.model}-{settings.task}").strip("-")
    return Path("runs") / f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"


def show(rows: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    width = max(len(row["label"]) for row in rows)
    for row in rows:
        low, high = row["accuracy_ci95"]
        print(
            f"{row['label']:{width}}  {100 * row['accuracy']:6.2f} % [{100 * low:.2f}, {100 * high:.2f}]  "
            f"n {row['n']}  NFE {row['nfe']:.2f}  TPS {row['tps']:.1f}" + errors_of(row)
        )
    warn_of_collapses(rows)
    print(f"\n{out}")


def errors_of(row: dict[str, Any]) -> str:
    """They count as wrong: a reader of the accuracy has to know how many there are, and where to look."""
    count = row["errors"]
    return f"  {count} error{'s' if count > 1 else ''} (see samples.jsonl)" if count else ""


def warn_of_collapses(rows: list[dict[str, Any]]) -> None:
    """One line per decoder and kind, however many examples it was."""
    from unmask.guardrails import FIXES, KINDS

    for row in rows:
        for code, warned in row["warnings"].items():
            share = f"{100 * warned['n'] / row['n']:.1f} % of examples ({warned['correct']} of {warned['n']} solved)"
            warn(f"{row['label']}: {KINDS[code]} in {share}: {FIXES[code]}")
