"""How each setting follows from the evidence. docs/calibration.md says the same in words.

The risk is the share of wrong tokens among those that the rule admits, over target tokens of masked states whose
upstream entropy is within the budget. A setting is allowed if the one-sided 95 % upper bound of its risk is within
the target. Candidates are tried from the strictest on and the first that is not allowed ends the search (fixed-
sequence testing): so the bound holds for the setting that is chosen, however many were tried, and more evidence or
a higher target never makes it stricter. Where a sequence starts depends on the number of tokens only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unmask.diagnostics.calibrate.bounds import ALPHA, Bound, bound, intraclass_correlation
from unmask.diagnostics.calibrate.evidence import Tokens
from unmask.diagnostics.calibrate.signal import separations
from unmask.diagnostics.layers import Separation
from unmask.errors import UserError

CONFIDENCES = tuple(round(0.99 - 0.01 * i, 2) for i in range(50))  # theta_h: 0.99 down to 0.50
LOWEST = 0.3  # theta_c is never below: the argmax has less than a third of the probability
STEP = 0.05  # of theta_c
DROPS = tuple(round(0.05 + 0.025 * i, 3) for i in range(15))  # ceilings of the drop: 0.05 to 0.4
SMALL_DROP = 0.03  # what a suffix of exactly theta_s + 1/2 layers may lose (the paper: 0.033, 0.025)
BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0)  # beta, nats
SAME_VERDICTS = 0.999  # share of the band's tokens on which a shorter window must agree with half the stack
K_MAX = 6
UNMEASURED = Bound(0, 0, 0, 0.0, 1.0)
ROOM = 4  # the search for theta_h starts with so many times the tokens needed: one error must not end it


@dataclass(frozen=True)
class Tried:
    """One candidate value and its bound: a point of a figure."""

    value: float
    bound: Bound
    allowed: bool


@dataclass
class Choice:
    """A setting, the sentence that says why, and everything that was tried for it."""

    name: str
    value: float
    why: str
    tried: list[Tried] = field(default_factory=list)


@dataclass
class Proposal:
    """Settings for RPD, choice by choice."""

    risk: float
    choices: dict[str, Choice]
    signals: tuple[Separation, Separation] | None  # of K and r in the tested band; None: no band to test
    band: tuple[float, float]
    route: bool  # is the stability route on?
    measured: Bound  # of the whole rule
    correlation: float
    k_max: int
    window: int  # layers seen by half the stack

    def params(self) -> dict[str, float | int]:
        """As `-o @file` and `unmask.decoders.get("rpd", **params)` take them."""
        values = {name: choice.value for name, choice in self.choices.items()}
        return {**values, "k_max": self.k_max, "first_layer": int(values["first_layer"])}


class Risk:
    """The bound of any selection of tokens, and how many tokens a bound needs to be of use."""

    def __init__(self, target: float, tokens: Tokens) -> None:
        if not 0.0 < target < 1.0:
            raise UserError(f"--risk is a share between 0 and 1, as in 0.02, not {target:g}")
        self.target = target
        self.correlation = intraclass_correlation(tokens.wrong, tokens.question)
        # With fewer independent tokens even a selection without an error has a bound above the target.
        self.needed = math.ceil(math.log(ALPHA) / math.log1p(-target))

    def of(self, tokens: Tokens, which: np.ndarray) -> Bound:
        wrong, question = tokens.wrong[which], tokens.question[which]
        return bound(wrong, question, max(self.correlation, intraclass_correlation(wrong, question)))

    def search(
        self, values: Iterable[float], tokens: Tokens, admitted: Callable[[float], np.ndarray], room: int = 1
    ) -> tuple[float | None, list[Tried]]:
        """The last value, from the strictest on, before the first that is not allowed. The first is the strictest
        with `room` times the tokens that a bound needs; where there never are as many, the strictest with what it
        needs (not the one with the most, which is the laxest)."""
        bounds = [(value, self.of(tokens, admitted(value))) for value in values]
        most = max((found.effective for _, found in bounds), default=0.0)
        start = (room if most >= room * self.needed else 1) * self.needed
        chosen, tried = None, []
        for value, found in itertools.dropwhile(lambda pair: pair[1].effective < start, bounds):
            allowed = found.upper <= self.target
            tried.append(Tried(value, found, allowed))
            if not allowed:
                break
            chosen = value
        return chosen, tried


def propose(tokens: Tokens, risk: float, layers: int, first: int, beta: float, at_least: float = 0.0) -> Proposal:
    """Every setting but the final beta, which a validation decode picks below `choices["beta"]`. `at_least` keeps
    theta_h from falling below a value that the evidence would allow."""
    rule = Risk(risk, tokens)
    within = tokens.where(beta >= tokens.E)
    window = layers - first + 1
    theta_h = high_threshold(within, rule, beta)
    if theta_h.value < at_least:
        theta_h = Choice("theta_h", at_least, f"{theta_h.value:g} would do for the target", theta_h.tried)
    k_max = min(K_MAX, window)
    stable = Stability(within, rule, theta_h.value, k_max, window)
    choices, route = stable.choose(), True
    if stable.off is None:
        admitted = (within.c >= theta_h.value) | stable.admits(within, choices)
        route = rule.of(within, admitted).upper <= risk
        if not route:
            stable.off = "together with the confident tokens it would exceed the target"
    if stable.off is not None:
        choices, route = stable.closed(), False
    first_layer = layer_choice(within, stable, choices, layers, first) if route else half_stack(first)
    budget = budget_cap(tokens, rule, theta_h.value, beta)
    settings = {"theta_h": theta_h, **choices, "first_layer": first_layer, "beta": budget}
    proposal = Proposal(
        risk, settings, stable.signals, stable.band, route, UNMEASURED, rule.correlation, k_max, window
    )  # fmt: skip
    measure(proposal, tokens, beta)
    return proposal


def measure(proposal: Proposal, tokens: Tokens, beta: float) -> None:
    """The risk of the settings as they stand, under the larger of their own and the usual budget."""
    values = proposal.params()
    budget, energy = max(beta, values["beta"]), tokens.E
    reach = tokens.where(energy <= budget)
    length, lost = reach.K(proposal.window), reach.drop(proposal.window)
    stable = np.minimum(length, proposal.k_max) - values["w"] * lost >= values["theta_s"]
    moderate = (reach.c >= values["theta_c"]) & (reach.c < values["theta_h"])
    proposal.measured = Risk(proposal.risk, tokens).of(reach, (reach.c >= values["theta_h"]) | (moderate & stable))


# --- theta_h ----------------------------------------------------------------------------------------------------


def high_threshold(tokens: Tokens, rule: Risk, beta: float) -> Choice:
    """The lowest confidence from which on tokens are right often enough without any other test."""
    if rule.of(tokens, np.ones(len(tokens), dtype=bool)).effective < rule.needed:
        everything = rule.of(tokens, np.ones(len(tokens), dtype=bool))
        raise UserError(
            f"{everything.n} target tokens of {everything.questions} traces are worth {everything.effective:.0f} "
            f"independent ones, and a risk of {rule.target:g} needs {rule.needed}: use more traces (--limit) or a "
            "higher --risk"
        )
    value, tried = rule.search(CONFIDENCES, tokens, lambda t: tokens.c >= t, ROOM)
    if value is None:
        best = min((t.bound.upper for t in tried), default=1.0)
        why = f"no confidence keeps the error rate within {pct(rule.target)} (at best at most {pct(best)})"
        return Choice("theta_h", 1.0, f"{why}: only certain tokens are admitted; a higher --risk would help", tried)
    found = next(t.bound for t in tried if t.value == value)
    return Choice(
        "theta_h", value,
        f"the lowest threshold at which the error rate, {pct(found.error)} of {found.n} tokens with E ≤ {beta:g}, is "
        f"at most {pct(found.upper)}, within the target of {pct(rule.target)}",
        tried,
    )  # fmt: skip


# --- theta_c, theta_s, w ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StableRule:
    """One candidate for the stability route, chosen on half of the questions."""

    theta_c: float
    theta_s: float
    ceiling: float  # of the drop; infinite where the drop says nothing
    w: float
    admitted: int
    persistence: list[Tried]
    drops: list[Tried]


class Stability:
    """The route for moderately confident tokens: is there a signal, and which rule makes use of it?

    For every theta_c, one half of the questions says which theta_s and w are low risk there; the theta_c that admits
    most is put to one test on the other half."""

    def __init__(self, tokens: Tokens, rule: Risk, theta_h: float, k_max: int, window: int) -> None:
        self.rule, self.theta_h, self.k_max, self.window = rule, theta_h, k_max, window
        self.band = (min(LOWEST, theta_h), theta_h)
        self.inside = tokens.where((tokens.c >= self.band[0]) & (tokens.c < theta_h))
        self.fit, self.check = self.inside.halves()
        self.signals: tuple[Separation, Separation] | None = None
        self.off: str | None = None  # why the route is switched off

    def choose(self) -> dict[str, Choice]:
        if not len(self.inside):
            return self.close("no token has a confidence below theta_h")
        self.signals = separations(self.inside, *self.band, self.window)
        if not any(signal.informative for signal in self.signals):
            return self.close(uninformative(*self.signals))
        found = [rule for theta_c in self.steps() if (rule := self.candidate(theta_c)) is not None]
        if not found:
            return self.close("even the most persistent tokens are wrong too often, or too few to tell")
        best = max(found, key=lambda rule: rule.admitted)
        moderate = self.check.c >= best.theta_c
        tested = self.rule.of(self.check, moderate & self.stable(self.check, best.theta_s, best.w))
        if tested.upper > self.rule.target:
            return self.close(
                f"on questions that had no part in choosing its rule, {pct(tested.error)} of {tested.n} stable "
                f"tokens are wrong, at most {pct(tested.upper)}"
            )
        return self.explain(best, tested)

    def candidate(self, theta_c: float) -> StableRule | None:
        """theta_s = k - 1/2 for the shortest persistence k that is low risk without a drop, and w such that the
        ceiling is the largest drop that is low risk at full persistence; both on the fitting half."""
        assert self.signals is not None
        part = self.fit.where(self.fit.c >= theta_c)
        length, lost = part.K(self.window), part.drop(self.window)
        lengths = [float(k) for k in range(self.k_max, 0, -1)]
        k, persistence = self.rule.search(lengths, part, lambda least: (length >= least) & (lost <= SMALL_DROP))
        if k is None:
            return None
        theta_s, ceiling = k - 0.5, math.inf
        drops: list[Tried] = []
        if self.signals[1].informative:
            edge, drops = self.rule.search(DROPS, part, lambda edge: (length >= self.k_max) & (lost <= edge))
            if edge is None:
                return None
            ceiling = edge
        w = math.floor(10 * (self.k_max - theta_s) / ceiling) / 10
        stable = self.stable(part, theta_s, w)
        if self.rule.of(part, stable).upper > self.rule.target:
            return None
        return StableRule(theta_c, theta_s, ceiling, w, int(stable.sum()), persistence, drops)

    def explain(self, best: StableRule, tested: Bound) -> dict[str, Choice]:
        k_max, theta_s, w = self.k_max, best.theta_s, best.w
        why_c = (
            "the threshold that lets most stable tokens in; on questions that had no part in choosing it, "
            f"{pct(tested.error)} of {tested.n} are wrong, at most {pct(tested.upper)}"
        )
        why_s = (
            f"the shortest suffix that is reliable without a drop (r ≤ {SMALL_DROP:g}) has {theta_s + 0.5:.0f} "
            "layers; half a layer below, so that it may lose a little"
        )
        why_w = (
            f"the ceiling (K_max - theta_s) / w = {(k_max - theta_s) / w:.3f} sits just above the largest drop that "
            f"is low risk at K ≥ {k_max}, {best.ceiling:g}"
            if w
            else "the drop does not tell right from wrong here, so it costs nothing"
        )
        return {
            "theta_c": Choice("theta_c", best.theta_c, why_c, [Tried(best.theta_c, tested, True)]),
            "theta_s": Choice("theta_s", theta_s, why_s, best.persistence),
            "w": Choice("w", w, why_w, best.drops),
        }

    def steps(self) -> list[float]:
        """theta_c from just below theta_h down."""
        count = int((self.theta_h - self.band[0]) / STEP + 1e-9)
        return [round(self.theta_h - STEP * (i + 1), 2) for i in range(count)]

    def stable(self, tokens: Tokens, theta_s: float, w: float, window: int | None = None) -> np.ndarray:
        window = window or self.window
        return np.minimum(tokens.K(window), self.k_max) - w * tokens.drop(window) >= theta_s

    def admits(self, tokens: Tokens, choices: dict[str, Choice], window: int | None = None) -> np.ndarray:
        moderate = (tokens.c >= choices["theta_c"].value) & (tokens.c < self.theta_h)
        return moderate & self.stable(tokens, choices["theta_s"].value, choices["w"].value, window)

    def close(self, why: str) -> dict[str, Choice]:
        self.off = why
        return self.closed()

    def closed(self) -> dict[str, Choice]:
        """theta_c = theta_h: no token is tested, no layer is read."""
        why = f"the stability route is off: {self.off}"
        unused = "has no effect while the stability route is off"
        return {
            "theta_c": Choice("theta_c", self.theta_h, why),
            "theta_s": Choice("theta_s", float(self.k_max) - 0.5, unused),
            "w": Choice("w", 0.0, unused),
        }


def uninformative(persistence: Separation, drop: Separation) -> str:
    if not persistence.enough:
        return (
            f"{persistence.right} right and {persistence.wrong} wrong tokens lie below theta_h, too few to say "
            "whether the layers tell them apart"
        )
    told = "longer persistence goes with being wrong" if persistence.inverted else ""
    return (
        f"at equal confidence {told or 'neither persistence nor the drop tells right from wrong tokens'} "
        f"(K: {concordance(persistence)}; r: {concordance(drop)}; 50 % is no information)"
    )


def concordance(found: Separation) -> str:
    if not found.enough:
        return f"{found.right} right and {found.wrong} wrong tokens, too few"
    low, high = found.ci95
    return f"{100 * found.concordance:.0f} % of pairs [{100 * low:.0f}, {100 * high:.0f}]"


# --- first_layer ------------------------------------------------------------------------------------------------


def half_stack(first: int) -> Choice:
    return Choice(
        "first_layer", first, "the final half of the layers; has no effect while the stability route is off"
    )


def layer_choice(tokens: Tokens, stable: Stability, choices: dict[str, Choice], layers: int, first: int) -> Choice:
    """The latest layer from which the rule admits the same tokens as from the middle of the stack."""
    whole = stable.admits(stable.inside, choices)
    tried: list[tuple[int, float]] = []
    for window in range(stable.window, 0, -1):
        same = float((stable.admits(stable.inside, choices, window) == whole).mean())
        if same < SAME_VERDICTS:
            break
        tried.append((window, same))
    window, same = tried[-1]  # half the stack agrees with itself
    return Choice(
        "first_layer", layers - window + 1,
        f"the last {window} of {layers} layers give the same verdicts as the final half on {pct(same)} of the tested "
        "tokens; one layer fewer does not",
    )  # fmt: skip


# --- beta -------------------------------------------------------------------------------------------------------


def budget_cap(tokens: Tokens, rule: Risk, theta_h: float, beta: float) -> Choice:
    """How far the budget could be raised from `beta`: while confident tokens behind that much entropy stay within
    the target, and there are enough of them to know."""
    confident, cap, tried = tokens.c >= theta_h, beta, []
    why = "no state has more upstream entropy than that to judge by"
    for lower, value in pairs([beta, *(b for b in BUDGETS if b > beta)]):
        fresh = rule.of(tokens, confident & (lower < tokens.E) & (value >= tokens.E))
        if fresh.effective < rule.needed:
            why = f"too few confident tokens behind more than {lower:g} nats to judge by ({fresh.n})"
            break
        found = rule.of(tokens, confident & (value >= tokens.E))
        allowed = max(found.upper, fresh.upper) <= rule.target
        tried.append(Tried(value, fresh, allowed))
        if not allowed:
            why = (
                f"confident tokens behind {lower:g} to {value:g} nats are wrong up to {pct(fresh.upper)} of the time"
            )
            break
        cap, why = value, "the highest budget tried"
    return Choice("beta", cap, f"the evidence reaches {cap:g} nats ({why})", tried)


def pairs(values: Sequence[float]) -> Iterable[tuple[float, float]]:
    return itertools.pairwise(values)


def pct(share: float) -> str:
    return f"{100 * share:.2f} %" if share < 0.0995 else f"{100 * share:.1f} %"
