"""The floor: operations and bytes that no implementation can avoid, over the rates this device reaches.

Operations are counted for real tokens only (padding is the implementation's own affair): the matrix products
of every layer, attention, and the head on the rows that were scored or read. Bytes: the layers' weights once
per backbone call, the head once per product. The rates are measured, not read off a datasheet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from unmask.models.spec import ModelSpec


@dataclass
class Work:
    """Counted work of some steps."""

    flops: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("backbone", "scoring", "projection"), 0.0))
    bytes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("backbone", "scoring", "projection"), 0.0))
    scored: int = 0  # rows through the head for token, confidence and entropy
    projected: int = 0  # rows x layers through the head for the lens

    def forward(self, spec: ModelSpec, itemsize: int, lengths: Sequence[int]) -> None:
        weights, tokens = layer_weights(spec), sum(lengths)
        attention = sum(4 * length * length * spec.width for length in lengths)
        self.flops["backbone"] += spec.layers * (2 * tokens * weights + attention)
        self.bytes["backbone"] += spec.layers * weights * itemsize

    def head(self, spec: ModelSpec, itemsize: int, phase: str, rows: int, products: int = 1) -> None:
        self.flops[phase] += 2 * rows * spec.width * spec.rows
        self.bytes[phase] += products * spec.width * spec.rows * itemsize
        if phase == "scoring":
            self.scored += rows
        else:
            self.projected += rows

    def seconds(self, peaks: Peaks) -> dict[str, Any]:
        """By operations, by bytes, and per part the larger of the two."""
        compute = {phase: flops / peaks.flops for phase, flops in self.flops.items()}
        memory = {phase: count / peaks.bandwidth for phase, count in self.bytes.items()}
        floor = {phase: max(compute[phase], memory[phase]) for phase in compute}
        return {"compute": sum(compute.values()), "memory": sum(memory.values()), "parts": floor,
                "total": sum(floor.values())}  # fmt: skip


def layer_weights(spec: ModelSpec) -> int:
    """Matrix elements of one layer."""
    kv = spec.kv_heads * spec.head_dim
    return spec.width * (spec.width + 2 * kv) + spec.width * spec.width + 3 * spec.width * spec.mlp_width


@dataclass(frozen=True)
class Peaks:
    flops: float  # per second, a large square product in the model's dtype
    bandwidth: float  # bytes per second read plus written by a large copy


def measure_peaks(
    device: torch.device, dtype: torch.dtype, timer: Callable[[], float] = time.perf_counter, small: bool = False
) -> Peaks:
    """Random data: a product of zeros runs faster than real ones do. `small` is for tests."""
    cuda = device.type == "cuda"
    side = 256 if small else 8192 if cuda else 1024
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    product = best_of(lambda: torch.mm(a, b, out=out), device, timer, 10)
    source = torch.empty((1 << 20) if small else (1 << 31) if cuda else (1 << 27), dtype=torch.uint8, device=device)
    source.random_(0, 255)
    target = torch.empty_like(source)
    copy = best_of(lambda: target.copy_(source), device, timer, 5)
    return Peaks(2 * side**3 / product, 2 * source.numel() / copy)


def best_of(call: Callable[[], Any], device: torch.device, timer: Callable[[], float], repeats: int) -> float:
    """The shortest of several: a peak is what the device can do, not what it did while disturbed."""
    times = []
    for _ in range(repeats + 2):  # the first two warm up
        synchronize(device)
        start = timer()
        call()
        synchronize(device)
        times.append(timer() - start)
    return min(times[2:])


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
