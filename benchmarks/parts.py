"""What the speed benchmarks share: one fixed decoding state, its parts timed side by side, and the plain versions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import unmask.lens
from unmask.canvas import Canvas
from unmask.decoders.base import Lens
from unmask.forward import Forward
from unmask.lens import StabilityRule
from unmask.models import Model


def interleaved(calls: Mapping[str, Callable[[], Any]], device: torch.device, repeats: int, cpu_time: bool) -> dict:
    """Milliseconds per call, median and spread. Every round calls each once, so that all meet the same machine."""
    timer = time.process_time if cpu_time else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(repeats + 2):  # two rounds warm up
        for name, call in calls.items():
            wait(device)
            start = timer()
            call()
            wait(device)
            if number >= 2:
                times[name].append(1e3 * (timer() - start))
    return {
        name: {"median": statistics.median(t), "min": min(t), "max": max(t), "repeats": len(t)}
        for name, t in times.items()
    }


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def state(model: Model, prompt: int, canvas: int) -> Canvas:
    """A canvas with nothing committed: the most expensive step."""
    ids = np.random.default_rng(0).integers(0, model.spec.mask_id, prompt)
    return Canvas(ids.tolist(), canvas, model.spec.mask_id)


def parts(model: Model, prompt: int, canvas: int, band: int, repeats: int, cpu_time: bool) -> dict:
    """Backbone, head on all masks, their scoring (head included), the lens of `band` rows in one product and in two
    stages, and the plain readout of all masks layer by layer."""
    first, layers, device = model.spec.first_layer, model.spec.layers, model.net.device
    start = state(model, prompt, canvas)
    everything = start.open_positions()
    rule = StabilityRule(theta_s=3.5, w=15.0, k_max=6, first_layer=first)

    seen = Forward(model, [start], keep_from=first)
    table = seen.score([(0, everything)], model.choosable, torch.float32)[0]
    rows, token = everything[:band], table[0].astype(np.int64)
    slots = seen.slots(0, rows)
    window = np.arange(layers - 1, first - 1, -1)

    def lens() -> None:
        seen.read(slots, window, token[:band])

    def two_stages() -> None:
        """What FIRST_DEPTH = 2 costs when every row goes on to the second stage (the worst case)."""
        seen.read(slots, window[:2], token[:band])
        seen.read(slots, window[2:], token[:band])

    def lazy() -> None:
        seen.lens([(0, Lens(np.arange(band), rule), rows, token[:band], np.full(band, 0.7))])

    at = seen.slots(0, everything)

    def plain() -> None:
        """Layer by layer, all masks, softmax in float32: what a direct implementation does."""
        with torch.inference_mode():
            y = torch.from_numpy(token).to(device)
            for layer in window.tolist():
                p = model.net.readout(seen.states(layer, at)).float().softmax(-1)
                _ = p.argmax(-1), p.gather(-1, y[:, None])
            wait(device)

    def head() -> None:
        with torch.inference_mode():
            model.net.readout(seen.states(layers, at))

    def score() -> None:
        seen.score([(0, everything)], model.choosable, torch.float32)

    # seen.run, not another forward: a recorded one would overwrite these states, and scoring would run it again
    calls = {"backbone": seen.run, "head": head, "scoring": score, "lens": lens, "lens, two stages": two_stages,
             "lens, lazy walk": lazy, "plain readout": plain}  # fmt: skip
    return {"prompt": prompt, "canvas": canvas, "band_rows": band, "window": len(window),
            "ms": interleaved(calls, device, repeats, cpu_time)}  # fmt: skip


def plain_statistics(logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Token, confidence and entropy as most code computes them."""
    log_p = torch.log_softmax(logits.float(), dim=-1)
    p = log_p.exp()
    confidence, token = p.max(dim=-1)
    return token, confidence, -(p * log_p).sum(-1)


def compare_statistics(
    shapes: list[tuple[int, int, torch.dtype]], device: torch.device, repeats: int, cpu_time: bool
):
    from unmask.statistics import Choosable
    from unmask.statistics import statistics as fused

    found = []
    for rows, vocabulary, dtype in shapes:
        z = (torch.randn(rows, vocabulary, device=device) * 3).to(dtype)
        choosable = Choosable(vocabulary - 2, vocabulary)
        calls = {"plain": lambda z=z: plain_statistics(z), "ours": lambda z=z, c=choosable: fused(z, c)}
        times = interleaved(calls, device, repeats, cpu_time)
        found.append(
            {"rows": rows, "vocabulary": vocabulary, "dtype": str(dtype).removeprefix("torch."), "ms": times}
        )
    return found


def two_stage_switch(depth: int | None) -> None:
    for kind in ("cuda", "cpu"):
        if depth:
            unmask.lens.FIRST_DEPTH[kind] = depth
        else:
            unmask.lens.FIRST_DEPTH.pop(kind, None)
