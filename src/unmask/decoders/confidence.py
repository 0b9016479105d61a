"""Fast-dLLM (arXiv:2505.22618): commit every position of the active block above a confidence threshold.

The official code also caches keys and values; here every forward is exact, as in the paper's comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmask.decoders.base import BlockDecoder, Commit, StepView, best, in_unit, ranked, verdicts


@dataclass(frozen=True)
class FastDLLM(BlockDecoder):
    name: ClassVar[str] = "fast-dllm"
    summary: ClassVar[str] = "all of the block at or above a confidence threshold"

    threshold: float = 0.9
    factor: float | None = None  # use the factor rule instead: rank n passes with c >= 1 - factor/(n+1)
    quirk: bool = False  # factor rule as published: one more when exactly n-1 of n pass

    def check(self) -> None:
        super().check()
        self.require(in_unit(self.threshold), "threshold must lie in [0, 1]")
        self.require(self.factor is None or self.factor >= 0, "factor must be 0 or more")

    def select(self, view: StepView) -> Commit:
        c = view.confidence
        if self.factor is None:
            take = c >= self.threshold
        else:
            take = factor_rule(c, self.factor, self.quirk)
        verdict = verdicts(len(view), "unsure" if self.factor is None else "rank")
        verdict[take] = "confidence"
        if not take.any():
            i = best(c)
            take[i], verdict[i] = True, "fallback"
        return Commit(take, verdict)


def factor_rule(c: np.ndarray, factor: float, quirk: bool = False) -> np.ndarray:
    """The longest prefix of the confidence order in which rank n has c >= 1 - factor/(n+1); rank 1 passes."""
    order = ranked(c)
    rank = np.arange(1, len(c) + 1)
    passes = c[order] >= 1.0 - factor / (rank + 1)
    passes[0] = True
    count = len(c) if passes.all() else int(np.argmin(passes))
    if quirk and count == len(c) - 1:
        count = len(c)
    take = np.zeros(len(c), dtype=bool)
    take[order[:count]] = True
    return take
