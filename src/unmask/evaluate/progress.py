"""What a running evaluation tells its user, on stderr: done, accuracy, NFE, rate."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from unmask.evaluate.summary import Totals


class Progress(Protocol):
    """Told of every step that finished samples. The totals are the runner's own: they change under the bar."""

    def start(self, label: str, goal: int, total: Totals) -> None: ...

    def update(self, label: str, samples: Sequence[Mapping[str, Any]]) -> None: ...

    def stop(self) -> None: ...


class Silent:
    """For a run that nobody watches."""

    def start(self, label: str, goal: int, total: Totals) -> None:
        pass

    def update(self, label: str, samples: Sequence[Mapping[str, Any]]) -> None:
        pass

    def stop(self) -> None:
        pass


class Bars:
    """One bar per decoder on a terminal; without one (a log file), a line per tenth of the way.

    `kind` words the facts beside the bar; it needs no more of the totals than their `n`."""

    def __init__(self, kind: type[Bar] | None = None) -> None:
        from rich import progress
        from rich.console import Console

        self.kind = kind or Bar
        console = Console(stderr=True)
        self.terminal = console.is_terminal
        self.shown: dict[str, Bar] = {}
        self.bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False), progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(), progress.TextColumn("{task.fields[facts]}"),
            progress.TimeRemainingColumn(), console=console,
        )  # fmt: skip

    def start(self, label: str, goal: int, total: Totals) -> None:
        if self.terminal:
            self.bars.start()
        task = self.bars.add_task(label, total=goal, completed=total.n, facts="")
        self.shown[label] = self.kind(task, goal, total, time.monotonic(), total.n)

    def update(self, label: str, samples: Sequence[Mapping[str, Any]]) -> None:
        bar = self.shown[label]
        n, goal = bar.total.n, bar.goal
        self.bars.update(bar.task, completed=n, facts=bar.facts())
        if not self.terminal and n * 10 // goal > (n - len(samples)) * 10 // goal:
            print(f"{label}  {n}/{goal}  {bar.facts()}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        if self.terminal:
            self.bars.stop()


@dataclass
class Bar:
    task: Any
    goal: int
    total: Totals
    began: float
    before: int  # done in earlier visits: no part of this one's rate

    def facts(self) -> str:
        total = self.total
        rate = (total.n - self.before) / max(time.monotonic() - self.began, 1e-9)
        errors = f"  {total.errors} errors" if total.errors else ""
        quality = f"{100 * total.accuracy:.1f}%  NFE {total.mean_nfe:.1f}"
        return f"{quality}  {rate:.2f} examples/s  {total.tps:.0f} tokens/s{errors}"
