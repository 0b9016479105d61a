"""The only decoding loop: forward, score, select, commit, for any mix of rows and decoders.

A row is one sequence with its own canvas, decoder, random stream and trace. A step takes whatever rows are
alive; rows may join or leave between steps, and nothing a row sees depends on its neighbours.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

import numpy as np
import torch

from unmask.canvas import Canvas
from unmask.clock import Clock
from unmask.decoders.base import Attention, Commit, Decoder, Explore, Lens, StepView
from unmask.errors import UserError
from unmask.forward import Forward
from unmask.models import Model
from unmask.statistics import Choosable
from unmask.trace import Step, Trace


class DecodeError(UserError):
    """One row could not be decoded (non-finite logits, a decoder that makes no progress)."""


@dataclass
class Row:
    """One sequence on its way through the loop."""

    canvas: Canvas
    decoder: Decoder  # resolved for this model and canvas
    trace: Trace
    rng: torch.Generator
    memory: dict[str, Any] = field(default_factory=dict)
    nfe: int = 0
    branches: int = 0
    seconds: float = 0.0
    view: StepView | None = None  # logits that are still valid: the next step needs no forward
    error: DecodeError | None = None
    settled: bool = False  # early stop: the answer is final although masks remain
    tag: Any = None  # the caller's own

    @property
    def done(self) -> bool:
        return self.canvas.done or self.settled or self.error is not None


class Loop:
    """Steps rows through a model. `watch(row, step)` is called after every commit."""

    def __init__(
        self,
        model: Model,
        *,
        score_dtype: torch.dtype = torch.float32,
        early_stop: bool = False,
        drop_tail: bool = False,
        watch: Callable[[Row, Step], None] | None = None,
    ) -> None:
        self.model, self.score_dtype, self.watch = model, score_dtype, watch
        self.early_stop, self.drop_tail = early_stop, drop_tail
        if drop_tail and not early_stop:
            raise UserError("drop_tail shortens a decode that may stop early: allow early_stop as well")
        self.timer = time.perf_counter  # what a step's phases are measured with on a CPU

    def run(self, rows: Sequence[Row]) -> None:
        """Until every row is done. The first row that fails stops the run with its error."""
        alive = [row for row in rows if not row.done]
        while alive:
            self.step(alive)
            for row in alive:
                if row.error:
                    raise row.error
            alive = [row for row in alive if not row.done]

    def step(self, rows: Sequence[Row]) -> None:
        """One denoising step for every row. A row that fails carries its error; the others go on."""
        clock = Clock(self.model.net.device, self.timer)
        self.look(rows, clock)
        steps = self.decide([row for row in rows if not row.error], clock)
        clock.lap("other")
        seconds = {phase: spent / len(rows) for phase, spent in clock.seconds().items()}
        for row, step in steps:
            step.seconds = seconds
            row.seconds += sum(seconds.values())
            if self.watch:
                self.watch(row, step)

    def look(self, rows: Sequence[Row], clock: Clock) -> None:
        """Give every row a view of its scope: one forward for those whose last one is spent."""
        fresh = [row for row in rows if row.view is None]
        if not fresh:
            return
        canvases = [row.canvas for row in fresh]
        forward = self.forward(fresh, canvases)
        clock.lap("backbone")
        for row, view in zip(fresh, self.views(forward, fresh, canvases), strict=True):
            row.view = view
            row.nfe += 1
            self.check_finite(row, view)
        clock.lap("scoring")

    def forward(self, rows: Sequence[Row], canvases: Sequence[Canvas]) -> Forward:
        """One backbone call; `rows[i]` is the row that canvas i belongs to."""
        keep_from = min(row.decoder.keep_from(self.model.spec.layers) for row in rows)
        return Forward(self.model, canvases, [row.decoder.guidance for row in rows], keep_from, self.drop_tail)

    def views(self, forward: Forward, rows: Sequence[Row], canvases: Sequence[Canvas]) -> list[StepView]:
        """One view per canvas of the forward."""
        scopes = [row.decoder.scope(canvas) for row, canvas in zip(rows, canvases, strict=True)]
        choosable = self.model.choosable
        wants = {i for i, row in enumerate(rows) if row.decoder.wants_logits and scopes[i].size}
        wanted = list(enumerate(scopes))
        tables, logits = forward.score_keeping(wanted, choosable, self.score_dtype, wants)
        views = []
        for i, (row, canvas, scope, table) in enumerate(zip(rows, canvases, scopes, tables, strict=True)):
            views.append(
                StepView(
                    positions=scope, token=table[0].astype(np.int64), confidence=table[1], entropy=table[2],
                    step=row.nfe, length=canvas.length, remaining=canvas.remaining, memory=row.memory,
                    logits=logits.get(i), choosable=choosable, rng=row.rng,
                    stop_ids=self.model.stop_ids, eos_id=self.model.spec.eos_id, source=(forward, i),
                )
            )  # fmt: skip
        return views

    def check_finite(self, row: Row, view: StepView) -> None:
        if not (np.isfinite(view.confidence).all() and np.isfinite(view.entropy).all()):
            where = "" if row.tag is None else f" of row {row.tag}"
            row.error = DecodeError(
                f"non-finite logits at step {row.nfe}{where}: the weights or the dtype are at fault "
                "(float16 overflows; try --dtype bfloat16 or float32)"
            )

    def decide(self, rows: Sequence[Row], clock: Clock) -> list[tuple[Row, Step]]:
        """Run every row's `select`, serving the requests of all rows together, and commit."""
        extra: dict[int, Readings] = {id(row): Readings() for row in rows}
        commits: dict[int, Commit] = {}
        waiting: list[tuple[Row, Generator[Any, Any, Commit], Any]] = []
        for row in rows:
            assert row.view is not None
            answer = row.decoder.select(row.view)
            if isinstance(answer, GeneratorType):
                advance(row, answer, None, waiting, commits)
            else:
                commits[id(row)] = answer  # type: ignore[assignment]
        while waiting:
            clock.lap("scoring")
            served, waiting = self.serve(waiting, extra, clock), []
            for row, selection, answer in served:
                advance(row, selection, answer, waiting, commits)
        steps = [self.commit(row, commits.get(id(row)), extra[id(row)]) for row in rows]
        clock.lap("scoring")
        return [pair for pair in zip(rows, steps, strict=True) if pair[1] is not None]  # type: ignore[misc]

    def serve(self, waiting, extra: dict[int, Readings], clock: Clock) -> list[tuple[Row, Any, Any]]:
        answers: list[tuple[Row, Any, Any]] = []
        lens = [entry for entry in waiting if isinstance(entry[2], Lens)]
        maps = [entry for entry in waiting if isinstance(entry[2], Attention)]
        explore = [entry for entry in waiting if isinstance(entry[2], Explore)]
        for group, serve in ((lens, self.serve_lens), (maps, self.serve_attention)):
            if group:
                answers += serve(group, extra)
                clock.lap("projection")
        if explore:
            answers += self.serve_explore(explore, extra, clock)
        return answers

    def serve_lens(self, group, extra):
        answers = []
        for forward, entries in by_forward(group):
            asked = [
                (row.view.source[1], request, row.view.positions[request.indices],
                 row.view.token[request.indices], row.view.confidence[request.indices])
                for row, _, request in entries
            ]  # fmt: skip
            for (row, selection, _), readout in zip(entries, forward.lens(asked), strict=True):
                extra[id(row)].projected += readout.projected
                answers.append((row, selection, readout))
        return answers

    def serve_attention(self, group, extra):
        answers = []
        for forward, entries in by_forward(group):
            asked = [(row.view.source[1], request.skip, row.view.positions) for row, _, request in entries]
            maps = forward.attention(asked)
            answers += [(row, selection, m) for (row, selection, _), m in zip(entries, maps, strict=True)]
        return answers

    def serve_explore(self, group, extra, clock):
        """One batched forward over all rows' hypothetical canvases."""
        owners, canvases = [], []
        for row, _, request in group:
            for proposal in request.proposals:
                branch = row.canvas.copy()
                branch.commit(row.view.positions[proposal], row.view.token[proposal])
                owners.append(row)
                canvases.append(branch)
        for row, _, request in group:
            row.nfe += 1
            extra[id(row)].branches += len(request.proposals) - 1
        forward = self.forward(owners, canvases)
        clock.lap("backbone")
        views = self.views(forward, owners, canvases)
        answers, start = [], 0
        for row, selection, request in group:
            branch_views = views[start : start + len(request.proposals)]
            for view in branch_views:
                self.check_finite(row, view)
            answers.append((row, selection, branch_views))
            start += len(request.proposals)
        clock.lap("scoring")
        return answers

    def commit(self, row: Row, commit: Commit | None, readings: Readings) -> Step | None:
        if row.error:
            return None
        view = row.view
        assert view is not None
        if fault := misfit(commit, view, self.model.choosable):
            row.error = DecodeError(f"decoder {row.decoder.name}: {fault}")
            return None
        assert commit is not None
        step = Step.record(view, commit, row.nfe)
        step.projected, step.branches = readings.projected, readings.branches
        row.branches += readings.branches
        row.canvas.commit(step.positions[step.committed], step.token[step.committed])
        row.view = commit.keep
        row.memory["idle"] = 0 if step.committed.any() else row.memory.get("idle", 0) + 1
        if row.memory["idle"] > row.decoder.patience(view.length):
            row.error = DecodeError(f"{row.decoder.name} committed nothing in {row.memory['idle']} steps")
        row.settled = self.early_stop and row.canvas.settled_at(self.model.stop_ids)
        row.trace.steps.append(step)
        return step


