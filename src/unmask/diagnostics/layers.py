"""Does layerwise stability separate right from wrong tokens? (paper Section 2.2 and "Layerwise Agreement")

    result = analyse(read_samples(folder, STATES), window=8)
    result.curves      error rate under K >= k, by band of final confidence
    result.heat        error rate by K and drop r, confidence in [0.6, 0.9)
    result.persistence, result.drop     how well each separates at equal confidence, with an interval

Everything is counted while the lines stream by, so memory does not grow with the number of states.

The separation is a stratified concordance. Of all pairs of a right and a wrong token of the same stratum, in what
share has the right one the longer K (the smaller r)? Ties count half; 1/2 means no information. Strata are 0.02
wide in confidence, so that confidence itself explains nothing; for r they are also equal in K (rows of the heat
map), since r = 0 by definition where K = 1. Strata are combined with van Elteren's weights, and the 95 % interval
is a bootstrap over *questions* (tokens of a question are alike), done online with Poisson(1) weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unmask.report.stats import wilson
from unmask.report.table import Cell, Table

BANDS = ((0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.0))  # the last one is closed
THRESHOLDS = tuple(range(2, 11))
ROWS = ((2, 2), (3, 4), (5, 8), (9, None))  # K of the heat map
DROPS = ((0.08, 0.16), (0.16, 0.24), (0.24, 0.32), (0.32, 0.40))  # the last one is closed
TESTED = (0.6, 0.9)  # theta_c and theta_h: where the stability test decides

STRATUM = 0.02
DROP_BIN = 0.02
DROP_BINS = 21  # the last one holds 0.4 and more
RESAMPLES = 1_000
NEEDED = 20  # right and wrong tokens each, below which nothing is said
EPSILON = 1e-9  # 0.7 on disk belongs to [0.7, 0.8)


@dataclass(frozen=True)
class Rate:
    wrong: int
    n: int

    @property
    def error(self) -> float:
        return self.wrong / self.n if self.n else math.nan

    @property
    def ci95(self) -> tuple[float, float]:
        return wilson(self.wrong, self.n)


@dataclass(frozen=True)
class Separation:
    """Share of right-wrong pairs in the expected order; 0.5 is no information."""

    name: str
    right: int
    wrong: int
    concordance: float
    ci95: tuple[float, float]

    @property
    def enough(self) -> bool:
        return min(self.right, self.wrong) >= NEEDED and not math.isnan(self.concordance)

    @property
    def informative(self) -> bool:
        return self.enough and self.ci95[0] > 0.5

    @property
    def inverted(self) -> bool:
        return self.enough and self.ci95[1] < 0.5


@dataclass
class Result:
    window: int
    tokens: int
    questions: int
    wrong: int
    curves: dict[tuple[float, float], dict[int, Rate]]  # band -> k -> tokens with K >= k; empty ones left out
    heat: dict[tuple[int, int], Rate]  # (row, column)
    persistence: Separation
    drop: Separation
    by_band: dict[tuple[float, float], Separation]  # persistence within each band

    @property
    def rows(self) -> list[int]:
        """Rows of the heat map that this window can reach."""
        return [row for row, (low, _) in enumerate(ROWS) if low <= self.window]

    def most(self, row: int) -> str:
        low, high = ROWS[row]
        return f"{low}" if low == high else f"≥{low}" if high is None else f"{low}–{high}"


def observations(line: Mapping[str, Any], window: int) -> np.ndarray:
    """(tokens, 4): right, c, K, r of every target digit of one question."""
    found = []
    for level in line["levels"].values():
        for targets in level["targets"]:
            for right, *suffix in targets:
                inside = suffix[:window]
                found.append((right, inside[0], len(inside), max(inside) - inside[0]))
    return np.array(found, dtype=np.float64).reshape(-1, 4)


class Counts:
    """Fixed tables that a stream of questions is added to."""

    def __init__(self, window: int, resamples: int = RESAMPLES, seed: int = 325) -> None:
        self.window, self.seed, self.resamples = window, seed, resamples
        self.questions = self.tokens = self.wrong = 0
        self.bands = np.zeros((len(BANDS), window + 1, 2), dtype=np.int64)  # band, K, right
        self.heat = np.zeros((len(ROWS), len(DROPS), 2), dtype=np.int64)
        strata = round((TESTED[1] - TESTED[0]) / STRATUM)
        # One extra replicate in front: the sample itself, with weight 1 for every question.
        self.by_k = np.zeros((resamples + 1, strata, window + 1, 2), dtype=np.float32)
        self.by_r = np.zeros((resamples + 1, strata, len(ROWS), DROP_BINS, 2), dtype=np.float32)
        self.by_band = np.zeros((resamples + 1, len(BANDS), bands_strata(), window + 1, 2), dtype=np.float32)

    def add(self, line: Mapping[str, Any]) -> None:
        table = observations(line, self.window)
        right, c, K, r = table[:, 0].astype(int), table[:, 1], table[:, 2].astype(int), table[:, 3]
        self.tokens += len(table)
        self.wrong += int((1 - right).sum())
        band = locate(c, BANDS)
        inside = band >= 0
        np.add.at(self.bands, (band[inside], K[inside], right[inside]), 1)
        row, column, tested = rows_of(K), locate(r, DROPS), (c >= TESTED[0] - EPSILON) & (c < TESTED[1] - EPSILON)
        cell = tested & (row >= 0) & (column >= 0)
        np.add.at(self.heat, (row[cell], column[cell], right[cell]), 1)
        rng = np.random.default_rng([self.seed, self.questions])
        weights = np.concatenate(([1.0], rng.poisson(1.0, self.resamples))).astype(np.float32)
        stratum = np.floor((c - TESTED[0]) / STRATUM + EPSILON).astype(int)
        spread(self.by_k, weights, (stratum, K, right), tested)
        bins = np.minimum(np.floor(r / DROP_BIN + EPSILON).astype(int), DROP_BINS - 1)
        spread(self.by_r, weights, (stratum, row, bins, right), tested & (row >= 0))
        within = np.floor((c - np.array([low for low, _ in BANDS])[band]) / STRATUM + EPSILON).astype(int)
        within = np.minimum(within, bands_strata() - 1)
        spread(self.by_band, weights, (band, within, K, right), inside)
        self.questions += 1

    def result(self) -> Result:
        curves = {}
        for number, band in enumerate(BANDS):
            above = self.bands[number, ::-1].cumsum(axis=0)[::-1]  # K >= k
            rates = {k: Rate(int(above[k, 0]), int(above[k].sum())) for k in THRESHOLDS if k <= self.window}
            curves[band] = {k: rate for k, rate in rates.items() if rate.n}
        heat = {
            (i, j): Rate(int(self.heat[i, j, 0]), int(self.heat[i, j].sum()))
            for i in range(len(ROWS))
            for j in range(len(DROPS))
        }
        shape = self.by_r.shape
        persistence = separation("persistence", self.by_k, longer_is_right=True)
        by_r = self.by_r.reshape(shape[0], shape[1] * shape[2], *shape[3:])
        drop = separation("drop", by_r, longer_is_right=False)
        by_band = {
            band: separation("persistence", self.by_band[:, number], longer_is_right=True)
            for number, band in enumerate(BANDS)
        }
        return Result(self.window, self.tokens, self.questions, self.wrong, curves, heat, persistence, drop, by_band)


def analyse(lines: Iterable[Mapping[str, Any]], window: int, resamples: int = RESAMPLES) -> Result:
    counts = Counts(window, resamples)
    for line in lines:
        counts.add(line)
    return counts.result()


def bands_strata() -> int:
    return max(round((high - low) / STRATUM) for low, high in BANDS)


def locate(values: np.ndarray, bands: Sequence[tuple[float, float]]) -> np.ndarray:
    """Index of each value's interval [low, high), the last one closed; -1 outside."""
    found = np.full(len(values), -1)
    for number, (low, high) in enumerate(bands):
        last = number == len(bands) - 1
        inside = (values >= low - EPSILON) & ((values <= high + EPSILON) if last else (values < high - EPSILON))
        found[inside] = number
    return found


