"""How large an error rate may be, given tokens that are alike within a question.

Tokens of one question share its masks, its numbers and its wording, so a thousand of them say less than a
thousand independent ones. The exact binomial bound (Clopper-Pearson) is therefore taken at the *effective* number
of tokens, n / design effect, with the design effect 1 + (m - 1) ρ of a sample in clusters: m the size of a
cluster as a random token sees it, ρ the intraclass correlation of being wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unmask.report.stats import binomial_upper

ALPHA = 0.05  # one-sided: an upper bound is exceeded by the truth in at most one of twenty such samples


@dataclass(frozen=True)
class Bound:
    """An observed error rate and what it may be at worst."""

    n: int
    wrong: int
    questions: int
    effective: float  # independent tokens that these are worth
    upper: float

    @property
    def error(self) -> float:
        return self.wrong / self.n if self.n else 0.0


def bound(wrong: np.ndarray, question: np.ndarray, correlation: float, alpha: float = ALPHA) -> Bound:
    """The one-sided upper bound on the error rate of these tokens; 1 where there are none."""
    n, bad = len(wrong), int(np.count_nonzero(wrong))
    if not n:
        return Bound(0, 0, 0, 0.0, 1.0)
    sizes = np.bincount(question)
    sizes = sizes[sizes > 0].astype(np.float64)
    effect = 1.0 + (float((sizes**2).sum()) / n - 1.0) * correlation
    effective = n / max(1.0, effect)
    # Whole counts, rounded against us: fewer tokens, more errors.
    whole = max(1, int(effective))
    return Bound(
        n, bad, len(sizes), effective, binomial_upper(min(whole, int(np.ceil(bad / n * whole))), whole, alpha)
    )


def intraclass_correlation(wrong: np.ndarray, question: np.ndarray) -> float:
    """The one-way analysis-of-variance estimate, between 0 and 1: how alike tokens of a question are in being
    wrong."""
    n = len(wrong)
    sizes = np.bincount(question).astype(np.float64)
    bad = np.bincount(question, weights=wrong.astype(np.float64))
    bad, sizes = bad[sizes > 0], sizes[sizes > 0]
    groups = len(sizes)
    if groups < 2 or n <= groups:
        return 0.0
    mean, means = wrong.mean(), bad / sizes
    between = float((sizes * (means - mean) ** 2).sum()) / (groups - 1)
    within = float((sizes * means * (1 - means)).sum()) / (n - groups)
    typical = (n - float((sizes**2).sum()) / n) / (groups - 1)
    total = between + (typical - 1) * within
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 0 else 0.0
