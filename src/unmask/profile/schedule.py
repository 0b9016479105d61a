"""A recorded decode as a script: which positions are committed together, and what the statistics were then.

Random weights would commit at random. A profiled decode therefore follows a recording of a real one: every
statistic, readout and attention map is computed and paid for, and then replaced by the recorded value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unmask.errors import UserError
from unmask.trace import Trace


@dataclass(frozen=True)
class Schedule:
    """All arrays are (steps, positions) of the recorded canvas, but `order`. Steps that committed nothing are
    left out."""

    order: np.ndarray  # (positions,) the step that committed each
    confidence: np.ndarray
    entropy: np.ndarray
    persistence: np.ndarray  # K, 1 where no layer was read
    drop: np.ndarray  # r

    @property
    def steps(self) -> int:
        return len(self.confidence)

    @classmethod
    def from_trace(cls, trace: Trace, name: str = "trace") -> Schedule:
        steps = [step for step in trace.steps if step.committed.any()]
        order = np.full(trace.canvas_length, -1)
        shape = (len(steps), trace.canvas_length)
        c, h, k, r = (np.full(shape, np.nan) for _ in range(4))
        for number, step in enumerate(steps):
            at = step.positions
            order[at[step.committed]] = number
            c[number, at], h[number, at] = step.confidence, step.entropy
            k[number, at] = step.columns.get("K", np.nan)
            r[number, at] = step.columns.get("r", np.nan)
        if (order < 0).any() or not steps:
            raise UserError(
                f"{name} is not a whole decode: {int((order < 0).sum())} positions were not decoded in it"
            )
        return cls(order, held(c), held(h), np.where(np.isnan(k), 1, k), np.where(np.isnan(r), 0, r))


class Script:
    """A schedule laid out on a canvas of another length: a longer one repeats the recording, a shorter one cuts it.
    Tokens per step stay what they were."""

    def __init__(self, schedule: Schedule, length: int) -> None:
        self.schedule = schedule
        self.tile, self.place = np.divmod(np.arange(length), len(schedule.order))
        self.when = schedule.order[self.place] + self.tile * schedule.steps

    @property
    def steps(self) -> int:
        return len(np.unique(self.when))

    def due(self, masked: np.ndarray) -> np.ndarray:
        """Of these masked positions, those the recording commits next (bool)."""
        return self.when[masked] == self.now(masked)

    def now(self, masked: np.ndarray) -> int:
        return int(self.when[masked].min())

    def column(self, name: str, positions: np.ndarray, now: int) -> np.ndarray:
        """What the recording says of these positions at that time; a repeat that has not begun is at its start."""
        step = np.clip(now - self.tile[positions] * self.schedule.steps, 0, self.schedule.steps - 1)
        return getattr(self.schedule, name)[step, self.place[positions]]


def held(values: np.ndarray) -> np.ndarray:
    """Gaps (blocks score only themselves) take the next recorded value of that position, or else the last one."""
    for row in range(len(values) - 2, -1, -1):
        gap = np.isnan(values[row])
        values[row, gap] = values[row + 1, gap]
    for row in range(1, len(values)):
        gap = np.isnan(values[row])
        values[row, gap] = values[row - 1, gap]
    return values
