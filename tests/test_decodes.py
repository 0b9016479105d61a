"""Whole decodes against the literal loop over the NumPy backbone: token for token, step for step, NFE for NFE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import unmask
from helpers import CANVAS, LENIENT, ExactModel, commits, decode
from reference import decoders as literal
from reference import loop as literal_loop
from unmask import decoders

PROMPTS = ("Hello 12", "the user and the assistant, 2024")


class Guided(ExactModel):
    """Classifier-free guidance: every view is of z_u + (w + 1)(z_c - z_u). Both rows are one call."""

    def __init__(self, plain: ExactModel, prompt: int, w: float) -> None:
        super().__init__(plain.config, plain.weights, plain.forbidden)
        self.prompt, self.w = prompt, w

    def run(self, canvas: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        logits, hidden = super().run(canvas)
        free, _ = super().run([*[self.mask_id] * self.prompt, *canvas[self.prompt :]])
        return literal.llada_guidance(logits, free, self.w), hidden


class WithoutForbidden(ExactModel):
    """Dream samples, so what may not be chosen has no probability at all (it keeps it for the other decoders)."""

    def run(self, canvas: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        logits, hidden = super().run(canvas)
        logits = logits.copy()
        logits[:, list(self.forbidden)] = -np.inf
        return logits, hidden


Literal = Callable[[ExactModel, list[int]], literal_loop.Decoded]


def dream(**options: Any) -> Literal:
    def run(m: ExactModel, p: list[int]) -> literal_loop.Decoded:
        return literal_loop.decode_dream(WithoutForbidden(m.config, m.weights, m.forbidden), p, CANVAS, **options)

    return run


def eb(proxy: Any, gamma: float) -> Literal:
    def rule(run: literal_loop.Run, v: literal_loop.View, masked: list[bool]) -> list[int]:
        margins = []
        for row in v.logits:
            p = np.delete(literal.softmax(row), list(run.model.forbidden))  # what may be chosen, not renormalised
            second, first = sorted(p)[-2:]
            margins.append(first - second)
        return literal.eb(v.c, v.H, gamma, masked, proxy, margins)

    return lambda m, p: literal_loop.decode(m, p, CANVAS, 16, rule)


def staged(low: float, high: float) -> Literal:
    def rule(run: literal_loop.Run, v: literal_loop.View, masked: list[bool]) -> list[int]:
        tau = literal.dapd_threshold(low, high, sum(run.open), CANVAS)
        return literal.dapd_staged(run.model.attention(run.out.ids), v.c, tau, sum(run.open), CANVAS, masked)

    return lambda m, p: literal_loop.decode(m, p, CANVAS, 16, rule)


RPD = LENIENT  # first_layer 2, theta_s 1.5, w 4
GREEDY: dict[str, Any] = {"temperature": 0.0, "top_p": None}


def rpd(**options: Any) -> Literal:
    return lambda m, p: literal_loop.decode_rpd(m, p, CANVAS, **RPD, **{"fallback": "affordable", **options})


# name, options, and the same decode spelled out
DECODES: dict[str, tuple[str, dict[str, Any], Literal]] = {
    "llada": (
        "llada-default",
        {"block_length": 16, "steps": 16},
        lambda m, p: literal_loop.decode_llada(m, p, CANVAS, 16, 16),
    ),
    "llada, uneven": (
        "llada-default",
        {"block_length": 16, "steps": 10},
        lambda m, p: literal_loop.decode_llada(m, p, CANVAS, 10, 16),
    ),
    "llada, one a step": ("llada-default", {}, lambda m, p: literal_loop.decode_llada(m, p, CANVAS, CANVAS, 32)),
    "llada, guided": (
        "llada-default",
        {"block_length": 16, "steps": 16, "cfg_scale": 0.7},
        lambda m, p: literal_loop.decode_llada(Guided(m, len(p), 0.7), p, CANVAS, 16, 16),
    ),
    "dream, entropy": ("dream-default", {**GREEDY, "steps": 12}, dream(steps=12)),
    "dream, one a step": ("dream-default", GREEDY, dream(steps=CANVAS)),
    "dream, nucleus": ("dream-default", {**GREEDY, "top_p": 0.6, "steps": 12}, dream(steps=12, top_p=0.6)),
    "dream, maskgit": (
        "dream-default",
        {**GREEDY, "top_k": 3, "alg": "maskgit_plus", "steps": 9},
        dream(steps=9, top_k=3, alg="maskgit_plus"),
    ),
    "dream, margin": (
        "dream-default",
        {**GREEDY, "alg": "topk_margin", "eps": 0.2, "steps": 9},
        dream(steps=9, alg="topk_margin", eps=0.2),
    ),
    "threshold": ("fast-dllm", {"block_length": 16}, lambda m, p: literal_loop.decode_fast(m, p, CANVAS, 0.9, 16)),
    "threshold, canvas": (
        "confidence",
        {"threshold": 0.7},
        lambda m, p: literal_loop.decode_fast(m, p, CANVAS, 0.7, None),
    ),
    "factor": (
        "fast-dllm",
        {"block_length": 16, "factor": 1.0},
        lambda m, p: literal_loop.decode_factor(m, p, CANVAS, 1.0, block=16),
    ),
    "factor, quirk": (
        "fast-dllm",
        {"block_length": 8, "factor": 1.5, "quirk": True},
        lambda m, p: literal_loop.decode_factor(m, p, CANVAS, 1.5, True, block=8),
    ),
    "eb": ("eb-sampler", {"block_length": 16, "gamma": 0.5}, eb("confidence", 0.5)),
    "eb, entropy": ("eb-sampler", {"block_length": 16, "gamma": 0.5, "proxy": "entropy"}, eb("entropy", 0.5)),
    "eb, margin": ("eb-sampler", {"block_length": 16, "gamma": 0.5, "proxy": "margin"}, eb("margin", 0.5)),
    "lopa": ("lopa", {"block_length": 16}, lambda m, p: literal_loop.decode_lopa(m, p, CANVAS, block=16)),
    "lopa, k = 1": (
        "lopa",
        {"block_length": 8, "branches": 1, "threshold": 0.7},
        lambda m, p: literal_loop.decode_lopa(m, p, CANVAS, 0.7, 1, 8),
    ),
    "lopa, k = 0": (
        "lopa",
        {"block_length": 16, "branches": 0},
        lambda m, p: literal_loop.decode_fast(m, p, CANVAS, 0.9, 16),
    ),
    "dapd": (
        "dapd",
        {"block_length": 16, "tau_min": 0.005, "tau_max": 0.05},
        lambda m, p: literal_loop.decode_dapd(m, p, CANVAS, 0.005, 0.05, 16),
    ),
    "dapd, loose": (
        "dapd",
        {"block_length": 8, "tau_min": 0.2, "tau_max": 0.9},
        lambda m, p: literal_loop.decode_dapd(m, p, CANVAS, 0.2, 0.9, 8),
    ),
    "dapd, staged": (
        "dapd",
        {"block_length": 16, "variant": "staged", "tau_min": 0.05, "tau_max": 0.3},
        staged(0.05, 0.3),
    ),
    "rpd": ("rpd", {**RPD, "beta": 4.0}, rpd()),
    "rpd, eager": ("rpd", {**RPD, "lazy": False}, rpd()),
    "rpd, window": ("rpd", {**RPD, "fallback": "window", "window": 5}, rpd(fallback="window", window=5)),
    "rpd, generous": (
        "rpd",
        {**RPD, "beta": 20.0, "theta_c": 0.5, "theta_h": 0.8},
        rpd(beta=20.0, theta_c=0.5, theta_h=0.8),
    ),
    "rpd, tight": ("rpd", {**RPD, "beta": 0.1}, rpd(beta=0.1)),
    "rpd-block": (
        "rpd-block",
        {**RPD, "block_length": 16},
        lambda m, p: literal_loop.decode_rpd_block(m, p, CANVAS, **RPD, block=16),
    ),
    "confidence+pp": (
        "confidence+pp",
        {**RPD, "w": 0.0, "block_length": 16},
        lambda m, p: literal_loop.decode_rpd_block(m, p, CANVAS, **{**RPD, "w": 0.0}, block=16),
    ),
    "confidence+ce": ("confidence+ce", {}, rpd(theta_c=0.9)),
    "left to right": (
        "left-to-right",
        {},
        lambda m, p: literal_loop.decode(m, p, CANVAS, None, lambda run, v, masked: [masked.index(True)]),
    ),
}


def told(out: literal_loop.Decoded, prompt: int) -> list[dict[int, int]]:
    """The literal decode's steps, in canvas positions."""
    return [{position - prompt: token for position, token in step.items()} for step in out.steps]


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        *((name, PROMPTS[0]) for name in DECODES),
        *((name, PROMPTS[1]) for name in ("rpd", "rpd-block", "lopa", "dapd")),
    ],
)
def test_decodes_equal_the_literal_loop(exact_model: unmask.Model, twin: ExactModel, name: str, prompt: str) -> None:
    decoder, options, spelled_out = DECODES[name]
    ids = exact_model.tokenizer.encode(prompt)
    out = decode(exact_model, prompt, decoder, canvas_length=CANVAS, raw=True, score_dtype=torch.float64, **options)
    expected = spelled_out(twin, ids)
    assert commits(out) == told(expected, len(ids))
    assert out.canvas == expected.ids[len(ids) :]
    assert out.nfe == expected.nfe


