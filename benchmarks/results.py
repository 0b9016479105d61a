"""The results page: the paper's tables and figures that need no 8B weights, from the embedded model.

    make results                                 # or: python benchmarks/results.py; run again to go on
    python benchmarks/results.py --quick         # about three minutes: the same page from very few examples
    python benchmarks/results.py --limit 1000    # as many examples as there is time for

Everything is measured by commands of `unmask`, into folders that resume. This script calls them, keeps the time, and
writes docs/results.md with its figures. The sentences under the tables are computed from the tables.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claims
from unmask import decoders
from unmask.diagnostics import tables as diagnosed
from unmask.evaluate.environment import hardware, versions
from unmask.report import figures, tradeoff
from unmask.report.effects import agreement, effects
from unmask.report.runs import load

ROOT = Path(__file__).parent.parent
MAIN = "default,fast-dllm,eb-sampler,lopa,dapd,rpd-block,rpd"
ABLATION = "confidence,confidence+pp,confidence+ce,rpd-paper"
# The other settings of the figure, threshold 0.9 and gamma 0.1 among them, are those of MAIN.
SWEEP = ("--decoder", "fast-dllm", "--vary", "threshold=0.6,0.7,0.8", "--vary", "eb-sampler.gamma=0.5,2.0")
GREEDY = "dream-default:temperature=0:top_p=none"
COLOURS = 256  # of a committed picture, which makes it less than half as large
PICTURES = {
    "profile-tiny": "Confidence of the empty canvas by position (Figure 1b)",
    "constraints-tiny": "Accuracy under ordering constraints (Figure 1a)",
    "commit-order-tiny": "When each position is committed, by decoder (Figures 5a and 5b)",
    "trajectories-tiny": "The commit step of each position of one problem, by decoder",
    "boxes-default-tiny": "One decode in blocks of 32, one commit per forward, shaded by step",
    "boxes-most-confident-tiny": "The same problem without blocks: most confident first, over the full canvas",
    "boxes-rpd-tiny": "The same problem with RPD",
}
DREAM = {
    "boxes-dream-default-tiny": "Dream's sampler, temperature 0.1 and top-p 0.9: lowest transformed entropy first",
    "boxes-dream-default-temperature-0-top-p-none-tiny": "The same at temperature 0, without top-p",
}


@dataclass(frozen=True)
class Size:
    """How many examples each part takes."""

    words: int = 50  # and of the ablation and the sweep: the same problems
    functions: int = 40
    traces: int = 500
    orders: int = 16
    constraints: int = 16

    @classmethod
    def quick(cls) -> Size:
        return cls(words=3, functions=2, traces=64, orders=2, constraints=1)

    @classmethod
    def all(cls, n: int) -> Size:
        return cls(*[n] * len(cls.__dataclass_fields__))


class Page:
    """Runs commands, keeps their time, and collects what the page says."""

    def __init__(self, folder: Path, docs: Path) -> None:
        self.folder, self.figures, self.parts = folder, docs / "results", list[str]()
        self.docs, self.spent = docs, dict[str, float]()
        self.drawn, self.shown = folder / "figures", set[str]()
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "seconds.json"
        self.spent = json.loads(log.read_text()) if log.exists() else {}

    def run(self, name: str, *words: object) -> str:
        """A command's stdout. A run that resumes adds to the time of its earlier parts."""
        print(f"$ unmask {' '.join(map(str, words))}", file=sys.stderr, flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "unmask", *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - began
        (self.folder / "seconds.json").write_text(json.dumps(self.spent, indent=2))
        if done.returncode:
            sys.exit(f"unmask {words[0]} ended with exit code {done.returncode}; the same command goes on from here")
        return done.stdout.strip()

    def say(self, *paragraphs: str) -> None:
        self.parts += paragraphs

    def table(self, *words: object) -> str:
        """Tables of run folders, as Markdown."""
        return self.run("report", "report", *words, "-f", "md")

    def draw(self, *folders: Path) -> None:
        self.run("report", "report", *folders, "--figures", self.drawn)

    def show(self, stem: str, caption: str) -> None:
        """Into the page, and as a small PNG beside it."""
        if not (self.drawn / f"{stem}.png").exists():
            sys.exit(f"no figure {stem} was drawn: is matplotlib installed? (pip install 'unmask[plot]')")
        from PIL import Image  # comes with matplotlib

        self.figures.mkdir(parents=True, exist_ok=True)
        with Image.open(self.drawn / f"{stem}.png") as picture:
            picture.convert("RGB").quantize(COLOURS).save(self.figures / f"{stem}.png", optimize=True)
        self.shown.add(f"{stem}.png")
        self.say(f"![{caption}](results/{stem}.png)\n\n*{caption}.*")

    def write(self) -> None:
        partial = self.docs / "results.md.partial"
        partial.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")
        partial.replace(self.docs / "results.md")
        for stale in set(self.figures.glob("*.png")) - {self.figures / name for name in self.shown}:
            stale.unlink()


def measure(page: Page, size: Size) -> dict[str, Path]:
    """Every run the page reads. Whatever is finished already costs nothing."""
    names = ("words", "ablation", "functions", "sweep", "states", "decodes", "dream")
    at = {name: page.folder / name for name in names}

    def evaluate(name: str, task: str, decoders: str, limit: int) -> None:
        page.run(name, "eval", "--task", task, "--decoders", decoders, "--limit", limit, "--out", at[name])

    evaluate("words", "wordproblems", MAIN, size.words)
    evaluate("ablation", "wordproblems", ABLATION, size.words)
    evaluate("functions", "functions", MAIN, size.functions)
    page.run("sweep", "sweep", *SWEEP, "--limit", size.words, "--out", at["sweep"])
    page.run("states", "diagnose", "upstream", "--limit", size.traces, "--out", at["states"])
    constraints = ("--constraint-limit", size.constraints)
    page.run("decodes", "diagnose", "order", "--limit", size.orders, *constraints, "--out", at["decodes"])
    dream = ("--decoders", f"dream-default,{GREEDY}", "--constraints", "none", "--limit", 1)
    page.run("dream", "diagnose", "order", *dream, "--out", at["dream"])
    return at


def compose(page: Page, at: Mapping[str, Path]) -> None:
    """The page from the runs on disk: `unmask report` makes its tables and draws its figures."""
    found, words = claims.claims(at), (at["words"], at["ablation"])
    page.draw(at["dream"])  # its pictures of one decode by other names stay, the others are drawn anew
    page.draw(at["states"], at["decodes"], at["words"])
    swept = tradeoff_rows(at)
    figures.draw(swept, page.drawn)

    page.say("## What agrees with the paper, and what does not", claims.summary(found), HOW, claims.table(found))
    main_results(page, at, found)

    page.say("## Ablation (Table 2)", page.table(*words, "--table", "ablation"))
    page.say("Intervals, and the paper's differences and ratios, are in the two tables above.")
    page.say(claims.of_section(found, "Table 2"))

    page.say("## Quality against cost (Figure 4)")
    page.show("tradeoff-tiny-wordproblems", "Accuracy against tokens per second and against forwards")
    several = {s["decoder"]: s["aup"] for s in tradeoff.scores(swept) if s["settings"] > 1}
    page.say(
        "[Accuracy under parallelism](evaluation.md), over the settings shown: "
        + ", ".join(f"{name} {value:.0f}" for name, value in several.items())
        + ". "
        + front(swept),
        claims.of_section(found, "Figure 4"),
    )
    page.say("## Where the time goes (Figure 5c)")
    page.show("runtime-tiny-wordproblems", "Runtime by phase, relative to Fast-dLLM")
    page.say(
        "Batch 8 on a CPU, where the paper has batch 1 on a GPU: what a decoder adds to a forward weighs differently."
    )
    page.say(claims.of_section(found, "Figure 5c"))

    page.say("## Upstream uncertainty, downstream errors, and layerwise stability (Figure 2, Table 3)")
    page.show("upstream-tiny", "Answer error against upstream entropy (Figure 2a)")
    page.show("layers-tiny", "Token error by persistence, confidence and drop (Figures 2b and 2c)")
    page.say(page.table(at["states"], "--paper"))
    page.say(claims.of_section(found, "Figure 2a, Table 3", "Figure 2b", "Figure 2c"))
    orders(page, at, found)
    page.say("## Hyper-parameters (Table 4)", hyperparameters())


HOW = (
    "A difference *holds* (is *contradicted*) if it has the paper's sign (the other) beyond chance: paired on the"
    " same examples, 95 % bootstrap interval without zero and, for accuracies, McNemar's p < 0.05; otherwise it "
    "is *not shown*. Of as many statements as these, one or two come out wrong by chance. Two bounds are ours: "
    "the share admitted by stability holds from half to twice the paper's, and *about left to right* means a rank"
    " correlation of 0.8 or more. Times are of one run, decoder after decoder: a ratio within 5 % of 1 gets no "
    "verdict. The paper's values are LLaDA-8B's on GSM8K for word problems and on HumanEval for functions, and "
    "Dream's in Figures 2b and 2c."
)


def main_results(page: Page, at: Mapping[str, Path], found: list[claims.Claim]) -> None:
    main, runs = (at["words"], at["functions"]), (at["words"], at["ablation"], at["functions"])
    page.say("## Main results (Table 1)", page.table(*main, "--table", "main", "--paper"))
    page.say("With intervals and paired differences, and with the ablation:", page.table(*runs, "--table", "summary"))
    page.say("Differences and ratios can be held beside the paper's, whose model and tasks are others:")
    page.say(page.table(*runs, "--table", "effects", "--paper"))
    measured = effects(load(runs))
    page.say(*(f"*{task}.* {agreement(measured, task)}" for task in ("wordproblems", "functions")))
    page.say(claims.of_section(found, "Table 1"))


def orders(page: Page, at: Mapping[str, Path], found: list[claims.Claim]) -> None:
    page.say("## Commitment order (Figures 1, 5a and 5b, and the trajectories of the appendix)")
    for stem, caption in PICTURES.items():
        page.show(stem, caption)
    page.say(dream_order(at["dream"]))
    for stem, caption in DREAM.items():
        page.show(stem, caption)
    *order, admitted = page.table(at["decodes"], "--paper").rpartition("**What the stability test admits")
    page.say(order[0], claims.of_section(found, "Figure 1a", "Figure 1b", "Figure 5a, 5b"))
    page.say("## What the stability test admits (appendix)")
    page.show("admitted-tiny", "Confidence, persistence and drop of the admitted tokens, and the share of each route")
    page.say(order[1] + admitted, claims.of_section(found, claims.ADMITTED))


def dream_order(folder: Path) -> str:
    _, result = diagnosed.read_order(folder)
    told = [f"{order.whole[0]:+.2f} with {label}" for label, order in result.decoders.items() if order.whole]
    return (
        "Dream's sampler here, on the same problem, one commit per forward. Rank correlation of commit step and "
        f"position over the canvas, 1 being left to right: {', '.join(told)} (n = 1). The paper: about left to right "
        "with its temperature, right to left and truncated without."
    )


def tradeoff_rows(at: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The main table's decoders and the swept settings, which are of the same problems."""
    return [result.row for result in load([at["words"], at["sweep"]])]


def front(rows: list[dict[str, Any]]) -> str:
    points = [(row["tps"], 100 * row["accuracy"]) for row in rows]
    names = [rows[i]["label"] for i in tradeoff.pareto(points)]
    where = "on" if "rpd" in names else "not on"
    return f"On the Pareto front of accuracy and tokens per second: {', '.join(names)}; RPD is {where} it."


def hyperparameters() -> str:
    """The paper's table, and what the embedded model ships with."""
    from unmask.models import locate, spec

    mine = decoders.get("rpd").resolve(spec.read_spec(Path(str(locate("tiny")))), 160).params()
    llada, dream = spec.LLADA.rpd, spec.DREAM.rpd
    rows = [
        ("θh", "theta_h", "0.9"), ("θc", "theta_c", "0.6"),
        ("θs", "theta_s", f"{llada['theta_s']:g} (LLaDA), {dream['theta_s']:g} (Dream)"), ("K_max", "k_max", "6"),
        ("w", "w", f"{llada['w']:g} (LLaDA), {dream['w']:g} (Dream)"), ("β, nats", "beta", "4"),
        ("ℓ0", "first_layer", "17 of 32 (LLaDA), 15 of 28 (Dream)"), ("W", "window", "32"),
    ]  # fmt: skip
    lines = [f"| {sign} | {paper} | {mine[name]:g} |" for sign, name, paper in rows]
    return "\n".join(["| | paper | tiny, `rpd` |", "|---|---:|---:|", *lines]) + (
        "\n\n`rpd` chooses its fallback among affordable positions, so W is used by `rpd-paper` only. `unmask "
        "calibrate` reads these values off a model: [calibration.md](calibration.md)."
    )


def introduction(size: Size, asked: str) -> str:
    machine, software = hardware("cpu"), versions()
    return (
        "# Results\n\n"
        "What the paper shows, measured again with the embedded model (seven million parameters, its own two tasks): "
        "every table and figure that needs no 8B weights. The paper's values stand beside ours where it prints one, "
        "labelled, and are never mixed with them. A small model on generated problems proves nothing about LLaDA-8B; "
        "it shows which of the effects are there at any size, and that the commands work. More examples, and other "
        "models, are the same commands away; [the model card](../src/unmask/tiny/MODEL_CARD.md) has larger n.\n\n"
        f"Written by `{asked}` on {machine['device']}, {machine['threads']} threads, torch {software['torch']}, "
        f"float32, batch size 8; {size.words} word problems, {size.functions} functions, {size.traces} gold traces."
    )


def conclusion(page: Page) -> str:
    total = sum(page.spent.values())
    parts = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in page.spent.items() if seconds > 3)
    return (
        "## Not on this page\n\n"
        "The accuracies of Tables 1 and 2 on GSM8K, MATH-500, HumanEval and MBPP, and the diagnostics on LLaDA and "
        "Dream, need their checkpoints; the same commands with `--model` and `--task` make them.\n\n"
        f"Minutes it took: {total / 60:.1f} in all ({parts})."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure and write docs/results.md; run again to resume.")
    parser.add_argument("--quick", action="store_true", help="about three minutes, from very few examples")
    parser.add_argument("--limit", type=int, help="so many examples in every part")
    parser.add_argument("--out", type=Path, help="where the runs are kept")
    parser.add_argument("--docs", type=Path, help="where results.md and its figures go; --quick keeps them in --out")
    given = parser.parse_args()
    size = Size.all(given.limit) if given.limit else Size.quick() if given.quick else Size()
    out = given.out or ROOT / "runs" / ("results-quick" if given.quick else "results")
    page = Page(out, given.docs or (out if given.quick else ROOT / "docs"))
    asked = "python benchmarks/results.py" + (" --quick" if given.quick else "")
    page.say(introduction(size, asked))
    compose(page, measure(page, size))
    page.say(conclusion(page))
    page.write()
    print(page.docs / "results.md")


if __name__ == "__main__":
    main()
