"""What the paper says, statement by statement, beside what the embedded model shows: the first table of the results
page. Every verdict is computed from the runs, so that nobody has to be honest by hand.

    claims(folders)  ->  list[Claim]        table(found), summary(found), of_section(found, "Table 2")

A statement about a difference *holds* if the difference has the paper's sign beyond chance (paired: the bootstrap
interval excludes zero and McNemar's p < 0.05), is *contradicted* if it has the other sign beyond chance, and is *not
shown* otherwise. Counts without noise to speak of (which decoder has the fewest forwards) hold or do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from unmask.diagnostics import tables as diagnosed
from unmask.diagnostics import upstream
from unmask.diagnostics.survey import STATES
from unmask.evaluate.folder import read_samples
from unmask.report.paper import kin
from unmask.report.paper_evidence import CONSTRAINTS, RUNTIME, UPSTREAM
from unmask.report.stats import paired, paired_mean

HOLDS, CONTRADICTED, NOT_SHOWN, FEW = "holds", "contradicted", "not shown", "too few"
ALPHA = 0.05
FEWEST = 8  # examples below which nothing is judged
DRIFT = 0.05  # decoders are timed one after the other: a smaller difference may be the machine's
LEFT_TO_RIGHT = 0.8  # rank correlation of step and position that we call approximately left to right
ADMITTED = "Appendix, stability"
Samples = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Claim:
    section: str  # of the page
    says: str
    theirs: str
    ours: str
    verdict: str


def claims(at: Mapping[str, Path]) -> list[Claim]:
    words = Runs({**by_decoder(at["words"]), **by_decoder(at["ablation"])}, kin("tiny", "wordproblems"))
    functions = Runs(by_decoder(at["functions"]), kin("tiny", "functions"))
    return [
        *main(words, "wordproblems"),
        *main(functions, "functions"),
        *lookahead(words),
        *ablation(words),
        *relaxed({**words.samples, **by_decoder(at["sweep"])}),
        *runtime(words),
        *states(at["states"]),
        *commitment(at["decodes"]),
    ]


def by_decoder(folder: Path) -> dict[str, Samples]:
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for sample in read_samples(folder):
        found.setdefault(sample["decoder"], {})[sample["index"]] = sample
    return found


# --- two decoders on the same examples ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """Samples per decoder, and what the paper prints for the task that is nearest of kin."""

    samples: Mapping[str, Samples]
    paper: Mapping[str, Mapping[str, float]]

    def pair(self, a: str, b: str) -> tuple[list[Mapping[str, Any]], ...]:
        """The samples of both on the examples that both have."""
        both = sorted(set(self.samples.get(a, {})) & set(self.samples.get(b, {})))
        return tuple([self.samples[name][i] for i in both] for name in (a, b))

    def accuracy(self, section: str, says: str, a: str, b: str) -> Claim:
        """b against a; the paper's sign is its statement."""
        theirs = self.paper[b]["accuracy"] - self.paper[a]["accuracy"]
        return difference(section, says, theirs, *([bool(s["correct"]) for s in side] for side in self.pair(a, b)))

    def cost(self, section: str, says: str, a: str, b: str, theirs: float | None = None, of: str = "nfe") -> Claim:
        """The ratio of b's forwards (or seconds) to a's; on which side of 1 it lies is the statement."""
        if theirs is None:
            theirs = self.paper[b]["nfe"] / self.paper[a]["nfe"]
        first, second = ([float(s.get(of) or 0.0) for s in side] for side in self.pair(a, b))
        if not sum(first):
            return Claim(section, says, f"{theirs:.2f} ×", "no common example", FEW)
        _, (low, high) = paired_mean(first, second)
        verdict = NOT_SHOWN if low <= 0 <= high else HOLDS if (high < 0) == (theirs < 1) else CONTRADICTED
        if of == "seconds" and abs(sum(second) / sum(first) - 1) < DRIFT:
            verdict = NOT_SHOWN
        verdict = verdict if len(first) >= FEWEST else FEW
        ours = f"{sum(second) / sum(first):.2f} × the {'forwards' if of == 'nfe' else of}, n = {len(first)}"
        return Claim(section, says, f"{theirs:.2f} ×", ours, verdict)


def difference(section: str, says: str, theirs: float, a: Sequence[bool], b: Sequence[bool]) -> Claim:
    """Accuracy of b minus that of a; `theirs` in points."""
    if not a:
        return Claim(section, says, f"{theirs:+.1f} points", "no common example", FEW)
    found = paired(a, b)
    low, high = found.ci95
    beyond = found.p_value < ALPHA and (low > 0 or high < 0)
    verdict = (HOLDS if found.difference * theirs > 0 else CONTRADICTED) if beyond else NOT_SHOWN
    ours = f"{100 * found.difference:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}], n = {found.n}"
    return Claim(section, says, f"{theirs:+.1f} points", ours, verdict if found.n >= FEWEST else FEW)


