"""Mechanism: one backbone call over several canvases, and everything that can be read from it.

Rows are padded on the *right*, so that a row keeps the positions it has alone and the padding is only ever
an ignored key (models/apart.py). Alignment (Dream scores token t in row t-1) is settled here, once, for every
readout.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unmask.canvas import Canvas
from unmask.decoders.base import Lens, lowest_mapped
from unmask.errors import UserError
from unmask.lens import FIRST_DEPTH, ROWS_PER_PRODUCT, Readout, StabilityRule, walk
from unmask.models.apart import batch_states
from unmask.statistics import Choosable, statistics, trajectory

if TYPE_CHECKING:
    from unmask.models import Model

SCORED_ROWS = 1024  # logits of at most this many positions exist at once


class Forward:
    def __init__(
        self,
        model: Model,
        canvases: Sequence[Canvas],
        guidance: Sequence[float] | None = None,
        keep_from: int | None = None,
        drop_tail: bool = False,
    ) -> None:
        self.net, self.canvases = model.net, list(canvases)
        self.shift = int(model.spec.shift_logits)
        self.layers = model.spec.layers
        end = model.spec.eos_id
        rows = [canvas.ids[: canvas.reach(end)] if drop_tail else canvas.ids for canvas in canvases]
        self.guidance: dict[int, tuple[int, float]] = {}
        for i, scale in enumerate(guidance or ()):
            if scale > 0:  # classifier-free guidance: a second row whose prompt is masked out
                self.guidance[i] = (len(rows), scale)
                blind = rows[i].copy()
                blind[: canvases[i].prompt_length] = canvases[i].mask_id
                rows.append(blind)
        self.width = max(len(row) for row in rows)
        self.ids = np.full((len(rows), self.width), canvases[0].mask_id, dtype=np.int64)
        for i, row in enumerate(rows):
            self.ids[i, : len(row)] = row
        self.lengths = [len(row) for row in rows]
        self.keep_from = self.layers if keep_from is None else keep_from
        self.run()

    def run(self) -> None:
        with torch.inference_mode():
            ids = self.place(self.ids)
            self.hidden = batch_states(self.net, ids, self.lengths, self.keep_from)
        self.stride = self.hidden[self.layers].shape[1]  # a recorded forward has a bucket's width
        self.stamp = getattr(self.net, "stamp", None)

    def place(self, numbers: np.ndarray) -> Tensor:
        """On the device, without waiting for what it still computes: ordinary memory is read before this returns."""
        return torch.from_numpy(numbers).to(self.net.device, non_blocking=True)

    def kept(self, layer: int) -> Tensor:
        """A layer's states. Recorded forwards share their buffers: another one since then has overwritten them."""
        if self.stamp != getattr(self.net, "stamp", None):
            self.run()
        if self.hidden[layer] is None:
            raise UserError(
                f"the states of layer {layer} were not kept, only those from {self.keep_from} on: a decoder that "
                "reads layers or attention says how deep in keep_from(layers)"
            )
        return self.hidden[layer]

    def slots(self, row: int, positions: np.ndarray) -> np.ndarray:
        """Flat indices into (rows x stride) of the states that predict these canvas positions."""
        at = np.maximum(self.canvases[row].prompt_length + positions - self.shift, 0)
        return row * self.stride + at

    def states(self, layer: int, slots: np.ndarray) -> Tensor:
        return self.kept(layer).flatten(0, 1)[self.place(slots)]

    def recorded(self, states: Tensor, choosable: Choosable | None, given: Tensor | None = None) -> Tensor | None:
        """The head and its statistics as one replay, where the network has recordings."""
        table = getattr(self.net, "table", None)
        return None if table is None else table(states, choosable, given)

    def logits(self, row: int, positions: np.ndarray) -> Tensor:
        """Aligned final logits (n, V) of one row's positions."""
        with torch.inference_mode():
            conditional = self.net.readout(self.states(self.layers, self.slots(row, positions)))
            if row not in self.guidance:
                return conditional
            twin, scale = self.guidance[row]
            offset = (twin - row) * self.stride
            free = self.net.readout(self.states(self.layers, self.slots(row, positions) + offset))
            return free + (scale + 1) * (conditional - free)

    def score(
        self, wanted: Sequence[tuple[int, np.ndarray]], choosable: Choosable, dtype: torch.dtype
    ) -> list[np.ndarray]:
        """y, c, H as one (3, n) float64 array per (row, positions). One host transfer for all of them."""
        return self.score_keeping(wanted, choosable, dtype, ())[0]

    def score_keeping(
        self,
        wanted: Sequence[tuple[int, np.ndarray]],
        choosable: Choosable,
        dtype: torch.dtype,
        keep: Collection[int],
    ) -> tuple[list[np.ndarray], dict[int, Tensor]]:
        """As `score`, and the logits of the rows in `keep`: their head is computed once, for both."""
        columns: list[Tensor] = []
        kept: dict[int, Tensor] = {}
        with torch.inference_mode():
            for group in self.groups(wanted, keep):
                if group and group[0][0] in keep:
                    ((row, positions),) = group
                    logits = kept[row] = self.logits(row, positions)
                elif any(row in self.guidance for row, _ in group):
                    logits = torch.cat([self.logits(row, positions) for row, positions in group])
                else:
                    slots = np.concatenate([self.slots(row, positions) for row, positions in group])
                    states = self.states(self.layers, slots)
                    if dtype == torch.float32 and (replayed := self.recorded(states, choosable)) is not None:
                        columns.append(replayed.clone())
                        continue
                    logits = self.net.readout(states)
                token, confidence, entropy = statistics(logits, choosable, dtype)
                columns.append(torch.stack((token.double(), confidence.double(), entropy.double())))
            table = torch.cat(columns, dim=1).cpu().numpy()
        ends = np.cumsum([len(positions) for _, positions in wanted])
        return np.split(table, ends[:-1], axis=1), kept

    def groups(
        self, wanted: Sequence[tuple[int, np.ndarray]], alone: Collection[int]
    ) -> list[list[tuple[int, np.ndarray]]]:
        """Split a large batch so that the logits of only SCORED_ROWS positions exist at once. Rows in `alone`, whose
        logits are kept, are by themselves: they get the product they get alone."""
        groups: list[list[tuple[int, np.ndarray]]] = [[]]
        count = 0
        for row, positions in wanted:
            apart = row in alone or (groups[-1] and groups[-1][-1][0] in alone)
            if groups[-1] and (apart or count + len(positions) > SCORED_ROWS):
                groups.append([])
                count = 0
            groups[-1].append((row, positions))
            count += len(positions)
        return groups

    def lens(self, requests: Sequence[tuple[int, Lens, np.ndarray, np.ndarray, np.ndarray]]) -> list[Readout]:
        """Serve layer readouts of several rows together: (row, request, positions, token, confidence) each."""
        answers: list[Readout | None] = [None] * len(requests)
        kinds: dict[tuple[StabilityRule, bool], list[int]] = {}
        for i, (_, request, *_rest) in enumerate(requests):
            kinds.setdefault((request.rule, request.lazy), []).append(i)
        for (rule, lazy), members in kinds.items():
            slots = np.concatenate([self.slots(requests[i][0], requests[i][2]) for i in members])
            token = np.concatenate([requests[i][3] for i in members])
            confidence = np.concatenate([requests[i][4] for i in members])
            whole, reads = self.walk(slots, token, confidence, rule, lazy)
            start = 0
            for i in members:
                part = slice(start, start + len(requests[i][2]))
                answers[i] = Readout(
                    whole.persistence[part], whole.drop[part], whole.score[part], whole.stable[part],
                    whole.settled[part], int(reads[part].sum()),
                )  # fmt: skip
                start = part.stop
        return [answer for answer in answers if answer is not None]

    def walk(
        self, slots: np.ndarray, token: np.ndarray, confidence: np.ndarray, rule: StabilityRule, lazy: bool
    ) -> tuple[Readout, np.ndarray]:
        reads = np.zeros(len(slots), dtype=np.int64)

        def project(rows: np.ndarray, layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            reads[rows] += len(layers)
            return self.read(slots[rows], layers, token[rows])

        device = self.net.device.type
        readout = walk(
            project, token, confidence, self.layers, rule, lazy=lazy,
            rows_per_product=ROWS_PER_PRODUCT.get(device, 16), first_depth=FIRST_DEPTH.get(device),
        )  # fmt: skip
        return readout, reads

    def read(self, slots: np.ndarray, layers: np.ndarray, token: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each slot at each layer, through the head in one product: argmax and p(token), (slots, layers) both."""
        with torch.inference_mode():
            at = self.place(slots)
            states = torch.stack([self.kept(layer).flatten(0, 1)[at] for layer in layers], dim=1).flatten(0, 1)
            tokens = self.place(np.repeat(token, len(layers)))
            table = self.recorded(states, None, tokens)
            if table is None:
                table = torch.stack([column.double() for column in trajectory(self.net.readout(states), tokens)])
            numbers = table.cpu().numpy().reshape(2, len(slots), len(layers))
        return numbers[0].astype(np.int64), numbers[1]

    def attention(self, requests: Sequence[tuple[int, float, np.ndarray]]) -> list[np.ndarray]:
        """(row, skip, positions) each -> (n, n) maps between those positions, averaged over the top layers."""
        answers = []
        for row, skip, positions in requests:
            layers = range(lowest_mapped(skip, self.layers), self.layers)
            hidden = {layer: self.kept(layer)[row : row + 1, : self.lengths[row]] for layer in layers}
            with torch.inference_mode():
                maps = self.net.attention_maps(hidden, None, list(layers))[0]
                # Unshifted on purpose: a map row belongs to the position, not to what it predicts.
                at = self.place(self.canvases[row].prompt_length + positions)
                answers.append(maps[at][:, at].double().cpu().numpy())
        return answers
