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
    if not only_a + only_b:  # every resample is the same: Agresti and Min's interval, half a count in every cell
        return (-Z95 / (n + 2), Z95 / (n + 2))
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


def binomial_upper(wrong: int, n: int, alpha: float = 0.05) -> float:
    """Clopper and Pearson's one-sided upper bound: the rate at which `wrong` or fewer of n has probability alpha."""
    if not n or wrong >= n:
        return 1.0
    i = np.arange(wrong + 1)
    log_choose = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in i]
    low, high = wrong / n, 1.0
    for _ in range(60):  # bisection: the tail falls as the rate rises
        p = (low + high) / 2
        tail = np.exp(log_choose + i * math.log(p) + (n - i) * math.log1p(-p)).sum()
        low, high = (p, high) if tail > alpha else (low, p)
    return high


def mcnemar_one_sided(fewer: int, more: int) -> float:
    """Exact: the probability of at least `more` of these discordant pairs falling to one side by chance."""
    n = fewer + more
    return sum(math.comb(n, k) for k in range(more, n + 1)) / 2**n


def paired_mean(
    a: Sequence[float], b: Sequence[float], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, tuple[float, float]]:
    """Mean of b minus a over the same examples, with a percentile bootstrap interval."""
    difference = np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64)
    if not len(difference):
        return 0.0, (0.0, 0.0)
    rng = np.random.default_rng(seed)
    draws = np.array([difference[rng.integers(0, len(difference), len(difference))].mean() for _ in range(resamples)])
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(difference.mean()), (float(low), float(high))
