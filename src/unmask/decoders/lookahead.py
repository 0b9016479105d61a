"""LoPA: extend a confidence anchor by one token in k different ways, look one forward ahead, keep the best.

The winner's logits are those of the new canvas, so they are reused: the next step begins without a
forward. Without caches this loses nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unmask.decoders.base import BlockDecoder, Commit, Explore, StepView, best, in_unit, ranked, verdicts


@dataclass(frozen=True)
class LoPA(BlockDecoder):
    name: ClassVar[str] = "lopa"
    summary: ClassVar[str] = "k lookahead branches per forward, the most certain future wins"

    threshold: float = 0.9  # strict, as in the official code
    branches: int = 3

    def check(self) -> None:
        super().check()
        self.require(in_unit(self.threshold), "threshold must lie in [0, 1]")
        self.require(self.branches >= 0, "branches must be 0 or more")

    @property
    def canvases_per_forward(self) -> int:
        return 1 + self.branches

    def select(self, view: StepView) -> Generator[Explore, Any, Commit]:
        take, verdict = self.anchor(view)
        rest = np.flatnonzero(~take)
        if not rest.size:
            return Commit(take, verdict)
        anchor = np.flatnonzero(take)
        # The most certain of the remaining positions, one per branch; the bare anchor is the last candidate.
        heads = rest[ranked(-view.entropy[rest])][: self.branches]
        futures = yield view.explore([np.append(anchor, i) for i in heads] + [anchor])
        scores = np.array([branch_score(view, future) for future in futures])
        winner = best(scores)
        if winner < len(heads):
            take[heads[winner]], verdict[heads[winner]] = True, "branch"
        score = np.full(len(view), np.nan)
        score[heads] = scores[: len(heads)]
        return Commit(take, verdict, None, {"score": score}, keep=futures[winner])

    def anchor(self, view: StepView) -> tuple[np.ndarray, np.ndarray]:
        take = view.confidence > self.threshold
        verdict = verdicts(len(view), "rank")
        verdict[take] = "confidence"
        if not take.any():
            i = best(view.confidence)
            take[i], verdict[i] = True, "fallback"
        return take, verdict


def branch_score(view: StepView, future: StepView) -> float:
    """Mean negative entropy of what the branch leaves open in this block; a finished block beats all."""
    left = np.isin(future.positions, view.positions)
    return -float(future.entropy[left].mean()) if left.any() else float("inf")
