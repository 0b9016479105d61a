"""In which order do decoders commit, and what is a better order worth? (paper, introduction, Figures 1 and 5, and the
trajectories of its appendix)

    result = analyse(lines)       from a folder of decodes, or from traces (`from_traces`)
    result.profile                confidence of an empty canvas by position
    result.decoders["rpd"]        .heat (progress x position), .correlation, .accuracy
    constraint_table(result)      ordering constraints, paired with each other
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unmask.diagnostics.constraints import CLASSES, NAMES
from unmask.diagnostics.decodes import INITIAL, facts
from unmask.report.stats import paired, wilson
from unmask.report.table import Cell, Table
from unmask.trace import Trace

BINS = 20  # of normalised progress
FEWEST = 8  # examples below which nothing is said of a shape
EDGE, MIDDLE = 0.1, 0.2  # shares of the canvas: either end, and the middle, of the U-shape


@dataclass
class Order:
    """One decoder's commitment order, summed over examples."""

    label: str
    n: int = 0
    right: int = 0
    nfe: int = 0
    counts: np.ndarray = field(default_factory=lambda: np.zeros((BINS, 0), dtype=np.int64))
    whole: list[float] = field(default_factory=list)  # rank correlation of step and position, per example
    text: list[float] = field(default_factory=list)  # the same, positions before the first end token
    verdicts: dict[int, bool] = field(default_factory=dict)  # per example

    @property
    def heat(self) -> np.ndarray:
        """Percent of examples in which a position (column) is committed at this progress (row)."""
        return 100 * self.counts / max(1, self.n)

    @property
    def forwards(self) -> float:
        return self.nfe / self.n if self.n else math.nan

    def add(self, line: Mapping[str, Any]) -> None:
        order, steps = np.array(line["order"]), line["steps"]
        if self.counts.shape[1] < len(order):
            self.counts = np.pad(self.counts, ((0, 0), (0, len(order) - self.counts.shape[1])))
        at = np.flatnonzero(order >= 0)  # not: what was given, or left open
        np.add.at(self.counts, (progress_bin(order[at], steps), at), 1)
        self.n += 1
        self.nfe += line["nfe"]
        self.right += bool(line.get("correct"))
        if "correct" in line:
            self.verdicts[line["index"]] = bool(line["correct"])
        self.whole.append(rank_correlation(at, order[at]))
        before = at[at < line["end"]]
        self.text.append(rank_correlation(before, order[before]))


@dataclass
class Profile:
    """Confidence at every position of an empty canvas: mean, and 10th and 90th percentile, over examples."""

    c: np.ndarray  # (n, G)
    ends: np.ndarray  # (n, G): an end token is expected

    @property
    def n(self) -> int:
        return len(self.c)

    def thirds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per example: mean confidence of the first tenth, the middle fifth and the last tenth."""
        length = self.c.shape[1]
        edge, half = max(1, round(EDGE * length)), max(1, round(MIDDLE * length / 2))
        middle = slice(length // 2 - half, length // 2 + half)
        return self.c[:, :edge].mean(axis=1), self.c[:, middle].mean(axis=1), self.c[:, -edge:].mean(axis=1)

    def verdict(self) -> str:
        first, middle, last = self.thirds()
        said = (
            f"mean confidence {first.mean():.2f} in the first tenth of the empty canvas, {middle.mean():.2f} in the "
            f"middle fifth, {last.mean():.2f} in the last tenth (n = {self.n})"
        )
        if self.n < FEWEST:
            return f"Too few examples to judge the shape of the initial confidence ({FEWEST} are needed): {said}."
        left, right = above(first - middle), above(last - middle)
        if left and right:
            return f"The initial confidence is U-shaped: {said}."
        if right:
            return f"The initial confidence is high at the end only: {said}."
        if left:
            return f"The initial confidence is high at the beginning only: {said}."
        return f"The initial confidence shows no peak at either end: {said}."


@dataclass
class Result:
    decoders: dict[str, Order]
    profile: Profile | None
    samples: dict[int, dict[str, Mapping[str, Any]]]  # example -> decoder -> line, where the text was kept


def analyse(lines: Iterable[Mapping[str, Any]]) -> Result:
    found: dict[str, Order] = {}
    samples: dict[int, dict[str, Mapping[str, Any]]] = {}
    first: list[tuple[int, Sequence[float], Sequence[int]]] = []
    for line in lines:
        label = line["decoder"]
        if label == INITIAL:
            first.append((line["index"], line["c"], line["ends"]))
            continue
        order = found.setdefault(label, Order(label))
        if not line["order"]:  # it failed: wrong, and without an order
            order.verdicts[line["index"]] = False
            continue
        order.add(line)
        if "pieces" in line:
            samples.setdefault(line["index"], {})[label] = line
    first.sort()
    profile = Profile(np.array([c for _, c, _ in first]), np.array([e for *_, e in first])) if first else None
    return Result(found, profile, samples)


def from_traces(traces: Iterable[Trace]) -> list[dict[str, Any]]:
    """Lines of recorded decodes. Traces of one prompt are one example."""
    index: dict[tuple[int, ...], int] = {}
    lines = []
    for trace in traces:
        number = index.setdefault(tuple(trace.header["prompt_ids"]), len(index))
        label = str(trace.header.get("label") or trace.header["decoder"])
        lines.append({"decoder": label, "index": number, **facts(trace, text=True)})
    return lines


def progress_bin(step: np.ndarray, steps: int) -> np.ndarray:
    """Step s of n ends at progress (s + 1) / n; the last bin is closed."""
    return (((step + 1) * BINS + steps - 1) // steps - 1).clip(0, BINS - 1)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's, ties at their mean rank; 1 is left to right. NaN where nothing varies."""
    if len(x) < 2:
        return math.nan
    a, b = ranks(x), ranks(y)
    if a.std() == 0 or b.std() == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[inverse]