@dataclass
class Readings:
    projected: int = 0
    branches: int = 0


def advance(row, selection, answer, waiting, commits) -> None:
    """Run a selection to its next request, or to its commit."""
    try:
        request = selection.send(answer)
    except StopIteration as finished:
        commits[id(row)] = finished.value
        return
    if isinstance(request, Lens | Attention | Explore):
        waiting.append((row, selection, request))
    else:
        what = f"yields view.lens, view.attention or view.explore, not {type(request).__name__}"
        row.error = DecodeError(f"decoder {row.decoder.name}: select {what}")


def misfit(commit: Any, view: StepView, choosable: Choosable) -> str | None:
    """What is wrong with a selection. Decoders may be anybody's; a canvas must never hold what is no token."""
    if not isinstance(commit, Commit):
        return f"select must return a Commit, not {type(commit).__name__}"
    if getattr(commit.take, "dtype", None) != np.bool_ or commit.take.shape != view.positions.shape:
        return "Commit.take must be an array with one bool per position of the view"
    columns = {"verdict": commit.verdict, **commit.columns}
    if commit.token is not None:
        columns["token"] = commit.token
    for name, column in columns.items():
        if np.shape(column) != view.positions.shape:
            return f"Commit's {name} must have one entry per position of the view"
    token = (view.token if commit.token is None else np.asarray(commit.token))[commit.take]
    if not np.issubdtype(token.dtype, np.integer):
        return f"Commit.token must hold whole numbers, not {token.dtype}"
    odd = token[(token < 0) | (token >= choosable.limit) | (token == choosable.mask_id)]
    return f"{int(odd[0])} is no token that may be committed" if odd.size else None


def by_forward(group):
    """Entries grouped by the forward their row's view came from (rows may be on different ones)."""
    groups: dict[int, tuple[Forward, list]] = {}
    for entry in group:
        forward = entry[0].view.source[0]
        groups.setdefault(id(forward), (forward, []))[1].append(entry)
    return groups.values()


def plain(value: Any) -> Any:
    """Parameters as JSON can hold them (an infinite budget becomes "inf", numpy's numbers Python's)."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)  # a third party's own type
