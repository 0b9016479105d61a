"""Target tokens of masked states as columns: what every choice is made from.

tokens = read(read_samples(folder, STATES))
tokens.K(window), tokens.drop(window)      for a window of that many final layers
fit, check = tokens.halves()               questions, not tokens, are divided
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tokens:
    """One entry per target token of every state."""

    question: np.ndarray  # which trace it belongs to, from 0
    E: np.ndarray  # entropy of the state's hidden upstream digits, nats
    c: np.ndarray  # final confidence
    right: np.ndarray  # bool
    length: np.ndarray  # layers of the agreeing suffix, the last included
    peak: np.ndarray  # (n, layers) highest probability in the last 1, 2, ... layers of the suffix

    def __len__(self) -> int:
        return len(self.c)

    @property
    def wrong(self) -> np.ndarray:
        return ~self.right

    def K(self, window: int) -> np.ndarray:
        return np.minimum(self.length, window)

    def drop(self, window: int) -> np.ndarray:
        return self.peak[:, min(window, self.peak.shape[1]) - 1] - self.c

    def where(self, which: np.ndarray) -> Tokens:
        return Tokens(*(getattr(self, f.name)[which] for f in fields(self)))

    def halves(self) -> tuple[Tokens, Tokens]:
        """Two sets of questions: one to choose on, one that has not seen the choice."""
        even = self.question % 2 == 0
        return self.where(even), self.where(~even)


@dataclass(frozen=True)
class States:
    """One entry per masked state."""

    question: np.ndarray
    E: np.ndarray
    wrong: np.ndarray  # bool: is any digit of the answer?


def read(lines: Iterable[Mapping[str, Any]]) -> tuple[Tokens, States]:
    """Lines of a folder of states (survey.py), in whatever order they were finished."""
    question: list[int] = []
    E: list[float] = []
    right: list[bool] = []
    suffixes: list[list[float]] = []
    states: list[tuple[int, float, bool]] = []
    for line in lines:
        for level in line["levels"].values():
            for energy, targets, answered in zip(level["E"], level["targets"], level["right"], strict=True):
                states.append((line["index"], energy, not answered))
                for correct, *suffix in targets:
                    question.append(line["index"])
                    E.append(energy)
                    right.append(bool(correct))
                    suffixes.append(suffix)
    owner, energies, wrong = zip(*states, strict=True) if states else ((), (), ())
    return (
        tokens(np.array(question, dtype=np.int64), np.array(E), np.array(right, dtype=bool), suffixes),
        States(np.array(owner, dtype=np.int64), np.array(energies), np.array(wrong, dtype=bool)),
    )


def tokens(question: np.ndarray, E: np.ndarray, right: np.ndarray, suffixes: list[list[float]]) -> Tokens:
    """`suffixes` holds, per token, its probability at layer L, L-1, ... down to the last layer that agrees."""
    length = np.array([len(suffix) for suffix in suffixes], dtype=np.int64)
    p = np.zeros((len(suffixes), max(length, default=1)))
    for row, suffix in enumerate(suffixes):
        p[row, : len(suffix)] = suffix
    return Tokens(question, E, p[:, 0].copy(), right, length, np.maximum.accumulate(p, axis=1))
