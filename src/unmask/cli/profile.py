"""`unmask profile`: what a step costs, part by part, and how far that is from what the hardware allows."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from unmask.cli.options import (
    Compile,
    Device,
    Dtype,
    Json,
    Revision,
    check_device,
    load_model,
    print_json,
)
from unmask.errors import UserError
from unmask.files import check_writable, write_whole
from unmask.wording import columns, number

PHASES = {"backbone": "backbone", "projection": "projection", "scoring": "scoring and gating", "other": "other"}


def profile(
    shape: Annotated[
        str | None, Option(metavar="NAME|FILE", help="random weights: tiny, llada-8b, dream-7b or a config.json")
    ] = None,
    model: Annotated[str | None, Option("--model", "-m", help="a real model instead: as in unmask generate")] = None,
    decoder: Annotated[
        list[str] | None, Option("--decoder", "-d", help="several with commas; NAME:OPTION=VALUE sets an option")
    ] = None,
    batch: Annotated[str, Option(metavar="N,N,...", help="batch sizes")] = "1",
    prompt: Annotated[int, Option(min=1, help="longest prompt; the shortest of a batch has half of it")] = 150,
    canvas: Annotated[int, Option(min=1, help="positions to decode")] = 256,
    layers: Annotated[int | None, Option(min=2, help="fewer layers than the shape has")] = None,
    steps: Annotated[int | None, Option(min=1, help="time only so many steps of a decode, spread over it")] = None,
    repeats: Annotated[int, Option(min=1, help="decodes to time; the median is printed")] = 3,
    schedule: Annotated[
        Path | None, Option(metavar="TRACE", help="follow this recorded decode instead of the embedded model's")
    ] = None,
    threads: Annotated[int | None, Option(min=1, help="CPU threads")] = None,
    cpu_time: Annotated[
        bool, Option("--cpu-time", help="count CPU seconds, not the wall's: for a machine that others use too")
    ] = False,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    compiled: Compile = False,
    out: Annotated[Path | None, Option(metavar="FILE", help="write the JSON document here as well")] = None,
    json: Json = False,
) -> None:
    """Time decoding steps along a recorded schedule, split into phases, against the counted floor.

    Every decoder does all of its own work; only what it commits is scripted, so that random weights do not decide the
    number of steps. The floor is the operations and bytes of a step over the rates measured on this device.
    """
    from unmask.cli.specs import parse_decoders

    if shape and model:
        raise UserError("--shape and --model exclude each other: random weights of a shape, or a real model")
    if model and layers:
        raise UserError("--layers shrinks a --shape; a real model has the layers it has")
    specs = parse_decoders(decoder or ["default,fast-dllm,rpd"])
    batches = parse_batches(batch)
    if out:
        check_writable(out)
    if threads:
        import torch

        torch.set_num_threads(threads)
    from unmask.profile.measure import Setup
    from unmask.profile.session import run

    setup = Setup(prompt, canvas, steps, repeats, cpu_time)
    load = None if model is None else lambda: load_model(model, device, dtype, revision)
    document = run(
        specs, batches, setup, shape=shape or "tiny", layers=layers, load=load, schedule=schedule,
        device=check_device(device), dtype=dtype, compiled=compiled,
    )  # fmt: skip
    if out:
        write_whole(out, dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    if json:
        print_json(document)
        return
    print(table(document))
    print(footnotes(document), file=sys.stderr)


def parse_batches(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--batch {text} is not a list of numbers: write --batch 1,4,16") from None
    if min(sizes) < 1 or len(set(sizes)) < len(sizes):
        raise UserError("--batch takes different numbers of 1 or more")
    return sizes


def table(document: dict[str, Any]) -> str:
    rows = []
    for row in document["profiles"]:
        parts = [number(row["phases_ms"][phase]) for phase in PHASES]
        floor, ratio = row["floor_ms"], row["ratio"]
        rows.append([
            row["decoder"], row["batch"], row["steps"], number(row["ms_per_step"]), *parts,
            number(floor["compute"]), number(floor["memory"]), f"{ratio['compute']:.2f}", f"{ratio['memory']:.2f}",
        ])  # fmt: skip
    header = ["decoder", "batch", "steps", "ms/step", *PHASES.values()]
    return columns([*header, "floor: compute", "memory", "x compute", "x memory"], rows)


def footnotes(document: dict[str, Any]) -> str:
    eager = "".join(f"\nnot compiled: {reason}" for reason in document["why_not"] if reason != "not asked for")
    peaks, hardware, shape = document["peaks"], document["hardware"], document["shape"]
    clock = "CPU time" if document["cpu_time"] else "wall time"
    return (
        f"{document['model']}: {shape['layers']} layers, width {shape['width']}, {shape['parameters'] / 1e6:.1f} M "
        f"parameters, {document['dtype']}; prompt up to {document['prompt']}, canvas {document['canvas']}; {clock}\n"
        f"{hardware['device']}, {hardware['threads']} threads, torch {document['versions']['torch']}; measured peaks "
        f"{peaks['flops'] / 1e12:.3g} TFLOP/s and {peaks['bandwidth'] / 1e9:.3g} GB/s{eager}"
    )
