"""Intervals and tests against closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from unmask.report.stats import bootstrap_difference, mcnemar, paired, wilson
from unmask.report.tradeoff import aup, pareto, tokens_per_forward


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_known_values(correct, n, low, high):
    """The last one is Newcombe's (1998) example."""
    assert wilson(correct, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_covers():
    """At n = 60 the interval holds the true rate about 95 times in 100, at the edges too."""
    for p in (0.02, 0.3, 0.8, 0.99):
        covered = sum(
            math.comb(60, k) * p**k * (1 - p) ** (60 - k)
            for k in range(61)
            if wilson(k, 60)[0] <= p <= wilson(k, 60)[1]
        )
        assert 0.92 < covered <= 1


def test_no_examples_know_nothing():
    assert wilson(0, 0) == (0.0, 1.0)
    assert paired([], []).p_value == 1.0


@pytest.mark.parametrize(("a", "b"), [(0, 0), (3, 3), (1, 8), (0, 6), (10, 2)])
def test_mcnemar_is_the_exact_binomial_test(a, b):
    n, k = a + b, min(a, b)
    expected = min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n) if n else 1.0
    assert mcnemar(a, b) == pytest.approx(expected)


def test_mcnemar_does_not_underflow():
    assert 0 < mcnemar(1400, 1600) < 0.001
    assert mcnemar(5000, 5000) == 1.0


def test_the_multinomial_bootstrap_is_the_bootstrap():
    """Against resampling the examples themselves."""
    rng = np.random.default_rng(1)
    a, b = rng.random(300) < 0.7, rng.random(300) < 0.75
    draws = rng.integers(0, 300, size=(20_000, 300))
    differences = b[draws].mean(axis=1) - a[draws].mean(axis=1)
    low, high = np.quantile(differences, [0.025, 0.975])
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    assert bootstrap_difference(only_a, only_b, 300, 20_000, 0) == pytest.approx((low, high), abs=0.005)


def test_paired_counts_and_sign():
    result = paired([True, True, False, False, True], [True, False, True, True, True])
    assert (result.n, result.only_a, result.only_b) == (5, 1, 2)
    assert result.difference == pytest.approx(0.2)
    assert result.ci95[0] <= 0.2 <= result.ci95[1]
    assert paired([True], [True]) == paired([True], [True]), "the same seed, the same interval"
    with pytest.raises(ValueError, match="same examples"):
        paired([True], [])


def test_no_discordant_pair_is_not_certainty():
    found = paired([True] * 155 + [False] * 5, [True] * 155 + [False] * 5)
    assert found.difference == 0 and found.ci95 == pytest.approx((-1.96 / 162, 1.96 / 162), rel=1e-3)


def test_the_pareto_front_is_what_nothing_beats():
    rng = np.random.default_rng(0)
    for _ in range(50):
        points = [tuple(p) for p in rng.integers(0, 6, size=(8, 2)).tolist()]
        front = {points[i] for i in pareto(points)}
        for p in points:
            beaten = any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points)
            assert (p in front) is not beaten


def test_aup_by_its_definition():
    assert aup([(2.0, 80.0)], 80.0) == 160.0
    # Without any loss of accuracy it is the fastest setting's parallelism times the accuracy.
    assert aup([(1.0, 80.0), (4.0, 80.0)], 80.0) == pytest.approx(320.0)
    weight = math.exp(-3 * (1 - 78 / 80))
    assert aup([(1.0, 80.0), (3.0, 78.0)], 80.0) == pytest.approx(80 + 2 * (80 + 78 * weight) / 2)
    # More than five points below the most careful setting counts for nothing.
    assert aup([(1.0, 80.0), (9.0, 74.0)], 80.0) == 80.0
    points = [(1.0, 80.0), (2.0, 79.0), (3.0, 78.0)]
    assert len({round(aup(list(order), 80.0), 9) for order in itertools.permutations(points)}) == 1
    assert aup([], 80.0) == 0.0 and aup([(1.0, 0.0)], 0.0) == 0.0


def test_an_answer_whose_scoring_failed_was_decoded():
    """Tokens per forward: of three examples one never ran, and one ran but could not be scored."""
    assert tokens_per_forward({"nfe": 10.0, "n": 3, "errors": 2, "decoded": 2, "tokens": 60}) == 3.0
