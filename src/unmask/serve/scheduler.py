"""Who is in the next step: a thread of its own that steps one batch, which rows join and leave at step boundaries.

Rows wait in one line. A row keeps its place for a quantum of steps; while others wait it then goes to the
back of the line. Rows have no cache to lose, so changing places costs nothing, and a long request cannot
hold up short ones. `tick` is one round and needs no thread: tests call it directly.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from unmask.api import Generation
from unmask.loop import Row
from unmask.serve.errors import ApiError, busy, closing, expired, failed, oversized, stopped, told
from unmask.serve.isolation import step_isolated
from unmask.serve.limits import Limits
from unmask.serve.responses import Status

log = logging.getLogger("unmask.serve")


class Steps(Protocol):
    def step(self, rows: Sequence[Row]) -> None: ...


@dataclass(eq=False)
class Task:
    """One row of a job. Its fields are written by the scheduler only, and each is replaced whole: readers on
    other threads see the old value or the new one."""

    row: Row
    job: Job = field(repr=False)
    turn: int = 0  # steps since it last took a place
    steps: int = 0  # trace steps that are complete and may be read
    prefix: tuple[int, ...] = ()  # the committed canvas up to the first mask
    result: Generation | None = None

    @cached_property
    def cost(self) -> int:
        """Positions it may add to a forward, lookahead and guidance included."""
        return len(self.row.canvas.ids) * self.row.decoder.canvases_per_forward


@dataclass(eq=False)
class Job:
    """One request: rows that live and die together."""

    rows: Sequence[Row]
    deadline: float  # time.monotonic()
    seconds: float  # what the deadline was, for the message
    notify: Callable[[], None] = lambda: None  # called after every step, from the scheduler's thread
    settled: Callable[[Sequence[int]], bool] = lambda prefix: False  # is this prefix all the answer needs?
    error: ApiError | None = None
    cancelled: bool = False  # set by the owner; seen before the next step

    def __post_init__(self) -> None:
        self.tasks = [Task(row, self) for row in self.rows]

    @property
    def finished(self) -> bool:
        return self.error is not None or all(task.result is not None for task in self.tasks)

    def cancel(self) -> None:
        self.cancelled = True


class Scheduler:
    def __init__(self, loop: Steps, finish: Callable[[Row], Generation], limits: Limits) -> None:
        self.loop, self.finish, self.limits = loop, finish, limits
        self.waiting: deque[Task] = deque()
        self.running: list[Task] = []
        self.room = limits.batch  # shrinks when memory runs out, grows back slowly
        self.calm = 0  # steps since it shrank
        self.interval = 0.5  # seconds between rows leaving, smoothed: what Retry-After is made of
        self.left_at = 0.0
        self.closing_at: float | None = None  # set: nobody joins; past it, whoever is left fails
        self.on_step: Callable[[int, float], None] = lambda rows, seconds: None
        self.on_row: Callable[[Generation], None] = lambda generation: None
        self.wake = threading.Condition()
        self.thread = threading.Thread(target=self.run, name="unmask-scheduler", daemon=True)

    # --- called from other threads ---------------------------------------------------------------------------

    def start(self) -> None:
        self.thread.start()

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    @property
    def status(self) -> Status:
        """The thread of a server that has drained has ended, too: that is no failure."""
        if self.closing_at is not None:
            return "draining"
        return "ok" if self.alive or self.thread.ident is None else "failed"

    def submit(self, job: Job) -> None:
        """All rows join the line, or the job is refused."""
        if (most := max(task.cost for task in job.tasks)) > self.limits.positions:
            raise oversized(most, self.limits.positions)
        with self.wake:
            if self.status != "ok":
                raise closing() if self.status == "draining" else stopped()
            free = self.room - len(self.running) + self.limits.queue - len(self.waiting)
            if len(job.tasks) > free:
                raise busy(self.interval * max(1, len(self.waiting)) / 4)
            self.waiting.extend(job.tasks)
            self.wake.notify()

    def drain(self, seconds: float) -> None:
        """Refuse new jobs, finish those that are here; what is left after `seconds` fails. Idempotent."""
        with self.wake:
            if self.closing_at is None:
                self.closing_at = time.monotonic() + seconds
            self.wake.notify()

    def close(self, timeout: float = 10.0) -> None:
        self.drain(0.0)
        with self.wake:
            self.closing_at = time.monotonic()
            self.wake.notify()
        if self.thread.is_alive():
            self.thread.join(timeout)

    # --- the scheduler's own thread --------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self.rounds()
        finally:  # whatever ended it: nobody waits for a thread that is gone
            self.fail_all(stopped())

    def rounds(self) -> None:
        while True:
            with self.wake:
                while not (self.waiting or self.running):
                    if self.closing_at is not None:
                        return
                    self.wake.wait()
            try:
                self.tick()
            except Exception as bug:  # must not take the server along
                log.error("the scheduler failed, the requests it held get an error: %s", told(bug))
                self.fail_all(failed("internal error in the scheduler", "internal_error"))

    def tick(self) -> None:
        self.sweep()
        self.seat()
        if not self.running:
            return
        start = time.perf_counter()
        tasks = list(self.running)
        outcome = step_isolated(self.loop, [task.row for task in tasks])
        self.adapt(outcome.room)
        self.on_step(len(tasks), time.perf_counter() - start)
        for task in tasks:
            self.absorb(task, outcome.errors.get(id(task.row)))
        self.leave()

    def adapt(self, room: int | None) -> None:
        """A smaller batch when memory was short; one place more after every hundred steps in which it was not."""
        self.calm = self.calm + 1 if room is None else 0
        if room is not None:
            self.room = room
        elif self.calm % 100 == 0:
            self.room = min(self.room + 1, self.limits.batch)

    def sweep(self) -> None:
        """Drop the rows nobody waits for any more, before they cost another step."""
        now = time.monotonic()
        with self.wake:
            held = [*self.running, *self.waiting]
        for job in {id(task.job): task.job for task in held}.values():
            if self.closing_at is not None and now >= self.closing_at:
                self.fail(job, closing())
            elif now >= job.deadline:
                self.fail(job, expired(job.seconds))
        self.leave()
        with self.wake:
            gone = [task for task in self.waiting if task.job.cancelled or task.job.finished]
            for task in gone:
                self.waiting.remove(task)

    def seat(self) -> None:
        """Fill the free places from the front of the line. Nobody overtakes: a big row at the front waits until
        enough has left, and leave it will, because turns end."""
        with self.wake:
            while len(self.running) > self.room:  # memory was short: the latest go back to the front
                self.waiting.appendleft(self.running.pop())
            self.rotate()
            used = sum(task.cost for task in self.running)
            while self.waiting and len(self.running) < self.room:
                used += self.waiting[0].cost
                if self.running and used > self.limits.positions:
                    break
                task = self.waiting.popleft()
                task.turn = 0
                self.running.append(task)

    def rotate(self) -> None:
        over = [task for task in self.running if task.turn >= self.limits.quantum]
        over.sort(key=lambda task: -task.turn)
        for task in over[: len(self.waiting)]:
            self.running.remove(task)
            self.waiting.append(task)

    def absorb(self, task: Task, error: ApiError | None) -> None:
        """After a step: what may be read, and whether the row is done."""
        row, job = task.row, task.job
        task.turn += 1
        open_ = row.canvas.open_positions()
        task.prefix = tuple(row.canvas.tokens[: open_[0] if open_.size else None].tolist())
        task.steps = len(row.trace.steps)
        if error or row.error:
            self.fail(job, error or failed(str(row.error)))
            return
        if not row.done and job.settled(task.prefix):
            row.settled = True
        if row.done:
            self.complete(task)
        job.notify()

    def complete(self, task: Task) -> None:
        try:
            result = self.finish(task.row)
            self.on_row(result)
        except Exception as bug:  # in naming tokens or in judging the decode: one request's own misfortune
            log.error("a finished row could not be closed: %s", told(bug))
            self.fail(task.job, failed(f"the answer could not be closed ({type(bug).__name__})", "internal_error"))
            return
        task.result = result
        now = time.monotonic()
        self.interval += 0.2 * (min(now - self.left_at, 5.0) - self.interval)
        self.left_at = now

    def leave(self) -> None:
        self.running = [t for t in self.running if t.result is None and t.job.error is None and not t.job.cancelled]

    def fail(self, job: Job, error: ApiError) -> None:
        if job.error is None:
            job.error = error
            job.notify()

    def fail_all(self, error: ApiError) -> None:
        with self.wake:
            held, self.running = [*self.running, *self.waiting], []
            self.waiting.clear()
        for task in held:
            self.fail(task.job, error)
