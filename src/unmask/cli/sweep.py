"""`unmask sweep`: one folder with every combination of a decoder's parameters, its figure and its AUP."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from unmask.cli.evaluate import (
    Address,
    AllowWeak,
    BatchSize,
    CanvasLength,
    Cores,
    Data,
    EarlyStop,
    Engine,
    Limit,
    Raw,
    Seed,
    Split,
    TaskName,
    Where,
    Workers,
    default_folder,
    launch,
)
from unmask.cli.options import Device, Dtype, Json, ModelName, Options, Revision, check_device, print_json
from unmask.cli.specs import parse_decoders
from unmask.errors import UserError

Vary = Annotated[
    list[str],
    Option(metavar="[DECODER.]NAME=V1,V2,...", help="values of a parameter; several give every combination"),
]


def sweep(
    decoder: Annotated[str, Option("--decoder", "-d", help="the decoder whose parameters vary")],
    vary: Vary,
    also: Annotated[str | None, Option(help="decoders to show beside it, comma-separated")] = None,
    model: ModelName = "tiny",
    task: TaskName = "wordproblems",
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
    """Evaluate a decoder at many settings, draw accuracy against TPS and NFE, and print the AUP."""
    from unmask.evaluate import Settings

    specs = parse_decoders(combinations(decoder, vary) + (also or "").split(","), option)
    settings = Settings(
        model, task, specs, split, limit, batch_size, canvas_length, seed, raw, early_stop,
        device if engine == "ray" else check_device(device), dtype, revision, data,
    )  # fmt: skip
    out = out or default_folder(settings)
    rows, stopped = launch(settings, out, Where(engine, address, workers, cores), allow_weak_sandbox)
    conclude(rows, out, as_json)
    if stopped:
        raise Exit(130)


def combinations(decoder: str, vary: Sequence[str]) -> list[str]:
    """`fast-dllm` and `threshold=0.6,0.7` -> `fast-dllm:threshold=0.6`, ...; `other.x=1,2` sweeps another decoder."""
    grids: dict[str, list[list[str]]] = {decoder: []}
    for text in vary:
        name, equals, values = text.partition("=")
        owner, dot, option = name.rpartition(".")
        choices = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not option or not choices:
            raise UserError(f"--vary {text!r} is not a sweep: write --vary threshold=0.6,0.7,0.8")
        if len(set(choices)) < len(choices):
            raise UserError(f"--vary {text} names a value twice")
        grids.setdefault(owner if dot else decoder, []).append([f"{option}={value}" for value in choices])
    return [":".join([name, *choice]) for name, grid in grids.items() for choice in itertools.product(*grid)]


def conclude(rows: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    """sweep.json, the figure where matplotlib is installed, and the table on stdout."""
    from unmask.cli.evaluate import show
    from unmask.cli.options import warn
    from unmask.evaluate.folder import write_json
    from unmask.report.tradeoff import AUP, scores

    done = [row for row in rows if row["n"]]
    numbers = scores(done)
    verdict = {"definition": AUP, "scores": numbers, "rows": rows}
    write_json(out / "sweep.json", verdict)
    try:
        from unmask.report.figures import draw

        draw(done, out)
    except UserError as missing:
        warn(str(missing))
    if as_json:
        print_json(verdict)
        return
    show(rows, out, False)
    print()
    for score in numbers:
        settings = f"{score['settings']} setting" + ("s" if score["settings"] > 1 else "")
        print(f"AUP {score['aup']:8.1f}  {score['decoder']} ({settings})")
    print(f"\n{AUP}.")
