"""The references against closed forms and the specification's invariants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import decoders

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
