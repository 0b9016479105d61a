"""DAPD: commit together only positions that hardly attend to each other (an independent set)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unmask.decoders.base import (
    Attention,
    BlockDecoder,
    Commit,
    Decoder,
    StepView,
    best,
    finite,
    in_unit,
    lowest_mapped,
    verdicts,
)

# tau_min -> tau_max per family and task. Dream's cells other than GSM8K are not published: provisional.
THRESHOLDS = {
    "llada": {
        "gsm8k": (0.005, 0.05), "math500": (0.005, 0.05), "humaneval": (0.01, 0.05), "mbpp": (0.01, 0.02),
    },
    "dream": {
        "gsm8k": (0.005, 0.01), "math500": (0.005, 0.01), "humaneval": (0.005, 0.01), "mbpp": (0.005, 0.01),
    },
}  # fmt: skip
DEFAULT_TASK = "gsm8k"
PROVISIONAL = "DAPD's thresholds for Dream are published for gsm8k only; elsewhere gsm8k's were used: provisional."
# The published test is c >= 1.0 on bfloat16 probabilities, where everything from 1 - 2^-9 up rounds to 1.
DIRECT = 1.0 - 2.0**-9


def is_provisional(family: str, task: str, params: Mapping[str, Any]) -> bool:
    """Did a run with these parameters use thresholds that nobody published for its task?"""
    used = (params.get("tau_min"), params.get("tau_max"))
    return family == "dream" and task != DEFAULT_TASK and used in THRESHOLDS["dream"].values()


@dataclass(frozen=True)
class DAPD(BlockDecoder):
    name: ClassVar[str] = "dapd"
    summary: ClassVar[str] = "an independent set of the attention graph"

    variant: str = "direct"  # or "staged"
    task: str | None = None  # picks the published thresholds; None: gsm8k's
    tau_min: float | None = None  # None: the task's; Dream's outside gsm8k are not published: provisional
    tau_max: float | None = None  # as tau_min
    direct: float = DIRECT
    skip: float = 0.7  # fraction of the layers, from the bottom, left out of the maps
    staged_confidence: float = 0.9  # staged: added once half the canvas is filled

    def check(self) -> None:
        super().check()
        self.require_choice("variant", ("direct", "staged"))
        if self.task is not None:
            self.require_choice("task", tuple(THRESHOLDS["llada"]))
        for value in (self.tau_min, self.tau_max):
            self.require(value is None or (finite(value) and value >= 0), "tau_min and tau_max must be 0 or more")
        self.require(in_unit(self.direct), "direct must lie in [0, 1]")
        self.require(0 <= self.skip < 1, "skip must lie in [0, 1)")
        self.require(in_unit(self.staged_confidence), "staged_confidence must lie in [0, 1]")

    def resolve(self, spec, length: int) -> Decoder:
        super().resolve(spec, length)
        low, high = THRESHOLDS[spec.family.name][self.task or DEFAULT_TASK]
        low = low if self.tau_min is None else self.tau_min
        high = high if self.tau_max is None else self.tau_max
        self.require(low <= high, f"tau_min {low} exceeds tau_max {high}")
        return replace(self, tau_min=low, tau_max=high)

    def keep_from(self, layers: int) -> int:
        return lowest_mapped(self.skip, layers)

    def select(self, view: StepView) -> Generator[Attention, Any, Commit]:
        attention = yield view.attention(self.skip)
        assert self.tau_min is not None and self.tau_max is not None
        tau = self.tau_min + (self.tau_max - self.tau_min) * (1.0 - view.remaining / view.length)
        c = view.confidence
        coupling = (attention + attention.T) / 2
        np.fill_diagonal(coupling, 0.0)
        certain = c >= self.direct if self.variant == "direct" else np.zeros(len(view), dtype=bool)
        chosen = independent_set(coupling, c, tau, ~certain)
        if self.variant == "staged" and view.remaining <= view.length / 2:
            certain = (c >= self.staged_confidence) & ~chosen
        take = certain | chosen
        verdict = verdicts(len(view), "conflict")
        verdict[chosen], verdict[certain] = "independent", "direct"
        if not take.any():  # cannot happen while anything is masked; progress is never left to a proof
            i = best(c)
            take[i], verdict[i] = True, "fallback"
        return Commit(take, verdict, None, {"score": coupling.sum(axis=1) * c}, tau)


def independent_set(coupling: np.ndarray, c: np.ndarray, tau: float, eligible: np.ndarray) -> np.ndarray:
    """Greedy by degree times confidence: i joins if its *own row* of normalised coupling to every member is
    at most tau. Rows are normalised by their maximum, so the relation is not symmetric."""
    peak = np.maximum(coupling.max(axis=1, keepdims=True), 1e-8)
    normal = coupling / peak
    key = coupling.sum(axis=1) * c
    chosen = np.zeros(len(c), dtype=bool)
    for i in np.argsort(-key, kind="stable"):
        if eligible[i] and (normal[i, chosen] <= tau).all():
            chosen[i] = True
    return chosen
