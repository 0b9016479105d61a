"""The worked examples of the specification as data: inputs and parameters by name, and what is expected."""

from __future__ import annotations

import math
from typing import Any

Example = dict[str, Any]

# --- LLaDA default

LLADA_SCHEDULE: list[Example] = [
    {"n": 10, "s": 4, "expected": [3, 3, 2, 2]},
    {"n": 4, "s": 3, "expected": [2, 1, 1]},
]
LLADA_SELECT: list[Example] = [
    {"confidence": [0.50, 0.90, 0.90, 0.20], "k": 1, "expected": [1]},
    {"confidence": [0.50, 0.90, 0.90, 0.20], "k": 2, "expected": [1, 2]},
]
LLADA_GUIDANCE: list[Example] = [
    {"conditional": [2.0, 0.0], "unconditional": [1.0, 1.0], "w": 0.5, "expected": [2.5, -0.5]}
]
LLADA_PAPER: Example = {"steps": 256, "length": 256, "block_length": 32, "commits_per_step": 1, "nfe": 256}

# --- Dream default

DREAM_SCHEDULE: list[Example] = [
    {"n": 8, "steps": 8, "expected": [0, 1, 1, 1, 1, 1, 1, 2]},
    {"n": 256, "steps": 256, "expected": [0, *[1] * 254, 2]},
]
DREAM_TRANSFORM: list[Example] = [
    {
        "p": [0.5, 0.3, 0.15, 0.05],
        "temperature": 1.0,
        "top_p": 0.7,
        "q": [0.625, 0.375, 0.0, 0.0],
        "topk_margin": 0.25,
        "entropy": -0.6616,
    },
    {
        "p": [0.5, 0.3, 0.15, 0.05],
        "temperature": 0.1,
        "top_p": 0.9,
        "q": [1.0, 0.0, 0.0, 0.0],
        "entropy": 0.0,
    },
]
DREAM_SELECT: list[Example] = [{"confidence": [-0.3, 0.0, 0.0, -0.1], "k": 1, "expected": [1]}]
DREAM_POINT_MASS_RATIO = 9**0.1  # at T = 0.1 and top-p 0.9, a two-way race beyond this ratio has one survivor

# --- Fast-dLLM

FAST_THRESHOLD: list[Example] = [
    {"c": [0.95, 0.90, 0.89, 0.40], "tau": 0.9, "expected": [0, 1]},
    {"c": [0.5, 0.7, 0.7, 0.1], "tau": 0.9, "expected": [1]},
]
FAST_FACTOR: list[Example] = [
    {"c": [0.9, 0.8, 0.7, 0.6], "f": 1.0, "expected": [0, 1], "quirk": [0, 1]},
    {"c": [0.9, 0.85, 0.8, 0.5], "f": 1.0, "expected": [0, 1, 2], "quirk": [0, 1, 2, 3]},
]

# --- EB-Sampler

EB: list[Example] = [
    {
        "c": [0.97, 0.60, 0.99, 0.90, 0.95],
        "H": [0.05, 0.90, 0.02, 0.20, 0.08],
        "gamma": 0.1,
        "order": [2, 0, 4, 3, 1],
        "costs": [0.0, 0.02, 0.07, 0.15, 0.35],
        "expected": [0, 2, 4],
    },
    {
        "c": [0.99, 0.98, 0.97],
        "H": [0.05, 0.30, 0.04],
        "gamma": 0.1,
        "order": [0, 1, 2],
        "costs": [0.0, 0.05, 0.09],
        "expected": [0, 1, 2],
    },
]

# --- LoPA

LOPA: Example = {
    "c": [0.95, 0.70, 0.60, 0.40, 0.30],
    "H": [0.2, 0.8, 0.9, 1.4, 1.6],
    "threshold": 0.9,
    "k": 3,
    "anchor": [0],
    "lookahead": [1, 2, 3],
    # entropies left in the block after the batched call: lookahead 1..3, then the anchor
    "remaining_H": [[0.5, 1.0, 1.2], [0.1, 0.6, 0.8], [0.7, 0.7, 0.7], [0.8, 0.9, 1.4, 1.6]],
    "scores": [-0.90, -0.50, -0.70, -1.175],
    "winner": 1,
    "committed": [0, 2],
}

# --- DAPD

DAPD_DISTANCE = [
    [0.0, 0.08, 0.01, 0.0004],
    [0.08, 0.0, 0.02, 0.001],
    [0.01, 0.02, 0.0, 0.03],
    [0.0004, 0.001, 0.03, 0.0],
]
DAPD_KEYS: Example = {
    "c": [0.5, 0.9, 0.6, 0.8],
    "keys": [0.0452, 0.0909, 0.0360, 0.0251],
    "order": [1, 0, 2, 3],
    "N": {(0, 1): 1.0, (2, 1): 0.667, (3, 1): 0.0333, (1, 3): 0.0125},
}
DAPD_DIRECT: list[Example] = [
    {"c": [0.5, 0.9, 0.6, 0.8], "tau": 0.05, "expected": [1, 3]},
    {"c": [0.5, 0.9, 0.6, 0.8], "tau": 0.02, "expected": [1]},
    {"c": [0.999, 0.9, 0.6, 0.8], "tau": 0.05, "expected": [0, 1, 3]},
]
DAPD_THRESHOLD: list[Example] = [{"low": 0.005, "high": 0.05, "remaining": 192, "length": 256, "expected": 0.01625}]
DAPD_LAYERS: list[Example] = [
    {"layers": 32, "expected": list(range(23, 33))},  # the last 10
    {"layers": 28, "expected": list(range(20, 29))},  # the last 9
]

