"""The evaluation harness in numbers: its overhead, what batching gains, and its memory.

python benchmarks/evaluate.py --model tiny              overhead and batching, one JSON document
python benchmarks/evaluate.py --model tiny --memory     10,000 short examples

Overhead is everything but the decoding loop (examples, tokenization, scoring, writing and synchronising, progress)
as a share of the wall time, with the model's load and without. Batching compares examples per second and answers.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from unmask.cli.specs import parse_decoders
from unmask.evaluate import Settings, run
from unmask.evaluate.folder import read_samples
from unmask.evaluate.local import Local
from unmask.evaluate.plan import Plan
from unmask.evaluate.progress import Bars
from unmask.evaluate.specs import DecoderSpec


class Timed(Local):
    """The local executor with a stopwatch: when the model was there, when each sample came."""

    ready = 0.0
    memory: list[tuple[int, int]] = []  # noqa: RUF012 (one instance per process)

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        Timed.ready = time.perf_counter()

    def run(self, decoder: DecoderSpec, indices: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
        count = 0
        for samples in super().run(decoder, indices):
            count += len(samples)
            Timed.memory.append((count, resident()))
            yield samples


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def evaluate(args: argparse.Namespace, batch_size: int, **more: Any) -> dict[str, Any]:
    fields = {"limit": args.limit, "canvas_length": args.canvas_length} | more
    settings = Settings(
        args.model, args.task, parse_decoders(fields.pop("decoder", args.decoder)), batch_size=batch_size,
        device=args.device, **fields,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        (row,) = run(settings, Path(folder) / "run", engine=Timed, progress=Bars())
        end = time.perf_counter()
        texts = {sample["index"]: sample["text"] for sample in read_samples(Path(folder) / "run")}
    return {
        "n": row["n"],
        "seconds_decoding": row["seconds"],
        "seconds_wall": end - start,
        "examples_per_second": row["n"] / (end - Timed.ready),
        "overhead": 1 - row["seconds"] / (end - start),
        "overhead_without_load": 1 - row["seconds"] / (end - Timed.ready),
        "texts": texts,
    }


def batching(args: argparse.Namespace) -> dict[str, Any]:
    eight, one = evaluate(args, 8), evaluate(args, 1)
    same = eight.pop("texts") == one.pop("texts")
    gain = eight["examples_per_second"] / one["examples_per_second"]
    return {"batch_8": eight, "batch_1": one, "gain": gain, "identical_answers": same}


def memory(args: argparse.Namespace) -> dict[str, Any]:
    """One step per example and a short canvas: what grows here grows with the number of examples."""
    evaluate(args, 64, limit=10_000, decoder="fast-dllm:threshold=0:block_length=8", canvas_length=8)
    at = {n: next(size for count, size in Timed.memory if count >= n) for n in (1000, 5000, 10_000)}
    return {f"resident_mb_after_{n}": size / 2**20 for n, size in at.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--task", default="wordproblems")
    parser.add_argument("--decoder", default="rpd")
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--canvas-length", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    result = memory(args) if args.memory else batching(args)
    print(json.dumps({"threads": torch.get_num_threads(), "decoder": args.decoder, **result}, indent=2))


if __name__ == "__main__":
    main()
