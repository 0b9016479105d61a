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

from unmask.evaluate.environment import hardware, versions
from unmask.report.effects import agreement, effects
from unmask.report.runs import load

ROOT = Path(__file__).parent.parent
MAIN = "default,fast-dllm,eb-sampler,lopa,dapd,rpd-block,rpd"
ABLATION = "confidence,confidence+pp,confidence+ce,rpd-paper"
SWEEP = ("--decoder", "fast-dllm", "--vary", "threshold=0.6,0.7,0.8,0.9", "--vary", "eb-sampler.gamma=0.1,0.5,2.0")
PICTURES = {
    "profile-tiny": "confidence of the empty canvas by position",
    "commit-order-tiny": "when each position is committed, by decoder",
    "trajectories-tiny": "the commit step of each position of one problem, by decoder",
    "boxes-most-confident-tiny": "one decode over the full canvas, most confident first, shaded by step",
    "boxes-rpd-tiny": "the same problem with RPD",
    "constraints-tiny": "accuracy under ordering constraints",
    "admitted-tiny": "what the stability test admits",
}


@dataclass(frozen=True)
class Size:
    """How many examples each part takes."""

    words: int = 50
    functions: int = 40
    sweep: int = 40
    traces: int = 500
    orders: int = 16
    constraints: int = 16

    @classmethod
    def quick(cls) -> Size:
        return cls(words=3, functions=2, sweep=2, traces=64, orders=2, constraints=1)

    @classmethod
    def all(cls, n: int) -> Size:
        return cls(*[n] * len(cls.__dataclass_fields__))


class Page:
    """Runs commands, keeps their time, and collects what the page says."""

    def __init__(self, folder: Path, docs: Path) -> None:
        self.folder, self.figures, self.parts = folder, docs / "results", list[str]()
        self.docs, self.spent = docs, dict[str, float]()
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
        self.run("report", "report", *folders, "--figures", self.figures)

    def show(self, stem: str, caption: str) -> None:
        if not (self.figures / f"{stem}.png").exists():
            sys.exit(f"no figure {stem} was drawn: is matplotlib installed? (pip install 'unmask[plot]')")
        self.say(f"![{caption}](results/{stem}.png)")

    def write(self) -> None:
        partial = self.docs / "results.md.partial"
        partial.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")
        partial.replace(self.docs / "results.md")


def measure(page: Page, size: Size) -> dict[str, Path]:
    """Every run the page reads. Whatever is finished already costs nothing."""
    at = {name: page.folder / name for name in ("words", "functions", "sweep", "states", "decodes")}
    both = f"{MAIN},{ABLATION}"
    page.run(
        "words", "eval", "--task", "wordproblems", "--decoders", both, "--limit", size.words, "--out", at["words"]
    )
    page.run(
        "functions", "eval", "--task", "functions", "--decoders", MAIN, "--limit", size.functions, "--out",
        at["functions"],
    )  # fmt: skip
    page.run("sweep", "sweep", *SWEEP, "--also", "rpd,rpd-block", "--limit", size.sweep, "--out", at["sweep"])
    page.run("states", "diagnose", "upstream", "--limit", size.traces, "--out", at["states"])
    constraints = ("--constraint-limit", size.constraints)
    page.run("decodes", "diagnose", "order", "--limit", size.orders, *constraints, "--out", at["decodes"])
    return at


def compose(page: Page, at: Mapping[str, Path]) -> None:
    """The page from the runs on disk: `unmask report` makes its tables and draws its figures."""
    runs = [at["words"], at["functions"]]
    found = effects(load(runs))
    page.draw(at["states"], at["decodes"], at["words"])
    page.draw(at["sweep"])

    page.say("## Main results (Table 1 of the paper)", page.table(*runs, "--table", "main"))
    page.say("Differences and ratios can be held beside the paper's, whose model and tasks are others:")
    page.say(page.table(*runs, "--table", "effects", "--paper"))
    page.say(*(f"*{task}.* {agreement(found, task)}" for task in ("wordproblems", "functions")))

    page.say("## Ablation (Table 2)", page.table(at["words"], "--table", "ablation"))
    page.say("The paper's ablation of LLaDA on GSM8K stands in the `(paper)` columns of the table above.")

    page.say("## Quality against cost (Figure 4)")
    page.show("tradeoff-tiny-wordproblems", "accuracy against tokens per second and against forwards")
    scores = json.loads((at["sweep"] / "sweep.json").read_text())["scores"]
    page.say("Accuracy under parallelism: " + ", ".join(f"{s['decoder']} {s['aup']:.0f}" for s in scores) + ".")

    page.say("## Where the time goes (Figure 5c)")
    page.show("runtime-tiny-wordproblems", "runtime by phase, relative to Fast-dLLM")
    page.say("The paper's relative runtimes, LLaDA-8B on an A6000, are in the last column of the effects.")

    page.say("## Upstream uncertainty, downstream errors, and layerwise stability (Figure 2, Table 3)")
    page.show("upstream-tiny", "answer error against upstream entropy")
    page.show("layers-tiny", "error rate by persistence, drop and confidence")
    page.say(page.table(at["states"], "--paper"))

    page.say("## Commit order (Figures 1, 5a, 5b and the trajectories of the appendix)")
    for stem, caption in PICTURES.items():
        page.show(stem, caption)
    page.say(page.table(at["decodes"], "--paper"))


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
