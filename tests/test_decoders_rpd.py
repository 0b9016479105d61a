"""RPD and its ablation on hand-made views: worked examples, and literal references on random states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import chosen, resolved, run_select, tiny_spec, view
from reference import decoders as literal
from reference import worked_examples as examples
from states import seen, shares, states
from unmask import UserError, decoders
from unmask.canvas import Canvas
from unmask.decoders.base import REASONS, ROUTES

get = decoders.get


# --- RPD ------------------------------------------------------------------------------------------------------


def rpd(**options: Any) -> decoders.Decoder:
    return resolved(get("rpd", **{"theta_c": 0.6, "theta_h": 0.9, "beta": 4.0, **options}))


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("e", examples.RPD)
def test_rpd(e: examples.Example, lazy: bool) -> None:
    decoder = rpd(beta=e["beta"], window=e["window"], fallback=e["fallback"], lazy=lazy)
    stable = [i in e["stable"] for i in range(len(e["c"]))]
    commit, _ = run_select(decoder, view(e["c"], e["H"]), stable=stable)
    assert np.flatnonzero(commit.take).tolist() == e["expected"]
    if not lazy:
        assert {i: commit.columns["E"][i] for i in e["E"]} == pytest.approx(e["E"])
    assert commit.threshold == e["beta"]


@st.composite
def rpd_options(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted(draw(st.tuples(shares, shares)))
    return {
        "theta_c": low,
        "theta_h": high,
        "beta": draw(st.integers(0, 80).map(lambda n: n / 16) | st.just(math.inf)),
        "window": draw(st.integers(1, 14)),
        "fallback": draw(st.sampled_from(["window", "affordable"])),
    }


@given(states(), rpd_options(), st.booleans())
def test_rpd_closed_form_is_the_literal_scan(state: dict[str, Any], options: dict[str, Any], lazy: bool) -> None:
    found = chosen(rpd(**options, lazy=lazy), seen(state), stable=state["stable"])
    assert found == literal.rpd_scan(**state, **options)


@given(states(), shares, shares)
def test_rpd_block_is_the_literal_one(state: dict[str, Any], a: float, b: float) -> None:
    low, high = sorted((a, b))
    decoder = resolved(get("rpd-block", theta_c=low, theta_h=high))
    found = chosen(decoder, seen(state), stable=state["stable"])
    assert found == literal.rpd_block(state["c"], state["stable"], low, high)


@given(states(), rpd_options())
def test_rpd_says_why(state: dict[str, Any], options: dict[str, Any]) -> None:
    """Each verdict, from the definitions: what was confident, stable, unstable, unsure, or held back by E."""
    commit, _ = run_select(rpd(**options, lazy=False), seen(state), stable=state["stable"])
    low, high, beta = options["theta_c"], options["theta_h"], options["beta"]
    C = literal.candidates(state["c"], state["stable"], low, high)
    E = literal.upstream_entropy(state["H"], C)
    hopeless = literal.upstream_entropy(state["H"], [i for i, c in enumerate(state["c"]) if c >= low])
    for i, (c, taken) in enumerate(zip(state["c"], commit.take, strict=True)):
        if taken and i in C and E[i] <= beta:
            expected = "confidence" if c >= high else "stability"
        elif taken:
            expected = "fallback"
        elif i in C:
            expected = "upstream"
        elif low <= c < high:
            expected = "upstream" if hopeless[i] > beta else "unstable"
        else:
            expected = "unsure"
        assert commit.verdict[i] == expected


@given(states(), rpd_options())
def test_rpd_asks_only_about_the_affordable_band(state: dict[str, Any], options: dict[str, Any]) -> None:
    _, asked = run_select(rpd(**options), seen(state), stable=state["stable"])
    low, high = options["theta_c"], options["theta_h"]
    hopeless = literal.upstream_entropy(state["H"], [i for i, c in enumerate(state["c"]) if c >= low])
    wanted = [i for i, c in enumerate(state["c"]) if low <= c < high and hopeless[i] <= options["beta"]]
    assert [request.indices.tolist() for request in asked] == ([wanted] if wanted else [])


# --- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("name", ["rpd", "rpd-paper"])
def test_the_papers_hyperparameters_are_the_defaults(family: str, name: str) -> None:
    expected = dict(examples.RPD_SETTINGS[family])
    spec = tiny_spec(family, layers=expected.pop("layers"))
    params = get(name).resolve(spec, 256).params()
    assert {key: params[key] for key in expected} == expected
    assert params["fallback"] == {"rpd": "affordable", "rpd-paper": "window"}[name]


def test_a_models_own_settings_yield_to_the_users_and_to_the_papers() -> None:
    spec = tiny_spec("llada", rpd={"beta": 1.5, "theta_c": 0.5})
    own, user, paper = get("rpd"), get("rpd", beta=2.0), get("rpd-paper")
    assert [d.resolve(spec, 32).beta for d in (own, user, paper)] == [1.5, 2.0, 4.0]
    assert [d.resolve(spec, 32).theta_c for d in (own, user, paper)] == [0.5, 0.5, 0.6]


@pytest.mark.parametrize("name", ["rpd", "rpd-block"])
@pytest.mark.parametrize(("option", "other"), [({"theta_h": 0.4}, "theta_c"), ({"theta_c": 0.95}, "theta_h")])
def test_a_threshold_past_the_models_other_one_is_refused(name: str, option: dict[str, float], other: str) -> None:
    """Nothing is moved that the user did not move."""
    with pytest.raises(UserError, match=rf"theta_c .* exceeds theta_h .*: set {other} too"):
        get(name, **option).resolve(tiny_spec("llada"), 32)
    assert get(name, **option, **{other: next(iter(option.values()))}).resolve(tiny_spec("llada"), 32)


ABLATION: dict[str, Callable[[dict[str, Any]], list[int]]] = {
    "confidence": lambda s: literal.rpd_scan(
        **s, theta_c=0.9, theta_h=0.9, beta=math.inf, window=256, fallback="window"
    ),
    "confidence+block": lambda s: literal.rpd_block(**{k: s[k] for k in ("c", "stable")}, theta_c=0.9, theta_h=0.9),
    "confidence+pp": lambda s: literal.rpd_block(**{k: s[k] for k in ("c", "stable")}),
    "confidence+ce": lambda s: literal.rpd_scan(**s, theta_c=0.9, theta_h=0.9, fallback="affordable"),
}


@given(states())
def test_ablation_rows(state: dict[str, Any]) -> None:
    for name, expected in ABLATION.items():
        decoder = resolved(get(name))
        assert chosen(decoder, seen(state, length=32), stable=state["stable"]) == expected(state), name
    assert resolved(get("confidence+pp")).w == 0.0
    assert get("confidence").block_length is None and get("confidence+block") == get("fast-dllm")


def test_left_to_right() -> None:
    commit, _ = run_select(get("left-to-right"), view([0.1, 0.9, 0.9], start=4))
    assert np.flatnonzero(commit.take).tolist() == [0]
    assert commit.verdict.tolist() == ["order", "turn", "turn"]


def test_scopes() -> None:
    canvas = Canvas([1, 2], 12, mask_id=0, fixed={0: 5, 5: 5})
    assert get("rpd").scope(canvas).tolist() == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert get("fast-dllm", block_length=4).scope(canvas).tolist() == [1, 2, 3]
    canvas.commit([1, 2, 3], [5, 5, 5])
    assert get("fast-dllm", block_length=4).scope(canvas).tolist() == [4, 6, 7]
    assert get("fast-dllm", block_length=None).scope(canvas).tolist() == canvas.open_positions().tolist()


def test_every_verdict_is_documented() -> None:
    assert len(set(ROUTES) | set(REASONS)) == len(ROUTES) + len(REASONS)
