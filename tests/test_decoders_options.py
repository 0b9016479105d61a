"""Decoders by name: what their options refuse, and with which sentence."""

from __future__ import annotations

import math
from typing import Any

import pytest

import unmask
from helpers import CANVAS, LENIENT, commits, decode, tiny_spec
from unmask import UserError, decoders

get = decoders.get


# --- names and options ----------------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("llada-default", {"steps": 0}, "steps must be"),
    ("llada-default", {"steps": 2.5}, "steps"),
    ("llada-default", {"temperature": -0.1}, "temperature must be"),
    ("llada-default", {"temperature": math.nan}, "temperature must be"),
    ("llada-default", {"temperature": math.inf}, "temperature must be"),
    ("llada-default", {"temperature": 1e308}, "temperature must be 0 or between"),
    ("llada-default", {"temperature": 1e-300}, "temperature must be 0 or between"),
    ("llada-default", {"cfg_scale": 1e308}, "cfg_scale must be between"),
    ("llada-default", {"cfg_scale": -1.0}, "cfg_scale must be"),
    ("llada-default", {"cfg_scale": math.inf}, "cfg_scale must be"),
    ("llada-default", {"remasking": "low"}, "remasking must be one of low_confidence, random"),
    ("llada-default", {"block_length": 0}, "block_length must be"),
    ("llada-default", {"logits_eos_inf": "no"}, "logits_eos_inf"),
    ("dream-default", {"steps": 0}, "steps must be"),
    ("dream-default", {"eps": 0.0}, "eps must lie"),
    ("dream-default", {"eps": 1.0}, "eps must lie"),
    ("dream-default", {"eps": math.nan}, "eps must lie"),
    ("dream-default", {"temperature": -1.0}, "temperature must be"),
    ("dream-default", {"top_p": 0.0}, "top_p must lie"),
    ("dream-default", {"top_p": 1.1}, "top_p must lie"),
    ("dream-default", {"top_k": 0}, "top_k must be"),
    ("dream-default", {"alg": "margin"}, "alg must be one of entropy"),
    ("dream-default", {"temperature": 1e-38}, "temperature must be 0 or between"),
    ("dream-default", {"alg_temp": -1.0}, "alg_temp must be"),
    ("dream-default", {"alg_temp": 1e-308}, "alg_temp must be"),
    ("fast-dllm", {"threshold": 1.01}, "threshold must lie"),
    ("fast-dllm", {"threshold": math.nan}, "threshold must lie"),
    ("fast-dllm", {"threshold": "0.9"}, "threshold"),
    ("fast-dllm", {"factor": -1.0}, "factor must be"),
    ("fast-dllm", {"quirk": 1}, "quirk"),
    ("eb-sampler", {"gamma": -0.1}, "gamma must be"),
    ("eb-sampler", {"gamma": math.nan}, "gamma must be"),
    ("eb-sampler", {"proxy": "entropi"}, "proxy must be one of"),
    ("lopa", {"branches": -1}, "branches must be"),
    ("lopa", {"branches": 1.5}, "branches"),
    ("lopa", {"threshold": -0.1}, "threshold must lie"),
    ("dapd", {"variant": "indirect"}, "variant must be one of direct, staged, not 'indirect'"),
    ("dapd", {"task": "gsm"}, "task must be one of"),
    ("dapd", {"tau_min": -0.1}, "tau_min and tau_max"),
    ("dapd", {"tau_min": math.inf, "tau_max": math.inf}, "tau_min and tau_max"),
    ("dapd", {"skip": 1.0}, "skip must lie"),
    ("dapd", {"direct": 2.0}, "direct must lie"),
    ("dapd", {"staged_confidence": -1.0}, "staged_confidence"),
    ("rpd", {"beta": -1.0}, "beta must be 0 or more, not -1"),
    ("rpd", {"beta": math.nan}, "beta must be"),
    ("rpd", {"beta": "4"}, "beta"),
    ("rpd", {"theta_c": 0.95, "theta_h": 0.9}, "theta_c 0.95 exceeds theta_h 0.9"),
    ("rpd", {"theta_h": 1.5}, "theta_h and theta_c must lie"),
    ("rpd", {"theta_s": math.nan}, "theta_s must be"),
    ("rpd", {"w": -1.0}, "w must be"),
    ("rpd", {"w": math.inf}, "w must be"),
    ("rpd", {"w": 1e308}, "w must be 0 or more, and at most 1000000"),
    ("rpd", {"theta_s": 1e308}, "theta_s must be a number within 1000000"),
    ("rpd-block", {"theta_s": -1e7}, "theta_s must be"),
    ("dream-default", {"steps": int("9" * 400)}, "steps must be at least 1 and at most 1000000"),
    ("llada-default", {"steps": 10**6 + 1}, "steps must be at least 1 and at most 1000000"),
    ("rpd", {"k_max": 0}, "k_max must be"),
    ("rpd", {"window": 0}, "window must be"),
    ("rpd", {"window": True}, "window"),
    ("rpd", {"fallback": "leftmost"}, "fallback must be one of affordable, window"),
    ("rpd", {"settings": "mine"}, "settings must be"),
    ("rpd", {"first_layer": 0}, "first_layer must be"),
    ("rpd-block", {"block_length": -4}, "block_length must be"),
    ("rpd-block", {"theta_c": 1.0, "theta_h": 0.5}, "exceeds"),
]