# --- RPD

RPD_SETTINGS: dict[str, Example] = {
    "llada": {
        "theta_h": 0.9, "theta_c": 0.6, "k_max": 6, "beta": 4.0, "window": 32, "theta_s": 3.5, "w": 15.0,
        "first_layer": 17, "layers": 32,
    },
    "dream": {
        "theta_h": 0.9, "theta_c": 0.6, "k_max": 6, "beta": 4.0, "window": 32, "theta_s": 2.5, "w": 20.0,
        "first_layer": 15, "layers": 28,
    },
}  # fmt: skip

# The largest drop r with which K agreeing layers are still stable; a smaller K never is. 6 means "6 or more".
RPD_LARGEST_DROP: dict[str, dict[int, float]] = {
    "llada": {4: 0.5 / 15, 5: 0.1, 6: 2.5 / 15},
    "dream": {3: 0.025, 4: 0.075, 5: 0.125, 6: 0.175},
}
RPD_ACCEPTED_AT_SIX = {
    "llada": 1 - 2.5 / 15,
    "dream": 0.825,
}  # c at and above which K = 6 suffices, whatever r

# Probability of y at the last eight layers, oldest first, and at how many of the last ones the argmax is y.
RPD_STABILITY: list[Example] = [
    {
        "p": [0.1, 0.2, 0.5, 0.7, 0.85, 0.9, 0.86, 0.80],
        "agreeing": 6,
        "K": 6,
        "r": 0.10,
        "S": {"llada": 4.5, "dream": 4.0},
        "stable": {"llada": True, "dream": True},
    },
    {
        "p": [0.1, 0.1, 0.1, 0.1, 0.70, 0.68, 0.66, 0.65],
        "agreeing": 4,
        "K": 4,
        "r": 0.05,
        "S": {"llada": 3.25, "dream": 3.0},
        "stable": {"llada": False, "dream": True},
    },
    {
        "p": [0.95, 0.9, 0.9, 0.9, 0.9, 0.85, 0.8, 0.75],
        "agreeing": 8,
        "K": 8,
        "r": 0.20,
        "S": {"llada": 3.0, "dream": 2.0},
        "stable": {"llada": False, "dream": False},
    },
]

RPD: list[Example] = [
    {
        "c": [0.99, 0.40, 0.85, 0.30, 0.97, 0.20, 0.95, 0.70, 0.99, 0.99],
        "H": [0.05, 1.8, 0.5, 1.9, 0.1, 2.5, 0.2, 0.9, 0.02, 0.02],
        "stable": [2],
        "beta": 4.0,
        "window": 32,
        "fallback": "window",
        "candidates": [0, 2, 4, 6, 8, 9],
        "E": {0: 0.0, 2: 1.8, 4: 3.7, 6: 6.2, 8: 7.1, 9: 7.1},
        "expected": [0, 2, 4],
    },
    {
        "c": [0.50, 0.95],
        "H": [5.0, 0.2],
        "stable": [],
        "beta": 4.0,
        "window": 32,
        "fallback": "window",
        "candidates": [1],
        "E": {0: 0.0, 1: 5.0},
        "expected": [1],
    },
    {
        "c": [0.50, 0.95],
        "H": [5.0, 0.2],
        "stable": [],
        "beta": 4.0,
        "window": 1,
        "fallback": "window",
        "candidates": [1],
        "E": {0: 0.0, 1: 5.0},
        "expected": [0],
    },
    {
        "c": [0.50, 0.95],
        "H": [5.0, 0.2],
        "stable": [],
        "beta": 4.0,
        "window": 32,
        "fallback": "affordable",
        "candidates": [1],
        "E": {0: 0.0, 1: 5.0},
        "expected": [0],
    },
    {
        "c": [0.30, 0.55, 0.70, 0.95],
        "H": [1.5, 1.2, 2.0, 0.2],
        "stable": [],
        "beta": 4.0,
        "window": 32,
        "fallback": "affordable",
        "candidates": [3],
        "E": {0: 0.0, 1: 1.5, 2: 2.7, 3: 4.7},
        "expected": [2],
    },
]

# The paper's ablation in terms of RPD's own parameters; "block" is the rule without a budget.
RPD_ABLATION: dict[str, Example] = {
    "confidence": {"rule": "full", "theta_c": 0.9, "theta_h": 0.9, "beta": math.inf, "window": 256},
    "confidence+block": {"rule": "block", "theta_c": 0.9, "theta_h": 0.9},
    "confidence+pp": {"rule": "block", "w": 0.0},
    "confidence+ce": {"rule": "full", "theta_c": 0.9, "theta_h": 0.9},
    "confidence+pp+cd": {"rule": "block"},
}
