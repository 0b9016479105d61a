"""The diagnostics by their definitions, in plain loops over the lines of a states folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Line = Mapping[str, Any]


def upstream(lines: Iterable[Line], level: int) -> list[tuple[float, float]]:
    """(low, high) of every question with mixed outcomes: mean error of the 5 lowest and 5 highest patterns by E."""
    pairs = []
    for line in lines:
        found = line["levels"][str(level)]
        states = sorted(zip(found["E"], range(len(found["E"])), found["right"], strict=True))
        wrong = [1 - right for _, _, right in states]
        if 0 in wrong and 1 in wrong:
            pairs.append((sum(wrong[:5]) / 5, sum(wrong[-5:]) / 5))
    return pairs


def tokens(lines: Iterable[Line], window: int) -> list[tuple[int, float, int, float]]:
    """(right, c, K, r) of every target digit."""
    found = []
    for line in lines:
        for level in line["levels"].values():
            for state in level["targets"]:
                for right, *p in state:
                    p = p[:window]
                    found.append((right, p[0], len(p), max(p) - p[0]))
    return found


def error(observations: Iterable[tuple[int, float, int, float]]) -> tuple[int, int]:
    """(wrong, n)."""
    rights = [right for right, *_ in observations]
    return len(rights) - sum(rights), len(rights)


def concordance(groups: Iterable[tuple[list[float], list[float]]]) -> float:
    """Groups of (values of right ones, values of wrong ones): share of pairs in which the right one is higher, ties
    half; groups weighted by 1 / (size + 1) per pair."""
    total = ordered = 0.0
    for right, wrong in groups:
        weight = 1 / (len(right) + len(wrong) + 1)
        for a in right:
            for b in wrong:
                total += weight
                ordered += weight * (1.0 if a > b else 0.5 if a == b else 0.0)
    return ordered / total