def rows_of(persistence: np.ndarray) -> np.ndarray:
    found = np.full(len(persistence), -1)
    for number, (low, high) in enumerate(ROWS):
        top = np.inf if high is None else high
        found[(persistence >= low) & (persistence <= top)] = number
    return found


def spread(table: np.ndarray, weights: np.ndarray, at: tuple[np.ndarray, ...], which: np.ndarray) -> None:
    """Add one question's tokens to every replicate, with the question's weight there."""
    if not which.any():
        return
    shape = table.shape[1:]
    flat = np.ravel_multi_index(tuple(index[which] for index in at), shape)
    cells, counts = np.unique(flat, return_counts=True)
    table.reshape(len(weights), -1)[:, cells] += weights[:, None] * counts.astype(np.float32)


def separation(name: str, table: np.ndarray, longer_is_right: bool) -> Separation:
    """`table` is (replicates, strata, ordered values, [wrong, right])."""
    values = concordance(table if longer_is_right else table[..., ::-1, :])
    wrong, right = table[0].sum(axis=(0, 1))
    draws = values[1:][~np.isnan(values[1:])]
    low, high = np.quantile(draws, [0.025, 0.975]) if len(draws) else (math.nan, math.nan)
    return Separation(name, int(right), int(wrong), float(values[0]), (float(low), float(high)))


