"""What `drop_tail` changes: the same problems decoded with early stop, with and without it.

    python benchmarks/drop_tail.py --limit 100 --decoders rpd,default

Prints one JSON document: how many answers are the same text, how many are right either way, and CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

import unmask
from unmask import tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--task", default="wordproblems")
    parser.add_argument("--decoders", default="rpd,fast-dllm")
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    model, task = unmask.load(args.model, device=args.device), tasks.get(args.task)
    examples = list(task.examples("test", args.limit, args.seed))
    results = {name: compare(model, task, examples, name) for name in args.decoders.split(",")}
    print(json.dumps({"n": len(examples), "threads": torch.get_num_threads(), **results}, indent=2))


def compare(model: unmask.Model, task, examples: list, name: str) -> dict:
    """Each example is decoded both ways in turn, so that both meet the same machine."""
    same, totals = 0, {flag: {"right": 0, "nfe": 0, "cpu_seconds": 0.0} for flag in (False, True)}
    for example in examples:
        texts = []
        for flag, total in totals.items():
            start = time.process_time()
            out = unmask.generate(model, example.prompt, name, early_stop=True, drop_tail=flag)
            total["cpu_seconds"] += time.process_time() - start
            assert not isinstance(out, list)
            total["nfe"] += out.nfe
            total["right"] += bool(task.score(example, out.text).correct)
            texts.append(out.text)
        same += texts[0] == texts[1]
    faster = totals[False]["cpu_seconds"] / totals[True]["cpu_seconds"]
    return {"same_text": same, "whole": totals[False], "dropped": totals[True], "times_faster": faster}


if __name__ == "__main__":
    main()
