"""What the paper prints (its Tables 1 and 2), to stand beside our own numbers, never among them.

Measured by its authors with batch size 1 on one NVIDIA A6000. Accuracy and pass@1 in percent.
"""

from __future__ import annotations

SOURCE = "paper: as printed in 'Reliable Parallel Decoding in Masked Diffusion Language Models' (batch 1, one A6000)"
MODELS = {"Dream-org/Dream-v0-Instruct-7B": "Dream-7B-Instruct", "GSAI-ML/LLaDA-8B-Instruct": "LLaDA-8B-Instruct"}
TASKS = {"humaneval": "HumanEval", "mbpp": "MBPP", "gsm8k": "GSM8K", "math500": "MATH-500"}
METRICS = ("accuracy", "nfe", "tps")

# Columns of the main table, by our decoder names.
MAIN_COLUMNS = ("default", "fast-dllm", "eb-sampler", "lopa", "dapd", "rpd-block", "rpd")
_MAIN = """
Dream-org/Dream-v0-Instruct-7B humaneval accuracy 57.32 60.37 56.71 55.49 55.49 59.76 60.98
Dream-org/Dream-v0-Instruct-7B humaneval nfe 256.00 64.54 78.35 35.79 77.74 61.72 63.09
Dream-org/Dream-v0-Instruct-7B humaneval tps 7.35 31.69 25.57 19.71 20.93 31.71 30.07
Dream-org/Dream-v0-Instruct-7B mbpp accuracy 56.80 58.20 56.80 51.20 56.40 58.00 58.40
Dream-org/Dream-v0-Instruct-7B mbpp nfe 256.00 57.63 62.41 36.95 65.05 55.49 55.89
Dream-org/Dream-v0-Instruct-7B mbpp tps 4.09 16.82 15.30 11.78 13.82 17.34 15.14
Dream-org/Dream-v0-Instruct-7B gsm8k accuracy 81.35 81.73 81.35 81.65 80.59 81.27 81.80
Dream-org/Dream-v0-Instruct-7B gsm8k nfe 256.00 76.04 89.26 37.20 79.01 70.78 82.03
Dream-org/Dream-v0-Instruct-7B gsm8k tps 8.98 30.03 25.53 20.90 22.02 30.82 24.56
Dream-org/Dream-v0-Instruct-7B math500 accuracy 41.80 46.00 45.00 44.00 41.80 44.20 45.80
Dream-org/Dream-v0-Instruct-7B math500 nfe 256.00 114.34 124.60 55.28 112.64 108.93 116.17
Dream-org/Dream-v0-Instruct-7B math500 tps 12.57 29.74 27.09 20.43 24.07 30.51 27.71
GSAI-ML/LLaDA-8B-Instruct humaneval accuracy 43.29 43.29 43.90 40.24 41.46 41.46 43.90
GSAI-ML/LLaDA-8B-Instruct humaneval nfe 256.00 44.48 59.06 24.68 49.09 41.23 40.59
GSAI-ML/LLaDA-8B-Instruct humaneval tps 7.70 43.13 32.10 29.32 36.46 46.23 45.29
GSAI-ML/LLaDA-8B-Instruct mbpp accuracy 39.60 40.20 39.20 39.40 37.80 38.60 40.60
GSAI-ML/LLaDA-8B-Instruct mbpp nfe 256.00 44.73 53.26 23.94 47.16 40.61 38.16
GSAI-ML/LLaDA-8B-Instruct mbpp tps 5.93 33.13 26.96 21.58 28.62 33.91 35.92
GSAI-ML/LLaDA-8B-Instruct gsm8k accuracy 76.50 76.35 79.15 76.50 76.19 75.74 78.85
GSAI-ML/LLaDA-8B-Instruct gsm8k nfe 256.00 77.09 88.79 38.35 75.77 69.08 71.76
GSAI-ML/LLaDA-8B-Instruct gsm8k tps 10.50 35.63 30.72 25.83 34.34 38.55 35.30
GSAI-ML/LLaDA-8B-Instruct math500 accuracy 38.00 37.40 39.00 38.60 37.20 37.80 38.80
GSAI-ML/LLaDA-8B-Instruct math500 nfe 256.00 103.78 116.01 50.39 98.71 93.99 98.88
GSAI-ML/LLaDA-8B-Instruct math500 tps 11.31 27.59 24.46 19.48 28.18 30.00 26.77
"""

# The ablation's rows: our decoder names and what the paper calls them.
VARIANTS = {
    "confidence": "Confidence",
    "confidence+block": "+ block32",
    "confidence+pp": "+ PP",
    "confidence+ce": "+ CE",
    "rpd-block": "+ PP + CD",
    "rpd": "Full RPD",
}
# Its columns, three numbers (accuracy, NFE, TPS) each.
ABLATION_COLUMNS = (
    ("GSAI-ML/LLaDA-8B-Instruct", "gsm8k"),
    ("GSAI-ML/LLaDA-8B-Instruct", "humaneval"),
    ("Dream-org/Dream-v0-Instruct-7B", "gsm8k"),
    ("Dream-org/Dream-v0-Instruct-7B", "humaneval"),
)
_ABLATION = """
confidence 54.59 88.02 28.65 27.44 48.93 31.03 35.56 105.89 1.69 21.95 90.07 3.57
confidence+block 76.35 77.09 35.63 43.29 44.48 43.13 81.73 76.04 30.03 60.37 64.54 31.69
confidence+pp 74.00 44.80 57.50 31.10 28.88 64.57 71.87 48.41 43.53 48.78 47.97 40.06
confidence+ce 78.92 80.84 33.23 43.29 45.23 42.46 81.88 88.03 24.53 60.98 65.62 29.75
rpd-block 75.74 69.08 38.55 41.46 41.23 46.23 81.27 70.78 30.82 59.76 61.72 31.71
rpd 78.85 71.76 35.30 43.90 40.59 45.29 81.80 82.03 24.56 60.98 63.09 30.07
"""


def main_values() -> dict[tuple[str, str, str], dict[str, float]]:
    """(model, task, metric) -> decoder -> value."""
    table: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in _MAIN.split("\n"):
        if line:
            model, task, metric, *values = line.split()
            table[model, task, metric] = dict(zip(MAIN_COLUMNS, map(float, values), strict=True))
    return table


def ablation_values() -> dict[tuple[str, str, str, str], float]:
    """(variant, model, task, metric) -> value."""
    table: dict[tuple[str, str, str, str], float] = {}
    for line in _ABLATION.split("\n"):
        if line:
            variant, *values = line.split()
            keys = [(variant, model, task, metric) for model, task in ABLATION_COLUMNS for metric in METRICS]
            table.update(zip(keys, map(float, values), strict=True))
    return table


# Tasks of ours that are no benchmark, and the one of the paper's that asks for the same kind of answer.
KIN = {"wordproblems": "gsm8k", "functions": "humaneval"}
STAND_IN = "GSAI-ML/LLaDA-8B-Instruct"  # the paper's model in whose format the embedded one is


def kin(model: str, task: str) -> dict[str, dict[str, float]]:
    """decoder -> metric -> the paper's value of this cell, or of the nearest kin of a cell that it does not have."""
    at = (model, task) if model in MODELS else (STAND_IN, KIN.get(task, task))
    found: dict[str, dict[str, float]] = {}
    for (*place, metric), values in main_values().items():
        if tuple(place) == at:
            for decoder, value in values.items():
                found.setdefault(decoder, {})[metric] = value
    for (variant, *place, metric), value in ablation_values().items():
        if tuple(place) == at:
            found.setdefault(variant, {})[metric] = value
    return found
