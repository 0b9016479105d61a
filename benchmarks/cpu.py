"""The speed of the embedded model on a CPU, in one run and side by side.

python benchmarks/cpu.py --out cpu.json                                # wall time, as many threads as cores
python benchmarks/cpu.py --threads 1 --cpu-time --out cpu.json         # on a machine that others use too
python benchmarks/page.py cpu.json > docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import unmask
from parts import compare_statistics, parts
from unmask import tasks
from unmask.cli.specs import parse_decoders
from unmask.evaluate.environment import hardware, versions
from unmask.profile import session
from unmask.profile.measure import Setup


def end_to_end(model: unmask.Model, count: int, cpu_time: bool) -> dict[str, Any]:
    """Whole decodes of the same problems, taking turns."""
    timer = time.process_time if cpu_time else time.perf_counter
    prompts = [example.prompt for example in tasks.get("wordproblems").examples("test", count, 7)]
    seconds: dict[str, list[float]] = {"default": [], "fast-dllm": [], "rpd": []}
    forwards = dict.fromkeys(seconds, 0)
    unmask.generate(model, prompts[0], "rpd")
    for prompt in prompts:
        for name, spent in seconds.items():
            start = timer()
            out = unmask.generate(model, prompt, name)
            spent.append(timer() - start)
            assert not isinstance(out, list)
            forwards[name] += out.nfe
    gains = [a / b for a, b in zip(seconds["default"], seconds["rpd"], strict=True)]
    return {
        "n": count,
        "seconds": {name: statistics.mean(spent) for name, spent in seconds.items()},
        "forwards": {name: total / count for name, total in forwards.items()},
        "default_over_rpd": {"median": statistics.median(gains), "min": min(gains), "max": max(gains)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--problems", type=int, default=5)
    parser.add_argument("--decoders", default="rpd,fast-dllm,default,rpd-block,eb-sampler,lopa,dapd")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--out", type=Path, default=Path("cpu.json"))
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    model = unmask.load("tiny", device="cpu")
    canvas, cpu = model.spec.canvas_length, torch.device("cpu")
    result: dict[str, Any] = {
        "kind": "cpu", "cpu_time": args.cpu_time, "hardware": hardware(cpu), "versions": versions(),
        "load_average": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip

    def keep(name: str, value: Any) -> None:
        result[name] = value
        args.out.write_text(json.dumps(result, indent=1))
        print(name, flush=True)

    keep("parts", parts(model, 60, canvas, 8, args.repeats, args.cpu_time))
    shapes = [(110, 1168, torch.float32), (16, 126464, torch.bfloat16), (16, 126464, torch.float32)]
    keep("statistics", compare_statistics(shapes, cpu, args.repeats, args.cpu_time))
    setup = Setup(60, canvas, 16, 3, args.cpu_time)
    names = parse_decoders(args.decoders)
    keep("steps", session.run(names, [1], setup, load=lambda: model, device="cpu"))
    batches = [int(size) for size in args.batches.split(",")]
    setup = Setup(60, canvas, 8, 3, args.cpu_time)
    keep("batches", session.run(parse_decoders("rpd"), batches, setup, load=lambda: model, device="cpu"))
    keep("end_to_end", end_to_end(model, args.problems, args.cpu_time))


if __name__ == "__main__":
    main()
