"""Scoring on trial: gold answers must all be right, deliberately wrong ones all wrong.

python benchmarks/scoring.py --data DIR                 every benchmark, as a Markdown table
UNMASK_SANDBOX=landlock python benchmarks/scoring.py --data DIR --tasks humaneval,mbpp

Wrong is: another example's answer (GSM8K, MATH-500), or functions of the right names that return nothing.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from unmask import sandbox, tasks
from unmask.tasks.base import Example, Task

NAMES = "gsm8k,math500,humaneval,mbpp"


def wrong(examples: Sequence[Example]) -> Iterator[str]:
    """A response per example that answers something else."""
    for index, example in enumerate(examples):
        names = example.meta.get("names") or [example.meta[key] for key in ("entry_point",) if key in example.meta]
        if names:
            yield "\n".join(f"def {name}(*args, **kwargs):\n    return None" for name in names)
        else:
            others = [*examples[index + 1 :], *examples]
            yield next(other.response for other in others if value(other) != value(example))


def value(example: Example) -> str:
    return example.answer.removeprefix("x=").replace(" ", "")


def right(task: Task, examples: Sequence[Example], responses: Sequence[str]) -> list[str]:
    """Ids of the examples whose response is judged right."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        scores = pool.map(task.score, examples, responses)
        return [example.id for example, score in zip(examples, scores, strict=True) if score.correct]


def timed(work: Callable[[], list[str]]) -> tuple[int, float]:
    start = time.perf_counter()
    return len(work()), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with the benchmarks; UNMASK_DATA by default")
    parser.add_argument("--tasks", default=NAMES)
    args = parser.parse_args()
    print("| task | gold right | seconds | wrong right | seconds | sandbox |\n|---|---:|---:|---:|---:|---|")
    for name in args.tasks.split(","):
        task = tasks.get(name)
        if args.data is not None:
            task.data = args.data  # type: ignore[attr-defined]
        examples = list(task.examples())
        gold, first = timed(lambda: right(task, examples, [example.response for example in examples]))  # noqa: B023
        bad, second = timed(lambda: right(task, examples, list(wrong(examples))))  # noqa: B023
        n, walls = len(examples), sandbox.level() if getattr(task, "runs_code", False) else ""
        print(f"| `{name}` | {gold}/{n} | {first:.0f} | {bad}/{n} | {second:.0f} | {walls} |", flush=True)


if __name__ == "__main__":
    main()
