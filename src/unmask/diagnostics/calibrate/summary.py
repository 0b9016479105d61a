"""The evidence as plain data: what calibration.json holds and the page is drawn from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from unmask.diagnostics.calibrate.bounds import Bound
from unmask.diagnostics.calibrate.decode import Comparison, Outcome
from unmask.diagnostics.calibrate.evidence import States, Tokens
from unmask.diagnostics.calibrate.rules import CONFIDENCES, Choice, Proposal, Risk
from unmask.diagnostics.layers import Separation

ROWS = ((1, 1), (2, 2), (3, 4), (5, None))  # K of the heat map
COLUMNS = ((0.0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4))  # drops
PARTS = 3  # of the tested band
GROUPS = 5  # of states by upstream entropy


def of_proposal(proposal: Proposal, usual: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "risk": proposal.risk,
        "choices": [of_choice(choice, usual[name]) for name, choice in proposal.choices.items()],
        "route": proposal.route,
        "band": list(proposal.band),
        "signals": [of_separation(found) for found in proposal.signals or ()],
        "measured": of_bound(proposal.measured),
        "correlation": proposal.correlation,
    }


def of_choice(choice: Choice, usual: float) -> dict[str, Any]:
    tried = [{"value": t.value, **of_bound(t.bound), "allowed": t.allowed} for t in choice.tried]
    return {"name": choice.name, "value": choice.value, "usual": usual, "why": choice.why, "tried": tried}


def of_bound(found: Bound) -> dict[str, Any]:
    return {**asdict(found), "error": found.error}


def of_separation(found: Separation) -> dict[str, Any]:
    known = found.enough
    return {
        "name": found.name, "right": found.right, "wrong": found.wrong,
        "concordance": found.concordance if known else None, "ci95": list(found.ci95) if known else None,
        "informative": found.informative,
    }  # fmt: skip


def of_evidence(tokens: Tokens, states: States, proposal: Proposal, beta: float) -> dict[str, Any]:
    """`beta` is the budget that the thresholds were chosen under."""
    rule, energy = Risk(proposal.risk, tokens), tokens.E
    within, theta_h = tokens.where(energy <= beta), proposal.choices["theta_h"].value
    return {
        "tokens": {"n": len(tokens), "wrong": int(tokens.wrong.sum()), "traces": len(np.unique(tokens.question))},
        "confidence": [{"at": t, **of_bound(rule.of(within, within.c >= t))} for t in reversed(CONFIDENCES)],
        "persistence": persistence(within, proposal),
        "heat": heat(within, proposal),
        "upstream": upstream(tokens, states, rule, theta_h),
    }


def persistence(tokens: Tokens, proposal: Proposal) -> list[dict[str, Any]]:
    """Error rates under K >= k, in thirds of the band that the stability route decides; empty ones left out."""
    length, (low, high) = tokens.K(proposal.window), proposal.band
    curves = []
    for start, stop in itertools.pairwise(np.linspace(low, high, PARTS + 1)):
        inside = (tokens.c >= start) & (tokens.c < stop)
        nested = [(k, inside & (length >= k)) for k in range(1, proposal.window + 1)]
        points = [
            {"k": k, "n": int(which.sum()), "wrong": int(tokens.wrong[which].sum())}
            for k, which in nested
            if which.any()
        ]
        curves.append({"low": round(float(start), 3), "high": round(float(stop), 3), "points": points})
    return curves


def heat(tokens: Tokens, proposal: Proposal) -> dict[str, Any]:
    """Error rates by persistence and drop, in the band that the stability route decides."""
    low, high = proposal.band
    inside = tokens.where((tokens.c >= low) & (tokens.c < high))
    K, r = inside.K(proposal.window), inside.drop(proposal.window)
    cells = []
    for first, last in ROWS:
        row = (first <= K) & ((math.inf if last is None else last) >= K)
        for start, stop in COLUMNS:
            which = row & (r >= start) & (r < (math.inf if (start, stop) == COLUMNS[-1] else stop))
            cells.append({"n": int(which.sum()), "wrong": int(inside.wrong[which].sum())})
    return {"rows": [list(row) for row in ROWS], "columns": [list(column) for column in COLUMNS], "cells": cells}


def upstream(tokens: Tokens, states: States, rule: Risk, theta_h: float) -> list[dict[str, Any]]:
    """Fifths of the states by entropy: how often the answer is wrong, and how often a confident token is."""
    edges = np.quantile(states.E, np.linspace(0, 1, GROUPS + 1)) if len(states.E) else np.zeros(GROUPS + 1)
    group, owner = (np.searchsorted(edges[1:-1], E, side="left") for E in (states.E, tokens.E))
    found = []
    for number in range(GROUPS):
        inside = group == number
        confident = rule.of(tokens, (owner == number) & (tokens.c >= theta_h))
        found.append(
            {
                "low": float(edges[number]), "high": float(edges[number + 1]), "n": int(inside.sum()),
                "wrong": int(states.wrong[inside].sum()), "confident": of_bound(confident),
            }
        )  # fmt: skip
    return found


def of_decodes(trial: Sequence[Outcome], chosen: Outcome, comparison: Comparison) -> dict[str, Any]:
    difference = comparison.accuracy
    return {
        "trial": {"chosen": chosen.label, "settings": [of_outcome(outcome) for outcome in trial]},
        "held_out": {
            "uncalibrated": of_outcome(comparison.before), "calibrated": of_outcome(comparison.after),
            "accuracy": {**asdict(difference), "ci95": list(difference.ci95)},
            "nfe": comparison.nfe, "nfe_ci95": list(comparison.nfe_ci95),
            "verdict": verdict(comparison),
        },
    }  # fmt: skip


def of_outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "label": outcome.label, "params": dict(outcome.params), "n": outcome.n, "correct": sum(outcome.right),
        "accuracy": outcome.accuracy, "ci95": list(outcome.ci95), "nfe": outcome.nfe,
    }  # fmt: skip


def verdict(comparison: Comparison) -> str:
    """One computed sentence: is the proposal worth having?"""
    difference, (low, high) = comparison.accuracy, comparison.nfe_ci95
    if low == high == 0 and not difference.only_a and not difference.only_b:
        return "The proposal decodes exactly as the uncalibrated settings do: nothing to change."
    sure = difference.p_value < 0.05  # of few discordant pairs the bootstrap alone is too sure
    better = sure and difference.ci95[0] > 0
    if sure and difference.ci95[1] < 0:
        return "Do not use it: on held-out examples it is less accurate than the uncalibrated settings."
    quality = "more accurate" if better else "as accurate, as far as this many examples tell,"
    if high < 0:
        return f"Use it: {quality} and cheaper by {-comparison.nfe:.1f} forwards per example."
    if better:
        return f"Use it: {quality}, for {comparison.nfe:+.1f} forwards per example."
    if low > 0:
        return f"Keep the uncalibrated settings: {quality} and dearer by {comparison.nfe:.1f} forwards per example."
    return "No difference beyond noise: keep the uncalibrated settings, or use it for its stated risk."
