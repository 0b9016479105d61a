"""Several threads share a step of a small model on a CPU: each takes some of the rows, on one core of its own.

Splitting every matrix product over the cores, as torch does, pays for a barrier per product; a small model has
hundreds of them per forward. Rows are independent, so they can be split instead, with one barrier per step.
The numbers are the same bit for bit, whoever computes them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import torch

from unmask.loop import Loop, Row
from unmask.models import Model

SMALL = 100_000_000  # parameters; the weights of larger models should be read once per step, not once per core
MOST = 8


def stepper(model: Model) -> Any:
    """What the scheduler steps: a loop, or several side by side."""
    net = model.net
    size = sum(p.numel() for p in net.parameters()) if hasattr(net, "parameters") else SMALL
    threads = min(torch.get_num_threads(), MOST)
    return Team(model, threads) if net.device.type == "cpu" and threads > 1 and size < SMALL else Loop(model)


class Team:
    def __init__(self, model: Model, workers: int) -> None:
        self.loop, self.workers = Loop(model), workers
        threads = torch.get_num_threads()
        ready = threading.Barrier(workers + 1)

        def begin() -> None:
            torch.set_num_threads(1)
            ready.wait()

        self.pool = ThreadPoolExecutor(workers, "unmask-step", initializer=begin)
        for _ in range(workers):
            self.pool.submit(int)  # so that every thread starts now ...
        ready.wait()
        torch.set_num_threads(threads)  # ... and threads that come later are not told to be alone as well

    def step(self, rows: Sequence[Row]) -> None:
        """One step for every row; raises what any part raised, once all are done."""
        if len(rows) < 2:
            self.loop.step(rows)
            return
        parts = [self.pool.submit(self.loop.step, part) for part in share(rows, self.workers)]
        wait(parts)
        for part in parts:
            part.result()


def share(rows: Sequence[Row], workers: int) -> list[list[Row]]:
    """Rows in groups of about the same number of positions: the longest first, each to whoever has least."""
    groups: list[list[Row]] = [[] for _ in range(min(workers, len(rows)))]
    load = [0] * len(groups)
    for row in sorted(rows, key=lambda row: -len(row.canvas.ids)):
        least = load.index(min(load))
        groups[least].append(row)
        load[least] += len(row.canvas.ids)
    return groups
