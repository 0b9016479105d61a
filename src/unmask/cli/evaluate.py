"""`unmask eval`: any number of decoders on the same examples, into one folder that can be resumed."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from unmask.cli.options import Device, Dtype, Json, ModelName, Options, Revision, check_device, print_json
from unmask.cli.specs import parse_decoders

Decoders = Annotated[str, Option("--decoders", "-d", help="names, comma-separated; options as name:option=value")]
TaskName = Annotated[str, Option("--task", "-t", help="a name from: unmask tasks")]
Split = Annotated[str, Option(help="which part of the data")]
Limit = Annotated[int | None, Option(help="only the first N examples; 1000 for generated tasks by default")]
BatchSize = Annotated[int, Option(help="examples decoded together; answers do not depend on it, throughput does")]
CanvasLength = Annotated[int | None, Option(help="tokens per answer; the model's own by default")]
Seed = Annotated[int, Option(help="of the generated examples, and of decoders that sample")]
Raw = Annotated[bool, Option("--raw", help="no chat template")]
EarlyStop = Annotated[bool, Option("--early-stop", help="end a row once its answer is final")]
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
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    as_json: Json = False,
) -> None:
    """Evaluate decoders on a task. The same command again resumes where the last one stopped."""
    from unmask.evaluate import Settings, Stopped, run
    from unmask.evaluate.progress import Bars

    specs = parse_decoders(decoders, option)
    settings = Settings(
        model, task, specs, split, limit, batch_size, canvas_length, seed, raw, early_stop,
        check_device(device), dtype, revision, data,
    )  # fmt: skip
    out = out or default_folder(settings)
    try:
        rows = run(settings, out, progress=Bars())
    except Stopped as stopped:
        show(stopped.rows, out, as_json)
        raise Exit(130) from None
    show(rows, out, as_json)


def default_folder(settings: Any) -> Path:
    """The same settings give the same folder, so that the same command resumes."""
    asked = json.dumps([settings.request(), [str(s) for s in settings.decoders]], sort_keys=True)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{settings.model}-{settings.task}").strip("-")
    return Path("runs") / f"{name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"


def show(rows: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    for row in rows:
        low, high = row["accuracy_ci95"]
        print(
            f"{row['label']:24} {100 * row['accuracy']:6.2f} % [{100 * low:.2f}, {100 * high:.2f}]  n {row['n']}  "
            f"NFE {row['nfe']:.2f}  TPS {row['tps']:.1f}"
        )
    print(f"\n{out}")
