"""Which upstream digits are hidden: patterns over characters, the same for every tokenizer.

The paper masks m in {4, 8, 16, 32} of at least 48 eligible digits, 16 independent patterns each, seed 325. A
trace with D < 48 digits gets the same *shares* (1/12, 1/6, 1/3, 2/3) of its own digits: m D / 48, rounded to the
nearest whole number, at least 1. Every pattern is drawn from its own stream, so none depends on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from unmask.diagnostics.traces import SEED, GoldTrace
from unmask.tasks.splits import rng_for

LEVELS = (4, 8, 16, 32)
PATTERNS = 16
FULL = 48  # digits for which the levels are meant as they stand

Pattern = tuple[int, ...]  # characters of the trace, ascending


def scaled(level: int, digits: int) -> int:
    """How many of `digits` upstream digits a level hides."""
    return max(1, (2 * level * min(digits, FULL) + FULL) // (2 * FULL))


def patterns(trace: GoldTrace, level: int, count: int = PATTERNS, seed: int = SEED) -> list[Pattern]:
    """`count` independent samples without replacement of the trace's upstream digits."""
    size = scaled(level, len(trace.upstream))
    draws = (rng_for("masks", seed, trace.id, level, number) for number in range(count))
    return [tuple(sorted(rng.sample(trace.upstream, size))) for rng in draws]


def scaling(digits: list[int], levels: Sequence[int] = LEVELS) -> str:
    """One sentence for tables and captions: how the levels were applied to traces with these digit counts."""
    short = sum(d < FULL for d in digits)
    if not short:
        return f"m upstream digits hidden, as in the paper (every trace has at least {FULL})"
    shares = ", ".join(f"{level}: {share(level)}" for level in levels)
    return (
        f"m scaled to the trace: {short} of {len(digits)} traces have fewer than {FULL} upstream digits (median "
        f"{sorted(digits)[len(digits) // 2]}) and have the same share of them hidden as m is of {FULL} ({shares})"
    )


def share(level: int) -> str:
    return str(Fraction(level, FULL))
