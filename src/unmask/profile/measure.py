"""Time per step of one decoder at one batch size, along a recorded schedule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unmask.canvas import Canvas
from unmask.decoders.base import Decoder
from unmask.evaluate.specs import DecoderSpec
from unmask.loop import Row, plain
from unmask.models import Model
from unmask.profile.floor import Peaks, Work
from unmask.profile.planted import PlantedLoop
from unmask.profile.schedule import Schedule, Script
from unmask.trace import PHASES, Trace

CHUNK = 8  # consecutive steps, where only some of a long decode are timed


@dataclass(frozen=True)
class Setup:
    prompt: int = 150  # the longest of a batch; the shortest has half of it
    canvas: int = 256
    steps: int | None = None  # time only so many of a decode's steps, in stretches spread evenly over it
    repeats: int = 3
    cpu_time: bool = False  # count this process's CPU seconds instead of the wall's

    @property
    def timer(self) -> Callable[[], float]:
        return time.process_time if self.cpu_time else time.perf_counter


def profile(
    model: Model, spec: DecoderSpec, schedules: Sequence[Schedule], batch: int, setup: Setup, peaks: Peaks
) -> dict[str, Any]:
    decoder = spec.build(model.spec, setup.canvas)
    scripts = [Script(schedule, setup.canvas) for schedule in schedules][:batch]
    scripts = [scripts[i % len(scripts)] for i in range(batch)]
    loop = PlantedLoop(model)
    loop.timer = setup.timer
    total = max(script.steps for script in scripts)
    run(loop, model, decoder, scripts, setup, [range(min(2, total))])  # warm up
    if model.net.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(model.net.device)
    passes = []
    for _ in range(setup.repeats):
        loop.work, loop.forced = Work(), 0
        passes.append(run(loop, model, decoder, scripts, setup, windows(total, setup.steps)))
    return report(model, spec, decoder, batch, total, passes, loop, peaks)


def windows(total: int, steps: int | None) -> list[range]:
    """The steps to time: all of them, or stretches of CHUNK steps spread evenly."""
    if steps is None or steps >= total:
        return [range(total)]
    chunk = min(CHUNK, steps)
    count = max(1, steps // chunk)
    starts = np.linspace(0, total - chunk, count).round().astype(int) if count > 1 else [(total - chunk) // 2]
    ends = [*starts[1:], total]
    return [range(start, min(start + chunk, end)) for start, end in zip(starts, ends, strict=True)]


def run(
    loop: PlantedLoop, model: Model, decoder: Decoder, scripts: Sequence[Script], setup: Setup, which: Sequence[range]
) -> list[dict[str, float]]:
    """Seconds per phase of every timed step of the batch. The step before a stretch is run, but not counted."""
    timed = []
    for window in which:
        rows = make_rows(model, decoder, scripts, setup, max(window.start - 1, 0))
        if window.start:
            work, forced = loop.work, loop.forced
            loop.work = Work()
            loop.step([row for row in rows if not row.done])
            loop.work, loop.forced = work, forced
        for _ in window:
            alive = [row for row in rows if not row.done]
            if not alive:
                break
            loop.step(alive)
            seconds = alive[0].trace.steps[-1].seconds
            timed.append({phase: seconds.get(phase, 0.0) * len(alive) for phase in PHASES})
    return timed


def make_rows(model: Model, decoder: Decoder, scripts: Sequence[Script], setup: Setup, step: int) -> list[Row]:
    """Ragged prompts of random tokens, and canvases as the schedule leaves them before `step`."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(setup.prompt, max(1, setup.prompt // 2), len(scripts)).round().astype(int)
    rows = []
    for script, length in zip(scripts, lengths, strict=True):
        canvas = Canvas(tokens(rng, model, int(length)).tolist(), setup.canvas, model.spec.mask_id)
        _, rank = np.unique(script.when, return_inverse=True)
        before = np.flatnonzero(rank < step)
        canvas.commit(before, tokens(rng, model, len(before)))
        row = Row(canvas, decoder, Trace({}), torch.Generator(model.net.device).manual_seed(0), tag=script)
        row.nfe = step
        rows.append(row)
    return rows


def tokens(rng: np.random.Generator, model: Model, count: int) -> np.ndarray:
    drawn = rng.integers(0, model.spec.rows - 1, count)
    return drawn + (drawn >= model.spec.mask_id)


def report(
    model: Model, spec: DecoderSpec, decoder: Decoder, batch: int, total: int,
    passes: Sequence[Sequence[dict[str, float]]], loop: PlantedLoop, peaks: Peaks,
) -> dict[str, Any]:  # fmt: skip
    count = len(passes[0])
    phases = {
        phase: 1e3 * statistics.median(sum(step[phase] for step in steps) / count for steps in passes)
        for phase in PHASES
    }
    whole = sorted(1e3 * sum(map(sum, (step.values() for step in steps))) / count for steps in passes)
    floor = loop.work.seconds(peaks)
    milliseconds = {name: 1e3 * floor[name] / count for name in ("compute", "memory", "total")}
    parts = {name: 1e3 * seconds / count for name, seconds in floor["parts"].items()}
    step = statistics.median(whole)
    return {
        "decoder": spec.label,
        "name": decoder.name,
        "params": plain(decoder.params()),
        "batch": batch,
        "steps": total,
        "timed_steps": count,
        "repeats": len(passes),
        "forced": loop.forced,
        "ms_per_step": step,
        "ms_spread": [whole[0], whole[-1]],
        "phases_ms": phases,
        "selection_share_of_backbone": (step - phases["backbone"]) / phases["backbone"],
        "rows_scored_per_step": loop.work.scored / count,
        "rows_projected_per_step": loop.work.projected / count,
        "floor_ms": {**milliseconds, "parts": parts},
        "ratio": {
            **{name: step / value for name, value in milliseconds.items()},
            "backbone": phases["backbone"] / parts["backbone"],
        },
        "peak_memory_bytes": peak_memory(model.net.device),
    }


def peak_memory(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def record(specs: Sequence[DecoderSpec], count: int, device: str) -> Iterator[tuple[DecoderSpec, list[Schedule]]]:
    """Each decoder's own decodes of `count` word problems by the embedded model."""
    import unmask
    from unmask import tasks

    model = unmask.load("tiny", device=device)
    prompts = [example.prompt for example in tasks.get("wordproblems").examples("test", limit=count, seed=7)]
    for spec in specs:
        decoded = unmask.generate(model, prompts, spec.name, **spec.options)
        assert isinstance(decoded, list)
        yield spec, [Schedule.from_trace(out.trace) for out in decoded]


def runtime_split(profiles: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Seconds of a whole decode per phase, at the smallest batch profiled: what the runtime figure reads."""
    smallest = min(row["batch"] for row in profiles)
    return {
        row["decoder"]: {phase: ms * row["steps"] / 1e3 for phase, ms in row["phases_ms"].items()}
        for row in profiles
        if row["batch"] == smallest
    }