def concordance(table: np.ndarray) -> np.ndarray:
    """Per replicate: share of right-wrong pairs within strata in which the right one has the higher value."""
    wrong, right = table[..., 0].astype(np.float64), table[..., 1].astype(np.float64)
    beyond = right[..., ::-1].cumsum(axis=-1)[..., ::-1] - right  # right ones with a higher value
    ordered = (wrong * (beyond + 0.5 * right)).sum(axis=-1)
    pairs = wrong.sum(axis=-1) * right.sum(axis=-1)
    weight = 1.0 / (wrong.sum(axis=-1) + right.sum(axis=-1) + 1.0)  # van Elteren
    total = (weight * pairs).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (weight * ordered).sum(axis=-1) / total, np.nan)


# --- what is printed --------------------------------------------------------------------------------------------


def curve_table(result: Result, title: str) -> Table:
    notes = [
        verdict(result),
        f"K is counted in the last {result.window} layers; groups are nested, empty ones omitted.",
    ]
    made = Table(title, ["K ≥", *(f"c in {interval(band, BANDS)}" for band in BANDS)], notes=notes)
    for k in THRESHOLDS:
        rates = [result.curves[band].get(k) for band in BANDS]
        if any(rates):
            made.rows.append([Cell(str(k)), *(Cell(shown(rate)) for rate in rates)])
    for band in BANDS:
        for k, rate in result.curves[band].items():
            made.records.append({"c_low": band[0], "c_high": band[1], "k": k, **fields(rate)})
    return made


def heat_table(result: Result) -> Table:
    made = Table(
        f"Error rate by K and confidence drop r, confidence in [{TESTED[0]}, {TESTED[1]})",
        ["K", *(f"r in {interval(drop, DROPS)}" for drop in DROPS)],
        notes=["Percent wrong, and tokens in brackets."],
    )
    for i in result.rows:
        rates = [result.heat[i, j] for j in range(len(DROPS))]
        made.rows.append([Cell(result.most(i)), *(Cell(shown(rate)) for rate in rates)])
        for j, rate in enumerate(rates):
            low, high = ROWS[i]
            made.records.append(
                {"k_low": low, "k_high": high, "r_low": DROPS[j][0], "r_high": DROPS[j][1], **fields(rate)}
            )
    return made


def separation_table(result: Result) -> Table:
    made = Table(
        "Right against wrong tokens at equal confidence",
        ["signal", "c in", "right", "wrong", "concordance %", "95 % interval"],
        notes=[
            "Share of right-wrong pairs in which the right one persists longer (drops less); 50 % is no information."
        ],
        left=2,
    )
    entries = [("K", TESTED, result.persistence), ("r at equal K", TESTED, result.drop)]
    entries += [("K", band, found) for band, found in result.by_band.items()]
    for name, band, found in entries:
        low, high = (100 * end for end in found.ci95)
        known = found.enough
        made.rows.append(
            [
                Cell(name), Cell(interval(band, BANDS)), Cell(found.right, 0), Cell(found.wrong, 0),
                Cell(100 * found.concordance if known else None, 1),
                Cell(f"[{low:.1f}, {high:.1f}]" if known else f"fewer than {NEEDED} right or wrong"),
            ]
        )  # fmt: skip
        value = {"concordance": found.concordance, "ci95_low": found.ci95[0], "ci95_high": found.ci95[1]}
        made.records.append(
            {"signal": name, "c_low": band[0], "c_high": band[1], "right": found.right, "wrong": found.wrong}
            | {key: number if known else None for key, number in value.items()}
        )
    return made


def interval(band: tuple[float, float], bands: Sequence[tuple[float, float]]) -> str:
    return f"[{band[0]:g}, {band[1]:g}{']' if band == bands[-1] else ')'}"


def shown(rate: Rate | None) -> str:
    return "" if rate is None or not rate.n else f"{100 * rate.error:.1f} ({rate.n})"


def fields(rate: Rate) -> dict[str, Any]:
    low, high = rate.ci95
    return {
        "n": rate.n,
        "wrong": rate.wrong,
        "error": rate.error if rate.n else None,
        "wilson_low": low,
        "wilson_high": high,
    }


def verdict(result: Result) -> str:
    """One computed sentence: do K and r say more than confidence does?"""
    return f"{phrase(result.persistence, 'longer persistence')} {phrase(result.drop, 'a smaller drop')}"


def phrase(found: Separation, what: str) -> str:
    where = f"Among tokens with confidence in [{TESTED[0]}, {TESTED[1]})"
    if not found.enough:
        return (
            f"{where} there are {found.right} right and {found.wrong} wrong ones to judge {what} by: fewer than "
            f"{NEEDED} of a kind, so nothing can be said."
        )
    low, high = (100 * end for end in found.ci95)
    said = f"{100 * found.concordance:.1f} % of right-wrong pairs [{low:.1f}, {high:.1f}]"
    if found.informative:
        return f"{where}, {what} goes with being right at equal confidence: {said}."
    if found.inverted:
        return f"{where}, {what} goes with being WRONG at equal confidence: {said}."
    return f"{where}, {what} does not tell right from wrong at equal confidence: {said}, and 50 % is no information."
