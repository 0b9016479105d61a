"""Layer readout: how long a prediction has persisted (K), and how much probability it lost (r).

Paper Eqs. 2-4: K counts the consecutive layers ending at L whose argmax is y, r is the peak of p(y) over
those layers minus its final value c, and S = min(K, K_max) - w r. The lazy walk reads layers backward and
stops a row as soon as no further layer could change whether S >= theta_s:

    reject   once K_max - w r < theta_s            (r never falls, K is capped)
    accept   once min(k, K_max) - w (1 - c) >= theta_s   (k never falls, r is at most 1 - c)

Both bounds are monotone in floating point too, so lazy and eager decide alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Layers read per head product: rows x layers up to this many. A GPU reads the head from memory once per
# product, so it wants everything in one; a CPU pays per row, so it wants to stop early.
ROWS_PER_PRODUCT = {"cuda": 256, "cpu": 16}
# A two-stage walk: the first product reads only so many layers. Off until it is measured to pay on a device;
# benchmarks/device.py compares both.
FIRST_DEPTH: dict[str, int] = {}


@dataclass(frozen=True)
class StabilityRule:
    theta_s: float
    w: float
    k_max: int
    first_layer: int  # ℓ0, 1-based; layers ℓ0..L form the window

    def score(self, persistence: np.ndarray, drop: np.ndarray) -> np.ndarray:
        return np.minimum(persistence, self.k_max) - self.w * drop


@dataclass
class Readout:
    """One entry per row asked for. Where the walk stopped early (`settled`), K and r are lower bounds."""

    persistence: np.ndarray  # K
    drop: np.ndarray  # r
    score: np.ndarray  # S
    stable: np.ndarray  # S >= theta_s, decided exactly
    settled: np.ndarray  # decided before the suffix ended
    projected: int  # rows x layers read through the head


# (rows, layers) -> the layer's argmax and its probability of the row's token, both (rows, layers).
Project = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def walk(
    project: Project,
    token: np.ndarray,
    confidence: np.ndarray,
    layers: int,
    rule: StabilityRule,
    *,
    lazy: bool = True,
    rows_per_product: int = 16,
    first_depth: int | None = None,
) -> Readout:
    """Walk every row backward from layer L-1. `project` takes row indices and the layers to read them at."""
    n = len(token)
    k = np.ones(n, dtype=np.int64)  # layer L agrees by definition of y
    peak = confidence.astype(np.float64).copy()
    stable, settled, alive = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    layer, projected = layers - 1, 0
    while True:
        if lazy:
            _settle(k, peak, confidence, rule, stable, settled, alive)
        rows = np.flatnonzero(alive)
        if not rows.size or layer < rule.first_layer:
            break
        depth = max(1, min(layer - rule.first_layer + 1, rows_per_product // rows.size))
        if first_depth and not projected:
            depth = min(depth, first_depth)
        chosen = np.arange(layer, layer - depth, -1)
        argmax, probability = project(rows, chosen)
        projected += rows.size * depth
        agrees = argmax == token[rows, None]
        run = np.cumprod(agrees, axis=1).astype(bool)  # the suffix ends at the first disagreement
        p = np.where(run, np.minimum(probability, 1.0), 0.0)
        k[rows] += run.sum(axis=1)
        peak[rows] = np.maximum(peak[rows], p.max(axis=1))
        alive[rows] = run.all(axis=1)
        layer -= depth
    drop = peak - confidence
    score = rule.score(k, drop)
    stable = np.where(settled, stable, score >= rule.theta_s)
    return Readout(k, drop, score, stable, settled, projected)


def _settle(k, peak, confidence, rule, stable, settled, alive) -> None:
    """Stop the rows whose verdict no further layer can change."""
    reject = alive & (rule.k_max - rule.w * (peak - confidence) < rule.theta_s)
    accept = alive & (np.minimum(k, rule.k_max) - rule.w * (1.0 - confidence) >= rule.theta_s) & ~reject
    stable |= accept
    settled |= accept | reject
    alive &= ~(accept | reject)
