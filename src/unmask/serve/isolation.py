"""One step for many rows, in which a row that fails fails alone.

Non-finite logits are the loop's to find: the row carries its error. What *raises* (no memory, a decoder's
bug) stops the whole step; then every row goes back to where it was and smaller batches find the culprit.
Going back is exact (canvas, counters, notes, random stream), so that nobody's text shows that a neighbour
failed.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.loop import Row
from unmask.serve.errors import ApiError, failed, told

log = logging.getLogger("unmask.serve")
OUT_OF_MEMORY = "out_of_memory"


class Saved:
    """A row as it was before a step."""

    def __init__(self, row: Row) -> None:
        self.row, self.canvas, self.memory = row, row.canvas.copy(), copy.deepcopy(row.memory)
        self.random = row.rng.get_state()
        self.counters = (row.nfe, row.branches, row.seconds, row.view, row.settled)
        self.steps = len(row.trace.steps)

    def restore(self) -> None:
        row = self.row
        row.canvas, row.memory = self.canvas, self.memory
        row.rng.set_state(self.random)
        row.nfe, row.branches, row.seconds, row.view, row.settled = self.counters
        row.error = None
        del row.trace.steps[self.steps :]


@dataclass
class Outcome:
    errors: dict[int, ApiError] = field(default_factory=dict)  # id(row) -> why its step raised
    crowded: bool = False  # memory was short, for many rows or for one
    fitted: int = 0  # most rows that were stepped together

    @property
    def room(self) -> int | None:
        """How many rows fit where fewer did than were tried; None where the size of the batch was not at fault."""
        alone = any(error.code == OUT_OF_MEMORY for error in self.errors.values())
        return max(1, self.fitted) if self.crowded and not alone else None


def step_isolated(loop: Any, rows: Sequence[Row]) -> Outcome:
    """Step the rows once, together if that works."""
    saved = [Saved(row) for row in rows]
    try:
        loop.step(rows)
        return Outcome(fitted=len(rows))
    except Exception as error:
        verdict = describe(error)
        if len(rows) == 1 and verdict.code != OUT_OF_MEMORY:
            log.error("a step failed with %s", told(error))
    # Outside the handler: the exception, and every tensor its frames held, is gone by now.
    for state in saved:
        state.restore()
    release_memory()
    crowded = verdict.code == OUT_OF_MEMORY
    if len(rows) == 1:
        return Outcome({id(rows[0]): verdict}, crowded)
    half = len(rows) // 2
    one, two = step_isolated(loop, rows[:half]), step_isolated(loop, rows[half:])
    return Outcome({**one.errors, **two.errors}, crowded or one.crowded or two.crowded, max(one.fitted, two.fitted))


def describe(error: Exception) -> ApiError:
    if out_of_memory(error):
        return failed("not enough memory for this request: ask for a shorter canvas", OUT_OF_MEMORY)
    return failed(f"the decoder failed ({type(error).__name__})")


def out_of_memory(error: Exception) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def release_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