def counted(holds: bool, n: int) -> str:
    """The verdict on something without an interval."""
    return FEW if n < FEWEST else HOLDS if holds else CONTRADICTED


def main(runs: Runs, task: str) -> Iterator[Claim]:
    for label, name in (("default", "the default"), ("fast-dllm", "Fast-dLLM"), ("rpd-block", "RPD-block")):
        yield runs.accuracy("Table 1", f"{task}: RPD is more accurate than {name}", label, "rpd")
    for label, name in (("default", "the default"), ("fast-dllm", "Fast-dLLM")):
        yield runs.cost("Table 1", f"{task}: RPD needs fewer forwards than {name}", label, "rpd")


def lookahead(runs: Runs) -> Iterator[Claim]:
    """LoPA: fewest forwards, least throughput of the accelerated methods."""
    names = [name for name in ("fast-dllm", "eb-sampler", "lopa", "dapd", "rpd-block", "rpd") if name in runs.samples]
    if "lopa" not in names:
        return

    def total(name: str, what: str) -> float:
        return float(sum(sample.get(what) or 0 for sample in runs.samples[name].values()))

    forwards = {name: total(name, "nfe") / len(runs.samples[name]) for name in names}
    rate = {name: total(name, "tokens") / (total(name, "seconds") or 1.0) for name in names}
    n, theirs = f"n = {len(runs.samples['lopa'])}", runs.paper["lopa"]
    for says, values, top, printed in (
        ("LoPA needs the fewest forwards, every branch counted", forwards, min, theirs["nfe"]),
        ("LoPA has the lowest tokens per second of the accelerated methods", rate, min, theirs["tps"]),
    ):
        first = top(values, key=values.__getitem__)
        rest = "" if first == "lopa" else f"; lowest: {first} {values[first]:.1f}"
        yield Claim("Table 1", says, f"{printed:.1f}", f"{values['lopa']:.1f}{rest}, {n}",
                    counted(first == "lopa", len(runs.samples["lopa"])))  # fmt: skip


def ablation(runs: Runs) -> Iterator[Claim]:
    at = "Table 2"
    yield runs.accuracy(at, "without blocks, confidence collapses", "fast-dllm", "confidence")
    yield runs.accuracy(at, "persistence alone (PP) costs accuracy", "fast-dllm", "confidence+pp")
    yield runs.cost(at, "persistence alone (PP) saves forwards", "fast-dllm", "confidence+pp")
    yield runs.accuracy(at, "the drop (CD) gives accuracy back to PP", "confidence+pp", "rpd-block")
    yield runs.accuracy(at, "cumulative entropy (CE) undoes the collapse", "confidence", "confidence+ce")
    yield runs.cost(at, "full RPD needs fewer forwards than CE alone", "confidence+ce", "rpd")
    printed = Runs(runs.samples, {**runs.paper, "rpd-paper": runs.paper["rpd"]})
    says = "RPD exactly as printed (fallback over a window) needs fewer forwards than Fast-dLLM"
    yield printed.cost(at, says, "fast-dllm", "rpd-paper")


def relaxed(samples: Mapping[str, Samples]) -> Iterator[Claim]:
    loose = "fast-dllm:threshold=0.6"
    sides = Runs(samples, {}).pair("fast-dllm", loose)
    says = "Fast-dLLM loses accuracy from threshold 0.9 to 0.6 (its value: HumanEval)"
    yield difference("Figure 4", says, 27.44 - 43.29, *([bool(s["correct"]) for s in side] for side in sides))


def runtime(runs: Runs) -> Iterator[Claim]:
    names = {"rpd": "RPD", "rpd-block": "RPD-block", "lopa": "LoPA", "eb-sampler": "EB-Sampler", "dapd": "DAPD"}
    for label, name in names.items():
        theirs = RUNTIME[label]
        says = f"{name} takes {'longer' if theirs > 1 else 'less time'} than Fast-dLLM"
        yield runs.cost("Figure 5c", says, "fast-dllm", label, theirs, "seconds")


# --- masked states, and orders --------------------------------------------------------------------------------------


def states(folder: Path) -> Iterator[Claim]:
    found = upstream.analyse(read_samples(folder, STATES))
    for level in found.levels:
        says = f"high upstream entropy goes with wrong answers, m = {level.m}"
        printed = [f"{delta:+.1f} ({model})" for model, m, *_, delta, _ in UPSTREAM if m == level.m]
        theirs = f"{', '.join(printed)} points" if printed else ""
        low, high = (100 * end for end in level.ci95)
        ours = f"{100 * level.delta:+.1f} points [{low:+.1f}, {high:+.1f}], n = {level.n}"
        sign = HOLDS if low > 0 else CONTRADICTED if high < 0 else NOT_SHOWN
        enough = level.enough
        yield Claim("Figure 2a, Table 3", says, theirs, ours if enough else f"n = {level.n}", sign if enough else FEW)
    _, layers = diagnosed.read_layers(folder)
    said = {
        "Figure 2b": (layers.persistence, "tokens that persist longer are more often right", "26.5 to 4.6 % wrong"),
        "Figure 2c": (layers.drop, "tokens that lose less probability are more often right", "4.6 to 23.7 % wrong"),
    }
    for section, (signal, says, theirs) in said.items():
        low, high = (100 * end for end in signal.ci95)
        ours = f"{100 * signal.concordance:.0f} % of right-wrong pairs [{low:.0f}, {high:.0f}]; no information: 50 %"
        few = f"{signal.right} right, {signal.wrong} wrong tokens"
        verdict = HOLDS if signal.informative else CONTRADICTED if signal.inverted else NOT_SHOWN
        yield Claim(section, f"{says}, at equal confidence", theirs, ours if signal.enough else few,
                    verdict if signal.enough else FEW)  # fmt: skip


