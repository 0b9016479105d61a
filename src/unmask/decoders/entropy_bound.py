"""EB-Sampler: commit the longest prefix of an error-proxy order whose entropies fit a shared budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmask.decoders.base import BlockDecoder, Commit, StepView, ranked, verdicts

PROXIES = ("confidence", "entropy", "margin")


@dataclass(frozen=True)
class EBSampler(BlockDecoder):
    name: ClassVar[str] = "eb-sampler"
    summary: ClassVar[str] = "the longest prefix, by confidence, within an entropy budget"

    gamma: float = 0.1  # nats; math.inf commits the whole block
    proxy: str = "confidence"

    def check(self) -> None:
        super().check()
        self.require(not math.isnan(self.gamma) and self.gamma >= 0, "gamma must be 0 or more")
        self.require_choice("proxy", PROXIES)

    @property
    def wants_logits(self) -> bool:
        return self.proxy == "margin"

    def select(self, view: StepView) -> Commit:
        order = ranked(self.quality(view))
        spent = prefix_cost(view.entropy[order])
        count = max(1, int((spent <= self.gamma).sum()))
        take = np.zeros(len(view), dtype=bool)
        take[order[:count]] = True
        verdict = verdicts(len(view), "rank")
        verdict[take] = "budget"
        score = np.empty(len(view))
        score[order] = spent
        return Commit(take, verdict, None, {"score": score}, self.gamma)

    def quality(self, view: StepView) -> np.ndarray:
        if self.proxy == "entropy":
            return -view.entropy
        if self.proxy == "margin":
            import torch

            assert view.logits is not None
            z = view.logits if view.logits.dtype == torch.float64 else view.logits.float()
            pair = view.choosable.forbid(z.softmax(-1)).topk(2, dim=-1).values  # like c: not renormalised
            return (pair[:, 0] - pair[:, 1]).double().cpu().numpy()
        return view.confidence


def prefix_cost(entropy: np.ndarray) -> np.ndarray:
    """d_k: entropy of the first k positions, less the largest of *those k*. Never decreases, d_1 = 0."""
    return np.maximum(np.cumsum(entropy) - np.maximum.accumulate(entropy), 0.0)
