"""summary.json: one row per decoder, computed from samples.jsonl alone, so that resuming cannot change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unmask.report.stats import wilson

TOKEN_ACCOUNTING = (
    "tokens strictly before the first end token, over the seconds of the decoding loop with the device synchronised "
    "(model loading, tokenization and scoring excluded), summed over all decoded examples"
)


@dataclass
class Warned:
    """The examples on which a guardrail spoke up: whether it was right to is in how many were solved."""

    n: int = 0
    correct: int = 0

    def add(self, correct: bool) -> None:
        self.n += 1
        self.correct += correct


@dataclass
class Totals:
    """Running sums of one decoder: what progress shows and what the summary is made of."""

    n: int = 0
    correct: int = 0
    errors: int = 0
    nfe: int = 0
    branches: int = 0
    tokens: int = 0
    non_eos: int = 0
    canvas: int = 0
    seconds: float = 0.0
    stopped: int = 0  # answers that ended at an end token
    decoded: int = 0  # n without those that never ran
    phases: dict[str, float] = field(default_factory=dict)
    warnings: dict[str, Warned] = field(default_factory=dict)  # by code

    def add(self, sample: Mapping[str, Any]) -> None:
        self.n += 1
        self.correct += sample["correct"]
        self.errors += sample.get("error") is not None
        if "nfe" not in sample:  # never decoded: it counts as wrong, and has no cost to average
            return
        for key in ("nfe", "branches", "tokens", "non_eos", "canvas", "seconds"):
            setattr(self, key, getattr(self, key) + sample[key])
        self.stopped += sample["finish_reason"] == "stop"
        self.decoded += 1
        for phase, spent in sample["phases"].items():
            self.phases[phase] = self.phases.get(phase, 0.0) + spent
        for code in sample.get("warnings", ()):  # a folder from before there were any has none
            self.warnings.setdefault(code, Warned()).add(sample["correct"])

    @property
    def accuracy(self) -> float:
        return self.correct / self.n if self.n else 0.0

    @property
    def mean_nfe(self) -> float:
        return self.nfe / self.decoded if self.decoded else 0.0

    @property
    def tps(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


def totals(samples: Iterable[Mapping[str, Any]]) -> dict[str, Totals]:
    by_decoder: dict[str, Totals] = {}
    for sample in samples:
        by_decoder.setdefault(sample["decoder"], Totals()).add(sample)
    return by_decoder


def rows(config: Mapping[str, Any], by_decoder: Mapping[str, Totals]) -> list[dict[str, Any]]:
    """The rows of a run in the order its decoders were named; decoders without a sample yet have n = 0."""
    return [row(config, entry, by_decoder.get(entry["label"], Totals())) for entry in config["decoders"]]


def row(config: Mapping[str, Any], entry: Mapping[str, Any], total: Totals) -> dict[str, Any]:
    request, task, model = config["request"], config["task"], config["model"]
    low, high = wilson(total.correct, total.n)
    return {
        "model": request["model"],
        "task": task["name"],
        "split": request["split"],
        "decoder": entry["name"],
        "label": entry["label"],
        "params": entry["params"],
        "n": total.n,
        "complete": total.n == task["n"],
        "metric": task["metric"],
        "accuracy": total.accuracy,
        "accuracy_ci95": [low, high],
        "correct": total.correct,
        "errors": total.errors,
        "decoded": total.decoded,
        "nfe": total.mean_nfe,
        "branches": total.branches / total.decoded if total.decoded else 0.0,
        "tokens": total.tokens,
        "tokens_non_eos": total.non_eos,
        "tokens_canvas": total.canvas,
        "stopped": total.stopped,
        "seconds": total.seconds,
        "tps": total.tps,
        "token_accounting": TOKEN_ACCOUNTING,
        "phases": total.phases,
        "warnings": {code: asdict(warned) for code, warned in sorted(total.warnings.items())},
        "batch_size": request["batch_size"],
        "device": config["hardware"]["device"],
        "devices": devices(config),
        "dtype": model["dtype"],
        # What else tells two runs apart; None in a folder from before it was written down.
        "family": model.get("family"),
        "fingerprint": model.get("fingerprint"),
        "canvas_length": model.get("canvas_length"),
        **{name: request.get(name) for name in ("early_stop", "raw", "seed")},
    }


def devices(config: Mapping[str, Any]) -> list[str]:
    """Every machine that examples were decoded on: a run may be finished elsewhere."""
    visits = [config, *config.get("visits", [])]
    return list(dict.fromkeys(visit["hardware"]["device"] for visit in visits))


def summarise(path: Path) -> list[dict[str, Any]]:
    """Rows of a run folder in whatever state it is: finished, interrupted, or still being written."""
    from unmask.evaluate.folder import read_config, read_samples

    return rows(read_config(path), totals(read_samples(path)))