def above(differences: np.ndarray) -> bool:
    """Is the mean above zero, beyond two standard errors?"""
    if len(differences) < 2:
        return False
    return float(differences.mean()) > 2 * float(differences.std(ddof=1)) / math.sqrt(len(differences))


# --- what is printed --------------------------------------------------------------------------------------------


def order_table(result: Result, title: str) -> Table:
    made = Table(
        title,
        ["decoder", "n", "accuracy %", "forwards", "rank corr. text", "rank corr. canvas"],
        notes=[
            "Rank correlation of commit step and position, averaged over examples: 1 is left to right; over the text "
            "before the first end token, and over the whole canvas.",
        ],
    )
    if result.profile is not None:
        made.notes.insert(0, result.profile.verdict())
    for order in result.decoders.values():
        text, whole = mean(order.text), mean(order.whole)
        share = sum(order.verdicts.values()) / len(order.verdicts) if order.verdicts else None
        made.rows.append(
            [
                Cell(order.label), Cell(order.n, 0), Cell(None if share is None else 100 * share, 1),
                Cell(order.forwards, 1), Cell(text), Cell(whole),
            ]
        )  # fmt: skip
        made.records.append(
            {
                "decoder": order.label, "n": order.n, "accuracy": share, "forwards": order.forwards,
                "rank_correlation_text": text, "rank_correlation_canvas": whole,
            }
        )  # fmt: skip
    return made


def mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


def constraint_table(result: Result) -> Table | None:
    """Each constraint against the one before it, on the same examples."""
    held = [result.decoders[name] for name in NAMES if name in result.decoders]
    if not held:
        return None
    common = sorted(set.intersection(*(set(order.verdicts) for order in held)))
    if not common:
        return None
    made = Table(
        f"Ordering constraints, one token per forward, full canvas, n = {len(common)}",
        [
            "constraint",
            "n",
            "accuracy %",
            "95 % interval",
            "Δ to the row above pp",
            "95 % interval of Δ",
            "p (McNemar)",
        ],
        notes=[f"{cls.name}: {cls.summary}." for cls in CLASSES if cls.name in result.decoders],
    )
    for number, order in enumerate(held):
        right = sum(order.verdicts[i] for i in common)
        low, high = wilson(right, len(common))
        record: dict[str, Any] = {"constraint": order.label, "n": len(common), "accuracy": right / len(common)}
        record |= {"ci95_low": low, "ci95_high": high}
        cells = [Cell(order.label), Cell(len(common), 0), Cell(100 * right / len(common), 1), brackets(low, high)]
        if not number:
            made.rows.append([*cells, Cell(None), Cell(None), Cell(None)])
        else:
            before = held[number - 1]
            difference = paired([before.verdicts[i] for i in common], [order.verdicts[i] for i in common])
            record |= {"delta": difference.difference, "delta_low": difference.ci95[0], "p": difference.p_value}
            record["delta_high"] = difference.ci95[1]
            made.rows.append(
                [
                    *cells, Cell(100 * difference.difference, 1, signed=True), brackets(*difference.ci95),
                    Cell(f"{difference.p_value:.2g}"),
                ]
            )  # fmt: skip
        made.records.append(record)
    return made


def brackets(low: float, high: float) -> Cell:
    return Cell(f"[{100 * low:.1f}, {100 * high:.1f}]")
