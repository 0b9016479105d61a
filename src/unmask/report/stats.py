"""Intervals and paired comparisons: small, exact where they can be, seeded where they draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z95 = 1.959963984540054
RESAMPLES = 10_000


def wilson(correct: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a proportion: right also at 0 % and 100 %, where the textbook one is empty."""
    if n == 0:
        return (0.0, 1.0)
    p = correct / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class Paired:
    """Two decoders on the same examples. `difference` is accuracy of b minus accuracy of a."""

    n: int
    difference: float
    ci95: tuple[float, float]  # percentile bootstrap over examples
    only_a: int  # examples that only a solved
    only_b: int
    p_value: float  # exact McNemar, two-sided


def paired(a: Sequence[bool], b: Sequence[bool], resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """Compare verdicts of two decoders, example by example."""
    first, second = np.asarray(a, dtype=np.int8), np.asarray(b, dtype=np.int8)
    if first.shape != second.shape:
        raise ValueError("paired verdicts must be of the same examples")
    n = len(first)
    only_a, only_b = int(((first - second) == 1).sum()), int(((second - first) == 1).sum())
    if n == 0:
        return Paired(0, 0.0, (0.0, 0.0), 0, 0, 1.0)
    return Paired(
        n, (only_b - only_a) / n, bootstrap_difference(only_a, only_b, n, resamples, seed),
        only_a, only_b, mcnemar(only_a, only_b),
    )  # fmt: skip


def bootstrap_difference(only_a: int, only_b: int, n: int, resamples: int, seed: int) -> tuple[float, float]:
    """Percentile bootstrap of the paired difference.

    Resampling n examples with replacement only ever changes how many of the three kinds (only a, only b,
    neither or both) are drawn, so one multinomial draw per resample is the same bootstrap, without the arrays.
    """
    rng = np.random.default_rng(seed)
    kinds = np.array([only_a, only_b, n - only_a - only_b]) / n
    draws = rng.multinomial(n, kinds, size=resamples)
    low, high = np.quantile((draws[:, 1] - draws[:, 0]) / n, [0.025, 0.975])
    return (float(low), float(high))


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided McNemar test: is a coin with these discordant pairs fair?"""
    n, k = only_a + only_b, min(only_a, only_b)
    if n == 0:
        return 1.0
    # In logarithms: 2^-n underflows from n = 1075 on.
    log_half = n * math.log(0.5)
    tail = sum(
        math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + log_half) for i in range(k + 1)
    )
    return min(1.0, 2 * tail)