@pytest.mark.parametrize(("name", "options", "words"), BAD, ids=lambda value: str(value)[:40])
def test_values_that_make_no_sense(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        get(name, **options)
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize(
    ("name", "options", "length", "words"),
    [
        ("fast-dllm", {}, 48, r"block_length 32 does not divide the canvas of 48: use one of 1, 2, .*24, 48"),
        ("rpd-block", {"block_length": 5}, 16, "does not divide"),
        ("llada-default", {"block_length": 8, "steps": 5}, 16, "steps 5 does not divide into 2 blocks"),
        ("rpd", {"first_layer": 7}, 16, "first_layer 7 is past the model's 6 layers"),
        ("dapd", {"tau_min": 0.5}, 32, r"tau_min 0\.5 exceeds tau_max 0\.05"),
    ],
)
def test_values_that_do_not_fit_the_model_or_the_canvas(
    name: str, options: dict[str, Any], length: int, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        get(name, **options).resolve(tiny_spec(), length)


@pytest.mark.parametrize("name", ["rpd", "rpd-block"])
def test_no_more_layers_can_agree_than_there_are(name: str, model: unmask.Model) -> None:
    wide, whole = ({**LENIENT, "k_max": k_max, "w": 0.0} for k_max in (10**21, model.spec.layers))
    a, b = (decode(model, "Hi", name, canvas_length=CANVAS, **options) for options in (wide, whole))
    assert commits(a) == commits(b) and a.trace.header["params"] == b.trace.header["params"]
    assert "stability" in a.trace.route_counts()


@pytest.mark.parametrize("theta_s", [math.inf, -math.inf])
def test_stability_may_be_switched_off_or_on(theta_s: float, model: unmask.Model) -> None:
    routes = decode(model, "Hi", "rpd", canvas_length=CANVAS, **{**LENIENT, "theta_s": theta_s}).trace.route_counts()
    assert ("stability" in routes) == (theta_s < 0)


def test_unknown_names_and_options_are_answered_with_near_ones() -> None:
    with pytest.raises(UserError, match=r"unknown decoder 'fastdllm'; did you mean fast-dllm"):
        get("fastdllm")
    with pytest.raises(UserError, match=r"unknown decoder 'zzz'; known: .*rpd-paper"):
        get("zzz")
    with pytest.raises(UserError, match=r"unknown option of rpd 'betta'; did you mean beta"):
        get("rpd", betta=4.0)
    with pytest.raises(UserError, match="left-to-right takes no options, but 'beta' was given"):
        get("left-to-right", beta=4.0)
    with pytest.raises(UserError, match="pass spec"):
        get("default")


@pytest.mark.parametrize(("family", "name"), [("llada", "llada-default"), ("dream", "dream-default")])
def test_default_is_the_models_own(family: str, name: str) -> None:
    assert get("default", spec=tiny_spec(family)).name == name


def test_every_listed_name_can_be_made_and_described() -> None:
    for name in decoders.names()[1:]:
        decoder = get(name)
        assert decoder.summary and decoder == get(name) and hash(decoder) == hash(get(name))


def test_a_preset_yields_to_the_users_options() -> None:
    assert get("rpd-paper", fallback="affordable").fallback == "affordable"
    assert get("confidence", block_length=8).block_length == 8
