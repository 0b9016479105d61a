"""Reliable Parallel Decoding: confident or stable candidates, committed while little uncertainty lies upstream.

    C = { i : c_i >= theta_h  or  (theta_c <= c_i < theta_h and S_i >= theta_s) }          (paper Eq. 5)
    A = { i in C : E_i <= beta },  E_i = sum of H_j over masked j < i that are not in C     (paper Eqs. 6-7)

The paper scans C from left to right and adds up the entropy of everything before i that stays masked. E
never falls along the scan, so the first rejection is final, rejected candidates never matter, and the scan
equals one exclusive cumulative sum over the positions outside C (tests hold it against the literal scan).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from unmask.decoders.base import BlockDecoder, Commit, Decoder, Lens, StepView, best, in_unit, verdicts
from unmask.lens import StabilityRule

FALLBACKS = ("affordable", "window")
MOST = 1_000_000  # S is at most a number of layers, a drop at most 1: beyond this a setting says nothing new


@dataclass(frozen=True)
class Candidacy(Decoder):
    """The candidate rule that RPD and RPD-block share. `None` means: the value in this model's settings."""

    theta_h: float | None = None  # at or above: a candidate without a stability test
    theta_c: float | None = None  # below: never a candidate
    theta_s: float | None = None  # stability needed in between
    k_max: int = 6  # persistence counts up to this many layers
    w: float | None = None  # weight of the confidence drop
    first_layer: int | None = None  # ℓ0, 1-based: where the window of layers begins
    settings: str = "model"  # where unset values come from; "paper": its table, whatever the model says
    lazy: bool = True  # read only the layers that can change the outcome; False reads the whole window

    def check(self) -> None:
        super().check()
        for value in (self.theta_h, self.theta_c):
            self.require(value is None or in_unit(value), "theta_h and theta_c must lie in [0, 1]")
        if self.theta_h is not None and self.theta_c is not None:
            low, high = self.theta_c, self.theta_h
            self.require(low <= high, f"theta_c {low} exceeds theta_h {high}: lower theta_c")
        self.require_choice("settings", ("model", "paper"))
        self.require(self.k_max >= 1, "k_max must be at least 1")
        self.require(self.w is None or 0 <= self.w <= MOST, f"w must be 0 or more, and at most {MOST}")
        fits = self.theta_s is None or abs(self.theta_s) <= MOST or math.isinf(self.theta_s)
        self.require(fits, f"theta_s must be a number within {MOST}, or infinite")
        self.require(self.first_layer is None or self.first_layer >= 1, "first_layer must be at least 1")

    def resolve(self, spec, length: int) -> Decoder:
        super().resolve(spec, length)
        settings = spec.rpd_settings(paper=self.settings == "paper")
        unset = [f.name for f in fields(self) if getattr(self, f.name) is None]
        filled = {name: settings[name] for name in unset if name in settings}
        low, high = (filled.get(name, getattr(self, name)) for name in ("theta_c", "theta_h"))
        own = " and ".join(name for name in ("theta_c", "theta_h") if name in filled)
        self.require(low <= high, f"theta_c {low} exceeds theta_h {high}: set {own} too, it is the model's own")
        # No more layers than there are can agree: the same rule, in numbers that fit.
        done = replace(self, **filled, k_max=min(self.k_max, spec.layers))
        first = done.first_layer or 1
        self.require(first <= spec.layers, f"first_layer {first} is past the model's {spec.layers} layers")
        return done

    def bands(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Confident enough on their own; confident enough to be tested for stability."""
        assert self.theta_h is not None and self.theta_c is not None
        return c >= self.theta_h, (c >= self.theta_c) & (c < self.theta_h)

    def keep_from(self, layers: int) -> int:
        assert self.first_layer is not None
        return layers if self.theta_c == self.theta_h else self.first_layer

    @property
    def rule(self) -> StabilityRule:
        assert self.theta_s is not None and self.w is not None and self.first_layer is not None
        return StabilityRule(self.theta_s, self.w, self.k_max, self.first_layer)

    def test_stability(
        self, view: StepView, needed: np.ndarray
    ) -> Generator[Lens, Any, tuple[np.ndarray, dict[str, np.ndarray]]]:
        """S >= theta_s for the positions in `needed` (bool); the others read as unstable, unread."""
        n = len(view)
        stable = np.zeros(n, dtype=bool)
        columns = {name: np.full(n, np.nan) for name in ("K", "r", "S")}
        where = np.flatnonzero(needed)
        if where.size:
            readout = yield view.lens(where, self.rule, self.lazy)
            stable[where] = readout.stable
            columns["K"][where], columns["r"][where] = readout.persistence, readout.drop
            columns["S"][where] = readout.score
        return stable, columns


@dataclass(frozen=True)
class RPD(Candidacy):
    name: ClassVar[str] = "rpd"
    summary: ClassVar[str] = "stable candidates under a cumulative entropy budget (the paper's method)"

    beta: float | None = None  # nats of entropy allowed upstream; None: this model's own (4 in the paper)
    fallback: str = "affordable"  # when nothing is committable; "window" is the paper's
    window: int = 32  # W: how many masked positions from the left the paper's fallback looks at

    def check(self) -> None:
        super().check()
        self.require(
            self.beta is None or (self.beta >= 0 and not math.isnan(self.beta)),
            f"beta must be 0 or more, not {self.beta}",
        )
        self.require_choice("fallback", FALLBACKS)
        self.require(self.window >= 1, "window must be at least 1")

    def select(self, view: StepView) -> Generator[Lens, Any, Commit]:
        assert self.beta is not None
        c, entropy = view.confidence, view.entropy
        confident, band = self.bands(c)
        # What lies below theta_c stays masked whatever the lens says: a position whose E is past beta on that
        # account alone need not be read.
        affordable = exclusive_sum(np.where(confident | band, 0.0, entropy)) <= self.beta
        stable, columns = yield from self.test_stability(view, band & affordable if self.lazy else band)
        candidate = confident | stable
        upstream = exclusive_sum(np.where(candidate, 0.0, entropy))  # E
        take = candidate & (upstream <= self.beta)
        verdict = verdicts(len(view), "unsure")
        verdict[band] = "unstable"
        verdict[(candidate & ~take) | (band & ~affordable)] = "upstream"
        verdict[take & confident], verdict[take & stable] = "confidence", "stability"
        if not take.any():
            i = self.fall_back(c, upstream)
            take[i], verdict[i] = True, "fallback"
        return Commit(take, verdict, None, {**columns, "E": upstream}, self.beta)

    def fall_back(self, c: np.ndarray, upstream: np.ndarray) -> int:
        """One position, so that every step makes progress.

        The paper takes the most confident of the first W masks, which may lie past the budget (on a canvas
        with a long end-of-text tail it often does). Ours stays within: the leftmost mask has E = 0."""
        if self.fallback == "window":
            return best(c[: self.window])
        assert self.beta is not None
        return best(c, np.flatnonzero(upstream <= self.beta))


@dataclass(frozen=True)
class RPDBlock(Candidacy, BlockDecoder):
    """Candidates within fixed blocks, no entropy budget: what stability alone contributes."""

    name: ClassVar[str] = "rpd-block"
    summary: ClassVar[str] = "confident or stable positions, block by block"

    def select(self, view: StepView) -> Generator[Lens, Any, Commit]:
        c = view.confidence
        confident, band = self.bands(c)
        stable, columns = yield from self.test_stability(view, band)
        take = confident | stable
        verdict = verdicts(len(view), "unsure")
        verdict[band] = "unstable"
        verdict[confident], verdict[stable] = "confidence", "stability"
        if not take.any():
            i = best(c)
            take[i], verdict[i] = True, "fallback"
        return Commit(take, verdict, None, columns)


def exclusive_sum(values: np.ndarray) -> np.ndarray:
    """Sum of everything strictly before each entry, left to right in float64."""
    return np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)[:-1]))
