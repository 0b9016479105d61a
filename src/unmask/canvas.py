"""State: one sequence, prompt and canvas, and which canvas positions are still masked.

A canvas lives on the host. A few hundred integers travel to the device once per step, and every policy
can read it without a synchronisation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unmask.errors import UserError


class Answer(NamedTuple):
    """What of a canvas is the answer."""

    positions: list[int]
    given_end: int  # behind the last given text; an end token cuts only from here on
    end: int | None  # the position of the token that cut it; None where the canvas ran to its last position


def answer(tokens: Sequence[int] | np.ndarray, fixed: Mapping[int, int], stop_ids: Collection[int]) -> Answer:
    """Everything before the first end token. Text that was given is part of the answer wherever it stands: before its
    end an end token of the model's is left out and cuts nothing."""
    given_end = text_end(fixed, stop_ids)
    end = next((i for i in range(given_end, len(tokens)) if int(tokens[i]) in stop_ids), None)
    last = len(tokens) if end is None else end
    positions = [i for i in range(last) if i >= given_end or i in fixed or int(tokens[i]) not in stop_ids]
    return Answer(positions, given_end, end)


def text_end(fixed: Mapping[int, int], stop_ids: Collection[int]) -> int:
    """1 + the last position whose text was given. (An end token that was given last ends the answer like any.)"""
    return max((position for position, token in fixed.items() if token not in stop_ids), default=-1) + 1


class Canvas:
    """`ids` holds prompt then canvas; `masked` covers the canvas only. Positions are canvas positions."""

    def __init__(
        self,
        prompt_ids: Sequence[int],
        length: int,
        mask_id: int,
        fixed: Mapping[int, int] | None = None,
    ) -> None:
        if not len(prompt_ids):
            raise UserError("the prompt is empty: give at least one token")
        if length < 1:
            raise UserError(f"the canvas length must be at least 1, not {length}")
        self.prompt_length, self.length, self.mask_id = len(prompt_ids), length, mask_id
        self.ids = np.full(len(prompt_ids) + length, mask_id, dtype=np.int64)
        self.ids[: len(prompt_ids)] = prompt_ids
        self.masked = np.ones(length, dtype=bool)
        self.fixed = dict(fixed or {})
        for position, token in self.fixed.items():
            if not 0 <= position < length:
                raise UserError(f"fixed token at position {position} is outside the canvas of {length}")
            self.commit([position], [token])

    @property
    def tokens(self) -> np.ndarray:
        """The canvas part of `ids` (masks included)."""
        return self.ids[self.prompt_length :]

    @property
    def remaining(self) -> int:
        return int(self.masked.sum())

    @property
    def done(self) -> bool:
        return not self.masked.any()

    def open_positions(self) -> np.ndarray:
        return np.flatnonzero(self.masked)

    def active_block(self, block_length: int) -> np.ndarray:
        """Masked positions of the first block that has any: the only ones a block decoder may commit."""
        open_ = self.open_positions()
        if not open_.size:
            return open_
        return open_[open_ // block_length == open_[0] // block_length]

    def commit(self, positions: Sequence[int] | np.ndarray, tokens: Sequence[int] | np.ndarray) -> None:
        where, what = np.asarray(positions, dtype=np.int64), np.asarray(tokens, dtype=np.int64)
        if where.size and (not self.masked[where].all() or len(set(where.tolist())) != where.size):
            raise ValueError("a committed position was committed again")
        if (what == self.mask_id).any():
            raise ValueError("the mask token cannot be committed")
        self.ids[self.prompt_length + where] = what
        self.masked[where] = False

    def copy(self) -> Canvas:
        twin = object.__new__(Canvas)
        twin.prompt_length, twin.length, twin.mask_id = self.prompt_length, self.length, self.mask_id
        twin.fixed = self.fixed
        twin.ids, twin.masked = self.ids.copy(), self.masked.copy()
        return twin

    def reach(self, end_id: int) -> int:
        """How much of `ids` says anything: a committed end-of-text behind an end-of-text, with nothing else after
        it, says nothing. Never cuts a mask or the first end-of-text of the tail."""
        other = np.flatnonzero(self.masked | (self.tokens != end_id))
        last = int(other[-1]) if other.size else -1
        return self.prompt_length + min(last + 2, self.length)

    def settled_at(self, stop_ids: frozenset[int]) -> bool:
        """Is the answer final: an end token behind all given text, with nothing masked before it?"""
        open_ = self.open_positions()
        start, stop = text_end(self.fixed, stop_ids), int(open_[0]) if open_.size else self.length
        return any(int(token) in stop_ids for token in self.tokens[start:stop])