def test_every_built_in_decoder_is_decoded_literally() -> None:
    covered = {decoder for decoder, _, _ in DECODES.values()}
    assert set(decoders.BUILT_IN) - covered <= {"rpd-paper", "confidence+block"}  # presets: see below


@pytest.mark.parametrize(
    ("preset", "decoder", "options"),
    [
        ("rpd-paper", "rpd", {"fallback": "window", "beta": 4.0, "theta_h": 0.9, "theta_c": 0.6, "window": 32}),
        ("confidence+block", "fast-dllm", {"threshold": 0.9, "block_length": 32}),
        ("confidence", "fast-dllm", {"block_length": None}),
        ("confidence+pp", "rpd-block", {"w": 0.0}),
        ("confidence+ce", "rpd", {"theta_c": 0.9, "theta_h": 0.9}),
    ],
)
def test_presets_are_points_of_their_decoders(
    model: unmask.Model, preset: str, decoder: str, options: dict[str, Any]
) -> None:
    a = decode(model, "Hello", preset, canvas_length=32)
    b = decode(model, "Hello", decoder, canvas_length=32, **options)
    assert commits(a) == commits(b) and a.nfe == b.nfe


@pytest.mark.parametrize("name", ["rpd", "fast-dllm", "dapd", "lopa"])
def test_float32_decides_like_float64_here(model: unmask.Model, exact_model: unmask.Model, name: str) -> None:
    options: dict[str, Any] = {"rpd": RPD}.get(name, {})
    a = decode(model, "Hello 12", name, canvas_length=CANVAS, **options)
    b = decode(exact_model, "Hello 12", name, canvas_length=CANVAS, **options)
    assert commits(a) == commits(b)


