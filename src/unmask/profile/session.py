"""A whole profiling session: model, schedules, peaks, every decoder at every batch size, one document."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from unmask.errors import UserError
from unmask.evaluate.environment import hardware, versions
from unmask.evaluate.specs import DecoderSpec
from unmask.models import Model, parse_dtype
from unmask.models.spec import ModelSpec
from unmask.profile.floor import measure_peaks
from unmask.profile.measure import Setup, profile, record, runtime_split
from unmask.profile.schedule import Schedule
from unmask.profile.shapes import find_spec, parameters, random_model
from unmask.trace import Trace

FORMAT, VERSION = "unmask.profile", 1
RECORDINGS = 4  # different decodes in a batch, at most


def run(
    specs: Sequence[DecoderSpec], batches: Sequence[int], setup: Setup, *, shape: str = "tiny",
    layers: int | None = None, load: Callable[[], Model] | None = None, schedule: Path | None = None,
    device: str | None = None, dtype: str | None = None, compiled: bool = False,
    small_peaks: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """`load` gives a real model; without it, random weights of `shape`."""
    given = [Schedule.from_trace(Trace.load(schedule), str(schedule))] if schedule else None
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    precision = parse_dtype(dtype) or (torch.bfloat16 if where.type == "cuda" else torch.float32)
    expected = None if load else find_spec(shape, layers)
    if expected:
        check(expected, specs, setup)  # before anything is recorded or allocated
    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("recording schedules", total=len(specs) * (1 + len(batches)))
        schedules: list[list[Schedule]] = []
        for spec, recorded in (
            ((spec, given) for spec in specs) if given else record(specs, min(RECORDINGS, max(batches)), str(where))
        ):
            schedules.append(recorded)
            bars.update(task, advance=1, description=f"recorded {spec.label}")
        model = load() if load else random_model(shape, expected, where, precision)  # type: ignore[arg-type]
        reason = model.compile() if compiled else "not asked for"
        if load:
            check(model.spec, specs, setup, model.spec.context)
        peaks = measure_peaks(model.net.device, model.net.dtype, setup.timer, small_peaks)
        profiles = []
        for batch in batches:
            for spec, recorded in zip(specs, schedules, strict=True):
                bars.update(task, description=f"{spec.label}, batch {batch}")
                profiles.append(profile(model, spec, recorded, batch, setup, peaks))
                bars.advance(task)
    return {
        "format": FORMAT,
        "version": VERSION,
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "model": model.name,
        "weights": "real" if load else "random",
        "shape": {
            **{
                name: getattr(model.spec, name)
                for name in ("layers", "width", "heads", "kv_heads", "mlp_width", "rows")
            },
            "parameters": parameters(model.spec),
        },
        "dtype": str(model.net.dtype).removeprefix("torch."),
        "prompt": setup.prompt,
        "canvas": setup.canvas,
        "cpu_time": setup.cpu_time,
        "compiled": reason is None,
        "why_not": [reason] if reason else getattr(model.net, "reasons", []),
        "schedule": str(schedule) if schedule else "embedded model, wordproblems, test split",
        "hardware": hardware(model.net.device),
        "versions": versions(),
        "peaks": dataclasses.asdict(peaks),
        "profiles": profiles,
        "runtime_split": runtime_split(profiles),
    }


def check(spec: ModelSpec, specs: Sequence[DecoderSpec], setup: Setup, context: int | None = None) -> None:
    """Random weights have no context to exceed; a real model has."""
    if context and setup.prompt + setup.canvas > context:
        raise UserError(
            f"prompt {setup.prompt} and canvas {setup.canvas} exceed this model's context of {context}: "
            "use a smaller --prompt or --canvas"
        )
    for decoder in specs:
        decoder.build(spec, setup.canvas)
