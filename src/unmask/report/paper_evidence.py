"""What the paper prints of its diagnostics, to stand beside our own numbers, never among them.

Errors and differences in percent and percentage points.
"""

from __future__ import annotations

SOURCE = "paper: as printed in 'Reliable Parallel Decoding in Masked Diffusion Language Models'"

# Complete upstream-entropy results: model, m, n mixed, low, high, difference, interval.
UPSTREAM = (
    ("LLaDA", 4, 40, 22.5, 51.0, 28.5, (18.0, 38.5)),
    ("LLaDA", 8, 81, 14.6, 38.8, 24.2, (18.0, 29.9)),
    ("LLaDA", 16, 182, 12.7, 37.6, 24.8, (21.0, 28.9)),
    ("LLaDA", 32, 813, 10.5, 39.0, 28.6, (26.5, 30.5)),
    ("Dream", 4, 128, 15.8, 33.1, 17.3, (13.9, 20.9)),
    ("Dream", 8, 322, 9.3, 27.2, 17.9, (15.5, 20.2)),
    ("Dream", 16, 762, 9.4, 27.7, 18.3, (16.4, 20.2)),
    ("Dream", 32, 1513, 21.1, 51.0, 29.9, (28.4, 31.5)),
)
# The agreement curves and the heat map are printed as pictures; the text names these values (Dream).
LAYERS = (
    "confidence [0.6, 0.7): error 26.5 % at K ≥ 2, 4.6 % at K ≥ 10; [0.95, 1]: flat",
    "K = 2: error from 14.2 to 46.4 % as the drop grows; K 5–8: 4.6 to 23.7 %; K ≥ 9: 1.8 to 6.9 %",
)
# Ordering constraints (model and task not stated): most confident first, answer region last, operands before results.
CONSTRAINTS = {"most-confident": 57.0, "answer-last": 62.3, "operands-first": 72.0}
# What the stability test admits: LLaDA on GSM8K.
ADMITTED = {
    "rpd-block": (
        "29,957 by stability, 273,423 by confidence, 34,284 by fallback (8.9 % by stability, derived); "
        "c 0.858 [0.774, 0.892], K 7, r 0.117, 90th percentile 0.156; ceiling 0.167"
    ),
    "rpd": "27,991 by stability (8.3 %, derived); median c 0.861, median r 0.116; ceiling 0.167",
}
ADMITTED_DREAM = "Dream: median r 0.125, 90th percentile 0.165, ceiling 0.175; no token of either model above 0.25"
# Runtime relative to Fast-dLLM (model and task not stated).
RUNTIME = {"rpd": 1.03, "rpd-block": 0.96, "lopa": 1.45, "eb-sampler": 1.24, "dapd": 1.16}
ORDER_FORWARDS = "one GSM8K document, LLaDA: rpd 95 forwards, fast-dllm 114, one token per forward 256"
