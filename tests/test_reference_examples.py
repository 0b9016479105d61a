"""The references against the specification's worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reference import decoders, statistics
from reference import worked_examples as examples

FAMILIES = ("llada", "dream")


# --- worked examples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", examples.LLADA_SCHEDULE)
def test_llada_schedule(e: examples.Example) -> None:
    assert decoders.llada_schedule(e["n"], e["s"]) == e["expected"]


@pytest.mark.parametrize("e", examples.LLADA_SELECT)
def test_llada_select(e: examples.Example) -> None:
    assert decoders.llada_select(e["confidence"], e["k"]) == e["expected"]


@pytest.mark.parametrize("e", examples.LLADA_GUIDANCE)
def test_llada_guidance(e: examples.Example) -> None:
    guided = decoders.llada_guidance(e["conditional"], e["unconditional"], e["w"])
    assert guided.tolist() == e["expected"]


def test_llada_paper_setting() -> None:
    e = examples.LLADA_PAPER
    per_block = decoders.llada_steps_per_block(e["steps"], e["length"], e["block_length"])
    counts = decoders.llada_schedule(e["block_length"], per_block)
    assert set(counts) == {e["commits_per_step"]}
    assert len(counts) * len(decoders.blocks(e["length"], e["block_length"])) == e["nfe"]


@pytest.mark.parametrize(("length", "block", "steps"), [(10, 4, 10), (8, 4, 3)])
def test_llada_divisions_are_exact(length: int, block: int, steps: int) -> None:
    with pytest.raises(ValueError, match="divide"):
        decoders.llada_steps_per_block(steps, length, block)


@pytest.mark.parametrize("e", examples.DREAM_SCHEDULE)
def test_dream_schedule(e: examples.Example) -> None:
    assert decoders.dream_schedule(e["n"], e["steps"]) == e["expected"]


@pytest.mark.parametrize("e", examples.DREAM_TRANSFORM)
def test_dream_transform(e: examples.Example) -> None:
    q = decoders.dream_transform(np.log(e["p"]), e["temperature"], e["top_p"])
    assert q == pytest.approx(e["q"])
    assert decoders.dream_confidence("maskgit_plus", q, 1) == pytest.approx(e["q"][1])
    assert decoders.dream_confidence("entropy", q, 0) == pytest.approx(e["entropy"], abs=5e-5)
    if "topk_margin" in e:
        assert decoders.dream_confidence("topk_margin", q, 0) == pytest.approx(e["topk_margin"])


def test_dream_top_k_keeps_ties_and_comes_after_top_p() -> None:
    kept = decoders.dream_transform(np.log([0.4, 0.3, 0.2, 0.1]), 1.0, top_k=3) > 0
    assert kept.tolist() == [True, True, True, False]
    assert (decoders.dream_transform([1.0, 1.0, 0.0], 1.0, top_k=1) > 0).tolist() == [True, True, False]
    both = decoders.dream_transform(np.log([0.4, 0.3, 0.2, 0.1]), 1.0, top_p=0.5, top_k=3)
    assert both == pytest.approx([4 / 7, 3 / 7, 0, 0])


def test_dream_point_mass_begins_at_the_stated_ratio() -> None:
    for factor, survivors in ((0.999, 2), (1.001, 1)):
        ratio = examples.DREAM_POINT_MASS_RATIO * factor
        q = decoders.dream_transform(np.log([ratio / (1 + ratio), 1 / (1 + ratio)]), 0.1, 0.9)
        assert (q > 0).sum() == survivors


@pytest.mark.parametrize("e", examples.DREAM_SELECT)
def test_dream_select(e: examples.Example) -> None:
    assert decoders.dream_select(e["confidence"], e["k"]) == e["expected"]


def test_dream_origin_commits_everything_at_last() -> None:
    u = [0.0, 0.3, 0.999]
    assert decoders.dream_origin(u, 0, 4) == [0]  # about a quarter
    assert decoders.dream_origin(u, 3, 4) == [0, 1, 2]


@pytest.mark.parametrize("e", examples.FAST_THRESHOLD)
def test_fast_threshold(e: examples.Example) -> None:
    assert decoders.fast_threshold(e["c"], e["tau"]) == e["expected"]


@pytest.mark.parametrize("e", examples.FAST_FACTOR)
def test_fast_factor(e: examples.Example) -> None:
    assert decoders.fast_factor(e["c"], e["f"]) == e["expected"]
    assert decoders.fast_factor(e["c"], e["f"], quirk=True) == e["quirk"]


@pytest.mark.parametrize("e", examples.EB)
def test_eb(e: examples.Example) -> None:
    assert decoders.ranked(e["c"], range(len(e["c"]))) == e["order"]
    assert decoders.eb_costs(e["H"], e["order"]) == pytest.approx(e["costs"])
    assert decoders.eb(e["c"], e["H"], e["gamma"]) == e["expected"]


def test_lopa() -> None:
    e = examples.LOPA
    anchor = decoders.lopa_anchor(e["c"], e["threshold"])
    left = [i for i in range(len(e["c"])) if i not in anchor]
    looks = decoders.lopa_positions(e["H"], left, e["k"])
    scores = [decoders.lopa_score(H, range(len(H))) for H in e["remaining_H"]]
    winner = decoders.lopa_winner(scores)
    assert (anchor, looks) == (e["anchor"], e["lookahead"])
    assert scores == pytest.approx(e["scores"])
    assert winner == e["winner"]
    assert [*anchor, looks[winner]] == e["committed"]
    assert decoders.lopa_score(e["H"], []) == math.inf


def test_dapd_keys_and_order() -> None:
    e = examples.DAPD_KEYS
    _, n, degree = decoders.dapd_graph(examples.DAPD_DISTANCE)
    assert degree * e["c"] == pytest.approx(e["keys"], abs=5e-5)
    assert decoders.dapd_independent(n, degree, e["c"], 0.05, range(4))[1] == e["order"]
    for (i, j), expected in e["N"].items():
        assert n[i, j] == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("e", examples.DAPD_DIRECT)
def test_dapd_direct(e: examples.Example) -> None:
    assert decoders.dapd_direct(examples.DAPD_DISTANCE, e["c"], e["tau"]) == e["expected"]


def test_dapd_staged_adds_the_confident_in_the_second_half() -> None:
    c = [0.95, 0.9, 0.6, 0.8]  # order 1, 0, 2, 3; only 1 and 3 are independent at 0.05
    assert decoders.dapd_staged(examples.DAPD_DISTANCE, c, 0.05, remaining=5, length=8) == [1, 3]
    assert decoders.dapd_staged(examples.DAPD_DISTANCE, c, 0.05, remaining=4, length=8) == [0, 1, 3]


@pytest.mark.parametrize("e", examples.DAPD_THRESHOLD)
def test_dapd_threshold(e: examples.Example) -> None:
    tau = decoders.dapd_threshold(e["low"], e["high"], e["remaining"], e["length"])
    assert tau == pytest.approx(e["expected"])


@pytest.mark.parametrize("e", examples.DAPD_LAYERS)
def test_dapd_layers(e: examples.Example) -> None:
    assert decoders.dapd_layers(e["layers"]) == e["expected"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("e", examples.RPD_STABILITY)
def test_rpd_stability(e: examples.Example, family: str) -> None:
    setting = examples.RPD_SETTINGS[family]
    tokens = [0] * (len(e["p"]) - e["agreeing"]) + [7] * e["agreeing"]
    K, r, S = decoders.stability(7, tokens, e["p"], setting["k_max"], setting["w"])
    assert (K, r, S) == (e["K"], pytest.approx(e["r"]), pytest.approx(e["S"][family]))
    assert (setting["theta_s"] <= S) == e["stable"][family]


@pytest.mark.parametrize("family", FAMILIES)
def test_rpd_largest_admissible_drop(family: str) -> None:
    setting, drops = examples.RPD_SETTINGS[family], examples.RPD_LARGEST_DROP[family]
    for K in range(1, 9):
        allowed = (min(K, setting["k_max"]) - setting["theta_s"]) / setting["w"]
        if min(K, 6) in drops:
            assert allowed == pytest.approx(drops[min(K, 6)])
        else:
            assert allowed < 0
    at_six = 1 - (6 - setting["theta_s"]) / setting["w"]
    assert at_six == pytest.approx(examples.RPD_ACCEPTED_AT_SIX[family])


@pytest.mark.parametrize("e", examples.RPD)
def test_rpd(e: examples.Example) -> None:
    stable = [i in e["stable"] for i in range(len(e["c"]))]
    chosen = decoders.candidates(e["c"], stable, 0.6, 0.9)
    assert chosen == e["candidates"]
    upstream = decoders.upstream_entropy(e["H"], chosen)
    assert {i: upstream[i] for i in e["E"]} == pytest.approx(e["E"])
    for rule in (decoders.rpd_scan, decoders.rpd_closed_form):
        chosen = rule(e["c"], e["H"], stable, 0.6, 0.9, e["beta"], e["window"], e["fallback"])
        assert chosen == e["expected"]


# --- statistics ---------------------------------------------------------------------------------------------


def test_statistics_by_hand() -> None:
    z = np.log([0.5, 0.25, 0.25])
    y, c, H = statistics.statistics(z)
    assert (y, c, H) == (0, pytest.approx(0.5), pytest.approx(1.5 * math.log(2)))
    y, c, H = statistics.statistics(z, forbidden=[0])  # the lowest of the tied ids; nothing is renormalised
    assert (y, c, H) == (1, pytest.approx(0.25), pytest.approx(1.5 * math.log(2)))


def test_statistics_of_impossible_ids() -> None:
    y, c, H = statistics.statistics([0.0, -np.inf, 0.0])
    assert (y, c, H) == (0, pytest.approx(0.5), pytest.approx(math.log(2)))


def test_align_doubles_the_first_row() -> None:
    assert statistics.align(np.arange(4)).tolist() == [0, 0, 1, 2]