def commitment(folder: Path) -> Iterator[Claim]:
    _, found = diagnosed.read_order(folder)
    if found.profile is not None:
        sentence = found.profile.verdict()
        first, middle, last = (f"{part.mean():.2f}" for part in found.profile.thirds())
        ours = f"{first}, {middle}, {last} (first tenth, middle, last tenth), n = {found.profile.n}"
        verdict = counted("U-shaped" in sentence, found.profile.n)
        yield Claim("Figure 1b", "confidence of the empty canvas is U-shaped", "a picture", ours, verdict)
    names = list(CONSTRAINTS)
    orders = {name: found.decoders[name].verdicts for name in names if name in found.decoders}
    says = {"answer-last": "the answer region last is more accurate than most confident first",
            "operands-first": "operands before results is more accurate still"}  # fmt: skip
    for before, after in pairwise(names):
        if before in orders and after in orders:
            both = sorted(set(orders[before]) & set(orders[after]))
            sides = ([orders[name][i] for i in both] for name in (before, after))
            yield difference("Figure 1a", says[after], CONSTRAINTS[after] - CONSTRAINTS[before], *sides)
    yield from directions(found.decoders)
    yield from admission(folder)


def directions(orders: Mapping[str, Any]) -> Iterator[Claim]:
    known = {name: [x for x in orders[name].text if x == x] for name in ("confidence", "rpd") if name in orders}
    if len(known) < 2 or not all(known.values()):
        return
    full, rpd = (sum(values) / len(values) for values in known.values())
    holds = rpd >= LEFT_TO_RIGHT and rpd > full
    yield Claim("Figure 5a, 5b", "RPD commits about left to right, the full canvas less so", "pictures",
                f"rank correlation {rpd:.2f} against {full:.2f}, n = {len(known['rpd'])}",
                counted(holds, len(known["rpd"])))  # fmt: skip


def admission(folder: Path) -> Iterator[Claim]:
    _, found = diagnosed.read_admitted(folder)
    for label, theirs in (("rpd-block", 8.9), ("rpd", 8.3)):
        if label in found and found[label].commits:
            share = 100 * found[label].share("stability")
            near = theirs / 2 <= share <= 2 * theirs
            says = f"{label}: some 8 to 10 % of commits come by stability"
            ours = f"{share:.1f} % of {found[label].commits:,} commits"
            yield Claim(ADMITTED, says, f"{theirs} %", ours, counted(near, found[label].n))


# --- what is printed --------------------------------------------------------------------------------------------


def table(found: Sequence[Claim]) -> str:
    marks = {HOLDS: "**holds**", CONTRADICTED: "**contradicted**", NOT_SHOWN: "not shown", FEW: "too few"}
    rows = [f"| {c.section} | {c.says} | {c.theirs} | {c.ours} | {marks[c.verdict]} |" for c in found]
    return "\n".join(["| of the paper | it says | its value | here | verdict |", "|---|---|---|---|---|", *rows])


def summary(found: Sequence[Claim]) -> str:
    """The one honest sentence."""
    counts = {word: sum(c.verdict == word for c in found) for word in (HOLDS, CONTRADICTED, NOT_SHOWN, FEW)}
    against = [c.says for c in found if c.verdict == CONTRADICTED]
    said = (
        f"Of {len(found)} statements, {counts[HOLDS]} hold for this model, {counts[CONTRADICTED]} are contradicted, "
        f"{counts[NOT_SHOWN]} are not shown at this n"
    )
    said += f", {counts[FEW]} have too few cases to tell" if counts[FEW] else ""
    return f"{said}." + (f" Contradicted: {'; '.join(against)}." if against else "")


def of_section(found: Sequence[Claim], *sections: str) -> str:
    """One computed sentence per section of the page."""
    here = [c for c in found if c.section in sections]
    if not here:
        return ""
    parts = []
    for word in (HOLDS, CONTRADICTED, NOT_SHOWN, FEW):
        said = [c.says for c in here if c.verdict == word]
        if said:
            parts.append(f"{word} ({len(said)}): {'; '.join(said)}")
    return f"**Agreement with the paper.** {'. '.join(part[0].upper() + part[1:] for part in parts)}."
