"""The evaluation harness in numbers: its overhead, what batching gains, and its memory.

python benchmarks/evaluate.py --model tiny              overhead and batching, one JSON document
python benchmarks/evaluate.py --model tiny --memory     10,000 short examples

Overhead is everything but the steps of the decoding loop and the loading of the model (examples, tokenization,
their order, scoring, writing and synchronising, progress), from the request on: as a share of the wall time, and of
the processor time, which other work on the machine does not change. Processor time counts the sandboxes of tasks
that run code, except bubblewrap's own (which nobody waits for): measure these with UNMASK_SANDBOX=namespaces.
Batching compares examples per second and per processor second, and the answers. Each is measured --repeat times,
batch sizes in turn; the median and the range are printed, for each of --tasks.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from unmask import __version__
from unmask.cli.specs import parse_decoders
from unmask.evaluate import Settings, run
from unmask.evaluate.environment import cpu_name
from unmask.evaluate.folder import read_samples
from unmask.evaluate.local import Local
from unmask.evaluate.plan import Plan
from unmask.evaluate.progress import Bars
from unmask.evaluate.specs import DecoderSpec

MILESTONE = 1000  # examples


class Timed(Local):
    """The local executor with two stopwatches (wall, processor): of the model's loading, and of the steps."""

    loading = steps = (0.0, 0.0)
    memory: list[tuple[int, int]] = []  # noqa: RUF012 (one instance per process)

    def __init__(self, plan: Plan) -> None:
        start = clocks()
        super().__init__(plan)
        Timed.loading, Timed.steps = since(start), (0.0, 0.0)
        step = self.worker.loop.step

        def timed(rows: list[Any]) -> None:
            start = clocks()
            step(rows)
            Timed.steps = tuple(total + spent for total, spent in zip(Timed.steps, since(start), strict=True))

        self.worker.loop.step = timed  # type: ignore[method-assign]

    def run(self, decoder: DecoderSpec, indices: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        count = 0
        for samples in super().run(decoder, indices):
            if count // MILESTONE < (count + len(samples)) // MILESTONE:  # few: the list is in the memory it measures
                Timed.memory.append((count + len(samples), resident()))
            count += len(samples)
            yield samples


def clocks() -> tuple[float, float]:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in usage)


def since(start: tuple[float, float]) -> tuple[float, ...]:
    return tuple(now - then for then, now in zip(start, clocks(), strict=True))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def evaluate(args: argparse.Namespace, batch_size: int, **more: Any) -> dict[str, Any]:
    fields = {"limit": args.limit, "canvas_length": args.canvas_length} | more
    task, decoders = fields.pop("task", "wordproblems"), parse_decoders(fields.pop("decoder", args.decoder))
    settings = Settings(args.model, task, decoders, batch_size=batch_size, device=args.device, **fields)
    with tempfile.TemporaryDirectory() as folder:
        start = clocks()
        (row,) = run(settings, Path(folder) / "run", engine=Timed, progress=Bars())
        wall, processor = (spent - loading for spent, loading in zip(since(start), Timed.loading, strict=True))
        texts = {sample["index"]: sample["text"] for sample in read_samples(Path(folder) / "run")}
    return {
        "n": row["n"],
        "seconds_wall": wall,
        "seconds_processor": processor,
        "overhead_wall": 1 - Timed.steps[0] / wall,
        "overhead_processor": 1 - Timed.steps[1] / processor,
        "texts": texts,
    }


def batching(args: argparse.Namespace, task: str) -> dict[str, Any]:
    evaluate(args, 8, task=task, limit=1)  # imports, and the trial of the sandbox
    runs = [(evaluate(args, 8, task=task), evaluate(args, 1, task=task)) for _ in range(args.repeat)]
    same = len({json.dumps(run.pop("texts"), sort_keys=True) for pair in runs for run in pair}) == 1
    found: dict[str, Any] = {"n": runs[0][0]["n"], "repeats": args.repeat, "identical_answers": same}
    for name in ("overhead_wall", "overhead_processor", "seconds_wall", "seconds_processor"):
        found[f"batch_8_{name}"] = spread([eight[name] for eight, _ in runs])
    found["gain_wall"] = spread([one["seconds_wall"] / eight["seconds_wall"] for eight, one in runs])
    found["gain_processor"] = spread([one["seconds_processor"] / eight["seconds_processor"] for eight, one in runs])
    return found


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def memory(args: argparse.Namespace) -> dict[str, Any]:
    """One step per example and a short canvas: what grows here grows with the number of examples."""
    evaluate(args, 64, limit=10_000, decoder="fast-dllm:threshold=0:block_length=8", canvas_length=8)
    return {"resident_mb": {n: round(size / 2**20, 1) for n, size in Timed.memory}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--tasks", default="wordproblems,functions")
    parser.add_argument("--decoder", default="rpd")
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--canvas-length", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    result = memory(args) if args.memory else {task: batching(args, task) for task in args.tasks.split(",")}
    machine = {"device": cpu_name(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    print(json.dumps({"unmask": __version__, **machine, "decoder": args.decoder, **result}, indent=2))


if __name__ == "__main__":
    main()
