"""Whole decodings by the rules of `decoders`, one canvas at a time, over the NumPy backbone.

    model = Model(config, weights, forbidden=[mask, unused ids])
    decode_rpd(model, prompt, length, first_layer=2, theta_s=2.0, w=10.0).ids

Each step reads the canvas anew; nothing is cached, nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import backbone, decoders
from .statistics import align, statistics_rows

Array = NDArray[Any]


@dataclass
class View:
    """What one forward pass says about every position, aligned so that row i speaks of token i."""

    logits: Array  # (T, V)
    hidden: list[Array]  # L + 1 of (T, D)
    y: list[int]
    c: list[float]
    H: list[float]


@dataclass
class Model:
    config: backbone.Config
    weights: backbone.Weights
    forbidden: Sequence[int]  # ids never predicted: the mask, and rows without a token
    nfe: int = 0

    @property
    def mask_id(self) -> int:
        return self.config["mask_token_id"]

    def view(self, canvas: Sequence[int]) -> View:
        self.nfe += 1
        return self._view(canvas)

    def views(self, canvases: Sequence[Sequence[int]]) -> list[View]:
        """One batched call, counted once."""
        self.nfe += 1
        return [self._view(canvas) for canvas in canvases]

    def _view(self, canvas: Sequence[int]) -> View:
        logits, hidden = backbone.forward(self.config, self.weights, np.asarray(canvas)[None])
        shift = align if self.config["model_type"] == "Dream" else np.asarray
        rows = shift(logits[0])
        return View(rows, [shift(h[0]) for h in hidden], *statistics_rows(rows, self.forbidden))

    def layer_logits(self, view: View, i: int, first_layer: int) -> Array:
        """Readout of position i at layers first_layer..L: [layers, V]."""
        return backbone.readout(self.config, self.weights, np.stack([h[i] for h in view.hidden[first_layer:]]))

    def attention(self, canvas: Sequence[int]) -> Array:
        """Mean attention [T, T] over heads and DAPD's layers; never shifted."""
        layers = decoders.dapd_layers(backbone.layout(self.config).layers)
        maps = backbone.attention_maps(self.config, self.weights, np.asarray(canvas)[None], None, layers)
        return maps[:, 0].mean(axis=0)


@dataclass
class Decoded:
    ids: list[int]
    nfe: int = 0
    steps: list[dict[int, int]] = field(default_factory=list)  # position -> token, per forward


class Run:
    """A canvas under decoding. `masked` marks what is left of a block (or of everything)."""

    def __init__(self, model: Model, prompt: Sequence[int], length: int) -> None:
        self.model, self.prompt, self.length = model, len(prompt), length
        self.out = Decoded([*prompt, *[model.mask_id] * length])
        self.open = [False] * len(prompt) + [True] * length
        model.nfe = 0

    def blocks(self, block_length: int | None) -> Iterator[range]:
        for block in decoders.blocks(self.length, block_length or self.length):
            yield range(self.prompt + block.start, self.prompt + block.stop)

    def masked(self, block: range) -> list[bool]:
        return [self.open[i] and i in block for i in range(len(self.open))]

    def commit(self, positions: Sequence[int], view: View) -> None:
        for i in positions:
            assert self.open[i], "a committed position is never revisited"
            self.out.ids[i], self.open[i] = view.y[i], False
        self.out.steps.append({i: view.y[i] for i in positions})

    def finish(self) -> Decoded:
        self.out.nfe = self.model.nfe
        return self.out


Rule = Callable[[Run, View, list[bool]], list[int]]


def decode(model: Model, prompt: Sequence[int], length: int, block: int | None, rule: Rule) -> Decoded:
    """The loop all threshold-like rules share: forward, select, commit, until each block is complete."""
    run = Run(model, prompt, length)
    for active in run.blocks(block):
        while any(masked := run.masked(active)):
            view = model.view(run.out.ids)
            run.commit(rule(run, view, masked), view)
    return run.finish()


def decode_llada(model: Model, prompt: Sequence[int], length: int, steps: int = 256, block: int = 32) -> Decoded:
    """LLaDA default at temperature 0."""
    run = Run(model, prompt, length)
    per_block = decoders.llada_steps_per_block(steps, length, block)
    for active in run.blocks(block):
        for k in decoders.llada_schedule(block, per_block):
            view = model.view(run.out.ids)
            run.commit(decoders.llada_select(view.c, k, run.masked(active)), view)
    return run.finish()


