"""Where a step's time goes. On CUDA, laps are events on the stream: nothing waits until the step is over."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


class Clock:
    """`lap(phase)` closes the stretch since the previous lap and books it on `phase`."""

    def __init__(self, device: torch.device, timer: Callable[[], float] = time.perf_counter) -> None:
        self.cuda, self.timer = device.type == "cuda", timer
        self.stream = torch.cuda.current_stream(device) if self.cuda else None  # the current device may be another
        self.marks: list[tuple[str, torch.cuda.Event | float]] = [("", self.now())]

    def now(self) -> torch.cuda.Event | float:
        if not self.cuda:
            return self.timer()
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        return event

    def lap(self, phase: str) -> None:
        self.marks.append((phase, self.now()))

    def seconds(self) -> dict[str, float]:
        """Seconds per phase since construction."""
        if self.cuda:
            self.marks[-1][1].synchronize()  # type: ignore[union-attr]
        totals: dict[str, float] = {}
        for (_, before), (phase, after) in zip(self.marks, self.marks[1:], strict=False):
            stretch = before.elapsed_time(after) / 1e3 if self.cuda else after - before  # type: ignore
            totals[phase] = totals.get(phase, 0.0) + stretch
        return totals