def test_the_stated_quantities_are_the_literal_ones(exact_model: unmask.Model, twin: ExactModel) -> None:
    """c, H and the stability columns of a real step, as the trace reports them."""
    ids = exact_model.tokenizer.encode("Hello 12")
    out = decode(
        exact_model, "Hello 12", "rpd", canvas_length=CANVAS, raw=True, **RPD, theta_c=0.3, beta=100.0, lazy=False
    )
    step = out.trace.steps[0]
    seen = twin.view([*ids, *[twin.mask_id] * CANVAS])
    at = slice(len(ids), None)
    assert step.token.tolist() == seen.y[at]
    np.testing.assert_allclose(step.confidence, seen.c[at], atol=2e-5)
    np.testing.assert_allclose(step.entropy, seen.H[at], atol=1e-4)
    read = np.flatnonzero(~np.isnan(step.columns["S"]))
    assert read.size
    for i in read:
        layers = twin.layer_logits(seen, len(ids) + int(i), RPD["first_layer"])
        K, r, S = literal.stability_from_logits(layers, int(step.token[i]), 6, RPD["w"])
        found = [step.columns[name][i] for name in ("K", "r", "S")]
        assert found == pytest.approx([max(K, 1), r, S if K else found[2]], abs=1e-4)
    in_band = (step.confidence >= 0.3) & (step.confidence < 0.9)
    assert read.tolist() == np.flatnonzero(in_band).tolist()


@pytest.mark.parametrize("name", ["rpd", "fast-dllm", "left-to-right", "lopa"])
def test_an_infilled_canvas_is_scored_literally(exact_model: unmask.Model, twin: ExactModel, name: str) -> None:
    """Given tokens before, between and behind the masks: every step's y, c and H are those of the canvas it saw,
    read where the family's alignment says (behind a given token, Dream reads that token's own row)."""
    ids = exact_model.tokenizer.encode("Hello 12")
    parts = ["The", 5, "12", 1, "a", 3, "assistant", 2, "."]
    options = {} if name in ("rpd", "left-to-right") else {"block_length": None}
    canvas_options: dict[str, Any] = {"canvas": parts, "raw": True, "score_dtype": torch.float64}
    out = decode(exact_model, "Hello 12", name, **canvas_options, **options)
    masks = sum(part for part in parts if isinstance(part, int))
    assert out.trace.steps[0].positions.size == masks
    for before, step in zip(out.trace.canvases(), out.trace.steps, strict=False):
        seen = twin.view([*ids, *before.tolist()])
        at = len(ids) + step.positions
        assert step.token.tolist() == [seen.y[i] for i in at]
        np.testing.assert_allclose(step.confidence, [seen.c[i] for i in at], atol=2e-5)
        np.testing.assert_allclose(step.entropy, [seen.H[i] for i in at], atol=1e-4)
