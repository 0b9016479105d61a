"""The references against the specification: worked examples, closed forms, invariants, self-consistency."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import checkpoints
from reference import backbone, decoders, loop, statistics
from reference import worked_examples as examples

FAMILIES = ("llada", "dream")
GOLDEN = Path(__file__).parent / "golden"


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


# --- invariants of the rules --------------------------------------------------------------------------------

# Sixteenths: ties and equalities with thresholds are common, and sums are exact.
shares = st.integers(0, 16).map(lambda n: n / 16)
entropies = st.integers(0, 48).map(lambda n: n / 16)


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 12))
    row = {
        "c": st.lists(shares, min_size=n, max_size=n),
        "H": st.lists(entropies, min_size=n, max_size=n),
        "stable": st.lists(st.booleans(), min_size=n, max_size=n),
        "masked": st.lists(st.booleans(), min_size=n, max_size=n).filter(any),
    }
    return {name: draw(values) for name, values in row.items()}


@st.composite
def settings_of_rpd(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted(draw(st.tuples(shares, shares)))
    return {
        "theta_c": low,
        "theta_h": high,
        "beta": draw(st.integers(0, 80).map(lambda n: n / 16) | st.just(math.inf)),
        "window": draw(st.integers(1, 14)),
        "fallback": draw(st.sampled_from(["window", "affordable"])),
    }


@given(states(), settings_of_rpd())
def test_rpd_closed_form_is_the_scan(state: dict[str, Any], rpd: dict[str, Any]) -> None:
    assert decoders.rpd_scan(**state, **rpd) == decoders.rpd_closed_form(**state, **rpd)


def budgeted(state: Mapping[str, Any], rpd: Mapping[str, Any]) -> list[int]:
    """A before any fallback."""
    chosen = decoders.candidates(state["c"], state["stable"], rpd["theta_c"], rpd["theta_h"], state["masked"])
    upstream = decoders.upstream_entropy(state["H"], chosen, state["masked"])
    return [i for i in chosen if upstream[i] <= rpd["beta"]]


@given(states(), settings_of_rpd())
def test_rpd_commits_masks_only_and_at_least_one(state: dict[str, Any], rpd: dict[str, Any]) -> None:
    chosen = decoders.rpd_scan(**state, **rpd)
    assert chosen and all(state["masked"][i] for i in chosen)
    assert chosen == budgeted(state, rpd) or (len(chosen) == 1 and not budgeted(state, rpd))


@given(states(), settings_of_rpd())
def test_rpd_commits_a_leftmost_candidate(state: dict[str, Any], rpd: dict[str, Any]) -> None:
    first = state["masked"].index(True)
    if first in decoders.candidates(state["c"], state["stable"], rpd["theta_c"], rpd["theta_h"], state["masked"]):
        assert first in decoders.rpd_scan(**state, **rpd)


@given(states(), settings_of_rpd())
def test_rpd_without_budget_stops_at_the_first_uncertainty(state: dict[str, Any], rpd: dict[str, Any]) -> None:
    rpd["beta"] = 0.0
    chosen = decoders.candidates(state["c"], state["stable"], rpd["theta_c"], rpd["theta_h"], state["masked"])
    among = decoders.positions(len(state["c"]), state["masked"])
    wall = min((i for i in among if i not in chosen and state["H"][i] > 0), default=len(state["c"]))
    assert budgeted(state, rpd) == [i for i in chosen if i < wall]


@given(states(), settings_of_rpd(), st.integers(0, 32).map(lambda n: n / 16), shares, st.data())
def test_rpd_never_shrinks_when_loosened(
    state: dict[str, Any], rpd: dict[str, Any], more: float, less: float, data: st.DataObject
) -> None:
    looser = rpd | {"beta": rpd["beta"] + more, "theta_c": min(rpd["theta_c"], less)}
    steadier = [s or data.draw(st.booleans()) for s in state["stable"]]  # a lower theta_s or w
    assert set(budgeted(state, rpd)) <= set(budgeted(state | {"stable": steadier}, looser))


@given(st.lists(shares, min_size=1, max_size=8), st.integers(0, 3), st.integers(0, 3), shares)
def test_stability_rises_as_w_falls(p: list[float], low: int, extra: int, odd: float) -> None:
    tokens = [7 if share > odd or n == len(p) - 1 else 0 for n, share in enumerate(p)]
    K, r, S = decoders.stability(7, tokens, p, 6, low)
    assert 1 <= K <= len(p) and r >= 0 and min(K, 6) >= S
    assert decoders.stability(7, tokens, p, 6, low + extra)[2] <= S


@given(states(), settings_of_rpd())
def test_affordable_fallback_never_leaves_the_budget(state: dict[str, Any], rpd: dict[str, Any]) -> None:
    rpd["fallback"] = "affordable"
    chosen = decoders.candidates(state["c"], state["stable"], rpd["theta_c"], rpd["theta_h"], state["masked"])
    upstream = decoders.upstream_entropy(state["H"], chosen, state["masked"])
    assert all(upstream[i] <= rpd["beta"] for i in decoders.rpd_scan(**state, **rpd))


@given(states(), settings_of_rpd())
def test_rpd_may_skip_what_the_budget_excludes(state: dict[str, Any], rpd: dict[str, Any]) -> None:
    """Exact laziness (i): band positions behind too much hopeless entropy need no readout."""
    hopeless, skipped = 0.0, list(state["stable"])
    for i in decoders.positions(len(state["c"]), state["masked"]):
        if hopeless > rpd["beta"]:
            skipped[i] = False
        if state["c"][i] < rpd["theta_c"]:
            hopeless += state["H"][i]
    assert decoders.rpd_scan(**state, **rpd) == decoders.rpd_scan(**state | {"stable": skipped}, **rpd)


def lazy_stable(tokens: list[int], p: list[float], y: int, k_max: int, w: float, theta_s: float) -> bool:
    """Exact laziness (ii): walk the layers backward and stop as soon as the answer is known."""
    c, drop = p[-1], 0.0
    for k, (token, share) in enumerate(zip(reversed(tokens), reversed(p), strict=True), start=1):
        if token != y:
            return min(k - 1, k_max) - w * drop >= theta_s
        drop = max(drop, share - c)
        if k_max - w * drop < theta_s:
            return False
        if min(k, k_max) - w * (1 - c) >= theta_s:
            return True
    return min(len(tokens), k_max) - w * drop >= theta_s


@given(
    st.lists(st.tuples(shares, st.integers(0, 3)), min_size=1, max_size=9),
    st.integers(1, 7),
    st.integers(0, 24),
    st.integers(1, 24).map(lambda n: n / 4),
)
def test_layer_walk_may_stop_early(layers: list[tuple[float, int]], k_max: int, w: int, theta_s: float) -> None:
    p, tokens = [share for share, _ in layers], [1 if other else 0 for _, other in layers]
    tokens[-1] = 1
    _, _, S = decoders.stability(1, tokens, p, k_max, w)
    assert lazy_stable(tokens, p, 1, k_max, w, theta_s) == (theta_s <= S)


@given(states(), shares)
def test_rpd_block_with_an_empty_band_is_fast_dllm(state: dict[str, Any], tau: float) -> None:
    c, masked = state["c"], state["masked"]
    assert decoders.rpd_block(c, state["stable"], tau, tau, masked) == decoders.fast_threshold(c, tau, masked)


@given(states(), shares)
def test_rpd_without_band_budget_or_window_is_full_canvas_confidence(state: dict[str, Any], tau: float) -> None:
    unbounded = decoders.rpd_scan(**state, theta_c=tau, theta_h=tau, beta=math.inf, window=256)
    assert unbounded == decoders.fast_threshold(state["c"], tau, state["masked"])


@given(states(), shares)
def test_lopa_anchor_is_the_threshold_rule_up_to_strictness(state: dict[str, Any], tau: float) -> None:
    strict = [share - 1 / 32 for share in state["c"]]  # c > tau exactly where c - 1/32 >= tau
    assert decoders.lopa_anchor(state["c"], tau, state["masked"]) == decoders.fast_threshold(
        strict, tau, state["masked"]
    )


@given(states(), st.integers(0, 32).map(lambda n: n / 16))
def test_eb_counts_a_prefix(state: dict[str, Any], gamma: float) -> None:
    c, H, masked = state["c"], state["H"], state["masked"]
    among = decoders.positions(len(c), masked)
    costs = decoders.eb_costs(H, decoders.ranked(c, among))
    assert costs[0] == 0 and costs == sorted(costs)
    assert decoders.eb(c, H, math.inf, masked) == among
    assert set(decoders.eb(c, H, gamma, masked)) <= set(decoders.eb(c, H, gamma + 0.5, masked))


@given(states(), st.sampled_from(["confidence", "entropy", "margin"]))
def test_eb_proxies_commit_something(state: dict[str, Any], proxy: Any) -> None:
    assert decoders.eb(state["c"], state["H"], 0.1, state["masked"], proxy, margin=state["c"])


@given(states(), st.integers(1, 16).map(lambda n: n / 8))
def test_factor_rule_is_a_prefix_and_the_quirk_adds_one(state: dict[str, Any], f: float) -> None:
    c, masked = state["c"], state["masked"]
    clean, quirk = decoders.fast_factor(c, f, False, masked), decoders.fast_factor(c, f, True, masked)
    order = decoders.ranked(c, decoders.positions(len(c), masked))
    assert clean == sorted(order[: len(clean)])
    assert quirk == (sorted(order) if len(clean) == len(order) - 1 else clean)


@given(states(), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_dapd_commits_an_independent_set(state: dict[str, Any], seed: int, tau: float) -> None:
    c, masked = state["c"], state["masked"]
    attention = np.random.default_rng(seed).dirichlet(np.full(len(c), 0.3), len(c))
    among = decoders.positions(len(c), masked)
    assert decoders.dapd_direct(attention, c, 1.0, masked) == among  # no threshold, whole block
    chosen = decoders.dapd_direct(attention, c, tau, masked)
    assert chosen and set(chosen) <= set(among)
    assert all(i in chosen for i in among if c[i] >= decoders.CERTAIN)


@given(st.integers(0, 600), st.integers(1, 600))
def test_llada_schedule_commits_everything_evenly(n: int, s: int) -> None:
    counts = decoders.llada_schedule(n, s)
    assert sum(counts) == n and len(counts) == s and max(counts) - min(counts) <= 1
    assert counts == sorted(counts, reverse=True)


@given(st.integers(0, 300), st.integers(1, 300))
@settings(max_examples=50)
def test_dream_schedule_commits_everything(n: int, steps: int) -> None:
    counts = decoders.dream_schedule(n, steps)
    assert sum(counts) == n and len(counts) == steps and min(counts) >= 0


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 2))
def test_llada_noise_is_gumbel_max(seed: int, temperature: float) -> None:
    rng = np.random.default_rng(seed)
    z, u = rng.normal(0, 3, 12), rng.uniform(1e-6, 1 - 1e-6, 12)
    gumbel = z - temperature * np.log(-np.log(u))
    assert decoders.llada_noisy(z, u, temperature).argmax() == gumbel.argmax()


def test_llada_end_of_text_flags() -> None:
    z, u = [3.0, 2.0, 1.0], [0.5, 0.5, 0.5]  # ids: 0 end of text, 1 end of turn, 2 anything
    ids: dict[str, Any] = {"eos": 0, "eot": 1}
    assert decoders.llada_propose(z, **ids)[0] == 0
    assert decoders.llada_propose(z, **ids, logits_eos_inf=True)[0] == 1
    assert decoders.llada_propose(z, **ids, confidence_eos_eot_inf=True) == (0, 0.0)
    escaped = decoders.llada_propose(z, u, 0.5, **ids, confidence_eos_eot_inf=True)
    assert escaped == (
        0,
        pytest.approx(1 / (1 + math.exp(-2))),
    )  # EOS escapes the flag at T > 0, EOT does not
    turn = decoders.llada_propose([1.0, 3.0, 2.0], u, 0.5, **ids, confidence_eos_eot_inf=True)
    assert turn == (1, 0.0)


# --- the backbone -------------------------------------------------------------------------------------------


def golden(family: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(config, weights, everything else)"""
    config = json.loads((GOLDEN / f"{family}.json").read_text())
    with np.load(GOLDEN / f"{family}.npz") as file:
        arrays = dict(file)
    weights = {key.removeprefix("weight."): x for key, x in arrays.items() if key.startswith("weight.")}
    return config, weights, {key: x for key, x in arrays.items() if not key.startswith("weight.")}


