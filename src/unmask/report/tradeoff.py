"""Accuracy against cost: the Pareto front, and accuracy under parallelism as one number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

ALPHA, TOLERATED = 3.0, 5.0
AUP = (
    "AUP, accuracy under parallelism (arXiv:2601.07568): with tokens per forward r_1 < ... < r_m of a decoder's "
    "swept settings and their accuracies y_i in percent, r_1 y_1 + sum over i > 1 of (r_i - r_(i-1)) "
    "(y_i W(y_i) + y_(i-1) W(y_(i-1))) / 2, where W(y) = min(1, exp(-3 (1 - y / y_max))), y_max is the best "
    "accuracy in the table, and settings more than 5 points below y_1 are left out; higher is better, and a single "
    "setting gives r_1 y_1"
)


@dataclass(frozen=True)
class Series:
    """The settings of one decoder that were evaluated, and what tells them apart."""

    decoder: str
    rows: tuple[Mapping[str, Any], ...]
    varied: tuple[str, ...]

    def tag(self, row: Mapping[str, Any]) -> str:
        """What a point is labelled with: the values that vary, or the decoder where nothing does."""
        if not self.varied:
            return self.decoder
        return ", ".join(short(row["params"][name]) for name in self.varied)


def series(rows: Sequence[Mapping[str, Any]]) -> list[Series]:
    """Rows of one model and task, grouped by decoder in the order of their first appearance."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["decoder"], []).append(row)
    found = []
    for decoder, members in groups.items():
        names = members[0]["params"]
        varied = tuple(n for n in names if len({str(row["params"].get(n)) for row in members}) > 1)
        found.append(Series(decoder, tuple(members), varied))
    return found


def short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other one beats in both coordinates (higher is better), left to right."""
    order = sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1]))
    front, best = [], -math.inf
    for i in order:
        if points[i][1] > best:
            front.append(i)
            best = points[i][1]
    return front[::-1]


def tokens_per_forward(row: Mapping[str, Any]) -> float:
    # Not n - errors: an answer whose scoring failed was decoded all the same.
    forwards = row["nfe"] * row["decoded"]
    return row["tokens"] / forwards if forwards else 0.0


def aup(points: Sequence[tuple[float, float]], y_max: float) -> float:
    """`points` are (tokens per forward, accuracy in percent) of one decoder. See AUP for the definition."""
    points = sorted(points)
    if not points:
        return 0.0
    kept = [(r, y) for r, y in points if y >= points[0][1] - TOLERATED]

    def weighted(y: float) -> float:
        return y * min(1.0, math.exp(-ALPHA * (1 - y / y_max))) if y_max else 0.0

    area = kept[0][0] * kept[0][1]
    for (r0, y0), (r1, y1) in pairwise(kept):
        area += (r1 - r0) * (weighted(y1) + weighted(y0)) / 2
    return area


def scores(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """AUP of every decoder of one model and task."""
    y_max = max((100 * row["accuracy"] for row in rows), default=0.0)
    return [
        {
            "model": group.rows[0]["model"],
            "task": group.rows[0]["task"],
            "decoder": group.decoder,
            "varied": list(group.varied),
            "settings": len(group.rows),
            "aup": aup([(tokens_per_forward(row), 100 * row["accuracy"]) for row in group.rows], y_max),
        }
        for group in series(rows)
    ]