def decode_dream(
    model: Model,
    prompt: Sequence[int],
    length: int,
    steps: int,
    alg: decoders.DreamAlg = "entropy",
    eps: float = 1e-3,
    top_p: float | None = None,
    top_k: int | None = None,
) -> Decoded:
    """Dream default at temperature 0 (greedy tokens), alg_temp 0, every `alg` but `origin`."""
    run = Run(model, prompt, length)
    everywhere = range(len(prompt), len(prompt) + length)
    for k in decoders.dream_schedule(length, steps, eps):
        view = model.view(run.out.ids)
        confidence = []
        for row, y in zip(view.logits, view.y, strict=True):
            score = decoders.dream_confidence(alg, decoders.dream_transform(row, 0.0, top_p, top_k), y)
            assert score is not None, "origin commits at random"
            confidence.append(score)
        run.commit(decoders.dream_select(confidence, k, run.masked(everywhere)), view)
    return run.finish()


def decode_fast(
    model: Model, prompt: Sequence[int], length: int, tau: float = 0.9, block: int | None = 32
) -> Decoded:
    """Fast-dLLM; `block=None` is the full-canvas confidence rule."""
    return decode(model, prompt, length, block, lambda _, v, m: decoders.fast_threshold(v.c, tau, m))


def decode_factor(
    model: Model, prompt: Sequence[int], length: int, f: float = 1.0, quirk: bool = False, block: int = 32
) -> Decoded:
    return decode(model, prompt, length, block, lambda _, v, m: decoders.fast_factor(v.c, f, quirk, m))


def decode_eb(model: Model, prompt: Sequence[int], length: int, gamma: float = 0.1, block: int = 32) -> Decoded:
    return decode(model, prompt, length, block, lambda _, v, m: decoders.eb(v.c, v.H, gamma, m))


def decode_dapd(
    model: Model, prompt: Sequence[int], length: int, low: float, high: float, block: int = 32
) -> Decoded:
    """DAPD, direct variant."""

    def rule(run: Run, view: View, masked: list[bool]) -> list[int]:
        tau = decoders.dapd_threshold(low, high, sum(run.open), length)
        return decoders.dapd_direct(model.attention(run.out.ids), view.c, tau, masked)

    return decode(model, prompt, length, block, rule)


def decode_lopa(
    model: Model, prompt: Sequence[int], length: int, threshold: float = 0.9, k: int = 3, block: int = 32
) -> Decoded:
    run = Run(model, prompt, length)
    view: View | None = None
    for active in run.blocks(block):
        while any(masked := run.masked(active)):
            view = view or model.view(run.out.ids)
            anchor = decoders.lopa_anchor(view.c, threshold, masked)
            left = [i for i in active if masked[i] and i not in anchor]
            if not left:
                run.commit(anchor, view)
                view = None
                continue
            looks = [[*anchor, r] for r in decoders.lopa_positions(view.H, left, k)]
            branches = [*looks, anchor]
            futures = model.views([_with(run.out.ids, branch, view) for branch in branches])
            scores = [
                decoders.lopa_score(future.H, [i for i in left if i not in branch])
                for future, branch in zip(futures, branches, strict=True)
            ]
            best = decoders.lopa_winner(scores)
            run.commit(sorted(branches[best]), view)
            view = futures[best]
    return run.finish()


def _with(ids: Sequence[int], positions: Sequence[int], view: View) -> list[int]:
    return [view.y[i] if i in positions else token for i, token in enumerate(ids)]


def stable_positions(
    model: Model, view: View, masked: Sequence[bool], first_layer: int, theta_s: float, k_max: int, w: float
) -> list[bool]:
    """Whether S >= theta_s, for every masked position: no laziness."""
    stable = [False] * len(masked)
    for i in decoders.positions(len(masked), masked):
        layers = model.layer_logits(view, i, first_layer)
        _, _, score = decoders.stability_from_logits(layers, view.y[i], k_max, w)
        stable[i] = score >= theta_s
    return stable


def decode_rpd(
    model: Model,
    prompt: Sequence[int],
    length: int,
    first_layer: int,
    theta_s: float,
    w: float,
    k_max: int = 6,
    theta_c: float = 0.6,
    theta_h: float = 0.9,
    beta: float = 4.0,
    window: int = 32,
    fallback: decoders.Fallback = "window",
) -> Decoded:
    def rule(_: Run, v: View, masked: list[bool]) -> list[int]:
        stable = stable_positions(model, v, masked, first_layer, theta_s, k_max, w)
        return decoders.rpd_scan(v.c, v.H, stable, theta_c, theta_h, beta, window, fallback, masked)

    return decode(model, prompt, length, None, rule)


def decode_rpd_block(
    model: Model,
    prompt: Sequence[int],
    length: int,
    first_layer: int,
    theta_s: float,
    w: float,
    k_max: int = 6,
    theta_c: float = 0.6,
    theta_h: float = 0.9,
    block: int = 32,
) -> Decoded:
    def rule(_: Run, v: View, masked: list[bool]) -> list[int]:
        stable = stable_positions(model, v, masked, first_layer, theta_s, k_max, w)
        return decoders.rpd_block(v.c, stable, theta_c, theta_h, masked)

    return decode(model, prompt, length, block, rule)
