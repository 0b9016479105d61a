"""Does uncertainty upstream go with errors downstream? (paper Section 2.1 and "Upstream Entropy")

Per question and level: of its 16 masking patterns, the five with the lowest cumulative entropy E against the five
with the highest. Only questions with both right and wrong answers among the 16; every question counts the same;
2,000 paired bootstrap resamples of questions.

    result = analyse(read_samples(folder, STATES))
    result.levels[0].delta, .ci95        result.quintiles[4].error        table(result)
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from unmask.errors import UserError
from unmask.report.table import Cell, Table
from unmask.wording import plural

SIDE = 5  # patterns at either end
RESAMPLES = 2_000
NEEDED = 8  # mixed-outcome questions below which a level gets no verdict
GROUPS = 5  # quintiles
BOOTSTRAP_SEED = 325


@dataclass(frozen=True)
class Level:
    """One mask count. Errors are shares, not percent."""

    m: int
    masked: float  # median of what was hidden per trace
    questions: int
    n: int  # of mixed outcome
    low: float
    high: float
    ci95: tuple[float, float]
    joint: tuple[float, float]  # wide enough for all mask counts to be looked at together (Bonferroni)

    @property
    def delta(self) -> float:
        return self.high - self.low

    @property
    def enough(self) -> bool:
        return self.n >= NEEDED


@dataclass(frozen=True)
class Group:
    """States between two quantiles of E, whatever their level and question."""

    low: float  # nats
    high: float
    n: int
    wrong: int
    ci95: tuple[float, float]  # questions resampled

    @property
    def error(self) -> float:
        return self.wrong / self.n if self.n else math.nan


@dataclass
class Result:
    levels: list[Level]
    quintiles: list[Group]
    questions: int
    states: int
    digits: list[int] = field(default_factory=list)  # upstream digits of every trace


def analyse(lines: Iterable[Mapping[str, Any]], resamples: int = RESAMPLES, seed: int = BOOTSTRAP_SEED) -> Result:
    """Two floats per question and level, and nine bytes per state, are all that is held."""
    pairs: dict[int, list[tuple[float, float]]] = {}
    hidden: dict[int, list[int]] = {}
    E, wrong, owner, digits = array("d"), array("b"), array("l"), []
    for number, line in enumerate(lines):
        digits.append(line["digits"])
        for name, level in line["levels"].items():
            errors = [1 - right for right in level["right"]]
            hidden.setdefault(int(name), []).append(level["masked"])
            ends = low_and_high(level["E"], errors)
            pairs.setdefault(int(name), [])
            if ends is not None:
                pairs[int(name)].append(ends)
            E.extend(level["E"])
            wrong.extend(errors)
            owner.extend([number] * len(errors))
    looks = sum(len(found) >= NEEDED for found in pairs.values())
    levels = [measure(m, hidden[m], pairs[m], resamples, seed, looks) for m in sorted(pairs)]
    return Result(levels, quintiles(E, wrong, owner, resamples, seed), len(digits), len(E), digits)


def low_and_high(E: Sequence[float], wrong: Sequence[int]) -> tuple[float, float] | None:
    """Mean error of the five lowest and of the five highest patterns (ties in drawing order); None where all 16
    are right or all are wrong."""
    if not 0 < sum(wrong) < len(wrong):
        return None
    order = sorted(range(len(E)), key=lambda i: E[i])
    side = min(SIDE, len(order) // 2)
    return (sum(wrong[i] for i in order[:side]) / side, sum(wrong[i] for i in order[-side:]) / side)


def measure(
    m: int, hidden: Sequence[int], pairs: Sequence[tuple[float, float]], resamples: int, seed: int, looks: int = 1
) -> Level:
    """Means with equal weight per question, and the interval of their paired difference."""
    if not pairs:
        nothing = (math.nan, math.nan)
        return Level(m, median(hidden), len(hidden), 0, math.nan, math.nan, nothing, nothing)
    table = np.array(pairs)
    low, high = table.mean(axis=0)
    rng = np.random.default_rng([seed, m])
    difference = table[:, 1] - table[:, 0]  # the pairing within a question is kept
    draws = difference[rng.integers(0, len(table), (resamples, len(table)))].mean(axis=1)
    ends, joint = (
        tuple(np.quantile(draws, [tail, 1 - tail]).tolist()) for tail in (0.025, 0.025 / max(1, looks))
    )  # fmt: skip
    return Level(m, float(median(hidden)), len(hidden), len(table), float(low), float(high), ends, joint)


def quintiles(E: Any, wrong: Any, owner: Any, resamples: int, seed: int) -> list[Group]:
    """Error by quintile of E over all states. States of a question are alike, so questions are resampled."""
    values, errors, question = np.array(E), np.array(wrong, dtype=np.int64), np.array(owner)
    if not len(values):
        return []
    edges = np.quantile(values, np.linspace(0, 1, GROUPS + 1))
    # Equal values fall into one group, the lower one.
    group = np.searchsorted(edges[1:-1], values, side="left")
    questions = int(question.max()) + 1
    rng = np.random.default_rng([seed, 0])
    weights = rng.multinomial(questions, np.full(questions, 1 / questions), size=resamples).astype(np.float64)
    found = []
    for number in range(GROUPS):
        inside = group == number
        count = np.bincount(question[inside], minlength=questions).astype(np.float64)
        bad = np.bincount(question[inside], weights=errors[inside], minlength=questions)
        drawn = weights @ count
        rates = (weights @ bad)[drawn > 0] / drawn[drawn > 0]
        low, high = np.quantile(rates, [0.025, 0.975]) if len(rates) else (math.nan, math.nan)
        found.append(
            Group(
                float(edges[number]), float(edges[number + 1]), int(inside.sum()), int(errors[inside].sum()),
                (float(low), float(high)),
            )
        )  # fmt: skip
    return found


def require(result: Result, model: str) -> None:
    """A comparison needs questions of mixed outcome at one level at least."""
    if any(level.enough for level in result.levels):
        return
    counts = ", ".join(f"{level.n} at m = {level.m}" for level in result.levels)
    error = sum(group.wrong for group in result.quintiles) / max(1, result.states)
    more = f"raise --limit above {result.questions}"
    if error < 0.1:
        more += ", or use harder traces (--min-digits)"
    if error > 0.9:
        more += ", or use easier traces"
    raise UserError(
        f"too few questions on which {model} is both right and wrong ({counts}; {NEEDED} are needed at one mask "
        f"count, and {100 * error:.1f} % of all answers were wrong): {more}"
    )


# --- what is printed --------------------------------------------------------------------------------------------

COLUMNS = ["masks m", "hidden", "questions", "n mixed", "low %", "high %", "Δ pp", "95 % interval"]


def table(result: Result, title: str, notes: Sequence[str] = ()) -> Table:
    made = Table(title, COLUMNS, notes=[verdict(result), *notes], left=1)
    for level in result.levels:
        numbers = (level.low, level.high, level.delta)
        shown = [Cell(100 * value, 1) if level.enough else Cell(None) for value in numbers]
        low, high = (100 * end for end in level.ci95)
        interval = f"[{low:.1f}, {high:.1f}]" if level.enough else f"fewer than {NEEDED} questions"
        made.rows.append(
            [
                Cell(str(level.m)),
                Cell(level.masked, 0),
                Cell(level.questions, 0),
                Cell(level.n, 0),
                *shown,
                Cell(interval),
            ]
        )
        made.records.append(record(level))
    return made


def record(level: Level) -> dict[str, Any]:
    values = {"low": level.low, "high": level.high, "delta": level.delta}
    known = {key: None if math.isnan(value) else value for key, value in values.items()}
    low, high = (None if math.isnan(end) else end for end in level.ci95)
    return {
        "m": level.m, "masked_median": level.masked, "questions": level.questions, "n": level.n, **known,
        "ci95_low": low, "ci95_high": high, "enough": level.enough,
    }  # fmt: skip


def quintile_table(result: Result) -> Table:
    made = Table(
        "Answer error by quintile of cumulative upstream entropy",
        ["quintile", "E nats", "states", "wrong %", "95 % interval"],
        notes=["All states together, whatever their mask count and question; intervals resample questions."],
    )
    for number, group in enumerate(result.quintiles, start=1):
        low, high = (100 * end for end in group.ci95)
        made.rows.append(
            [
                Cell(str(number)), Cell(f"{nats(group.low)} to {nats(group.high)}"), Cell(group.n, 0),
                Cell(100 * group.error, 1), Cell(f"[{low:.1f}, {high:.1f}]"),
            ]
        )  # fmt: skip
        made.records.append(
            {
                "quintile": number, "E_low": group.low, "E_high": group.high, "n": group.n, "wrong": group.wrong,
                "error": group.error, "ci95_low": group.ci95[0], "ci95_high": group.ci95[1],
            }
        )  # fmt: skip
    return made


def nats(value: float) -> str:
    """Three digits; a certain model's quintiles lie many powers of ten below one."""
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.0e}".replace("e-0", "e-")


def verdict(result: Result) -> str:
    """One computed sentence: is the paper's first finding there?"""
    judged = [level for level in result.levels if level.enough]
    if not judged:
        return "No mask count has enough questions of mixed outcome for a verdict."
    above = [level.m for level in judged if level.joint[0] > 0]
    below = [level.m for level in judged if level.joint[1] < 0]
    tested, looked = listed(level.m for level in judged), f"Intervals are widened for {plural(len(judged), 'look')}."
    if len(above) == len(judged):
        return f"High upstream entropy goes with more wrong answers at every mask count tested ({tested}). {looked}"
    said = []
    if above:
        said.append(f"High upstream entropy goes with more wrong answers at m = {listed(above)}")
    if below:
        said.append(f"high upstream entropy goes with FEWER wrong answers at m = {listed(below)}")
    if not said:
        return f"No effect of upstream entropy is shown: every interval includes zero (m = {tested}). {looked}"
    if rest := [level.m for level in judged if level.m not in (*above, *below)]:
        said.append(f"at m = {listed(rest)} the interval does not exclude zero")
    sentence = "; ".join(said)
    return f"{sentence[0].upper()}{sentence[1:]}. {looked}"


def listed(counts: Iterable[int]) -> str:
    return ", ".join(map(str, counts))
