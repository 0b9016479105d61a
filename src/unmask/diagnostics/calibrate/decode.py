"""What only decoding can tell: which budget to take, and whether the proposal is worth having.

A *trial* on validation examples picks among settings that the evidence allows; *held-out* examples, which had no
part in anything, then compare the proposal with what the model uses uncalibrated, example by example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.diagnostics.calibrate.rules import Choice, Proposal
from unmask.evaluate import DecoderSpec, Settings, run
from unmask.evaluate.folder import read_samples
from unmask.report.stats import Paired, mcnemar_one_sided, paired, paired_mean, wilson

if TYPE_CHECKING:
    from unmask.evaluate.progress import Progress

TOLERANCE = 0.02  # accuracy that a cheaper setting may seem to lose on the trial, if the loss is not significant
ALPHA = 0.05


@dataclass(frozen=True)
class Outcome:
    """One setting on a set of examples."""

    label: str
    params: Mapping[str, Any]
    right: tuple[bool, ...]
    forwards: tuple[int, ...]

    @property
    def n(self) -> int:
        return len(self.right)

    @property
    def accuracy(self) -> float:
        return sum(self.right) / self.n

    @property
    def ci95(self) -> tuple[float, float]:
        return wilson(sum(self.right), self.n)

    @property
    def nfe(self) -> float:
        return sum(self.forwards) / self.n


@dataclass(frozen=True)
class Comparison:
    """The calibrated setting (second) against the uncalibrated one (first), on the same examples."""

    before: Outcome
    after: Outcome
    accuracy: Paired
    nfe: float  # after minus before, forwards per example
    nfe_ci95: tuple[float, float]

    @classmethod
    def of(cls, before: Outcome, after: Outcome) -> Comparison:
        difference, interval = paired_mean(before.forwards, after.forwards)
        return cls(before, after, paired(before.right, after.right), difference, interval)


def decode(
    fields: Mapping[str, Any], arms: Mapping[str, Mapping[str, Any]], folder: Path, progress: Progress | None
) -> list[Outcome]:
    """Every arm on the same examples, resumable like any evaluation. `fields` are those of Settings."""
    specs = tuple(DecoderSpec(label, "rpd", dict(params)) for label, params in arms.items())
    run(Settings(decoders=specs, **fields), folder, progress=progress)
    found: dict[str, dict[int, Mapping[str, Any]]] = {label: {} for label in arms}
    for sample in read_samples(folder):
        found[sample["decoder"]][sample["index"]] = sample
    outcomes = []
    for label, params in arms.items():
        samples = [found[label][index] for index in sorted(found[label])]
        right = tuple(bool(sample["correct"]) for sample in samples)
        outcomes.append(Outcome(label, params, right, tuple(int(sample.get("nfe", 0)) for sample in samples)))
    return outcomes


def trial_arms(proposal: Proposal, strict: Proposal, beta: float) -> dict[str, dict[str, Any]]:
    """Half, once and twice the model's usual budget as far as the evidence allows; and the usual theta_h (`strict`),
    where the evidence would allow a lower one: rare words may need what target digits do not."""
    params, cap = proposal.params(), proposal.choices["beta"].value
    arms = {f"β {b:g}": {**params, "beta": b} for b in (beta / 2, beta, 2 * beta) if b <= cap}
    if strict.choices["theta_h"].value > params["theta_h"]:
        stern = {**strict.params(), "beta": min(beta, strict.choices["beta"].value)}
        arms[f"β {stern['beta']:g}, θh {stern['theta_h']:g}"] = stern
    return arms


def pick(outcomes: Sequence[Outcome]) -> Outcome:
    """The fewest forwards among settings that are not worse than the most accurate one."""
    best = max(outcomes, key=lambda outcome: (sum(outcome.right), -sum(outcome.forwards)))
    good = [outcome for outcome in outcomes if not worse(outcome, best)]
    return min(good, key=lambda outcome: sum(outcome.forwards))


def worse(outcome: Outcome, best: Outcome) -> bool:
    only_best = sum(b and not o for o, b in zip(outcome.right, best.right, strict=True))
    only_this = sum(o and not b for o, b in zip(outcome.right, best.right, strict=True))
    lost = (only_best - only_this) / best.n
    return lost > TOLERANCE or mcnemar_one_sided(only_this, only_best) < ALPHA


def settle(proposal: Proposal, strict: Proposal, outcomes: Sequence[Outcome]) -> tuple[Proposal, Outcome]:
    """The proposal that the trial picked, with what it picked written into it."""
    chosen = pick(outcomes)
    said = (
        f"of {len(outcomes)} settings tried on {chosen.n} validation examples, the one with the fewest forwards "
        f"({chosen.nfe:.1f}) among those not less accurate than the best ({100 * chosen.accuracy:.1f} %)"
    )
    if chosen.params["theta_h"] != proposal.choices["theta_h"].value:
        proposal = strict
        proposal.choices["theta_h"].why += f"; the trial prefers the model's usual value: {said}"
    cap = proposal.choices["beta"]
    proposal.choices["beta"] = Choice("beta", float(chosen.params["beta"]), f"{said}; {cap.why}", cap.tried)
    return proposal, chosen
