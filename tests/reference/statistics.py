"""What is read from one row of logits: the token y, its confidence c and the entropy H, in float64."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def align(raw: Array) -> Array:
    """Dream's shift of rows [T, ...]: row i of the result scores token i; row 0 is doubled."""
    return np.concatenate([raw[:1], raw[:-1]], axis=0)


def log_softmax(z: ArrayLike) -> Array:
    z = np.asarray(z, np.float64)
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def softmax(z: ArrayLike) -> Array:
    return np.exp(log_softmax(z))


def argmax(scores: ArrayLike, forbidden: Iterable[int] = ()) -> int:
    """The lowest id among the largest scores, forbidden ids aside."""
    scores, banned = np.asarray(scores), set(forbidden)
    best = None
    for v in range(len(scores)):
        if v not in banned and (best is None or scores[v] > scores[best]):
            best = v
    assert best is not None, "every id is forbidden"
    return best


def entropy(z: ArrayLike) -> float:
    """-Σ p ln p in nats over the whole vocabulary, with 0 ln 0 = 0."""
    log_p = log_softmax(z)
    kept = log_p > -np.inf
    return float(-(np.exp(log_p[kept]) * log_p[kept]).sum())


def statistics(z: ArrayLike, forbidden: Iterable[int] = ()) -> tuple[int, float, float]:
    """(y, c, H). A forbidden id is never y but keeps its probability: c is not renormalised, H sees all."""
    y = argmax(z, forbidden)
    return y, float(softmax(z)[y]), entropy(z)


def statistics_rows(z: Array, forbidden: Iterable[int] = ()) -> tuple[list[int], list[float], list[float]]:
    """`statistics` of every row of [N, V]."""
    forbidden = list(forbidden)
    rows = [statistics(row, forbidden) for row in z]
    return [y for y, _, _ in rows], [c for _, c, _ in rows], [h for _, _, h in rows]
