"""The analyses on made-up states whose K, r, E and error structure is known: planted effects are recovered with the
right size, none is found where none was planted, and every number equals a plain loop over the definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reference import diagnostics as literal
from unmask.diagnostics import layers, upstream
from unmask.errors import UserError

Line = dict[str, Any]


def states(seed: int, questions: int, wrong: Callable[[np.ndarray, float], np.ndarray]) -> list[Line]:
    """Questions with E per pattern; `wrong(E, difficulty)` is the probability of an error."""
    rng = np.random.default_rng(seed)
    lines = []
    for index in range(questions):
        difficulty = rng.normal()
        levels = {}
        for level in (4, 8, 16, 32):
            E = rng.gamma(2.0, level / 8, 16)
            right = (rng.random(16) >= wrong(E / level * 4, difficulty)).astype(int)
            levels[str(level)] = {"masked": level, "E": E.tolist(), "right": right.tolist(), "targets": []}
        lines.append({"index": index, "digits": 60, "levels": levels})
    return lines


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def tokens(
    seed: int, questions: int, *, k_effect: float = 0.0, r_effect: float = 0.0, window: int = 12
) -> list[Line]:
    """Target digits with a calibrated confidence, correlated within questions. K and r depend on confidence, as in
    real models, and change the odds of being right by the planted effects only."""
    rng = np.random.default_rng(seed)
    lines = []
    for index in range(questions):
        mood = rng.normal(0, 0.4)  # the tokens of a question share it
        targets = []
        for _ in range(60):
            c = rng.uniform(0.5, 1.0)
            K = int(np.clip(rng.geometric(1.15 - c), 1, window))
            drop = 0.0 if K == 1 else min(rng.exponential(0.12), 1 - c)
            odds = math.log(c / (1 - c + 1e-9)) + k_effect * (K - 4) - r_effect * (drop - 0.1) + mood
            suffix = [c] + [c * 0.9] * (K - 1)
            if K > 1:
                suffix[int(rng.integers(1, K))] = c + drop
            targets.append([[int(rng.random() < logistic(odds)), *suffix]])
        levels = {"4": {"masked": 4, "E": [1.0], "right": [1], "targets": targets}}
        lines.append({"index": index, "digits": 60, "levels": levels})
    return lines


# --- upstream ---------------------------------------------------------------------------------------------------


def test_every_number_of_the_comparison_is_the_definition() -> None:
    lines = states(0, 60, lambda E, difficulty: logistic(2.0 * (E - 1) + difficulty))
    result = upstream.analyse(lines)
    for level in result.levels:
        pairs = literal.upstream(lines, level.m)
        assert level.n == len(pairs) and level.questions == 60
        assert level.low == pytest.approx(np.mean([low for low, _ in pairs]))
        assert level.high == pytest.approx(np.mean([high for _, high in pairs]))
        assert level.ci95[0] < level.delta < level.ci95[1]
    everything = sorted(
        (E, 1 - right)
        for line in lines
        for found in line["levels"].values()
        for E, right in zip(found["E"], found["right"], strict=True)
    )
    fifth = len(everything) // 5
    for number, group in enumerate(result.quintiles):
        part = everything[number * fifth : (number + 1) * fifth]
        assert group.n == pytest.approx(fifth, abs=1)
        assert group.wrong == pytest.approx(sum(wrong for _, wrong in part), abs=1)
        assert group.ci95[0] <= group.error <= group.ci95[1]


def test_a_worked_example() -> None:
    """16 patterns, entropies out of order; errors 1, 0 of 5 low and 4 of 5 high."""
    E = [float(x) for x in (7, 0, 9, 1, 8, 2, 6, 3, 5, 4, 15, 10, 14, 11, 13, 12)]
    wrong = [0] * 16
    wrong[E.index(0)] = 1
    for x in (15, 14, 13, 12):
        wrong[E.index(x)] = 1
    assert upstream.low_and_high(E, wrong) == (0.2, 0.8)
    assert upstream.low_and_high(E, [0] * 16) is None and upstream.low_and_high(E, [1] * 16) is None
    # Ties stay in drawing order: the lowest five are the first five, the highest five the last five.
    assert upstream.low_and_high([1.0] * 16, [1] * 5 + [0] * 11) == (1.0, 0.0)


def test_a_planted_effect_is_recovered_with_its_size() -> None:
    lines = states(1, 300, lambda E, difficulty: logistic(1.5 * (E - 1) + 0.5 * difficulty))
    result = upstream.analyse(lines)
    many = upstream.analyse(states(2, 1500, lambda E, difficulty: logistic(1.5 * (E - 1) + 0.5 * difficulty)))
    for level, truth in zip(result.levels, many.levels, strict=True):
        assert truth.delta > 0.1
        assert level.ci95[0] > 0 and level.ci95[0] <= truth.delta <= level.ci95[1] + 0.02
    errors = [group.error for group in result.quintiles]
    assert errors == sorted(errors) and errors[-1] > 2 * errors[0]
    assert "at every mask count tested (4, 8, 16, 32)" in upstream.verdict(result)


def test_no_effect_is_found_where_none_was_planted() -> None:
    """95 % intervals must include zero in about 95 % of cases: of 160 here, at most 16 may not (p < 0.005)."""
    outside = 0
    for seed in range(40):
        lines = states(100 + seed, 60, lambda E, difficulty: np.full(len(E), logistic(difficulty)))
        result = upstream.analyse(lines, resamples=400)
        outside += sum(level.ci95[0] > 0 or level.ci95[1] < 0 for level in result.levels)
    assert 0 < outside <= 16


def test_the_sentence_allows_for_the_number_of_looks() -> None:
    """Four mask counts, nothing planted: some effect may be named in one case of twenty."""
    named = 0
    for seed in range(40):
        lines = states(700 + seed, 40, lambda E, difficulty: np.full(len(E), logistic(difficulty)))
        named += "No effect" not in upstream.verdict(upstream.analyse(lines, resamples=1000))
    assert named <= 6


def test_effects_of_both_signs_are_both_named() -> None:
    result = upstream.analyse(states(1, 300, lambda E, difficulty: logistic(1.5 * (E - 1) + 0.5 * difficulty)))
    result.levels[1] = replace(result.levels[1], joint=(-0.4, -0.2))
    result.levels[2] = replace(result.levels[2], joint=(-0.1, 0.2))
    said = upstream.verdict(result)
    assert "more wrong answers at m = 4, 32;" in said and "FEWER wrong answers at m = 8;" in said
    assert "at m = 16 the interval does not exclude zero" in said


def test_difficulty_alone_is_no_effect() -> None:
    """Hard questions with high entropies: only a comparison within questions is blind to that."""
    rng = np.random.default_rng(5)
    lines = []
    for index in range(300):
        hard = rng.random()
        found = {"masked": 4, "E": (10 * hard + rng.random(16)).tolist(), "targets": []}
        found["right"] = (rng.random(16) >= hard).astype(int).tolist()
        lines.append({"index": index, "digits": 60, "levels": {"4": found}})
    result = upstream.analyse(lines)
    assert result.levels[0].ci95[0] < 0 < result.levels[0].ci95[1]
    assert "every interval includes zero" in upstream.verdict(result)
    assert (
        result.quintiles[4].error > 3 * result.quintiles[0].error
    )  # the pooled view sees it, and says that it pools


def test_intervals_are_seeded() -> None:
    lines = states(3, 40, lambda E, difficulty: logistic(E - 1))
    assert upstream.analyse(lines).levels == upstream.analyse(lines).levels


def test_too_few_mixed_questions_is_a_sentence() -> None:
    easy = states(4, 20, lambda E, difficulty: np.where(E > 4.5, 1.0, 0.0))
    for line in easy[:18]:
        for found in line["levels"].values():
            found["right"] = [1] * 16
    result = upstream.analyse(easy)
    with pytest.raises(UserError, match=r"too few questions .* 8 are needed .*raise --limit above 20"):
        upstream.require(result, "small")
    for line in easy:
        for found in line["levels"].values():
            found["right"] = [0] * 16
    with pytest.raises(UserError, match="easier traces"):
        upstream.require(upstream.analyse(easy), "small")


def test_a_level_with_too_few_questions_is_named_not_judged() -> None:
    lines = states(6, 30, lambda E, difficulty: logistic(2 * (E - 1)))
    for line in lines[3:]:
        line["levels"]["4"]["right"] = [1] * 16
    table = upstream.table(upstream.analyse(lines), "t")
    assert str(table.rows[0][-1]) == "fewer than 8 questions" and str(table.rows[0][4]) == ""
    assert "(8, 16, 32)" in table.notes[0]
    assert table.records[0]["n"] == 3


# --- layers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [4, 8, 12])
def test_curves_and_heat_map_are_the_definition(window: int) -> None:
    lines = tokens(0, 40, k_effect=0.2, r_effect=3.0)
    result = layers.analyse(lines, window, resamples=20)
    seen = literal.tokens(lines, window)
    assert result.tokens == len(seen) and result.wrong == literal.error(seen)[0]
    for low, high in layers.BANDS:
        inside = [o for o in seen if low <= o[1] < high or (high == 1.0 and o[1] == 1.0)]
        for k in range(2, 11):
            wrong, n = literal.error(o for o in inside if o[2] >= k)
            rate = result.curves[low, high].get(k)
            assert (rate is None) == (n == 0)
            if rate is not None:
                assert (rate.wrong, rate.n) == (wrong, n)
    drops = [(0.08, 0.16), (0.16, 0.24), (0.24, 0.32), (0.32, 0.40)]
    for i, (least, most) in enumerate([(2, 2), (3, 4), (5, 8), (9, 99)]):
        for j, (low, high) in enumerate(drops):
            wrong, n = literal.error(
                o
                for o in seen
                if 0.6 <= o[1] < 0.9 and least <= o[2] <= most and (low <= o[3] < high or (j == 3 and o[3] == high))
            )
            assert (result.heat[i, j].wrong, result.heat[i, j].n) == (wrong, n)


def test_boundaries_belong_where_the_paper_puts_them() -> None:
    def one(*p: float) -> Line:
        targets = [[[1, *p]]]
        return {
            "index": 0,
            "digits": 60,
            "levels": {"4": {"masked": 4, "E": [1.0], "right": [1], "targets": targets}},
        }

    def bands(*p: float) -> list[tuple[float, float]]:
        result = layers.analyse([one(*p)], 12, resamples=2)
        return [band for band, rates in result.curves.items() if rates]

    assert bands(0.7, 0.7) == [(0.7, 0.8)] and bands(0.6, 0.7) == [(0.6, 0.7)]
    assert bands(0.95, 0.9) == [(0.95, 1.0)] and bands(1.0, 0.9) == [(0.95, 1.0)] and bands(0.59, 0.7) == []
    assert bands(0.7) == []  # K = 1 is in no group K >= k

    def cell(*p: float) -> list[tuple[int, int]]:
        return [at for at, rate in layers.analyse([one(*p)], 12, resamples=2).heat.items() if rate.n]

    assert cell(0.625, 0.705) == [(0, 0)]  # r = 0.08
    assert cell(0.625, 0.785) == [(0, 1)]  # r = 0.16
    assert cell(0.6, 1.0, 0.9, 0.9, 0.9) == [(2, 3)]  # r = 0.40 closes the last interval
    assert cell(0.625, 0.704) == [] and cell(0.9, 0.99) == []
    assert cell(0.6, *[0.75] * 11) == [(3, 0)]


def test_separation_is_the_definition() -> None:
    lines = tokens(1, 30, k_effect=0.3, r_effect=4.0)
    result = layers.analyse(lines, 12, resamples=20)
    seen = [o for o in literal.tokens(lines, 12) if 0.6 <= o[1] < 0.9]
    strata: dict[int, tuple[list[float], list[float]]] = {}
    for right, c, K, _ in seen:
        strata.setdefault(int((c - 0.6) / 0.02 + 1e-9), ([], []))[1 - right].append(K)
    assert result.persistence.concordance == pytest.approx(literal.concordance(strata.values()), abs=1e-6)
    cells: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
    for right, c, K, r in seen:
        if K >= 2:
            row = 0 if K == 2 else 1 if K <= 4 else 2 if K <= 8 else 3
            bin_ = min(int(r / 0.02 + 1e-9), 20)
            cells.setdefault((int((c - 0.6) / 0.02 + 1e-9), row), ([], []))[1 - right].append(-bin_)
    assert result.drop.concordance == pytest.approx(literal.concordance(cells.values()), abs=1e-6)


def test_planted_signals_are_found() -> None:
    result = layers.analyse(tokens(2, 150, k_effect=0.35), 12, resamples=200)
    assert result.persistence.informative and result.persistence.concordance > 0.6
    for band in ((0.6, 0.7), (0.7, 0.8)):
        rates = result.curves[band]
        assert rates[8].error < rates[2].error / 1.5
    assert "goes with being right" in layers.verdict(result)
    dropping = layers.analyse(tokens(2, 150, r_effect=8.0), 12, resamples=200)
    assert dropping.drop.informative and dropping.drop.concordance > 0.55
    row = [dropping.heat[1, column] for column in range(4)]  # K of 3 and 4
    assert row[2].error > 1.3 * row[0].error
    against = layers.analyse(tokens(2, 150, k_effect=-0.35), 12, resamples=200)
    assert against.persistence.inverted and "being WRONG" in layers.verdict(against)


def test_each_signal_alone_is_told_from_the_other() -> None:
    only_k = layers.analyse(tokens(3, 200, k_effect=0.4), 12, resamples=200)
    assert only_k.persistence.informative and not only_k.drop.informative
    only_r = layers.analyse(tokens(4, 200, r_effect=10.0), 12, resamples=200)
    assert only_r.drop.informative


def test_no_signal_is_found_where_none_was_planted() -> None:
    """K and r correlate with confidence, and the tokens of a question with each other: both would fool a test that
    pools confidences or counts tokens as independent. Of 60 intervals, 8 at most may exclude one half (p < 0.005)."""
    outside = 0
    for seed in range(30):
        result = layers.analyse(tokens(200 + seed, 50), 12, resamples=300)
        assert result.persistence.enough and result.drop.enough
        outside += sum(s.informative or s.inverted for s in (result.persistence, result.drop))
    assert outside <= 8


def test_pooling_confidences_would_be_fooled() -> None:
    """The planted null is no straw man: without strata the same tokens show an effect."""
    seen = [o for o in literal.tokens(tokens(9, 100), 12) if 0.6 <= o[1] < 0.9]
    pooled = [[float(o[2]) for o in seen if o[0] == right] for right in (1, 0)]
    assert literal.concordance([(pooled[0], pooled[1])]) > 0.53


def test_few_wrong_tokens_give_no_verdict() -> None:
    result = layers.analyse(tokens(5, 2), 12, resamples=50)
    assert not result.persistence.enough and "nothing can be said" in layers.verdict(result)
    assert layers.separation_table(result).records[0]["concordance"] is None
    assert not layers.analyse([], 12, resamples=5).persistence.enough


def test_memory_does_not_grow_with_the_number_of_states() -> None:
    import tracemalloc

    lines = tokens(6, 10)
    counts = layers.Counts(12, resamples=50)
    counts.add(lines[0])
    tracemalloc.start()
    for n in range(300):
        counts.add(lines[n % 10])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counts.questions == 301 and kept < 200_000