@pytest.mark.parametrize("family", FAMILIES)
def test_goldens_are_reproduced_in_float32(family: str) -> None:
    config, weights, g = golden(family)
    for prefix, mask in (("", None), ("masked_", g["mask"])):
        logits, hidden = backbone.forward(config, weights, g["ids"], mask)
        assert logits.dtype == np.float32 and len(hidden) == 5
        np.testing.assert_allclose(logits, g[f"{prefix}logits"], atol=5e-5)
        np.testing.assert_allclose(np.stack(hidden), g[f"{prefix}hidden"], atol=5e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_nothing_on_valid_rows(family: str) -> None:
    config, weights, g = golden(family)
    shifted = np.where(g["mask"] == 1, g["mask"].cumsum(axis=1) - 1, 1)
    for positions in (None, shifted):
        logits, _ = backbone.forward(config, weights, g["ids"], g["mask"], positions, np.float64)
        for row in range(3):
            valid = g["mask"][row] == 1
            alone, _ = backbone.forward(config, weights, g["ids"][row : row + 1, valid], dtype=np.float64)
            np.testing.assert_allclose(logits[row, valid], alone[0], atol=2e-5)
        assert np.isfinite(logits).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_states_are_not_normalised(family: str) -> None:
    """Normalising once gives the logits; the stored states are neither unit-scale nor idempotent."""
    config, weights, g = golden(family)
    states = g["hidden"].astype(np.float64)
    np.testing.assert_allclose(backbone.readout(config, weights, states[-1]), g["logits"], atol=1e-5)
    layout = backbone.layout(config)
    normed = backbone.rms_norm(states[-1], weights[layout.final_norm + ".weight"], layout.eps)
    assert np.abs(backbone.readout(config, weights, normed) - g["logits"]).max() > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_maps_are_distributions_over_valid_keys(family: str) -> None:
    config, weights, g = golden(family)
    maps = backbone.attention_maps(config, weights, g["ids"], g["mask"], [3, 4])
    assert maps.shape == (2, 3, 10, 10)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    assert (maps[:, 1, :, :3] == 0).all() and (maps[:, 2, :, :6] == 0).all()


# --- checkpoints and tokenizers -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_checkpoint_index_matches_its_shards(tmp_path: Path, family: Any, dtype: str) -> None:
    checkpoints.write_checkpoint(tmp_path, family, dtype=dtype, layers=4)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    found, size = {}, 0
    for path in sorted(tmp_path.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118 - not a dict
                tensor = file.get_tensor(key)
                found[key], size = path.name, size + tensor.numel() * tensor.element_size()
    assert found == index["weight_map"]
    assert size == index["metadata"]["total_size"]
    config = json.loads((tmp_path / "config.json").read_text())
    assert set(found) == set(checkpoints.tensor_shapes(config))
    if family == "llada":
        per_block = [{f for k, f in found.items() if f".blocks.{n}." in k} for n in range(4)]
        assert len(set(found.values())) == 6 and all(len(files) > 2 for files in per_block)
    else:
        straddling = [n for n in range(4) if len({f for k, f in found.items() if f".layers.{n}." in k}) == 2]
        head_shard = found["lm_head.weight"]
        assert len(straddling) == 2 and list(found.values()).count(head_shard) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_single_file_checkpoint(tmp_path: Path, family: Any) -> None:
    checkpoints.write_checkpoint(tmp_path, family, shards=False, layers=2)
    assert [p.name for p in tmp_path.glob("*.safetensors*")] == ["model.safetensors"]


def load_tokenizer(folder: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    if (folder / "tokenizer.json").exists():
        return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), config
    bpe = tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    qwen = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    pre = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.Split(tokenizers.Regex(qwen + r"|\s+(?!\S)|\s+"), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    added = sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0]))
    tokenizer.add_tokens([tokenizers.AddedToken(t["content"], normalized=False) for _, t in added])
    return tokenizer, config


