"""What the evaluation tests share: where the benchmarks are, and tasks small enough to know by heart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unmask.tasks.base import Example, Score

TIMING = ("seconds", "phases")


def benchmark_data() -> Path | None:
    """UNMASK_DATA, or the folder shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    asked = os.environ.get("UNMASK_DATA")
    folder = Path(asked) if asked else beside
    return folder if (folder / "gsm8k_test.jsonl").exists() else None


needs_data = pytest.mark.skipif(
    benchmark_data() is None, reason="no benchmark data: set UNMASK_DATA to a folder with gsm8k_test.jsonl and others"
)


class Parity:
    """Right is an answer of even length: a random model solves about half of it. Prompts differ in length."""

    name, version, metric, summary = "parity", 1, "accuracy", "for tests"
    runs_code = False

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        for index in range(12 if limit is None else limit):
            yield Example(f"parity/{index}", f"Say {'one ' * (index * 7 % 5)}{index}", "even")

    def score(self, example: Example, text: str) -> Score:
        return Score(len(text) % 2 == 0, str(len(text)), "" if len(text) % 2 == 0 else "odd")


class Poisoned(Parity):
    """Among good examples: an empty prompt, one longer than any context, one whose scoring crashes."""

    name = "poisoned"

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        for index, example in enumerate(super().examples(split, 9, seed)):
            prompt = {2: " ", 4: "word " * 5000}.get(index, example.prompt)
            yield Example(f"poisoned/{index}", prompt, "even")

    def score(self, example: Example, text: str) -> Score:
        if example.id == "poisoned/6":
            raise ZeroDivisionError("a scorer's bug")
        return super().score(example, text)


class Coded(Parity):
    """As a task that runs code: its sandbox is looked for, and stands in the configuration."""

    name = "coded"
    runs_code = True


class Broken(Parity):
    """Its data cannot be read."""

    name = "broken"

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        raise AssertionError("read although the request is wrong")
        yield


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    from unmask import tasks

    known = {name: f"eval_helpers:{name.title()}" for name in ("parity", "poisoned", "broken", "coded")}
    monkeypatch.setattr(tasks, "_TASKS", {**tasks._TASKS, **known})


def answers(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples without what a clock wrote, in a fixed order."""
    kept = [{key: value for key, value in sample.items() if key not in TIMING} for sample in samples]
    return sorted(kept, key=lambda sample: (sample["decoder"], sample["index"]))


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in (*TIMING, "tps")} for row in rows]
