"""The loop, following a script: everything is computed and paid for, then the recorded values take its place.

On the canvas it was recorded on, a decoder's own decisions on the planted values *are* the recording. Elsewhere
(another canvas length, another model's thresholds, sampled tokens, real attention maps) they may differ; the
script's positions are committed anyway, and `forced` counts how often that was needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unmask.canvas import Canvas
from unmask.decoders.base import Commit, StepView
from unmask.forward import Forward
from unmask.loop import Loop, Readings, Row
from unmask.models import Model
from unmask.profile.floor import Work
from unmask.profile.schedule import Script
from unmask.trace import Step


def script_of(row: Row) -> Script:
    assert isinstance(row.tag, Script)
    return row.tag


class PlantedForward(Forward):
    """A forward whose layer readouts are real work with recorded answers."""

    rows: Sequence[Row] = ()
    work: Work

    def read(self, slots: np.ndarray, layers: np.ndarray, token: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        argmax, probability = super().read(slots, layers, token)
        self.work.head(self.net.spec, self.net.dtype.itemsize, "projection", argmax.size)
        for i, slot in enumerate(slots.tolist()):
            row, at = divmod(slot, self.stride)
            canvas, script = self.canvases[row], script_of(self.rows[row])
            position = np.array([max(at - canvas.prompt_length + self.shift, 0)])
            now = script.now(canvas.open_positions())
            k, r, c = (script.column(name, position, now)[0] for name in ("persistence", "drop", "confidence"))
            argmax[i] = np.where(self.layers - layers < k, token[i], token[i] - 1)
            probability[i] = c + r
        return argmax, probability


class PlantedLoop(Loop):
    """Rows carry their Script in `tag`."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.work = Work()
        self.forced = 0

    def forward(self, rows: Sequence[Row], canvases: Sequence[Canvas]) -> Forward:
        layers = self.model.spec.layers
        keep_from = min(row.decoder.keep_from(layers) for row in rows)
        forward = PlantedForward(self.model, canvases, [row.decoder.guidance for row in rows], keep_from)
        forward.rows, forward.work = rows, self.work
        lengths = [len(canvas.ids) for canvas in canvases]
        lengths += [lengths[i] for i in forward.guidance]
        self.work.forward(self.model.spec, self.model.net.dtype.itemsize, lengths)
        return forward

    def views(self, forward: Forward, rows: Sequence[Row], canvases: Sequence[Canvas]) -> list[StepView]:
        views = super().views(forward, rows, canvases)
        self.work.head(self.model.spec, self.model.net.dtype.itemsize, "scoring", sum(map(len, views)))
        for row, canvas, view in zip(rows, canvases, views, strict=True):
            self.plant(row, canvas, view)
        return views

    def plant(self, row: Row, canvas: Canvas, view: StepView) -> None:
        if len(view):
            script = script_of(row)
            now = script.now(canvas.open_positions())
            view.confidence = script.column("confidence", view.positions, now)
            view.entropy = script.column("entropy", view.positions, now)

    def commit(self, row: Row, commit: Commit | None, readings: Readings) -> Step | None:
        if commit is None:  # the row has failed
            return super().commit(row, commit, readings)
        view = row.view
        assert view is not None
        take = script_of(row).due(view.positions)
        if (take != commit.take).any():
            self.forced += 1
            verdict = np.where(take, "schedule", "rank").astype(object)
            commit = replace(commit, take=take, verdict=verdict)
        step = super().commit(row, commit, readings)
        if row.view is not None:  # a kept view must be of the canvas that the script made
            self.rekey(row, row.view)
        return step

    def rekey(self, row: Row, view: StepView) -> None:
        scope = row.decoder.scope(row.canvas)
        token = np.full(len(scope), self.model.spec.eos_id, dtype=np.int64)
        row.view = replace(view, positions=scope, token=token, remaining=row.canvas.remaining)
        self.plant(row, row.canvas, row.view)