def one_turn(config: dict[str, Any], content: str) -> str:
    template = jinja2.Template(config["chat_template"])
    messages = [{"role": "user", "content": content}]
    return template.render(messages=messages, bos_token=config["bos_token"], add_generation_prompt=True)


DREAM_SYSTEM = [151644, 8948, 198, 2610, 525, 264, 10950, 17847, 13, 151645, 198]
TURN = [22, 220, 16, 17]  # "7 12"
PUBLISHED_TURN = {
    "llada": (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n7 12<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        [126080, 126346, 3840, 126347, 198, 198, *TURN, 126348, 126346, 598, 10450, 126347, 198, 198],
    ),
    "dream": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n7 12<|im_end|>\n"
        "<|im_start|>assistant\n",
        [*DREAM_SYSTEM, 151644, 872, 198, *TURN, 151645, 198, 151644, 77091, 198],
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_published_ids_of_one_turn(tmp_path: Path, family: Any) -> None:
    checkpoints.write_published_ids_tokenizer(tmp_path, family)
    tokenizer, config = load_tokenizer(tmp_path)
    text = one_turn(config, "7 12")
    assert (text, tokenizer.encode(text, add_special_tokens=False).ids) == PUBLISHED_TURN[family]
    special = {"llada": {"<|mdm_mask|>": 126336}, "dream": {"<|mask|>": 151666, "<|beginoftext|>": 151665}}
    for token, n in special[family].items():
        assert tokenizer.token_to_id(token) == n


@pytest.mark.parametrize("family", FAMILIES)
def test_small_tokenizer_encodes_any_text(tmp_path: Path, family: Any) -> None:
    checkpoints.write_checkpoint(tmp_path, family, layers=1)
    tokenizer, config = load_tokenizer(tmp_path)
    for n, token in config["added_tokens_decoder"].items():
        assert tokenizer.token_to_id(token["content"]) == int(n)
    text = "The user's 世界 costs €12.50;\n\n\tthe assistant is counting. 🍎"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode(" 12").ids == [220, 16, 17]
    model = json.loads((tmp_path / "config.json").read_text())
    assert max(ids) < model["mask_token_id"] < model["vocab_size"] - 8  # unused rows above the tokenizer
    mask = "<|mdm_mask|>" if family == "llada" else "<|mask|>"
    assert tokenizer.token_to_id(mask) == model["mask_token_id"]
    assert tokenizer.token_to_id("<|endoftext|>") == model["eos_token_id"] == model["pad_token_id"]


# --- whole decodings ----------------------------------------------------------------------------------------

PROMPT = [39, 68, 75, 75, 78, 220, 16, 17]
LENGTH = 32


def small_model(family: Any) -> loop.Model:
    config = checkpoints.checkpoint_config(family)
    top = max(checkpoints.small_vocabulary(family).added.values())
    forbidden = [config["mask_token_id"], *range(top + 1, config["vocab_size"])]
    return loop.Model(config, checkpoints.random_weights(config, seed=0), forbidden)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> loop.Model:
    return small_model(request.param)


def test_the_random_weights_spread_confidence(model: loop.Model) -> None:
    view = model.view([*PROMPT, *[model.mask_id] * LENGTH])
    c = np.array(view.c[len(PROMPT) :])
    assert (c >= 0.9).any() and ((c >= 0.6) & (c < 0.9)).any() and (c < 0.6).any()
    assert len(set(view.y[len(PROMPT) :])) > 8


RPD: dict[str, Any] = {"first_layer": 2, "theta_s": 1.5, "w": 4.0}
DECODINGS = {
    "llada": lambda m: loop.decode_llada(m, PROMPT, LENGTH, steps=16, block=16),
    "dream": lambda m: loop.decode_dream(m, PROMPT, LENGTH, steps=16),
    "fast": lambda m: loop.decode_fast(m, PROMPT, LENGTH, block=16),
    "factor": lambda m: loop.decode_factor(m, PROMPT, LENGTH, block=16),
    "eb": lambda m: loop.decode_eb(m, PROMPT, LENGTH, block=16),
    "lopa": lambda m: loop.decode_lopa(m, PROMPT, LENGTH, block=16),
    "dapd": lambda m: loop.decode_dapd(m, PROMPT, LENGTH, 0.005, 0.05, block=16),
    "rpd": lambda m: loop.decode_rpd(m, PROMPT, LENGTH, **RPD),
    "rpd-affordable": lambda m: loop.decode_rpd(m, PROMPT, LENGTH, **RPD, fallback="affordable"),
    "rpd-block": lambda m: loop.decode_rpd_block(m, PROMPT, LENGTH, **RPD, block=16),
}


@pytest.mark.parametrize("name", DECODINGS)
def test_every_decoding_fills_the_canvas(model: loop.Model, name: str) -> None:
    out = DECODINGS[name](model)
    assert out.ids[: len(PROMPT)] == PROMPT
    assert not set(out.ids) & set(model.forbidden)
    assert sum(map(len, out.steps)) == LENGTH  # every position once
    assert out.nfe <= LENGTH


def test_lopa_without_branches_is_the_threshold_rule(model: loop.Model) -> None:
    """No confidence equals the threshold exactly, so strictness does not matter."""
    without = loop.decode_lopa(model, PROMPT, LENGTH, k=0, block=16)
    threshold = loop.decode_fast(model, PROMPT, LENGTH, block=16)
    assert (without.ids, without.steps) == (threshold.ids, threshold.steps)


def test_rpd_block_with_an_empty_band_decodes_like_fast_dllm(model: loop.Model) -> None:
    empty = loop.decode_rpd_block(model, PROMPT, LENGTH, **RPD, theta_c=0.9, block=16)
    assert empty == loop.decode_fast(model, PROMPT, LENGTH, block=16)
