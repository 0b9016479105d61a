"""Everything that has to be measured on a CUDA device, in one command of less than nine minutes.

    python benchmarks/device.py --out device.json                 # one GPU, LLaDA-8B shape, bfloat16
    python benchmarks/device.py --dry-run --out /tmp/dry.json     # the same code at toy size, on any machine

Sections run in order of importance and the file is rewritten after each, so that a run that is cut short still
leaves what it has. Then: python benchmarks/page.py cpu.json device.json > docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import targets
import unmask
from parts import compare_statistics, parts, state, two_stage_switch, wait
from unmask.cli.specs import parse_decoders
from unmask.evaluate.environment import hardware, versions
from unmask.forward import Forward
from unmask.models import Model
from unmask.models.graphs import GraphBackbone, eager_capture
from unmask.profile.floor import Peaks, Work, measure_peaks
from unmask.profile.measure import Setup, profile, record
from unmask.profile.shapes import find_spec, random_model


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.start = args, time.perf_counter()
        self.device = torch.device("cpu" if args.dry_run else "cuda")
        dtype = torch.float32 if args.dry_run else torch.bfloat16
        self.prompt, self.canvas = (12, 32) if args.dry_run else (150, 256)
        self.batches = (1, 4) if args.dry_run else (1, 4, 16, 64)
        self.repeats = 2 if args.dry_run else 20
        spec = find_spec("tiny", 8) if args.dry_run else find_spec(args.shape)
        self.eager = random_model("tiny, 8 layers" if args.dry_run else args.shape, spec, self.device, dtype)
        self.model = Model(self.eager.name, self.eager.net, self.eager.tokenizer)
        self.peaks: Peaks | None = None
        self.result: dict[str, Any] = {
            "kind": "device", "dry_run": args.dry_run, "shape": self.eager.name, "prompt": self.prompt,
            "canvas": self.canvas, "dtype": str(dtype).removeprefix("torch."), "hardware": hardware(self.device),
            "versions": versions(), "date": time.strftime("%Y-%m-%d"), "sections": {}, "skipped": {},
        }  # fmt: skip

    def section(self, name: str, run: Callable[[], Any]) -> None:
        """One that fails or finds no time is noted; the others go on."""
        spent = time.perf_counter() - self.start
        if spent > self.args.seconds:
            self.result["skipped"][name] = "no time left"
        else:
            try:
                self.result["sections"][name] = run()
            except Exception as error:
                traceback.print_exc()
                self.result["skipped"][name] = f"{type(error).__name__}: {error}"[:300]
        self.result["seconds"] = time.perf_counter() - self.start
        self.args.out.write_text(json.dumps(self.result, indent=1, default=float))
        print(f"{self.result['seconds']:6.1f} s  {name}: {self.result['skipped'].get(name, 'done')}", flush=True)

    # --- sections --------------------------------------------------------------------------------------------

    def measure_rates(self) -> Any:
        self.peaks = measure_peaks(self.device, self.eager.net.dtype, small=self.args.dry_run)
        work, spec, size = Work(), self.eager.spec, self.eager.net.dtype.itemsize
        work.forward(spec, size, [self.prompt + self.canvas])
        work.head(spec, size, "scoring", self.canvas)
        return {"flops": self.peaks.flops, "bandwidth": self.peaks.bandwidth,
                "floor_ms": 1e3 * work.seconds(self.peaks)["total"]}  # fmt: skip

    def eager_parts(self) -> Any:
        return parts(self.eager, self.prompt, self.canvas, 8, self.repeats, False)

    def compile(self) -> Any:
        """Seconds until a first step: with nothing compiled, with the code compiled before, and recorded before."""
        cold = self.first_step()
        self.model = Model(self.eager.name, self.eager.net, self.eager.tokenizer)  # recordings go, code stays
        return {"cold": cold, "warm_start": self.first_step(), "warm_step": self.first_step(),
                "reasons": self.model.net.reasons}  # fmt: skip

    def first_step(self) -> float:
        start = time.perf_counter()
        if self.model.net is self.eager.net and self.args.dry_run:
            self.model.net = GraphBackbone(self.eager.net, eager_capture)
        elif self.model.net is self.eager.net and (reason := self.model.compile()):
            raise RuntimeError(reason)
        canvas = state(self.model, self.prompt, self.canvas)
        forward = Forward(self.model, [canvas], keep_from=self.model.spec.first_layer)
        forward.score([(0, canvas.open_positions())], self.model.choosable, torch.float32)
        wait(self.device)
        return time.perf_counter() - start

    def compiled_parts(self) -> Any:
        if self.model.net is self.eager.net:
            raise RuntimeError("nothing is compiled")
        return parts(self.model, self.prompt, self.canvas, 8, self.repeats, False)

    def run_profile(self, decoder: str, batch: int, setup: Setup, eager: bool = False) -> dict[str, Any]:
        assert self.peaks is not None
        (spec,) = parse_decoders(decoder)
        if not hasattr(self, "schedules"):
            self.schedules: dict[str, Any] = {}
        if decoder not in self.schedules:
            ((_, self.schedules[decoder]),) = record([spec], 1 if self.args.dry_run else 4, str(self.device))
        return profile(
            self.eager if eager else self.model, spec, self.schedules[decoder], batch, setup, self.peaks
        )  # fmt: skip

    def steps(self) -> Any:
        setup = Setup(self.prompt, self.canvas, 16, 3)
        return [{"eager": self.run_profile(name, 1, setup, True), "compiled": self.run_profile(name, 1, setup)}
                for name in self.args.decoders.split(",")]  # fmt: skip

    def batched(self) -> Any:
        setup = Setup(self.prompt, self.canvas, 8, 1)
        return [self.run_profile("rpd", batch, setup) for batch in self.batches]

    def two_stage_lens(self) -> Any:
        setup = Setup(self.prompt, self.canvas, 16, 3)
        found = {}
        for depth in (None, 2, 4):
            two_stage_switch(depth)
            found[str(depth)] = self.run_profile("rpd", 1, setup)
        two_stage_switch(None)
        return found

    def statistics(self) -> Any:
        shapes = [(16, 1000, torch.float32)] if self.args.dry_run else [(256, 126464, torch.bfloat16)]
        return compare_statistics(shapes, self.device, self.repeats, False)

    def agreement(self) -> Any:
        """Tokens of whole decodes in float32 must be equal; in bfloat16 the states differ by rounding: how far?"""
        model, replay = (unmask.load("tiny", device=str(self.device), dtype="float32") for _ in range(2))
        reason = None if self.args.dry_run else replay.compile()
        if self.args.dry_run:
            replay.net = GraphBackbone(replay.net, eager_capture)
        from unmask import tasks

        count = 1 if self.args.dry_run else 16
        prompts = [e.prompt for e in tasks.get("wordproblems").examples("test", count, 7)]
        same = {}
        for name in ("rpd", "fast-dllm"):
            length = 32 if self.args.dry_run else None
            a, b = (unmask.generate(m, prompts, name, canvas_length=length) for m in (model, replay))
            same[name] = sum(x.canvas == y.canvas for x, y in zip(a, b, strict=True))  # type: ignore[union-attr]
        return {"n": count, "same_canvas_float32": same, "why_not": reason, "at_shape": self.rounding()}

    def rounding(self) -> Any:
        canvas = state(self.eager, self.prompt, self.canvas)
        tables = [
            Forward(m, [canvas]).score([(0, canvas.open_positions())], m.choosable, torch.float32)[0]
            for m in (self.eager, self.model)
        ]
        return {
            "positions": self.canvas,
            "same_token": int((tables[0][0] == tables[1][0]).sum()),
            "largest_confidence_difference": float(np.abs(tables[0][1] - tables[1][1]).max()),
        }

    def memory(self) -> Any:
        """Peak of a whole decode at batch 1 beyond the weights, eager and compiled."""
        if self.device.type != "cuda":
            return None
        weights = sum(p.numel() * p.element_size() for p in self.eager.net.parameters())
        setup, found = Setup(self.prompt, self.canvas, 8, 1), {"weights": weights}
        for name, eager in (("eager", True), ("compiled", False)):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.run_profile("rpd", 1, setup, eager)
            found[name] = torch.cuda.max_memory_allocated() - weights
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="llada-8b")
    parser.add_argument("--decoders", default="rpd,fast-dllm,default,rpd-block,eb-sampler,lopa,dapd")
    parser.add_argument("--seconds", type=float, default=450, help="no section starts after this")
    parser.add_argument("--out", type=Path, default=Path("device.json"))
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    if not args.dry_run and not torch.cuda.is_available():
        parser.error("no CUDA device here: --dry-run tries the script at toy size")
    bench = Bench(args)
    for name, run in (
        ("peaks", bench.measure_rates), ("eager parts", bench.eager_parts), ("compile", bench.compile),
        ("memory", bench.memory), ("compiled parts", bench.compiled_parts), ("statistics", bench.statistics),
        ("two-stage lens", bench.two_stage_lens), ("agreement", bench.agreement), ("batches", bench.batched),
        ("steps", bench.steps),
    ):  # fmt: skip
        bench.section(name, run)
    print(json.dumps({k: v for k, v in bench.result.items() if k != "sections"}, indent=1, default=float))
    for row in targets.rows(bench.result["sections"]):
        print("{:<66} {:<14} {:<14} {}".format(*row))


if __name__ == "__main__":
    main()
