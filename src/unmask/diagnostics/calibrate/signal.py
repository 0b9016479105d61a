"""Do the layers say anything that confidence does not? Right against wrong tokens of equal confidence.

The separation is `diagnose layers`' own stratified concordance, in the band of confidence that the stability route
would decide. Its interval is a jackknife over groups of questions (tokens of a question are alike): forty
recomputations instead of a thousand, in any band.
"""

from __future__ import annotations

import math

import numpy as np

from unmask.diagnostics.calibrate.evidence import Tokens
from unmask.diagnostics.layers import DROP_BIN, DROP_BINS, STRATUM, Separation, concordance
from unmask.report.stats import Z95

GROUPS = 40
EPSILON = 1e-9


def separations(tokens: Tokens, low: float, high: float, window: int) -> tuple[Separation, Separation]:
    """Of persistence K at equal confidence, and of the drop r at equal confidence and equal K."""
    inside = tokens.where((tokens.c >= low) & (tokens.c < high))
    strata = max(1, math.ceil((high - low) / STRATUM - EPSILON))
    stratum = np.minimum(np.floor((inside.c - low) / STRATUM + EPSILON).astype(int), strata - 1)
    _, number = np.unique(inside.question, return_inverse=True)
    group, K, right = number % GROUPS, inside.K(window), inside.right.astype(int)
    drop = np.minimum(np.floor(inside.drop(window) / DROP_BIN + EPSILON).astype(int), DROP_BINS - 1)
    by_k = np.zeros((GROUPS, strata, window + 1, 2))
    np.add.at(by_k, (group, stratum, K, right), 1)
    by_r = np.zeros((GROUPS, strata * (window + 1), DROP_BINS, 2))
    some = K > 1  # r is 0 by definition where K is 1
    np.add.at(by_r, (group[some], (stratum * (window + 1) + K)[some], drop[some], right[some]), 1)
    return separation("K", by_k), separation("r", by_r[..., ::-1, :])


def separation(name: str, by_group: np.ndarray) -> Separation:
    """`by_group` is (groups, strata, values with the better ones last, [wrong, right])."""
    whole = by_group.sum(axis=0, keepdims=True)
    value = float(concordance(whole)[0])
    without = concordance(whole - by_group)
    groups = len(without)
    spread = math.sqrt((groups - 1) / groups * float(((without - without.mean()) ** 2).sum()))
    wrong, right = whole[0].sum(axis=(0, 1))
    interval = (value - Z95 * spread, value + Z95 * spread)
    return Separation(name, int(right), int(wrong), value, interval)
