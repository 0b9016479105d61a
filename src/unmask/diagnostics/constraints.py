"""Ordering constraints (paper, introduction and its Figure 1a): what does a better order alone buy?

Each commits one token per forward on the full canvas, the most confident of those that may go:

    most-confident   any
    answer-last      the answer region only when everything else is committed
    operands-first   ... and a result only when the operands on its line are

Nothing is taken from the gold answer. Both rules read the *provisional text*: committed tokens, and the current
argmax elsewhere, up to the run of end tokens that closes the canvas. It is read anew at every step, so a rule sees
what the model expects there at that moment. The answer region is what follows the last `####`; before the text has
one, the number that ends it. A result is a number after an equals sign; its operands are what stands on the same line
before that sign, back to an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unmask.decoders.base import Commit, Decoder, StepView, best, verdicts

NUMBER = r"\$?\d(?:[\d,]*\d)?(?:\.\d+)?"
RESULT = re.compile(rf"=\s*({NUMBER})")
LAST_NUMBER = re.compile(rf"({NUMBER})\D*\Z")


@dataclass(frozen=True)
class Provisional:
    """The text as the model expects it now. `owner[i]` is the canvas position of character i."""

    text: str
    owner: np.ndarray

    def positions(self, start: int, stop: int) -> set[int]:
        return set(self.owner[start:stop].tolist())

    def answer(self) -> set[int]:
        """Positions of the answer region."""
        mark = self.text.rfind("####")
        if mark >= 0:
            return self.positions(mark + 4, len(self.text))
        number = LAST_NUMBER.search(self.text)
        return self.positions(*number.span(1)) if number else set()

    def results(self) -> Iterator[tuple[set[int], set[int]]]:
        """(positions of a result, positions of what it depends on)."""
        for found in RESULT.finditer(self.text):
            sign = found.start()
            start = max(self.text.rfind("\n", 0, sign), self.text.rfind("=", 0, sign)) + 1
            yield self.positions(*found.span(1)), self.positions(start, sign)


@dataclass(frozen=True)
class MostConfident(Decoder):
    """One token per forward, most confident first, over the full canvas."""

    name: ClassVar[str] = "most-confident"
    summary: ClassVar[str] = "one token per forward, most confident first"

    piece: Any = None  # token id -> text

    def params(self) -> dict[str, Any]:
        return {}

    def select(self, view: StepView) -> Commit:
        committed: dict[int, int] = view.memory.setdefault("committed", {})
        free = self.free(view, committed)
        i = best(view.confidence, np.flatnonzero(free))
        take, verdict = np.zeros(len(view), dtype=bool), verdicts(len(view), "rank")
        verdict[~free] = "turn"
        take[i], verdict[i] = True, "schedule"
        committed[int(view.positions[i])] = int(view.token[i])
        return Commit(take, verdict)

    def free(self, view: StepView, committed: dict[int, int]) -> np.ndarray:
        """Which of the view's positions may go. The first rule under which any may go decides."""
        for held in self.rules(view, committed):
            free = ~np.isin(view.positions, sorted(held))
            if free.any():
                return free
        return np.ones(len(view), dtype=bool)

    def rules(self, view: StepView, committed: dict[int, int]) -> list[set[int]]:
        """Sets of positions to hold back, the strictest first."""
        return []


@dataclass(frozen=True)
class AnswerLast(MostConfident):
    name: ClassVar[str] = "answer-last"
    summary: ClassVar[str] = "most confident first, the answer region last"

    def rules(self, view: StepView, committed: dict[int, int]) -> list[set[int]]:
        return [self.expected(view, committed).answer()]

    def expected(self, view: StepView, committed: dict[int, int]) -> Provisional:
        tokens = {**committed, **dict(zip(view.positions.tolist(), view.token.tolist(), strict=True))}
        return provisional([tokens[position] for position in range(view.length)], view.stop_ids, self.piece)


@dataclass(frozen=True)
class OperandsFirst(AnswerLast):
    name: ClassVar[str] = "operands-first"
    summary: ClassVar[str] = "most confident first, operands before results, the answer region last"

    def rules(self, view: StepView, committed: dict[int, int]) -> list[set[int]]:
        text, open_ = self.expected(view, committed), set(view.positions.tolist())
        answer = text.answer()
        waiting = set().union(*(result for result, operands in text.results() if operands & open_))
        return [answer | waiting, answer]


CLASSES: tuple[type[MostConfident], ...] = (MostConfident, AnswerLast, OperandsFirst)
NAMES = tuple(cls.name for cls in CLASSES)


def provisional(tokens: list[int], stop_ids: frozenset[int], piece: Callable[[int], str]) -> Provisional:
    end = len(tokens)
    while end and tokens[end - 1] in stop_ids:
        end -= 1
    pieces = [piece(token) for token in tokens[:end]]
    owner = np.repeat(np.arange(end), [len(text) for text in pieces])
    return Provisional("".join(pieces), owner)
